/*-------------------------------------------------------------------------
 *
 * lost.c
 *		reap_holds, check_nodes: the ends that nobody told.
 *
 * A hold past its ttl is released.  An attempt whose agent, or whose node,
 * fell silent is settled at what was last metered; that its devices are free
 * is for fencing to find out.  Silence counts from the last sign of life and
 * never from before the server itself came up: while it was down, nobody
 * could be heard.  Nothing that is right depends on either having run.
 *
 * Locks: job and attempt, without waiting; then as settlement.c and
 * reclaim.c say, for 10 ms each at most (see sweep.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/args.h"
#include "common/clock.h"
#include "common/settings.h"
#include "entry/entry.h"
#include "job/settlement.h"
#include "job/sweep.h"

ENTRY_POINT(reap_holds);
ENTRY_POINT(check_nodes);

/* Who was not heard of since then is silent; DT_NOBEGIN: nobody is. */
typedef struct Silence
{
	TimestampTz attempts;
	TimestampTz nodes;
} Silence;

/* "walwriter" starts when recovery, or the server's start, has ended. */
SQL_STATEMENT(up_since, SPI_OK_SELECT, "",
			  "SELECT GREATEST(pg_catalog.pg_postmaster_start_time(),"
			  " (SELECT pg_catalog.max(s.backend_start)"
			  "  FROM pg_catalog.pg_stat_get_activity(NULL) s"
			  "  WHERE s.backend_type = 'walwriter'))");
SQL_STATEMENT(dead_holds, SPI_OK_SELECT, "timestamptz",
			  "SELECT h.org, h.hold, 0 FROM gpucredit.hold h"
			  " WHERE h.closed_at IS NULL AND h.expires_at IS NOT NULL"
			  " AND h.expires_at <= $1" SWEEP_IN_TURN("h.org", "h.hold"));
SQL_STATEMENT(silent_attempts, SPI_OK_SELECT, "timestamptz",
			  "SELECT a.org, a.job, a.attempt FROM gpucredit.attempt a"
			  " WHERE a.ended_at IS NULL"
			  " AND COALESCE(a.heard_at, a.started_at) <= $1"
			  SWEEP_IN_TURN("a.org", "a.job"));
SQL_STATEMENT(lost_attempts, SPI_OK_SELECT, "timestamptz",
			  "SELECT l.org, l.job, l.attempt FROM"
			  " (SELECT DISTINCT g.org, g.job, g.attempt"
			  "  FROM gpucredit.node n JOIN gpucredit.attempt_gpu g"
			  "   ON g.pool = n.pool AND g.node = n.node"
			  "  WHERE n.heard_at <= $1 AND NOT g.free"
			  "  AND g.ended_at IS NULL) l" SWEEP_IN_TURN("l.org", "l.job"));
#define LOCK_LIVE \
	"SELECT" ATTEMPT_COLUMNS ", COALESCE(a.heard_at, a.started_at)" \
	" FROM gpucredit.attempt a" \
	" WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3" \
	" AND a.ended_at IS NULL AND "
#define NODE_SILENT \
	"EXISTS (SELECT FROM gpucredit.attempt_gpu g JOIN gpucredit.node n" \
	" ON n.node = g.node WHERE g.org = $1 AND g.job = $2" \
	" AND g.attempt = $3 AND n.heard_at <= $4)"
SQL_STATEMENT(silent_lock, SPI_OK_SELECT, "text, bigint, int, timestamptz",
			  LOCK_LIVE "COALESCE(a.heard_at, a.started_at) <= $4"
			  " FOR NO KEY UPDATE OF a SKIP LOCKED");
SQL_STATEMENT(lost_lock, SPI_OK_SELECT, "text, bigint, int, timestamptz",
			  LOCK_LIVE NODE_SILENT
			  " FOR NO KEY UPDATE OF a SKIP LOCKED");
SQL_STATEMENT(node_silent, SPI_OK_SELECT, "text, bigint, int, timestamptz",
			  "SELECT " NODE_SILENT);

#define HEARD_COLUMN	(ATTEMPT_WIDTH + 1)

static Silence silence(void);
static TimestampTz silent_since(TimestampTz now, TimestampTz up, int64 lost);
static SqlResult run_at(SqlStatement *statement, TimestampTz at);
static SqlArgs attempt_key(const char *org, int64 job, int32 number,
						   TimestampTz since);
static SweepResult release_hold(const char *org, int64 id, int32 number,
								const void *context);
static SweepResult settle_silent(const char *org, int64 id, int32 number,
								 const void *context);
static SweepResult settle_lost(const char *org, int64 id, int32 number,
							   const void *context);
static void put_task(FunctionCallInfo fcinfo, const char *task,
					 int64 affected);

Datum
call_reap_holds(PG_FUNCTION_ARGS)
{
	Sweep		sweep;
	Silence		since;
	int64		released;
	int64		settled = 0;

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	sweep = SweepBegin();
	since = silence();
	released = SweepRun(&sweep, run_at(&dead_holds, ClockNow()),
						release_hold, NULL);
	if (since.attempts != DT_NOBEGIN)
		settled = SweepRun(&sweep, run_at(&silent_attempts, since.attempts),
						   settle_silent, &since);
	put_task(fcinfo, "release_holds", released);
	put_task(fcinfo, "settle_silent", settled);
	put_task(fcinfo, "skipped", sweep.skipped);
	SqlFinish();
	return (Datum) 0;
}

Datum
call_check_nodes(PG_FUNCTION_ARGS)
{
	Sweep		sweep;
	Silence		since;
	int64		settled = 0;

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	sweep = SweepBegin();
	since = silence();
	if (since.nodes != DT_NOBEGIN)
		settled = SweepRun(&sweep, run_at(&lost_attempts, since.nodes),
						   settle_lost, &since);
	put_task(fcinfo, "settle_node_lost", settled);
	put_task(fcinfo, "skipped", sweep.skipped);
	SqlFinish();
	return (Datum) 0;
}

/*
 * Since when who was not heard of is silent.  A frozen clock is a simulation:
 * when the server came up means nothing in it.
 */
static Silence
silence(void)
{
	TimestampTz now = ClockNow();
	TimestampTz up = ClockFrozen() ? DT_NOBEGIN :
		SqlTime(SqlRun(&up_since, NULL), 0, 1);

	return (Silence)
	{
		silent_since(now, up, SettingMeterLost()),
			silent_since(now, up, SettingNodeLost())
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
	SqlArgs		args = {0};

	SqlArgTime(&args, at);
	return SqlRun(statement, &args);
}

/*
 * The parameters of what asks whether an attempt is silent.
 */
static SqlArgs
attempt_key(const char *org, int64 job, int32 number, TimestampTz since)
{
	SqlArgs		args = {0};

	SqlArgText(&args, org);
	SqlArgInt8(&args, job);
	SqlArgInt4(&args, number);
	SqlArgTime(&args, since);
	return args;
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
 * Settle one attempt that fell silent, unless it was heard of meanwhile.
 */
static SweepResult
settle_silent(const char *org, int64 id, int32 number, const void *context)
{
	const Silence *since = context;
	Settlement	settlement = {.elapsed = -1, .reason = "not_heard_from"};
	SqlArgs		args = attempt_key(org, id, number, since->attempts);
	SqlResult	row;
	Attempt		attempt;
	Job			job;

	if (!JobLock(org, id, false, &job))
		return SWEEP_BUSY;
	row = SqlRun(&silent_lock, &args);
	if (row.n == 0)
		return SWEEP_IDLE;
	AttemptFrom(row, 0, &attempt);
	settlement.message = psprintf("not heard from for %lld s",
								  (long long) ((ClockNow() -
												SqlTime(row, 0,
														HEARD_COLUMN)) /
											   USECS_PER_SEC));
	args = attempt_key(org, id, number, since->nodes);
	if (since->nodes != DT_NOBEGIN &&
		SqlBool(SqlRun(&node_silent, &args), 0, 1))
		settlement.outcome = NODE_LOST;
	else if (job.cancelled)
		settlement.outcome = CANCELLED;
	else
		settlement.outcome = attempt.directed ? PREEMPTED : FAILED;
	AttemptSettle(&job, &attempt, &settlement);
	return SWEEP_DONE;
}

/*
 * Settle one attempt of which a node is lost.
 */
static SweepResult
settle_lost(const char *org, int64 id, int32 number, const void *context)
{
	const Silence *since = context;
	Settlement	settlement = {.outcome = NODE_LOST, .elapsed = -1,
		.reason = "node_silent"};
	SqlArgs		args = attempt_key(org, id, number, since->nodes);
	SqlResult	row;
	Attempt		attempt;
	Job			job;

	if (!JobLock(org, id, false, &job))
		return SWEEP_BUSY;
	row = SqlRun(&lost_lock, &args);
	if (row.n == 0)
		return SWEEP_IDLE;
	AttemptFrom(row, 0, &attempt);
	AttemptSettle(&job, &attempt, &settlement);
	return SWEEP_DONE;
}

/*
 * A row of the result.
 */
static void
put_task(FunctionCallInfo fcinfo, const char *task, int64 affected)
{
	Row			row = {0};

	RowText(&row, task);
	RowAdd(&row, Int64GetDatum(affected));
	RowPut((ReturnSetInfo *) fcinfo->resultinfo, &row);
}
