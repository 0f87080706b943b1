/*-------------------------------------------------------------------------
 *
 * fund_foresee.c
 *		Finds the jobs waiting for credit that a cycle would fund and
 *		queue, for plan().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/sql.h"
#include "inventory/tier_grant.h"
#include "job/fund.h"
#include "job/job.h"
#include "ledger/uncollected.h"
#include "miscadmin.h"
#include "sched/load/credit_check.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"

#define LOOK_KIND	25			/* column of the bucket kind in unfunded_look,
								 * which follows REQUEST_COLUMNS */
/*
 * A job in backoff gets NULL as its time in the queue, which marks it as not
 * startable yet.
 */
SQL_STATEMENT(unfunded_look, SPI_OK_SELECT,
			  "bigint, bigint, text, timestamptz",
			  UNFUNDED(" j.org, j.account, j.job, j.tier, j.priority,"
					   " j.submitted_at, CASE WHEN j.not_before > $4 THEN"
					   " NULL ELSE j.waited END, j.attempt, j.cache,"
					   REQUEST_COLUMNS ", c.kind, j.array_key, j.at_most,"
					   " j.deadline", UNFUNDED_OF_POOL));

static bool foresee(SchedCycle *cycle, SqlResult rows, uint64 i,
					HTAB *counted);
static void add_job(SchedCycle *cycle, SqlResult rows, uint64 i,
					const Job *job);

/*
 * Adds those jobs waiting for credit to the queue of a plan that a cycle would
 * fund and queue.
 */
void
FundForesee(SchedCycle *cycle)
{
	SqlResult	rows;
	bool	   *short_of;
	HTAB	   *counted;

	rows = SqlRead(&unfunded_look,
				   VALUES(Int8Value(UNFUNDED_MOST), Int8Value(ClockNow()),
						  TextValue(cycle->pool), TimeValue(cycle->now)));
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
 * Whether a cycle would fund this job. If so, adds it to the queue, unless it
 * is in backoff.
 */
static bool
foresee(SchedCycle *cycle, SqlResult rows, uint64 i, HTAB *counted)
{
	AccountPath path;
	Job			job;
	Purpose		purpose;
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
	if (AccountSuspended(&path) || !TierAllowed(&path, job.tier) ||
		!OffersHoldToday(&job, &next.amount))
		return false;
	purpose = JobPurpose(&job);
	if (UncollectedDenies(&path, &purpose, next.amount, cycle->now))
		return false;
	CreditCheckLoad(cycle, &next, 1);
	if (!CreditCheckHold(&next, counted))
		return false;
	if (!SqlIsNull(rows, i, 7))
		add_job(cycle, rows, i, &job);
	return true;
}

/* Adds the queue entry of a job that the cycle would fund. */
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
			.array = SqlIsNull(rows, i, LOOK_KIND + 2) ? NULL :
			SqlText(rows, i, LOOK_KIND + 1),
			.at_most = SqlIsNull(rows, i, LOOK_KIND + 2) ? 0 :
			SqlInt4(rows, i, LOOK_KIND + 2),
			.deadline = SqlTimeOr(rows, i, LOOK_KIND + 3, DT_NOEND),
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
	cycle->jobs[n].waits_from = waits_from;
	cycle->jobs[n].aged_at = CycleAgedAt(cycle, cycle->jobs[n].tier,
										 waits_from);
	if (cycle->queued[n].cache != NULL)
		cycle->jobs[n].cache = CacheIndex(cycle, job->org,
										  cycle->queued[n].cache);
}
