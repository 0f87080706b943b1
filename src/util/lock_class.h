/*-------------------------------------------------------------------------
 *
 * lock_class.h
 *		The classes of gpucredit's advisory locks.
 *
 * A class is the last field of a lock's tag, which pg_locks shows as objsubid.
 * PostgreSQL's own SQL functions only reach classes 1 and 2, so no login can
 * take a lock of the classes below.  Each lock lasts until the end of its
 * transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LOCK_CLASS_H
#define GPUCREDIT_LOCK_CLASS_H

typedef enum LockClass
{
	LOCK_BUCKET_QUEUE = 26467,	/* key: hash of the organisation and the
								 * bucket */
	LOCK_ALERT,					/* key: hash of the alert's name */
	LOCK_CHAIN,					/* key: 0, as there is one chain of seals */
	LOCK_NAME,					/* key: hash of a name; for companion
								 * extensions */
	LOCK_EVENTS,				/* key: 0, as there is one numbering of events */
	LOCK_ORGANISATION = 26567	/* key: hash of the organisation; used by
								 * cells/src/guard.c */
} LockClass;

extern bool LockClassTry(LockClass class, uint64 key);
extern void LockClassWait(LockClass class, uint64 key);

#endif							/* GPUCREDIT_LOCK_CLASS_H */
