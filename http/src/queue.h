/*-------------------------------------------------------------------------
 *
 * queue.h
 *		Requests that wait for a worker.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_QUEUE_H
#define HTTP_QUEUE_H

#include "request.h"

/* Prepare for so many workers; false if memory or random bytes are lacking. */
extern bool queue_init(int workers);

/* Suspend a request's connection and add the request; false if it is full. */
extern bool queue_add(WebRequest *request);

/* The next request for a worker; NULL once all are answered and no more come. */
extern WebRequest *queue_next(int worker);

/* The worker is done with its request, which acted as this role, if one. */
extern void queue_done(int worker, const char *token, const char *role);

/* No more requests come. */
extern void queue_stop(void);

extern int	queue_length(void);

#endif							/* HTTP_QUEUE_H */
