/*-------------------------------------------------------------------------
 *
 * bucket_wait_queue.c
 *		Those who want one bucket stand in line.
 *
 * Whoever waits to update a row wakes each time it was updated, finds that it
 * is another version now, and waits for that: of sixteen who want a bucket
 * fifteen wake at each commit, to sleep again.  So a hold that is about to do
 * nothing but count and take stands in line for the bucket first, by a lock
 * that goes to the next at the end of a transaction.  It keeps nobody from
 * anything, and nothing relies on it: what decides is locked by row.  Above
 * READ COMMITTED nobody does, as who waited has to begin again in any case; nor
 * does a transaction that may have the bucket already, by an earlier call: who
 * is first in line would wait for it, and it for him.
 *
 * The lock is of the kind of advisory locks, in a class of its own that none
 * of the functions for these can name.
 *
 * Locks: the line; before budgets and buckets.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "ledger/post.h"
#include "miscadmin.h"
#include "storage/lock.h"

#define QUEUE_CLASS		0x6763	/* those of SQL are 1 and 2 */

void
LedgerQueue(const char *org, int64 bucket)
{
	uint64		key = hash_combine64(hash_bytes_extended((const unsigned char *) org,
														 strlen(org), 0),
									 (uint64) bucket);
	LOCKTAG		tag;

	if (IsolationUsesXactSnapshot())
		return;
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (key >> 32),
						 (uint32) key, QUEUE_CLASS);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}
