/*-------------------------------------------------------------------------
 *
 * forget_usage.c
 *		SQL function forget_usage: removes old usage rows.
 *
 * Usage rows show how a bill grew. The bill itself is stored in the attempt
 * and in its ledger entries, so usage rows are removed once their attempt has
 * been over for gpucredit.usage_retention. One instant remains stored, up to
 * which usage rows may be missing: balances as of an earlier instant cannot be
 * computed.
 *
 * Locks: the lock of the chain of seals, so that only one call at a time
 * removes rows. Never waits.
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
 * SQL function forget_usage(most): removes up to `most` rows and returns how
 * many were removed.
 */
Datum
gpucredit_forget_usage(PG_FUNCTION_ARGS)
{
	int64		most = ArgInt8(fcinfo, 0, "most", 1, PG_INT32_MAX);
	int64		kept = SettingUsageRetention();
	TimestampTz before = ClockNow() - kept;
	uint64		n = 0;

	/*
	 * Under an older snapshot the call would not see rows that other calls
	 * have removed since.
	 */
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
