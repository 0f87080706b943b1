/*-------------------------------------------------------------------------
 *
 * lost_sweep.c
 *		reap_holds, check_nodes: ends that no agent reported.
 *
 * A hold past its ttl is released. A job that waits for credit is queued if
 * there is some (fund.c). An attempt is settled at the last metered time if
 * its agent or node fell silent, its node was reclaimed, its device failed
 * (device.c), or it is overdue. Fencing finds out when its devices are free.
 *
 * Silence counts from the last sign of life, never from before the server came
 * up: while it was down nobody could be heard, or report an end. So
 * gpucredit.stop_grace counts from that instant, too. No result depends on
 * either function having run.
 *
 * An attempt is overdue if its agent had gpucredit.stop_grace to stop it, for
 * any reason, and did not report an end. The outcome is timeout past the wall
 * limit by the server's clock, failed if stuck, and a lost part's own. It is
 * preempted or resized after a directive to leave, cancelled if cancelled, and
 * preempted without funds. So a silent, broken or lying agent keeps a job no
 * longer than another; its devices are fenced.
 *
 * Locks: job and attempt, without waiting; then as settlement.c and
 * dead_holds.c say, for 10 ms each at most (see sweep.c); last as fund.c says.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/event.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"
#include "api/api.h"
#include "job/attempt_watch.h"
#include "job/end/device.h"
#include "job/fund.h"
#include "job/end/settlement.h"
#include "job/sweep.h"
#include "shmem/wake.h"
#include "job/hold_extension.h"
#include "job/end/stop_reason.h"

API_FUNCTION(gpucredit_reap_holds, reap_holds);
API_FUNCTION(gpucredit_check_nodes, check_nodes);

/* Attempts and nodes not heard of since then are silent; DT_NOBEGIN: none. */
typedef struct Silence
{
	TimestampTz up;				/* when the server came up */
	TimestampTz attempts;
	TimestampTz nodes;
	bool		reachable;		/* attempts that had to stop had time to
								 * report it */
} Silence;

/* How many attempts were settled, and which are silent. */
typedef struct Overdue
{
	Silence		since;
	int64		silent;
	int64		unstopped;
} Overdue;

/* Attempts left on nodes that are gone, and how they end. */
typedef struct Leftover
{
	SqlStatement *nodes;
	TimestampTz at;
	Outcome		outcome;
	const char *reason;
} Leftover;

/* "walwriter" starts when recovery, or the server's start, has ended. */
SQL_STATEMENT(up_since, SPI_OK_SELECT, "",
			  "SELECT GREATEST(pg_catalog.pg_postmaster_start_time(),"
			  " (SELECT pg_catalog.max(s.backend_start)"
			  "  FROM pg_catalog.pg_stat_get_activity(NULL) s"
			  "  WHERE s.backend_type = 'walwriter'))");
SQL_STATEMENT(dead_holds, SPI_OK_SELECT, "timestamptz",
			  "SELECT h.org, h.hold, 0 FROM gpucredit.hold h"
			  " WHERE h.closed_at IS NULL AND h.expires_at IS NOT NULL"
			  " AND h.expires_at <= $1 ORDER BY h.expires_at LIMIT 10000");
#define ATTEMPTS_ON(since) \
	"SELECT g.org, g.job, g.attempt" \
	" FROM gpucredit.node n JOIN gpucredit.attempt_gpu g" \
	"  ON g.pool = n.pool AND g.node = n.node" \
	" WHERE " since " <= $1 AND NOT g.free AND g.ended_at IS NULL" \
	" GROUP BY g.org, g.job, g.attempt" \
	" ORDER BY pg_catalog.min(" since "), g.org, g.job LIMIT 10000"
SQL_STATEMENT(lost_attempts, SPI_OK_SELECT, "timestamptz",
			  ATTEMPTS_ON("n.heard_at"));
SQL_STATEMENT(gone_attempts, SPI_OK_SELECT, "timestamptz",
			  ATTEMPTS_ON("n.reclaim_at"));
#define ATTEMPT_IS_ON(nodes) \
	"SELECT EXISTS (SELECT FROM gpucredit.attempt_gpu g" \
	" JOIN gpucredit.node n ON n.node = g.node WHERE g.org = $1" \
	" AND g.job = $2 AND g.attempt = $3 AND " nodes ")"
SQL_STATEMENT(is_lost, SPI_OK_SELECT, "text, bigint, int, timestamptz",
			  ATTEMPT_IS_ON("n.heard_at <= $4"));
SQL_STATEMENT(is_gone, SPI_OK_SELECT, "text, bigint, int, timestamptz",
			  ATTEMPT_IS_ON("n.reclaim_at <= $4"));

/* nodes whose attempts were just lost */
SQL_STATEMENT(lost_nodes, SPI_OK_SELECT, "timestamptz, timestamptz",
			  "SELECT n.pool, n.node, n.heard_at, pg_catalog.count(*)"
			  " FROM gpucredit.node n JOIN gpucredit.attempt_gpu g"
			  "  ON g.pool = n.pool AND g.node = n.node"
			  " WHERE n.heard_at <= $1 AND NOT g.free AND g.ended_at >= $2"
			  " GROUP BY n.pool, n.node ORDER BY n.node LIMIT 100");

static void settle_watched(Sweep *sweep, Overdue *overdue);
static SweepResult settle_overdue(const char *org, int64 id, int32 number,
								  const void *context);
static bool settle_silent(Job *job, Attempt *attempt,
						  const Silence *since);
static bool script_completed(const Attempt *attempt);
static bool settle_unstopped(Job *job, Attempt *attempt);
static void log_lost(TimestampTz silent, TimestampTz now);
static Silence silence(void);
static TimestampTz silent_since(TimestampTz now, TimestampTz up, int64 lost);
static SqlResult run_at(SqlStatement *statement, TimestampTz at);
static bool is_on(SqlStatement *nodes, const char *org, int64 job,
				  int32 number, TimestampTz at);
static SweepResult release_hold(const char *org, int64 id, int32 number,
								const void *context);
static SweepResult settle_leftover(const char *org, int64 id, int32 number,
								   const void *context);
static void put_task(FunctionCallInfo fcinfo, const char *task,
					 int64 affected);

Datum
call_reap_holds(PG_FUNCTION_ARGS)
{
	Sweep		sweep;
	Overdue		overdue = {0};
	TimestampTz now = ClockNow();
	int64		released;
	int64		funded;

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	sweep = SweepBegin();
	overdue.since = silence();
	released = SweepRun(&sweep, run_at(&dead_holds, now),
						release_hold, NULL);
	settle_watched(&sweep, &overdue);
	funded = FundSwept(&sweep);
	if (released > 0 || funded > 0)
		WakeAll();
	put_task(fcinfo, "release_holds", released);
	put_task(fcinfo, "settle_silent", overdue.silent);
	put_task(fcinfo, "settle_overdue", overdue.unstopped);
	put_task(fcinfo, "fund_jobs", funded);
	put_task(fcinfo, "skipped", sweep.skipped);
	SqlFinish();
	return (Datum) 0;
}

Datum
call_check_nodes(PG_FUNCTION_ARGS)
{
	Sweep		sweep;
	Silence		since;
	TimestampTz now = ClockNow();
	Leftover	taken = {&is_gone, now, PREEMPTED, NODE_RECLAIMED};
	int64		lost = 0;
	int64		broken;
	int64		gone;

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	sweep = SweepBegin();
	since = silence();
	if (since.nodes != DT_NOBEGIN)
	{
		Leftover	left = {&is_lost, since.nodes, NODE_LOST, "node_silent"};

		lost = SweepRun(&sweep, run_at(&lost_attempts, since.nodes),
						settle_leftover, &left);
	}
	if (lost > 0)
		log_lost(since.nodes, now);
	broken = SweepRun(&sweep, DevicesBroken(), DeviceSettle, NULL);
	gone = SweepRun(&sweep, run_at(&gone_attempts, now), settle_leftover,
					&taken);
	put_task(fcinfo, "settle_node_lost", lost);
	put_task(fcinfo, "settle_device_failed", broken);
	put_task(fcinfo, "settle_reclaimed", gone);
	put_task(fcinfo, "skipped", sweep.skipped);
	SqlFinish();
	return (Datum) 0;
}

/*
 * Log the lost nodes with their attempts, and write an event for each.
 */
static void
log_lost(TimestampTz silent, TimestampTz now)
{
	SqlResult	rows;

	rows = SqlRun(&lost_nodes, VALUES(TimeValue(silent), TimeValue(now)));
	for (uint64 i = 0; i < rows.n; i++)
	{
		StringInfo	line = LogBegin("node_lost");
		AuditRow	event = {.at = now};

		LogText(line, "node", SqlText(rows, i, 2));
		LogText(line, "pool", SqlText(rows, i, 1));
		LogNumber(line, "silent_s", (now - SqlTime(rows, i, 3)) /
				  USECS_PER_SEC);
		LogNumber(line, "attempts", SqlInt8(rows, i, 4));
		LogAtCommit(line);
		AuditText(&event, "node", SqlText(rows, i, 2));
		AuditText(&event, "pool", SqlText(rows, i, 1));
		AuditTime(&event, "heard_at", SqlTime(rows, i, 3));
		AuditInt8(&event, "attempts", SqlInt8(rows, i, 4));
		EventWrite("node.lost", &event);
	}
	SqlFree(&rows);
}

/*
 * Since when unheard attempts and nodes count as silent. Nobody could be
 * heard, or report an end, before the server came up. A frozen clock is a
 * simulation, where that instant means nothing.
 */
static Silence
silence(void)
{
	TimestampTz now = ClockNow();
	TimestampTz up = ClockFrozen() ? DT_NOBEGIN :
		SqlTime(SqlRun(&up_since, NULL), 0, 1);

	return (Silence)
	{
		up, silent_since(now, up, SettingHeartbeatTimeout()),
			silent_since(now, up, SettingNodeLost()),
			up <= ClockAdd(now, -SettingStopGrace())
	};
}

/*
 * The instant before which a last sign of life is too old, if the server has
 * been up for so long.
 */
static TimestampTz
silent_since(TimestampTz now, TimestampTz up, int64 lost)
{
	TimestampTz since = ClockAdd(now, -lost);

	return lost == 0 || up > since ? DT_NOBEGIN : since;
}

/*
 * Run a query of one parameter, an instant.
 */
static SqlResult
run_at(SqlStatement *statement, TimestampTz at)
{
	return SqlRun(statement, VALUES(TimeValue(at)));
}

/*
 * Is any node of an attempt one of those, as of an instant?
 */
static bool
is_on(SqlStatement *nodes, const char *org, int64 job, int32 number,
	  TimestampTz at)
{
	if (at == DT_NOBEGIN)
		return false;
	return SqlBool(SqlRun(nodes,
						  VALUES(TextValue(org), Int8Value(job),
								 Int4Value(number), TimeValue(at))), 0, 1);
}

/*
 * Release one hold past its ttl.
 */
static SweepResult
release_hold(const char *org, int64 id, int32 number, const void *context)
{
	return HoldReap(org, id, false) ? SWEEP_DONE : SWEEP_BUSY;
}

/*
 * Settle one attempt with a lost or reclaimed node.
 */
static SweepResult
settle_leftover(const char *org, int64 id, int32 number, const void *context)
{
	const Leftover *left = context;
	Settlement	settlement = {.outcome = left->outcome, .elapsed = -1,
		.reason = left->reason};
	Attempt		attempt;
	Job			job;

	if (!JobLock(org, id, false, &job))
		return SWEEP_BUSY;
	if (!AttemptLockLive(org, id, number, &attempt) ||
		!is_on(left->nodes, org, id, number, left->at))
		return SWEEP_IDLE;
	AttemptSettle(&job, &attempt, &settlement);
	return SWEEP_DONE;
}

/*
 * A row of the result.
 */
static void
put_task(FunctionCallInfo fcinfo, const char *task, int64 affected)
{
	RowPut((ReturnSetInfo *) fcinfo->resultinfo,
		   VALUES(TextValue(task), Int8Value(affected)));
}

/*
 * Settle attempts that are silent, or had to stop.
 */
static void
settle_watched(Sweep *sweep, Overdue *overdue)
{
	WatchRule	rule = {ClockNow(), overdue->since.up,
		overdue->since.attempts, overdue->since.reachable};
	int64		checked = WATCH_MOST;

	for (bool first = true; checked == WATCH_MOST && SweepGoesOn(sweep);
		 first = false)
	{
		SqlResult	rows = WatchOverdue(&rule, first, &checked);

		(void) SweepRun(sweep, rows, settle_overdue, overdue);
		SqlFree(&rows);
	}
	if (rule.reachable)
		(void) SweepRun(sweep, WatchDirected(&rule), settle_overdue, overdue);
}

/*
 * Settle one attempt if it is silent, or had to stop.
 */
static SweepResult
settle_overdue(const char *org, int64 id, int32 number, const void *context)
{
	Overdue    *overdue = unconstify(void *, context);
	Attempt		attempt;
	Job			job;

	if (!JobLock(org, id, false, &job))
		return SWEEP_BUSY;
	if (!AttemptLockLive(org, id, number, &attempt))
		return SWEEP_IDLE;
	if (settle_silent(&job, &attempt, &overdue->since))
		overdue->silent++;
	else if (overdue->since.reachable && settle_unstopped(&job, &attempt))
		overdue->unstopped++;
	else
		return SWEEP_IDLE;
	return SWEEP_DONE;
}

/*
 * Settle a locked attempt, unless it was heard of.
 */
static bool
settle_silent(Job *job, Attempt *attempt, const Silence *since)
{
	Settlement	settlement = {.elapsed = -1, .reason = NOT_HEARD_FROM};
	TimestampTz heard = attempt->heard_at != DT_NOBEGIN ?
		attempt->heard_at : attempt->started_at;

	if (since->attempts == DT_NOBEGIN || heard > since->attempts)
		return false;
	settlement.message = psprintf("not heard from for %lld s",
								  (long long) ((ClockNow() - heard) /
											   USECS_PER_SEC));
	if (script_completed(attempt))
		settlement.outcome = COMPLETED;
	else if (is_on(&is_lost, attempt->org, attempt->job, attempt->attempt,
				   since->nodes))
		settlement.outcome = NODE_LOST;
	else if (job->cancelled)
		settlement.outcome = CANCELLED;
	else if (ClockAdd(heard,
					  SettingHeartbeatTimeout()) >= AttemptWallEnd(attempt))
		settlement.outcome = TIMEOUT;
	else
		settlement.outcome = attempt->directed ? PREEMPTED : FAILED;
	AttemptSettle(job, attempt, &settlement);
	return true;
}

/*
 * Whether nothing is left of the attempt but what its script started on other
 * nodes.
 */
static bool
script_completed(const Attempt *attempt)
{
	Settlement	stop = {0};

	return attempt->directed &&
		StopReasonSince(attempt, ClockNow(), 0, &stop) &&
		stop.outcome == COMPLETED;
}

/*
 * Settle a locked attempt, if it had gpucredit.stop_grace to stop.
 */
static bool
settle_unstopped(Job *job, Attempt *attempt)
{
	Settlement	settlement = {.elapsed = -1};

	if (!StopReasonSince(attempt, ClockNow(), SettingStopGrace(),
						 &settlement))
		return false;
	if (job->cancelled)
		settlement.outcome = CANCELLED;
	AttemptSettle(job, attempt, &settlement);
	return true;
}
