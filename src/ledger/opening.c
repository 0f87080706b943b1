/*-------------------------------------------------------------------------
 *
 * opening.c
 *		Credit on its way into a hold: one that is opened, or extended.
 *
 * Nearly always the first bucket in burn order has all of it, no policy caps
 * what it gives, and it is far from its end: then all of a new hold that has
 * nothing to do with the instant is written before anything is locked, and
 * the counters of budgets, and the bucket, are changed by the statement that
 * locks them.  What is left to do while others wait for the bucket is to
 * append the hold, its entry and the decision.  What that
 * relies on (enough is left, neither closed nor spread) is asked again by the
 * statements themselves, of the rows as they are once they are locked.  Where
 * they say no, what was written is taken back and the long way is gone, with
 * what is locked by now: the budgets there were, and of the buckets only those
 * that do not stand before the one that was asked.
 *
 * The long way locks first and takes after.  Of an account with slices
 * (slice.h) a hold draws in its slice if it can.
 *
 * Locks: dead holds if short, budgets leaf to root, buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/errors.h"
#include "common/sql.h"
#include "ledger/alert.h"
#include "ledger/parts.h"
#include "ledger/slice.h"
#include "utils/resowner.h"

/* Credit on its way into a hold. */
typedef struct Opening
{
	Draw	   *draw;
	BudgetSet	budgets;
	Hold	   *hold;
	const Cause *cause;
	void		(*write) (struct Opening *opening);
	int64		ttl;			/* of a caller's own, new hold */
	const Expecting *expecting; /* NULL: the caller writes nothing before */
	bool		prepared;		/* the part of a new hold is written */
	bool		taken;			/* counted and taken by what locked it */
} Opening;

SQL_STATEMENT(part_last, SPI_OK_SELECT, "text, bigint",
			  "SELECT COALESCE(pg_catalog.max(p.part), 0)"
			  " FROM gpucredit.hold_part p WHERE p.org = $1 AND p.hold = $2");

static LedgerStatus carry_out(Opening *opening);
static bool take_at_once(Opening *opening, LockedBuckets *locked);
static void prepare(Opening *opening);
static void unprepare(Opening *opening);
static void write_taken(Opening *opening);
static bool draw_in_slice(Opening *opening);
static bool write_planned(Opening *opening);
static void write_open(Opening *opening);
static void write_extension(Opening *opening);
static LedgerStatus find_credit(Draw *draw, BudgetSet *budgets);
static LedgerStatus lock_credit(Draw *draw, BudgetSet *budgets);
static void post_draw(Opening *opening, bool new, int32 last_part);
static int64 next_hold(void);
static int32 last_part(const Hold *hold);

/*
 * Draw an amount into a new hold, of a job or (ttl > 0) of a caller's own.
 * *at is the instant it was good for.
 */
LedgerStatus
HoldOpen(const AccountPath *path, const Purpose *purpose, const Cause *cause,
		 Credits amount, int64 ttl, bool wait, const Expecting *expecting,
		 Hold *hold, TimestampTz *at)
{
	Draw		draw = {.path = path, .purpose = purpose, .amount = amount,
		.wait = wait};
	Opening		opening = {&draw, .hold = hold, .cause = cause,
		.write = write_open, .ttl = ttl, .expecting = expecting};
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
	Draw		draw = {.path = path, .purpose = purpose, .hold = hold,
		.amount = amount, .wait = wait};
	Opening		opening = {&draw, .hold = hold, .cause = cause,
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
 * Find the credit, at once or in the hold's slice if it is there, else at
 * large; dead holds are released first if it takes that.  Then write what was
 * drawn.
 */
static LedgerStatus
carry_out(Opening *opening)
{
	Draw	   *draw = opening->draw;
	const Purpose *purpose = draw->purpose;
	LockedBuckets locked = {-1, NULL, NULL};
	Purpose		within;
	LedgerStatus status = LEDGER_DONE;

	if (!take_at_once(opening, &locked))
	{
		if (draw->wait && purpose->locked == NULL && locked.n < 0)
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
				opening->write(opening);
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
 * Count and take what is asked by the statements that lock it.  False: it
 * must be drawn the long way; *locked says within what, if some of it is
 * locked by now.
 */
static bool
take_at_once(Opening *opening, LockedBuckets *locked)
{
	Draw	   *draw = opening->draw;
	const AccountPath *path = draw->path;
	Credits		amount = draw->amount;

	if (!draw->wait || draw->purpose->locked != NULL || path->sliced ||
		amount == 0 || !LedgerLook(draw) ||
		!BudgetLook(path, amount, &opening->budgets))
		return false;
	if (opening->hold->hold == 0)
		opening->hold->hold = next_hold();
	prepare(opening);
	if (BudgetCountAtOnce(&opening->budgets, amount))
	{
		if (LedgerTake(path->org, draw->parts[0].bucket, amount))
		{
			write_taken(opening);
			return true;
		}
		BudgetUncount(&opening->budgets, amount);
	}
	unprepare(opening);
	*locked = LedgerFrom(draw);
	locked->budgets = &opening->budgets;
	return false;
}

/*
 * Write what can be told before anything is locked, so that nobody waits for
 * it: of a new hold its one part and what budgets count it with, and whatever
 * its caller expects.
 */
static void
prepare(Opening *opening)
{
	const Draw *draw = opening->draw;
	Hold	   *hold = opening->hold;

	if (draw->hold != NULL)
		return;
	hold->drawn = hold->held = draw->amount;
	if (opening->expecting != NULL)
		opening->expecting->write(opening->expecting->context, hold);
	LedgerOpenPart(hold, draw->parts[0].bucket);
	BudgetShare(&opening->budgets, hold->hold, true, draw->amount);
	opening->prepared = true;
}

/*
 * Take that back.
 */
static void
unprepare(Opening *opening)
{
	Hold	   *hold = opening->hold;

	if (!opening->prepared)
		return;
	LedgerDropPart(hold);
	BudgetUnshare(&opening->budgets, hold->hold);
	hold->drawn = hold->held = 0;
	opening->prepared = false;
}

/*
 * Write what was taken at once.
 */
static void
write_taken(Opening *opening)
{
	opening->draw->at = ClockAfter(opening->draw->at);
	DrawCheckTaken(opening->draw);
	opening->taken = true;
	opening->write(opening);
}

/*
 * Draw in the hold's slice.  False: it is not all there, and nothing was done
 * or (unless that never waits) locked.  What is locked here is written here:
 * a row that a subtransaction locks and another updates needs a multixact.
 */
static bool
draw_in_slice(Opening *opening)
{
	Draw	   *draw = opening->draw;
	int64		hold = opening->hold->hold;
	MemoryContext memory = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool found = false;

	if (draw->amount == 0 || !LedgerPlanSlice(draw, hold) ||
		!BudgetPlanSlice(draw->path, hold, &opening->budgets))
		return false;
	if (!draw->wait)
		return write_planned(opening);
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(memory);
	PG_TRY();
	{
		found = write_planned(opening);
		if (found)
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
	return found;
}

/*
 * Lock what was planned in the hold's slice, and write it.  What has too
 * little is not followed by a wait for another: it stays locked until the
 * subtransaction ends.
 */
static bool
write_planned(Opening *opening)
{
	Draw	   *draw = opening->draw;
	TakeStatus	taken = opening->budgets.n > 0 ? TAKE_BUSY :
		LedgerTakePlanned(draw);

	if (taken == TAKE_DONE)
	{
		write_taken(opening);
		return true;
	}
	if (taken == TAKE_SHORT ||
		!BudgetLockPlanned(&opening->budgets, draw->amount, draw->wait) ||
		!LedgerLockPlanned(draw))
		return false;
	opening->write(opening);
	return true;
}

/*
 * Write a new hold and what it draws.
 */
static void
write_open(Opening *opening)
{
	Draw	   *draw = opening->draw;
	Hold	   *hold = opening->hold;

	if (hold->hold == 0)
		hold->hold = next_hold();
	hold->drawn = hold->held = draw->amount;
	hold->expires_at = opening->ttl > 0 ? ClockAdd(draw->at, opening->ttl) :
		DT_NOEND;
	hold->counted = opening->budgets.n > 0;
	BudgetTake(&opening->budgets, hold->hold, true, draw->amount, draw->at);
	post_draw(opening, true, 0);
}

/*
 * Write what an extension draws.
 */
static void
write_extension(Opening *opening)
{
	Draw	   *draw = opening->draw;
	Hold	   *hold = opening->hold;

	hold->counted |= opening->budgets.n > 0;
	BudgetTake(&opening->budgets, hold->hold, false, draw->amount,
			   draw->at);
	post_draw(opening, false, last_part(hold));
}

/*
 * Lock the budgets that must allow a draw, and the buckets it comes from.
 * Short of either, dead holds that can be had without waiting are released,
 * and it is tried once more.
 */
static LedgerStatus
find_credit(Draw *draw, BudgetSet *budgets)
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
lock_credit(Draw *draw, BudgetSet *budgets)
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
post_draw(Opening *opening, bool new, int32 last_part)
{
	Draw	   *draw = opening->draw;
	Hold	   *hold = opening->hold;
	Move	   *moves = palloc(sizeof(Move) * Max(draw->nparts, 1));
	Posting		posting = {.org = draw->path->org, .account = hold->account,
		.cause = opening->cause, .hold = hold->hold, .at = draw->at,
		.trace = hold->trace, .n = draw->nparts, .moves = moves,
		.taken = opening->taken, .parted = opening->prepared};

	if (!opening->taken)
		LedgerEven(draw);
	for (int i = 0; i < draw->nparts; i++)
		moves[i] = (Move)
	{
		draw->parts[i].bucket, last_part + 1 + i, AVAILABLE, HELD,
			draw->parts[i].amount, draw->parts[i].slice
	};
	if (new)
		LedgerOpen(hold, &posting);
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
