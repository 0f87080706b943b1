/*-------------------------------------------------------------------------
 *
 * hold_locked.c
 *		A hold that locks all it needs, and is written after that.
 *
 * The instant is that of the last lock.
 *
 * Locks: dead holds if short, budgets leaf to root, buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "ledger/hold_opening.h"

static LedgerStatus find_credit(HoldOpening *opening);
static LedgerStatus lock_credit(HoldDraw *draw, BudgetSet *budgets);

/*
 * Release dead holds if it takes that.  The draw is then out of what is locked
 * with them alone.
 */
void
HoldLockWithDead(HoldOpening *opening)
{
	const HoldDraw *draw = &opening->draw;

	/* with a hold locked that may be dead, too, others are not waited for */
	if (!draw->wait || opening->purpose.locked != NULL ||
		(draw->hold != NULL && draw->hold->job == 0))
		return;
	opening->locked = LedgerReclaim(draw->path, draw->purpose, draw->amount);
	if (opening->locked.n >= 0)
		opening->purpose.locked = &opening->locked;
}

/*
 * Draw at large, and write what is drawn.
 */
LedgerStatus
HoldLocked(HoldOpening *opening)
{
	const HoldDraw *draw = &opening->draw;
	LedgerStatus status = find_credit(opening);

	if (status == LEDGER_DONE)
	{
		BudgetTake(&opening->budgets, draw->amount, draw->at);
		HoldWrite(opening, false);
	}
	return status;
}

/*
 * Lock the budgets that must allow a draw, and the buckets it comes from.
 * Short of either, dead holds that can be had without waiting are released,
 * and it is tried once more.
 */
static LedgerStatus
find_credit(HoldOpening *opening)
{
	HoldDraw	again = opening->draw;
	LedgerStatus status = lock_credit(&opening->draw, &opening->budgets);

	if (status == LEDGER_DONE || !LedgerReclaimFree(again.path->org))
		return status;
	again.wait = false;			/* what is locked by now forbids it */
	status = lock_credit(&again, &opening->budgets);
	if (status == LEDGER_BUSY && opening->draw.wait)
		status = LEDGER_SHORT;
	opening->draw = again;
	return status;
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
