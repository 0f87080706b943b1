/*-------------------------------------------------------------------------
 *
 * span.h
 *		Sends spans of jobs to a collector of OpenTelemetry.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_SPAN_H
#define HTTP_SPAN_H

#include <stdbool.h>

/* Starts the thread, if the operator has named a collector. */
extern bool spans_start(void);

/* Ends the thread; a transfer that is under way is broken off. */
extern void spans_stop(void);

/* Number of spans that the collector has accepted, or refused. */
extern unsigned long long spans_sent(bool accepted);

/* Number of attempts to reach the collector that failed. */
extern unsigned long long spans_failures(void);

#endif							/* HTTP_SPAN_H */
