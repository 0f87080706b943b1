/*-------------------------------------------------------------------------
 *
 * load_dependents.c
 *		Loads jobs that are not eligible: they wait for other jobs or for
 *		the instant at which they asked to begin, or were held.
 *
 * These jobs stand in an index of their own, so a pool without such jobs pays
 * for one empty search. A job that becomes eligible takes part in the cycle
 * that finds this (load_queue.c), and the cycle marks it as eligible. From
 * then on what the job waited for is never read again, whatever becomes of the
 * other jobs.
 *
 * Locks: jobs, without waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "util/clock.h"
#include "util/sql.h"
#include "utils/timestamp.h"

SQL_STATEMENT(dependents_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT j.org, j.account, j.name, j.job, j.after,"
			  " (j.options ->> 'kill_on_invalid_dep')::boolean IS TRUE,"
			  " j.deadline FROM gpucredit.job j"
			  " WHERE j.pool = $1 AND j.state = 'queued'"
			  " AND NOT j.eligible AND j.held_by IS NULL"
			  " AND (j.not_before IS NULL OR j.not_before <= $2)"
			  " ORDER BY j.org, j.job");
SQL_STATEMENT(dependents_release, SPI_OK_UPDATE_RETURNING,
			  "text[], bigint[], timestamptz",
			  "UPDATE gpucredit.job j SET after = NULL, eligible = true,"
			  " waits_from = $3 - j.waited"
			  " FROM (SELECT u.n, k.org, k.job, k.after, k.account"
			  "  FROM ROWS FROM (pg_catalog.unnest($1),"
			  "   pg_catalog.unnest($2)) WITH ORDINALITY AS u (org, job, n)"
			  "  JOIN gpucredit.job k ON k.org = u.org AND k.job = u.job"
			  "  WHERE k.state = 'queued' AND NOT k.eligible"
			  "  AND k.held_by IS NULL AND " SEARCH_EACH("u.n")
			  "  FOR NO KEY UPDATE OF k SKIP LOCKED) o"
			  " WHERE j.org = o.org AND j.job = o.job"
			  " RETURNING o.n, o.after, o.account");

/*
 * Loads the jobs that are not eligible and that nobody holds, and finds out
 * whether what they wait for holds.
 */
void
DependentsLoad(SchedCycle *cycle)
{
	SqlResult	rows = CycleRead(cycle, &dependents_read,
								 VALUES(TextValue(cycle->pool),
										TimeValue(cycle->now)));

	cycle->n_dependents = (int) rows.n;
	if (rows.n == 0)
		return;
	cycle->dependents = palloc_extended(sizeof(DependentJob) * rows.n,
										MCXT_ALLOC_HUGE);
	for (uint64 i = 0; i < rows.n; i++)
	{
		DependentJob *job = &cycle->dependents[i];

		CHECK_FOR_INTERRUPTS();
		*job = (DependentJob)
		{
			.org = SqlText(rows, i, 1),
				.account = SqlText(rows, i, 2),
				.name = SqlText(rows, i, 3),
				.job = SqlInt8(rows, i, 4),
				.after = SqlText(rows, i, 5),
				.kills = SqlBool(rows, i, 6),
				.deadline = SqlTimeOr(rows, i, 7, DT_NOEND)
		};
	}
	SqlFree(&rows);
	DependencyJudge(cycle, cycle->dependents, cycle->n_dependents);
	for (int i = 0; i < cycle->n_dependents; i++)
	{
		DependentJob *job = &cycle->dependents[i];

		if (job->state == DEPENDENCY_HOLDS)
			continue;
		if (job->deadline <= cycle->now)
			SetAsideAdd(cycle, job->org, job->job, SET_ASIDE_DEADLINE, true);
		else if (job->state == DEPENDENCY_NEVER)
			SetAsideAdd(cycle, job->org, job->job, SET_ASIDE_NEVER,
						job->kills);
	}
}

/*
 * Marks jobs of the cycle as eligible in their rows, and returns how many. A
 * job whose row is locked is marked by the next cycle.
 */
uint64
DependentsRelease(const SchedCycle *cycle)
{
	const char **orgs = palloc(sizeof(char *) * (cycle->n_dependents + 1));
	int64	   *jobs = palloc(sizeof(int64) * (cycle->n_dependents + 1));
	AuditRow   *audit;
	SqlResult	rows;
	int			n = 0;

	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		if (!cycle->queued[j].released)
			continue;
		orgs[n] = cycle->jobs[j].org;
		jobs[n++] = cycle->jobs[j].id;
	}
	if (n == 0)
		return 0;
	rows = SqlRun(&dependents_release,
				  VALUES(TextArrayValue(orgs, n), Int8ArrayValue(jobs, n),
						 TimeValue(cycle->now)));
	audit = palloc0(sizeof(AuditRow) * (rows.n + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		int64		which = SqlInt8(rows, i, 1) - 1;

		audit[i] = (AuditRow)
		{
			.org = orgs[which], .account = SqlText(rows, i, 3),
				.operation = "place", .decision = "eligible",
				.reason = SqlText(rows, i, 2), .job = jobs[which],
				.at = cycle->now
		};
	}
	JobTraces(audit, (int) rows.n);
	AuditWriteMany(audit, (int) rows.n);
	return rows.n;
}
