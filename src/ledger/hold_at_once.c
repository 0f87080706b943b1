/*-------------------------------------------------------------------------
 *
 * hold_at_once.c
 *		A hold that is written before anything is locked.
 *
 * Nearly always the first bucket in burn order has all of it, no policy caps
 * what it gives, and it is far from its end.  Then all that a hold takes is
 * written before anything is locked: its row and part, its entry, its shares
 * of budgets, and whatever the caller writes of it.  Last the counters of
 * budgets, and then the bucket, are changed by the statement that locks them,
 * so that nobody who waits for them waits for more than that and a commit.
 * The shares of a hold that is extended are there, so they are written between:
 * who removes a budget has its counters first, and then them.
 *
 * The instant of such a hold is that before the locks.  It is as good as one
 * after them, if the bucket has enough even without what came in since: what
 * was taken from it meanwhile only left less.
 *
 * What else this relies on (enough is left, neither closed nor spread) is asked
 * again by the statements themselves, of the rows as they are once they are
 * locked.  Where they say no, or waited so long that the instant is not this
 * call's any more, a subtransaction rolls all of it back.
 *
 * Locks: budgets leaf to root, then the bucket.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/compat.h"
#include "util/subtransaction.h"
#include "ledger/hold_opening.h"
#include "storage/proc.h"

/* How long a hold may have waited for its locks, and tell the instant before. */
#define AT_ONCE_WAITS	USECS_PER_SEC
#define AT_ONCE_OF_TTL	10		/* and of its own ttl at most so little a part */

/*
 * So many subtransactions one transaction may have on behalf of its holds: a
 * snapshot of others has room for 64, and reads all else from disk.  It has
 * none after a hold that locked first: what a transaction has locked, its
 * subtransaction can only change by a multixact.
 */
#define MOST_SUBTRANSACTIONS	32

/* What a transaction had of them. */
typedef struct Subtransactions
{
	LocalTransactionId transaction;
	int			n;
} Subtransactions;

static bool write_then_take(void *context);
static Subtransactions *subtransactions(void);

/*
 * Write the hold before anything is locked, if it looks as if it could be had
 * like that.  False: it must be drawn another way, and nothing is locked.
 */
bool
HoldAtOnce(HoldOpening *opening)
{
	HoldDraw   *draw = &opening->draw;

	if (!draw->wait || draw->purpose->locked != NULL || draw->path->sliced ||
		draw->amount == 0 ||
		subtransactions()->n >= MOST_SUBTRANSACTIONS || !LedgerLook(draw) ||
		!BudgetLook(draw->path, draw->amount, &opening->budgets))
		return false;
	/* no earlier than what was seen: budgets count what begins after them */
	draw->at = ClockAfter(draw->at);
	if (BudgetTurned(&opening->budgets, draw->at) != NULL)
		return false;
	subtransactions()->n++;
	return SubtransactionTry(write_then_take, opening, NULL);
}

/*
 * Write it, then count and take it.  False: what is locked by now says no.
 */
static bool
write_then_take(void *context)
{
	HoldOpening *opening = context;
	const HoldDraw *draw = &opening->draw;
	const HoldDrawPart *part = &draw->parts[0];
	BudgetSet  *budgets = &opening->budgets;
	int64		waits = AT_ONCE_WAITS;

	if (opening->ttl > 0)
		waits = Min(waits, opening->ttl / AT_ONCE_OF_TTL);
	HoldWrite(opening, true);
	if (draw->purpose->first)
		LedgerQueue(draw->path->org, part->bucket);
	if (!BudgetTryCount(draw->path, budgets, draw->amount, draw->at))
		return false;
	if (draw->hold != NULL)
		BudgetShare(budgets, draw->hold->hold, false, draw->amount);
	if (!LedgerTake(draw->path->org, part->bucket, draw->amount,
					part->credited_total) ||
		ClockNow() - draw->at > waits)
		return false;
	BudgetAlert(budgets, draw->amount, draw->at);
	return true;
}

/*
 * From here on this transaction has locked money: its later holds lock first.
 */
void
HoldAtOnceEnd(void)
{
	subtransactions()->n = MOST_SUBTRANSACTIONS;
}

/*
 * How many subtransactions this transaction had for holds that could do
 * without.
 */
static Subtransactions *
subtransactions(void)
{
	static Subtransactions had = {InvalidLocalTransactionId, 0};

	if (had.transaction != MyLocalTransactionId)
		had = (Subtransactions)
	{
		MyLocalTransactionId, 0
	};
	return &had;
}
