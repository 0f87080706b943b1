/*-------------------------------------------------------------------------
 *
 * budget_slice.h
 *		Slices of a budget's counter, and which slice a hold belongs to.
 *
 * ledger/slice.h explains what the slices of budgets and of buckets are for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_BUDGET_SLICE_H
#define GPUCREDIT_BUDGET_SLICE_H

#include "limits/budget.h"

#define MOST_SLICES		64
#define SLICE_WORTH		4

/*
 * Returns the number of the slice, of n, that a hold belongs to, or 0 if there
 * are no slices.
 */
static inline int32
SliceOf(int64 hold, int32 n)
{
	return n == 0 ? 0 : (int32) (hold % n) + 1;
}

/*
 * Whether slices with this share each are useful for draws of this amount.
 * Slices that exist are kept at a smaller share than new ones need.
 */
static inline bool
SlicesWorth(Credits share, Credits amount, int32 spread)
{
	return spread > 0 ? share >= amount : share / SLICE_WORTH >= amount;
}

extern bool CountLockSlices(const char *org, BudgetCount *count, bool wait);
extern bool CountLockSlice(const char *org, BudgetCount *count,
						   Credits amount, bool wait);
extern void CountDebitSlice(const char *org, const BudgetCount *count,
							Credits amount);
extern void CountEven(const char *org, const BudgetCount *count,
					  Credits amount);
extern bool SharesLockSlices(const Hold *hold, bool wait, HoldShares *shares);
extern void ShareReturnSlice(const char *org, const HoldShare *share);
extern void BudgetFold(const char *org, const char *account,
					   const char *period, bool all);

#endif							/* GPUCREDIT_BUDGET_SLICE_H */
