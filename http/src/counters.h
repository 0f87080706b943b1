/*-------------------------------------------------------------------------
 *
 * counters.h
 *		Counts requests, and formats the counters for Prometheus.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_COUNTERS_H
#define HTTP_COUNTERS_H

#include "request.h"

/* Counts a request that has been answered. */
extern void count_answer(const WebRequest *request);

/*
 * Returns the counters as text that the caller frees, or NULL if memory runs
 * out.
 */
extern char *counters_text(void);

#endif							/* HTTP_COUNTERS_H */
