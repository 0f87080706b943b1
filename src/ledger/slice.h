/*-------------------------------------------------------------------------
 *
 * slice.h
 *		Buckets and budgets of a busy account, spread over slices: inside the
 *		ledger only.
 *
 * A bucket (a budget's counter) is its own row and the rows of its slices;
 * each figure is their sum.  A hold belongs to one slice by its number.  It
 * draws "in its slice" where each bucket that it needs, in burn order, has
 * the amount in that slice alone; then it locks that, or in its stead, if
 * another transaction has it, the next that is free and has enough, and
 * nothing else.  Otherwise it draws "at large": of each bucket it needs it
 * locks its row and all slices, and what remains is shared out evenly again.
 * So what is granted, and from which buckets, is the same as without slices.
 * What returns is added to the hold's slice, or to the bucket's row if there
 * is none: either is right.
 *
 * Spread and put together: who draws at large spreads a bucket whose account
 * has slices where each would have SLICE_WORTH times what is drawn, and puts
 * it together where one would have less than that once.  A counter likewise,
 * by what its budget leaves until it is used up or the next alert is due: so
 * neither can be passed in a slice.  Whoever changes what slices rely on
 * (revoke, set_budget, set_slices, a sweep) puts them together first.
 *
 * Locks, within the order of buckets and of budgets: the bucket's (counter's)
 * row, then its slices, then the next bucket.  A draw in a slice that finds
 * too little in what it locked must let go of it, as the rows it needs then
 * stand before: it runs in a subtransaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SLICE_H
#define GPUCREDIT_SLICE_H

#include "ledger/budget.h"
#include "ledger/post.h"

#define MOST_SLICES		64
#define SLICE_WORTH		4

/* Which of n slices a hold belongs to; 0: there are none. */
static inline int32
SliceOf(int64 hold, int32 n)
{
	return n == 0 ? 0 : (int32) (hold % n) + 1;
}

/*
 * A slice "s" of a bucket that nobody has locked and that had an amount when
 * the statement began, the next from a given one: of $1 org, $2 bucket, $3
 * slice, $4 spread, $5 amount.  What it has by now is for the caller to see.
 * Were that asked here, one that has less would be passed over but stay
 * locked, out of the order in which others are then waited for.
 */
#define SLICE_FREE \
	" FROM gpucredit.bucket_slice s WHERE s.org = $1 AND s.bucket = $2" \
	" AND s.slice = ANY (ARRAY(SELECT e.slice FROM gpucredit.bucket_slice e" \
	"  WHERE e.org = $1 AND e.bucket = $2" \
	"  AND e.available OPERATOR(gpucredit.>=) $5))" \
	" ORDER BY ($4 + s.slice - $3) % $4 LIMIT 1" \
	" FOR NO KEY UPDATE SKIP LOCKED"

/* What an amount, shared out, makes of slices. */
static inline bool
SlicesWorth(Credits share, Credits amount, int32 spread)
{
	return spread > 0 ? share >= amount : share / SLICE_WORTH >= amount;
}

/* slice.c */
extern bool SlicesLock(const char *org, int64 bucket, int32 spread, bool wait,
					   Credits *available);
extern int32 SliceLockForReturn(const char *org, int64 bucket, int64 hold,
								int32 spread, bool wait, bool *closed);

/* budget_slice.c */
extern bool CountLockSlices(const char *org, BudgetCount *count, bool wait);
extern bool CountLockSlice(const char *org, BudgetCount *count,
						   Credits amount, bool wait);
extern void CountTakeSlice(const char *org, const BudgetCount *count,
						   Credits amount);
extern void CountEven(const char *org, const BudgetCount *count,
					  Credits amount);
extern bool SharesLockSlices(const Hold *hold, bool wait, HoldShares *shares);
extern void ShareReturnSlice(const char *org, const HoldShare *share);
extern void BudgetFold(const char *org, const char *account,
					   const char *period, bool all);

#endif							/* GPUCREDIT_SLICE_H */
