/*-------------------------------------------------------------------------
 *
 * db.c
 *		Calls the database, on a few shared connections.
 *
 * A call that failed because of another transaction (class 40, or a row that
 * was deleted meanwhile) is repeated.  A call whose connection broke is not:
 * nobody knows whether it took effect, and the client repeats what it needs.
 *
 *-------------------------------------------------------------------------
 */
#include "db.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

#define TRIES	5

typedef struct Connection
{
	PGconn	   *conn;
	struct Connection *next;
} Connection;

static Connection *idle = NULL;
static int	open_connections = 0;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;

/* An idle connection, or a new one; waits while there are too many. */
static Connection *
acquire_connection(void)
{
	Connection *c;

	pthread_mutex_lock(&lock);
	while (idle == NULL && open_connections >= options.connections)
		pthread_cond_wait(&released, &lock);
	c = idle;
	if (c != NULL)
		idle = c->next;
	else
		open_connections++;
	pthread_mutex_unlock(&lock);
	if (c == NULL)
	{
		c = calloc(1, sizeof(Connection));
		if (c != NULL)
			c->conn = PQconnectdb(options.database);
	}
	return c;
}

/* Give a connection back; a broken one is closed. */
static void
release_connection(Connection *c)
{
	bool		good = c != NULL && PQstatus(c->conn) == CONNECTION_OK;

	pthread_mutex_lock(&lock);
	if (good)
	{
		c->next = idle;
		idle = c;
	}
	else
		open_connections--;
	pthread_cond_signal(&released);
	pthread_mutex_unlock(&lock);
	if (!good && c != NULL)
	{
		PQfinish(c->conn);
		free(c);
	}
}

void
db_error(DbError *error, const char *sqlstate, const char *message)
{
	snprintf(error->sqlstate, sizeof(error->sqlstate), "%s", sqlstate);
	snprintf(error->message, sizeof(error->message), "%s", message);
}

static bool
repeatable(const char *sqlstate)
{
	return strncmp(sqlstate, "40", 2) == 0 || strcmp(sqlstate, "23503") == 0;
}

static void
report_error(DbError *error, PGconn * conn, PGresult * result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	db_error(error, state != NULL ? state : "08006",
			 message != NULL ? message : PQerrorMessage(conn));
}

/*
 * Run a statement that returns one row or more; NULL and the reason if it
 * failed.  Lengths and formats may be NULL: all text.
 */
PGresult *
db_call(DbError *error, const char *statement, int n,
		const char *const *values, const int *lengths, const int *formats)
{
	Connection *c = acquire_connection();
	PGresult   *result = NULL;

	for (int i = 0; c != NULL && i < TRIES; i++)
	{
		result = PQexecParams(c->conn, statement, n, NULL, values, lengths,
							  formats, 0);
		if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0)
			break;
		report_error(error, c->conn, result);
		PQclear(result);
		result = NULL;
		if (!repeatable(error->sqlstate))
			break;
	}
	if (c == NULL)
		db_error(error, "53200", "out of memory");
	release_connection(c);
	return result;
}

/*
 * The text of an array whose words need no escapes but quotes; a word is
 * written to a buffer of 128 bytes, or is NULL.  To be freed.
 */
char *
db_array(int n, const char *(*word) (const void *, int, char *), const void *of)
{
	char	   *text = malloc((size_t) n * 132 + 3);
	char	   *end = text;

	if (text == NULL)
		return NULL;
	*end++ = '{';
	for (int i = 0; i < n; i++)
	{
		char		buffer[128];
		const char *value = word(of, i, buffer);

		end += sprintf(end, "%s%s", i > 0 ? "," : "",
					   value != NULL ? value : "NULL");
	}
	strcpy(end, "}");
	return text;
}
