/*-------------------------------------------------------------------------
 *
 * signin.h
 *		Signs people in with an identity provider (OpenID Connect).
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_SIGNIN_H
#define HTTP_SIGNIN_H

#include <libpq-fe.h>

#include "request.h"

/* Records in a request which of the addresses below /v1/sign_in it is for. */
extern void signin_find(WebRequest *request);

/*
 * Answers such a request. Returns true if a worker has to begin the session.
 */
extern bool signin_answer(WebRequest *request);

/* Answers it with the database's row or error. */
extern void signin_finish(WebRequest *request, const PGresult *row, const PGresult *error);

#endif							/* HTTP_SIGNIN_H */
