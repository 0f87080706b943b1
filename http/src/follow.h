/*-------------------------------------------------------------------------
 *
 * follow.h
 *		Reads the feed of events for the streams.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_FOLLOW_H
#define HTTP_FOLLOW_H

#include <stdbool.h>

extern bool follow_start(void);
extern void follow_stop(void);

#endif							/* HTTP_FOLLOW_H */
