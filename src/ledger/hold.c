/*-------------------------------------------------------------------------
 *
 * hold.c
 *		Settles, shrinks and releases holds: credit is spent in the order
 *		in which it was drawn, and the rest returns in reverse order to
 *		the buckets that it was drawn from.
 *
 * The parts of a hold store how much of it was drawn from which bucket. What
 * returns to a bucket that has expired enters the compartment "expired", and
 * what returns to a revoked one enters "revoked": this credit has lapsed. A
 * hold that was opened before its buckets expired stays valid until it is
 * settled. If a hold was drawn from slices, its credit returns to its slice of
 * each bucket.
 *
 * hold_open.c draws credit into holds.
 *
 * Locks: hold, then budgets leaf to root, then buckets in burn order, or the
 * hold's slice of each.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "ledger/hold_part.h"
#include "ledger/slice.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#define HOLD_READ \
	"SELECT h FROM gpucredit.hold h" \
	" WHERE h.org = $1 AND h.hold = $2 FOR NO KEY UPDATE"
SQL_STATEMENT(hold_lock, SPI_OK_SELECT, "text, bigint", HOLD_READ);
SQL_STATEMENT(hold_lock_free, SPI_OK_SELECT, "text, bigint",
			  HOLD_READ " SKIP LOCKED");
SQL_STATEMENT(hold_update, SPI_OK_UPDATE,
			  "text, bigint, gpucredit.credits, gpucredit.credits,"
			  " gpucredit.credits, gpucredit.credits, gpucredit.credits,"
			  " timestamptz, boolean, boolean",
			  "UPDATE gpucredit.hold h SET drawn = $3, held = $4,"
			  " captured = $5, released = $6, lapsed = $7, closed_at = $8,"
			  " sliced = $9, counted = $10"
			  " WHERE h.org = $1 AND h.hold = $2");

static const char *const hold_names[] = {
	"account", "drawn", "held", "captured", "released", "lapsed", "sliced",
	"counted", "leased",
	"job", "expires_at", "closed_at", "trace"
};
static SqlWhole hold_row = SQL_WHOLE(hold_names, 9);

#define PARTS_READ \
	"SELECT p.part, p.bucket, p.held, b.expires_at," \
	" b.closed_at IS NOT NULL, b.spread" \
	" FROM gpucredit.hold_part p JOIN gpucredit.bucket b" \
	"  ON b.org = p.org AND b.bucket = p.bucket" \
	" WHERE p.org = $1 AND p.hold = $2 AND b.org = $1" \
	"  AND p.held OPERATOR(gpucredit.>) '0'" \
	" ORDER BY" BURN_ORDER ", p.part"
SQL_STATEMENT(parts_read, SPI_OK_SELECT, "text, bigint", PARTS_READ);
SQL_STATEMENT(parts_lock, SPI_OK_SELECT, "text, bigint",
			  PARTS_READ " FOR NO KEY UPDATE OF b");
SQL_STATEMENT(parts_lock_free, SPI_OK_SELECT, "text, bigint",
			  PARTS_READ " FOR NO KEY UPDATE OF b SKIP LOCKED");

/* Reads the parts of a hold. Most holds have only one. */
SQL_STATEMENT(parts_held, SPI_OK_SELECT, "text, bigint",
			  "SELECT p.part, p.bucket, p.held FROM gpucredit.hold_part p"
			  " WHERE p.org = $1 AND p.hold = $2"
			  " AND p.held OPERATOR(gpucredit.>) '0'"
			  " ORDER BY p.part LIMIT 2");
#define BUCKET_READ \
	"SELECT b.expires_at, b.closed_at IS NOT NULL FROM gpucredit.bucket b" \
	" WHERE b.org = $1 AND b.bucket = $2 FOR NO KEY UPDATE"
SQL_STATEMENT(bucket_lock, SPI_OK_SELECT, "text, bigint", BUCKET_READ);
SQL_STATEMENT(bucket_lock_free, SPI_OK_SELECT, "text, bigint",
			  BUCKET_READ " SKIP LOCKED");

struct HoldCredit
{
	BudgetSet	leased;			/* of a lease: budgets that do not count the
								 * hold */
	HoldShares	shares;
	HoldPart   *parts;
	int			n;
};

static int	lock_parts(const Hold *hold, bool wait, HoldPart **parts);
static Returned return_parts(Hold *hold, const Cause *cause, HoldPart *parts,
							 int n, Credits capture, Credits amount,
							 TimestampTz at);
static bool only_part(const Hold *hold, HoldPart *part);
static bool lock_bucket(const Hold *hold, bool wait, HoldPart *part);
static bool lock_place(const Hold *hold, HoldPart *parts, uint64 n,
					   int32 spread, bool wait);
static int	compare_parts(const void *a, const void *b);

/* Returns the reason of a denial, as results contain it. */
const char *
LedgerReason(LedgerStatus status)
{
	return status == LEDGER_OVER_BUDGET ? "budget_exceeded" :
		"insufficient_credits";
}

/*
 * Returns an amount of a locked, open hold to its buckets, last drawn first.
 * *at is set to the instant.
 */
LedgerStatus
HoldShrink(Hold *hold, const Cause *cause, Credits amount, bool wait,
		   Returned *returned, TimestampTz *at)
{
	HoldPart   *parts;
	HoldShares	shares;
	int			n;

	if (!BudgetLockHold(hold, wait, &shares))
		return LEDGER_BUSY;
	n = lock_parts(hold, wait, &parts);
	if (n < 0)
		return LEDGER_BUSY;
	*at = ClockNow();
	BudgetReturn(hold, &shares, 0, amount);
	*returned = return_parts(hold, cause, parts, n, 0, amount, *at);
	HoldUpdate(hold);
	return LEDGER_DONE;
}

/*
 * Spends part of a locked, open hold, first drawn first. If final is true,
 * returns the rest and closes the hold.  *at is set to the instant.
 */
Returned
HoldSettle(Hold *hold, const Cause *cause, Credits captured, bool final,
		   TimestampTz *at)
{
	return HoldSettleLocked(hold, HoldLockCredit(hold), cause, captured, final,
							at);
}

/*
 * Locks what the settlement of a locked, open hold changes, and waits for it.
 * A caller whose amount depends on how long it waited calls this function, and
 * then HoldSettleLocked().
 */
HoldCredit *
HoldLockCredit(const Hold *hold)
{
	HoldCredit *credit = palloc0(sizeof(HoldCredit));

	if (hold->leased)
		BudgetLockLeased(hold, &credit->leased);
	(void) BudgetLockHold(hold, true, &credit->shares);
	credit->n = lock_parts(hold, true, &credit->parts);
	return credit;
}

/* Does the same as HoldSettle(), after HoldLockCredit(). */
Returned
HoldSettleLocked(Hold *hold, HoldCredit *credit, const Cause *cause,
				 Credits captured, bool final, TimestampTz *at)
{
	Returned	returned;

	Ensure(credit->n >= 0 && captured <= hold->held,
		   "A settlement passes what is held.");
	*at = ClockNow();
	if (hold->leased && captured > 0)
	{
		BudgetCountLeased(hold, &credit->leased, captured, *at);
		(void) BudgetLockHold(hold, true, &credit->shares);
	}
	BudgetReturn(hold, &credit->shares, captured,
				 final ? hold->held - captured : 0);
	returned = return_parts(hold, cause, credit->parts, credit->n, captured,
							final ? hold->held - captured : 0, *at);
	if (final)
		hold->closed_at = *at;
	HoldUpdate(hold);
	if (captured > 0)
		SpendAdd(hold, captured, *at);
	return returned;
}

/*
 * Returns all credit of a locked, open hold and closes it. Returns LEDGER_BUSY
 * if a row that it needs is locked.
 */
LedgerStatus
HoldTryRelease(Hold *hold, const Cause *cause, Returned *returned,
			   TimestampTz *at)
{
	LedgerStatus status = HoldShrink(hold, cause, hold->held, false,
									 returned, at);

	if (status != LEDGER_DONE)
		return status;
	hold->closed_at = *at;
	HoldUpdate(hold);
	return LEDGER_DONE;
}

/*
 * Locks a hold's row and reads it.  Returns false if the hold does not exist
 * or, with wait = false, if another transaction has locked it.
 */
bool
HoldLock(const char *org, int64 id, bool wait, Hold *hold)
{
	SqlResult	row = SqlRun(wait ? &hold_lock : &hold_lock_free,
							 VALUES(TextValue(org), Int8Value(id)));

	if (row.n == 0)
		return false;
	hold->org = org;
	hold->hold = id;
	HoldFrom(row, 0, 1, hold);
	SqlFree(&row);
	return true;
}

/* Reads the fields of a hold from a column that contains its row. */
void
HoldFrom(SqlResult rows, uint64 i, int column, Hold *hold)
{
	Datum		value[lengthof(hold_names)];
	bool		null[lengthof(hold_names)];

	SqlDeformRow(&hold_row, SqlNotNull(rows, i, column), value, null);
	hold->account = TextDatumGetCString(value[0]);
	hold->drawn = DatumGetCredits(value[1]);
	hold->held = DatumGetCredits(value[2]);
	hold->captured = DatumGetCredits(value[3]);
	hold->released = DatumGetCredits(value[4]);
	hold->lapsed = DatumGetCredits(value[5]);
	hold->sliced = DatumGetBool(value[6]);
	hold->counted = DatumGetBool(value[7]);
	hold->leased = DatumGetBool(value[8]);
	hold->job = null[9] ? 0 : DatumGetInt64(value[9]);
	hold->expires_at = null[10] ? DT_NOEND : DatumGetTimestampTz(value[10]);
	hold->closed_at = null[11] ? DT_NOBEGIN : DatumGetTimestampTz(value[11]);
	hold->trace = TraceFrom(value[12], null[12]);
}

/* Writes a hold's row in its present state. */
void
HoldUpdate(const Hold *hold)
{
	Ensure(SqlRun(&hold_update,
				  VALUES(TextValue(hold->org), Int8Value(hold->hold),
						 CreditsValue(hold->drawn), CreditsValue(hold->held),
						 CreditsValue(hold->captured),
						 CreditsValue(hold->released),
						 CreditsValue(hold->lapsed),
						 HoldIsOpen(hold) ? NullValue() :
						 TimeValue(hold->closed_at), BoolValue(hold->sliced),
						 BoolValue(hold->counted))).n == 1,
		   "A hold is missing.");
}

/*
 * Locks the buckets of the parts that still hold credit, in burn order, and
 * returns the number of parts. The parts are sorted in the order drawn.
 * Returns -1 if wait is false and one of the buckets is locked.
 */
static int
lock_parts(const Hold *hold, bool wait, HoldPart **parts)
{
	SqlResult	rows;
	Credits		sum = 0;

	if (!hold->sliced)
	{
		*parts = palloc(sizeof(HoldPart));
		if (only_part(hold, *parts))
			return lock_bucket(hold, wait, *parts) ? 1 : -1;
	}
	rows = SqlRun(hold->sliced ? &parts_read :
				  wait ? &parts_lock : &parts_lock_free,
				  VALUES(TextValue(hold->org), Int8Value(hold->hold)));
	*parts = palloc(sizeof(HoldPart) * Max(rows.n, 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		HoldPart   *part = &(*parts)[i];

		part->part = SqlInt4(rows, i, 1);
		part->bucket = SqlInt8(rows, i, 2);
		part->held = SqlCredits(rows, i, 3);
		part->expires_at = SqlTimeOr(rows, i, 4, DT_NOEND);
		part->closed = SqlBool(rows, i, 5);
		part->slice = 0;
		if (hold->sliced && !lock_place(hold, *parts, i, SqlInt4(rows, i, 6),
										wait))
			return -1;
		sum += part->held;
	}
	SqlFree(&rows);
	if (sum != hold->held)
	{
		Ensure(!wait, "A hold is not the sum of its parts.");
		return -1;
	}
	qsort(*parts, rows.n, sizeof(HoldPart), compare_parts);
	return (int) rows.n;
}

/* Whether only one part still holds credit. */
static bool
only_part(const Hold *hold, HoldPart *part)
{
	SqlResult	rows;

	rows = SqlRun(&parts_held,
				  VALUES(TextValue(hold->org), Int8Value(hold->hold)));
	if (rows.n != 1)
	{
		SqlFree(&rows);
		return false;
	}
	part->part = SqlInt4(rows, 0, 1);
	part->bucket = SqlInt8(rows, 0, 2);
	part->held = SqlCredits(rows, 0, 3);
	part->slice = 0;
	SqlFree(&rows);
	Ensure(part->held == hold->held, "A hold is not the sum of its parts.");
	return true;
}

/*
 * Locks the bucket of a part.  Returns false if wait is false and the bucket
 * is locked.
 */
static bool
lock_bucket(const Hold *hold, bool wait, HoldPart *part)
{
	SqlResult	row;

	row = SqlRun(wait ? &bucket_lock : &bucket_lock_free,
				 VALUES(TextValue(hold->org), Int8Value(part->bucket)));
	if (row.n == 0)
	{
		Ensure(!wait, "A hold's bucket is missing.");
		return false;
	}
	part->expires_at = SqlTimeOr(row, 0, 1, DT_NOEND);
	part->closed = SqlBool(row, 0, 2);
	SqlFree(&row);
	return true;
}

/*
 * Locks the row to which the last of n + 1 parts returns. Parts of one bucket
 * follow each other and share that row. Returns false if wait is false and the
 * row is locked.
 */
static bool
lock_place(const Hold *hold, HoldPart *parts, uint64 n, int32 spread,
		   bool wait)
{
	HoldPart   *part = &parts[n];

	if (n > 0 && parts[n - 1].bucket == part->bucket)
	{
		part->slice = parts[n - 1].slice;
		part->closed = parts[n - 1].closed;
		return true;
	}
	part->slice = SliceLockForReturn(hold->org, part->bucket, hold->hold,
									 spread, wait, &part->closed);
	return part->slice >= 0;
}

static int
compare_parts(const void *a, const void *b)
{
	int32		pa = ((const HoldPart *) a)->part;
	int32		pb = ((const HoldPart *) b)->part;

	return (pa > pb) - (pa < pb);
}

/* Spends the first parts, returns the last, and posts both. */
static Returned
return_parts(Hold *hold, const Cause *cause, HoldPart *parts, int n,
			 Credits capture, Credits amount, TimestampTz at)
{
	Posting		posting;
	Returned	returned = HoldPartsDivide(hold, cause, parts, n, capture,
										   amount,
										   at, &posting);

	LedgerPost(&posting);
	return returned;
}

/*
 * Divides the parts: the first are spent, and the last are returned. Changes
 * the hold, and prepares a posting that the caller writes.
 */
Returned
HoldPartsDivide(Hold *hold, const Cause *cause, HoldPart *parts, int n,
				Credits capture, Credits amount, TimestampTz at,
				Posting *posting)
{
	Returned	returned = {0, 0};
	Move	   *moves = palloc(sizeof(Move) * (2 * n + 1));

	*posting = (Posting)
	{
		.org = hold->org, .account = hold->account, .cause = cause,
			.hold = hold->hold, .at = at, .trace = hold->trace,
			.moves = moves
	};
	for (int i = 0; i < n && capture > 0; i++)
	{
		Credits		part = Min(parts[i].held, capture);

		moves[posting->n++] = (Move)
		{
			parts[i].bucket, parts[i].part, HELD, SPENT, part, parts[i].slice
		};
		parts[i].held -= part;
		capture -= part;
		hold->held -= part;
		hold->captured += part;
	}
	for (int i = n - 1; i >= 0 && amount > 0; i--)
	{
		Credits		part = Min(parts[i].held, amount);
		Compartment target = parts[i].closed ? REVOKED :
			parts[i].expires_at <= at ? EXPIRED : AVAILABLE;

		if (part == 0)
			continue;
		moves[posting->n++] = (Move)
		{
			parts[i].bucket, parts[i].part, HELD, target, part, parts[i].slice
		};
		amount -= part;
		hold->held -= part;
		if (target == AVAILABLE)
			returned.released += part;
		else
			returned.lapsed += part;
	}
	Ensure(capture == 0 && amount == 0, "A hold has less than it should.");
	hold->released += returned.released;
	hold->lapsed += returned.lapsed;
	return returned;
}
