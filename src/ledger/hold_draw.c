/*-------------------------------------------------------------------------
 *
 * hold_draw.c
 *		Decides from which buckets a draw takes its credit, and locks
 *		them.
 *
 * A cursor locks buckets one at a time in burn order, as it fetches them, and
 * only as many as the amount needs. A fetched row is in the state after any
 * wait. The instant is read after the last lock, and buckets that have expired
 * by then are dropped.
 *
 * A policy may limit what one bucket pays: max_per_job for all holds of a job
 * together or for a caller's own hold, max_share for this hold. max_per_job
 * does not apply to a lease: the cell that receives the lease applies it to
 * its jobs. Each limit concerns only its own bucket, so drawing in burn order
 * finds the amount if there is enough.
 *
 * The first bucket is selected in C, which repeats MAY_PAY and BURN_ORDER,
 * because a query that sorts costs more: 4.7 % of a hold's processor time (155
 * to 162 us) and 12 % of a reserve's (233 to 260 us). The performance targets
 * "hot" (0.6, measured 0.65) and "audit" need this.
 *
 * Holds that need the same bucket queue for it by an advisory lock. Otherwise
 * each commit would wake all waiters of the row, and all but one would wait
 * again. Correctness does not depend on this queue, because row locks decide.
 * Two kinds of transaction skip it: one above READ COMMITTED, which must be
 * repeated after any wait, and one that may have locked the bucket already,
 * which would deadlock with the first waiter.
 *
 * Locks: buckets in burn order, each with its slices.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "ledger/post.h"
#include "ledger/slice.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/timestamp.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "util/lock_class.h"

/* how long a bucket must still be valid to be debited at once (hold_open.c) */
#define AT_ONCE_LASTS	USECS_PER_DAY

#define COLUMNS \
	"SELECT b.bucket, b.available, b.expires_at, b.max_per_job," \
	" b.max_share, b.slices, b.spread"
#define CANDIDATES \
	" FROM" PATH_BUCKETS " WHERE" MAY_PAY \
	" AND (b.available OPERATOR(gpucredit.>) '0' OR b.spread > 0)" \
	" ORDER BY" BURN_ORDER

SQL_STATEMENT(bucket_draw, SPI_OK_SELECT, MAY_PAY_TYPES,
			  COLUMNS CANDIDATES " FOR NO KEY UPDATE OF b");
SQL_STATEMENT(bucket_draw_free, SPI_OK_SELECT, MAY_PAY_TYPES,
			  COLUMNS CANDIDATES " FOR NO KEY UPDATE OF b SKIP LOCKED");
SQL_STATEMENT(bucket_see, SPI_OK_SELECT, MAY_PAY_TYPES,
			  COLUMNS ", (SELECT gpucredit.sum(s.available)"
			  "  FROM gpucredit.bucket_slice s WHERE b.spread > 0"
			  "  AND s.org = $1 AND s.bucket = b.bucket)" CANDIDATES);
/*
 * Selects the buckets that may pay, with the credit that some dead holds would
 * return to each of them.  The parts of each hold are looked up by its number:
 * with "= ANY" a plan may read all parts of the organisation for each bucket.
 */
SQL_STATEMENT(bucket_plan, SPI_OK_SELECT, MAY_PAY_TYPES ", bigint[]",
			  "WITH returned AS MATERIALIZED ("
			  "SELECT d.bucket, gpucredit.sum(d.held) AS held"
			  " FROM (SELECT pg_catalog.unnest($9) AS hold) h"
			  " CROSS JOIN LATERAL (SELECT d.bucket, d.held"
			  "  FROM gpucredit.hold_part d WHERE d.org = $1"
			  "  AND d.hold = h.hold OFFSET 0) d GROUP BY d.bucket) "
			  COLUMNS ", (SELECT gpucredit.sum(s.available)"
			  "  FROM gpucredit.bucket_slice s WHERE b.spread > 0"
			  "  AND s.org = $1 AND s.bucket = b.bucket), r.held"
			  " FROM " PATH_LEVELS(2) " CROSS JOIN LATERAL (SELECT b.*"
			  "  FROM gpucredit.bucket b WHERE b.org = $1"
			  "  AND b.account = p.account AND b.closed_at IS NULL OFFSET 0) b"
			  " LEFT JOIN returned r"
			  "  ON r.bucket OPERATOR(pg_catalog.=) b.bucket"
			  " WHERE" PAYS " ORDER BY" BURN_ORDER);
SQL_STATEMENT(slice_look, SPI_OK_SELECT, MAY_PAY_TYPES ", bigint",
			  COLUMNS ", (SELECT s.available FROM gpucredit.bucket_slice s"
			  "  WHERE b.spread > 0 AND s.org = $1 AND s.bucket = b.bucket"
			  "  AND s.slice = 1 + $9 % b.spread)" CANDIDATES);
#define STILL_PAYS \
	"SELECT b.available FROM gpucredit.bucket b" \
	" WHERE b.org = $1 AND b.bucket = $2 AND b.closed_at IS NULL" \
	" AND b.spread = 0 FOR NO KEY UPDATE"
SQL_STATEMENT(bucket_lock, SPI_OK_SELECT, "text, bigint", STILL_PAYS);
SQL_STATEMENT(bucket_lock_free, SPI_OK_SELECT, "text, bigint",
			  STILL_PAYS " SKIP LOCKED");
#define SLICE_READ \
	"SELECT s.available FROM gpucredit.bucket_slice s" \
	" WHERE s.org = $1 AND s.bucket = $2 AND s.slice = $3" \
	" FOR NO KEY UPDATE"
SQL_STATEMENT(slice_lock, SPI_OK_SELECT, "text, bigint, int", SLICE_READ);
/*
 * Locks a slice that is not locked and had enough, beginning with the hold's
 * own.
 */
SQL_STATEMENT(slice_lock_free, SPI_OK_SELECT,
			  "text, bigint, int, int, gpucredit.credits",
			  "SELECT s.available, s.slice" SLICE_FREE);
SQL_STATEMENT(job_drawn, SPI_OK_SELECT, "text, bigint, bigint",
			  "SELECT COALESCE(gpucredit.sum("
			  "  p.held OPERATOR(gpucredit.+) p.spent), '0')"
			  " FROM (SELECT h.hold FROM gpucredit.hold h"
			  "  WHERE h.org = $1 AND h.job = $2 OFFSET 0) h"
			  " CROSS JOIN LATERAL (SELECT p.held, p.spent"
			  "  FROM gpucredit.hold_part p WHERE p.org = $1"
			  "  AND p.hold = h.hold AND p.bucket = $3 OFFSET 0) p");
SQL_STATEMENT(hold_drawn, SPI_OK_SELECT, "text, bigint, bigint",
			  "SELECT COALESCE(gpucredit.sum("
			  "  p.held OPERATOR(gpucredit.+) p.spent), '0')"
			  " FROM gpucredit.hold_part p"
			  " WHERE p.org = $1 AND p.hold = $2 AND p.bucket = $3");

/* The columns of the statement bucket_look, from 0. */
enum
{
	SEE_BUCKET, SEE_AVAILABLE, SEE_EXPIRES_AT, SEE_EFFECTIVE_AT, SEE_PRIORITY, SEE_KIND, SEE_ACCOUNT,
	SEE_GPU_TYPES, SEE_TIERS, SEE_POOLS, SEE_MAX_PER_JOB, SEE_MAX_SHARE, SEE_SLICES, SEE_SPREAD,
	SEE_CREDITED_TOTAL,
	SEE_OWN, SEE_PAYS
};

#define LOOK \
	"SELECT b.bucket, b.available, b.expires_at, b.effective_at," \
	" b.priority, b.kind, b.account, b.gpu_types, b.tiers, b.pools," \
	" b.max_per_job, b.max_share, b.slices, b.spread, b.credited_total"
SQL_STATEMENT(bucket_look, SPI_OK_SELECT, "text, text[]",
			  LOOK " FROM " PATH_LEVELS(2) " CROSS JOIN LATERAL (SELECT b.*"
			  "  FROM gpucredit.bucket b WHERE b.org = $1"
			  "  AND b.account = p.account AND b.closed_at IS NULL OFFSET 0) b");
/*
 * Reads two sets of buckets: those that this transaction has not changed,
 * whose numbers lie between those of the changed ones, and the changed ones,
 * by their locations.
 */
SQL_STATEMENT(bucket_look_own, SPI_OK_SELECT,
			  "text, text[], bigint[], bigint[], tid[]",
			  LOOK ", false, true FROM " PATH_LEVELS(2)
			  " CROSS JOIN ROWS FROM (pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4)) AS u (low, high)"
			  " CROSS JOIN LATERAL (SELECT b.* FROM gpucredit.bucket b"
			  "  WHERE b.org = $1 AND b.account = p.account"
			  "  AND b.bucket > u.low AND b.bucket < u.high"
			  "  AND b.closed_at IS NULL OFFSET 0) b"
			  " UNION ALL "
			  LOOK ", true, b.account = ANY ($2) AND b.closed_at IS NULL"
			  " FROM (SELECT b.* FROM gpucredit.bucket b"
			  "  WHERE b.ctid = ANY ($5) OFFSET 0) b WHERE b.org = $1");

/* A bucket that may pay, with the columns of burn order. */
typedef struct SelectedBucket
{
	int64		bucket;
	Credits		available;
	bool		plain;			/* its policy has no limits and it has no
								 * slices */
	int32		priority;
	TimestampTz expires_at;		/* DT_NOEND if it never expires */
	int			kind_rank;
	int			depth;
	TimestampTz effective_at;
	Datum		credited_total; /* numeric: all credit that it ever received */
	bool		own;			/* whether this transaction has changed it */
} SelectedBucket;

/* The search for the first bucket in burn order that may pay. */
typedef struct selection
{
	const Purpose *purpose;
	TimestampTz at;
	bool		found;
	SelectedBucket first;
	int			n_own;
	OwnBucket	own[OWN_MOST];
	int			seen_own;		/* how many of the buckets in `own` were found
								 * at their noted locations */
}			selection;

static bool draw_own(HoldDraw *draw);
static bool draw_first(HoldDraw *draw, const SelectedBucket *first);
static Portal open_candidates(HoldDraw *draw, TimestampTz as_of);
static void start(HoldDraw *draw);
static bool is_held_by_others(HoldDraw *draw);
static void draw_from_bucket(HoldDraw *draw, SqlResult row, Credits missing);
static Credits most(HoldDraw *draw, SqlResult row, uint64 i, Credits missing);
static void add_part(HoldDraw *draw, const HoldDrawPart *part);
static bool lock_planned(const HoldDraw *draw, HoldDrawPart *part);
static Credits share_cap(HoldDraw *draw, int64 bucket, Numeric max_share);
static bool is_leased(const HoldDraw *draw);
static Credits job_cap(HoldDraw *draw, int64 bucket, Credits max_per_job);
static Credits drawn(SqlStatement *statement, const char *org, int64 owner,
					 int64 bucket);
static Credits drop_expired(HoldDraw *draw);
static bool select_first(const AccountPath *path, const Purpose *purpose,
						 TimestampTz at, SelectedBucket *first);
static bool select_own(const AccountPath *path, const Purpose *purpose,
					   TimestampTz at, SelectedBucket *first);
static bool read_own_bucket(void *context, const Datum *values, const bool *nulls);
static bool read_first_bucket(void *context, const Datum *values, const bool *nulls);
static bool may_pay(const selection * selection, const Datum *values,
					const bool *nulls);
static bool allows(Datum array, const char *const *names, int n);
static int	kind_rank(Datum kind);
static int	compare_selected(const SelectedBucket *one, const SelectedBucket *other);

/*
 * Finds and locks the credit for a draw. Sets the parts and the instant of the
 * draw.
 */
LedgerStatus
LedgerDraw(HoldDraw *draw)
{
	Portal		portal;
	Credits		missing = draw->amount;

	start(draw);
	if (missing == 0 || draw_own(draw))
		return LEDGER_DONE;

	portal = open_candidates(draw, draw->at);
	while (missing > 0)
	{
		SqlResult	row = SqlFetch(portal);

		CHECK_FOR_INTERRUPTS();
		if (row.n == 0)
			break;
		draw_from_bucket(draw, row, missing);
		SqlFree(&row);

		/*
		 * An earlier bucket may have expired while the call waited for this
		 * one.
		 */
		draw->at = ClockAfter(draw->at);
		missing = draw->amount - drop_expired(draw);
	}
	SPI_cursor_close(portal);
	if (missing == 0)
		return LEDGER_DONE;
	return !draw->wait && is_held_by_others(draw) ? LEDGER_BUSY : LEDGER_SHORT;
}

/*
 * Whether a read without locks, with the same limits, finds the whole amount.
 * If so, another transaction has locked some of it.
 */
static bool
is_held_by_others(HoldDraw *draw)
{
	Values		args = MayPayArgs(draw->path, draw->purpose, draw->at);
	SqlResult	rows = SqlRun(&bucket_see, &args);
	Credits		missing = draw->amount;

	for (uint64 i = 0; i < rows.n && missing > 0; i++)
	{
		Credits		whole = SqlCredits(rows, i, 2);

		if (!SqlIsNull(rows, i, 8))
			whole = CreditsAdd(whole, SqlCredits(rows, i, 8));
		missing -= Max(Min(most(draw, rows, i, missing), whole), 0);
	}
	SqlFree(&rows);
	return missing == 0;
}

static void
start(HoldDraw *draw)
{
	draw->at = ClockNow();
	draw->nparts = 0;
	draw->maxparts = 4;
	draw->parts = palloc(sizeof(HoldDrawPart) * draw->maxparts);
}

/*
 * Whether this transaction has changed, and so locked, the first bucket that
 * may pay, and that bucket has the whole amount. If so, it becomes the only
 * part of the draw.
 */
static bool
draw_own(HoldDraw *draw)
{
	SelectedBucket first;

	return draw->purpose->locked == NULL &&
		select_own(draw->path, draw->purpose, draw->at, &first) &&
		first.own && draw_first(draw, &first);
}

/*
 * Whether, according to a read without locks, the first bucket that may pay
 * has the whole amount, no limits, and does not expire soon. If so, it becomes
 * the only part of the draw.
 */
bool
LedgerFindOneBucket(HoldDraw *draw)
{
	SelectedBucket first;

	start(draw);
	return select_first(draw->path, draw->purpose, draw->at, &first) &&
		draw_first(draw, &first);
}

/*
 * Whether a bucket has the whole amount of the draw, no limits, and does not
 * expire soon. If so, it becomes the only part of the draw.
 */
static bool
draw_first(HoldDraw *draw, const SelectedBucket *first)
{
	HoldDrawPart part = {
		.bucket = first->bucket,
		.amount = draw->amount,
		.expires_at = first->expires_at,
		.credited_total = first->credited_total
	};

	if (!first->plain || first->available < draw->amount ||
		first->expires_at <= ClockAdd(draw->at, AT_ONCE_LASTS))
		return false;
	add_part(draw, &part);
	return true;
}

/*
 * Raises an error if credit that was debited at once has expired, because the
 * call waited for that long.
 */
void
DrawCheckUnexpired(const HoldDraw *draw)
{
	if (draw->parts[0].expires_at <= draw->at)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("credit of bucket %lld expired during the call",
						(long long) draw->parts[0].bucket),
				 errdetail("The call waited a day for it."),
				 errhint("Retry the transaction.")));
}

/*
 * Plans a draw without locks, as if some dead holds had been released. Its
 * parts are those that LedgerDraw() would draw.  Returns the most that the
 * buckets would pay, which is less than the amount if there is not enough
 * credit.
 */
Credits
LedgerPlan(HoldDraw *draw, const int64 *dead, int ndead)
{
	Credits		missing = draw->amount;
	Credits		sum = 0;
	Values		args;
	SqlResult	rows;

	start(draw);
	args = MayPayArgs(draw->path, draw->purpose, draw->at);
	ValuesAdd(&args, Int8ArrayValue(dead, ndead));
	rows = SqlRun(&bucket_plan, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		HoldDrawPart part = {.bucket = SqlInt8(rows, i, 1)};
		Credits		whole = SqlCredits(rows, i, 2);

		CHECK_FOR_INTERRUPTS();
		for (int column = 8; column <= 9; column++)
		{
			if (!SqlIsNull(rows, i, column))
				whole = CreditsAdd(whole, SqlCredits(rows, i, column));
		}
		whole = Max(Min(most(draw, rows, i, PG_INT64_MAX), whole), 0);
		if (!CreditsTryAdd(sum, whole, &sum))
			sum = PG_INT64_MAX;
		part.amount = Min(whole, missing);
		if (part.amount == 0)
			continue;
		missing -= part.amount;
		add_part(draw, &part);
	}
	SqlFree(&rows);
	return sum;
}

/*
 * Plans, without locks, how much to draw from which buckets in a hold's slice.
 * Returns false if the slice has too little.
 */
bool
LedgerPlanSlice(HoldDraw *draw, int64 hold)
{
	Credits		missing = draw->amount;
	Values		args;
	SqlResult	rows;

	start(draw);
	if (missing == 0)
		return true;
	args = MayPayArgs(draw->path, draw->purpose, draw->at);
	ValuesAdd(&args, Int8Value(hold));
	rows = SqlRun(&slice_look, &args);
	for (uint64 i = 0; i < rows.n && missing > 0; i++)
	{
		HoldDrawPart part = {.bucket = SqlInt8(rows, i, 1)};
		int32		slices = SqlInt4(rows, i, 6);

		part.amount = most(draw, rows, i, missing);
		part.expires_at = SqlTimeOr(rows, i, 3, DT_NOEND);
		part.spread = SqlInt4(rows, i, 7);
		part.slice = SliceOf(hold, part.spread);
		if (part.amount <= 0)
			continue;
		if (part.slice == 0 ? slices > 1 : SqlIsNull(rows, i, 8) ||
			SqlCredits(rows, i, 8) < part.amount)
			break;
		if (part.slice == 0)
			part.amount = Min(part.amount, SqlCredits(rows, i, 2));
		missing -= part.amount;
		add_part(draw, &part);
	}
	SqlFree(&rows);
	return missing == 0;
}

/*
 * Locks the planned buckets.  Returns false if they have too little by now, or
 * another transaction has locked one of them.
 */
bool
LedgerLockPlanned(HoldDraw *draw)
{
	for (int i = 0; i < draw->nparts; i++)
	{
		if (!lock_planned(draw, &draw->parts[i]))
			return false;
	}
	draw->at = ClockAfter(draw->at);
	return drop_expired(draw) == draw->amount;
}

/*
 * Locks and debits the planned credit by one statement, if it is one slice of
 * a bucket that does not expire soon. Debits any slice that is not locked and
 * has enough.
 */
TakeStatus
LedgerDebitPlanned(HoldDraw *draw)
{
	HoldDrawPart *part = &draw->parts[0];

	if (draw->nparts != 1 || part->slice == 0 ||
		part->expires_at <= ClockAdd(draw->at, AT_ONCE_LASTS))
		return TAKE_BUSY;
	return LedgerDebitSlice(draw->path->org, part->bucket, part->spread,
							&part->slice, part->amount);
}

/*
 * Locks one slice, or the row of a bucket without slices. Waits for the hold's
 * own slice only if no other slice that is not locked has enough.
 */
static bool
lock_planned(const HoldDraw *draw, HoldDrawPart *part)
{
	SqlResult	row;
	Values	   *args = VALUES(TextValue(draw->path->org),
							  Int8Value(part->bucket));

	if (part->slice > 0)
	{
		ValuesAdd(args, Int4Value(part->slice), Int4Value(part->spread),
				  CreditsValue(part->amount));
		row = SqlRun(&slice_lock_free, args);
		if (row.n == 1)
			part->slice = SqlInt4(row, 0, 2);
		else if (draw->wait)
		{
			args->n -= 2;
			row = SqlRun(&slice_lock, args);
		}
	}
	else
		row = SqlRun(draw->wait ? &bucket_lock : &bucket_lock_free, args);
	return row.n == 1 && SqlCredits(row, 0, 1) >= part->amount;
}

/*
 * Prepares the buckets of a draw at large before it is posted: distributes
 * what remains over the slices, or folds slices that would be too small into
 * the bucket.
 */
void
LedgerEven(const HoldDraw *draw)
{
	for (int i = 0; i < draw->nparts; i++)
	{
		const HoldDrawPart *part = &draw->parts[i];
		int32		n = part->spread > 0 ? part->spread : part->slices;
		Credits		share;

		if (part->slice > 0 || n <= 1)
			continue;
		share = (part->whole - part->amount) / n;
		if (SlicesWorth(share, part->amount, part->spread))
			LedgerSpread(draw->path->org, part->bucket, n, share,
						 part->spread == 0);
		else if (part->spread > 0)
			LedgerFold(draw->path->org, part->bucket);
	}
}

/* Opens a cursor over the buckets that may pay, in burn order. */
static Portal
open_candidates(HoldDraw *draw, TimestampTz as_of)
{
	Values		args = MayPayArgs(draw->path, draw->purpose, as_of);

	return SqlCursor(draw->wait ? &bucket_draw : &bucket_draw_free, &args);
}

/* Returns the parameters of MAY_PAY. */
Values
MayPayArgs(const AccountPath *path, const Purpose *purpose, TimestampTz at)
{
	bool		plain = purpose->job == 0;

	return *VALUES(TextValue(path->org),
				   TextArrayValue(path->accounts, path->n), TimeValue(at),
				   purpose->any ? NullValue() : BoolValue(plain),
				   TextArrayValue(purpose->gpu_types, purpose->ntypes),
				   TextValue(plain ? "" : purpose->tier),
				   TextValue(plain ? "" : purpose->pool),
				   purpose->locked == NULL ? NullValue() :
				   Int8ArrayValue(purpose->locked->ids, purpose->locked->n));
}

/* Adds the part of the draw that a locked bucket can and may pay. */
static void
draw_from_bucket(HoldDraw *draw, SqlResult row, Credits missing)
{
	HoldDrawPart part = {.bucket = SqlInt8(row, 0, 1)};

	part.whole = SqlCredits(row, 0, 2);
	part.expires_at = SqlTimeOr(row, 0, 3, DT_NOEND);
	part.slices = SqlInt4(row, 0, 6);
	part.spread = SqlInt4(row, 0, 7);
	if (part.spread > 0)
	{
		Credits		in_slices;

		if (!SlicesLock(draw->path->org, part.bucket, part.spread,
						draw->wait, &in_slices))
			return;
		part.whole = CreditsAdd(part.whole, in_slices);
		if (part.whole == 0)
			LedgerFold(draw->path->org, part.bucket);
	}
	part.amount = Min(most(draw, row, 0, missing), part.whole);
	if (part.amount > 0)
		add_part(draw, &part);
}

/* Returns how much of the missing amount a bucket may pay by its policy. */
static Credits
most(HoldDraw *draw, SqlResult row, uint64 i, Credits missing)
{
	int64		bucket = SqlInt8(row, i, 1);
	Credits		give = missing;
	bool		isnull;
	Datum		max_share;

	if (draw->purpose->any)
		return give;
	if (!SqlIsNull(row, i, 4) && !is_leased(draw))
		give = Min(give, job_cap(draw, bucket, SqlCredits(row, i, 4)));
	max_share = SqlDatum(row, i, 5, &isnull);
	if (!isnull)
		give = Min(give, share_cap(draw, bucket,
								   DatumGetNumeric(max_share)));
	return give;
}

static void
add_part(HoldDraw *draw, const HoldDrawPart *part)
{
	if (draw->nparts == draw->maxparts)
	{
		draw->maxparts *= 2;
		draw->parts = repalloc(draw->parts,
							   sizeof(HoldDrawPart) * draw->maxparts);
	}
	draw->parts[draw->nparts++] = *part;
}

static bool
is_leased(const HoldDraw *draw)
{
	return draw->path->leased || (draw->hold != NULL && draw->hold->leased);
}

/*
 * Returns what max_per_job leaves after everything that the job's holds, or a
 * caller's own hold, drew from the bucket and did not return.
 */
static Credits
job_cap(HoldDraw *draw, int64 bucket, Credits max_per_job)
{
	if (draw->purpose->job != 0)
		return CreditsSub(max_per_job,
						  drawn(&job_drawn, draw->path->org,
								draw->purpose->job, bucket));
	return draw->hold == NULL ? max_per_job :
		CreditsSub(max_per_job, drawn(&hold_drawn, draw->path->org,
									  draw->hold->hold, bucket));
}

/*
 * Returns what max_share leaves: that share, rounded down, of everything that
 * this hold draws.
 */
static Credits
share_cap(HoldDraw *draw, int64 bucket, Numeric max_share)
{
	Credits		before = draw->hold == NULL ? 0 :
		drawn(&hold_drawn, draw->path->org, draw->hold->hold, bucket);
	Credits		total = draw->hold == NULL ? draw->amount :
		CreditsAdd(CreditsAdd(draw->hold->held, draw->hold->captured),
				   draw->amount);
	Datum		cap = DirectFunctionCall2(numeric_mul,
										  NumericGetDatum(max_share),
										  NumericGetDatum(CreditsToNumeric(total)));

	cap = DirectFunctionCall2(numeric_trunc, cap, Int32GetDatum(6));
	return CreditsSub(CreditsFromNumeric(DatumGetNumeric(cap), NULL), before);
}

static Credits
drawn(SqlStatement *statement, const char *org, int64 owner, int64 bucket)
{
	return SqlCredits(SqlRun(statement,
							 VALUES(TextValue(org), Int8Value(owner),
									Int8Value(bucket))), 0, 1);
}

/*
 * Drops the parts whose buckets have expired by now. Returns the sum of the
 * others.
 */
static Credits
drop_expired(HoldDraw *draw)
{
	Credits		sum = 0;
	int			kept = 0;

	for (int i = 0; i < draw->nparts; i++)
	{
		if (draw->parts[i].expires_at <= draw->at)
			continue;
		sum += draw->parts[i].amount;
		draw->parts[kept++] = draw->parts[i];
	}
	draw->nparts = kept;
	return sum;
}

/*
 * Finds the first bucket in burn order that may pay and has credit. Returns
 * false if there is none.
 */
static bool
select_first(const AccountPath *path, const Purpose *purpose, TimestampTz at,
			 SelectedBucket *first)
{
	selection	selection = {.purpose = purpose, .at = at};

	SqlEach(&bucket_look,
			VALUES(TextValue(path->org),
				   TextArrayValue(path->accounts, path->n)), false, read_first_bucket,
			&selection);
	*first = selection.first;
	return selection.found;
}

/*
 * Does the same as select_first(), if this transaction has changed buckets of
 * the organisation and knows their locations. Returns false if it has changed
 * none, or if a location is wrong.
 */
static bool
select_own(const AccountPath *path, const Purpose *purpose,
		   TimestampTz at, SelectedBucket *first)
{
	selection	selection = {.purpose = purpose, .at = at};
	int			n = selection.n_own = OwnList(path->org, selection.own);
	int64		ends[OWN_MOST + 2];
	Datum		places[OWN_MOST];

	if (n == 0)
		return false;
	ends[0] = PG_INT64_MIN;
	for (int i = 0; i < n; i++)
	{
		ends[i + 1] = selection.own[i].bucket;
		places[i] = PointerGetDatum(&selection.own[i].place);
	}
	ends[n + 1] = PG_INT64_MAX;
	SqlEach(&bucket_look_own,
			VALUES(TextValue(path->org),
				   TextArrayValue(path->accounts, path->n),
				   Int8ArrayValue(ends, n + 1),
				   Int8ArrayValue(ends + 1, n + 1),
				   ArrayValue(places, NULL, n, TIDOID)), false, read_own_bucket,
			&selection);
	if (selection.seen_own < n)
	{
		OwnForget();
		return false;
	}
	*first = selection.first;
	return selection.found;
}

/*
 * Reads a bucket, and counts those that were found at their noted locations.
 */
static bool
read_own_bucket(void *context, const Datum *values, const bool *nulls)
{
	selection  *selection = context;

	if (DatumGetBool(values[SEE_OWN]))
	{
		int64		bucket = DatumGetInt64(values[SEE_BUCKET]);
		int			i = 0;

		while (i < selection->n_own && selection->own[i].bucket != bucket)
			i++;
		if (i == selection->n_own)
			return true;
		selection->seen_own++;
	}
	return !DatumGetBool(values[SEE_PAYS]) || read_first_bucket(context, values, nulls);
}

/* Reads a bucket, and keeps it if it is the first so far in burn order. */
static bool
read_first_bucket(void *context, const Datum *values, const bool *nulls)
{
	selection  *selection = context;
	SelectedBucket bucket = {
		.bucket = DatumGetInt64(values[SEE_BUCKET]),
		.available = DatumGetCredits(values[SEE_AVAILABLE]),
		.expires_at = nulls[SEE_EXPIRES_AT] ? DT_NOEND :
		DatumGetTimestampTz(values[SEE_EXPIRES_AT]),
		.effective_at = DatumGetTimestampTz(values[SEE_EFFECTIVE_AT]),
		.priority = DatumGetInt32(values[SEE_PRIORITY])
	};
	int32		spread = DatumGetInt32(values[SEE_SPREAD]);

	if (bucket.effective_at > selection->at ||
		bucket.expires_at <= selection->at ||
		(bucket.available <= 0 && spread == 0) ||
		!may_pay(selection, values, nulls))
		return true;
	bucket.kind_rank = kind_rank(values[SEE_KIND]);
	bucket.depth = VARSIZE_ANY_EXHDR(DatumGetPointer(values[SEE_ACCOUNT]));
	bucket.plain = nulls[SEE_MAX_PER_JOB] && nulls[SEE_MAX_SHARE] && spread == 0 &&
		DatumGetInt32(values[SEE_SLICES]) == 1;
	if (!selection->found || compare_selected(&bucket, &selection->first) < 0)
	{
		selection->first = bucket;
		selection->first.own = selection->n_own > 0 &&
			DatumGetBool(values[SEE_OWN]);
		selection->first.credited_total = datumCopy(values[SEE_CREDITED_TOTAL],
													false, -1);
	}
	selection->found = true;
	return true;
}

/* Applies the condition of MAY_PAY on a bucket's policy. */
static bool
may_pay(const selection * selection, const Datum *values, const bool *nulls)
{
	const Purpose *purpose = selection->purpose;

	if (purpose->any)
		return true;
	if (purpose->job == 0)
		return nulls[SEE_GPU_TYPES] && nulls[SEE_TIERS] && nulls[SEE_POOLS];
	return (nulls[SEE_GPU_TYPES] ||
			allows(values[SEE_GPU_TYPES], purpose->gpu_types, purpose->ntypes)) &&
		(nulls[SEE_TIERS] || allows(values[SEE_TIERS], &purpose->tier, 1)) &&
		(nulls[SEE_POOLS] || allows(values[SEE_POOLS], &purpose->pool, 1));
}

/* Whether an array contains all given names. */
static bool
allows(Datum array, const char *const *names, int n)
{
	Datum	   *elems;
	bool	   *nulls;
	int			nelems;
	int			found = 0;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false,
					  TYPALIGN_INT, &elems, &nulls, &nelems);
	for (int i = 0; i < n; i++)
	{
		for (int j = 0; j < nelems && found == i; j++)
		{
			if (!nulls[j] && strcmp(TextDatumGetCString(elems[j]),
									names[i]) == 0)
				found++;
		}
	}
	return found == n;
}

/* Returns the rank of a bucket's kind in BURN_ORDER. */
static int
kind_rank(Datum kind)
{
	char	   *word = TextDatumGetCString(kind);

	return strcmp(word, "promo") == 0 ? 1 : strcmp(word, "grant") == 0 ? 2 : 3;
}

/*----------
 * BURN_ORDER in C, for buckets of one path of accounts:
 *
 * 1. priority, the lowest number first;
 * 2. expiry, the earliest first;
 * 3. kind: promo, grant, purchase;
 * 4. depth of the account, the lowest account first;
 * 5. start of validity, the earliest first;
 * 6. number of the bucket.
 *----------
 */
static int
compare_selected(const SelectedBucket *one, const SelectedBucket *other)
{
	if (one->priority != other->priority)
		return one->priority < other->priority ? -1 : 1;
	if (one->expires_at != other->expires_at)
		return one->expires_at < other->expires_at ? -1 : 1;
	if (one->kind_rank != other->kind_rank)
		return one->kind_rank - other->kind_rank;
	if (one->depth != other->depth)
		return one->depth > other->depth ? -1 : 1;
	if (one->effective_at != other->effective_at)
		return one->effective_at < other->effective_at ? -1 : 1;
	return one->bucket < other->bucket ? -1 : 1;
}

void
LedgerQueue(const char *org, int64 bucket)
{
	uint64		key = hash_combine64(hash_bytes_extended((const unsigned char *) org,
														 strlen(org), 0),
									 (uint64) bucket);

	if (!IsolationUsesXactSnapshot())
		LockClassWait(LOCK_BUCKET_QUEUE, key);
}
