/*-------------------------------------------------------------------------
 *
 * explain.c
 *		explain: why a job waits, or what became of it, check by check.
 *
 * What its own rows say comes first: state, account, credit, backoff, an
 * earlier attempt, quotas.
 * For a job in the queue the next cycle is then thought through as plan does,
 * and what that comes to is told: how far its request gets in the pool, its
 * turn, and what is reserved for it or promised to it.  Who leaves for whom is
 * told by explain_leave.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/args.h"
#include "common/compat.h"
#include "common/errors.h"
#include "common/sql.h"
#include "common/unknown.h"
#include "entry/tenant.h"
#include "job/job.h"
#include "sched/explain.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(gpucredit_explain);

SQL_STATEMENT(job_read, SPI_OK_SELECT, "text, bigint",
			  "SELECT j.account, j.pool, j.state, j.submitted_at,"
			  " j.not_before, j.ended_at, j.attempt, h.held, j.tier,"
			  ASK_COLUMNS
			  " FROM gpucredit.job j LEFT JOIN gpucredit.hold h"
			  " ON h.org = j.org AND h.hold = j.hold"
			  " WHERE j.org = $1 AND j.job = $2");
SQL_STATEMENT(suspended_read, SPI_OK_SELECT, "text, text",
			  "SELECT a.account FROM gpucredit.account a"
			  " WHERE a.org = $1 AND a.suspended AND (a.account = ''"
			  "  OR a.account = $2"
			  "  OR pg_catalog.starts_with($2, a.account || '/'))"
			  " ORDER BY pg_catalog.length(a.account) LIMIT 1");
SQL_STATEMENT(available_read, SPI_OK_SELECT, "text, text",
			  "SELECT b.available::text FROM gpucredit.balance($1, $2) b");
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
			  "  ORDER BY g.node)"
			  " FROM gpucredit.attempt_gpu g WHERE g.org = $1 AND g.job = $2"
			  " AND g.attempt = $3");

/* A check of the request against the pool, and the reason it fails for. */
typedef struct PoolCheck
{
	const char *name;
	DecideReason reason;
	const char *passes;
	const char *fails;			/* wanted, available */
} PoolCheck;

static const PoolCheck pool_checks[] = {
	{"type", DECIDE_NO_SUCH_TYPE, "the pool has a type it accepts",
	"the pool has no node of a type it accepts: register one, or accept another type"},
	{"gpu_memory", DECIDE_NO_SUCH_MEMORY, "some have the memory it asks for",
	"%lld MiB on each device wanted, %lld there are at most: ask for less, or for another type"},
	{"spot", DECIDE_SPOT_ONLY, "there are nodes it may use",
	"only spot nodes would do, and it may not be preempted: let it be"},
	{"topology", DECIDE_POOL_TOO_SMALL, "the pool is large enough for it",
	"%lld devices wanted, %lld there are within what its topology allows: ask for fewer, or for another topology"},
	{"nodes", DECIDE_NODES_UNAVAILABLE, "some take new work",
	"no node it could use takes new work now: see the view nodes"},
	{"free", DECIDE_NOT_ENOUGH_SHARE, NULL,
	"%lld thousandths of a device wanted, %lld are free on the best one"},
	{"free", DECIDE_NOT_ENOUGH_GPUS, "enough devices are free",
	"%lld devices wanted, %lld are free: some must end first"},
	{"together", DECIDE_NOT_TOGETHER, "enough of them are together",
	"%lld devices wanted, %lld are free within the best place that its topology allows"},
	{"cpu", DECIDE_CPU_SHORT, "cpu is there",
	"%lld wanted, %lld have the cpu for it: it asks for much cpu for its devices"},
	{"host_memory", DECIDE_MEMORY_SHORT, "host memory is there",
	"%lld wanted, %lld have the host memory for it: it asks for much memory for its devices"},
	{"host_memory", DECIDE_CPU_AND_MEMORY_SHORT, NULL,
	"cpu and host memory are there, but not on the same nodes"},
	{"reserved", DECIDE_RESERVED, "nothing that is free is reserved for others",
	"what is free is reserved for jobs ahead of it, sooner than its wall limit ends: with a shorter wall_limit it might start before them"},
};

static void put_state(ReturnSetInfo *rsinfo, SqlResult row, const char *org,
					  int64 id);
static void put_account(ReturnSetInfo *rsinfo, const char *org,
						const char *account);
static void put_credit(ReturnSetInfo *rsinfo, Job *job, const Credits *held);
static bool put_still(ReturnSetInfo *rsinfo, const char *org, int64 id);
static bool put_quotas(ReturnSetInfo *rsinfo, const char *org,
					   const char *account, int64 id, const GpuReq *request);
static void put_cycle(ReturnSetInfo *rsinfo, const char *pool,
					  const char *org, int64 id);

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
		RefuseUnknownJob(id);
	AskRead(row, 0, &job);
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
		put_account(rsinfo, org, account);
		put_credit(rsinfo, &job, strcmp(state, "queued") == 0 ? &held : NULL);
		not_before = SqlTimeOr(row, 0, 5, DT_NOBEGIN);
		free_to_go = not_before <= ClockNow();
		ExplainPut(rsinfo, "backoff", free_to_go, free_to_go ?
				   "it need not wait to be tried again" :
				   psprintf("it failed, and is tried again at %s",
							ExplainTime(not_before)));
		free_to_go &= put_still(rsinfo, org, id);
		free_to_go &= put_quotas(rsinfo, org, account, id, job.request);
		if (free_to_go && strcmp(state, "queued") == 0)
			put_cycle(rsinfo, job.pool, org, id);
	}
	SqlFinish();
	return (Datum) 0;
}

/*
 * One row.
 */
void
ExplainPut(ReturnSetInfo *rsinfo, const char *check, bool passes,
		   const char *detail)
{
	Row			row = {0};

	RowText(&row, check);
	RowAdd(&row, BoolGetDatum(passes));
	RowText(&row, detail);
	RowPut(rsinfo, &row);
}

const char *
ExplainTime(TimestampTz at)
{
	return at == DT_NOEND ? "never" : pstrdup(timestamptz_to_str(at));
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

	if (strcmp(state, "queued") == 0)
		ExplainPut(rsinfo, "state", true, psprintf("queued, submitted at %s, %d "
												   "attempts so far",
												   ExplainTime(SqlTime(row, 0, 4)),
												   attempt));
	else if (strcmp(state, "unfunded") == 0)
		ExplainPut(rsinfo, "state", false, "unfunded: it waits for credit before it "
				   "is queued again, which happens by itself");
	else if (strcmp(state, "active") == 0)
	{
		SqlArgText(&args, org);
		SqlArgInt8(&args, id);
		SqlArgInt4(&args, attempt);
		live = SqlRead(&attempt_read, &args);
		ExplainPut(rsinfo, "state", true,
				   psprintf("attempt %d has %s since %s, expected to end at %s, at "
							"the latest at %s", attempt, SqlText(live, 0, 4),
							ExplainTime(SqlTime(live, 0, 1)),
							ExplainTime(SqlTime(live, 0, 2)),
							ExplainTime(SqlTime(live, 0, 3))));
		ExplainLeaving(rsinfo, org, id, attempt);
	}
	else
		ExplainPut(rsinfo, "state", false,
				   psprintf("%s at %s, after %d attempts: it will not run again",
							state, ExplainTime(SqlTime(row, 0, 6)), attempt));
}

/*
 * May its account begin new work?
 */
static void
put_account(ReturnSetInfo *rsinfo, const char *org, const char *account)
{
	SqlArgs		args = {0};
	SqlResult	rows;

	SqlArgText(&args, org);
	SqlArgText(&args, account);
	rows = SqlRead(&suspended_read, &args);
	ExplainPut(rsinfo, "account", rows.n == 0, rows.n == 0 ? "not suspended" :
			   psprintf("account \"%s\" is suspended: no new credit is held below "
						"it until suspend_account() ends that",
						SqlText(rows, 0, 1)));
}

/*
 * Is it paid for?  held: of it; NULL: it waits for credit.
 */
static void
put_credit(ReturnSetInfo *rsinfo, Job *job, const Credits *held)
{
	SqlArgs		args = {0};
	SqlResult	available;
	Offers		offers;
	bool		could;

	if (held != NULL)
	{
		ExplainPut(rsinfo, "credit", true, psprintf("%s credits are held for it",
													CreditsToCString(*held)));
		return;
	}
	/* its next hold is at the prices there are then */
	if (OffersMake(job->request, job->pool, NodesCached(job->pool),
				   ClockNow(), &offers) == NULL)
		job->offers = offers;
	could = FundCouldPay(job, NULL);
	SqlArgText(&args, job->org);
	SqlArgText(&args, job->account);
	available = SqlRead(&available_read, &args);
	ExplainPut(rsinfo, "credit", could,
			   psprintf("%s credits wanted, %s available to its account: %s",
						CreditsToCString(OffersHold(job)),
						available.n > 0 ? SqlText(available, 0, 1) : "0",
						could ? "a cycle takes them once those of its account "
						"that wait longer have theirs" :
						"issue or transfer credits, or raise a budget"));
}

/*
 * Whether an earlier attempt is over.  False: it may still run somewhere.
 */
static bool
put_still(ReturnSetInfo *rsinfo, const char *org, int64 id)
{
	char	   *nodes = StillRunsOn(org, id, ClockNow());

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
put_quotas(ReturnSetInfo *rsinfo, const char *org, const char *account,
		   int64 id, const GpuReq *request)
{
	SqlArgs		args = {0};
	SqlResult	rows;
	bool		all = true;

	SqlArgText(&args, org);
	SqlArgText(&args, account);
	SqlArgInt8(&args, id);
	rows = SqlRead(&quotas_read, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *type = SqlText(rows, i, 2);
		int64		used = SqlInt8(rows, i, 6);
		int32		running = SqlInt4(rows, i, 5);
		int64		wanted = (int64) request->min_gpus * request->share_milli;
		bool		gpus = SqlIsNull(rows, i, 3) ||
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
			appendStringInfoString(&detail, ": one of its own must end "
								   "first, or set_quota() allow more");
		ExplainPut(rsinfo, "quota", gpus && jobs, detail.data);
		if ((!gpus || !jobs) && type == NULL)
			all = false;
	}
	if (rows.n == 0)
		ExplainPut(rsinfo, "quota", true, "no quota limits what it uses");
	return all;
}

/*
 * How far the request of a job that does not start gets in the pool.
 */
static void
put_request(ReturnSetInfo *rsinfo, const DecideWait *wait)
{
	const char *last = "";

	for (int c = 0; c < (int) lengthof(pool_checks); c++)
	{
		const PoolCheck *check = &pool_checks[c];

		if (check->reason == wait->reason)
		{
			char	   *detail = psprintf(check->fails,
										  (long long) wait->wanted,
										  (long long) wait->available);

			ExplainPut(rsinfo, check->name, false, detail);
			return;
		}
		if (wait->reason == DECIDE_NOT_WAITING ||
			wait->reason > DECIDE_RESERVED)
			return;
		if (check->passes != NULL && strcmp(last, check->name) != 0)
			ExplainPut(rsinfo, last = check->name, true, check->passes);
	}
}

/*
 * "account 3 of 12 by fair share": among those that have jobs waiting or
 * running in the pool, and those above them.
 */
static char *
fair_text(const Cycle *cycle, const DecideArena *arena, int32 account)
{
	int32	   *ranks;
	const char *problem = DecideFairRank(&cycle->input, arena, &ranks);

	Ensure(problem == NULL, problem);
	return psprintf("account %d of %d by fair share", ranks[account],
					cycle->input.n_accounts);
}

/*
 * Its place in the order of the queue.
 */
static void
put_order(ReturnSetInfo *rsinfo, const Cycle *cycle, int32 index)
{
	const DecideJob *job = &cycle->jobs[index];
	DecideArena arena = ArenaOf(AllocSetContextCreate(CurrentMemoryContext,
													  "gpucredit order",
													  ALLOCSET_DEFAULT_SIZES));
	int32		turn = 0;
	bool		aged = job->aged_at < cycle->now;

	(void) DecideTurn(&cycle->input, &arena, index, &turn);
	ExplainPut(rsinfo, "order", turn == 1,
			   psprintf("turn %d of %d: tier \"%s\" of rank %d, %s, %s, priority "
						"%d within its account", turn, cycle->input.n_jobs,
						cycle->tier_names[job->tier], cycle->tiers[job->tier].rank,
						fair_text(cycle, &arena, job->account),
						aged ? psprintf("aged since %s", ExplainTime(job->aged_at)) :
						job->aged_at == DECIDE_NEVER ? "it does not age" :
						psprintf("aged, and first, from %s on",
								 ExplainTime(job->aged_at)), job->priority));
}

/*
 * What is reserved for it.
 */
static void
put_reservation(ReturnSetInfo *rsinfo, const Cycle *cycle, int32 index)
{
	for (int i = 0; i < cycle->result.n_reservations; i++)
	{
		const DecideReservation *r = &cycle->result.reservations[i];

		if (r->job != index)
			continue;
		ExplainPut(rsinfo, "reservation", true,
				   psprintf("%s, expected start %s, by limit %s",
							CycleNodes(cycle,
									   &cycle->result.reserved_parts[r->first_part],
									   r->n_parts), ExplainTime(r->at),
							ExplainTime(r->limit_at)));
		return;
	}
	ExplainPut(rsinfo, "reservation", false,
			   psprintf("nothing is reserved for it: gpucredit.backfill_depth is %d, "
						"and %d jobs have reservations",
						cycle->input.policy.backfill_depth,
						cycle->result.n_reservations));
}

/*
 * What the next cycle would do with a job that may start.
 */
static void
put_cycle(ReturnSetInfo *rsinfo, const char *pool, const char *org, int64 id)
{
	Cycle		cycle = {.pool = pool};
	int32		index = 0;
	bool		claimed = false;

	CycleThink(&cycle);
	while (index < cycle.input.n_jobs && (cycle.jobs[index].id != id ||
										  strcmp(cycle.jobs[index].org, org) != 0))
		index++;
	if (index == cycle.input.n_jobs)
	{
		ExplainPut(rsinfo, "turn", false, "the tenant's quotas hold it back, beside "
				   "what else of it would start now");
		return;
	}
	put_order(rsinfo, &cycle, index);
	for (int i = 0; i < cycle.result.n_starts; i++)
	{
		const DecideStart *start = &cycle.result.starts[i];

		if (start->job != index)
			continue;
		ExplainPut(rsinfo, "turn", true,
				   psprintf("the next cycle starts it on %s",
							CycleNodes(&cycle, &cycle.result.parts[start->first_part],
									   start->n_parts)));
		return;
	}
	for (int i = 0; i < cycle.input.n_claims; i++)
	{
		if (cycle.input.claims[i].job != index)
			continue;
		claimed = true;
		ExplainPut(rsinfo, "claim", true, "devices are promised to it, and those "
				   "who have them are leaving");
	}
	for (int i = 0; i < cycle.result.n_promises; i++)
	{
		if (cycle.result.promises[i].job != index)
			continue;
		claimed = true;
		ExplainPut(rsinfo, "claim", true, "the next cycle promises it devices, "
				   "and tells those who have them to leave");
	}
	put_request(rsinfo, &cycle.result.waits[cycle.jobs[index].ask]);
	ExplainKept(rsinfo, &cycle, index);
	if (!claimed)
		ExplainPreemption(rsinfo, &cycle, index);
	put_reservation(rsinfo, &cycle, index);
}
