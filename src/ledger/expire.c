/*-------------------------------------------------------------------------
 *
 * expire.c
 *		SQL function expire_credits: books the credit that buckets had
 *		when they expired.
 *
 * Credit expires when its time has passed, so every figure is right before any
 * sweep and the same after it. A bucket needs one sweep in its life, since
 * credit that returns later expires at once. The column swept_at notes the
 * sweep, and removes the bucket from the index of due buckets. The slices of a
 * bucket are folded first.
 *
 * A call ends after gpucredit.upkeep_time, and the next call continues.
 *
 * Locks: buckets, each with its slices, without waiting. A locked bucket is
 * left for the next call.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/settings.h"
#include "util/sql.h"
#include "api/api.h"
#include "ledger/slice.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

API_FUNCTION(gpucredit_expire_credits, expire_credits);

#define EXPIRE_MOST	10000		/* buckets that one call expires at most */
#define EXPIRE_STEP	2500		/* buckets that one statement expires */

SQL_STATEMENT(bucket_due, SPI_OK_SELECT, "timestamptz, bigint",
			  "SELECT pg_catalog.count(*), pg_catalog.array_agg(d.place)"
			  " FROM (SELECT b.ctid AS place FROM gpucredit.bucket b"
			  "  WHERE b.expires_at IS NOT NULL AND b.expires_at <= $1"
			  "  AND b.closed_at IS NULL AND b.swept_at IS NULL"
			  "  AND b.spread = 0"
			  "  ORDER BY b.expires_at LIMIT $2"
			  "  FOR NO KEY UPDATE SKIP LOCKED) d");
SQL_STATEMENT(bucket_spread, SPI_OK_SELECT, "timestamptz, bigint",
			  "SELECT b.org, b.bucket, b.spread FROM gpucredit.bucket b"
			  " WHERE b.spread > 0 AND b.expires_at <= $1"
			  " ORDER BY b.expires_at LIMIT $2"
			  " FOR NO KEY UPDATE SKIP LOCKED");

static void fold_spread(TimestampTz now, TimestampTz until);
static void audit_swept(SqlResult sums, TimestampTz at);

Datum
call_expire_credits(PG_FUNCTION_ARGS)
{
	TimestampTz until = TimestampTzPlusMilliseconds(ClockSteady(),
													SettingUpkeepTime());
	int64		n;
	int64		total = 0;

	SqlConnect();
	fold_spread(ClockNow(), until);
	do
	{
		SqlResult	due = SqlRun(&bucket_due,
								 VALUES(TimeValue(ClockNow()),
										Int8Value(EXPIRE_STEP)));

		CHECK_FOR_INTERRUPTS();
		n = SqlInt8(due, 0, 1);
		if (n > 0)
		{
			TimestampTz at = ClockNow();
			bool		isnull;

			audit_swept(LedgerSweep(SqlDatum(due, 0, 2, &isnull), n, at), at);
		}
		total += n;
	} while (n == EXPIRE_STEP && total < EXPIRE_MOST &&
			 ClockSteady() < until);
	return SqlFinishRow(RowReturn(fcinfo,
								  VALUES(TextValue("expire_credits"),
										 Int8Value(total))));
}

/*
 * Folds the slices of due buckets into the buckets' rows: of one bucket at
 * least, and of others until an instant of ClockSteady().
 */
static void
fold_spread(TimestampTz now, TimestampTz until)
{
	SqlResult	due;

	due = SqlRun(&bucket_spread,
				 VALUES(TimeValue(now), Int8Value(EXPIRE_MOST)));
	for (uint64 i = 0; i < due.n && (i == 0 || ClockSteady() < until); i++)
	{
		char	   *org = SqlText(due, i, 1);
		int64		bucket = SqlInt8(due, i, 2);
		Credits		available;

		CHECK_FOR_INTERRUPTS();
		if (SlicesLock(org, bucket, SqlInt4(due, i, 3), false, &available))
			LedgerFold(org, bucket);
	}
}

/*
 * Writes an audit row for each organisation. The entries show the amount of
 * each bucket.
 */
static void
audit_swept(SqlResult sums, TimestampTz at)
{
	AuditRow   *rows = palloc0(sizeof(AuditRow) * Max(sums.n, 1));

	for (uint64 i = 0; i < sums.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		rows[i].org = SqlText(sums, i, 1);
		rows[i].operation = "expire";
		rows[i].decision = "expired";
		rows[i].at = at;
		AuditInt8(&rows[i], "buckets", SqlInt8(sums, i, 2));
		AuditNumber(&rows[i], "amount", SqlText(sums, i, 3));
	}
	AuditWriteMany(rows, (int) sums.n);
}
