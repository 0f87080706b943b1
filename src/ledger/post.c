/*-------------------------------------------------------------------------
 *
 * post.c
 *		Writes entries, and the running sums that they change.
 *
 * A move is balanced by construction: what leaves one compartment of a bucket
 * enters another.  The bucket's row and the hold's part store running sums of
 * the entries, which are changed in the same call.  The caller has locked the
 * buckets (and the hold). Constraints of the tables refuse a negative sum.
 *
 * In a bucket with slices (slice.h) a move changes the sums of a slice, or
 * those of the bucket's row. The sums of both together are those of the
 * bucket.
 *
 * A transaction of a hundred thousand holds creates as many versions of a
 * bucket's row, and an index scan visits all of them. Therefore the
 * transaction notes the locations of rows after some changes
 * (util/row_location.h), and OwnList() returns them for the selection of a
 * bucket.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/row_location.h"
#include "util/sql.h"
#include "ledger/post.h"
#include "ledger/slice.h"
#include "miscadmin.h"
#include "utils/numeric.h"
#include "util/compat.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "api/count.h"
#include "ledger/alert.h"

static const char *const compartment_name[COMPARTMENTS] = {
	"issued", "available", "held", "spent", "expired", "revoked", "moved"
};

/*
 * A posting mostly has one or two moves. For example, a settlement has the
 * spent part and the returned part.
 */
#define ENTRY_TYPES \
	"text, timestamptz, text, text, bigint, bigint, int, uuid" MOVE_TYPES
#define MOVE_TYPES ", bigint, text, text, gpucredit.credits, int"
#define ENTRY_INSERT(values) \
	"INSERT INTO gpucredit.entry (org, at, account, operation, hold, job," \
	" attempt, trace, bucket, source, target, amount, part)" \
	" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, " values ")"
#define ONE_MOVE "$9, $10, $11, $12, $13"
#define TWO_MOVES ONE_MOVE "), ($1, $2, $3, $4, $5, $6, $7, $8," \
	" $14, $15, $16, $17, $18"
/*
 * Variants of these statements that also insert what the entries change in
 * account_total.
 */
#define DELTA_TYPES ", gpucredit.credits, gpucredit.credits"
#define DELTA_INSERT(spent, held) \
	"WITH d AS (INSERT INTO gpucredit.account_delta (org, account, spent," \
	" held, at, day) VALUES ($1, $3, " spent ", " held ", $2, CASE" \
	" WHEN " spent " OPERATOR(gpucredit.<>) '0' THEN" \
	"  pg_catalog.timezone('UTC', $2)::pg_catalog.date END)) "
SQL_STATEMENT(entry_insert, SPI_OK_INSERT, ENTRY_TYPES,
			  ENTRY_INSERT(ONE_MOVE));
SQL_STATEMENT(entries_insert, SPI_OK_INSERT, ENTRY_TYPES MOVE_TYPES,
			  ENTRY_INSERT(TWO_MOVES));
SQL_STATEMENT(entry_insert_counted, SPI_OK_INSERT, ENTRY_TYPES DELTA_TYPES,
			  DELTA_INSERT("$14", "$15") ENTRY_INSERT(ONE_MOVE));
SQL_STATEMENT(entries_insert_counted, SPI_OK_INSERT,
			  ENTRY_TYPES MOVE_TYPES DELTA_TYPES,
			  DELTA_INSERT("$19", "$20") ENTRY_INSERT(TWO_MOVES));
#define ADD(column, n) \
	#column " = s." #column " OPERATOR(gpucredit.+) $" #n
SQL_STATEMENT(slice_add, SPI_OK_UPDATE,
			  "text, bigint, int, gpucredit.credits, gpucredit.credits,"
			  " gpucredit.credits, gpucredit.credits",
			  "UPDATE gpucredit.bucket_slice s SET " ADD(available, 4) ", "
			  ADD(held, 5) ", " ADD(spent, 6) ", " ADD(expired, 7)
			  " WHERE s.org = $1 AND s.bucket = $2 AND s.slice = $3");
#undef ADD
SQL_STATEMENT(bucket_take, SPI_OK_UPDATE,
			  "text, bigint, gpucredit.credits, numeric",
			  "UPDATE gpucredit.bucket b"
			  " SET available = b.available OPERATOR(gpucredit.-) $3,"
			  " held = b.held OPERATOR(gpucredit.+) $3"
			  " WHERE b.org = $1 AND b.bucket = $2 AND b.closed_at IS NULL"
			  " AND b.spread = 0 AND b.available OPERATOR(gpucredit.>=) $3"
			  " AND (b.available OPERATOR(gpucredit.-) $3)::pg_catalog.numeric"
			  " OPERATOR(pg_catalog.>=) (b.credited_total OPERATOR(pg_catalog.-) $4)");
SQL_STATEMENT(slice_take, SPI_OK_UPDATE_RETURNING,
			  "text, bigint, int, int, gpucredit.credits",
			  "WITH f AS MATERIALIZED (SELECT s.slice,"
			  "  CASE WHEN s.available OPERATOR(gpucredit.>=) $5 THEN $5"
			  "  ELSE '0' END AS amount" SLICE_FREE ")"
			  " UPDATE gpucredit.bucket_slice s"
			  " SET available = s.available OPERATOR(gpucredit.-) f.amount,"
			  " held = s.held OPERATOR(gpucredit.+) f.amount FROM f"
			  " WHERE s.org = $1 AND s.bucket = $2 AND s.slice = f.slice"
			  " RETURNING s.slice, f.amount OPERATOR(gpucredit.=) $5");
#define HOLD_TYPES \
	"text, bigint, text, bigint, gpucredit.credits, timestamptz," \
	" timestamptz, boolean, uuid, boolean"
#define HOLD_INSERT \
	"INSERT INTO gpucredit.hold (org, hold, account, job, drawn, held," \
	" expires_at, created_at, sliced, trace, counted)" \
	" VALUES ($1, $2, $3, $4, $5, $5, $6, $7, $8, $9, $10)"
#define HOLD_ENTRY \
	" INSERT INTO gpucredit.entry (org, at, account, bucket, source, target," \
	" amount, operation, hold, part, job, attempt, trace)" \
	" VALUES ($1, $7, $3, $11, 'available', 'held', $5, $12, $2, 1, $4, $13," \
	" $9)"
SQL_STATEMENT(hold_insert, SPI_OK_INSERT, HOLD_TYPES, HOLD_INSERT);
/* Inserts a hold of one part, as most are, together with its entry. */
#define HOLD_WHOLE(shares) \
	"WITH h AS (" HOLD_INSERT "), p AS (" \
	" INSERT INTO gpucredit.hold_part" \
	" (org, hold, part, bucket, drawn, held)" \
	" VALUES ($1, $2, 1, $11, $5, $5)), d AS (" \
	" INSERT INTO gpucredit.account_delta (org, account, held, at)" \
	" VALUES ($1, $3, $5, $7))" shares HOLD_ENTRY
SQL_STATEMENT(hold_insert_whole, SPI_OK_INSERT,
			  HOLD_TYPES ", bigint, text, int", HOLD_WHOLE(""));
/* The variant that also inserts the shares of budgets of the hold. */
SQL_STATEMENT(hold_insert_counted, SPI_OK_INSERT,
			  HOLD_TYPES ", bigint, text, int, text[], text[], timestamptz[]",
			  HOLD_WHOLE(", s AS ("
						 " INSERT INTO gpucredit.hold_budget (org, hold,"
						 " account, period, period_start, reserved, spent)"
						 " SELECT $1, $2, pg_catalog.unnest($14),"
						 " pg_catalog.unnest($15), pg_catalog.unnest($16),"
						 " $5, '0'::gpucredit.credits)"));
SQL_STATEMENT(part_insert, SPI_OK_INSERT,
			  "text, bigint, int, bigint, gpucredit.credits",
			  "INSERT INTO gpucredit.hold_part"
			  " (org, hold, part, bucket, drawn, held)"
			  " VALUES ($1, $2, $3, $4, $5, $5)");
#define ADD(column, n) \
	#column " = p." #column " OPERATOR(gpucredit.+) $" #n
SQL_STATEMENT(part_add, SPI_OK_UPDATE,
			  "text, bigint, int, gpucredit.credits, gpucredit.credits,"
			  " gpucredit.credits, gpucredit.credits, gpucredit.credits",
			  "UPDATE gpucredit.hold_part p SET " ADD(held, 4) ", "
			  ADD(spent, 5) ", " ADD(refunded, 6) ", " ADD(returned, 7) ", "
			  ADD(lapsed, 8)
			  " WHERE p.org = $1 AND p.hold = $2 AND p.part = $3");
#undef ADD
SQL_STATEMENT(bucket_close, SPI_OK_UPDATE, "text, bigint, timestamptz",
			  "UPDATE gpucredit.bucket b SET closed_at = $3"
			  " WHERE b.org = $1 AND b.bucket = $2");

/* A locked row keeps its location, which is the fastest way to find it. */
SQL_STATEMENT(entry_sweep, SPI_OK_SELECT, "tid[], timestamptz, uuid",
			  "WITH e AS (INSERT INTO gpucredit.entry (org, at, account,"
			  "  bucket, source, target, amount, operation, trace)"
			  " SELECT b.org, $2, b.account, b.bucket, 'available',"
			  "  'expired', b.available, 'expire', $3"
			  " FROM gpucredit.bucket b WHERE b.ctid = ANY ($1)"
			  "  AND b.available OPERATOR(gpucredit.>) '0'"
			  " RETURNING org, amount)"
			  " SELECT e.org, pg_catalog.count(*),"
			  " pg_catalog.sum(e.amount::pg_catalog.numeric)::pg_catalog.text"
			  " FROM e GROUP BY e.org ORDER BY e.org");
SQL_STATEMENT(bucket_sweep, SPI_OK_UPDATE, "tid[], timestamptz",
			  "UPDATE gpucredit.bucket b SET available = '0',"
			  " expired = b.expired OPERATOR(gpucredit.+) b.available,"
			  " swept_at = $2 WHERE b.ctid = ANY ($1)");

#define ADD(column) \
	#column " = b." #column " OPERATOR(gpucredit.+) s." #column
SQL_STATEMENT(slices_fold, SPI_OK_UPDATE, "text, bigint",
			  "WITH s AS (DELETE FROM gpucredit.bucket_slice s"
			  " WHERE s.org = $1 AND s.bucket = $2 RETURNING s.*)"
			  " UPDATE gpucredit.bucket b SET " ADD(available) ", "
			  ADD(held) ", " ADD(spent) ", " ADD(expired) ","
			  " lent = '0', spread = 0,"
			  " credited_total = b.credited_total"
			  "  OPERATOR(pg_catalog.+) s.available::pg_catalog.numeric"
			  " FROM (SELECT gpucredit.sum(s.available) AS available,"
			  "  gpucredit.sum(s.held) AS held,"
			  "  gpucredit.sum(s.spent) AS spent,"
			  "  gpucredit.sum(s.expired) AS expired FROM s) s"
			  " WHERE b.org = $1 AND b.bucket = $2");
#undef ADD
SQL_STATEMENT(slices_set, SPI_OK_UPDATE, "text, bigint, int",
			  "UPDATE gpucredit.bucket b SET slices = $3"
			  " WHERE b.org = $1 AND b.bucket = $2");
SQL_STATEMENT(slices_make, SPI_OK_INSERT,
			  "text, bigint, int, gpucredit.credits",
			  "INSERT INTO gpucredit.bucket_slice"
			  " (org, bucket, slice, lent, available) SELECT $1, $2, n, $4, $4"
			  " FROM pg_catalog.generate_series(1, $3) AS n");
SQL_STATEMENT(slices_even, SPI_OK_UPDATE,
			  "text, bigint, gpucredit.credits",
			  "UPDATE gpucredit.bucket_slice s SET available = $3,"
			  " lent = s.lent OPERATOR(gpucredit.+)"
			  "  ($3 OPERATOR(gpucredit.-) s.available)"
			  " WHERE s.org = $1 AND s.bucket = $2");
SQL_STATEMENT(bucket_lend, SPI_OK_UPDATE, "text, bigint, int",
			  "UPDATE gpucredit.bucket b SET spread = $3, lent = s.lent,"
			  " available = b.available OPERATOR(gpucredit.+)"
			  "  (b.lent OPERATOR(gpucredit.-) s.lent)"
			  " FROM (SELECT gpucredit.sum(s.lent) AS lent"
			  "  FROM gpucredit.bucket_slice s"
			  "  WHERE s.org = $1 AND s.bucket = $2) s"
			  " WHERE b.org = $1 AND b.bucket = $2");

#define ADD(column, n) \
	#column " = b." #column " OPERATOR(gpucredit.+) $" #n
#define BUCKET_ADD_TYPES \
	"text, bigint, gpucredit.credits, gpucredit.credits," \
	" gpucredit.credits, gpucredit.credits, gpucredit.credits," \
	" gpucredit.credits, gpucredit.credits, numeric"
#define BUCKET_ADD \
	"UPDATE gpucredit.bucket b SET " ADD(issued, 3) ", " \
	ADD(available, 4) ", " ADD(held, 5) ", " ADD(spent, 6) ", " \
	ADD(expired, 7) ", " ADD(revoked, 8) ", " ADD(moved, 9) "," \
	" credited_total = b.credited_total OPERATOR(pg_catalog.+) $10" \
	" WHERE b.org = $1 AND b.bucket = $2"
SQL_STATEMENT(bucket_add, SPI_OK_UPDATE, BUCKET_ADD_TYPES, BUCKET_ADD);
/*
 * Two variants of the statement: both return the location of the row's new
 * version, and the second one finds the row by its noted location.
 */
SQL_STATEMENT(bucket_add_told, SPI_OK_UPDATE_RETURNING, BUCKET_ADD_TYPES,
			  BUCKET_ADD " RETURNING b.ctid");
SQL_STATEMENT(bucket_add_own, SPI_OK_UPDATE_RETURNING,
			  BUCKET_ADD_TYPES ", tid",
			  BUCKET_ADD " AND b.ctid = $11 RETURNING b.ctid");
#undef ADD

/* Buckets that this transaction has changed and whose locations are noted. */
static struct
{
	const char *org;
	int64		bucket;
}			own[OWN_MOST];
static int	n_own = 0;
static int	oldest = 0;
static LocalTransactionId own_in = InvalidLocalTransactionId;

static Credits change_of(const Move *move, Compartment compartment);
static void insert_entries(const Posting *posting, int first, int n);
static void add_to_bucket(const Posting *posting, int first);
static void insert_part(const Posting *posting, const Move *move);
static void change_part(const Posting *posting, int first);
static void change_bucket(const char *org, int64 bucket, Values *args);
static void note_own(const char *org, int64 bucket);
static void own_begin(void);
static int	compare_own(const void *a, const void *b);

/* Writes entries, and changes the running sums. */
void
LedgerPost(const Posting *posting)
{
	for (int i = 0; i < posting->n; i++)
	{
		const Move *move = &posting->moves[i];
		bool		seen = false;
		bool		seen_part = move->part == 0;

		CHECK_FOR_INTERRUPTS();
		if (i % 2 == 0)
			insert_entries(posting, i, Min(posting->n - i, 2));

		/*
		 * Each part and each bucket is updated once, with the sum of its
		 * moves.
		 */
		for (int j = 0; j < i && !(seen && seen_part); j++)
		{
			const Move *before = &posting->moves[j];

			seen |= before->bucket == move->bucket &&
				before->slice == move->slice;
			seen_part |= before->part == move->part;
		}
		if (!seen_part && move->target == HELD)
			insert_part(posting, move);
		else if (!seen_part)
			change_part(posting, i);
		if (!seen && !posting->taken)
			add_to_bucket(posting, i);
	}
}

/* Returns the name of a compartment in entries. */
const char *
LedgerCompartment(Compartment compartment)
{
	return compartment_name[compartment];
}

/*
 * Locks a bucket and moves an amount from available to held. The caller writes
 * the entry, as of an instant before the lock; credited_total is all that the
 * bucket had received by then. Returns false if the bucket is closed or spread
 * over slices, or has too little without the credit that it has received
 * since.
 */
bool
LedgerDebit(const char *org, int64 bucket, Credits amount, Datum credited_total)
{
	return SqlRun(&bucket_take,
				  VALUES(TextValue(org), Int8Value(bucket),
						 CreditsValue(amount),
						 DatumValue(credited_total))).n == 1;
}

/*
 * Debits a slice in the same way: the first one from *slice on that is not
 * locked and has enough. Never waits.
 */
TakeStatus
LedgerDebitSlice(const char *org, int64 bucket, int32 spread, int32 *slice,
				 Credits amount)
{
	SqlResult	row;

	row = SqlRun(&slice_take,
				 VALUES(TextValue(org), Int8Value(bucket), Int4Value(*slice),
						Int4Value(spread), CreditsValue(amount)));
	if (row.n == 0)
		return TAKE_BUSY;
	*slice = SqlInt4(row, 0, 1);
	return SqlBool(row, 0, 2) ? TAKE_DONE : TAKE_SHORT;
}

/* Writes a new hold with its parts, entries and shares of budgets. */
void
LedgerOpen(const Hold *hold, const Posting *posting, const BudgetSet *budgets)
{
	const Move *move = posting->moves;
	Values	   *args = VALUES(TextValue(hold->org), Int8Value(hold->hold),
							  TextValue(hold->account),
							  Int8ValueOrNull(hold->job),
							  CreditsValue(hold->drawn),
							  hold->job == 0 ? TimeValue(hold->expires_at) :
							  NullValue(), TimeValue(posting->at),
							  BoolValue(hold->sliced), TraceValue(hold->trace),
							  BoolValue(hold->counted));

	if (posting->n != 1)
	{
		(void) SqlRun(&hold_insert, args);
		BudgetShare(budgets, hold->hold, true, hold->drawn);
		LedgerPost(posting);
		return;
	}
	Ensure(move->amount == hold->drawn && move->part == 1,
		   "A hold is not what it draws.");
	ValuesAdd(args, Int8Value(move->bucket),
			  TextValue(posting->cause->operation),
			  Int4ValueOrNull(posting->cause->attempt));
	if (budgets->n > 0)
	{
		Values		keys = BudgetKeys(budgets);

		for (int i = 1; i < keys.n; i++)
			ValuesAdd(args, keys.values[i]);
	}
	(void) SqlRun(budgets->n > 0 ? &hold_insert_counted : &hold_insert_whole,
				  args);
	if (!posting->taken)
		add_to_bucket(posting, 0);
}

/* Returns by how much a move changes a compartment. */
static Credits
change_of(const Move *move, Compartment compartment)
{
	if (move->source == move->target)
		return 0;
	return move->target == compartment ? move->amount :
		move->source == compartment ? -move->amount : 0;
}

/*
 * Appends the entries of one or two moves, with what they change in the
 * account's total.
 */
static void
insert_entries(const Posting *posting, int first, int n)
{
	Credits		spent = 0;
	Credits		held = 0;
	Values	   *args = VALUES(TextValue(posting->org), TimeValue(posting->at),
							  TextValue(posting->account),
							  TextValue(posting->cause->operation),
							  Int8ValueOrNull(posting->hold),
							  Int8ValueOrNull(posting->cause->job),
							  Int4ValueOrNull(posting->cause->attempt),
							  TraceValue(TraceOr(posting->trace)));

	for (int i = first; i < first + n; i++)
	{
		const Move *move = &posting->moves[i];

		Ensure(move->amount > 0, "A move is not of a positive amount.");
		ValuesAdd(args, Int8Value(move->bucket),
				  TextValue(compartment_name[move->source]),
				  TextValue(compartment_name[move->target]),
				  CreditsValue(move->amount), Int4ValueOrNull(move->part));
		spent = CreditsAdd(spent, change_of(move, SPENT));
		held = CreditsAdd(held, change_of(move, HELD));
	}
	if (spent == 0 && held == 0)
	{
		(void) SqlRun(n == 1 ? &entry_insert : &entries_insert, args);
		return;
	}
	ValuesAdd(args, CreditsValue(spent), CreditsValue(held));
	(void) SqlRun(n == 1 ? &entry_insert_counted : &entries_insert_counted,
				  args);
}

/*
 * Applies to a bucket, or to one slice of it, the sum of all its moves; the
 * first move is given. "issued" is a source that only grows: it is the sum of
 * all credit ever issued.
 */
static void
add_to_bucket(const Posting *posting, int first)
{
	int64		bucket = posting->moves[first].bucket;
	int32		slice = posting->moves[first].slice;
	Credits		change[COMPARTMENTS] = {0};
	Values	   *args;

	for (int i = first; i < posting->n; i++)
	{
		const Move *move = &posting->moves[i];

		if (move->bucket != bucket || move->slice != slice)
			continue;
		change[move->source] = move->source == ISSUED ?
			CreditsAdd(change[ISSUED], move->amount) :
			CreditsSub(change[move->source], move->amount);
		change[move->target] = CreditsAdd(change[move->target],
										  move->amount);
	}
	args = VALUES(TextValue(posting->org), Int8Value(bucket));
	if (slice > 0)
	{
		Ensure(change[ISSUED] == 0 && change[REVOKED] == 0 &&
			   change[MOVED] == 0, "A slice has no such compartment.");
		ValuesAdd(args, Int4Value(slice));
		for (int c = AVAILABLE; c <= EXPIRED; c++)
			ValuesAdd(args, CreditsValue(change[c]));
		Ensure(SqlRun(&slice_add, args).n == 1, "A slice is missing.");
		return;
	}
	for (int c = 0; c < COMPARTMENTS; c++)
		ValuesAdd(args, CreditsValue(change[c]));
	ValuesAdd(args,
			  DatumValue(NumericGetDatum(CreditsToNumeric(Max(change[AVAILABLE], 0)))));
	change_bucket(posting->org, bucket, args);
}

/* Inserts the part of a hold that a draw creates. */
static void
insert_part(const Posting *posting, const Move *move)
{
	(void) SqlRun(&part_insert,
				  VALUES(TextValue(posting->org), Int8Value(posting->hold),
						 Int4Value(move->part), Int8Value(move->bucket),
						 CreditsValue(move->amount)));
}

/*
 * Applies all moves of a part; the first move is given. The amount of a part
 * is divided into spent, returned and lapsed. Refunds reduce what is spent.
 */
static void
change_part(const Posting *posting, int first)
{
	int32		part = posting->moves[first].part;
	Credits		held = 0;
	Credits		spent = 0;
	Credits		refunded = 0;
	Credits		returned = 0;
	Credits		lapsed = 0;

	for (int i = first; i < posting->n; i++)
	{
		const Move *move = &posting->moves[i];

		if (move->part != part)
			continue;
		if (move->source == SPENT)
		{
			spent = CreditsSub(spent, move->amount);
			refunded = CreditsAdd(refunded, move->amount);
			continue;
		}
		held = CreditsSub(held, move->amount);
		if (move->target == SPENT)
			spent = CreditsAdd(spent, move->amount);
		else if (move->target == AVAILABLE)
			returned = CreditsAdd(returned, move->amount);
		else
			lapsed = CreditsAdd(lapsed, move->amount);
	}
	Ensure(SqlRun(&part_add,
				  VALUES(TextValue(posting->org), Int8Value(posting->hold),
						 Int4Value(part), CreditsValue(held),
						 CreditsValue(spent), CreditsValue(refunded),
						 CreditsValue(returned),
						 CreditsValue(lapsed))).n == 1,
		   "A part of a hold is missing.");
}

/* Closes a locked bucket. Credit that returns to it later is revoked. */
void
LedgerClose(const char *org, int64 bucket, TimestampTz at)
{
	Ensure(SqlRun(&bucket_close,
				  VALUES(TextValue(org), Int8Value(bucket),
						 TimeValue(at))).n == 1, "A bucket is missing.");
}

/*
 * Moves the available credit of n locked, expired buckets to expired. One
 * statement inserts the entries and one changes the rows. Returns the
 * organisation, the number of buckets and the amount for each organisation
 * whose buckets had credit.
 */
SqlResult
LedgerSweep(Datum places, uint64 n, TimestampTz at)
{
	Values	   *args = VALUES(DatumValue(places), TimeValue(at),
							  TraceValue(TraceOr(NO_TRACE)));
	SqlResult	sums = SqlRun(&entry_sweep, args);

	args->n--;
	Ensure(SqlRun(&bucket_sweep, args).n == n,
		   "A bucket moved under its lock.");
	return sums;
}

/* Stores over how many slices a locked bucket may be spread. */
void
LedgerSetSlices(const char *org, int64 bucket, int32 n)
{
	Ensure(SqlRun(&slices_set,
				  VALUES(TextValue(org), Int8Value(bucket),
						 Int4Value(n))).n == 1, "A bucket is missing.");
}

/*
 * Folds the locked slices of a locked bucket into the bucket's row. Credit
 * that the slices have received counts as received by the bucket only now.
 */
void
LedgerFold(const char *org, int64 bucket)
{
	Ensure(SqlRun(&slices_fold,
				  VALUES(TextValue(org),
						 Int8Value(bucket))).n == 1, "A bucket is missing.");
}

/*
 * Gives each of a bucket's n slices the same share of all its available
 * credit, and leaves the rest in the bucket's row. If anew is true, the slices
 * are created; otherwise the caller has locked them.
 */
void
LedgerSpread(const char *org, int64 bucket, int32 n, Credits share, bool anew)
{
	Values	   *args = VALUES(TextValue(org), Int8Value(bucket));

	if (anew)
		ValuesAdd(args, Int4Value(n));
	ValuesAdd(args, CreditsValue(share));
	Ensure(SqlRun(anew ? &slices_make : &slices_even, args).n == (uint64) n,
		   "A slice is missing.");
	Ensure(SqlRun(&bucket_lend,
				  VALUES(TextValue(org), Int8Value(bucket),
						 Int4Value(n))).n == 1, "A bucket is missing.");
}

/*
 * Changes a locked bucket. args are the organisation, the bucket, the change
 * of each compartment, and the credit that it receives.
 */
static void
change_bucket(const char *org, int64 bucket, Values *args)
{
	const char *names[] = {"bucket", org};
	uint64		key = PlaceKey(names, lengthof(names), bucket);
	ItemPointer place;
	SqlResult	row = {0};
	bool		isnull;

	if (!PlacesAreKept())
	{
		Ensure(SqlRun(&bucket_add, args).n == 1, "A bucket is missing.");
		return;
	}
	place = PlaceFind(key);
	if (place != NULL)
	{
		ValuesAdd(args, DatumValue(PointerGetDatum(place)));
		row = SqlRun(&bucket_add_own, args);
		args->n--;
	}
	if (row.n == 0)
		row = SqlRun(&bucket_add_told, args);
	Ensure(row.n == 1, "A bucket is missing.");
	PlaceNote(key, (ItemPointer) DatumGetPointer(SqlDatum(row, 0, 1,
														  &isnull)));
	SqlFree(&row);
	note_own(org, bucket);
}

/* Adds a bucket whose location is noted to the list. */
static void
note_own(const char *org, int64 bucket)
{
	int			i = 0;

	own_begin();
	while (i < n_own &&
		   (own[i].bucket != bucket || strcmp(own[i].org, org) != 0))
		i++;
	if (i < n_own)
		return;
	i = n_own < OWN_MOST ? n_own++ : oldest++ % OWN_MOST;
	own[i].org = MemoryContextStrdup(TopTransactionContext, org);
	own[i].bucket = bucket;
}

/* Empties the list if it is of another transaction. */
static void
own_begin(void)
{
	if (own_in != MyLocalTransactionId)
		n_own = oldest = 0;
	own_in = MyLocalTransactionId;
}

/* Empties the list, because a bucket was not at its noted location. */
void
OwnForget(void)
{
	n_own = 0;
}

/*
 * Lists an organisation's buckets that this transaction has changed, sorted by
 * number. The list has room for OWN_MOST.
 */
int
OwnList(const char *org, OwnBucket *list)
{
	const char *names[] = {"bucket", org};
	int			n = 0;

	own_begin();
	for (int i = 0; i < n_own; i++)
	{
		if (strcmp(own[i].org, org) != 0)
			continue;
		list[n].bucket = own[i].bucket;
		list[n++].place = *PlaceFind(PlaceKey(names, lengthof(names),
											  own[i].bucket));
	}
	qsort(list, n, sizeof(OwnBucket), compare_own);
	return n;
}

static int
compare_own(const void *a, const void *b)
{
	int64		x = ((const OwnBucket *) a)->bucket;
	int64		y = ((const OwnBucket *) b)->bucket;

	return (x > y) - (x < y);
}

/*
 * Counts what a hold's account has spent at an instant, after the entries are
 * written, and raises an alert if one is due. A negative amount is a refund.
 */
void
SpendAdd(const Hold *hold, Credits spent, TimestampTz at)
{
	CountSpend(spent);
	if (spent > 0)
		AlertSpend(hold->org, hold->account, at, hold->job);
}
