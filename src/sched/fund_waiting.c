/*-------------------------------------------------------------------------
 *
 * fund_waiting.c
 *		Jobs that wait for credit resume by themselves when it comes.
 *
 * Each cycle tries the jobs of each account, oldest first.  Of those that request
 * the same in the same tier none is tried after one that could not be paid
 * for; others are, as they may want less, or draw from other buckets: what
 * cannot be paid for blocks nobody.  Nothing is waited for: a busy account's
 * jobs wait a cycle, or a sweep, which waits a moment (job/fund.c).
 *
 * plan, which takes no hold, requests what there would be (credit_check.c).
 *
 * Locks, all without waiting: job, buckets.  plan takes none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/sql.h"
#include "job/fund.h"
#include "job/job.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "utils/hsearch.h"

#define LOOK_KIND	22			/* behind REQUEST_COLUMNS */
#define OF_POOL " AND k.pool = $3"
SQL_STATEMENT(unfunded_read, SPI_OK_SELECT, "bigint, bigint, text",
			  UNFUNDED(" j.org, j.job, c.kind", OF_POOL));
/* a job in backoff has no reported time in the queue */
SQL_STATEMENT(unfunded_look, SPI_OK_SELECT,
			  "bigint, bigint, text, timestamptz",
			  UNFUNDED(" j.org, j.account, j.job, j.tier, j.priority,"
					   " j.submitted_at, CASE WHEN j.not_before > $4 THEN"
					   " NULL ELSE j.waited END, j.attempt, j.cache,"
					   REQUEST_COLUMNS ", c.kind", OF_POOL));

static SqlArgs unfunded_args(const char *pool);
static bool foresee(SchedCycle *cycle, SqlResult rows, uint64 i,
					HTAB *counted);
static void add_job(SchedCycle *cycle, SqlResult rows, uint64 i,
					const Job *job);

/*
 * Queue the jobs of a pool that can be paid for again.
 */
void
FundWaiting(const char *pool)
{
	SqlArgs		args = unfunded_args(pool);
	SqlResult	rows = SqlRun(&unfunded_read, &args);
	bool	   *short_of;

	if (rows.n == 0)
		return;
	short_of = palloc0(sizeof(bool) * (rows.n + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		int32		kind = SqlInt4(rows, i, 3);

		CHECK_FOR_INTERRUPTS();
		if (!short_of[kind])
			short_of[kind] = !FundWaitingJob(SqlText(rows, i, 1),
											 SqlInt8(rows, i, 2), false);
	}
	pfree(short_of);
}

static SqlArgs
unfunded_args(const char *pool)
{
	SqlArgs		args = {0};

	SqlArgInt8(&args, UNFUNDED_MOST);
	SqlArgInt8(&args, ClockNow());
	SqlArgText(&args, pool);
	return args;
}

/*
 * For plan: add the jobs to the queue that a cycle would put there.
 */
void
FundForesee(SchedCycle *cycle)
{
	SqlArgs		args = unfunded_args(cycle->pool);
	SqlResult	rows;
	bool	   *short_of;
	HTAB	   *counted;

	SqlArgTime(&args, cycle->now);
	rows = SqlRead(&unfunded_look, &args);
	if (rows.n == 0)
		return;
	short_of = palloc0(sizeof(bool) * (rows.n + 1));
	counted = CreditCheckBegin();
	cycle->jobs = repalloc_huge(cycle->jobs, sizeof(DecideJob) *
								(cycle->input.n_jobs + rows.n + 1));
	cycle->queued = repalloc_huge(cycle->queued, sizeof(Queued) *
								  (cycle->input.n_jobs + rows.n + 1));
	cycle->input.jobs = cycle->jobs;
	for (uint64 i = 0; i < rows.n; i++)
	{
		int32		kind = SqlInt4(rows, i, LOOK_KIND);

		CHECK_FOR_INTERRUPTS();
		if (!short_of[kind])
			short_of[kind] = !foresee(cycle, rows, i, counted);
	}
	pfree(short_of);
	hash_destroy(counted);
}

/*
 * Would a cycle queue one job?  Then it is added to the queue, unless it backs
 * off.
 */
static bool
foresee(SchedCycle *cycle, SqlResult rows, uint64 i, HTAB *counted)
{
	AccountPath path;
	Job			job;
	NextHold	next = {.job = &job};

	RequestRead(rows, i, &job);
	job.org = SqlText(rows, i, 1);
	job.account = SqlText(rows, i, 2);
	job.job = SqlInt8(rows, i, 3);
	job.tier = SqlText(rows, i, 4);
	job.pool = pstrdup(cycle->pool);
	job.priority = SqlInt4(rows, i, 5);
	OffersRenew(&job, cycle->set, cycle->now);
	path = AccountParse(job.org, job.account);
	if (AccountSuspended(&path) || !OffersHoldAnew(&job, &next.amount))
		return false;
	CreditCheckLoad(cycle, &next, 1);
	if (!CreditCheckHold(&next, counted))
		return false;
	if (!SqlIsNull(rows, i, 7))
		add_job(cycle, rows, i, &job);
	return true;
}

/*
 * What a job is in the queue that is put there now.
 */
static void
add_job(SchedCycle *cycle, SqlResult rows, uint64 i, const Job *job)
{
	int32		n = cycle->input.n_jobs++;
	DecideRequestClass request = OffersRequest(job, cycle->set);
	QueuedRequest *asked = palloc(sizeof(QueuedRequest));
	TimestampTz waits_from = ClockAdd(cycle->now, -SqlDuration(rows, i, 7));

	QueuedRequestOf(asked, job);
	cycle->queued[n] = (Queued)
	{
		.account = job->account,
			.attempt = SqlInt4(rows, i, 8),
			.waits_from = waits_from,
			.cache = SqlText(rows, i, 9),
			.asked = asked
	};
	cycle->jobs[n] = (DecideJob)
	{
		.request = CycleAddRequest(cycle, &request),
			.org = job->org,
			.id = job->job,
			.account = AccountIndex(cycle, job->org, job->account),
			.tier = TierIndex(cycle, job->tier),
			.priority = job->priority,
			.submitted = SqlTime(rows, i, 6)
	};
	cycle->jobs[n].aged_at = CycleAgedAt(cycle, cycle->jobs[n].tier,
										 waits_from);
	if (cycle->queued[n].cache != NULL)
		cycle->jobs[n].cache = CacheIndex(cycle, job->org,
										  cycle->queued[n].cache);
}
