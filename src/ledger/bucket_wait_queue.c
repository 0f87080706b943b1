/*-------------------------------------------------------------------------
 *
 * bucket_wait_queue.c
 *		Holds that want one bucket queue for it.
 *
 * A waiter for a row's update wakes at each commit, finds a newer version, and
 * waits for that one: of sixteen waiters, fifteen wake only to sleep again.  So
 * a hold queues for its bucket first, by an advisory lock that passes to the
 * next waiter at the end of a transaction.  Nothing relies on this lock: row
 * locks decide.
 *
 * Two kinds of transaction skip the queue.  One above READ COMMITTED must begin
 * again after any wait.  One that may have the bucket locked already, by an
 * earlier call, would deadlock with the first waiter.
 *
 * Locks: the queue; before budgets and buckets.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "ledger/post.h"
#include "util/lock_class.h"

void
LedgerQueue(const char *org, int64 bucket)
{
	uint64		key = hash_combine64(hash_bytes_extended((const unsigned char *) org,
														 strlen(org), 0),
									 (uint64) bucket);

	if (!IsolationUsesXactSnapshot())
		LockClassWait(LOCK_BUCKET_QUEUE, key);
}
