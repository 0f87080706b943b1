/*-------------------------------------------------------------------------
 *
 * surplus.c
 *		Giving back what a hold has too much for the type its job got.
 *
 * In the cycle that starts the job where the rows are free, else in a later
 * one; settlement gives back what is left.  Nothing is waited for.
 *
 * Locks, all without waiting: attempt, hold, buckets.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "common/clock.h"
#include "common/errors.h"
#include "common/settings.h"
#include "common/sql.h"
#include "ledger/ledger.h"
#include "miscadmin.h"
#include "sched/sched.h"

SQL_STATEMENT(surplus_lock, SPI_OK_SELECT, "text, bigint",
			  "SELECT a.org, a.job, a.attempt, a.hold, a.surplus"
			  " FROM gpucredit.attempt a WHERE a.pool = $1"
			  " AND a.surplus OPERATOR(gpucredit.>) '0'"
			  " AND a.ended_at IS NULL"
			  " FOR NO KEY UPDATE SKIP LOCKED LIMIT $2");
SQL_STATEMENT(surplus_clear, SPI_OK_UPDATE, "text, bigint, int",
			  "UPDATE gpucredit.attempt a SET surplus = '0'"
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3");

static void give_back(const char *org, int64 job, int32 attempt, int64 id,
					  Credits surplus);

/*
 * Give back what attempts of a pool hold too much.
 */
void
SurplusReturn(const char *pool)
{
	SqlArgs		args = {0};
	SqlResult	rows;

	SqlArgText(&args, pool);
	SqlArgInt8(&args, SettingMaxStarts());
	rows = SqlRun(&surplus_lock, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		give_back(SqlText(rows, i, 1), SqlInt8(rows, i, 2),
				  SqlInt4(rows, i, 3), SqlInt8(rows, i, 4),
				  SqlCredits(rows, i, 5));
	}
}

/*
 * Give one attempt's surplus back, if its hold and buckets are free.
 */
static void
give_back(const char *org, int64 job, int32 attempt, int64 id,
		  Credits surplus)
{
	Cause		cause = {"shrink", job, attempt};
	Hold		hold;
	Returned	returned;
	SqlArgs		args = {0};
	AuditRow	audit = {.org = org, .operation = "shrink",
		.decision = "released", .reason = "cheaper_type", .hold = id,
		.job = job, .attempt = attempt};

	if (!HoldLock(org, id, false, &hold) ||
		HoldShrink(&hold, &cause, surplus, false, &returned) != LEDGER_DONE)
		return;
	SqlArgText(&args, org);
	SqlArgInt8(&args, job);
	SqlArgInt4(&args, attempt);
	Ensure(SqlRun(&surplus_clear, &args).n == 1, "An attempt is missing.");
	audit.account = hold.account;
	audit.at = ClockNow();
	AuditCredits(&audit, "released", returned.released);
	AuditCredits(&audit, "lapsed", returned.lapsed);
	AuditWrite(&audit);
}
