/*-------------------------------------------------------------------------
 *
 * hold.c
 *		Holds: credit set aside, spent in the order drawn, returned last drawn
 *		first, to the very buckets it came from.
 *
 * The parts of a hold say how much of it came from which bucket. What returns
 * to a bucket that has expired goes to "expired", to a revoked one to
 * "revoked": it lapsed. A hold taken before its buckets expired stays good
 * until it is settled. A hold that knows of slices returns to its slice of
 * each bucket.
 *
 * How credit gets into a hold: hold_open.c.
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

/* a hold of one part, as most are */
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
	BudgetSet	leased;			/* budgets that do not count it, of a lease */
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

/*
 * The reasons of a denied hold, as in results.
 */
const char *
LedgerReason(LedgerStatus status)
{
	return status == LEDGER_OVER_BUDGET ? "budget_exceeded" :
		"insufficient_credits";
}

/*
 * Give an amount of a locked, open hold back, last drawn first.  *at is the
 * instant.
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
 * Spend part of a locked, open hold, first drawn first; final: give the rest
 * back and close it.  *at is the instant.
 */
Returned
HoldSettle(Hold *hold, const Cause *cause, Credits captured, bool final,
		   TimestampTz *at)
{
	return HoldSettleLocked(hold, HoldLockCredit(hold), cause, captured, final,
							at);
}

/*
 * Lock what the settlement of a locked, open hold changes. Waits. A caller whose
 * amount depends on how long it waited calls this, and then
 * HoldSettleLocked().
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

/*
 * As HoldSettle(), after HoldLockCredit().
 */
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
 * Give all of a locked, open hold back and close it, unless a row it needs is
 * locked.
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
 * Lock a hold's row and read it.  False: there is none (or, with wait =
 * false, another transaction has it).
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

/*
 * The rest of a hold, from a column with its row.
 */
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

/*
 * Write a hold's row as it now is.
 */
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
 * Lock the buckets of what a hold still holds, in burn order; the parts come
 * in the order drawn.  -1: one of them is locked, and wait was false.
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

/*
 * Is there one part only with held credit?
 */
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
 * Lock the bucket of a part.  False: it is locked, and wait was false.
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
 * Lock the place where the last of n + 1 parts returns. Parts of one bucket
 * stand together and share a place. False: it is locked, and wait was false.
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

/*
 * Spend the first parts, return the last, and post both.
 */
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
 * Divide the parts: the first are spent, the last returned. Changes the hold,
 * and makes a posting that the caller writes.
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
