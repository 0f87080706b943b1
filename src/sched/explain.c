/*-------------------------------------------------------------------------
 *
 * explain.c
 *		explain: why a job waits, or what became of it, check by check.
 *
 * What its own rows say comes first: state, account, credit, backoff, an
 * earlier attempt, quotas.  Of credit explain_credit.c tells.
 * For a job in the queue the next cycle is then thought through
 * (explain_cycle.c).  Who leaves for whom is told by explain_leave.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/sql.h"
#include "util/not_found.h"
#include "api/tenant.h"
#include "job/job.h"
#include "sched/explain.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(gpucredit_explain);

SQL_STATEMENT(job_read, SPI_OK_SELECT, "text, bigint",
			  "SELECT j.account, j.pool, j.state, j.submitted_at,"
			  " j.not_before, j.ended_at, j.attempt, h.held, j.tier,"
			  REQUEST_COLUMNS
			  " FROM gpucredit.job j LEFT JOIN gpucredit.hold h"
			  " ON h.org = j.org AND h.hold = j.hold"
			  " WHERE j.org = $1 AND j.job = $2");
SQL_STATEMENT(suspended_read, SPI_OK_SELECT, "text, text",
			  "SELECT a.account FROM gpucredit.account a"
			  " WHERE a.org = $1 AND a.suspended AND (a.account = ''"
			  "  OR a.account = $2"
			  "  OR pg_catalog.starts_with($2, a.account || '/'))"
			  " ORDER BY pg_catalog.length(a.account) LIMIT 1");
SQL_STATEMENT(quotas_read, SPI_OK_SELECT, "text, text, bigint",
			  "SELECT q.account, NULLIF(q.gpu_type, ''), q.max_gpus,"
			  " q.max_running, pg_catalog.count(a.job)::int,"
			  " COALESCE(pg_catalog.sum(a.gpus::bigint * a.share), 0)::bigint"
			  " FROM gpucredit.quota q LEFT JOIN (SELECT a.*" LIVE_ATTEMPTS
			  " AND j.org = $1) a ON (q.account = '' OR a.account = q.account"
			  "  OR pg_catalog.starts_with(a.account, q.account || '/'))"
			  " AND (q.gpu_type = '' OR a.gpu_type = q.gpu_type)"
			  " WHERE q.org = $1 AND (q.account = '' OR q.account = $2"
			  "  OR pg_catalog.starts_with($2, q.account || '/'))"
			  " AND (q.max_gpus IS NOT NULL OR q.max_running IS NOT NULL)"
			  " AND (q.gpu_type = '' OR q.gpu_type = ANY ((SELECT"
			  "   j.offer_types FROM gpucredit.job j"
			  "  WHERE j.org = $1 AND j.job = $3)::text[]))"
			  " GROUP BY q.account, q.gpu_type, q.max_gpus, q.max_running"
			  " ORDER BY pg_catalog.length(q.account), q.account, q.gpu_type");
SQL_STATEMENT(attempt_read, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT pg_catalog.min(g.started_at),"
			  " pg_catalog.min(g.expected_end), pg_catalog.min(g.limit_end),"
			  " pg_catalog.string_agg(g.node || g.gpus::text, ' '"
			  "  ORDER BY g.node),"
			  " (SELECT s.state FROM gpucredit.jobs s"
			  "  WHERE s.org = $1 AND s.job = $2)"
			  " FROM gpucredit.attempt_gpu g WHERE g.org = $1 AND g.job = $2"
			  " AND g.attempt = $3");

static void put_state(ReturnSetInfo *rsinfo, SqlResult row, const char *org,
					  int64 id);
static void put_account(ReturnSetInfo *rsinfo, const char *org,
						const char *account, bool held);
static bool put_fence_wait(ReturnSetInfo *rsinfo, const char *org, int64 id);
static bool put_quotas(ReturnSetInfo *rsinfo, const Job *job);

Datum
gpucredit_explain(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		id = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	SqlArgs		args = {0};
	SqlResult	row;
	Job			job = {0};
	char	   *state;
	char	   *account;
	Credits		held;
	TimestampTz not_before;
	bool		free_to_go;

	TenantCheckJob(org, id);
	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	SqlArgText(&args, org);
	SqlArgInt8(&args, id);
	row = SqlRead(&job_read, &args);
	if (row.n == 0)
		NotFoundJob(id);
	RequestRead(row, 0, &job);
	job.org = org;
	job.job = id;
	job.account = account = SqlText(row, 0, 1);
	job.pool = SqlText(row, 0, 2);
	job.tier = SqlText(row, 0, 9);
	state = SqlText(row, 0, 3);
	held = SqlIsNull(row, 0, 8) ? 0 : SqlCredits(row, 0, 8);
	put_state(rsinfo, row, org, id);
	if (strcmp(state, "queued") == 0 || strcmp(state, "unfunded") == 0)
	{
		put_account(rsinfo, org, account, strcmp(state, "queued") == 0);
		ExplainCredit(rsinfo, &job,
					  strcmp(state, "queued") == 0 ? &held : NULL);
		not_before = SqlTimeOr(row, 0, 5, DT_NOBEGIN);
		free_to_go = not_before <= ClockNow();
		ExplainPut(rsinfo, "backoff", free_to_go, free_to_go ?
				   "it need not wait to be tried again" :
				   psprintf("it failed, and is tried again at %s",
							ExplainTime(not_before)));
		free_to_go &= put_fence_wait(rsinfo, org, id);
		free_to_go &= put_quotas(rsinfo, &job);
		if (free_to_go && strcmp(state, "queued") == 0)
			ExplainCycle(rsinfo, &job);
	}
	SqlFinish();
	return (Datum) 0;
}

/*
 * Where the job stands.
 */
static void
put_state(ReturnSetInfo *rsinfo, SqlResult row, const char *org, int64 id)
{
	char	   *state = SqlText(row, 0, 3);
	int32		attempt = SqlInt4(row, 0, 7);
	SqlArgs		args = {0};
	SqlResult	live;
	TimestampTz started;
	TimestampTz expected;
	TimestampTz limit;

	if (strcmp(state, "queued") == 0)
		ExplainPut(rsinfo, "state", true,
				   psprintf("queued, submitted at %s, %d "
							"attempts so far",
							ExplainTime(SqlTime(row, 0,
												4)),
							attempt));
	else if (strcmp(state, "unfunded") == 0)
		ExplainPut(rsinfo, "state", false,
				   "unfunded: it waits for credit before it "
				   "is queued again, which happens by itself");
	else if (strcmp(state, "active") == 0)
	{
		SqlArgText(&args, org);
		SqlArgInt8(&args, id);
		SqlArgInt4(&args, attempt);
		live = SqlRead(&attempt_read, &args);
		started = SqlTime(live, 0, 1);
		limit = SqlTime(live, 0, 3);
		expected = RunningExpectEnd(ClockNow(), started,
									SqlTime(live, 0, 2), limit);
		ExplainPut(rsinfo, "state", true,
				   psprintf("%s: attempt %d has %s since %s, expected to end at "
							"%s, at the latest at %s", SqlText(live, 0, 5),
							attempt, SqlText(live, 0, 4), ExplainTime(started),
							ExplainTime(expected),
							ExplainTime(Max(limit, expected))));
		ExplainLeaving(rsinfo, org, id, attempt);
	}
	else
		ExplainPut(rsinfo, "state", false,
				   psprintf("%s at %s, after %d attempts: it will not run again",
							state, ExplainTime(SqlTime(row, 0, 6)), attempt));
}

/*
 * May its account begin new work?  A hold that the job has may be used.
 */
static void
put_account(ReturnSetInfo *rsinfo, const char *org, const char *account,
			bool held)
{
	SqlArgs		args = {0};
	SqlResult	rows;

	SqlArgText(&args, org);
	SqlArgText(&args, account);
	rows = SqlRead(&suspended_read, &args);
	ExplainPut(rsinfo, "account", rows.n == 0 || held, rows.n == 0 ?
			   "not suspended" :
			   psprintf("account \"%s\" is suspended: no new credit is held below "
						"it until suspend_account() ends that%s",
						SqlText(rows, 0, 1), held ?
						"; what is held for this job it may still use" : ""));
}

/*
 * Whether an earlier attempt is over.  False: it may still run somewhere.
 */
static bool
put_fence_wait(ReturnSetInfo *rsinfo, const char *org, int64 id)
{
	char	   *nodes = FenceWaitNodes(org, id, ClockNow());

	if (nodes == NULL)
		return true;
	ExplainPut(rsinfo, "earlier attempt", false,
			   psprintf("it may still run on %s: until a heartbeat comes without "
						"it, or node_lost has passed, it does not start again",
						nodes));
	return false;
}

/*
 * Each quota that it waits under, of a type only where it was offered that
 * one.  False: one of them holds it back, whatever type it gets.
 */
static bool
put_quotas(ReturnSetInfo *rsinfo, const Job *job)
{
	const GpuReq *request = job->request;
	SqlArgs		args = {0};
	SqlResult	rows;
	bool		all = true;

	SqlArgText(&args, job->org);
	SqlArgText(&args, job->account);
	SqlArgInt8(&args, job->job);
	rows = SqlRead(&quotas_read, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *type = SqlText(rows, i, 2);
		int64		used = SqlInt8(rows, i, 6);
		int32		running = SqlInt4(rows, i, 5);
		int64		wanted = (int64) request->min_gpus * request->share_milli;
		bool		gpus = SqlIsNull(rows, i, 3) || wanted == 0 ||
			used + wanted <= (int64) SqlInt4(rows, i, 3) * DECIDE_WHOLE;
		bool		jobs = SqlIsNull(rows, i, 4) ||
			running < SqlInt4(rows, i, 4);
		StringInfoData detail;

		initStringInfo(&detail);
		appendStringInfo(&detail, "account \"%s\", %s:", SqlText(rows, i, 1),
						 type != NULL ? type : "any type");
		if (!SqlIsNull(rows, i, 3))
			appendStringInfo(&detail, " %lld thousandths of GPUs wanted, "
							 "%lld in use of %lld", (long long) wanted,
							 (long long) used,
							 (long long) SqlInt4(rows, i, 3) * DECIDE_WHOLE);
		if (!SqlIsNull(rows, i, 4))
			appendStringInfo(&detail, "%s %d jobs run of %d",
							 SqlIsNull(rows, i, 3) ? "" : ";", running,
							 SqlInt4(rows, i, 4));
		if (!gpus || !jobs)
			appendStringInfo(&detail, ": %s%s",
							 (gpus || wanted <= (int64) SqlInt4(rows, i, 3) *
							  DECIDE_WHOLE) &&
							 (jobs || SqlInt4(rows, i, 4) > 0) ?
							 "one that counts in it must end first, or "
							 "set_quota() allow more" :
							 "set_quota() must allow more",
							 type != NULL && job->offers.n > 1 ?
							 "; what follows is of the other types it accepts" :
							 "");
		ExplainPut(rsinfo, "quota", gpus && jobs, detail.data);
		if ((!gpus || !jobs) && type == NULL)
			all = false;
	}
	if (rows.n == 0)
		ExplainPut(rsinfo, "quota", true, "no quota limits what it uses");
	return all;
}
