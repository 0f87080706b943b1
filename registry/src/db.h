/*-------------------------------------------------------------------------
 *
 * db.h
 *		Calls the database.
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_DB_H
#define REGISTRYD_DB_H

#include <libpq-fe.h>

/*
 * An item of FROM by which the transaction of a call commits as a parameter
 * says: "off" returns before the server's WAL is on disk. NULL changes nothing.
 * The next transaction that waits for its own commit makes it durable, too, and
 * a crash of the server can lose what it committed in the last 0.6 seconds.
 */
#define DB_COMMIT(parameter) \
	"pg_catalog.set_config('synchronous_commit', coalesce(" parameter "::text," \
	" pg_catalog.current_setting('synchronous_commit')), true)"

typedef struct DbError
{
	char		sqlstate[6];
	char		message[512];
} DbError;

extern void db_error(DbError *error, const char *sqlstate,
					 const char *message);
extern PGresult * db_call(DbError *error, const char *statement, int n,
						  const char *const *values, const int *lengths,
						  const int *formats);
extern PGresult * db_call_for(DbError *error, int client, const char *statement,
							  int n, const char *const *values,
							  const int *lengths, const int *formats);
extern char *db_array(int n, const char *(*word) (const void *, int, char *),
					  const void *of);

#endif							/* REGISTRYD_DB_H */
