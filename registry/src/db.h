/*-------------------------------------------------------------------------
 *
 * db.h
 *		Calls the database.
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRYD_DB_H
#define REGISTRYD_DB_H

#include <libpq-fe.h>

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
