/*-------------------------------------------------------------------------
 *
 * db.c
 *		Calls the database, on a few shared connections.
 *
 * A call that failed because of another transaction (SQLSTATE class 40, or a
 * row that was deleted in the meantime) is repeated. A call whose connection
 * broke is not, because it may have taken effect; the client repeats what it
 * needs. A call on behalf of a client is cancelled when the client leaves.
 *-------------------------------------------------------------------------
 */
#include "db.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call_repeat.h"
#include "log.h"
#include "options.h"

#define TRIES	5

typedef struct Connection
{
	PGconn	   *conn;
	bool		cancelled;		/* it is not used again */
	struct Connection *next;
} Connection;

static Connection *idle = NULL;
static int	open_connections = 0;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;

/*
 * Whether the server has ended a connection while it was idle, as it does when
 * it restarts. Then an end of file is waiting, after a message perhaps.
 */
static bool
is_stale(PGconn * conn)
{
	struct pollfd socket = {.fd = PQsocket(conn), .events = POLLIN};

	while (PQstatus(conn) == CONNECTION_OK && poll(&socket, 1, 0) > 0)
	{
		if (!PQconsumeInput(conn))
			return true;
	}
	return PQstatus(conn) != CONNECTION_OK;
}

/*
 * Turns off the compilation of plans on a new connection: the calls are short,
 * and to compile one takes longer than to run it. A call on a connection that
 * could not be made fails by itself.
 */
static void
prepare_connection(PGconn * conn)
{
	PQclear(PQexec(conn, "SET jit = off"));
}

/*
 * Returns an idle connection, made anew if the server has ended it, so that no
 * request fails because of a restart before it; or a new one. Waits while the limit of
 * connections is reached.
 */
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
		{
			c->conn = PQconnectdb(options.database);
			prepare_connection(c->conn);
		}
	}
	else if (is_stale(c->conn))
	{
		PQreset(c->conn);
		prepare_connection(c->conn);
	}
	return c;
}

/*
 * Returns a connection for reuse. A broken connection is closed, and one on
 * which a statement was cancelled, because the cancellation could still hit
 * the next statement.
 */
static void
release_connection(Connection *c)
{
	bool		good = c != NULL && !c->cancelled &&
		PQstatus(c->conn) == CONNECTION_OK;

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

/* Whether running the statement again at once can succeed. */
static bool
is_repeatable(const PGresult * result, const DbError *error)
{
	/*
	 * 23503: a row that the statement refers to was deleted in the meantime.
	 */
	return CallMayRepeat(result) == REPEAT_AT_ONCE || strcmp(error->sqlstate, "23503") == 0;
}

static void
report_error(DbError *error, PGconn * conn, PGresult * result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	db_error(error, state != NULL ? state : "08006",
			 message != NULL ? message : PQerrorMessage(conn));
}

/* Asks the server to end the statement that runs on a connection. */
static void
cancel_statement(Connection *c)
{
	PGcancel   *cancel = PQgetCancel(c->conn);
	char		message[256];

	if (cancel != NULL && !PQcancel(cancel, message, sizeof(message)))
		LogLine("a statement was not cancelled: %s", message);
	PQfreeCancel(cancel);
	c->cancelled = true;
}

/*
 * Returns the result of the statement that was sent on a connection, or NULL
 * without one. Cancels the statement when the client's socket is closed.
 */
static PGresult *
await_result(Connection *c, int client)
{
	PGresult   *result;
	PGresult   *more;

	while (PQisBusy(c->conn))
	{
		struct pollfd sockets[] = {
			{.fd = PQsocket(c->conn), .events = POLLIN},
			{.fd = c->cancelled ? -1 : client, .events = POLLRDHUP}
		};

		if (poll(sockets, 2, -1) < 0)
			continue;
		if (sockets[1].revents != 0)
			cancel_statement(c);
		if (sockets[0].revents != 0 && !PQconsumeInput(c->conn))
			break;
	}
	result = PQgetResult(c->conn);
	while ((more = PQgetResult(c->conn)) != NULL)
		PQclear(more);
	return result;
}

/*
 * Runs a statement that returns at least one row. Returns NULL and sets the
 * error on failure. "lengths" and "formats" may be NULL, which means that all
 * parameters are text.
 */
PGresult *
db_call(DbError *error, const char *statement, int n,
		const char *const *values, const int *lengths, const int *formats)
{
	return db_call_for(error, -1, statement, n, values, lengths, formats);
}

/*
 * As db_call(), on behalf of the client of a socket: if the client leaves, the
 * statement is cancelled, so that it holds no locks and computes nothing for
 * nobody. A client that has closed its sending side counts as gone.
 */
PGresult *
db_call_for(DbError *error, int client, const char *statement, int n,
			const char *const *values, const int *lengths, const int *formats)
{
	Connection *c = acquire_connection();
	PGresult   *result = NULL;
	bool		repeats = true;

	for (int i = 0; c != NULL && repeats && i < TRIES; i++)
	{
		if (PQsendQueryParams(c->conn, statement, n, NULL, values, lengths,
							  formats, 0))
			result = await_result(c, client);
		if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0)
			break;
		report_error(error, c->conn, result);
		repeats = !c->cancelled && is_repeatable(result, error);
		PQclear(result);
		result = NULL;
	}
	if (c == NULL)
		db_error(error, "53200", "out of memory");
	release_connection(c);
	return result;
}

/*
 * Formats an SQL array whose elements need no escapes except quotes. word()
 * writes an element to a buffer of 128 bytes, or returns NULL for a null. The
 * caller frees the text.
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
