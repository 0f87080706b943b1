/*-------------------------------------------------------------------------
 *
 * worker.h
 *		Threads that answer requests from the database.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_WORKER_H
#define HTTP_WORKER_H

#include "request.h"

extern bool workers_start(void);

/*
 * Suspends a request's connection and queues the request. Returns false, with
 * an answer and without suspending the connection, if too many requests wait.
 */
extern bool worker_enqueue(WebRequest *request);

/* Queues a request whose connection is suspended already. */
extern bool worker_enqueue_suspended(WebRequest *request);

/* Stops the threads once all queued requests are answered. */
extern void workers_stop(void);

/* Whether the last request reached the database. */
extern bool workers_ready(void);

#endif							/* HTTP_WORKER_H */
