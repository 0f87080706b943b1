/*-------------------------------------------------------------------------
 *
 * hold_part.c
 *		The parts of a hold: how much of it came from which bucket.
 *
 * What is spent is spent first drawn first, what returns is given back last
 * drawn first, to the very buckets it came from.  What a hold that knows of
 * slices gives back goes to its slice of each bucket.
 *
 * Locks: buckets in burn order, or the hold's slice of each.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/sql.h"
#include "ledger/hold_part.h"
#include "ledger/slice.h"

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

static bool only_part(const Hold *hold, HoldPart *part);
static bool lock_bucket(const Hold *hold, bool wait, HoldPart *part);
static bool lock_place(const Hold *hold, HoldPart *parts, uint64 n,
					   int32 spread, bool wait);
static int	compare_parts(const void *a, const void *b);

/*
 * Lock the buckets of what a hold still holds, in burn order; the parts come
 * in the order drawn.  -1: one of them is locked, and wait was false.
 */
int
HoldPartsLock(const Hold *hold, bool wait, HoldPart **parts)
{
	SqlArgs		args = {0};
	SqlResult	rows;
	Credits		sum = 0;

	if (!hold->sliced)
	{
		*parts = palloc(sizeof(HoldPart));
		if (only_part(hold, *parts))
			return lock_bucket(hold, wait, *parts) ? 1 : -1;
	}
	SqlArgText(&args, hold->org);
	SqlArgInt8(&args, hold->hold);
	rows = SqlRun(hold->sliced ? &parts_read :
				  wait ? &parts_lock : &parts_lock_free, &args);
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
 * Is all that a locked hold holds of one part?
 */
static bool
only_part(const Hold *hold, HoldPart *part)
{
	SqlArgs		args = {0};
	SqlResult	rows;

	SqlArgText(&args, hold->org);
	SqlArgInt8(&args, hold->hold);
	rows = SqlRun(&parts_held, &args);
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
	SqlArgs		args = {0};
	SqlResult	row;

	SqlArgText(&args, hold->org);
	SqlArgInt8(&args, part->bucket);
	row = SqlRun(wait ? &bucket_lock : &bucket_lock_free, &args);
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
 * Lock where the last of n + 1 parts goes back to: parts of one bucket stand
 * together, and go to one place.  False: it is locked, and wait was false.
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
 * Spend the first of the parts, return the last, and enter both.
 */
Returned
HoldPartsGiveBack(Hold *hold, const Cause *cause, HoldPart *parts, int n,
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
 * What of the parts is spent, the first of them, and returned, the last: as
 * a posting that the caller is to write, and in the hold.
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
