/*-------------------------------------------------------------------------
 *
 * fund.c
 *		Jobs that wait for credit resume by themselves when it comes.
 *
 * Each cycle tries the oldest such job of each account.  Nothing is waited
 * for: a busy account's job waits a cycle.
 *
 * Locks, all without waiting: job, buckets.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/sql.h"
#include "job/job.h"
#include "miscadmin.h"
#include "sched/sched.h"

#define MOST_TRIED	1000

/* more accounts than one cycle tries take turns */
SQL_STATEMENT(unfunded_read, SPI_OK_SELECT, "text, bigint, bigint",
			  "SELECT f.org, f.job FROM"
			  " (SELECT DISTINCT ON (j.org, j.account) j.org, j.account,"
			  "  j.job FROM gpucredit.job j"
			  "  WHERE j.pool = $1 AND j.state = 'unfunded'"
			  "  ORDER BY j.org, j.account, j.submitted_at, j.job) f"
			  " ORDER BY pg_catalog.hashtextextended(f.org || '/' ||"
			  "  f.account, $3), f.org, f.job LIMIT $2");

static void fund(const char *org, int64 id);

/*
 * Queue the jobs of a pool that can be paid for again.
 */
void
FundWaiting(const char *pool)
{
	SqlArgs		args = {0};
	SqlResult	rows;

	SqlArgText(&args, pool);
	SqlArgInt8(&args, MOST_TRIED);
	SqlArgInt8(&args, ClockNow());
	rows = SqlRun(&unfunded_read, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		fund(SqlText(rows, i, 1), SqlInt8(rows, i, 2));
	}
}

static void
fund(const char *org, int64 id)
{
	Job			job;
	TimestampTz at;

	if (!JobLock(org, id, false, &job) ||
		strcmp(job.state, "unfunded") != 0 ||
		JobFund(&job, "fund", NULL, &at) != LEDGER_DONE)
		return;
	JobSetState(&job, "queued", job.hold, job.failures, job.not_before,
				DT_NOBEGIN);
}
