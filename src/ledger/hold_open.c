/*-------------------------------------------------------------------------
 *
 * hold_open.c
 *		Credit goes into a hold: a new one, or one that is extended.
 *
 * A hold tries three ways, in this order:
 *
 *	at once		Nearly always the first bucket in burn order has it all, no
 *				policy caps what it gives, and it is far from its end.  Then the
 *				hold is written before anything is locked: its row and part, its
 *				entry, its shares of budgets, and what the caller writes with
 *				it.  Last, HoldDebit() changes the budgets' counters and then the
 *				bucket, by the statements that lock them.  So whoever waits for
 *				them waits for these statements and a commit, no more.
 *	in a slice	Of an account with slices, one slice of each bucket is locked,
 *				then the hold is written.  An unlocked look says what to lock
 *				(slice.h).
 *	locked		Budgets and as many buckets as it takes are locked, then the
 *				hold is written.
 *
 * The first two run in a subtransaction, which rolls back where a locked row
 * has less than the look said.  A caller that writes rows of its own with the
 * hold opens the first one itself: HoldWrite(), its rows, HoldDebit().
 *
 * At once, the instant is before the locks. That is as good as one after them:
 * HoldDebit() requires enough credit in the bucket without what came in since,
 * and draws since then only left less.
 *
 * An extension at once writes its shares of budgets after it has counted in
 * them: whoever removes a budget locks its counters first, then the shares.
 *
 * Locks: dead holds if short, budgets leaf to root, buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/sql.h"
#include "util/subtransaction.h"
#include "ledger/alert.h"
#include "limits/budget.h"
#include "ledger/hold_part.h"
#include "ledger/post.h"
#include "storage/proc.h"

/* How long HoldDebit() may wait before the instant is too old. */
#define AT_ONCE_WAITS	USECS_PER_SEC
#define AT_ONCE_OF_TTL	10		/* and at most this part of the hold's ttl */

/*
 * A transaction has at most so many subtransactions for holds at once: other
 * snapshots have room for 64, and read the rest from disk.
 */
#define MOST_SUBTRANSACTIONS	32

struct HoldOpening
{
	HoldDraw	draw;			/* its hold: the one to extend; NULL: new */
	Purpose		purpose;		/* the draw's */
	LockedBuckets locked;		/* with dead holds */
	BudgetSet	budgets;
	Hold	   *hold;
	const Cause *cause;
	int64		ttl;			/* of a caller's own, new hold */
};

SQL_STATEMENT(part_last, SPI_OK_SELECT, "text, bigint",
			  "SELECT COALESCE(pg_catalog.max(p.part), 0)"
			  " FROM gpucredit.hold_part p WHERE p.org = $1 AND p.hold = $2");
SQL_STATEMENT(hold_lease, SPI_OK_UPDATE, "text, bigint",
			  "UPDATE gpucredit.hold h SET leased = true"
			  " WHERE h.org = $1 AND h.hold = $2");

static bool write_then_debit(void *context);
static int *subtransactions(void);
static void lock_with_dead(HoldOpening *opening);
static bool in_slice(HoldOpening *opening);
static bool lock_then_write(void *context);
static LedgerStatus lock_credit(HoldOpening *opening);
static LedgerStatus lock_once(HoldDraw *draw, BudgetSet *budgets);
static void write_hold(HoldOpening *opening, bool taken);
static void note_leased(const Hold *hold);
static int32 last_part(const Hold *hold);
static void add_drawn(Hold *hold, Credits amount);

/*
 * Ask for a new hold, of a job or (ttl > 0) of a caller's own.  Nothing is
 * read, locked or written yet.
 */
HoldOpening *
HoldAsk(const AccountPath *path, const Purpose *purpose, const Cause *cause,
		Credits amount, int64 ttl, bool wait, Hold *hold)
{
	HoldOpening *opening = palloc0(sizeof(HoldOpening));

	*hold = (Hold)
	{
		.org = path->org, .account = pstrdup(path->accounts[0]),
			.job = cause->job, .closed_at = DT_NOBEGIN,
			.sliced = path->sliced, .leased = path->leased,
			.trace = TraceOr(purpose->trace)
	};
	if (hold->sliced)
		hold->hold = SqlNext("hold_hold_seq");	/* says which slice */
	opening->purpose = *purpose;
	opening->draw = (HoldDraw)
	{
		.path = path, .purpose = &opening->purpose, .amount = amount,
			.wait = wait
	};
	opening->hold = hold;
	opening->cause = cause;
	opening->ttl = ttl;
	return opening;
}

/*
 * Open a hold that the caller writes nothing with.  *at is the instant it was
 * good for.
 */
LedgerStatus
HoldOpen(HoldOpening *opening, TimestampTz *at)
{
	if (HoldMayBeAtOnce(opening, at) &&
		SubtransactionTry(write_then_debit, opening, NULL))
		return LEDGER_DONE;
	return HoldLocked(opening, at);
}

static bool
write_then_debit(void *context)
{
	HoldWrite(context);
	return HoldDebit(context);
}

/*
 * Draw more into a locked, open hold, whole or not at all.
 */
LedgerStatus
HoldExtend(Hold *hold, const AccountPath *path, const Purpose *purpose,
		   const Cause *cause, Credits amount, bool wait, TimestampTz *at)
{
	HoldOpening opening = {
		.draw = {.path = path, .hold = hold, .amount = amount, .wait = wait},
		.purpose = *purpose, .hold = hold, .cause = cause
	};
	LedgerStatus status;

	opening.draw.purpose = &opening.purpose;
	hold->sliced |= path->sliced;
	status = HoldOpen(&opening, at);
	if (status == LEDGER_DONE)
		add_drawn(hold, amount);
	return status;
}

/*
 * Draw as much of an amount as there is into a locked, open hold, out of what
 * HoldsLockForNext() locked; returns how much. If that is less than the
 * amount, *status says why.
 */
Credits
HoldExtendMost(Hold *hold, const AccountPath *path, const Purpose *purpose,
			   const Cause *cause, Credits amount, LedgerStatus *status)
{
	HoldOpening opening = {
		.draw = {.path = path, .purpose = purpose, .hold = hold, .wait = true},
		.hold = hold, .cause = cause
	};
	HoldDraw   *draw = &opening.draw;

	*subtransactions() = MOST_SUBTRANSACTIONS;
	hold->sliced |= path->sliced;
	*status = BudgetLock(path, amount, true, purpose->locked->budgets,
						 &opening.budgets);
	draw->amount = Min(amount, BudgetRoom(&opening.budgets));
	while (draw->amount > 0 && LedgerDraw(draw) != LEDGER_DONE)
	{
		/* max_share caps a part of the draw, so a smaller draw gets less */
		*status = LEDGER_SHORT;
		draw->amount = 0;
		for (int i = 0; i < draw->nparts; i++)
			draw->amount += draw->parts[i].amount;
	}
	if (draw->amount > 0)
	{
		BudgetDebit(&opening.budgets, draw->amount, draw->at);
		write_hold(&opening, false);
		add_drawn(hold, draw->amount);
		AlertDrawn(draw);
	}
	return draw->amount;
}

/*
 * Does an unlocked look say that the hold can be written before anything is
 * locked?  Then *at is its instant.
 */
bool
HoldMayBeAtOnce(HoldOpening *opening, TimestampTz *at)
{
	HoldDraw   *draw = &opening->draw;

	if (!draw->wait || draw->purpose->locked != NULL || draw->path->sliced ||
		draw->amount == 0 ||
		*subtransactions() >= MOST_SUBTRANSACTIONS || !LedgerFindOneBucket(draw) ||
		!BudgetReadUnlocked(draw->path, draw->amount, &opening->budgets))
		return false;
	/* no earlier than what was seen: budgets count what begins after them */
	*at = draw->at = ClockAfter(draw->at);
	if (BudgetTurned(&opening->budgets, draw->at) != NULL)
		return false;
	++*subtransactions();
	return true;
}

/*
 * Write a hold that HoldDebit() then takes, in a subtransaction of the caller.
 */
void
HoldWrite(HoldOpening *opening)
{
	write_hold(opening, true);
}

/*
 * Lock the counters and the bucket of a hold that is written, and take it from
 * them.  False: they refuse it, or the wait was too long for the instant.  Then
 * the caller rolls back.
 */
bool
HoldDebit(HoldOpening *opening)
{
	const HoldDraw *draw = &opening->draw;
	const HoldDrawPart *part = &draw->parts[0];
	BudgetSet  *budgets = &opening->budgets;
	int64		waits = AT_ONCE_WAITS;

	if (opening->ttl > 0)
		waits = Min(waits, opening->ttl / AT_ONCE_OF_TTL);
	if (draw->purpose->first)
		LedgerQueue(draw->path->org, part->bucket);
	if (!BudgetTryCount(draw->path, budgets, draw->amount, draw->at))
		return false;
	if (draw->hold != NULL)
		BudgetShare(budgets, draw->hold->hold, false, draw->amount);
	if (!LedgerDebit(draw->path->org, part->bucket, draw->amount,
					 part->credited_total) ||
		ClockNow() - draw->at > waits)
		return false;
	BudgetAlert(budgets, draw->amount, draw->at);
	AlertDrawn(draw);
	return true;
}

/*
 * How many subtransactions this transaction had for holds at once.  After a
 * hold that locked first it may have no more: a subtransaction can change a row
 * that its transaction has locked only by a multixact.
 */
static int *
subtransactions(void)
{
	static LocalTransactionId transaction = InvalidLocalTransactionId;
	static int	n;

	if (transaction != MyLocalTransactionId)
		n = 0;
	transaction = MyLocalTransactionId;
	return &n;
}

/*
 * Lock the credit, in the hold's slice or at large, and write the hold.  *at
 * is the instant.
 */
LedgerStatus
HoldLocked(HoldOpening *opening, TimestampTz *at)
{
	HoldDraw   *draw = &opening->draw;
	LedgerStatus status = LEDGER_DONE;

	*subtransactions() = MOST_SUBTRANSACTIONS;
	lock_with_dead(opening);
	if (!in_slice(opening))
	{
		status = lock_credit(opening);
		if (status == LEDGER_DONE)
		{
			BudgetDebit(&opening->budgets, draw->amount, draw->at);
			write_hold(opening, false);
		}
	}
	if (status == LEDGER_DONE)
		AlertDrawn(draw);
	else if (status == LEDGER_SHORT)
		AlertBalance(draw->path, draw->at);
	*at = draw->at;
	return status;
}

/*
 * Release dead holds if the credit is short without.  The draw then keeps to
 * what is locked with them.
 */
static void
lock_with_dead(HoldOpening *opening)
{
	const HoldDraw *draw = &opening->draw;

	/* this hold may itself be dead and locked: then wait for no other */
	if (!draw->wait || draw->purpose->locked != NULL ||
		(draw->hold != NULL && draw->hold->job == 0))
		return;
	opening->locked = LedgerReclaim(draw->path, draw->purpose, draw->amount);
	if (opening->locked.n >= 0)
		opening->purpose.locked = &opening->locked;
}

/*
 * Draw in the hold's slice.  False: the slice has too little, and nothing was
 * done or (unless the caller never waits) locked.
 *
 * The subtransaction both locks and writes: a row that one locks and another
 * updates needs a multixact.
 */
static bool
in_slice(HoldOpening *opening)
{
	HoldDraw   *draw = &opening->draw;
	int64		hold = opening->hold->hold;

	if (!draw->path->sliced || draw->purpose->locked != NULL ||
		draw->amount == 0 || !LedgerPlanSlice(draw, hold) ||
		!BudgetPlanSlice(draw->path, hold, &opening->budgets))
		return false;
	return draw->wait ? SubtransactionTry(lock_then_write, opening, NULL) :
		lock_then_write(opening);
}

/*
 * Lock what was planned in the hold's slice, and write the hold.  A slice with
 * too little stays locked until the subtransaction ends, so this does not wait
 * for another.
 */
static bool
lock_then_write(void *context)
{
	HoldOpening *opening = context;
	HoldDraw   *draw = &opening->draw;
	TakeStatus	taken = opening->budgets.n > 0 ? TAKE_BUSY :
		LedgerDebitPlanned(draw);

	if (taken == TAKE_SHORT ||
		(taken == TAKE_BUSY &&
		 (!BudgetLockPlanned(&opening->budgets, draw->amount, draw->wait) ||
		  !LedgerLockPlanned(draw))))
		return false;
	if (taken == TAKE_DONE)
	{
		draw->at = ClockAfter(draw->at);
		DrawCheckUnexpired(draw);
	}
	BudgetDebit(&opening->budgets, draw->amount, draw->at);
	write_hold(opening, taken == TAKE_DONE);
	return true;
}

/*
 * Lock the budgets that must allow a draw, and the buckets it comes from.  If
 * either is short, release the dead holds that need no wait, and try again.
 */
static LedgerStatus
lock_credit(HoldOpening *opening)
{
	HoldDraw	again = opening->draw;
	LedgerStatus status = lock_once(&opening->draw, &opening->budgets);

	if (status == LEDGER_DONE || !LedgerReclaimFree(again.path->org))
		return status;
	again.wait = false;			/* the locks taken so far forbid a wait */
	status = lock_once(&again, &opening->budgets);
	if (status == LEDGER_BUSY && opening->draw.wait)
		status = LEDGER_SHORT;
	opening->draw = again;
	return status;
}

static LedgerStatus
lock_once(HoldDraw *draw, BudgetSet *budgets)
{
	const LockedBuckets *locked = draw->purpose->locked;
	LedgerStatus status;

	draw->at = ClockNow();
	status = BudgetLock(draw->path, draw->amount, draw->wait,
						locked ? locked->budgets : NULL, budgets);
	return status == LEDGER_DONE ? LedgerDraw(draw) : status;
}

/*
 * Write what is drawn, as parts in the order drawn, into a new hold or one to
 * extend.  taken: the statement that locks a bucket takes from it, too.
 */
static void
write_hold(HoldOpening *opening, bool taken)
{
	const HoldDraw *draw = &opening->draw;
	Hold	   *hold = opening->hold;
	bool		new = draw->hold == NULL;
	Move	   *moves = palloc(sizeof(Move) * Max(draw->nparts, 1));
	Posting		posting = {.org = draw->path->org, .account = hold->account,
		.cause = opening->cause, .at = draw->at, .trace = hold->trace,
		.n = draw->nparts, .moves = moves, .taken = taken};
	int32		before = 0;

	if (new)
	{
		if (hold->hold == 0)
			hold->hold = SqlNext("hold_hold_seq");
		hold->drawn = hold->held = draw->amount;
		hold->expires_at = opening->ttl > 0 ?
			ClockAdd(draw->at, opening->ttl) : DT_NOEND;
		hold->counted = opening->budgets.n > 0;
	}
	else
	{
		hold->counted |= opening->budgets.n > 0;
		if (!taken)
			BudgetShare(&opening->budgets, hold->hold, false, draw->amount);
		before = last_part(hold);
	}
	if (!taken)
		LedgerEven(draw);
	for (int i = 0; i < draw->nparts; i++)
		moves[i] = (Move)
	{
		draw->parts[i].bucket, before + 1 + i, AVAILABLE, HELD,
			draw->parts[i].amount, draw->parts[i].slice
	};
	posting.hold = hold->hold;
	if (new)
		LedgerOpen(hold, &posting, &opening->budgets);
	else
		LedgerPost(&posting);
	if (new && hold->leased)
		note_leased(hold);
}

/*
 * A new hold is a lease's.  Few are, so the insert of all need not say so.
 */
static void
note_leased(const Hold *hold)
{
	Ensure(SqlRun(&hold_lease,
				  VALUES(TextValue(hold->org),
						 Int8Value(hold->hold))).n == 1, "A hold is missing.");
}

/*
 * The highest number of a hold's parts.
 */
static int32
last_part(const Hold *hold)
{
	return SqlInt4(SqlRun(&part_last,
						  VALUES(TextValue(hold->org),
								 Int8Value(hold->hold))), 0, 1);
}

static void
add_drawn(Hold *hold, Credits amount)
{
	hold->drawn = CreditsAdd(hold->drawn, amount);
	hold->held = CreditsAdd(hold->held, amount);
	HoldUpdate(hold);
}
