/*-------------------------------------------------------------------------
 *
 * spot_watch.c
 *		Reclaims this node when its cloud says that it takes it back.
 *
 * A process of its own asks the cloud (spot.c). When it writes a notice, the
 * agent calls reclaim() with the time that is left. The next heartbeat, which
 * the agent sends at once, then has attempts save and leave, in the turns that
 * the database plans for all nodes.
 *
 * If the call is refused, or there is no connection, the agent has its attempts
 * leave by itself after ALONE_AFTER: a checkpoint out of turn is better than
 * none. A call that is under way is waited for until the connection's own limit,
 * because many nodes that are reclaimed at once wait for each other. The call
 * is repeated until it is answered.
 *
 * The database keeps the earliest deadline that an agent named, so an agent
 * that was restarted may repeat the notice. If the cloud withdraws a notice, the
 * node stays reclaimed until an operator calls resume().
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attempts.h"
#include "calls.h"
#include "clock.h"
#include "config.h"
#include "db.h"
#include "line_process.h"
#include "log.h"
#include "memory.h"
#include "node_proof.h"
#include "orders.h"
#include "spot_watch.h"

#define ALONE_AFTER		(5 * NS_PER_S)
#define REPEAT_AFTER	(1 * NS_PER_S)
#define EARLIER			(1 * NS_PER_S)	/* a deadline that is this much
										 * earlier is a new one */

static const char *configuration;
static int64_t respawn_ns;
static char last_failure[256];	/* the failure that was logged last */

static bool noticed;			/* the cloud takes the machine back */
static int64_t deadline_ns;		/* when it does, by the monotonic clock */
static int64_t noticed_ns;		/* when the agent learned of that deadline */
static bool reclaimed;			/* the database has that deadline */
static bool calling;			/* reclaim() is under way */
static bool left_alone;			/* attempts were told without the database */
static int64_t repeat_ns;		/* when to call the database again */

static void spawn(void);
static void parse_line(const char *line);
static void note(int64_t left_ms, const char *what);
static void leave_alone(void);
static int64_t time_left_ms(void);
static void reclaim_answered(PGresult * result, void *context);

static LineProcess process = {.command = "spot", .parse = parse_line, .fd = -1};

/* Starts to ask the cloud, if the configuration names one. */
void
SpotStart(const char *path)
{
	configuration = path;
	if (strcmp(config.spot, "no") != 0)
		spawn();
}

/*
 * Starts the process. If that fails, SpotCheck() tries again after the interval
 * between two requests.
 */
static void
spawn(void)
{
	respawn_ns = MonotonicNs() + config.spot_poll_ms * NS_PER_MS;
	LineProcessStart(&process, configuration);
}

/* Returns the descriptor to wait for, or -1. */
int
SpotFd(void)
{
	return process.fd;
}

/* Handles the end of a child. Returns whether it was the process of this file. */
bool
SpotChildGone(pid_t pid)
{
	return LineProcessGone(&process, pid);
}

/*
 * Reads what the process wrote, starts another one if it has ended, and has
 * attempts leave if the database does not answer.
 */
void
SpotCheck(void)
{
	if (strcmp(config.spot, "no") == 0)
		return;
	LineProcessRead(&process);
	if (process.pid == 0 && MonotonicNs() >= respawn_ns)
		spawn();
	if (noticed && !reclaimed && !calling && !left_alone &&
		MonotonicNs() - noticed_ns > ALONE_AFTER)
		leave_alone();
}

/*
 * Parses a line of the process. A failure is logged only if it differs from
 * the last one.
 */
static void
parse_line(const char *line)
{
	long long	left_ms;
	char		what[32];

	if (sscanf(line, "notice %lld %31s", &left_ms, what) == 2 && left_ms >= 0)
		note(left_ms, what);
	else if (strncmp(line, "failed ", 7) == 0 &&
			 strcmp(line + 7, last_failure) != 0)
	{
		snprintf(last_failure, sizeof(last_failure), "%s", line + 7);
		LogLine("event=spot_failed cloud=%s error=\"%s\"", config.spot,
				last_failure);
	}
	else if (strcmp(line, "none") == 0)
	{
		if (*last_failure != '\0')
			LogLine("event=spot_watched cloud=%s", config.spot);
		if (noticed)
			LogLine("event=spot_withdrawn cloud=%s", config.spot);
		*last_failure = '\0';
		noticed = false;
	}
}

/*
 * Handles a notice. The same one is written again after each request.
 */
static void
note(int64_t left_ms, const char *what)
{
	int64_t		now = MonotonicNs();
	int64_t		deadline = now + left_ms * NS_PER_MS;

	if (noticed && deadline > deadline_ns - EARLIER)
		return;
	LogLine("event=spot_notice node=%s cloud=%s what=%s left_ms=%lld",
			config.node, config.spot, what, (long long) left_ms);
	noticed = true;
	noticed_ns = now;
	deadline_ns = deadline;
	reclaimed = left_alone = false;
	repeat_ns = 0;
}

/* Has each attempt save and leave, as the database would order it. */
static void
leave_alone(void)
{
	LogLine("event=spot_alone node=%s detail=\"the database does not answer\"",
			config.node);
	left_alone = true;
	for (LocalAttempt *a = attempts, *next; a != NULL; a = next)
	{
		Order		order = {
			.org = a->org,
			.job = a->job,
			.number = a->number,
			.action = "checkpoint",
			.reason = "reclaim",
			.left_ms = time_left_ms(),
			.placed_us = a->placed_us,
		};

		next = a->next;
		if (!a->forgotten && a->phase == PHASE_RUNS)
			AttemptObey(&order);
	}
}

static int64_t
time_left_ms(void)
{
	int64_t		left = (deadline_ns - MonotonicNs()) / NS_PER_MS;

	return left < 0 ? 0 : left;
}

/*
 * Calls reclaim(), if the database has to be told. Returns whether it made the
 * call.
 */
bool
SpotReclaim(void)
{
	char	   *left;
	const char *values[3] = {config.key, config.node};

	if (!noticed || reclaimed || MonotonicNs() < repeat_ns)
		return false;
	left = Format("%lld milliseconds", (long long) time_left_ms());
	values[2] = left;
	repeat_ns = MonotonicNs() + REPEAT_AFTER;
	calling = true;
	DbCall("SELECT 1" FROM_PROVEN("reclaim", "$2::pg_catalog.text")
		   ", $3::pg_catalog.interval)", 3, values, reclaim_answered, NULL);
	free(left);
	return true;
}

/*
 * Asks for orders at once when the database knows that the node goes.
 */
static void
reclaim_answered(PGresult * result, void *context)
{
	(void) context;
	calling = false;
	if (PQresultStatus(result) == PGRES_TUPLES_OK)
	{
		LogLine("event=spot_reclaimed node=%s", config.node);
		reclaimed = true;
		BeatSoon();
	}
	else if (result != NULL)
		LogLine("event=reclaim_refused state=%s error=\"%s\"", DbState(result),
				PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
}
