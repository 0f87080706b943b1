/*-------------------------------------------------------------------------
 *
 * queue.h
 *		The queue of requests that wait for a worker.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_QUEUE_H
#define HTTP_QUEUE_H

#include "request.h"

/*
 * Prepares the queue for a number of workers. Returns false if memory or
 * random bytes are not available.
 */
extern bool queue_init(int workers);

/*
 * Suspends a request's connection, unless it is suspended already, and adds
 * the request. Returns false if the queue is full.
 */
extern bool queue_add(WebRequest *request, bool is_suspended);

/*
 * Returns the next request for a worker. Returns NULL once all are answered
 * and the queue is stopped.
 */
extern WebRequest *queue_next(int worker);

/*
 * Reports that the worker has answered its request, and the role that the
 * request acted as, if any.
 */
extern void queue_done(int worker, const char *token, const char *role);

/* Stops the queue: no more requests are added. */
extern void queue_stop(void);

extern int	queue_length(void);

#endif							/* HTTP_QUEUE_H */
