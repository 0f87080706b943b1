/*-------------------------------------------------------------------------
 *
 * counters.h
 *		What the daemon counts, as Prometheus reads it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_COUNTERS_H
#define HTTP_COUNTERS_H

#include "request.h"

/* Count a request that has been answered. */
extern void count_answer(const WebRequest *request);

/* The counters, to be freed; NULL without memory. */
extern char *counters_text(void);

#endif							/* HTTP_COUNTERS_H */
