/*-------------------------------------------------------------------------
 *
 * slice.h
 *		Slices over which the buckets and budgets of a busy account are
 *		spread. Only files of the ledger and of its limits need them.
 *
 * A bucket (or a budget's counter) consists of its own row and the rows of its
 * slices, and each figure is their sum. A hold's number determines which slice
 * is its own. A hold is drawn "in its slice" if each bucket that it needs, in
 * burn order, has the amount in one slice. Then only that slice is locked, or
 * the next slice that is not locked and has enough. Otherwise the hold is
 * drawn "at large": the rows and all slices of the buckets that it needs are
 * locked, and what remains is distributed evenly. So slices change neither
 * what is granted nor which buckets pay. Credit returns to the hold's slice,
 * or to the bucket's row if there are no slices by then. Both give the same
 * sums.
 *
 * A draw at large spreads a bucket whose account has slices if each share is
 * at least SLICE_WORTH times the draw. It folds the slices into the bucket if
 * a share is less than the draw. For a counter, the share is of what its
 * budget has left until it is used up or the next alert is due, so no slice
 * can pass either of these points. revoke, set_budget, set_slices and the
 * sweeps change what slices depend on, so they fold the slices first.
 *
 * Locks, within the order of buckets and of budgets: the row, then its slices,
 * then the next bucket. A draw in a slice runs in a subtransaction: if the
 * slice has too little, its lock must be released, since the rows that are
 * needed then come before it in the lock order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SLICE_H
#define GPUCREDIT_SLICE_H

#include "limits/budget_slice.h"
#include "ledger/post.h"

/*
 * Selects a slice "s" that is not locked and that had an amount when the
 * statement began, beginning with a given slice. $1: org, $2: bucket, $3:
 * slice, $4: spread, $5: amount. The caller checks whether the slice still has
 * the amount. If this clause checked it, it would skip a slice that has less,
 * but leave that slice locked out of order.
 */
#define SLICE_FREE \
	" FROM gpucredit.bucket_slice s WHERE s.org = $1 AND s.bucket = $2" \
	" AND s.slice = ANY (ARRAY(SELECT e.slice FROM gpucredit.bucket_slice e" \
	"  WHERE e.org = $1 AND e.bucket = $2" \
	"  AND e.available OPERATOR(gpucredit.>=) $5))" \
	" ORDER BY ($4 + s.slice - $3) % $4 LIMIT 1" \
	" FOR NO KEY UPDATE SKIP LOCKED"

/* Defined in slice.c. */
extern bool SlicesLock(const char *org, int64 bucket, int32 spread, bool wait,
					   Credits *available);
extern int32 SliceLockForReturn(const char *org, int64 bucket, int64 hold,
								int32 spread, bool wait, bool *closed);

#endif							/* GPUCREDIT_SLICE_H */
