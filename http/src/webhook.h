/*-------------------------------------------------------------------------
 *
 * webhook.h
 *		The thread that delivers events to webhooks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_WEBHOOK_H
#define HTTP_WEBHOOK_H

#include <stdbool.h>

/* Begin, unless the options say that this daemon delivers none. */
extern bool webhooks_start(void);

/* Begin no attempt, wait for those that are underway, and end. */
extern void webhooks_stop(void);

/* Attempts since the start: those that succeeded, and those that failed. */
extern unsigned long long webhooks_attempts(bool of_success);

/* Attempts that are underway. */
extern int	webhooks_underway(void);

#endif							/* HTTP_WEBHOOK_H */
