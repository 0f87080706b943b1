/*-------------------------------------------------------------------------
 *
 * reclaim.c reclaim: a node's provider takes it back; resume: it stays after
 * all.
 *
 * From the call on nothing new starts on the node. From its deadline on it is
 * gone: heartbeat and meter say stop, and check_nodes() settles the rest as
 * preempted. Each attempt there gets one directive to save and leave by the
 * deadline. The directive says when its turn to write is, and whether it can
 * finish in time.
 *
 * All leaving attempts of the pool are planned together, so that many nodes
 * reclaimed at once keep within gpucredit.checkpoint_bandwidth. Each call that
 * takes or returns nodes plans again, and so does each cycle while anybody
 * waits for a turn, as an early finish leaves time to others. A change of less
 * than a second is not written, since each call of a transaction would leave a
 * version of every row. Nodes of one call are planned once.
 *
 * Locks: pools by name, then the nodes' rows by name; directives without
 * waiting: a locked one belongs to an attempt that is being settled.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "common/int.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/sql.h"
#include "decide/preempt/rescue.h"
#include "api/api.h"
#include "inventory/inventory.h"
#include "job/run/reclaim.h"
#include "miscadmin.h"
#include "utils/array.h"

API_FUNCTION(gpucredit_reclaim, reclaim);
API_FUNCTION(gpucredit_reclaim_nodes, reclaim_nodes);
API_FUNCTION(gpucredit_resume, resume);

/*
 * What must leave, with what is known of its checkpoints: how much the last
 * one, or the spec, says it writes; since when nothing is saved; what it was
 * told.
 */
#define LEAVING_READ(of) \
	"SELECT l.org, l.job, l.attempt, l.deadline, COALESCE(c.size_bytes," \
	"  (j.spec ->> 'checkpoint_bytes')::bigint)," \
	" a.gpus::bigint * a.share, COALESCE(a.saved_at, a.running_at)," \
	" d.starts_at, d.saved_by, COALESCE(a.saved_at >=" \
	"  COALESCE(LEAST(d.told_at, d.starts_at), d.given_at), false)," \
	" d.told_at IS NOT NULL" \
	" FROM (" of " OFFSET 0) l" \
	" CROSS JOIN LATERAL (SELECT a.gpus, a.share, a.saved_at, a.running_at" \
	"  FROM gpucredit.attempt a WHERE a.org = l.org AND a.job = l.job" \
	"  AND a.attempt = l.attempt OFFSET 0) a" \
	" CROSS JOIN LATERAL (SELECT j.spec FROM gpucredit.job j" \
	"  WHERE j.org = l.org AND j.job = l.job OFFSET 0) j" \
	" LEFT JOIN LATERAL (SELECT c.size_bytes" \
	"  FROM gpucredit.checkpoint c WHERE c.org = l.org" \
	"  AND c.job = l.job AND c.bad_at IS NULL" \
	"  ORDER BY c.attempt DESC, c.step DESC LIMIT 1) c ON true" \
	" LEFT JOIN LATERAL (SELECT d.* FROM gpucredit.directive d" \
	"  WHERE d.org = l.org AND d.job = l.job AND d.attempt = l.attempt" \
	"  AND d.cause = 'reclaim' OFFSET 0) d ON true" \
	" WHERE l.deadline >= $2 ORDER BY l.org, l.job, l.attempt"
SQL_STATEMENT(leaving_read, SPI_OK_SELECT, "text, timestamptz",
			  LEAVING_READ(
						   "SELECT g.org, g.job, g.attempt,"
						   "  pg_catalog.min(n.reclaim_at) AS deadline"
						   " FROM gpucredit.node n CROSS JOIN LATERAL"
						   "  (SELECT g.org, g.job, g.attempt"
						   "   FROM gpucredit.attempt_gpu g"
						   "   WHERE g.pool = $1 AND g.node = n.node"
						   "   AND NOT g.free AND g.ended_at IS NULL"
						   "   OFFSET 0) g"
						   " WHERE n.pool = $1 AND n.reclaim_at IS NOT NULL"
						   " GROUP BY g.org, g.job, g.attempt"));
/* attempts with a part on some nodes; they may leave others, too */
SQL_STATEMENT(leaving_read_of, SPI_OK_SELECT, "text, timestamptz, text[]",
			  LEAVING_READ(
						   "SELECT t.org, t.job, t.attempt, r.deadline"
						   " FROM (SELECT DISTINCT g.org, g.job, g.attempt"
						   "  FROM pg_catalog.unnest($3) AS u (node)"
						   "  CROSS JOIN LATERAL (SELECT g.org, g.job, g.attempt"
						   "   FROM gpucredit.attempt_gpu g"
						   "   WHERE g.pool = $1 AND g.node = u.node"
						   "   AND NOT g.free AND g.ended_at IS NULL"
						   "   OFFSET 0) g) t"
						   " CROSS JOIN LATERAL"
						   "  (SELECT pg_catalog.min(n.reclaim_at) AS deadline"
						   "  FROM gpucredit.attempt_gpu g"
						   "  JOIN gpucredit.node n ON n.node = g.node"
						   "  WHERE g.org = t.org AND g.job = t.job"
						   "  AND g.attempt = t.attempt) r"));

/* does anybody wait for a turn? */
SQL_STATEMENT(turns_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT 1 FROM gpucredit.node n JOIN gpucredit.attempt_gpu g"
			  "  ON g.pool = n.pool AND g.node = n.node"
			  " JOIN gpucredit.directive d ON d.org = g.org"
			  "  AND d.job = g.job AND d.attempt = g.attempt"
			  "  AND d.cause = 'reclaim' AND d.told_at IS NULL"
			  "  AND d.starts_at > $2"
			  " WHERE n.pool = $1 AND n.reclaim_at > $2"
			  " AND NOT g.free AND g.ended_at IS NULL LIMIT 1");

/* in any pool, perhaps over by now; ends at once if there is none */
SQL_STATEMENT(turns_look, SPI_OK_SELECT, "timestamptz",
			  "SELECT 1 FROM gpucredit.directive d"
			  " WHERE d.cause = 'reclaim' AND d.told_at IS NULL"
			  " AND d.starts_at > $1 LIMIT 1");

#define LEAVING_TYPES \
	"text[], bigint[], int[], timestamptz[], timestamptz[], timestamptz[]," \
	" boolean[], timestamptz"
#define LEAVING \
	" FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)," \
	" pg_catalog.unnest($3), pg_catalog.unnest($4)," \
	" pg_catalog.unnest($5), pg_catalog.unnest($6), pg_catalog.unnest($7))" \
	" AS u (org, job, attempt, deadline, starts_at, saved_by, told)"
/*
 * an attempt that is told during the planning keeps its directive, with no
 * later end
 */
SQL_STATEMENT(leaving_change, SPI_OK_UPDATE, LEAVING_TYPES,
			  "UPDATE gpucredit.directive d SET deadline = l.deadline,"
			  " starts_at = l.starts_at, saved_by = l.saved_by"
			  " FROM (SELECT u.*, d.ctid AS tid" LEAVING
			  "  JOIN gpucredit.directive d ON d.org = u.org"
			  "  AND d.job = u.job AND d.attempt = u.attempt"
			  "  AND d.cause = 'reclaim' AND $8 IS NOT NULL"
			  "  WHERE (d.told_at IS NULL OR u.told"
			  "   OR d.deadline IS DISTINCT FROM u.deadline)"
			  "  AND (d.deadline IS DISTINCT FROM u.deadline"
			  "   OR (d.saved_by IS NULL) <> (u.saved_by IS NULL)"
			  "   OR GREATEST(d.starts_at - u.starts_at,"
			  "    u.starts_at - d.starts_at, d.saved_by - u.saved_by,"
			  "    u.saved_by - d.saved_by, CASE WHEN d.starts_at IS NULL"
			  "     THEN '1 s'::interval END) >= '1 s')"
			  "  FOR NO KEY UPDATE OF d SKIP LOCKED) l"
			  " WHERE d.ctid = l.tid");
SQL_STATEMENT(leaving_tell, SPI_OK_INSERT, LEAVING_TYPES,
			  "INSERT INTO gpucredit.directive (org, job, attempt, cause,"
			  " action, reason, deadline, starts_at, saved_by, given_at)"
			  " SELECT u.org, u.job, u.attempt, 'reclaim', 'checkpoint',"
			  " 'reclaim', u.deadline, u.starts_at, u.saved_by, $8" LEAVING
			  " WHERE NOT EXISTS (SELECT FROM gpucredit.directive d"
			  "  WHERE d.org = u.org AND d.job = u.job"
			  "  AND d.attempt = u.attempt AND d.cause = 'reclaim')"
			  " ON CONFLICT (org, job, attempt, cause) DO NOTHING");
SQL_STATEMENT(staying_untell, SPI_OK_DELETE, "text, text",
			  "DELETE FROM gpucredit.directive d WHERE d.ctid = ANY (ARRAY("
			  " SELECT d.ctid FROM gpucredit.attempt_gpu g"
			  " JOIN gpucredit.directive d ON d.org = g.org"
			  "  AND d.job = g.job AND d.attempt = g.attempt"
			  "  AND d.cause = 'reclaim'"
			  " WHERE g.pool = $1 AND g.node = $2 AND NOT g.free"
			  " AND g.ended_at IS NULL AND NOT EXISTS"
			  "  (SELECT FROM gpucredit.attempt_gpu o"
			  "   JOIN gpucredit.node n ON n.node = o.node"
			  "   WHERE o.org = g.org AND o.job = g.job"
			  "   AND o.attempt = g.attempt AND n.reclaim_at IS NOT NULL)"
			  " FOR NO KEY UPDATE OF d SKIP LOCKED))");

static void take_back(FunctionCallInfo fcinfo, const char **nodes, int n);
static void audit_nodes(FunctionCallInfo fcinfo, const NodePool *nodes, int n,
						int64 notice, TimestampTz now);
static void plan_news(const char *pool, const char **nodes, int n,
					  TimestampTz now);
static bool turns_to_come(TimestampTz now);
static void plan_leaving(const char *pool, RescueJob *jobs, int n,
						 TimestampTz now);
static void log_storm(const char *pool, const RescueJob *jobs, int n);
static RescueJob *read_leaving(SqlStatement *statement, Values *args,
							   TimestampTz now, int *n);
static void read_job(SqlResult rows, uint64 i, TimestampTz now,
					 RescueJob *job);
static Values leaving_args(const RescueJob *jobs, int n, TimestampTz now);
static NullableDatum times_value(const int64 *times, int n);

Datum
call_reclaim(PG_FUNCTION_ARGS)
{
	const char *node = ArgName(fcinfo, 0, "node");

	take_back(fcinfo, &node, 1);
	PG_RETURN_VOID();
}

Datum
call_reclaim_nodes(PG_FUNCTION_ARGS)
{
	int			n;
	const char **nodes = ArgNames(fcinfo, 0, "nodes", &n);

	take_back(fcinfo, nodes, n);
	PG_RETURN_VOID();
}

/*
 * Take all nodes at once, and plan each pool once.
 */
static void
take_back(FunctionCallInfo fcinfo, const char **nodes, int n)
{
	int64		notice = ArgDuration(fcinfo, 1, "notice", true);
	TimestampTz now;
	NodePool   *locked;

	SqlConnect();
	locked = NodesLock(nodes, &n);
	now = ClockNow();
	NodesReclaim(nodes, n, ClockAdd(now, notice));
	for (int from = 0, to; from < n; from = to)
	{
		for (to = from + 1; to < n; to++)
		{
			if (strcmp(locked[to].pool, locked[from].pool) != 0)
				break;
		}
		plan_news(locked[from].pool, nodes + from, to - from, now);
	}
	audit_nodes(fcinfo, locked, n, notice, now);
	SqlFinish();
}

/*
 * A row for each node.
 */
static void
audit_nodes(FunctionCallInfo fcinfo, const NodePool *nodes, int n,
			int64 notice, TimestampTz now)
{
	AuditRow   *rows = palloc0(sizeof(AuditRow) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		rows[i] = (AuditRow)
		{
			.operation = "reclaim", .decision = "reclaimed", .at = now,
				.reason = psprintf("notice %lld s",
								   (long long) (notice / USECS_PER_SEC))
		};
		AuditText(&rows[i], "node", nodes[i].node);
		AuditArg(&rows[i], fcinfo, 1);
		AuditText(&rows[i], "pool", nodes[i].pool);
	}
	AuditWriteMany(rows, n);
}

Datum
call_resume(PG_FUNCTION_ARGS)
{
	const char *node = ArgName(fcinfo, 0, "node");
	char	   *pool;

	SqlConnect();
	pool = NodeLockPool(node, false);
	NodeResume(pool, node);
	(void) SqlRun(&staying_untell, VALUES(TextValue(pool), TextValue(node)));
	plan_news(pool, &node, 1, ClockNow());
	NodeAudit(fcinfo, "resume", "resumed", pool, NULL);
	SqlFinish();
	PG_RETURN_VOID();
}

/*
 * In a locked pool, plan again for attempts that wait: their turn may be
 * earlier, or they may now finish in time.
 */
void
ReclaimPlanAnew(const char *pool, TimestampTz now)
{
	Values	   *args;

	RescueJob  *jobs;
	int			n;

	args = VALUES(TextValue(pool), TimeValue(now));
	if (SqlRun(&turns_read, args).n == 0)
		return;
	jobs = read_leaving(&leaving_read, args, now, &n);
	plan_leaving(pool, jobs, n, now);
}

/*
 * Plan for nodes of a locked pool that go or stay. If writing together is not
 * limited, turns do not depend on others, so only attempts on these nodes are
 * planned, unless the limit was on before.
 */
static void
plan_news(const char *pool, const char **nodes, int n, TimestampTz now)
{
	SqlStatement *statement = &leaving_read;
	RescueJob  *jobs;
	int			leaving;
	Values	   *args = VALUES(TextValue(pool), TimeValue(now));

	if (SettingCheckpointBandwidth() == 0 && !turns_to_come(now))
	{
		ValuesAdd(args, TextArrayValue(nodes, n));
		statement = &leaving_read_of;
	}
	jobs = read_leaving(statement, args, now, &leaving);
	plan_leaving(pool, jobs, leaving, now);
	log_storm(pool, jobs, leaving);
}

/*
 * Does an attempt wait for its turn to save?
 */
static bool
turns_to_come(TimestampTz now)
{
	return SqlRun(&turns_look, VALUES(TimeValue(now))).n > 0;
}

/*
 * Plan when each leaving attempt saves, and write its directive.
 */
static void
plan_leaving(const char *pool, RescueJob *jobs, int n, TimestampTz now)
{
	DecideArena arena = ArenaOf(CurrentMemoryContext);
	Values		args;

	if (n == 0)
		return;
	if (!RescuePlan(jobs, n, now, SettingCheckpointBandwidth(), &arena))
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("%d attempts must leave.", n)));
	args = leaving_args(jobs, n, now);
	(void) SqlRun(&leaving_change, &args);
	(void) SqlRun(&leaving_tell, &args);
}

/*
 * Log that more attempts must leave than can save in time.
 */
static void
log_storm(const char *pool, const RescueJob *jobs, int n)
{
	int64		unsaved = 0;
	StringInfo	line;

	for (int i = 0; i < n; i++)
		unsaved += !jobs[i].promised && !jobs[i].saved && jobs[i].size >= 0;
	if (unsaved == 0)
		return;
	line = LogBegin("reclaim_storm");
	LogText(line, "pool", pool);
	LogNumber(line, "leaving", n);
	LogNumber(line, "unsaved", unsaved);
	LogAtCommit(line);
}

/*
 * The attempts of a pool that must leave, by organisation, job, attempt.
 */
static RescueJob *
read_leaving(SqlStatement *statement, Values *args, TimestampTz now, int *n)
{
	SqlResult	rows = SqlRun(statement, args);
	RescueJob  *jobs = palloc0(sizeof(RescueJob) * (rows.n + 1));

	for (uint64 i = 0; i < rows.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		read_job(rows, i, now, &jobs[i]);
	}
	*n = (int) rows.n;
	SqlFree(&rows);
	return jobs;
}

/*
 * One of them.
 */
static void
read_job(SqlResult rows, uint64 i, TimestampTz now, RescueJob *job)
{
	TimestampTz since = SqlTimeOr(rows, i, 7, now);

	job->org = SqlText(rows, i, 1);
	job->id = SqlInt8(rows, i, 2);
	job->attempt = SqlInt4(rows, i, 3);
	job->deadline = SqlTime(rows, i, 4);
	job->size = SqlIsNull(rows, i, 5) ? -1 : SqlInt8(rows, i, 5);
	if (pg_mul_s64_overflow(SqlInt8(rows, i, 6), Max(now - since, 0),
							&job->at_risk))
		job->at_risk = PG_INT64_MAX;
	job->starts = SqlTimeOr(rows, i, 8, now);
	job->ends = SqlTimeOr(rows, i, 9, DT_NOEND);
	job->promised = job->ends <= job->deadline;
	job->saved = SqlBool(rows, i, 10);
	job->notified = SqlBool(rows, i, 11);
}

/*
 * The plan as parameters.
 */
static Values
leaving_args(const RescueJob *jobs, int n, TimestampTz now)
{
	const char **orgs = palloc(sizeof(char *) * n);
	int64	   *ids = palloc(sizeof(int64) * n);
	int32	   *attempts = palloc(sizeof(int32) * n);
	int64	   *times = palloc(sizeof(int64) * 3 * n);
	Datum	   *notified = palloc(sizeof(Datum) * n);
	Values	   *args;

	for (int i = 0; i < n; i++)
	{
		orgs[i] = jobs[i].org;
		ids[i] = jobs[i].id;
		attempts[i] = jobs[i].attempt;
		times[i] = jobs[i].deadline;
		times[n + i] = jobs[i].starts;
		times[2 * n + i] = jobs[i].promised ? jobs[i].ends : DT_NOEND;
		notified[i] = BoolGetDatum(jobs[i].notified);
	}
	args = VALUES(TextArrayValue(orgs, n), Int8ArrayValue(ids, n),
				  Int4ArrayValue(attempts, n), times_value(times, n),
				  times_value(times + n, n), times_value(times + 2 * n, n),
				  ArrayValue(notified, NULL, n, BOOLOID), TimeValue(now));
	return *args;
}

/*
 * An array of instants; DT_NOEND is null.
 */
static NullableDatum
times_value(const int64 *times, int n)
{
	Datum	   *values = palloc(sizeof(Datum) * n);
	bool	   *nulls = palloc(sizeof(bool) * n);

	for (int i = 0; i < n; i++)
	{
		values[i] = TimestampTzGetDatum(times[i]);
		nulls[i] = times[i] == DT_NOEND;
	}
	return ArrayValue(values, nulls, n, TIMESTAMPTZOID);
}
