/*-------------------------------------------------------------------------
 *
 * shrink_holds.c
 *		Give back what many holds have too much, in a few statements for all.
 *
 * For holds that no budget counts and that have no slices, as most.
 * HoldShrink() shrinks the others one by one. A hold with a row that is not
 * free stays as it is.
 *
 * Locks, all without waiting: holds, then as hold.c says, or the buckets of
 * all.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "ledger/hold_part.h"
#include "miscadmin.h"
#include "ledger/post.h"

#define GIVEN_HOLDS \
	" FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2))" \
	" WITH ORDINALITY AS u (org, hold, n)"

SQL_STATEMENT(holds_lock, SPI_OK_SELECT, "text[], bigint[]",
			  "SELECT u.n, h" GIVEN_HOLDS
			  " JOIN gpucredit.hold h ON h.org = u.org AND h.hold = u.hold"
			  " ORDER BY u.n FOR NO KEY UPDATE OF h SKIP LOCKED");
SQL_STATEMENT(parts_lock, SPI_OK_SELECT, "text[], bigint[]",
			  "SELECT u.n, p.part, p.bucket, p.held, b.expires_at,"
			  " b.closed_at IS NOT NULL" GIVEN_HOLDS
			  " JOIN gpucredit.hold_part p ON p.org = u.org"
			  "  AND p.hold = u.hold"
			  " JOIN gpucredit.bucket b ON b.org = u.org"
			  "  AND b.bucket = p.bucket"
			  " WHERE p.held OPERATOR(gpucredit.>) '0'"
			  " ORDER BY u.n, p.part FOR NO KEY UPDATE OF b SKIP LOCKED");
SQL_STATEMENT(holds_shrink, SPI_OK_UPDATE,
			  "text[], bigint[], gpucredit.credits[], gpucredit.credits[],"
			  " gpucredit.credits[]",
			  "UPDATE gpucredit.hold h SET held = u.held,"
			  " released = u.released, lapsed = u.lapsed"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4), pg_catalog.unnest($5))"
			  "  AS u (org, hold, held, released, lapsed)"
			  " WHERE h.org = u.org AND h.hold = u.hold");

/* Holds to shrink together, and what each consists of. */
typedef struct Batch
{
	int			n;
	Shrinking **of;
	HoldPart  **parts;
	int		   *nparts;
} Batch;

SQL_STATEMENT(entries_insert, SPI_OK_INSERT,
			  "timestamptz, text, text[], text[], bigint[], text[],"
			  " gpucredit.credits[], bigint[], int[], bigint[], int[], uuid[]",
			  "INSERT INTO gpucredit.entry (org, at, account, bucket, source,"
			  " target, amount, operation, hold, part, job, attempt, trace)"
			  " SELECT u.org, $1, u.account, u.bucket, 'held', u.target,"
			  " u.amount, $2, u.hold, u.part, NULLIF(u.job, 0),"
			  " NULLIF(u.attempt, 0), u.trace"
			  " FROM ROWS FROM (pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4), pg_catalog.unnest($5),"
			  "  pg_catalog.unnest($6), pg_catalog.unnest($7),"
			  "  pg_catalog.unnest($8), pg_catalog.unnest($9),"
			  "  pg_catalog.unnest($10), pg_catalog.unnest($11),"
			  "  pg_catalog.unnest($12))"
			  "  AS u (org, account, bucket, target, amount, hold, part,"
			  "  job, attempt, trace)");
SQL_STATEMENT(parts_return, SPI_OK_UPDATE,
			  "text[], bigint[], int[], gpucredit.credits[],"
			  " gpucredit.credits[]",
			  "UPDATE gpucredit.hold_part p"
			  " SET held = p.held OPERATOR(gpucredit.-)"
			  "  (u.returned OPERATOR(gpucredit.+) u.lapsed),"
			  " returned = p.returned OPERATOR(gpucredit.+) u.returned,"
			  " lapsed = p.lapsed OPERATOR(gpucredit.+) u.lapsed"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4), pg_catalog.unnest($5))"
			  "  AS u (org, hold, part, returned, lapsed)"
			  " WHERE p.org = u.org AND p.hold = u.hold AND p.part = u.part");
SQL_STATEMENT(buckets_return, SPI_OK_UPDATE,
			  "text[], bigint[], gpucredit.credits[], gpucredit.credits[],"
			  " gpucredit.credits[], gpucredit.credits[]",
			  "UPDATE gpucredit.bucket b"
			  " SET held = b.held OPERATOR(gpucredit.-) u.held,"
			  " available = b.available OPERATOR(gpucredit.+) u.available,"
			  " expired = b.expired OPERATOR(gpucredit.+) u.expired,"
			  " revoked = b.revoked OPERATOR(gpucredit.+) u.revoked,"
			  " credited_total = b.credited_total"
			  "  OPERATOR(pg_catalog.+) u.available::pg_catalog.numeric"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4), pg_catalog.unnest($5),"
			  "  pg_catalog.unnest($6))"
			  "  AS u (org, bucket, held, available, expired, revoked)"
			  " WHERE b.org = u.org AND b.bucket = u.bucket");

/* One move, and whose it is. */
typedef struct Return
{
	const Posting *posting;
	const Move *move;
} Return;

static void post_returns(const Posting *postings, int n);
static Batch batch_of(Shrinking *all, int n);
static Values batch_args(const Batch *batch);
static void keep(Batch *batch, const bool *which);
static void lock_holds(Batch *batch);
static void shrink_others(Batch *batch);
static void lock_parts(Batch *batch);
static void shrink(const Batch *batch);
static void write_holds(const Batch *batch);
static int	list_returns(const Posting *postings, int n, Return **list);
static void insert_entries(const Return *list, int n);
static void change_parts(const Return *list, int n);
static void change_buckets(Return *list, int n);
static int	compare_buckets(const void *a, const void *b);

/*
 * Shrink the free holds, as one operation.
 */
void
HoldsShrink(Shrinking *all, int n)
{
	Batch		batch = batch_of(all, n);

	lock_holds(&batch);
	shrink_others(&batch);
	lock_parts(&batch);
	if (batch.n > 0)
		shrink(&batch);
}

/*
 * All holds, before any is read.
 */
static Batch
batch_of(Shrinking *all, int n)
{
	Batch		batch = {
		.n = n,
		.of = palloc(sizeof(Shrinking *) * Max(n, 1)),
		.parts = palloc0(sizeof(HoldPart *) * Max(n, 1)),
		.nparts = palloc0(sizeof(int) * Max(n, 1))
	};

	for (int i = 0; i < n; i++)
	{
		batch.of[i] = &all[i];
		all[i].done = false;
	}
	return batch;
}

/*
 * The holds as parameters: organisations and numbers.
 */
static Values
batch_args(const Batch *batch)
{
	const char **orgs = palloc(sizeof(char *) * batch->n);
	int64	   *holds = palloc(sizeof(int64) * batch->n);
	Values	   *args;

	for (int i = 0; i < batch->n; i++)
	{
		orgs[i] = batch->of[i]->hold.org;
		holds[i] = batch->of[i]->hold.hold;
	}
	args = VALUES(TextArrayValue(orgs, batch->n),
				  Int8ArrayValue(holds, batch->n));
	return *args;
}

/*
 * Go on with some of the holds.
 */
static void
keep(Batch *batch, const bool *which)
{
	int			n = 0;

	for (int i = 0; i < batch->n; i++)
	{
		if (!which[i])
			continue;
		batch->of[n] = batch->of[i];
		batch->parts[n] = batch->parts[i];
		batch->nparts[n++] = batch->nparts[i];
	}
	batch->n = n;
}

/*
 * Lock the holds that are free, and go on with those.
 */
static void
lock_holds(Batch *batch)
{
	bool	   *locked = palloc0(sizeof(bool) * Max(batch->n, 1));
	Values		args = batch_args(batch);
	SqlResult	rows = SqlRun(&holds_lock, &args);

	for (uint64 i = 0; i < rows.n; i++)
	{
		int64		n = SqlInt8(rows, i, 1) - 1;

		HoldFrom(rows, i, 2, &batch->of[n]->hold);
		locked[n] = true;
	}
	SqlFree(&rows);
	keep(batch, locked);
}

/*
 * Shrink the holds with budgets or slices, and go on with the rest.
 */
static void
shrink_others(Batch *batch)
{
	bool	   *plain = palloc(sizeof(bool) * Max(batch->n, 1));

	for (int i = 0; i < batch->n; i++)
	{
		Shrinking  *one = batch->of[i];

		CHECK_FOR_INTERRUPTS();
		plain[i] = !one->hold.sliced && !one->hold.counted;
		if (plain[i] ||
			HoldShrink(&one->hold, &one->cause, one->amount, false,
					   &one->returned, &one->at) != LEDGER_DONE)
			continue;
		one->done = true;
	}
	keep(batch, plain);
}

/*
 * Lock the buckets of the parts, and go on with the holds that have all of
 * theirs.
 */
static void
lock_parts(Batch *batch)
{
	Credits    *missing;
	bool	   *whole;
	Values		args;
	SqlResult	rows;

	if (batch->n == 0)
		return;
	missing = palloc(sizeof(Credits) * batch->n);
	whole = palloc(sizeof(bool) * batch->n);
	for (int i = 0; i < batch->n; i++)
		missing[i] = batch->of[i]->hold.held;
	args = batch_args(batch);
	rows = SqlRun(&parts_lock, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		int64		n = SqlInt8(rows, i, 1) - 1;
		HoldPart   *part;

		/* the parts of a hold stand together */
		if (batch->nparts[n] == 0)
			batch->parts[n] = palloc(sizeof(HoldPart) * (rows.n - i));
		part = &batch->parts[n][batch->nparts[n]++];
		*part = (HoldPart)
		{
			.part = SqlInt4(rows, i, 2), .bucket = SqlInt8(rows, i, 3),
				.held = SqlCredits(rows, i, 4),
				.expires_at = SqlTimeOr(rows, i, 5, DT_NOEND),
				.closed = SqlBool(rows, i, 6)
		};
		missing[n] -= part->held;
	}
	SqlFree(&rows);
	for (int i = 0; i < batch->n; i++)
		whole[i] = missing[i] == 0;
	keep(batch, whole);
}

/*
 * Divide the parts of the locked holds, and write all of it.
 */
static void
shrink(const Batch *batch)
{
	TimestampTz at = ClockNow();
	Posting    *postings = palloc(sizeof(Posting) * batch->n);

	for (int i = 0; i < batch->n; i++)
	{
		Shrinking  *one = batch->of[i];

		one->returned = HoldPartsDivide(&one->hold, &one->cause,
										batch->parts[i],
										batch->nparts[i], 0, one->amount, at,
										&postings[i]);
		one->at = at;
		one->done = true;
	}
	post_returns(postings, batch->n);
	write_holds(batch);
}

/*
 * Write the holds' rows as they now are.
 */
static void
write_holds(const Batch *batch)
{
	Credits    *amounts = palloc(sizeof(Credits) * 3 * batch->n);
	Values		args = batch_args(batch);

	for (int i = 0; i < batch->n; i++)
	{
		amounts[i] = batch->of[i]->hold.held;
		amounts[batch->n + i] = batch->of[i]->hold.released;
		amounts[2 * batch->n + i] = batch->of[i]->hold.lapsed;
	}
	for (int column = 0; column < 3; column++)
		ValuesAdd(&args,
				  CreditsArrayValue(amounts + column * batch->n, batch->n));
	Ensure(SqlRun(&holds_shrink, &args).n == (uint64) batch->n,
		   "A hold is missing.");
}

/*
 * Post what the holds give back to buckets' own rows, as LedgerPost() would.
 * The postings have one operation and one instant; holds and buckets are
 * locked.
 */
static void
post_returns(const Posting *postings, int n)
{
	Return	   *list;
	int			moves = list_returns(postings, n, &list);

	if (moves == 0)
		return;
	insert_entries(list, moves);
	change_parts(list, moves);
	change_buckets(list, moves);
}

/*
 * All moves in order; how many.
 */
static int
list_returns(const Posting *postings, int n, Return **list)
{
	int			moves = 0;

	for (int i = 0; i < n; i++)
		moves += postings[i].n;
	*list = palloc(sizeof(Return) * Max(moves, 1));
	moves = 0;
	for (int i = 0; i < n; i++)
	{
		for (int m = 0; m < postings[i].n; m++)
		{
			const Move *move = &postings[i].moves[m];

			Ensure(move->amount > 0 && move->source == HELD &&
				   move->target != SPENT && move->slice == 0,
				   "A move does not give back.");
			(*list)[moves++] = (Return)
			{
				&postings[i], move
			};
		}
	}
	return moves;
}

/*
 * Append an entry of each move.
 */
static void
insert_entries(const Return *list, int n)
{
	const char **texts = palloc(sizeof(char *) * 3 * n);
	int64	   *ids = palloc(sizeof(int64) * 3 * n);
	int32	   *numbers = palloc(sizeof(int32) * 2 * n);
	Credits    *amounts = palloc(sizeof(Credits) * n);
	Trace	   *traces = palloc(sizeof(Trace) * n);

	for (int i = 0; i < n; i++)
	{
		const Posting *posting = list[i].posting;

		texts[i] = posting->org;
		texts[n + i] = posting->account;
		texts[2 * n + i] = LedgerCompartment(list[i].move->target);
		ids[i] = list[i].move->bucket;
		ids[n + i] = posting->hold;
		ids[2 * n + i] = posting->cause->job;
		numbers[i] = list[i].move->part;
		numbers[n + i] = posting->cause->attempt;
		amounts[i] = list[i].move->amount;
		traces[i] = TraceOr(posting->trace);
	}
	(void) SqlRun(&entries_insert,
				  VALUES(TimeValue(list[0].posting->at),
						 TextValue(list[0].posting->cause->operation),
						 TextArrayValue(texts, n),
						 TextArrayValue(texts + n, n), Int8ArrayValue(ids, n),
						 TextArrayValue(texts + 2 * n, n),
						 CreditsArrayValue(amounts, n),
						 Int8ArrayValue(ids + n, n),
						 Int4ArrayValue(numbers, n),
						 Int8ArrayValue(ids + 2 * n, n),
						 Int4ArrayValue(numbers + n, n),
						 TraceArrayValue(traces, n)));
}

/*
 * Each move is of a part of its own.
 */
static void
change_parts(const Return *list, int n)
{
	const char **orgs = palloc(sizeof(char *) * n);
	int64	   *holds = palloc(sizeof(int64) * n);
	int32	   *parts = palloc(sizeof(int32) * n);
	Credits    *amounts = palloc0(sizeof(Credits) * 2 * n);

	for (int i = 0; i < n; i++)
	{
		const Move *move = list[i].move;

		orgs[i] = list[i].posting->org;
		holds[i] = list[i].posting->hold;
		parts[i] = move->part;
		amounts[move->target == AVAILABLE ? i : n + i] = move->amount;
	}
	Ensure(SqlRun(&parts_return,
				  VALUES(TextArrayValue(orgs, n), Int8ArrayValue(holds, n),
						 Int4ArrayValue(parts, n),
						 CreditsArrayValue(amounts, n),
						 CreditsArrayValue(amounts + n, n))).n == (uint64) n,
		   "A part of a hold is missing.");
}

/*
 * One change of each bucket, with the sum of its moves.
 */
static void
change_buckets(Return *list, int n)
{
	const char **orgs = palloc(sizeof(char *) * n);
	int64	   *buckets = palloc(sizeof(int64) * n);
	Credits    *changes[COMPARTMENTS];
	int			last = -1;

	for (int c = 0; c < COMPARTMENTS; c++)
		changes[c] = palloc0(sizeof(Credits) * n);
	qsort(list, n, sizeof(Return), compare_buckets);
	for (int i = 0; i < n; i++)
	{
		const Move *move = list[i].move;

		if (i == 0 || compare_buckets(&list[i - 1], &list[i]) != 0)
		{
			orgs[++last] = list[i].posting->org;
			buckets[last] = move->bucket;
		}
		changes[HELD][last] = CreditsAdd(changes[HELD][last], move->amount);
		changes[move->target][last] =
			CreditsAdd(changes[move->target][last], move->amount);
	}
	Ensure(SqlRun(&buckets_return,
				  VALUES(TextArrayValue(orgs, last + 1),
						 Int8ArrayValue(buckets, last + 1),
						 CreditsArrayValue(changes[HELD], last + 1),
						 CreditsArrayValue(changes[AVAILABLE], last + 1),
						 CreditsArrayValue(changes[EXPIRED], last + 1),
						 CreditsArrayValue(changes[REVOKED],
										   last + 1))).n == (uint64) last + 1,
		   "A bucket is missing.");
}

static int
compare_buckets(const void *a, const void *b)
{
	const Return *ra = a;
	const Return *rb = b;
	int64		ba = ra->move->bucket;
	int64		bb = rb->move->bucket;

	return ba != bb ? (ba > bb) - (ba < bb) :
		strcmp(ra->posting->org, rb->posting->org);
}
