/*-------------------------------------------------------------------------
 *
 * database.h
 *		Has a request answered by the database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_DATABASE_H
#define HTTP_DATABASE_H

#include <libpq-fe.h>

#include "request.h"

struct StreamPage;

/* Answer a request on a worker's connection, which is made when it is needed. */
extern void database_answer(PGconn **connection, WebRequest *request);

/* Check the token of a request whose body has not come; false, with an answer. */
extern bool database_check_token(PGconn **connection, WebRequest *request);

/* A connection for statements of the daemon's own; NULL, with a line in the log. */
extern PGconn *database_connect(void);

/* A page of a stream, with the rights of its token; false: no database. */
extern bool database_stream_page(PGconn **connection, const struct StreamPage *page,
								 PGresult **rows, PGresult **error);

/* Does the database answer at all? */
extern bool database_ready(PGconn **connection);

#endif							/* HTTP_DATABASE_H */
