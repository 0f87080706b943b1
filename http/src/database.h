/*-------------------------------------------------------------------------
 *
 * database.h
 *		Has the database answer a request.
 *-------------------------------------------------------------------------
 */
#ifndef HTTP_DATABASE_H
#define HTTP_DATABASE_H

#include <libpq-fe.h>

#include "request.h"

struct StreamPage;

/* Answers a request on a worker's connection, which is opened when needed. */
extern void database_answer(PGconn **connection, WebRequest *request);

/*
 * Checks the token of a request whose body has not arrived. Returns false,
 * with an answer, if it is not valid.
 */
extern bool database_check_token(PGconn **connection, WebRequest *request);

/*
 * Opens a connection for the daemon's own statements. Returns NULL after a log
 * line on failure.
 */
extern PGconn *database_connect(void);

/*
 * Opens such a connection, at READ COMMITTED, unless this one works. Returns
 * false on failure.
 */
extern bool database_keep_connected(PGconn **connection);

/*
 * Runs a statement of a thread of the daemon. Returns its rows, or NULL after a
 * log line that begins with the thread's name.
 */
extern PGresult *database_rows(PGconn *connection, const char *thread, const char *statement,
							   int n, const char *const *values);

/*
 * Reads a page of a stream, with the rights of its token. Returns false if the
 * database cannot be reached.
 */
extern bool database_stream_page(PGconn **connection, const struct StreamPage *page,
								 PGresult **rows, PGresult **error);

/* Whether the database answers at all. */
extern bool database_ready(PGconn **connection);

#endif							/* HTTP_DATABASE_H */
