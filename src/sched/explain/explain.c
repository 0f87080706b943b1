/*-------------------------------------------------------------------------
 *
 * explain.c
 *		The function explain(): why a job waits, or what became of it, one
 *		row for each check.
 *
 * The checks of the job's own rows come first: state, account, credit,
 * backoff, an earlier attempt, quotas. For a queued job, the next cycle is
 * then planned (explain_cycle.c). explain_leave.c reports which jobs leave,
 * and for what.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/not_found.h"
#include "util/sql.h"
#include "api/tenant.h"
#include "job/job.h"
#include "sched/explain/explain.h"
#include "sched/load/sched_quota.h"

PG_FUNCTION_INFO_V1(gpucredit_explain);

SQL_STATEMENT(job_read, SPI_OK_SELECT, "text, bigint",
			  "SELECT j.account, j.pool, j.state, j.submitted_at,"
			  " j.not_before, j.ended_at, j.attempt, h.held, j.tier,"
			  REQUEST_COLUMNS ", j.held_by, j.after, j.name, j.deadline"
			  " FROM gpucredit.job j LEFT JOIN gpucredit.hold h"
			  " ON h.org = j.org AND h.hold = j.hold"
			  " WHERE j.org = $1 AND j.job = $2");
SQL_STATEMENT(suspended_read, SPI_OK_SELECT, "text, text[]",
			  "SELECT p.account FROM " PATH_LEVELS(2) " CROSS JOIN LATERAL ("
			  "  SELECT FROM gpucredit.account a WHERE a.org = $1"
			  "  AND a.account = p.account AND a.suspended OFFSET 0) a"
			  " ORDER BY pg_catalog.length(p.account) LIMIT 1");
SQL_STATEMENT(quotas_read, SPI_OK_SELECT, "text, text, bigint",
			  "SELECT q.account, NULLIF(q.gpu_type, ''), q.max_running,"
			  " q.max_gpus, q.max_cpu_milli, q.max_memory_mib,"
			  " pg_catalog.count(a.job),"
			  " COALESCE(pg_catalog.sum(a.gpus::bigint * a.billed_share), 0)::bigint,"
			  " COALESCE(pg_catalog.sum(a.cpu_milli), 0)::bigint,"
			  " COALESCE(pg_catalog.sum(a.memory_mib), 0)::bigint,"
			  " q.max_nonpreemptible_gpus,"
			  " COALESCE(pg_catalog.sum(a.gpus::bigint * a.billed_share)"
			  "  FILTER (WHERE a.preemptible <> 'capacity'), 0)::bigint"
			  " FROM gpucredit.quota q LEFT JOIN (SELECT a.*, j.cpu_milli,"
			  "  j.memory_mib, j.preemptible" LIVE_ATTEMPTS
			  " AND j.org = $1) a ON (q.account = '' OR a.account = q.account"
			  "  OR pg_catalog.starts_with(a.account, q.account || '/'))"
			  " AND (q.gpu_type = '' OR a.gpu_type = q.gpu_type)"
			  " WHERE q.org = $1 AND (q.account = '' OR q.account = $2"
			  "  OR pg_catalog.starts_with($2, q.account || '/'))"
			  " AND " QUOTA_OF_RUNNING
			  " AND (q.gpu_type = '' OR q.gpu_type = ANY ((SELECT"
			  "   j.offer_types FROM gpucredit.job j"
			  "  WHERE j.org = $1 AND j.job = $3)::text[]))"
			  " GROUP BY q.org, q.account, q.gpu_type"
			  " ORDER BY pg_catalog.length(q.account), q.account, q.gpu_type");
SQL_STATEMENT(attempt_read, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT pg_catalog.min(g.started_at),"
			  " pg_catalog.min(g.expected_end), pg_catalog.min(g.limit_end),"
			  " pg_catalog.string_agg(g.node || g.gpus::text, ' '"
			  "  ORDER BY g.node),"
			  " (SELECT s.state FROM gpucredit.jobs s"
			  "  WHERE s.org = $1 AND s.job = $2),"
			  " pg_catalog.string_agg(g.node, ', ' ORDER BY g.node)"
			  "  FILTER (WHERE EXISTS (SELECT FROM gpucredit.node n"
			  "   WHERE n.node = g.node AND n.about -> 'pulling'"
			  "   ? pg_catalog.concat_ws('/', $1, $2, $3)))"
			  " FROM gpucredit.attempt_gpu g WHERE g.org = $1 AND g.job = $2"
			  " AND g.attempt = $3");

SQL_STATEMENT(tier_closed, SPI_OK_SELECT, "text, text[], text",
			  "SELECT 1 FROM gpucredit.tier t WHERE t.tier = $3"
			  " AND NOT t.open AND NOT EXISTS ("
			  "SELECT FROM gpucredit.tier_grant g WHERE g.org = $1"
			  " AND g.account = ANY ($2) AND g.tier = $3)");

static void put_state(ReturnSetInfo *rsinfo, SqlResult row, const char *org,
					  int64 id);
static void put_account(ReturnSetInfo *rsinfo, const char *org,
						const char *account, bool held);
static bool put_tier(ReturnSetInfo *rsinfo, const Job *job);
static bool put_fence_wait(ReturnSetInfo *rsinfo, const char *org, int64 id);
static DecideUse quota_most(SqlResult rows, uint64 i);
static DecideUse quota_used(SqlResult rows, uint64 i);
static bool put_quotas(ReturnSetInfo *rsinfo, const Job *job);

Datum
gpucredit_explain(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		id = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
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
	row = SqlRead(&job_read, VALUES(TextValue(org), Int8Value(id)));
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
	if (strcmp(state, "active") != 0 && SqlInt4(row, 0, 7) > 0)
		ExplainEnd(rsinfo, org, id, SqlInt4(row, 0, 7));
	if (strcmp(state, "queued") == 0 || strcmp(state, "unfunded") == 0)
	{
		put_account(rsinfo, org, account, strcmp(state, "queued") == 0);
		ExplainCredit(rsinfo, &job,
					  strcmp(state, "queued") == 0 ? &held : NULL);
		not_before = SqlTimeOr(row, 0, 5, DT_NOBEGIN);
		free_to_go = not_before <= ClockNow();
		if (!free_to_go && SqlInt4(row, 0, 7) == 0)
			ExplainPut(rsinfo, "begin", false,
					   psprintf("it asked to begin at %s at the earliest",
								ExplainTime(not_before)));
		else
			ExplainPut(rsinfo, "backoff", free_to_go, free_to_go ?
					   "it need not wait to be tried again" :
					   psprintf("it failed, and is tried again at %s",
								ExplainTime(not_before)));
		free_to_go &= ExplainHeld(rsinfo, SqlText(row, 0, 25));
		free_to_go &= ExplainAfter(rsinfo, &job, SqlText(row, 0, 26),
								   SqlText(row, 0, 27));
		ExplainBroken(rsinfo, &job);
		free_to_go &= put_tier(rsinfo, &job);
		free_to_go &= put_fence_wait(rsinfo, org, id);
		free_to_go &= put_quotas(rsinfo, &job);
		if (free_to_go && strcmp(state, "queued") == 0)
			ExplainCycle(rsinfo, &job);
	}
	SqlFinish();
	return (Datum) 0;
}

/*
 * Whether the job's account may use its tier. A row is returned only if it may
 * not.
 */
static bool
put_tier(ReturnSetInfo *rsinfo, const Job *job)
{
	AccountPath path = AccountParse(job->org, job->account);
	SqlResult	row = SqlRead(&tier_closed,
							  VALUES(TextValue(job->org),
									 TextArrayValue(path.accounts, path.n),
									 TextValue(job->tier)));

	if (row.n == 0)
		return true;
	ExplainPut(rsinfo, "tier", false,
			   psprintf("tier \"%s\" is no longer granted to its account",
						job->tier));
	return false;
}

/* Reports the job's state. */
static void
put_state(ReturnSetInfo *rsinfo, SqlResult row, const char *org, int64 id)
{
	char	   *state = SqlText(row, 0, 3);
	int32		attempt = SqlInt4(row, 0, 7);
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
		live = SqlRead(&attempt_read,
					   VALUES(TextValue(org), Int8Value(id),
							  Int4Value(attempt)));
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
		if (!SqlIsNull(live, 0, 6))
			ExplainPut(rsinfo, "image", false,
					   psprintf("its image is being pulled on %s; it pays for "
								"its devices meanwhile", SqlText(live, 0, 6)));
		ExplainLeaving(rsinfo, org, id, attempt);
	}
	else
		ExplainPut(rsinfo, "state", false,
				   psprintf("%s at %s, after %d attempts: it will not run again",
							state, ExplainTime(SqlTime(row, 0, 6)), attempt));
}

/*
 * Reports whether the job's account may begin new work. A suspended account's
 * job may still use the hold that it has.
 */
static void
put_account(ReturnSetInfo *rsinfo, const char *org, const char *account,
			bool held)
{
	AccountPath path = AccountParse(org, account);
	SqlResult	rows = SqlRead(&suspended_read,
							   VALUES(TextValue(org),
									  TextArrayValue(path.accounts, path.n)));

	ExplainPut(rsinfo, "account", rows.n == 0 || held, rows.n == 0 ?
			   "not suspended" :
			   psprintf("account \"%s\" is suspended: no new credit is held below "
						"it until suspend_account() ends that%s",
						SqlText(rows, 0, 1), held ?
						"; what is held for this job it may still use" : ""));
}

/*
 * Whether all earlier attempts of the job have ended. Returns false, with a
 * row, if one may still run on some node.
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

/* Returns the limits of a quota from a row of quotas_read. */
static DecideUse
quota_most(SqlResult rows, uint64 i)
{
	DecideUse	most;

	most.of[DECIDE_LIMITED_JOBS] = SqlIsNull(rows, i, 3) ? -1 :
		SqlInt4(rows, i, 3);
	most.of[DECIDE_LIMITED_DEVICES] = SqlIsNull(rows, i, 4) ? -1 :
		(int64) SqlInt4(rows, i, 4) * DECIDE_WHOLE;
	most.of[DECIDE_LIMITED_CPU] = SqlIsNull(rows, i, 5) ? -1 :
		SqlInt8(rows, i, 5);
	most.of[DECIDE_LIMITED_MEMORY] = SqlIsNull(rows, i, 6) ? -1 :
		SqlInt8(rows, i, 6);
	most.of[DECIDE_LIMITED_STAYING] = SqlIsNull(rows, i, 11) ? -1 :
		(int64) SqlInt4(rows, i, 11) * DECIDE_WHOLE;
	return most;
}

static DecideUse
quota_used(SqlResult rows, uint64 i)
{
	DecideUse	used;

	used.of[DECIDE_LIMITED_JOBS] = SqlInt8(rows, i, 7);
	used.of[DECIDE_LIMITED_DEVICES] = SqlInt8(rows, i, 8);
	used.of[DECIDE_LIMITED_CPU] = SqlInt8(rows, i, 9);
	used.of[DECIDE_LIMITED_MEMORY] = SqlInt8(rows, i, 10);
	used.of[DECIDE_LIMITED_STAYING] = SqlInt8(rows, i, 12);
	return used;
}

/*
 * Reports each quota that the job waits under. A quota of one type counts only
 * if the job was offered that type. Returns false if a quota holds the job
 * back, whatever type it gets.
 */
static bool
put_quotas(ReturnSetInfo *rsinfo, const Job *job)
{
	const NodeSet *set = NodesCached(job->pool);
	DecideRequestClass request = OffersRequest(job, set);
	SqlResult	rows;
	bool		all = true;

	rows = SqlRead(&quotas_read,
				   VALUES(TextValue(job->org), TextValue(job->account),
						  Int8Value(job->job)));
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *type = SqlText(rows, i, 2);
		DecideUse	none = {{0}};
		DecideUse	most = quota_most(rows, i);
		DecideUse	used = quota_used(rows, i);
		DecideUse	more = SchedQuotaLeast(set, type != NULL ? type : "",
										   &request);
		bool		over = DecideUseOver(&most, &used, &more) >= 0;
		StringInfoData detail;

		initStringInfo(&detail);
		appendStringInfo(&detail, "account \"%s\", %s:", SqlText(rows, i, 1),
						 type != NULL ? type : "any type");
		for (int l = 0; l < DECIDE_LIMITED; l++)
		{
			if (most.of[l] >= 0)
				SchedQuotaText(&detail, l, &more, &used, NULL, &most);
		}
		if (over)
			appendStringInfo(&detail, ": %s%s",
							 DecideUseOver(&most, &none, &more) < 0 ?
							 "one that counts in it must end first, or "
							 "set_quota() allow more" :
							 "set_quota() must allow more",
							 type != NULL && job->offers.n > 1 ?
							 "; what follows is of the other types it accepts" :
							 "");
		ExplainPut(rsinfo, "quota", !over, detail.data);
		if (over && type == NULL)
			all = false;
	}
	if (rows.n == 0)
		ExplainPut(rsinfo, "quota", true, "no quota limits what it uses");
	return all;
}
