/*-------------------------------------------------------------------------
 *
 * slice.h
 *		Buckets and budgets of a busy account, spread over slices: inside the
 *		ledger only.
 *
 * A bucket (or a budget's counter) is its own row and the rows of its slices;
 * each figure is their sum. A hold's number says which slice is its own. It
 * draws "in its slice" if each bucket it needs, in burn order, has the amount
 * in one slice. Then it locks only that slice, or the next free one with
 * enough. Else it draws "at large": it locks the rows and all slices of the
 * buckets it needs, and shares out the rest evenly. So slices change neither
 * what is granted nor from which buckets. Credit returns to the hold's slice,
 * or to the bucket's row if there are no slices by then: both are right.
 *
 * A draw at large spreads a bucket whose account has slices if each share is
 * at least SLICE_WORTH times the draw. It puts the bucket together if a share
 * is less than the draw. For a counter, the share is of what its budget has
 * left until it is used up or the next alert is due, so no slice passes
 * either. revoke, set_budget, set_slices and the sweeps change what slices
 * rely on, so they put them together first.
 *
 * Locks, within the order of buckets and of budgets: the row, then its slices,
 * then the next bucket. A draw in a slice runs in a subtransaction: with too
 * little in the slice it must let go, since the rows it then needs come
 * before.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SLICE_H
#define GPUCREDIT_SLICE_H

#include "limits/budget_slice.h"
#include "ledger/post.h"

/*
 * A free slice "s" of a bucket that had an amount when the statement began,
 * the next from a given one. $1: org, $2: bucket, $3: slice, $4: spread, $5:
 * amount. The caller checks what it has by now. If this clause did, it would
 * skip a slice that has less, but leave it locked out of order.
 */
#define SLICE_FREE \
	" FROM gpucredit.bucket_slice s WHERE s.org = $1 AND s.bucket = $2" \
	" AND s.slice = ANY (ARRAY(SELECT e.slice FROM gpucredit.bucket_slice e" \
	"  WHERE e.org = $1 AND e.bucket = $2" \
	"  AND e.available OPERATOR(gpucredit.>=) $5))" \
	" ORDER BY ($4 + s.slice - $3) % $4 LIMIT 1" \
	" FOR NO KEY UPDATE SKIP LOCKED"

/* slice.c */
extern bool SlicesLock(const char *org, int64 bucket, int32 spread, bool wait,
					   Credits *available);
extern int32 SliceLockForReturn(const char *org, int64 bucket, int64 hold,
								int32 spread, bool wait, bool *closed);

#endif							/* GPUCREDIT_SLICE_H */
