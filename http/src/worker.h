/*-------------------------------------------------------------------------
 *
 * worker.h
 *		Threads that have requests answered.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_WORKER_H
#define HTTP_WORKER_H

#include "request.h"

extern bool workers_start(void);

/*
 * Suspend a request's connection and queue the request.  False, with an answer
 * and without a suspension, if too many wait.
 */
extern bool worker_enqueue(WebRequest *request);

/* Answer what is queued, and end. */
extern void workers_stop(void);

/* Does the database answer? */
extern bool workers_ready(void);

#endif							/* HTTP_WORKER_H */
