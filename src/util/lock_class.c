/*-------------------------------------------------------------------------
 *
 * lock_class.c
 *		Advisory locks that no login can take.
 *
 * All functions here acquire one advisory lock and keep it until the end of
 * the transaction.
 *
 * SQL functions here: lock_name.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "types/entry.h"
#include "util/lock_class.h"

PG_FUNCTION_INFO_V1(gpucredit_lock_name);

static LOCKTAG tag_of(LockClass class, uint64 key);

/*
 * Acquires the lock if it is free.  Returns false if another transaction has
 * it.
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

/*
 * lock_name(name, wait): acquires the advisory lock of a name, for companion
 * extensions.  Without `wait` it returns false if another transaction has the
 * lock.
 */
Datum
gpucredit_lock_name(PG_FUNCTION_ARGS)
{
	text	   *name = PG_GETARG_TEXT_PP(0);
	uint64		key = hash_bytes_extended((unsigned char *) VARDATA_ANY(name),
										  VARSIZE_ANY_EXHDR(name), 0);

	if (!PG_GETARG_BOOL(1))
		PG_RETURN_BOOL(LockClassTry(LOCK_NAME, key));
	LockClassWait(LOCK_NAME, key);
	PG_RETURN_BOOL(true);
}

static LOCKTAG
tag_of(LockClass class, uint64 key)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (key >> 32),
						 (uint32) key, class);
	return tag;
}
