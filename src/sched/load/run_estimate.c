/*-------------------------------------------------------------------------
 *
 * run_estimate.c
 *		Estimates how long jobs will run, from earlier jobs.
 *
 * A job is expected to run for the 75th percentile of the ratio of run time to
 * wall limit over the last 20 completed attempts of its account and tier. With
 * fewer than 5 such attempts, the job is expected to use all of its limit.
 *
 * No table keeps this sample. An index over completed jobs by account and tier
 * finds it, so a settlement writes no row that other settlements wait for. The
 * sample is read after a decision, for the jobs that the decision starts or
 * keeps devices for, because it only determines when jobs are expected to
 * start and end. A pool that orders its queue by run time reads the sample for
 * all jobs before the first decision.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "sched/sched.h"

#define ALL_OF_IT	1000000		/* the whole wall limit, in millionths of it */

SQL_STATEMENT(ratios_read, SPI_OK_SELECT, "text[], text[], text[]",
			  "SELECT u.n, (SELECT CASE WHEN pg_catalog.count(*) < 5"
			  "  THEN 1000000 ELSE (pg_catalog.array_agg(s.ratio"
			  "  ORDER BY s.ratio))[(pg_catalog.count(*) * 3 + 3) / 4] END"
			  " FROM (SELECT LEAST(1000000, pg_catalog.ceil("
			  "  EXTRACT(epoch FROM a.elapsed - a.overhead) * 1000000"
			  "  / EXTRACT(epoch FROM j.wall_limit)))::bigint AS ratio"
			  "  FROM (SELECT j.org, j.job, j.attempt, j.wall_limit"
			  "   FROM gpucredit.job j WHERE j.org = u.org"
			  "   AND j.account = u.account AND j.tier = u.tier"
			  "   AND j.state = 'completed' AND j.wall_limit IS NOT NULL"
			  "   ORDER BY j.ended_at DESC, j.job DESC LIMIT 20) j"
			  "  JOIN gpucredit.attempt a ON a.org = j.org"
			  "   AND a.job = j.job AND a.attempt = j.attempt) s)"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  "  WITH ORDINALITY AS u (org, account, tier, n)");

/*
 * Returns where the ratio of a job's account and tier is stored. A ratio of 0
 * has not been read yet.
 */
static int32 *
ratio_of(const SchedCycle *cycle, const DecideJob *job)
{
	return &cycle->ratios[(Size) job->account * cycle->input.n_tiers +
						  job->tier];
}

/* Reads the ratios of n pairs of account and tier. */
static void
read_ratios(SchedCycle *cycle, const int32 *pairs, int n)
{
	const char **texts = palloc(sizeof(char *) * 3 * n);
	Values		args = {0};
	SqlResult	rows;

	for (int i = 0; i < n; i++)
	{
		const AccountName *name =
		&cycle->account_names[pairs[i] / cycle->input.n_tiers];

		texts[i] = name->org;
		texts[n + i] = name->path;
		texts[2 * n + i] =
			cycle->tier_names[pairs[i] % cycle->input.n_tiers];
	}
	for (int column = 0; column < 3; column++)
		ValuesAdd(&args, TextArrayValue(texts + column * n, n));
	rows = CycleRead(cycle, &ratios_read, &args);
	for (uint64 i = 0; i < rows.n; i++)
		cycle->ratios[pairs[SqlInt8(rows, i, 1) - 1]] =
			Max((int32) SqlInt8(rows, i, 2), 1);
	SqlFree(&rows);
	pfree(texts);
}

/*
 * Adds a job's account and tier to the n pairs to read, unless their ratio is
 * known. Returns the new number of pairs.
 */
static int
note_pair(const SchedCycle *cycle, int32 job, int32 *pairs, int n)
{
	int32	   *ratio = ratio_of(cycle, &cycle->jobs[job]);

	if (*ratio != 0)
		return n;
	*ratio = ALL_OF_IT;
	pairs[n] = (int32) (ratio - cycle->ratios);
	return n + 1;
}

/*
 * Allocates the ratios of all accounts and tiers. They are 0, which means not
 * read yet.
 */
static void
ratios_open(SchedCycle *cycle)
{
	if (cycle->ratios == NULL)
		cycle->ratios =
			MemoryContextAllocExtended(CurrentMemoryContext,
									   sizeof(int32) *
									   ((Size) cycle->input.n_accounts *
										cycle->input.n_tiers + 1),
									   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

/*
 * Returns the given part of a wall limit, but at least a second. Returns 0 if
 * the part is the whole limit.
 */
static int64
likely_run(int64 wall_limit, int32 ratio)
{
	int64		run;

	if (ratio == 0 || ratio >= ALL_OF_IT || wall_limit == DECIDE_NEVER)
		return 0;
	run = wall_limit / ALL_OF_IT * ratio +
		(wall_limit % ALL_OF_IT * ratio + ALL_OF_IT - 1) / ALL_OF_IT;
	return Min(Max(run, USECS_PER_SEC), wall_limit);
}

/* Sets the expected run times of all jobs from the ratios read so far. */
static void
estimate_all(SchedCycle *cycle)
{
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		DecideJob  *job = &cycle->jobs[j];

		job->likely_run = likely_run(cycle->requests[job->request].wall_limit,
									 *ratio_of(cycle, job));
	}
}

/*
 * Estimates how long the jobs run that the decision starts or keeps devices
 * for.
 */
void
RuntimeEstimateLoad(SchedCycle *cycle)
{
	const DecideResult *result = &cycle->result;
	int32	   *pairs;
	int			n = 0;

	if (result->n_timed == 0)
		return;
	ratios_open(cycle);
	pairs = palloc(sizeof(int32) * result->n_timed);
	for (int i = 0; i < result->n_timed; i++)
		n = note_pair(cycle, result->timed[i], pairs, n);
	if (n > 0)
	{
		read_ratios(cycle, pairs, n);
		estimate_all(cycle);
	}
	pfree(pairs);
}

/*
 * Estimates how long all waiting jobs run, if the pool orders its queue by run
 * time. Jobs without a wall limit go last.
 */
void
RuntimeEstimateOrder(SchedCycle *cycle)
{
	int32	   *pairs;
	int			n = 0;

	if (cycle->input.policy.order != DECIDE_ORDER_SHORTEST ||
		cycle->input.n_jobs == 0)
		return;
	ratios_open(cycle);
	pairs = palloc(sizeof(int32) * cycle->input.n_jobs);
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
		n = note_pair(cycle, j, pairs, n);
	if (n > 0)
		read_ratios(cycle, pairs, n);
	pfree(pairs);
	estimate_all(cycle);
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		DecideJob  *job = &cycle->jobs[j];

		job->order_run = job->likely_run > 0 ? job->likely_run :
			cycle->requests[job->request].wall_limit;
	}
}
