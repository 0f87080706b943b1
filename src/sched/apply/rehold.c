/*-------------------------------------------------------------------------
 *
 * rehold.c
 *		Renews the holds of jobs that kept themselves from starting, so
 *		that they pay the prices in force when they may start.
 *
 * A job's prices are fixed with its hold. A job that waits for devices or a
 * quota keeps them, as it would start at once if it could. A job that waited
 * for other jobs, for its begin, for its release, or for its turn in an array
 * with "at_most" did so because its owner asked for it. With old prices, such
 * a job would be a free option against a price rise, and its hold would keep
 * credit from expiring and carry a budget over into the next period.
 *
 * So before such a job starts, its hold must be of the same day (UTC), younger
 * than the last change of a price in its pool, and of no bucket that has
 * expired since. Otherwise the job takes no part in the cycle that finds this.
 * That cycle releases the hold and opens another one at its own instant, as
 * for a job that is requeued. If there is no credit for the new hold, the job
 * becomes unfunded.
 *
 * Locks, all without waiting: job, hold, buckets.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "job/fund.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "shmem/wake.h"
#include "util/clock.h"
#include "util/sql.h"
#include "utils/timestamp.h"

#define REHOLD_MOST		1000	/* number of holds that one cycle renews at
								 * most */

SQL_STATEMENT(stale_read, SPI_OK_SELECT,
			  "text[], bigint[], text, timestamptz",
			  "SELECT u.n FROM (SELECT GREATEST("
			  "   pg_catalog.date_trunc('day', $4, 'UTC'),"
			  "   (SELECT pg_catalog.max(p.effective_at) FROM gpucredit.price p"
			  "    WHERE p.pool IN ('', $3) AND p.effective_at <= $4)) AS since"
			  "  OFFSET 0) s"
			  " CROSS JOIN ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2)) WITH ORDINALITY AS u (org, hold, n)"
			  " JOIN gpucredit.hold h ON h.org = u.org AND h.hold = u.hold"
			  " WHERE h.created_at < s.since OR EXISTS (SELECT"
			  "  FROM gpucredit.hold_part c JOIN gpucredit.bucket b"
			  "   ON b.org = c.org AND b.bucket = c.bucket"
			  "  WHERE c.org = h.org AND c.hold = h.hold"
			  "   AND c.held OPERATOR(gpucredit.>) '0'::gpucredit.credits"
			  "   AND b.expires_at <= $4)");

/*
 * The condition is repeated because the job may have changed since it was
 * loaded.
 */
SQL_STATEMENT(rehold_lock, SPI_OK_SELECT, "text, bigint",
			  "SELECT j.after FROM gpucredit.job j"
			  " WHERE j.org = $1 AND j.job = $2 AND j.held_by IS NULL"
			  " FOR NO KEY UPDATE SKIP LOCKED");
SQL_STATEMENT(rehold_eligible, SPI_OK_UPDATE, "text, bigint, timestamptz",
			  "UPDATE gpucredit.job j SET after = NULL, eligible = true,"
			  " waits_from = $3 - j.waited"
			  " WHERE j.org = $1 AND j.job = $2 AND NOT j.eligible");

static bool rehold_one(const SchedCycle *cycle, const SetAside *aside);

/* Sets the jobs aside whose holds are too old for them to start. */
void
ReholdFind(SchedCycle *cycle, bool *drop)
{
	const char **orgs = palloc_extended(sizeof(char *) *
										(cycle->input.n_jobs + 1),
										MCXT_ALLOC_HUGE);
	int64	   *holds = palloc_extended(sizeof(int64) *
										(cycle->input.n_jobs + 1),
										MCXT_ALLOC_HUGE);
	int32	   *which = palloc_extended(sizeof(int32) *
										(cycle->input.n_jobs + 1),
										MCXT_ALLOC_HUGE);
	SqlResult	rows;
	int			n = 0;

	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		const Queued *queued = &cycle->queued[j];

		/*
		 * Hypothetical jobs and jobs whose funding is only foreseen have no
		 * hold.
		 */
		if (drop[j] || queued->hold == 0 ||
			!(queued->released || queued->array != NULL))
			continue;
		orgs[n] = cycle->jobs[j].org;
		holds[n] = queued->hold;
		which[n++] = j;
	}
	if (n == 0)
		return;
	rows = CycleRead(cycle, &stale_read,
					 VALUES(TextArrayValue(orgs, n), Int8ArrayValue(holds, n),
							TextValue(cycle->pool), TimeValue(cycle->now)));
	for (uint64 i = 0; i < rows.n; i++)
	{
		int32		j = which[SqlInt8(rows, i, 1) - 1];

		drop[j] = true;
		SetAsideAdd(cycle, cycle->jobs[j].org, cycle->jobs[j].id,
					SET_ASIDE_PRICE, false);
	}
	SqlFree(&rows);
}

/*
 * Renews the holds of the jobs that ReholdFind() set aside, and returns how
 * many. The next cycle may start these jobs.
 */
uint64
ReholdApply(const SchedCycle *cycle)
{
	uint64		done = 0;
	int			tried = 0;

	for (int i = 0; i < cycle->n_set_aside && tried < REHOLD_MOST; i++)
	{
		if (cycle->set_aside[i].reason != SET_ASIDE_PRICE)
			continue;
		CHECK_FOR_INTERRUPTS();
		tried++;
		done += rehold_one(cycle, &cycle->set_aside[i]);
	}
	if (done > 0)
		WakePool(cycle->pool);
	return done;
}

/*
 * Renews the hold of one job. Returns false if a row that this needs is
 * locked, or if the job has changed; a later cycle tries again.
 */
static bool
rehold_one(const SchedCycle *cycle, const SetAside *aside)
{
	Values	   *args = VALUES(TextValue(aside->org), Int8Value(aside->job));
	Cause		cause = {"place", aside->job, 0};
	AuditRow	audit = {.org = aside->org, .operation = "place",
		.decision = "repriced", .job = aside->job};
	SqlResult	row = SqlRun(&rehold_lock, args);
	Job			job;
	Hold		hold;
	Returned	returned;

	if (row.n == 0 ||
		!JobLock(aside->org, aside->job, false, &job) ||
		strcmp(job.state, "queued") != 0 ||
		!HoldLock(job.org, job.hold, false, &hold) || !HoldIsOpen(&hold) ||
		HoldTryRelease(&hold, &cause, &returned, &audit.at) != LEDGER_DONE)
		return false;
	audit.account = job.account;
	audit.trace = job.trace;
	audit.hold = job.hold;
	audit.reason = SqlText(row, 0, 1);
	AuditCredits(&audit, "released", returned.released);
	AuditCredits(&audit, "lapsed", returned.lapsed);
	ValuesAdd(args, TimeValue(cycle->now));
	(void) SqlRun(&rehold_eligible, args);
	if (!JobLock(aside->org, aside->job, false, &job))
		return false;
	JobSetState(&job, "unfunded", job.hold, job.failures, job.not_before,
				DT_NOBEGIN);
	AuditWrite(&audit);
	(void) FundWaitingJob(aside->org, aside->job, false);
	return true;
}
