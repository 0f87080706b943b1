/*-------------------------------------------------------------------------
 *
 * problem.h
 *		Answers errors as problem documents (RFC 9457).
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_PROBLEM_H
#define HTTP_PROBLEM_H

#include <libpq-fe.h>

#include "request.h"

/* Answers with an error of the daemon itself. */
extern void problem_answer(WebRequest *request, int status, const char *title,
						   const char *detail, const char *hint);

/* Answers with an error that the database raised. */
extern void problem_from_database(WebRequest *request, const PGresult *result);

/* Answers with a denial, whose result is included in the document. */
extern void problem_denied(WebRequest *request, int status, const char *result);

#endif							/* HTTP_PROBLEM_H */
