/*-------------------------------------------------------------------------
 *
 * problem.h
 *		Errors as problem documents (RFC 9457).
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_PROBLEM_H
#define HTTP_PROBLEM_H

#include <libpq-fe.h>

#include "request.h"

/* Answer with an error of the daemon's own. */
extern void problem_answer(WebRequest *request, int status, const char *title,
						   const char *detail, const char *hint);

/* Answer with an error that the database raised. */
extern void problem_from_database(WebRequest *request, const PGresult *result);

/* Answer with a denial: its result is in the document. */
extern void problem_denied(WebRequest *request, int status, const char *result);

#endif							/* HTTP_PROBLEM_H */
