/*-------------------------------------------------------------------------
 *
 * hold_in_slice.c
 *		A hold of an account with slices, out of one slice of each bucket.
 *
 * An unlocked look says what to lock (slice.h).  Where that has less by now, a
 * subtransaction lets go of it: who draws from several buckets and slices
 * locks them in order.
 *
 * Locks: counters leaf to root, then buckets in burn order: of each its row,
 * or a slice.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/subtransaction.h"
#include "ledger/hold_opening.h"

static bool lock_then_write(void *context);

/*
 * Draw in the hold's slice.  False: it is not all there, and nothing was done
 * or (unless that never waits) locked.  What is locked here is written here:
 * a row that a subtransaction locks and another updates needs a multixact.
 */
bool
HoldInSlice(HoldOpening *opening)
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
 * Lock what was planned in the hold's slice, and write it.  What has too
 * little is not followed by a wait for another: it stays locked until the
 * subtransaction ends.
 */
static bool
lock_then_write(void *context)
{
	HoldOpening *opening = context;
	HoldDraw   *draw = &opening->draw;
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
	BudgetTake(&opening->budgets, draw->amount, draw->at);
	HoldWrite(opening, taken == TAKE_DONE);
	return true;
}
