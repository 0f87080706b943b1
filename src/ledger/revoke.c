/*-------------------------------------------------------------------------
 *
 * revoke.c
 *		SQL function revoke: removes a bucket's available credit, and
 *		closes the bucket.
 *
 * Held credit stays valid, but what returns later is revoked as well (hold.c,
 * refund.c). The credit of holds past their ttl is available, so these are
 * released first. An expired bucket has nothing left to revoke: what no sweep
 * has booked yet is booked as expired.
 *
 * Locks: key, dead holds, budgets, buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "api/api.h"
#include "ledger/alert.h"
#include "ledger/slice.h"
#include "request/request.h"

API_FUNCTION(gpucredit_revoke, revoke);

/* A bucket's row, read under its lock. */
typedef struct RevokedBucket
{
	char	   *account;
	Credits		available;
	bool		expired;
	bool		closed;
	TimestampTz at;				/* an instant after the lock */
} RevokedBucket;

SQL_STATEMENT(bucket_dead, SPI_OK_SELECT, "text, bigint, timestamptz",
			  "SELECT b.account, EXISTS (SELECT FROM gpucredit.hold h"
			  "  JOIN gpucredit.hold_part p ON p.org = h.org"
			  "   AND p.hold = h.hold"
			  "  WHERE h.org = $1 AND h.closed_at IS NULL"
			  "   AND h.expires_at IS NOT NULL AND h.expires_at <= $3"
			  "   AND p.org = $1 AND p.bucket = $2"
			  "   AND p.held OPERATOR(gpucredit.>) '0')"
			  " FROM gpucredit.bucket b WHERE b.org = $1 AND b.bucket = $2");
SQL_STATEMENT(bucket_lock, SPI_OK_SELECT, "text, bigint",
			  "SELECT b.account, b.available, b.expires_at,"
			  " b.closed_at IS NOT NULL, b.spread FROM gpucredit.bucket b"
			  " WHERE b.org = $1 AND b.bucket = $2 FOR NO KEY UPDATE");

/*
 * Finds the time of the bucket's last entry after an instant. Such entries are
 * found by the block range index over times, and the second bound makes this
 * scan look cheap to the planner. By key the statement would read all entries
 * of the bucket.
 */
SQL_STATEMENT(bucket_last, SPI_OK_SELECT, "text, bigint, timestamptz",
			  "SELECT pg_catalog.max(l.at) FROM ("
			  "SELECT e.at FROM (SELECT n.bucket, n.at"
			  "  FROM gpucredit.entry n WHERE n.org = $1"
			  "  AND n.at > $3 AND n.at < 'infinity' OFFSET 0) e"
			  " WHERE e.bucket = $2"
			  " UNION ALL SELECT c.drawn_last FROM gpucredit.closing c"
			  " WHERE c.org = $1 AND c.bucket = $2 AND c.drawn_last > $3"
			  " AND $3 < gpucredit_internal.kept_from('entry')) l");

static void release_dead(const char *org, int64 id);
static void lock_bucket(const char *org, int64 id, RevokedBucket *bucket);
static TimestampTz instant_after(const char *org, int64 id, TimestampTz now);
static Credits empty_bucket(const char *org, int64 id,
							const RevokedBucket *bucket);

Datum
call_revoke(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		id = ArgInt8(fcinfo, 1, "bucket", PG_INT64_MIN,
							 PG_INT64_MAX);
	AuditRow	audit = {.org = org, .operation = "revoke",
		.decision = "revoked", .bucket = id};
	Request		request;
	Datum		result;
	RevokedBucket bucket;
	Credits		revoked;
	AccountPath path;

	RequestInit(&request, fcinfo, "revoke", org, ArgKey(fcinfo, 2, "key"));
	RequestInt8(&request, id);
	audit.reason = ArgTextOrNull(fcinfo, 3, "reason");
	RequestText(&request, audit.reason);

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	release_dead(org, id);
	lock_bucket(org, id, &bucket);
	revoked = empty_bucket(org, id, &bucket);
	path = AccountParse(org, bucket.account);
	AlertBalanceDebited(&path, bucket.at, id, revoked);

	audit.account = bucket.account;
	audit.at = bucket.at;
	AuditCredits(&audit, "revoked", revoked);
	AuditText(&audit, "key", request.key);
	AuditWrite(&audit);

	return SqlFinishRow(RequestFinish(&request,
									  VALUES(NumericValue(revoked),
											 BoolValue(false))));
}

/* Releases dead holds if one of them holds credit of the bucket. */
static void
release_dead(const char *org, int64 id)
{
	SqlResult	row = SqlRun(&bucket_dead,
							 VALUES(TextValue(org), Int8Value(id),
									TimeValue(ClockNow())));

	if (row.n > 0 && SqlBool(row, 0, 2))
	{
		AccountPath path = {.org = org, .n = 1,
			.accounts = {SqlText(row, 0, 1)}};

		LedgerReclaimFor(&path, id);
	}
}

/*
 * Locks and reads a bucket, and folds its slices. Raises UC002 if the bucket
 * does not exist.
 */
static void
lock_bucket(const char *org, int64 id, RevokedBucket *bucket)
{
	SqlResult	row;
	Credits		in_slices;

	row = SqlRun(&bucket_lock, VALUES(TextValue(org), Int8Value(id)));
	if (row.n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_GPUCREDIT_NO_BUCKET),
				 errmsg("bucket %lld does not exist", (long long) id),
				 errdetail("There is none of that number in this "
						   "organisation."),
				 errhint("Pass the number gpucredit.issue() returned.")));
	bucket->account = SqlText(row, 0, 1);
	bucket->available = SqlCredits(row, 0, 2);
	if (SlicesLock(org, id, SqlInt4(row, 0, 5), true, &in_slices))
	{
		LedgerFold(org, id);
		bucket->available = CreditsAdd(bucket->available, in_slices);
	}
	bucket->at = instant_after(org, id, ClockNow());
	bucket->expired = SqlTimeOr(row, 0, 3, DT_NOEND) <= bucket->at;
	bucket->closed = SqlBool(row, 0, 4);
	SqlFree(&row);
}

/*
 * Returns an instant that is not before any entry of a locked bucket, as the
 * clock may have been set back. Nothing is drawn from a bucket after its end.
 */
static TimestampTz
instant_after(const char *org, int64 id, TimestampTz now)
{
	SqlResult	row;
	TimestampTz last;

	row = SqlRun(&bucket_last,
				 VALUES(TextValue(org), Int8Value(id), TimeValue(now)));
	last = SqlTimeOr(row, 0, 1, now);
	SqlFree(&row);
	return Max(now, last);
}

/*
 * Revokes a locked bucket's available credit and closes the bucket. Returns
 * the amount.
 */
static Credits
empty_bucket(const char *org, int64 id, const RevokedBucket *bucket)
{
	Cause		cause = {"revoke", 0, 0};
	Move		move = {id, 0, AVAILABLE,
		bucket->expired ? EXPIRED : REVOKED, bucket->available, 0};
	Posting		posting = {.org = org, .account = bucket->account,
		.cause = &cause, .at = bucket->at, .n = 1, .moves = &move};

	if (bucket->available > 0)
		LedgerPost(&posting);
	if (!bucket->closed)
		LedgerClose(org, id, bucket->at);
	return bucket->expired ? 0 : bucket->available;
}
