/*-------------------------------------------------------------------------
 *
 * logs.c
 *		gpucredit logs: a job's output, from its node.
 *
 * The command asks the node piece by piece (log_wish), a few ahead while there
 * is more.  The database may already have a piece from before.  So an answer
 * counts as new only if it was missing at the request.
 *
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#define PIECE		65536
#define AHEAD		4			/* pieces requested at once */
#define ASK_AGAIN	5.0			/* seconds */
#define AWAY		15.0		/* without an answer for so long, the node is
								 * away */
#define PATIENCE	60			/* seconds without a database */

/* The request. */
typedef struct Logs
{
	const char *job;
	const char *attempt;		/* NULL: the newest */
	const char *node;			/* NULL: the first */
	int64_t		from;
	int64_t		tail;			/* the last so many bytes; -1: all */
	bool		follow;
	bool		any_attempt;	/* follow the next attempt as well */
} Logs;

/* One of the job's streams. */
typedef struct LogStream
{
	const char *name;
	FILE	   *out;
	bool		wanted;
	bool		over;
	int64_t		at;				/* -1: where the tail begins, once known */
	int64_t		written;
	int64_t		until;			/* where to stop without following; -1: not
								 * yet known */
	int64_t		dropped;
	double		asked;			/* 0: not */
	double		since;			/* when the missing answer was requested */
} LogStream;

static int	status = CLI_DONE;
static bool said_waits;
static bool said_silent;

static void parse_options(Logs *logs, LogStream *streams, int argc,
						  char **argv);
static void show_attempt(Logs *logs, LogStream *streams);
static bool step(Logs *logs, LogStream *s);
static bool print_piece(const Logs *logs, LogStream *s, PGresult * row,
						bool fresh);
static void not_yet(Logs *logs, LogStream *s, const char *state);
static bool next_attempt(Logs *logs);
static PGresult * ask(const Logs *logs, const LogStream *s, bool wish);
static PGresult * call(const char *sql, int n, const char *const *values);
static double now(void);

int
CliLogs(int argc, char **argv)
{
	LogStream	streams[2] = {
		{.name = "stdout", .out = stdout}, {.name = "stderr", .out = stderr}
	};
	Logs		logs = {.tail = -1};

	parse_options(&logs, streams, argc, argv);
	do
		show_attempt(&logs, streams);
	while (logs.follow && logs.any_attempt && next_attempt(&logs));
	return status;
}

/*
 * Parse the command line; an unknown word ends the command.
 */
static void
parse_options(Logs *logs, LogStream *streams, int argc, char **argv)
{
	static const struct option options[] = {
		{"attempt", required_argument, NULL, 'a'},
		{"follow", no_argument, NULL, 'f'},
		{"from", required_argument, NULL, 'b'},
		{"node", required_argument, NULL, 'n'},
		{"stderr", no_argument, NULL, 'e'},
		{"stdout", no_argument, NULL, 'o'},
		{"tail", required_argument, NULL, 'c'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	while ((option = getopt_long(argc, argv, "f", options, NULL)) != -1)
	{
		switch (option)
		{
			case 'a':
				logs->attempt = optarg;
				(void) CliNumber(optarg, 1, INT32_MAX, "an attempt");
				break;
			case 'b':
				logs->from = CliNumber(optarg, 0, INT64_MAX, "--from");
				break;
			case 'c':
				logs->tail = CliNumber(optarg, 0, INT64_MAX, "--tail");
				break;
			case 'e':
				streams[1].wanted = true;
				break;
			case 'f':
				logs->follow = true;
				break;
			case 'n':
				logs->node = optarg;
				break;
			case 'o':
				streams[0].wanted = true;
				break;
			default:
				optind = argc + 1;
		}
	}
	if (optind != argc - 1)
		Fail(CLI_USAGE, "usage: gpucredit logs [-f] [--from BYTE |"
			 " --tail BYTES] [--stdout] [--stderr]\n"
			 "                      [--attempt N] [--node NODE] JOB");
	logs->job = argv[optind];
	(void) CliNumber(logs->job, 1, INT64_MAX, "a job");
	logs->any_attempt = logs->attempt == NULL;
	if (!streams[0].wanted && !streams[1].wanted)
		streams[0].wanted = streams[1].wanted = true;
}

/*
 * Print both streams of one attempt, as far as they go.
 */
static void
show_attempt(Logs *logs, LogStream *streams)
{
	useconds_t	pause = 20000;

	for (int i = 0; i < 2; i++)
	{
		streams[i].over = !streams[i].wanted;
		streams[i].at = logs->tail >= 0 ? -1 : logs->from;
		streams[i].written = streams[i].dropped = 0;
		streams[i].until = -1;
		streams[i].asked = streams[i].since = 0;
	}
	while (!streams[0].over || !streams[1].over)
	{
		bool		any = false;

		for (int i = 0; i < 2; i++)
			any |= !streams[i].over && step(logs, &streams[i]);
		pause = any ? 20000 : pause < 200000 ? pause * 2 : pause;
		if (!any)
			usleep(pause);
	}
	for (int i = 0; i < 2; i++)
	{
		if (streams[i].dropped > 0)
			fprintf(stderr, "gpucredit: %lld bytes of %s are lost: the"
					" node's disk was full\n", (long long) streams[i].dropped,
					streams[i].name);
	}
}

/*
 * Request a stream's next piece, or see whether it has come; true: it has.
 */
static bool
step(Logs *logs, LogStream *s)
{
	bool		wish = s->asked == 0 || now() - s->asked > ASK_AGAIN;
	PGresult   *row = ask(logs, s, wish);
	const char *state = PQgetvalue(row, 0, 0);
	bool		came = strcmp(state, "answered") == 0;

	if (logs->attempt == NULL && !PQgetisnull(row, 0, 1))
	{
		logs->attempt = CliFormat("%s", PQgetvalue(row, 0, 1));
		logs->node = CliFormat("%s", PQgetvalue(row, 0, 2));
	}
	if (came)
		came = print_piece(logs, s, row, s->asked != 0);
	else
	{
		if (s->since == 0)
			s->since = now();
		if (wish)
			s->asked = now();
		not_yet(logs, s, state);
		if (strcmp(state, "unasked") == 0 ||
			strcmp(state, "not_started") == 0)
			s->asked = 0;
	}
	PQclear(row);
	return came;
}

/*
 * Print a piece.  fresh: the node was asked just now.
 */
static bool
print_piece(const Logs *logs, LogStream *s, PGresult * row, bool fresh)
{
	int64_t		first = strtoll(PQgetvalue(row, 0, 3), NULL, 10);
	bool		over = strcmp(PQgetvalue(row, 0, 7), "t") == 0;
	size_t		len = 0;
	unsigned char *body;

	s->written = strtoll(PQgetvalue(row, 0, 5), NULL, 10);
	s->dropped = strtoll(PQgetvalue(row, 0, 6), NULL, 10);
	s->asked = s->since = 0;
	said_silent = false;
	if (fresh && s->until < 0)
		s->until = s->written;
	if (!PQgetisnull(row, 0, 8))
	{
		fprintf(stderr, "gpucredit: %s\n", PQgetvalue(row, 0, 8));
		status = CLI_REFUSED;
		s->over = true;
		return true;
	}
	if (s->at < 0)
	{
		s->at = s->written > logs->tail ? s->written - logs->tail : 0;
		return true;
	}
	if (first > s->at)
		fprintf(stderr, "gpucredit: %lld bytes of %s are gone: the node keeps"
				" the first MiB and the last 64\n",
				(long long) (first - s->at), s->name);
	body = PQunescapeBytea((unsigned char *) PQgetvalue(row, 0, 4), &len);
	if (body == NULL || (len > 0 && fwrite(body, len, 1, s->out) != 1) ||
		fflush(s->out) != 0)
		Fail(CLI_REFUSED, "could not write the output");
	PQfreemem(body);
	s->at = first + len;
	s->over = over || (!logs->follow &&
					   (len == 0 || (s->until >= 0 && s->at >= s->until)));
	return len > 0;
}

/*
 * There is no answer yet: print once what that means.
 */
static void
not_yet(Logs *logs, LogStream *s, const char *state)
{
	if (strcmp(state, "unserved") == 0)
		Fail(CLI_REFUSED, "the agent of node %s serves no output",
			 logs->node);
	if (strcmp(state, "not_started") == 0)
	{
		if (!logs->follow)
			Fail(CLI_REFUSED, "job %s has not started; see: gpucredit explain"
				 " %s", logs->job, logs->job);
		if (!said_waits)
			fprintf(stderr, "gpucredit: job %s has not started yet\n",
					logs->job);
		said_waits = true;
		usleep(500000);
		return;
	}
	if (!logs->follow && now() - s->since > AWAY)
		Fail(CLI_REFUSED, "node %s does not answer", logs->node);
	if (strcmp(state, "silent") == 0 && !said_silent)
	{
		fprintf(stderr, "gpucredit: node %s has not been heard of for a"
				" while; what it has of job %s comes once it is back\n",
				logs->node, logs->job);
		said_silent = true;
	}
}

/*
 * Wait until a followed job runs again; false: it is over.
 */
static bool
next_attempt(Logs *logs)
{
	const char *values[2] = {CliOrg(), logs->job};

	for (;;)
	{
		PGresult   *row = call("SELECT j.ended_at IS NOT NULL,"
							   " (SELECT max(a.attempt) FROM"
							   "  gpucredit.attempts a WHERE a.org = j.org"
							   "  AND a.job = j.job) FROM gpucredit.jobs j"
							   " WHERE j.org = $1 AND j.job = $2::bigint", 2,
							   values);
		bool		gone = PQntuples(row) == 0 ||
			strcmp(PQgetvalue(row, 0, 0), "t") == 0;
		long		newest = PQntuples(row) == 0 ? 0 :
			atol(PQgetvalue(row, 0, 1));

		PQclear(row);
		if (newest > atol(logs->attempt))
		{
			fprintf(stderr, "gpucredit: attempt %ld\n", newest);
			logs->attempt = logs->node = NULL;
			logs->from = 0;
			logs->tail = -1;
			return true;
		}
		if (gone)
			return false;
		sleep(1);
	}
}

/*
 * Read the next piece from the database; wish: also ask the node for it, and
 * for some after it.
 */
static PGresult *
ask(const Logs *logs, const LogStream *s, bool wish)
{
	int64_t		at = s->at < 0 ? INT64_MAX : s->at;
	int64_t		last = at;
	const char *values[8] = {CliOrg(), logs->job, NULL, s->name,
		logs->attempt, logs->node, logs->follow && s->at >= 0 ? "t" : "f",
	NULL};
	PGresult   *result;

	for (int i = 1; s->at >= 0 && i < AHEAD && last + PIECE < s->written; i++)
		last += PIECE;
	values[2] = CliFormat("%lld", (long long) at);
	values[7] = CliFormat("%lld", (long long) (last - at));
	if (wish)
		result = call("SELECT l.state, l.attempt, l.node, l.first_byte,"
					  " CASE WHEN p.i = 0 THEN l.body END, l.written,"
					  " l.dropped, l.over, l.message"
					  " FROM generate_series(0, $8::bigint, 65536) AS p (i)"
					  " CROSS JOIN LATERAL gpucredit.log_wish($1, $2::bigint,"
					  "  $3::bigint + p.i, $4, $5::int, $6, $7::boolean) l"
					  " ORDER BY p.i", 8, values);
	else
		result = call("SELECT l.state, l.attempt, l.node, l.first_byte,"
					  " l.body, l.written, l.dropped, l.over, l.message"
					  " FROM gpucredit.log_get($1, $2::bigint, $3::bigint, $4,"
					  "  $5::int, $6) l", 6, values);
	free((char *) values[2]);
	free((char *) values[7]);
	return result;
}

/*
 * Repeat a call until an answer comes; it survives a short absence of the
 * database.
 */
static PGresult *
call(const char *sql, int n, const char *const *values)
{
	time_t		until = time(NULL) + PATIENCE;
	PGresult   *result = CliTry(sql, n, values);

	while (CliRetries(result) && time(NULL) < until)
	{
		PQclear(result);
		usleep(300000);
		result = CliTry(sql, n, values);
	}
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		CliRefused(result);
	return result;
}

static double
now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec / 1e9;
}
