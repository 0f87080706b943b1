/*-------------------------------------------------------------------------
 *
 * lost_sweep.c
 *		SQL functions reap_holds and check_nodes: end what no agent has
 *		reported the end of.
 *
 * A hold past its ttl is released. A job that waits for credit is queued if
 * there is enough credit (fund.c). An attempt is settled at the last metered
 * time if its agent or its node is silent, its node was reclaimed, its device
 * failed (device.c), or it is overdue. Its devices stay fenced until an agent
 * reports them free.
 *
 * Silence counts from the last sign of life, but at the earliest from when the
 * server came up: while the server was down it could receive no heartbeat and
 * no report of an end. For the same reason gpucredit.stop_grace counts from
 * that instant at the earliest. No result depends on either function having
 * run at a given time.
 *
 * An attempt is overdue if it had to stop, for any reason, at least
 * gpucredit.stop_grace ago and its agent has not reported its end. Its outcome
 * is timeout if it is past the wall limit by the server's clock, failed if it
 * is stuck, the outcome of the lost part if a part was lost, preempted or
 * resized if a directive ordered it to leave, cancelled if the job was
 * cancelled, and preempted if its credit does not suffice. So a silent, broken
 * or lying agent cannot keep a job any longer than another agent. The devices
 * are fenced.
 *
 * Locks: job and attempt, without waiting; then as settlement.c and
 * dead_holds.c say, for at most 10 ms each (see sweep.c); last as fund.c says.
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

/*
 * Instants by which a sweep decides what is silent: attempts and nodes whose
 * last sign of life is not later. With DT_NOBEGIN none are silent.
 */
typedef struct Silence
{
	TimestampTz up;				/* when the server came up */
	TimestampTz attempts;
	TimestampTz nodes;
	bool		reachable;		/* whether attempts that had to stop had time
								 * to report it since the server came up */
} Silence;

/*
 * The context of settle_overdue(): when attempts are silent, and how many
 * silent and how many other overdue attempts were settled.
 */
typedef struct Overdue
{
	Silence		since;
	int64		silent;
	int64		unstopped;
} Overdue;

/*
 * A query for attempts that are left on nodes that are gone, and how these
 * attempts end.
 */
typedef struct Leftover
{
	SqlStatement *nodes;
	TimestampTz at;
	Outcome		outcome;
	const char *reason;
} Leftover;

/*
 * The process "walwriter" starts when the server's start or its recovery has
 * finished.
 */
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

/* Nodes that are silent and whose attempts have just been settled. */
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
 * Logs the lost nodes whose attempts were settled, and writes an event for
 * each node.
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
 * Computes since when attempts and nodes must have been heard to count as
 * alive. Nothing could be heard before the server came up. A frozen clock is a
 * simulation, where the server's start means nothing.
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
 * Returns the instant since which something must have been heard of to be
 * alive. Returns DT_NOBEGIN if silence does not count or the server has not
 * been up for the whole time.
 */
static TimestampTz
silent_since(TimestampTz now, TimestampTz up, int64 lost)
{
	TimestampTz since = ClockAdd(now, -lost);

	return lost == 0 || up > since ? DT_NOBEGIN : since;
}

/* Runs a query that has one parameter, an instant. */
static SqlResult
run_at(SqlStatement *statement, TimestampTz at)
{
	return SqlRun(statement, VALUES(TimeValue(at)));
}

/*
 * Whether the query `nodes` finds one of the attempt's nodes, as of an
 * instant.
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

/* Releases one hold past its ttl. */
static SweepResult
release_hold(const char *org, int64 id, int32 number, const void *context)
{
	return HoldReap(org, id, false) ? SWEEP_DONE : SWEEP_BUSY;
}

/* Settles one attempt that has a lost or reclaimed node. */
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

/* Returns one row of the result. */
static void
put_task(FunctionCallInfo fcinfo, const char *task, int64 affected)
{
	RowPut((ReturnSetInfo *) fcinfo->resultinfo,
		   VALUES(TextValue(task), Int8Value(affected)));
}

/* Settles attempts that are silent, and attempts that did not stop in time. */
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

/* Settles one attempt if it is silent or did not stop in time. */
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

/* Settles a locked attempt if it is silent. Returns whether it did. */
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
 * Whether the script of the attempt has completed, so that only processes that
 * the script started on other nodes can be left.
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
 * Settles a locked attempt if it has had to stop for at least
 * gpucredit.stop_grace. Returns whether it did.
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
