/*-------------------------------------------------------------------------
 *
 * fund_waiting.c
 *		Queues jobs that wait for credit again once there is credit.
 *
 * Each cycle tries the jobs of each account, oldest first. After a job that
 * could not be paid, jobs of the same request and tier are not tried. Jobs of
 * other requests are tried, as they may need less or use other buckets, so an
 * unpaid job blocks nobody. Nothing waits: jobs of a busy account are tried in
 * the next cycle, or by a sweep, which waits a moment (job/fund.c).
 *
 * plan() opens no hold; it only checks whether there would be credit
 * (fund_foresee.c).
 *
 * Locks, all without waiting: job, buckets.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/sql.h"
#include "job/fund.h"
#include "miscadmin.h"
#include "sched/sched.h"

SQL_STATEMENT(unfunded_read, SPI_OK_SELECT, "bigint, bigint, text",
			  UNFUNDED(" j.org, j.job, c.kind", UNFUNDED_OF_POOL));

/*
 * Opens holds for the unfunded jobs of a pool that can be paid, and queues
 * these jobs again.
 */
void
FundWaiting(const char *pool)
{
	SqlResult	rows = SqlRun(&unfunded_read,
							  VALUES(Int8Value(UNFUNDED_MOST),
									 Int8Value(ClockNow()),
									 TextValue(pool)));
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
