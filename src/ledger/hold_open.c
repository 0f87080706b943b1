/*-------------------------------------------------------------------------
 *
 * hold_open.c
 *		Credit on its way into a hold: one that is opened, or extended.
 *
 * Nearly always the first bucket in burn order has all of it, no policy caps
 * what it gives, and it is far from its end.  Then all that a hold takes is
 * written before anything is locked: its row and part, its entry, its shares
 * of budgets, and whatever the caller writes of it.  Last the counters of
 * budgets, and then the bucket, are changed by the statement that locks them,
 * so that nobody who waits for them waits for more than that and a commit.
 * The shares of a hold that is extended are there, so they are written between:
 * who removes a budget has its counters first, and then them.
 * The instant of such a hold is that before the locks.  It is as good as one
 * after them, if the bucket has enough even without what came in since: what
 * was taken from it meanwhile only left less.
 * What else this relies on (enough is left, neither closed nor spread) is asked
 * again by the statements themselves, of the rows as they are once they are
 * locked.  Where they say no, or waited so long that the instant is not this
 * call's any more, all of it is rolled back, as it was written in a
 * subtransaction, and the slow path is gone.
 *
 * The long way locks first and takes after; the instant is that of the last
 * lock.  Of an account with slices (slice.h) a hold draws in its slice if it
 * can.
 *
 * Locks: dead holds if short, budgets leaf to root, buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/sql.h"
#include "ledger/alert.h"
#include "ledger/hold_part.h"
#include "ledger/slice.h"
#include "storage/proc.h"
#include "utils/resowner.h"

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

/* Credit on its way into a hold. */
typedef struct HoldOpening
{
	HoldDraw   *draw;
	BudgetSet	budgets;
	Hold	   *hold;
	const Cause *cause;
	void		(*write) (struct HoldOpening *opening);
	int64		ttl;			/* of a caller's own, new hold */
	const Granting *granting;	/* NULL: the caller writes nothing with it */
	bool		taken;			/* what locks the buckets takes from them */
} HoldOpening;

/* What a transaction had of them. */
typedef struct Subtransactions
{
	LocalTransactionId transaction;
	int			n;
} Subtransactions;

SQL_STATEMENT(part_last, SPI_OK_SELECT, "text, bigint",
			  "SELECT COALESCE(pg_catalog.max(p.part), 0)"
			  " FROM gpucredit.hold_part p WHERE p.org = $1 AND p.hold = $2");

static LedgerStatus carry_out(HoldOpening *opening);
static bool take_at_once(HoldOpening *opening);
static bool write_at_once(HoldOpening *opening);
static Subtransactions *subtransactions(void);
static bool draw_in_slice(HoldOpening *opening);
static bool write_planned(HoldOpening *opening);
static bool in_subtransaction(bool (*work) (HoldOpening *opening),
							  HoldOpening *opening);
static void write_open(HoldOpening *opening);
static void write_extension(HoldOpening *opening);
static LedgerStatus find_credit(HoldDraw *draw, BudgetSet *budgets);
static LedgerStatus lock_credit(HoldDraw *draw, BudgetSet *budgets);
static void post_draw(HoldOpening *opening, bool new, int32 last_part);
static int64 next_hold(void);
static int32 last_part(const Hold *hold);

/*
 * Draw an amount into a new hold, of a job or (ttl > 0) of a caller's own.
 * *at is the instant it was good for.
 */
LedgerStatus
HoldOpen(const AccountPath *path, const Purpose *purpose, const Cause *cause,
		 Credits amount, int64 ttl, bool wait, const Granting *granting,
		 Hold *hold, TimestampTz *at)
{
	HoldDraw	draw = {.path = path, .purpose = purpose, .amount = amount,
		.wait = wait};
	HoldOpening opening = {&draw, .hold = hold, .cause = cause,
		.write = write_open, .ttl = ttl, .granting = granting};
	LedgerStatus status;

	memset(hold, 0, sizeof(Hold));
	hold->org = path->org;
	hold->account = pstrdup(path->accounts[0]);
	hold->job = cause->job;
	hold->closed_at = DT_NOBEGIN;
	hold->sliced = path->sliced;
	hold->trace = TraceOr(purpose->trace);
	if (hold->sliced)
		hold->hold = next_hold();	/* says which slice */
	status = carry_out(&opening);
	*at = draw.at;
	return status;
}

/*
 * Draw more into a locked, open hold, whole or not at all.
 */
LedgerStatus
HoldExtend(Hold *hold, const AccountPath *path, const Purpose *purpose,
		   const Cause *cause, Credits amount, bool wait, TimestampTz *at)
{
	HoldDraw	draw = {.path = path, .purpose = purpose, .hold = hold,
		.amount = amount, .wait = wait};
	HoldOpening opening = {&draw, .hold = hold, .cause = cause,
		.write = write_extension};
	LedgerStatus status;

	hold->sliced |= path->sliced;
	status = carry_out(&opening);
	*at = draw.at;
	if (status != LEDGER_DONE)
		return status;
	hold->drawn = CreditsAdd(hold->drawn, amount);
	hold->held = CreditsAdd(hold->held, amount);
	HoldUpdate(hold);
	return LEDGER_DONE;
}

/*
 * Draw into a locked, open hold as much of an amount as there is, out of what
 * HoldsLockForNext() locked; returns how much.  Less than the amount: *status
 * says why.
 */
Credits
HoldExtendMost(Hold *hold, const AccountPath *path, const Purpose *purpose,
			   const Cause *cause, Credits amount, LedgerStatus *status)
{
	HoldDraw	draw = {.path = path, .purpose = purpose, .hold = hold,
		.wait = true};
	HoldOpening opening = {&draw, .hold = hold, .cause = cause};

	subtransactions()->n = MOST_SUBTRANSACTIONS;
	hold->sliced |= path->sliced;
	*status = BudgetLock(path, amount, true, purpose->locked->budgets,
						 &opening.budgets);
	draw.amount = Min(amount, BudgetRoom(&opening.budgets));
	while (draw.amount > 0 && LedgerDraw(&draw) != LEDGER_DONE)
	{
		/* a bucket's max_share is of what is drawn: less of less */
		*status = LEDGER_SHORT;
		draw.amount = 0;
		for (int i = 0; i < draw.nparts; i++)
			draw.amount += draw.parts[i].amount;
	}
	if (draw.amount > 0)
	{
		BudgetTake(&opening.budgets, draw.amount, draw.at);
		write_extension(&opening);
		hold->drawn = CreditsAdd(hold->drawn, draw.amount);
		hold->held = CreditsAdd(hold->held, draw.amount);
		HoldUpdate(hold);
		AlertDrawn(&draw);
	}
	return draw.amount;
}

/*
 * Find the credit, at once or in the hold's slice if it is there, else at
 * large; dead holds are released first if it takes that.  And write what is
 * drawn.
 */
static LedgerStatus
carry_out(HoldOpening *opening)
{
	HoldDraw   *draw = opening->draw;
	const Purpose *purpose = draw->purpose;
	LockedBuckets locked = {-1, NULL, NULL};
	Purpose		within;
	LedgerStatus status = LEDGER_DONE;

	if (!take_at_once(opening))
	{
		subtransactions()->n = MOST_SUBTRANSACTIONS;
		/* with a hold locked that may be dead, too, others are not waited for */
		if (draw->wait && purpose->locked == NULL &&
			(draw->hold == NULL || draw->hold->job != 0))
			locked = LedgerReclaim(draw->path, purpose, draw->amount);
		if (locked.n >= 0)
		{
			within = *purpose;
			within.locked = &locked;
			draw->purpose = &within;
		}
		if (!draw->path->sliced || draw->purpose->locked != NULL ||
			!draw_in_slice(opening))
		{
			status = find_credit(draw, &opening->budgets);
			if (status == LEDGER_DONE)
			{
				BudgetTake(&opening->budgets, draw->amount, draw->at);
				opening->write(opening);
			}
		}
		draw->purpose = purpose;
	}
	if (status == LEDGER_DONE)
		AlertDrawn(draw);
	else if (status == LEDGER_SHORT)
		AlertBalance(draw->path, draw->at);
	return status;
}

/*
 * Write the hold before anything is locked, if it looks as if it could be had
 * like that.  False: it must be drawn the slow path, and nothing is locked.
 */
static bool
take_at_once(HoldOpening *opening)
{
	HoldDraw   *draw = opening->draw;

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
	return in_subtransaction(write_at_once, opening);
}

/*
 * Write it, then count and take it.  False: what is locked by now says no.
 */
static bool
write_at_once(HoldOpening *opening)
{
	const HoldDraw *draw = opening->draw;
	const HoldDrawPart *part = &draw->parts[0];
	BudgetSet  *budgets = &opening->budgets;
	int64		waits = AT_ONCE_WAITS;

	if (opening->ttl > 0)
		waits = Min(waits, opening->ttl / AT_ONCE_OF_TTL);
	opening->taken = true;
	opening->write(opening);
	opening->taken = false;		/* should it come to the slow path */
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

/*
 * Draw in the hold's slice.  False: it is not all there, and nothing was done
 * or (unless that never waits) locked.  What is locked here is written here:
 * a row that a subtransaction locks and another updates needs a multixact.
 */
static bool
draw_in_slice(HoldOpening *opening)
{
	HoldDraw   *draw = opening->draw;
	int64		hold = opening->hold->hold;

	if (draw->amount == 0 || !LedgerPlanSlice(draw, hold) ||
		!BudgetPlanSlice(draw->path, hold, &opening->budgets))
		return false;
	return draw->wait ? in_subtransaction(write_planned, opening) :
		write_planned(opening);
}

/*
 * Lock what was planned in the hold's slice, and write it.  What has too
 * little is not followed by a wait for another: it stays locked until the
 * subtransaction ends.
 */
static bool
write_planned(HoldOpening *opening)
{
	HoldDraw   *draw = opening->draw;
	TakeStatus	taken = opening->budgets.n > 0 ? TAKE_BUSY :
		LedgerTakePlanned(draw);

	if (taken == TAKE_SHORT ||
		(taken == TAKE_BUSY &&
		 (!BudgetLockPlanned(&opening->budgets, draw->amount, draw->wait) ||
		  !LedgerLockPlanned(draw))))
		return false;
	if (taken == TAKE_DONE)
	{
		draw->at = ClockAfter(draw->at);
		DrawCheckTaken(draw);
	}
	opening->taken = taken == TAKE_DONE;
	BudgetTake(&opening->budgets, draw->amount, draw->at);
	opening->write(opening);
	return true;
}

/*
 * Do something in a subtransaction, which is rolled back where it comes to
 * nothing.
 */
static bool
in_subtransaction(bool (*work) (HoldOpening *opening), HoldOpening *opening)
{
	MemoryContext memory = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool done = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(memory);
	PG_TRY();
	{
		done = work(opening);
		if (done)
			ReleaseCurrentSubTransaction();
		else
			RollbackAndReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(memory);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		ReThrowError(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(memory);
	CurrentResourceOwner = owner;
	return done;
}

/*
 * Write a new hold and what it draws.
 */
static void
write_open(HoldOpening *opening)
{
	HoldDraw   *draw = opening->draw;
	Hold	   *hold = opening->hold;

	if (hold->hold == 0)
		hold->hold = next_hold();
	hold->drawn = hold->held = draw->amount;
	hold->expires_at = opening->ttl > 0 ? ClockAdd(draw->at, opening->ttl) :
		DT_NOEND;
	hold->counted = opening->budgets.n > 0;
	post_draw(opening, true, 0);
	if (opening->granting != NULL)
		opening->granting->write(opening->granting->context, hold, draw->at);
}

/*
 * Write what an extension draws.  At once, its shares of budgets come later.
 */
static void
write_extension(HoldOpening *opening)
{
	HoldDraw   *draw = opening->draw;
	Hold	   *hold = opening->hold;

	hold->counted |= opening->budgets.n > 0;
	if (!opening->taken)
		BudgetShare(&opening->budgets, hold->hold, false, draw->amount);
	post_draw(opening, false, last_part(hold));
}

/*
 * Lock the budgets that must allow a draw, and the buckets it comes from.
 * Short of either, dead holds that can be had without waiting are released,
 * and it is tried once more.
 */
static LedgerStatus
find_credit(HoldDraw *draw, BudgetSet *budgets)
{
	bool		wait = draw->wait;
	LedgerStatus status = lock_credit(draw, budgets);

	if (status == LEDGER_DONE || !LedgerReclaimFree(draw->path->org))
		return status;
	draw->wait = false;			/* what is locked by now forbids it */
	status = lock_credit(draw, budgets);
	draw->wait = wait;
	return status == LEDGER_BUSY && wait ? LEDGER_SHORT : status;
}

static LedgerStatus
lock_credit(HoldDraw *draw, BudgetSet *budgets)
{
	const LockedBuckets *locked = draw->purpose->locked;
	LedgerStatus status;

	draw->at = ClockNow();
	status = BudgetLock(draw->path, draw->amount, draw->wait,
						locked ? locked->budgets : NULL, budgets);
	return status == LEDGER_DONE ? LedgerDraw(draw) : status;
}

/*
 * Enter what was drawn, as parts in the order drawn, into a new hold or one
 * that is there.
 */
static void
post_draw(HoldOpening *opening, bool new, int32 last_part)
{
	HoldDraw   *draw = opening->draw;
	Hold	   *hold = opening->hold;
	Move	   *moves = palloc(sizeof(Move) * Max(draw->nparts, 1));
	Posting		posting = {.org = draw->path->org, .account = hold->account,
		.cause = opening->cause, .hold = hold->hold, .at = draw->at,
		.trace = hold->trace, .n = draw->nparts, .moves = moves,
		.taken = opening->taken};

	if (!opening->taken)
		LedgerEven(draw);
	for (int i = 0; i < draw->nparts; i++)
		moves[i] = (Move)
	{
		draw->parts[i].bucket, last_part + 1 + i, AVAILABLE, HELD,
			draw->parts[i].amount, draw->parts[i].slice
	};
	if (new)
		LedgerOpen(hold, &posting, &opening->budgets);
	else
		LedgerPost(&posting);
}

static int64
next_hold(void)
{
	return SqlNext("hold_hold_seq");
}

static int32
last_part(const Hold *hold)
{
	SqlArgs		args = {0};

	SqlArgText(&args, hold->org);
	SqlArgInt8(&args, hold->hold);
	return SqlInt4(SqlRun(&part_last, &args), 0, 1);
}
