/*-------------------------------------------------------------------------
 *
 * db.c
 *		A program's one connection to the database: one call at a time.
 *
 * One call is in flight at any time, so none overtakes another.  After a
 * timeout the program drops the call and its connection.  The caller repeats
 * the call, as every call may be repeated.
 *
 *-------------------------------------------------------------------------
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "db.h"
#include "db_hosts.h"
#include "util.h"

#define CALL_LIMIT		(10 * NS_PER_S)
#define PAUSE_LEAST		(250 * NS_PER_MS)
#define PAUSE_MOST		(5 * NS_PER_S)

typedef enum DbStage
{
	DB_CLOSED, DB_CONNECTING, DB_IDLE, DB_CALLING
} DbStage;

static const char *database;	/* a libpq connection string */
static const char *listen_to;	/* LISTEN, or NULL */
static const char *listen_for;	/* the payload that is ours */
static PGconn * conn;
static DbStage stage = DB_CLOSED;
static PostgresPollingStatusType wants;
static int64_t since_ns;		/* when the stage began */
static int64_t pause_ns = PAUSE_LEAST;
static DbAnswer waiting;
static void *waiting_context;
static PGresult * kept;			/* of the call in flight */
static int	connects;

static void set_stage(DbStage next);
static void drop_connection(const char *why);
static void connect_begin(void);
static void connect_go_on(void);
static void listens(PGresult * result, void *context);
static void read_answer(void);
static void answered(PGresult * result);

/*
 * Set what DbWork() connects to, and which notifications count.
 */
void
DbUse(const char *conninfo, const char *listen, const char *payload)
{
	database = conninfo;
	listen_to = listen;
	listen_for = payload;
}

bool
DbIdle(void)
{
	return stage == DB_IDLE;
}

/* counts connections */
int
DbConnects(void)
{
	return connects;
}

/*
 * Send a call; DbWork() delivers the answer.
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
 * The events to wait for; -1: only a timeout.
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

/* how long until work is due without an event */
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
 * Continue the present stage.
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
			{
				HostsNext();
				drop_connection("connect_timeout");
			}
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

/*
 * The server takes no writes: look for another one.
 */
void
DbReadOnly(void)
{
	drop_connection("read_only");
}

static void
set_stage(DbStage next)
{
	stage = next;
	since_ns = MonotonicNs();
}

/*
 * End the connection; a call in flight gets no answer.
 */
static void
drop_connection(const char *why)
{
	static const struct linger at_once = {1, 0};
	bool		calling = stage == DB_CALLING;
	const char *message = conn == NULL ? "" : PQerrorMessage(conn);

	LogLine("event=%s error=\"%.*s\"", why, (int) strcspn(message, "\n"),
			message);
	/* a late result must not follow a later call */
	if (calling && conn != NULL && PQsocket(conn) >= 0)
		(void) setsockopt(PQsocket(conn), SOL_SOCKET, SO_LINGER, &at_once,
						  sizeof(at_once));
	PQfinish(conn);
	conn = NULL;
	PQclear(kept);
	kept = NULL;
	set_stage(DB_CLOSED);
	if (calling)
		answered(NULL);
}

static void
connect_begin(void)
{
	set_stage(DB_CONNECTING);
	pause_ns = pause_ns * 2 > PAUSE_MOST ? PAUSE_MOST : pause_ns * 2;
	conn = HostsConnect(database);
	wants = PGRES_POLLING_WRITING;
	if (conn == NULL || PQstatus(conn) == CONNECTION_BAD)
		drop_connection("connect_failed");
}

/*
 * After connecting, LISTEN if the program wants to.
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
		pause_ns = PAUSE_LEAST;
		set_stage(DB_IDLE);
		connects++;
		LogLine("event=connected");
		if (listen_to != NULL)
			DbCall(listen_to, 0, NULL, listens, NULL);
	}
}

/*
 * Without notifications, news comes with the next heartbeat.
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
 * Did a notification name us?
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
 * Read the answer; deliver it once complete.
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

/* the error's SQLSTATE; empty: no error */
const char *
DbState(const PGresult * result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return state == NULL ? "" : state;
}

/* NULL for a null, or a missing column */
const char *
DbField(const PGresult * result, int row, const char *name)
{
	int			column = PQfnumber(result, name);

	return column < 0 || PQgetisnull(result, row, column) ? NULL :
		PQgetvalue(result, row, column);
}
