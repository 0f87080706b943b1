/*-------------------------------------------------------------------------
 *
 * credit_moves.c
 *		Checks whether running jobs that are to move or grow can pay their
 *		next holds.
 *
 * Moving or growing ends a job's attempt, and the next attempt needs a hold of
 * its own. A job must not lose its devices for a change that nobody asked for,
 * so it stays as it is if the credit does not suffice. One statement for each
 * kind of data reads what all such jobs need.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "job/job.h"
#include "miscadmin.h"
#include "sched/load/credit_check.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"

SQL_STATEMENT(going_read, SPI_OK_SELECT, "text[], bigint[], int[]",
			  "SELECT j.tier, a.held, a.surplus, a.per_hour, NULL, NULL,"
			  " u.n, EXISTS (SELECT FROM pg_catalog.unnest("
			  "   gpucredit_internal.account_path(j.account)) AS p (account)"
			  "  CROSS JOIN LATERAL (SELECT c.suspended FROM gpucredit.account c"
			  "   WHERE c.org = j.org AND c.account = p.account OFFSET 0) c"
			  "  WHERE c.suspended), NULL," REQUEST_COLUMNS
			  " FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3)) WITH ORDINALITY"
			  "  AS u (org, job, attempt, n)"
			  " CROSS JOIN LATERAL (SELECT a.* FROM gpucredit.attempt a"
			  "  WHERE a.org = u.org AND a.job = u.job"
			  "  AND a.attempt = u.attempt OFFSET 0) a"
			  " CROSS JOIN LATERAL (SELECT j.* FROM gpucredit.job j"
			  "  WHERE j.org = u.org AND j.job = u.job OFFSET 0) j");

/* The running jobs that move or grow, those of earlier cycles first. */
typedef struct GoingOn
{
	int			n_previous;
	int			n;
	DecideRunning **running;
	NextHold   *holds;			/* by job; a hold whose job is NULL cannot be
								 * made */
} GoingOn;

static GoingOn list_going(SchedCycle *cycle);
static void read_holds(SchedCycle *cycle, GoingOn *going);
static bool read_hold(const SchedCycle *cycle, const DecideRunning *running,
					  SqlResult rows, uint64 i, Job *job, Credits *more);

/*
 * Whether all running jobs that this cycle moves or grows could pay their next
 * holds, beside the jobs that earlier cycles told to move or grow. If not,
 * returns false and marks the jobs that must stay as they are; the cycle must
 * then decide again.
 */
bool
CreditCheckMoves(SchedCycle *cycle)
{
	GoingOn		going = list_going(cycle);
	HTAB	   *counted;
	bool		all = true;

	if (going.n == going.n_previous)
		return true;
	read_holds(cycle, &going);
	CreditCheckLoad(cycle, going.holds, going.n);
	counted = CreditCheckBegin();
	for (int i = 0; i < going.n; i++)
	{
		const NextHold *hold = &going.holds[i];

		CHECK_FOR_INTERRUPTS();
		if ((hold->job != NULL && CreditCheckHold(hold, counted)) ||
			i < going.n_previous)
			continue;
		going.running[i]->request = -1;
		all = false;
	}
	hash_destroy(counted);
	return all;
}

/*
 * Lists the running jobs that earlier cycles told to move or grow and that
 * have not left yet, and those that this cycle would tell.
 */
static GoingOn
list_going(SchedCycle *cycle)
{
	GoingOn		going = {0};

	going.running = MemoryContextAllocHuge(CurrentMemoryContext,
										   sizeof(DecideRunning *) *
										   (cycle->input.n_claims +
											cycle->result.n_promises + 1));
	for (int c = 0; c < cycle->input.n_claims; c++)
	{
		if (cycle->claimants[c] >= 0)
			going.running[going.n++] = &cycle->running[cycle->claimants[c]];
	}
	going.n_previous = going.n;
	for (int p = 0; p < cycle->result.n_promises; p++)
	{
		const DecidePromise *promise = &cycle->result.promises[p];

		if (promise->job < 0 && promise->why != DECIDE_WHY_SHRINK)
			going.running[going.n++] = &cycle->running[promise->running];
	}
	return going;
}

/* Computes the next holds of the listed jobs at present prices. */
static void
read_holds(SchedCycle *cycle, GoingOn *going)
{
	Size		n = going->n;
	const char **orgs = palloc(sizeof(char *) * n);
	int64	   *ids = palloc(sizeof(int64) * n);
	int32	   *attempts = palloc(sizeof(int32) * n);
	Job		   *jobs = palloc0(sizeof(Job) * n);
	Price	   *prices;
	int			n_prices = PricesRead(cycle->pool, cycle->now,
									  cycle->read_only, &prices);
	SqlResult	rows;

	going->holds = palloc0(sizeof(NextHold) * n);
	for (Size i = 0; i < n; i++)
	{
		orgs[i] = going->running[i]->org;
		ids[i] = going->running[i]->id;
		attempts[i] = going->running[i]->attempt;
	}
	rows = CycleRead(cycle, &going_read,
					 VALUES(TextArrayValue(orgs, n), Int8ArrayValue(ids, n),
							Int4ArrayValue(attempts, n)));
	for (uint64 i = 0; i < rows.n; i++)
	{
		int			place = SqlInt8(rows, i, 7) - 1;
		NextHold   *hold = &going->holds[place];
		Job		   *job = &jobs[place];

		CHECK_FOR_INTERRUPTS();
		RequestRead(rows, i, job);
		OffersRenewAt(job, cycle->set, prices, n_prices);
		if (read_hold(cycle, going->running[place], rows, i, job,
					  &hold->amount))
			hold->job = job;
	}
}

/*
 * Computes how much a running job's next hold needs beyond what will be left
 * of its present hold. Returns false if no hold can be made.
 */
static bool
read_hold(const SchedCycle *cycle, const DecideRunning *running,
		  SqlResult rows,
		  uint64 i, Job *job, Credits *more)
{
	int64		runs = cycle->now - running->started +
		cycle->tiers[running->tier].grace;
	Credits		bill;
	Credits		left;

	job->org = running->org;
	job->account = pstrdup(cycle->account_names[running->account].path);
	job->job = running->id;
	job->pool = pstrdup(cycle->pool);
	job->tier = SqlText(rows, i, 1);
	if (SqlBool(rows, i, 8) || !OffersHoldToday(job, more))
		return false;
	bill = CreditsBillWithin(SqlCredits(rows, i, 4), 1, SHARE_WHOLE, runs,
							 SqlCredits(rows, i, 2));
	left = CreditsSub(CreditsAdd(SqlCredits(rows, i, 2),
								 SqlCredits(rows, i, 3)), bill);
	*more = Max(CreditsSub(*more, left), 0);
	return true;
}
