/*-------------------------------------------------------------------------
 *
 * forget_usage.c
 *		Removal of old usage rows.
 *
 * Usage shows how a bill grew; the bill itself is in the attempt and its
 * entries. So rows of attempts that ended a whole retention ago are removed.
 * Only the instant up to which rows may be missing stays: earlier balances are
 * unknown.
 *
 * Locks: the chain's, so that only one call works on it; never waits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "util/append_only.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/settings.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(gpucredit_forget_usage);

SQL_STATEMENT(usage_lock, SPI_OK_SELECT, "",
			  "SELECT gpucredit_internal.lock_chain()");
SQL_STATEMENT(usage_delete, SPI_OK_DELETE, "timestamptz, bigint",
			  "DELETE FROM gpucredit.usage u WHERE u.ctid = ANY (ARRAY("
			  "SELECT o.ctid FROM gpucredit.usage o"
			  " JOIN gpucredit.attempt a ON a.org = o.org AND a.job = o.job"
			  " AND a.attempt = o.attempt"
			  " WHERE o.at < $1 AND a.ended_at < $1"
			  " ORDER BY o.at LIMIT $2))");
SQL_STATEMENT(horizon_forget, SPI_OK_DELETE, "timestamptz",
			  "DELETE FROM gpucredit.usage_horizon h WHERE h.until < $1");
SQL_STATEMENT(horizon_write, SPI_OK_INSERT, "timestamptz",
			  "INSERT INTO gpucredit.usage_horizon (until) SELECT $1"
			  " WHERE NOT EXISTS (SELECT FROM gpucredit.usage_horizon)");

/*
 * forget_usage(most): how many rows have left.
 */
Datum
gpucredit_forget_usage(PG_FUNCTION_ARGS)
{
	int64		most = ArgInt8(fcinfo, 0, "most", 1, PG_INT32_MAX);
	int64		kept = SettingUsageRetention();
	TimestampTz before = ClockNow() - kept;
	uint64		n = 0;

	/* an older snapshot does not see concurrent removals */
	if (kept == 0 || IsolationUsesXactSnapshot())
		PG_RETURN_INT64(0);
	SqlConnect();
	if (SqlBool(SqlRun(&usage_lock, NULL), 0, 1))
	{
		n = AppendOnlyDelete("usage", &usage_delete,
							 VALUES(TimeValue(before), Int8Value(most)));
		if (n > 0)
		{
			(void) SqlRun(&horizon_forget, VALUES(TimeValue(before)));
			(void) SqlRun(&horizon_write, VALUES(TimeValue(before)));
		}
	}
	SqlFinish();
	PG_RETURN_INT64((int64) n);
}
