/*-------------------------------------------------------------------------
 *
 * compat.h
 *		What differs between PostgreSQL versions.
 *
 * The extension compiles against PostgreSQL 15 to 18.  This file, compat.c and
 * types/entry.h hold all differences.  Where possible, older servers get the
 * names of newer ones.  A file that uses a macro includes the server's header
 * for it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_COMPAT_H
#define GPUCREDIT_COMPAT_H

#include "types/entry.h"

/*
 * PostgreSQL 16 and later free the result of a check hook with guc_free(), so
 * it must come from guc_malloc().
 */
#if PG_VERSION_NUM < 160000
#define guc_malloc(elevel, size)	malloc(size)
#define guc_free(pointer)	free(pointer)
#endif

/*
 * The decoder of PostgreSQL 16 and later has one more argument, which receives
 * details about a malformed text.
 */
#if PG_VERSION_NUM < 160000
#define CompatDecodeDateTime(...)	DecodeDateTime(__VA_ARGS__)
#else
#define CompatDecodeDateTime(...) \
	DecodeDateTime(__VA_ARGS__, &(DateTimeErrorExtra) {0})
#endif

/*
 * Acquires a lock if it is free.  Raises no error if the lock table is full.
 */
#if PG_VERSION_NUM < 180000
#define CompatLockIfRoom(tag, mode) \
	LockAcquireExtended(tag, mode, false, true, false, NULL)
#else
#define CompatLockIfRoom(tag, mode) \
	LockAcquireExtended(tag, mode, false, true, false, NULL, false)
#endif

/* PostgreSQL 17 added an argument that asks for stronger modes as well. */
#if PG_VERSION_NUM < 170000
#define CompatLockHeldByMe(tag, mode)	LockHeldByMe(tag, mode)
#else
#define CompatLockHeldByMe(tag, mode)	LockHeldByMe(tag, mode, false)
#endif

/*
 * PostgreSQL 17 numbers processes instead of backends, and keeps a process's
 * virtual transaction id in one struct.  In all versions the holder of a lock
 * may be a prepared transaction instead of a process.
 */
#if PG_VERSION_NUM < 170000
#define MyProcNumber	(MyProc->pgprocno)
#define MyLocalTransactionId	(MyProc->lxid)
#define VxidProcess(vxid)	((vxid).backendId)
#define LockHolder(lock) \
	((VirtualTransactionId) {(lock)->backend, (lock)->lxid})
#else
#define MyLocalTransactionId	(MyProc->vxid.lxid)
#define VxidProcess(vxid)	((vxid).procNumber)
#define LockHolder(lock)	((lock)->vxid)
#endif

extern int	CompatPinSearchPath(void);
extern void CompatUnpinSearchPath(int level);

/* number of pages that the notification queue may have */
#if PG_VERSION_NUM < 170000
#define NOTIFY_QUEUE_PAGES	1048575
#else
#define NOTIFY_QUEUE_PAGES	max_notify_queue_pages
#endif

#endif							/* GPUCREDIT_COMPAT_H */
