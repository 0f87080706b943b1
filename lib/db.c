/*-------------------------------------------------------------------------
 *
 * db.c
 *		The program's one connection to the database, with one call at a time.
 *
 * Only one call is in flight at any time, so no call overtakes another. After
 * a timeout, the program drops the call and its connection. The caller then
 * repeats the call, which is safe for every call.
 *-------------------------------------------------------------------------
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "call_repeat.h"
#include "clock.h"
#include "db.h"
#include "db_hosts.h"
#include "log.h"

#define CALL_LIMIT		(10 * NS_PER_S)
#define PAUSE_LEAST		(250 * NS_PER_MS)
#define PAUSE_MOST		(5 * NS_PER_S)
#define PAUSE_MOST_HOSTS	(1 * NS_PER_S)	/* with several hosts, of which
											 * one takes over within seconds */

typedef enum DbStage
{
	DB_CLOSED, DB_CONNECTING, DB_IDLE, DB_CALLING
} DbStage;

static const char *database;	/* the libpq connection string */
static const char *listen_to;	/* the LISTEN statement, or NULL if the
								 * program needs no notifications */
static const char *listen_for;	/* the payload of notifications that are meant
								 * for this program */
static PGconn * conn;
static DbStage stage = DB_CLOSED;
static PostgresPollingStatusType wants;
static int64_t since_ns;		/* when the present stage began, on the
								 * monotonic clock */
static int64_t pause_ns = PAUSE_LEAST;	/* before the next attempt to connect */
static int64_t round_pause_ns = PAUSE_LEAST;	/* after all hosts of the list
												 * failed */
static int	failures;			/* successive attempts to connect that failed */
static DbAnswer waiting;
static void *waiting_context;
static PGresult * kept;			/* last result of the call in flight, until
								 * the call is complete */
static int	connects;

static void set_stage(DbStage next);
static void drop_connection(const char *why);
static void try_next_host(void);
static void connect_begin(void);
static void connect_go_on(void);
static void listens(PGresult * result, void *context);
static void read_answer(void);
static void answered(PGresult * result);

/*
 * Sets the database that DbWork() connects to, the LISTEN statement, and the
 * payload of the notifications that DbNotified() reports. Ends the program if
 * the connection string lists hosts and ports that do not fit together.
 */
void
DbUse(const char *conninfo, const char *listen, const char *payload)
{
	char	   *mistake = HostsCheck(conninfo);

	if (mistake != NULL)
		Die("the connection string of the database is wrong: %s", mistake);
	database = conninfo;
	listen_to = listen;
	listen_for = payload;
}

bool
DbIdle(void)
{
	return stage == DB_IDLE;
}

/*
 * Returns how many connections were made, so that a caller can notice a new
 * one.
 */
int
DbConnects(void)
{
	return connects;
}

/*
 * Sends a call. DbWork() later passes its result to answer().
 */
void
DbCall(const char *sql, int n, const char *const *values, DbAnswer answer,
	   void *context)
{
	waiting = answer;
	waiting_context = context;
	if (!PQsendQueryParams(conn, sql, n, NULL, values, NULL, NULL, 0))
	{
		set_stage(DB_CALLING);
		drop_connection("call_not_sent");
		return;
	}
	set_stage(DB_CALLING);
}

/*
 * Returns the socket to poll, and the events to poll for. Returns -1 if there
 * is no socket and the program only has to wait for a timeout.
 */
int
DbFd(short *events)
{
	*events = 0;
	if (stage == DB_CLOSED)
		return -1;
	if (stage == DB_CONNECTING)
		*events = wants == PGRES_POLLING_WRITING ? POLLOUT : POLLIN;
	else if (stage == DB_CALLING && PQflush(conn) == 1)
		*events = POLLIN | POLLOUT;
	else
		*events = POLLIN;
	return PQsocket(conn);
}

/*
 * Returns in how many milliseconds DbWork() must be called even if the socket
 * reports no event.
 */
int
DbWaitMs(void)
{
	int64_t		limit = stage == DB_CLOSED ? pause_ns :
		stage == DB_CONNECTING ? HostsLimitNs(database) : CALL_LIMIT;
	int64_t		rest = since_ns + limit - MonotonicNs();

	if (stage == DB_IDLE)
		return 60000;
	return rest <= 0 ? 0 : (int) (rest / NS_PER_MS) + 1;
}

/*
 * Advances the connection: connects, reads an answer, or drops a connection
 * that exceeded its time limit.
 */
void
DbWork(void)
{
	bool		late = DbWaitMs() == 0;

	switch (stage)
	{
		case DB_CLOSED:
			if (late)
				connect_begin();
			break;
		case DB_CONNECTING:
			if (late)
				drop_connection("connect_timeout");
			else
				connect_go_on();
			break;
		case DB_IDLE:
			if (!PQconsumeInput(conn))
				drop_connection("connection_lost");
			break;
		case DB_CALLING:
			if (late)
				drop_connection("call_timeout");
			else
				read_answer();
			break;
	}
}

static void
set_stage(DbStage next)
{
	stage = next;
	since_ns = MonotonicNs();
}

/*
 * Closes the connection. A call in flight is answered with NULL.
 */
static void
drop_connection(const char *why)
{
	static const struct linger at_once = {1, 0};
	bool		calling = stage == DB_CALLING;
	bool		connecting = stage == DB_CONNECTING;
	const char *message = conn == NULL ? "" : PQerrorMessage(conn);

	LogLine("event=%s error=\"%.*s\"", why, (int) strcspn(message, "\n"),
			message);

	/*
	 * Close with a reset, so that the server cannot receive the rest of this
	 * call after a later call on a new connection.
	 */
	if (calling && conn != NULL && PQsocket(conn) >= 0)
		(void) setsockopt(PQsocket(conn), SOL_SOCKET, SO_LINGER, &at_once,
						  sizeof(at_once));
	PQfinish(conn);
	conn = NULL;
	PQclear(kept);
	kept = NULL;
	if (connecting)
		try_next_host();
	set_stage(DB_CLOSED);
	if (calling)
		answered(NULL);
}

/*
 * Makes the next attempt connect to the next host of the list. It follows at
 * once, unless all hosts have failed; then it follows after a pause, which
 * doubles each time.
 */
static void
try_next_host(void)
{
	int			hosts = HostsCount(database);
	int64_t		most = hosts > 1 ? PAUSE_MOST_HOSTS : PAUSE_MOST;

	HostsNext();
	pause_ns = 0;
	if (++failures % hosts == 0)
	{
		round_pause_ns = round_pause_ns * 2 > most ? most : round_pause_ns * 2;
		pause_ns = round_pause_ns;
	}
}

static void
connect_begin(void)
{
	set_stage(DB_CONNECTING);
	conn = HostsConnect(database);
	wants = PGRES_POLLING_WRITING;
	if (conn == NULL || PQstatus(conn) == CONNECTION_BAD)
		drop_connection("connect_failed");
}

/*
 * Continues to connect. Once connected, it sends the LISTEN statement if the
 * program has one.
 */
static void
connect_go_on(void)
{
	wants = PQconnectPoll(conn);
	if (wants == PGRES_POLLING_FAILED)
		drop_connection("connect_failed");
	else if (wants == PGRES_POLLING_OK)
	{
		PQsetnonblocking(conn, 1);
		pause_ns = round_pause_ns = PAUSE_LEAST;
		failures = 0;
		set_stage(DB_IDLE);
		connects++;
		LogLine("event=connected");
		if (listen_to != NULL)
			DbCall(listen_to, 0, NULL, listens, NULL);
	}
}

/*
 * Handles the result of LISTEN. A failure is only logged: without
 * notifications, the program gets its news with the next heartbeat.
 */
static void
listens(PGresult * result, void *context)
{
	(void) context;
	if (result != NULL && PQresultStatus(result) != PGRES_COMMAND_OK)
		LogLine("event=listen_refused state=%s error=\"%s\"", DbState(result),
				PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
}

/*
 * Whether a notification with this program's payload has arrived since the
 * last call.
 */
bool
DbNotified(void)
{
	PGnotify   *one;
	bool		any = false;

	while (conn != NULL && (one = PQnotifies(conn)) != NULL)
	{
		any |= strcmp(one->extra, listen_for) == 0;
		PQfreemem(one);
	}
	return any;
}

/*
 * Reads what the server sent, and passes the result on once the call is
 * complete.
 */
static void
read_answer(void)
{
	PGresult   *result;

	if (!PQconsumeInput(conn))
	{
		drop_connection("connection_lost");
		return;
	}
	while (!PQisBusy(conn))
	{
		result = PQgetResult(conn);
		if (result == NULL)
		{
			result = kept;
			kept = NULL;
			if (PQstatus(conn) == CONNECTION_BAD)
			{
				PQclear(result);
				drop_connection("connection_lost");
				return;
			}
			set_stage(DB_IDLE);

			/*
			 * The server became a standby or shuts down: connect to another
			 * one.
			 */
			if (CallMayRepeat(result) == REPEAT_ELSEWHERE)
			{
				HostsNext();
				drop_connection("server_refuses");
			}
			answered(result);
			PQclear(result);
			return;
		}
		PQclear(kept);
		kept = result;
	}
}

static void
answered(PGresult * result)
{
	DbAnswer	answer = waiting;

	waiting = NULL;
	if (answer != NULL)
		answer(result, waiting_context);
}

/*
 * Returns the SQLSTATE of a result, or an empty string if there was no error.
 */
const char *
DbState(const PGresult * result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return state == NULL ? "" : state;
}

/*
 * Returns a field as text, or NULL if it is null or there is no such column.
 */
const char *
DbField(const PGresult * result, int row, const char *name)
{
	int			column = PQfnumber(result, name);

	return column < 0 || PQgetisnull(result, row, column) ? NULL :
		PQgetvalue(result, row, column);
}
