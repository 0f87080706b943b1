/*-------------------------------------------------------------------------
 *
 * reclaim.c
 *		SQL functions reclaim and resume: a node's provider takes the node
 *		back, or leaves it after all.
 *
 * After reclaim nothing new starts on the node. At the deadline the node is
 * gone: heartbeat and meter order the agent to stop, and check_nodes() settles
 * attempts that have not ended as preempted. Each attempt on the node gets one
 * directive to save and to leave by the deadline. The directive contains when
 * its turn to write a checkpoint is, and whether it can finish in time.
 *
 * All leaving attempts of the pool are planned together, so that attempts of
 * many nodes that are reclaimed at once keep within
 * gpucredit.checkpoint_bandwidth. Each call of reclaim or resume plans again,
 * and so does each cycle while an attempt waits for its turn, because an
 * attempt that finishes early leaves time to others. A change of less than a
 * second is not written, since otherwise each call of a transaction would
 * leave another version of every row. The nodes of one call are planned once.
 *
 * Locks: pools by name, then the nodes' rows by name; directives without
 * waiting, as a locked one belongs to an attempt that is being settled.
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
 * Selects attempts that must leave, with what is known of their checkpoints:
 * the size of the last one, or else the size in the spec; since when work is
 * not saved; and the directive that they have.
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
/*
 * Selects the attempts with a part on some nodes. They may have parts on other
 * nodes that they must leave as well.
 */
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

/* Whether an attempt of the pool waits for its turn to save. */
SQL_STATEMENT(turns_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT 1 FROM gpucredit.node n JOIN gpucredit.attempt_gpu g"
			  "  ON g.pool = n.pool AND g.node = n.node"
			  " JOIN gpucredit.directive d ON d.org = g.org"
			  "  AND d.job = g.job AND d.attempt = g.attempt"
			  "  AND d.cause = 'reclaim' AND d.told_at IS NULL"
			  "  AND d.starts_at > $2"
			  " WHERE n.pool = $1 AND n.reclaim_at > $2"
			  " AND NOT g.free AND g.ended_at IS NULL LIMIT 1");

/*
 * Whether a directive of any pool has a turn that is still to come. Its
 * attempt may have ended. The query returns quickly if there is none.
 */
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
 * Changes the directives of attempts whose plan has changed. A directive that
 * the agent received while the plan was made is not changed, unless its
 * deadline is now another one.
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

static void mark_reclaimed(FunctionCallInfo fcinfo, const char **nodes, int n);
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

	mark_reclaimed(fcinfo, &node, 1);
	PG_RETURN_VOID();
}

Datum
call_reclaim_nodes(PG_FUNCTION_ARGS)
{
	int			n;
	const char **nodes = ArgNames(fcinfo, 0, "nodes", &n);

	mark_reclaimed(fcinfo, nodes, n);
	PG_RETURN_VOID();
}

/*
 * Marks all nodes of a call as reclaimed, and plans each pool once. An agent
 * that sees its provider's notice again, after a restart, must not postpone
 * what is known already: such a call changes nothing, and the audit log has
 * only the calls that did.
 */
static void
mark_reclaimed(FunctionCallInfo fcinfo, const char **nodes, int n)
{
	int64		notice = ArgDuration(fcinfo, 1, "notice", true);
	TimestampTz now;
	NodePool   *locked;
	NodePool   *changed;
	int			nchanged;

	SqlConnect();
	changed = locked = NodesLock(nodes, &n);
	nchanged = n;
	now = ClockNow();
	if (CallerIsAgent())
		changed = NodesReclaimEarlier(nodes, &nchanged, ClockAdd(now, notice));
	else
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
	audit_nodes(fcinfo, changed, nchanged, notice, now);
	SqlFinish();
}

/* Writes an audit row for each node. */
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
 * Plans again, in a locked pool, for attempts that wait for their turn to
 * save: their turn may now be earlier, or they may now finish in time.
 */
void
ReclaimReplan(const char *pool, TimestampTz now)
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
 * Plans for nodes of a locked pool that were reclaimed or that stay. If the
 * bandwidth of checkpoints is not limited, the turns of different attempts do
 * not depend on each other. Then only attempts on these nodes are planned,
 * unless some attempt still has a later turn from when there was a limit.
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

/* Whether some attempt waits for its turn to save. */
static bool
turns_to_come(TimestampTz now)
{
	return SqlRun(&turns_look, VALUES(TimeValue(now))).n > 0;
}

/* Plans when each leaving attempt saves, and writes the directives. */
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

/* Logs that some attempts cannot save before they must leave. */
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
 * Reads the attempts of a pool that must leave, ordered by organisation, job
 * and attempt.
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

/* Reads one attempt that must leave from a row. */
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

/* Returns the parameters that describe the plan. */
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

/* Returns an array of instants, with null for DT_NOEND. */
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
