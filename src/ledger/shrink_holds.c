/*-------------------------------------------------------------------------
 *
 * shrink_holds.c
 *		Returns the excess of many holds with a few statements for all of
 *		them.
 *
 * This is for holds that no budget counts and that have no slices, as most
 * holds. HoldShrink() shrinks the others one by one. A hold stays unchanged if
 * one of its rows is locked.
 *
 * Locks, all without waiting: holds, then as hold.c says, or the buckets of
 * all holds.
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

/* Holds that are shrunk together, with their parts. */
typedef struct Batch
{
	int			n;
	Shrinking **of;
	HoldPart  **parts;
	int		   *nparts;
} Batch;

static Batch batch_of(Shrinking *all, int n);
static Values batch_args(const Batch *batch);
static void keep(Batch *batch, const bool *which);
static void lock_holds(Batch *batch);
static void shrink_others(Batch *batch);
static void lock_parts(Batch *batch);
static void shrink(const Batch *batch);
static void write_holds(const Batch *batch);

/*
 * Shrinks the holds of which no row is locked by another transaction, as one
 * operation.
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

/* Creates a batch of all holds, before any of them is read. */
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
 * Returns the holds as parameters: an array of organisations and one of
 * numbers.
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

/* Keeps only some of the holds in the batch. */
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
 * Locks the holds that no other transaction has locked, and removes all other
 * holds from the batch.
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
 * Shrinks the holds that have budgets or slices, and removes them from the
 * batch.
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
 * Locks the buckets of the parts. Removes holds from the batch if a bucket of
 * theirs is locked by another transaction.
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

		/* The parts of a hold follow each other. */
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

/* Divides the parts of the locked holds, and writes all changes. */
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
	LedgerPostReturns(postings, batch->n);
	write_holds(batch);
}

/* Writes the holds' rows in their present state. */
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
