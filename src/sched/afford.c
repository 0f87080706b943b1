/*-------------------------------------------------------------------------
 *
 * afford.c
 *		Would there be the credit for a job's next hold?
 *
 * Asked where none is taken: by plan and explain, and before a running job is
 * told to go on with more devices, or elsewhere.  That ends its attempt, and
 * the next one needs a hold of its own: a job must not lose what it has for
 * something nobody asked of it.  What buckets would give and budgets leave is
 * read, and what was counted before is kept in mind.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/sql.h"
#include "job/job.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "utils/hsearch.h"

SQL_STATEMENT(budgets_look, SPI_OK_SELECT, "text, text, timestamptz",
			  "SELECT b.period || ' ' || b.account,"
			  " b.remaining::gpucredit.credits"
			  " FROM gpucredit.budgets_at($1, $2, $3) b WHERE b.hard");
SQL_STATEMENT(buckets_look, SPI_OK_SELECT,
			  "text, text, text[], text, text, bigint, gpucredit.credits",
			  "SELECT f.bucket::text, f.available::gpucredit.credits,"
			  " f.most::gpucredit.credits FROM gpucredit.bucket_fit($1, $2,"
			  "  $3, $4, $5, $6, NULL, $7::numeric) f WHERE f.pays");

SQL_STATEMENT(going_read, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT j.tier, a.held, a.surplus, a.per_gpu_hour, a.gpus, a.share,"
			  " NULL, NULL, NULL," ASK_COLUMNS
			  " FROM gpucredit.job j JOIN gpucredit.attempt a"
			  "  ON a.org = j.org AND a.job = j.job AND a.attempt = $3"
			  " WHERE j.org = $1 AND j.job = $2");

/* What is in mind of a bucket, or of a budget. */
typedef struct Counted
{
	AccountName what;			/* path: the bucket, or period and account */
	Credits		amount;
} Counted;

static HTAB *count_told(Cycle *cycle);
static bool goes_on(Cycle *cycle, const DecideRunning *running, HTAB *counted);
static bool budgets_leave(const Cycle *cycle, const Job *job, Credits amount,
						  HTAB *counted, bool count);
static bool buckets_give(const Cycle *cycle, const Job *job, Credits amount,
						 HTAB *counted);
static Counted *counted_of(HTAB *counted, const Job *job, const char *what);

/*
 * Nothing is in mind yet.
 */
HTAB *
AffordCount(void)
{
	return AccountTable("gpucredit credit in mind", sizeof(Counted));
}

/*
 * Could all be paid for that running jobs are to grow into, or to move to,
 * beside what those need that cycles before have told?
 * False: some stay as they are, and the cycle must decide anew.
 */
bool
AffordGoingOn(Cycle *cycle)
{
	HTAB	   *counted = NULL;
	bool		all = true;

	for (int p = 0; p < cycle->result.n_promises; p++)
	{
		const DecidePromise *promise = &cycle->result.promises[p];
		DecideRunning *running;

		CHECK_FOR_INTERRUPTS();
		if (promise->job >= 0 || promise->why == DECIDE_WHY_SHRINK)
			continue;
		running = &cycle->running[promise->running];
		if (counted == NULL)
			counted = count_told(cycle);
		if (goes_on(cycle, running, counted))
			continue;
		running->ask = -1;
		all = false;
	}
	if (counted != NULL)
		hash_destroy(counted);
	return all;
}

/*
 * What the running jobs of the pool need for their next holds that were told
 * to go on otherwise and have not left yet: they were told for good.
 */
static HTAB *
count_told(Cycle *cycle)
{
	HTAB	   *counted = AffordCount();

	for (int c = 0; c < cycle->input.n_claims; c++)
	{
		CHECK_FOR_INTERRUPTS();
		if (cycle->claimants[c] >= 0)
			(void) goes_on(cycle, &cycle->running[cycle->claimants[c]],
						   counted);
	}
	return counted;
}

/*
 * Could the next hold of a running job be paid for, with what is left of the
 * one it has when it is gone?
 */
static bool
goes_on(Cycle *cycle, const DecideRunning *running, HTAB *counted)
{
	int64		runs = cycle->now - running->started +
		cycle->tiers[running->tier].grace;
	AccountPath path;
	SqlArgs		args = {0};
	SqlResult	row;
	Credits		bill;
	Credits		more;
	Job			job;

	SqlArgText(&args, running->org);
	SqlArgInt8(&args, running->id);
	SqlArgInt4(&args, running->attempt);
	row = CycleRead(cycle, &going_read, &args);
	if (row.n == 0)
		return false;
	AskRead(row, 0, &job);
	job.org = running->org;
	job.account = pstrdup(cycle->account_names[running->account].path);
	job.job = running->id;
	job.pool = pstrdup(cycle->pool);
	job.tier = SqlText(row, 0, 1);
	path = AccountParse(job.org, job.account);
	OffersRenew(&job, cycle->set, cycle->now);
	if (AccountSuspended(&path) || !OffersHoldAnew(&job, &more))
		return false;
	bill = CreditsBillWithin(SqlCredits(row, 0, 4), SqlInt4(row, 0, 5),
							 SqlInt4(row, 0, 6), runs, SqlCredits(row, 0, 2));
	more = CreditsSub(more,
					  CreditsSub(CreditsAdd(SqlCredits(row, 0, 2),
											SqlCredits(row, 0, 3)), bill));
	return more <= 0 || AffordHold(cycle, &job, more, counted);
}

/*
 * Is there so much credit for a job's next hold, beside what is counted (NULL:
 * nothing is)?  Then it is counted, too.  What costs nothing asks nobody.
 */
bool
AffordHold(const Cycle *cycle, const Job *job, Credits amount, HTAB *counted)
{
	if (amount == 0)
		return true;
	if (!budgets_leave(cycle, job, amount, counted, false) ||
		!buckets_give(cycle, job, amount, counted))
		return false;
	if (counted != NULL)
		(void) budgets_leave(cycle, job, amount, counted, true);
	return true;
}

/*
 * Do the hard budgets on the path leave so much?  count: it is in mind.
 */
static bool
budgets_leave(const Cycle *cycle, const Job *job, Credits amount,
			  HTAB *counted, bool count)
{
	SqlArgs		args = {0};
	SqlResult	rows;

	SqlArgText(&args, job->org);
	SqlArgText(&args, job->account);
	SqlArgTime(&args, cycle->now);
	rows = CycleRead(cycle, &budgets_look, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		Credits		left = SqlCredits(rows, i, 2);
		Counted    *mind = counted_of(counted, job, SqlText(rows, i, 1));

		if (count)
			mind->amount += amount;
		else if (left - (mind != NULL ? mind->amount : 0) < amount)
			return false;
	}
	return true;
}

/*
 * What a question about the buckets that may pay for a job's next hold goes
 * by: organisation, account, types, tier, pool, job, amount.
 */
SqlArgs
AffordArgs(const Job *job, Credits amount)
{
	SqlArgs		args = {0};

	SqlArgText(&args, job->org);
	SqlArgText(&args, job->account);
	SqlArgTextArray(&args, job->offers.types, job->offers.n);
	SqlArgText(&args, job->tier);
	SqlArgText(&args, job->pool);
	SqlArgInt8(&args, job->job);
	SqlArgCredits(&args, amount);
	return args;
}

/*
 * Do the buckets that may pay have so much, taken in burn order?
 */
static bool
buckets_give(const Cycle *cycle, const Job *job, Credits amount,
			 HTAB *counted)
{
	Credits		missing = amount;
	Counted   **minds;
	Credits    *takes;
	SqlArgs		args = AffordArgs(job, amount);
	SqlResult	rows = CycleRead(cycle, &buckets_look, &args);
	uint64		n;

	minds = palloc(sizeof(Counted *) * (rows.n + 1));
	takes = palloc(sizeof(Credits) * (rows.n + 1));
	for (n = 0; n < rows.n && missing > 0; n++)
	{
		Credits		left = SqlCredits(rows, n, 2);

		minds[n] = counted_of(counted, job, SqlText(rows, n, 1));
		if (minds[n] != NULL)
			left -= minds[n]->amount;
		takes[n] = Min(missing, Min(left, SqlCredits(rows, n, 3)));
		missing -= takes[n];
	}
	for (uint64 i = 0; i < n && missing == 0 && counted != NULL; i++)
		minds[i]->amount += takes[i];
	return missing == 0;
}

/*
 * What is in mind of a bucket or budget of a job's organisation.
 */
static Counted *
counted_of(HTAB *counted, const Job *job, const char *what)
{
	AccountName key = {job->org, what};
	Counted    *mind;
	bool		found;

	if (counted == NULL)
		return NULL;
	mind = hash_search(counted, &key, HASH_ENTER, &found);
	if (!found)
		mind->amount = 0;
	return mind;
}
