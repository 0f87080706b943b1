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

/* Starts the thread, unless the options disable webhooks in this daemon. */
extern bool webhooks_start(void);

/* Stops: starts no more attempts, and waits for those that are under way. */
extern void webhooks_stop(void);

/*
 * Returns the number of attempts since the start that succeeded, or that
 * failed.
 */
extern unsigned long long webhooks_attempts(bool of_success);

/* Returns the number of attempts that are under way. */
extern int	webhooks_underway(void);

#endif							/* HTTP_WEBHOOK_H */
