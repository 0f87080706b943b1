/*-------------------------------------------------------------------------
 *
 * follow.c
 *		Reads the feed of events for the streams.
 *
 * There are two threads, each with its own connection. One follows the feed:
 * it has committed events numbered, reads them once for all streams, and
 * checks the streams' tokens. It polls every 100 ms while a stream is open,
 * and at once when a NOTIFY reports that another daemon or the upkeep worker
 * has numbered events, or that a token or a session has ended. The other
 * thread reads pages of events for streams that are behind, each with the
 * rights of the stream's token.
 *-------------------------------------------------------------------------
 */
#include "follow.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database.h"
#include "log.h"
#include "options.h"
#include "stream.h"

#define POLL_MS			100
#define READ_ANYWAY_US	1000000 /* interval of reading without a NOTIFY, since
								 * one may be lost */
#define CHECK_US		30000000	/* interval of checking tokens without a
									 * NOTIFY */
#define CHECK_PAUSE_US	1000000 /* shortest time between two checks caused by
								 * NOTIFY */
#define SWEEP_US		1000000 /* interval of ending stalled streams and
								 * sending keep-alives */
#define PAGE			"500"

typedef struct Follower
{
	PGconn	   *connection;
	bool		knows;			/* "last" is known */
	int64_t		last;
	int64_t		read_us;
	int64_t		checked_us;
	bool		has_events;		/* a NOTIFY about events has arrived since the
								 * last read */
	bool		has_ends;		/* a NOTIFY about the end of a token or session
								 * has arrived */
	int64_t		swept_us;
}			Follower;

static pthread_t threads[2];
static atomic_bool stopping = false;

/* Runs a statement. Returns its rows, or NULL after an error. */
static PGresult *
run(Follower * follower, const char *statement, int n, const char *const *values)
{
	PGresult   *result = PQexecParams(follower->connection, statement, n, NULL, values, NULL, NULL, 0);

	if (PQresultStatus(result) == PGRES_TUPLES_OK)
		return result;
	LogLine("events: %s", PQresultErrorMessage(result));
	PQclear(result);
	return NULL;
}

/* Returns the single number that a statement selects, or -1 if it failed. */
static int64_t
run_number(Follower * follower, const char *statement)
{
	PGresult   *result = run(follower, statement, 0, NULL);
	int64_t		number = result != NULL ? atoll(PQgetvalue(result, 0, 0)) : -1;

	PQclear(result);
	return number;
}

/*
 * Connects and listens, unless the connection works. Without it, no stream is
 * live. A standby does not allow LISTEN, so it is tried again from time to
 * time.
 */
static bool
connect_follower(Follower * follower)
{
	PGresult   *result;
	bool		good;

	if (follower->connection != NULL && PQstatus(follower->connection) == CONNECTION_OK)
		return true;
	follower->knows = false;
	streams_feed_lost();
	PQfinish(follower->connection);
	follower->connection = database_connect();
	if (follower->connection == NULL)
		return false;
	result = PQexec(follower->connection, "LISTEN gpucredit_event; LISTEN gpucredit_token");
	good = PQresultStatus(result) == PGRES_COMMAND_OK;
	PQclear(result);
	return good;
}

/* Records which notifications have arrived. */
static void
read_notifications(Follower * follower)
{
	PGnotify   *notify;

	PQconsumeInput(follower->connection);
	while ((notify = PQnotifies(follower->connection)) != NULL)
	{
		if (strcmp(notify->relname, "gpucredit_token") == 0)
			follower->has_ends = true;
		else
			follower->has_events = true;
		PQfreemem(notify);
	}
}

static StreamEvent
event_of(const PGresult * rows, int i)
{
	return (StreamEvent)
	{
		.number = atoll(PQgetvalue(rows, i, 0)), .kind = PQgetvalue(rows, i, 1),
			.org = PQgetvalue(rows, i, 2), .account = PQgetvalue(rows, i, 3),
			.job = atoll(PQgetvalue(rows, i, 4)), .content = PQgetvalue(rows, i, 5)
	};
}

/* Sends the new events of the feed to the streams. */
static void
read_feed(Follower * follower)
{
	char		after[24];
	const char *values[] = {after, PAGE};
	int			n;

	follower->has_events = false;
	do
	{
		PGresult   *rows;

		snprintf(after, sizeof(after), "%lld", (long long) follower->last);
		rows = run(follower, "SELECT * FROM gpucredit_http.feed($1, $2)", 2, values);
		n = PQntuples(rows);
		for (int i = 0; i < n; i++)
		{
			StreamEvent event = event_of(rows, i);

			streams_send(&event);
			follower->last = event.number;
		}
		PQclear(rows);
	} while (n == atoi(PAGE) && !atomic_load(&stopping));
	follower->read_us = now_us();
}

/* Ends streams whose token is no longer valid. */
static void
check_tokens(Follower * follower)
{
	char	   *tokens = NULL;
	char	   *sessions = NULL;
	PGresult   *good = NULL;

	follower->has_ends = false;
	if (streams_tokens(&tokens, &sessions))
	{
		const char *values[] = {tokens, sessions};

		good = run(follower, "SELECT * FROM gpucredit_http.good_tokens($1, $2)", 2, values);
	}
	if (good != NULL)
		streams_check(good);
	PQclear(good);
	free(tokens);
	free(sessions);
	follower->checked_us = now_us();
}

/* Does one round of following the feed. */
static void
follow(Follower * follower)
{
	int64_t		pause_us;

	read_notifications(follower);
	if (!follower->knows)
	{
		follower->last = run_number(follower, "SELECT gpucredit_http.feed_end()");
		follower->knows = follower->last >= 0;
		if (!follower->knows)
			return;
		streams_follow(follower->last);
	}
	if (run_number(follower, "SELECT gpucredit_http.number_events()") > 0 ||
		follower->has_events ||
		now_us() - follower->read_us > READ_ANYWAY_US)
		read_feed(follower);
	pause_us = follower->has_ends ? CHECK_PAUSE_US : CHECK_US;
	if (now_us() - follower->checked_us > pause_us)
		check_tokens(follower);
}

/* Waits until data from the database arrives, or until the time has passed. */
static void
wait_a_moment(PGconn * connection, int ms)
{
	struct pollfd one = {.fd = -1, .events = POLLIN};

	if (connection != NULL)
		one.fd = PQsocket(connection);
	poll(&one, 1, ms);
}

/* Thread that follows the feed while a stream is open. */
static void *
follow_main(void *unused)
{
	Follower	follower = {0};

	(void) unused;
	while (!atomic_load(&stopping))
	{
		if (now_us() - follower.swept_us > SWEEP_US)
		{
			streams_end_stalled();
			streams_send_keepalives();
			follower.swept_us = now_us();
		}
		if (streams_count() == 0)
		{
			follower.knows = false;
			streams_feed_lost();
			wait_a_moment(NULL, POLL_MS);
		}
		else if (connect_follower(&follower))
		{
			follow(&follower);
			wait_a_moment(follower.connection, POLL_MS);
		}
		else
			wait_a_moment(NULL, 500);
	}
	PQfinish(follower.connection);
	return NULL;
}

/* Thread that reads pages for streams that are behind. */
static void *
page_main(void *unused)
{
	PGconn	   *connection = NULL;
	StreamPage	page = {0};

	(void) unused;
	while (streams_next_page(&page))
	{
		PGresult   *rows = NULL;
		PGresult   *error = NULL;

		if (!database_stream_page(&connection, &page, &rows, &error))
			streams_retry(&page);
		else if (error == NULL && rows != NULL)
			streams_add_page(&page, rows);
		else
		{
			const char *sqlstate = PQresultErrorField(error, PG_DIAG_SQLSTATE);

			LogLine("events: %s", PQresultErrorMessage(error));
			/*
			 * An invalid token, or a role that may not read events, ends the
			 * stream.
			 */
			if (sqlstate == NULL || strncmp(sqlstate, "28", 2) == 0 || strncmp(sqlstate, "42", 2) == 0)
				streams_end(&page);
			else
				streams_retry(&page);
		}
		PQclear(rows);
		PQclear(error);
	}
	PQfinish(connection);
	return NULL;
}

bool
follow_start(void)
{
	return pthread_create(&threads[0], NULL, follow_main, NULL) == 0 &&
		pthread_create(&threads[1], NULL, page_main, NULL) == 0;
}

void
follow_stop(void)
{
	atomic_store(&stopping, true);
	streams_stop();
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
}
