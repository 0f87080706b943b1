/*-------------------------------------------------------------------------
 *
 * lock_class.h
 *		The classes of gpucredit's advisory locks.
 *
 * A class is the last field of a lock's tag, objsubid in pg_locks.  The
 * functions of SQL only reach classes 1 and 2, so no login can take one of
 * these locks.  All last until the end of the transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LOCK_CLASS_H
#define GPUCREDIT_LOCK_CLASS_H

typedef enum LockClass
{
	LOCK_BUCKET_QUEUE = 26467,	/* key: organisation and bucket */
	LOCK_ALERT,					/* key: the alert's name */
	LOCK_CHAIN,					/* key: 0 */
	LOCK_NAME,					/* key: a name's digest; for companions */
	LOCK_EVENTS,				/* key: 0 */
	LOCK_ORGANISATION = 26567	/* key: organisation; cells/src/guard.c */
} LockClass;

extern bool LockClassTry(LockClass class, uint64 key);
extern void LockClassWait(LockClass class, uint64 key);

#endif							/* GPUCREDIT_LOCK_CLASS_H */
