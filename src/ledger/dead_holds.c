/*-------------------------------------------------------------------------
 *
 * dead_holds.c
 *		Makes the credit of holds past their ttl available, even if no
 *		sweep has released them.
 *
 * A call that lacks credit releases dead holds of its organisation before it
 * draws: the oldest first, and only as many as hold the missing amount. A call
 * that a budget refuses releases all dead holds, because each of them may
 * count in that budget. So does a call that draws as much as there is.  Dead
 * holds are first searched without locks, since nearly always there are none.
 * All buckets that the release and the draw after it will need are then locked
 * together, so that burn order is kept for both.
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

/*
 * Without ORDER BY the plan may read all holds, because it expects to find one
 * early.
 */
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
			  " FROM" PATH_BUCKETS " WHERE" MAY_PAY);
/*
 * Returns the dead holds, the oldest first, each with how much it holds of
 * buckets from which an account could draw.
 */
SQL_STATEMENT(dead_paying, SPI_OK_SELECT, MAY_PAY_TYPES,
			  "SELECT h.hold, s.held"
			  " FROM (SELECT h.hold FROM gpucredit.hold h WHERE h.org = $1"
			  "  AND h.closed_at IS NULL AND h.expires_at IS NOT NULL"
			  "  AND h.expires_at <= $3 ORDER BY h.expires_at OFFSET 0) h"
			  " CROSS JOIN LATERAL (SELECT COALESCE(gpucredit.sum(p.held), '0')"
			  "   AS held FROM gpucredit.hold_part p WHERE p.org = $1"
			  "  AND p.hold = h.hold AND (SELECT true FROM gpucredit.bucket b"
			  "   WHERE b.org = $1 AND b.bucket = p.bucket"
			  "   AND b.account = ANY ($2) AND" PAYS ") OFFSET 0) s");
SQL_STATEMENT(dead_all, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT h.hold FROM gpucredit.hold h WHERE h.org = $1"
			  " AND h.closed_at IS NULL AND h.expires_at IS NOT NULL"
			  " AND h.expires_at <= $2 ORDER BY h.expires_at");
#define DEAD_LOCK \
	"SELECT FROM gpucredit.hold h WHERE h.org = $1 AND h.hold = $2" \
	" AND h.closed_at IS NULL AND h.expires_at <= $3 FOR NO KEY UPDATE"
SQL_STATEMENT(dead_lock, SPI_OK_SELECT, "text, bigint, timestamptz",
			  DEAD_LOCK);
SQL_STATEMENT(dead_lock_free, SPI_OK_SELECT, "text, bigint, timestamptz",
			  DEAD_LOCK " SKIP LOCKED");
SQL_STATEMENT(buckets_find, SPI_OK_SELECT,
			  "text, text[], timestamptz, bigint[], bigint",
			  "SELECT b.bucket FROM (SELECT o.bucket FROM " PATH_LEVELS(2)
			  "  CROSS JOIN LATERAL (SELECT b.bucket FROM gpucredit.bucket b"
			  "   WHERE b.org = $1 AND b.account = p.account"
			  "   AND b.closed_at IS NULL"
			  "   AND (b.available OPERATOR(gpucredit.>) '0'"
			  "    OR b.spread > 0)"
			  "   AND b.effective_at <= $3"
			  "   AND (b.expires_at IS NULL OR b.expires_at > $3) OFFSET 0) o"
			  " UNION SELECT p.bucket"
			  "  FROM (SELECT pg_catalog.unnest($4) AS hold) h"
			  "  CROSS JOIN LATERAL (SELECT p.bucket FROM gpucredit.hold_part p"
			  "   WHERE p.org = $1 AND p.hold = h.hold"
			  "   AND p.held OPERATOR(gpucredit.>) '0' OFFSET 0) p"
			  " UNION SELECT $5 WHERE $5 <> 0) k"
			  " CROSS JOIN LATERAL (SELECT b.* FROM gpucredit.bucket b"
			  "  WHERE b.org = $1 AND b.bucket = k.bucket OFFSET 0) b"
			  " ORDER BY" BURN_ORDER);
SQL_STATEMENT(bucket_lock, SPI_OK_SELECT, "text, bigint",
			  "SELECT b.spread FROM gpucredit.bucket b"
			  " WHERE b.org = $1 AND b.bucket = $2 FOR NO KEY UPDATE");

/* The dead holds that a call releases. */
typedef struct DeadHolds
{
	int			n;
	int			size;
	int64	   *ids;
	Credits		missing;		/* what the call lacks without these holds */
} DeadHolds;

static bool any_dead(const char *org);
static void find_needed(const AccountPath *path, const Purpose *purpose,
						Credits amount, bool all, TimestampTz at,
						DeadHolds *dead);
static void find_dead(const AccountPath *path, const Purpose *purpose,
					  Credits missing, TimestampTz at, DeadHolds *dead);
static bool choose_dead(void *context, const Datum *values,
						const bool *nulls);
static int	compare_ids(const void *a, const void *b);
static bool lock_dead(const char *org, int64 id, bool wait, TimestampTz at);
static bool add_dead(void *context, const Datum *values, const bool *nulls);
static LockedBuckets reclaim(const AccountPath *path, const Purpose *purpose,
							 Credits amount, const Hold *also, int nalso,
							 int64 bucket);
static LockedBuckets lock_buckets(const AccountPath *path, const int64 *holds,
								  int n, int64 bucket, TimestampTz at);

/*
 * Releases dead holds of the organisation if a draw would otherwise lack
 * credit. The draw then uses only the buckets locked here, if any.
 */
LockedBuckets
LedgerReclaim(const AccountPath *path, const Purpose *purpose,
			  Credits amount)
{
	LockedBuckets none = {-1, NULL, NULL};

	return amount > 0 ? reclaim(path, purpose, amount, NULL, 0, 0) : none;
}

/*
 * Releases dead holds of the organisation before a bucket is revoked. The
 * bucket is locked together with the buckets of the holds, since it may come
 * before them in burn order.
 */
void
LedgerReclaimFor(const AccountPath *path, int64 bucket)
{
	Purpose		purpose = {0};

	(void) reclaim(path, &purpose, PG_INT64_MAX, NULL, 0, bucket);
}

/*
 * Prepares a call that closes locked holds of one account and then opens or
 * extends a hold by an amount. Releases dead holds if the call would otherwise
 * lack credit, and locks the budgets and buckets of both steps together.  For
 * a draw of as much as there is, whose size policies may limit, the amount is
 * PG_INT64_MAX, and all dead holds are released.
 */
LockedBuckets
HoldsLockForNext(const Hold *holds, int n, const Purpose *purpose,
				 Credits amount)
{
	AccountPath path = AccountParse(holds[0].org, holds[0].account);

	return reclaim(&path, purpose, amount, holds, n, 0);
}

/*
 * Releases the dead holds for which no lock has to be waited for, whatever
 * this transaction has already locked. Used by calls that never wait, and by a
 * draw that lacks credit because of policies. Returns whether a hold was
 * released.
 */
bool
LedgerReclaimFree(const char *org)
{
	TimestampTz now = ClockNow();
	SqlResult	rows;
	bool		any = false;

	if (!any_dead(org))
		return false;
	rows = SqlRun(&dead_all, VALUES(TextValue(org), TimeValue(now)));
	for (uint64 i = 0; i < rows.n; i++)
	{
		int64		id = SqlInt8(rows, i, 1);

		CHECK_FOR_INTERRUPTS();
		any |= lock_dead(org, id, false, now) && HoldReap(org, id, false);
	}
	SqlFree(&rows);
	return any;
}

/*
 * Releases dead holds if less than an amount is available. Locks the buckets
 * of these holds together with those of the holds `also`, and with one more
 * bucket unless it is 0.
 */
static LockedBuckets
reclaim(const AccountPath *path, const Purpose *purpose, Credits amount,
		const Hold *also, int nalso, int64 bucket)
{
	TimestampTz now = ClockNow();

	/*
	 * A hold of `also` without a job is locked and may itself be dead. While
	 * it is locked, waiting for another dead hold could deadlock.
	 */
	bool		wait = nalso == 0 || also->job != 0;
	DeadHolds	dead = {0};
	int64	   *ids;
	int			n = 0;
	LockedBuckets locked = {-1, NULL, NULL};

	find_needed(path, purpose, amount, bucket != 0, now, &dead);
	ids = palloc(sizeof(int64) * (dead.n + nalso + 1));
	for (int i = 0; i < dead.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if ((nalso == 0 || dead.ids[i] != also->hold) &&
			lock_dead(path->org, dead.ids[i], wait, now))
			ids[n++] = dead.ids[i];
	}
	dead.n = n;
	for (int i = 0; i < nalso; i++)
		ids[n++] = also[i].hold;
	if (n > 0)
	{
		BudgetSet  *budgets = palloc0(sizeof(BudgetSet));

		BudgetLockUnion(path, ids, n, now, budgets);
		locked = lock_buckets(path, ids, n, bucket, now);
		locked.budgets = budgets;
	}
	for (int i = 0; i < dead.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		(void) HoldReap(path->org, ids[i], true);
	}
	return locked;
}

/*
 * Finds, without locks, the dead holds that a draw would release before it
 * locks any credit. Returns their number.  If all is true, finds all dead
 * holds of the organisation, which the draw releases if it then still lacks
 * credit.
 */
int
LedgerDeadFor(const AccountPath *path, const Purpose *purpose, Credits amount,
			  bool all, TimestampTz at, const int64 **ids)
{
	DeadHolds	dead = {0};

	find_needed(path, purpose, amount, all, at, &dead);
	*ids = dead.ids;
	return dead.n;
}

/*
 * Finds, without locks, the dead holds that a draw of an amount needs, or all
 * dead holds of the organisation.
 */
static void
find_needed(const AccountPath *path, const Purpose *purpose, Credits amount,
			bool all, TimestampTz at, DeadHolds *dead)
{
	Credits		missing;

	if (!any_dead(path->org))
		return;
	missing = amount - LedgerAvailable(path, purpose, at);
	if (all || amount == PG_INT64_MAX || (purpose->any && missing > 0) ||
		BudgetShort(path, amount, at))
		missing = PG_INT64_MAX;
	find_dead(path, purpose, missing, at, dead);
}

/*
 * Finds, without locks, dead holds that together hold the missing amount of
 * what an account could draw, or all of the organisation if missing is
 * PG_INT64_MAX. Sorts them by number.
 */
static void
find_dead(const AccountPath *path, const Purpose *purpose, Credits missing,
		  TimestampTz at, DeadHolds *dead)
{
	Values		args = MayPayArgs(path, purpose, at);

	dead->missing = missing;
	dead->size = 16;
	dead->ids = palloc(sizeof(int64) * dead->size);
	if (missing == PG_INT64_MAX)
		SqlEach(&dead_all, VALUES(TextValue(path->org), TimeValue(at)), false,
				add_dead, dead);
	else if (missing > 0)
		SqlEach(&dead_paying, &args, false, choose_dead, dead);
	qsort(dead->ids, dead->n, sizeof(int64), compare_ids);
}

/*
 * Chooses a hold if it holds anything that the account could draw. Stops once
 * the missing amount is reached.
 */
static bool
choose_dead(void *context, const Datum *values, const bool *nulls)
{
	DeadHolds  *dead = context;
	Credits		held = DatumGetCredits(values[1]);

	if (held > 0)
		(void) add_dead(context, values, nulls);
	dead->missing -= Min(held, dead->missing);
	return dead->missing > 0;
}

static bool
add_dead(void *context, const Datum *values, const bool *nulls)
{
	DeadHolds  *dead = context;

	if (dead->n == dead->size)
		dead->ids = repalloc(dead->ids, sizeof(int64) * (dead->size *= 2));
	dead->ids[dead->n++] = DatumGetInt64(values[0]);
	return true;
}

static int
compare_ids(const void *a, const void *b)
{
	int64		one = *(const int64 *) a;
	int64		other = *(const int64 *) b;

	return (one > other) - (one < other);
}

/*
 * Locks a hold if it is still dead and open. Returns false if it is not or,
 * with wait = false, if another transaction has locked it.
 */
static bool
lock_dead(const char *org, int64 id, bool wait, TimestampTz at)
{
	return SqlRun(wait ? &dead_lock : &dead_lock_free,
				  VALUES(TextValue(org), Int8Value(id), TimeValue(at))).n > 0;
}

/*
 * Locks the buckets from which an account could draw, the buckets of some
 * holds, and one more bucket unless it is 0, each with its slices.  The
 * buckets are found first, which is safe because the columns of burn order
 * never change, and then locked one after the other.
 */
static LockedBuckets
lock_buckets(const AccountPath *path, const int64 *holds, int n,
			 int64 bucket, TimestampTz at)
{
	LockedBuckets locked = {0, NULL, NULL};
	SqlResult	found;

	found = SqlRun(&buckets_find,
				   VALUES(TextValue(path->org),
						  TextArrayValue(path->accounts, path->n),
						  TimeValue(at), Int8ArrayValue(holds, n),
						  Int8Value(bucket)));
	locked.ids = palloc(sizeof(int64) * Max(found.n, 1));
	for (uint64 i = 0; i < found.n; i++)
	{
		int64		id = SqlInt8(found, i, 1);
		SqlResult	row = SqlRun(&bucket_lock, VALUES(TextValue(path->org),
													  Int8Value(id)));
		Credits		available;

		CHECK_FOR_INTERRUPTS();
		if (row.n == 0)
			continue;
		locked.ids[locked.n++] = id;
		(void) SlicesLock(path->org, id, SqlInt4(row, 0, 1), true, &available);
		SqlFree(&row);
	}
	SqlFree(&found);
	return locked;
}

/* Whether an open hold of the organisation is past its ttl. */
static bool
any_dead(const char *org)
{
	return SqlRun(&dead_exists,
				  VALUES(TextValue(org), TimeValue(ClockNow()))).n > 0;
}

/*
 * Returns what an account could draw at an instant, read without locks and
 * without the limits for each job and hold.
 */
Credits
LedgerAvailable(const AccountPath *path, const Purpose *purpose,
				TimestampTz at)
{
	Values		args = MayPayArgs(path, purpose, at);

	return SqlCredits(SqlRun(&path_available, &args), 0, 1);
}

/*
 * Returns how much of what an account could draw is held by dead holds of the
 * organisation.  This credit is available although no sweep has returned it
 * yet.
 */
Credits
LedgerHeldByDead(const AccountPath *path, const Purpose *purpose,
				 TimestampTz at)
{
	Values		args = MayPayArgs(path, purpose, at);
	DeadHolds	dead = {.missing = PG_INT64_MAX, .size = 16,
		.ids = palloc(sizeof(int64) * 16)};

	if (!any_dead(path->org))
		return 0;
	SqlEach(&dead_paying, &args, false, choose_dead, &dead);
	return PG_INT64_MAX - dead.missing;
}

/*
 * Releases one dead hold. Returns false if it is closed already or, with wait
 * = false, if a row that it needs is locked.
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
