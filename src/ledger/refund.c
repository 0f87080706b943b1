/*-------------------------------------------------------------------------
 *
 * refund.c
 *		Refunds spent credit to the buckets from which it came, last spent
 *		first.
 *
 * A job spends from one hold after another, and from each hold the parts in
 * the order drawn. A refund begins with the newest hold, and with its last
 * part. The credit returns to the bucket from which the part was drawn. In a
 * bucket that has expired or was revoked it lapses. Only holds with captured
 * credit are changed, so the job may wait or run meanwhile.
 *
 * A hold's parts change only under the hold's lock. So the share of each hold
 * is known before any budget or bucket is locked.
 *
 * Locks: holds by id, then budgets leaf to root, then buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "ledger/refund.h"
#include "ledger/slice.h"
#include "miscadmin.h"

/* The share of one hold in a refund, and the parts that it comes from. */
typedef struct Share
{
	Hold	   *hold;
	HoldShares	budgets;		/* the budgets in which the hold was counted */
	Credits		amount;
	int			n;
	Move	   *moves;
	TimestampTz *expiries;		/* when the buckets of the moves expire */
} Share;

SQL_STATEMENT(parts_spent, SPI_OK_SELECT, "text, bigint",
			  "SELECT p.part, p.bucket, p.spent FROM gpucredit.hold_part p"
			  " WHERE p.org = $1 AND p.hold = $2"
			  "  AND p.spent OPERATOR(gpucredit.>) '0'"
			  " ORDER BY p.part DESC");
SQL_STATEMENT(buckets_lock, SPI_OK_SELECT, "text, bigint[]",
			  "SELECT b.bucket, b.expires_at, b.closed_at IS NOT NULL,"
			  " b.spread FROM ROWS FROM (pg_catalog.unnest($2))"
			  "  WITH ORDINALITY AS u (bucket, n)"
			  " JOIN gpucredit.bucket b ON b.bucket = u.bucket"
			  " WHERE b.org = $1 AND" SEARCH_EACH("u.n")
			  " ORDER BY" BURN_ORDER " FOR NO KEY UPDATE OF b");
SQL_STATEMENT(hold_refunded, SPI_OK_UPDATE,
			  "text, bigint, gpucredit.credits",
			  "UPDATE gpucredit.hold h SET"
			  " captured = h.captured OPERATOR(gpucredit.-) $3,"
			  " refunded = h.refunded OPERATOR(gpucredit.+) $3"
			  " WHERE h.org = $1 AND h.hold = $2");

static Credits allocate_share(Share *share, Credits amount);
static void lock_budgets(const char *org, Share *shares, int n);
static void aim(const char *org, Share *shares, int n, TimestampTz *at);
static void aim_share(Share *share, SqlResult bucket);
static void finish_share(Share *share, const Cause *cause, TimestampTz at);

/*
 * Refunds an amount that locked holds have spent.  *at is set to the instant.
 */
Returned
HoldsRefund(Hold *holds, int n, const Cause *cause, Credits amount,
			TimestampTz *at)
{
	Share	   *shares = palloc(sizeof(Share) * Max(n, 1));
	int			nshares = 0;
	Credits		missing = amount;
	Returned	returned = {0, 0};

	for (int i = 0; i < n && missing > 0; i++)
	{
		shares[nshares].hold = &holds[i];
		missing -= allocate_share(&shares[nshares++], missing);
	}
	Ensure(missing == 0 && nshares > 0, "A refund passes what was spent.");

	lock_budgets(holds[0].org, shares, nshares);
	aim(holds[0].org, shares, nshares, at);
	for (int i = 0; i < nshares; i++)
	{
		for (int j = 0; j < shares[i].n; j++)
		{
			const Move *move = &shares[i].moves[j];

			if (move->target == AVAILABLE)
				returned.released += move->amount;
			else
				returned.lapsed += move->amount;
		}
		finish_share(&shares[i], cause, *at);
	}
	return returned;
}

/*
 * Allocates up to an amount of what a hold has spent, last part first. Returns
 * the amount allocated.
 */
static Credits
allocate_share(Share *share, Credits amount)
{
	SqlResult	rows = SqlRun(&parts_spent,
							  VALUES(TextValue(share->hold->org),
									 Int8Value(share->hold->hold)));

	share->amount = 0;
	share->n = 0;
	share->moves = palloc(sizeof(Move) * Max(rows.n, 1));
	share->expiries = palloc(sizeof(TimestampTz) * Max(rows.n, 1));
	for (uint64 i = 0; i < rows.n && share->amount < amount; i++)
	{
		Credits		part = Min(SqlCredits(rows, i, 3),
							   amount - share->amount);

		share->moves[share->n++] = (Move)
		{
			SqlInt8(rows, i, 2), SqlInt4(rows, i, 1), SPENT, AVAILABLE, part, 0
		};
		share->amount += part;
	}
	SqlFree(&rows);
	return share->amount;
}

/* Locks the counters of all budgets in which the holds were counted. */
static void
lock_budgets(const char *org, Share *shares, int n)
{
	AccountPath none = {.org = org};
	int64	   *ids = palloc(sizeof(int64) * n);

	for (int i = 0; i < n; i++)
		ids[i] = shares[i].hold->hold;
	if (n > 1)
	{
		BudgetSet	of_none;

		BudgetLockUnion(&none, ids, n, ClockNow(), &of_none);
	}
	for (int i = 0; i < n; i++)
		(void) BudgetLockHold(shares[i].hold, true, &shares[i].budgets);
}

/*
 * Locks the buckets of all shares, and chooses the compartment to which each
 * share returns, as of an instant after the last lock.
 */
static void
aim(const char *org, Share *shares, int n, TimestampTz *at)
{
	int			nbuckets = 0;
	int64	   *buckets;
	Portal		portal;

	for (int i = 0; i < n; i++)
		nbuckets += shares[i].n;
	buckets = palloc(sizeof(int64) * Max(nbuckets, 1));
	nbuckets = 0;
	for (int i = 0; i < n; i++)
		for (int j = 0; j < shares[i].n; j++)
			buckets[nbuckets++] = shares[i].moves[j].bucket;

	portal = SqlCursor(&buckets_lock,
					   VALUES(TextValue(org),
							  Int8ArrayValue(buckets, nbuckets)));
	while (true)
	{
		SqlResult	row = SqlFetch(portal);
		Credits		available;

		CHECK_FOR_INTERRUPTS();
		if (row.n == 0)
			break;
		(void) SlicesLock(org, SqlInt8(row, 0, 1), SqlInt4(row, 0, 4), true,
						  &available);
		for (int i = 0; i < n; i++)
			aim_share(&shares[i], row);
		SqlFree(&row);
	}
	SPI_cursor_close(portal);
	*at = ClockNow();
	for (int i = 0; i < n; i++)
		for (int j = 0; j < shares[i].n; j++)
			if (shares[i].moves[j].target == AVAILABLE &&
				shares[i].expiries[j] <= *at)
				shares[i].moves[j].target = EXPIRED;
}

/*
 * Chooses the slice or the bucket's row to which the moves of one locked
 * bucket return.
 */
static void
aim_share(Share *share, SqlResult bucket)
{
	for (int i = 0; i < share->n; i++)
	{
		Move	   *move = &share->moves[i];

		if (move->bucket != SqlInt8(bucket, 0, 1))
			continue;
		move->target = SqlBool(bucket, 0, 3) ? REVOKED : AVAILABLE;
		move->slice = share->hold->sliced ?
			SliceOf(share->hold->hold, SqlInt4(bucket, 0, 4)) : 0;
		share->expiries[i] = SqlTimeOr(bucket, 0, 2, DT_NOEND);
	}
}

/*
 * Posts what one hold refunds, and updates the budgets and sums that count
 * what it has spent.
 */
static void
finish_share(Share *share, const Cause *cause, TimestampTz at)
{
	Hold	   *hold = share->hold;
	Posting		posting = {.org = hold->org, .account = hold->account,
		.cause = cause, .hold = hold->hold, .at = at, .trace = hold->trace,
		.n = share->n,
		.moves = share->moves};

	LedgerPost(&posting);
	BudgetRefund(hold, &share->budgets, share->amount);

	hold->captured -= share->amount;
	Ensure(SqlRun(&hold_refunded,
				  VALUES(TextValue(hold->org), Int8Value(hold->hold),
						 CreditsValue(share->amount))).n == 1,
		   "A hold is missing.");
	SpendAdd(hold, -share->amount, at);
}
