/*-------------------------------------------------------------------------
 *
 * identity.h
 *		Threads that check requests against identity providers.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_IDENTITY_H
#define HTTP_IDENTITY_H

#include "request.h"

extern bool identity_start(void);

/* Stops the threads. Requests that wait are answered first. */
extern void identity_stop(void);

/*
 * Whether one of these threads must handle the request before a worker does.
 */
extern bool identity_is_needed(const WebRequest *request);

/*
 * Suspends a request's connection and queues the request. Returns false, with
 * an answer, if too many wait. Later the request is answered, or passed to the
 * workers.
 */
extern bool identity_enqueue(WebRequest *request);

#endif							/* HTTP_IDENTITY_H */
