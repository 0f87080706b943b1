/*-------------------------------------------------------------------------
 *
 * lock_class.c
 *		Advisory locks that no function of SQL can take.
 *
 * Locks: one advisory lock, until the end of the transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lock.h"
#include "util/lock_class.h"

static LOCKTAG tag_of(LockClass class, uint64 key);

/*
 * Take the lock, or return false: another transaction has it.
 */
bool
LockClassTry(LockClass class, uint64 key)
{
	LOCKTAG		tag = tag_of(class, key);

	return LockAcquire(&tag, ExclusiveLock, false, true) !=
		LOCKACQUIRE_NOT_AVAIL;
}

void
LockClassWait(LockClass class, uint64 key)
{
	LOCKTAG		tag = tag_of(class, key);

	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

static LOCKTAG
tag_of(LockClass class, uint64 key)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (key >> 32),
						 (uint32) key, class);
	return tag;
}
