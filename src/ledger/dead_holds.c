/*-------------------------------------------------------------------------
 *
 * dead_holds.c
 *		The credit of holds past their ttl is free, whether or not a sweep
 *		has released them.
 *
 * A call that would be short of credit releases its organisation's dead holds
 * before it draws.  It looks without locks first, since nearly always there
 * is none.  All the buckets that it and the draw after it will need are then
 * locked at once, so that burn order holds over both.
 *
 * Locks: dead holds by id, then budgets leaf to root, then buckets in burn
 * order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/clock.h"
#include "util/sql.h"
#include "ledger/slice.h"
#include "miscadmin.h"

/* ordered, or the plan may read all holds in the hope of an early hit */
SQL_STATEMENT(dead_exists, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT 1 FROM gpucredit.hold h WHERE h.org = $1"
			  " AND h.closed_at IS NULL AND h.expires_at IS NOT NULL"
			  " AND h.expires_at <= $2 ORDER BY h.expires_at LIMIT 1");
SQL_STATEMENT(path_available, SPI_OK_SELECT,
			  MAY_PAY_TYPES,
			  "SELECT LEAST(COALESCE(pg_catalog.sum("
			  "  b.available::pg_catalog.numeric"
			  "  OPERATOR(pg_catalog.+) COALESCE("
			  "   (SELECT gpucredit.sum(s.available)::pg_catalog.numeric"
			  "    FROM gpucredit.bucket_slice s WHERE b.spread > 0"
			  "    AND s.org = $1 AND s.bucket = b.bucket), 0)), 0),"
			  "  9223372036854.775807)::gpucredit.credits"
			  " FROM gpucredit.bucket b WHERE" MAY_PAY);
SQL_STATEMENT(dead_held, SPI_OK_SELECT, MAY_PAY_TYPES,
			  "SELECT LEAST(COALESCE(pg_catalog.sum("
			  "  p.held::pg_catalog.numeric), 0),"
			  "  9223372036854.775807)::gpucredit.credits"
			  " FROM gpucredit.hold h JOIN gpucredit.hold_part p"
			  "  ON p.org = $1 AND p.hold = h.hold"
			  " JOIN gpucredit.bucket b ON b.org = $1"
			  "  AND b.bucket = p.bucket"
			  " WHERE h.org = $1 AND h.closed_at IS NULL"
			  " AND h.expires_at IS NOT NULL AND h.expires_at <= $3"
			  " AND" MAY_PAY);
SQL_STATEMENT(dead_lock, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT h.hold FROM gpucredit.hold h WHERE h.org = $1"
			  " AND h.closed_at IS NULL AND h.expires_at IS NOT NULL"
			  " AND h.expires_at <= $2 ORDER BY h.hold FOR NO KEY UPDATE");
SQL_STATEMENT(dead_lock_free, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT h.hold FROM gpucredit.hold h WHERE h.org = $1"
			  " AND h.closed_at IS NULL AND h.expires_at IS NOT NULL"
			  " AND h.expires_at <= $2 ORDER BY h.hold"
			  " FOR NO KEY UPDATE SKIP LOCKED");
SQL_STATEMENT(bucket_lock_all, SPI_OK_SELECT,
			  "text, text[], timestamptz, bigint[], bigint",
			  "SELECT b.bucket, b.spread FROM gpucredit.bucket b"
			  " WHERE b.org = $1"
			  " AND (b.account = ANY ($2) AND b.closed_at IS NULL"
			  "  AND (b.available OPERATOR(gpucredit.>) '0'"
			  "   OR b.spread > 0)"
			  "  AND b.effective_at <= $3"
			  "  AND (b.expires_at IS NULL OR b.expires_at > $3)"
			  " OR b.bucket IN (SELECT p.bucket FROM gpucredit.hold_part p"
			  "  WHERE p.org = $1 AND p.hold = ANY ($4)"
			  "  AND p.held OPERATOR(gpucredit.>) '0')"
			  " OR b.bucket = $5)"
			  " ORDER BY" BURN_ORDER " FOR NO KEY UPDATE OF b");

static bool any_dead(const char *org);
static LockedBuckets reclaim(const AccountPath *path, const Purpose *purpose,
							 Credits amount, const Hold *also, int nalso,
							 int64 bucket);
static LockedBuckets lock_buckets(const AccountPath *path, const int64 *holds,
								  int n, int64 bucket, TimestampTz at);

/*
 * Release the organisation's dead holds if a draw is short without them. The
 * draw then keeps to the buckets locked here, if any.
 */
LockedBuckets
LedgerReclaim(const AccountPath *path, const Purpose *purpose,
			  Credits amount)
{
	LockedBuckets none = {-1, NULL, NULL};

	return amount > 0 ? reclaim(path, purpose, amount, NULL, 0, 0) : none;
}

/*
 * Release the organisation's dead holds before a bucket is revoked. The bucket
 * is locked together with theirs, since it may come before them in burn order.
 */
void
LedgerReclaimFor(const AccountPath *path, int64 bucket)
{
	Purpose		purpose = {0};

	(void) reclaim(path, &purpose, PG_INT64_MAX, NULL, 0, bucket);
}

/*
 * Before a call closes locked holds of one account, and then opens or extends
 * one: release dead holds, and lock together the budgets and buckets of both
 * steps.
 */
LockedBuckets
HoldsLockForNext(const Hold *holds, int n, const Purpose *purpose)
{
	AccountPath path = AccountParse(holds[0].org, holds[0].account);

	return reclaim(&path, purpose, PG_INT64_MAX, holds, n, 0);
}

/*
 * Release the dead holds that need no wait, whatever this transaction has
 * locked. For calls that never wait, and for a draw that policies left short.
 * Returns whether there was any.
 */
bool
LedgerReclaimFree(const char *org)
{
	TimestampTz now = ClockNow();
	SqlResult	rows;
	bool		any = false;

	if (!any_dead(org))
		return false;
	rows = SqlRun(&dead_lock_free, VALUES(TextValue(org), TimeValue(now)));
	for (uint64 i = 0; i < rows.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		any |= HoldReap(org, SqlInt8(rows, i, 1), false);
	}
	return any;
}

/*
 * Release dead holds if less than an amount is available. Lock the buckets of
 * some more holds, or one more bucket, with theirs.
 */
static LockedBuckets
reclaim(const AccountPath *path, const Purpose *purpose, Credits amount,
		const Hold *also, int nalso, int64 bucket)
{
	TimestampTz now = ClockNow();
	int64	   *ids;
	int			dead = 0;
	LockedBuckets locked = {-1, NULL, NULL};
	SqlResult	rows = {0};

	if (any_dead(path->org) &&
		(LedgerAvailable(path, purpose, now) < amount ||
		 BudgetShort(path, amount, now)))
	{
		/* this hold may be dead, and is locked: then wait for no other */
		rows = SqlRun(nalso > 0 && also->job == 0 ? &dead_lock_free :
					  &dead_lock,
					  VALUES(TextValue(path->org), TimeValue(now)));
	}
	ids = palloc(sizeof(int64) * (rows.n + nalso + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		ids[dead] = SqlInt8(rows, i, 1);
		if (nalso == 0 || ids[dead] != also->hold)
			dead++;
	}
	for (int i = 0; i < nalso; i++)
		ids[dead + i] = also[i].hold;
	if (dead > 0 || nalso > 0)
	{
		int			n = dead + nalso;
		BudgetSet  *budgets = palloc0(sizeof(BudgetSet));

		BudgetLockUnion(path, ids, n, now, budgets);
		locked = lock_buckets(path, ids, n, bucket, now);
		locked.budgets = budgets;
	}
	for (int i = 0; i < dead; i++)
	{
		CHECK_FOR_INTERRUPTS();
		(void) HoldReap(path->org, ids[i], true);
	}
	return locked;
}

/*
 * Lock the buckets an account could draw from, those of some holds, and (0:
 * none) one more, each with its slices.
 */
static LockedBuckets
lock_buckets(const AccountPath *path, const int64 *holds, int n,
			 int64 bucket, TimestampTz at)
{
	LockedBuckets locked = {0, palloc(sizeof(int64) * 8), NULL};
	int			size = 8;
	Portal		portal;

	portal = SqlCursor(&bucket_lock_all,
					   VALUES(TextValue(path->org),
							  TextArrayValue(path->accounts, path->n),
							  TimeValue(at), Int8ArrayValue(holds, n),
							  Int8Value(bucket)));
	while (true)
	{
		SqlResult	row = SqlFetch(portal);
		Credits		available;

		CHECK_FOR_INTERRUPTS();
		if (row.n == 0)
			break;
		if (locked.n == size)
			locked.ids = repalloc(locked.ids, sizeof(int64) * (size *= 2));
		locked.ids[locked.n++] = SqlInt8(row, 0, 1);
		(void) SlicesLock(path->org, SqlInt8(row, 0, 1), SqlInt4(row, 0, 2),
						  true, &available);
		SqlFree(&row);
	}
	SPI_cursor_close(portal);
	return locked;
}

/*
 * Is a hold past its ttl and not released?
 */
static bool
any_dead(const char *org)
{
	return SqlRun(&dead_exists,
				  VALUES(TextValue(org), TimeValue(ClockNow()))).n > 0;
}

/*
 * What an account could draw at an instant, read without locks and without the
 * caps of jobs and holds.
 */
Credits
LedgerAvailable(const AccountPath *path, const Purpose *purpose,
				TimestampTz at)
{
	Values		args = MayPayArgs(path, purpose, at);

	return SqlCredits(SqlRun(&path_available, &args), 0, 1);
}

/*
 * What dead holds of the organisation hold of what an account could draw.  No
 * sweep has returned it yet, and it is available all the same.
 */
Credits
LedgerHeldByDead(const AccountPath *path, const Purpose *purpose,
				 TimestampTz at)
{
	Values		args = MayPayArgs(path, purpose, at);

	return any_dead(path->org) ?
		SqlCredits(SqlRun(&dead_held, &args), 0, 1) : 0;
}

/*
 * Release one dead hold, unless somebody just did (or, with wait = false, a
 * row it needs is locked).
 */
bool
HoldReap(const char *org, int64 id, bool wait)
{
	Cause		cause = {"reap", 0, 0};
	Hold		hold;
	Returned	returned;
	AuditRow	audit = {.org = org, .operation = "reap",
		.decision = "released", .reason = "ttl", .hold = id};

	if (!HoldLock(org, id, wait, &hold) || !HoldIsOpen(&hold))
		return false;
	if (wait)
		returned = HoldSettle(&hold, &cause, 0, true, &audit.at);
	else if (HoldTryRelease(&hold, &cause, &returned,
							&audit.at) != LEDGER_DONE)
		return false;
	audit.account = hold.account;
	audit.trace = hold.trace;
	AuditCredits(&audit, "released", returned.released);
	AuditCredits(&audit, "lapsed", returned.lapsed);
	AuditWrite(&audit);
	return true;
}
