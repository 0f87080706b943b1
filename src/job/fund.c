/*-------------------------------------------------------------------------
 *
 * fund.c
 *		A sweep over jobs that wait for credit.
 *
 * Each cycle tries the jobs of its pool (sched/fund_waiting.c) and waits for nobody.
 * Beside clients that never pause there is hardly an instant at which nobody
 * has their bucket's row, so a cycle may find it locked time after time.  The
 * sweep therefore stands in line for it, as a client would, FUND_WAIT_MS at
 * most for each row; and as it keeps what it has locked until it commits, it
 * begins no other job once FUND_MOST_MS have passed.  It is the last thing its
 * call does, and waits for no row where the credit is not there anyway.
 *
 * Locks: job without waiting, then as HoldOpen().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/sql.h"
#include "job/fund.h"
#include "job/job.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#define FUND_WAIT_MS	50
#define FUND_MOST_MS	100

SQL_STATEMENT(unfunded_all, SPI_OK_SELECT, "bigint, bigint",
			  UNFUNDED(" j.org, j.job, c.kind", ""));

static SweepResult fund_one(const char *org, int64 id, int32 kind,
							const void *context);

/*
 * Queue the jobs of all pools that can be paid for, in the order in which
 * cycles try them; returns how many.
 */
int64
FundSwept(Sweep *sweep)
{
	int			level = NewGUCNestLevel();
	SqlArgs		args = {0};
	SqlResult	rows;
	bool	   *short_of;
	int64		done;

	SqlArgInt8(&args, UNFUNDED_MOST);
	SqlArgInt8(&args, ClockNow());
	rows = SqlRun(&unfunded_all, &args);
	short_of = palloc0(sizeof(bool) * (rows.n + 1));
	SweepWait(FUND_WAIT_MS);
	done = SweepRunFor(sweep, FUND_MOST_MS, rows, fund_one, &short_of);
	AtEOXact_GUC(true, level);
	SqlFree(&rows);
	return done;
}

/*
 * One of them, unless one before it that asks the same could not be paid for:
 * context says of which kinds that is so.
 */
static SweepResult
fund_one(const char *org, int64 id, int32 kind, const void *context)
{
	bool	   *short_of = *(bool *const *) context;

	if (short_of[kind])
		return SWEEP_IDLE;
	if (FundWaitingJob(org, id, true))
		return SWEEP_DONE;
	short_of[kind] = true;
	return SWEEP_IDLE;
}
