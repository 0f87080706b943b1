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

/* 16 frees check hooks' results with guc_free(). */
#if PG_VERSION_NUM < 160000
#define guc_malloc(elevel, size)	malloc(size)
#define guc_free(pointer)	free(pointer)
#endif

/* 16's decoder reports more about a malformed text. */
#if PG_VERSION_NUM < 160000
#define CompatDecodeDateTime(...)	DecodeDateTime(__VA_ARGS__)
#else
#define CompatDecodeDateTime(...) \
	DecodeDateTime(__VA_ARGS__, &(DateTimeErrorExtra) {0})
#endif

/* A lock, if it is free; no error if the lock table is full. */
#if PG_VERSION_NUM < 180000
#define CompatLockIfRoom(tag, mode) \
	LockAcquireExtended(tag, mode, false, true, false, NULL)
#else
#define CompatLockIfRoom(tag, mode) \
	LockAcquireExtended(tag, mode, false, true, false, NULL, false)
#endif

/* 17 can be asked for stronger modes, too. */
#if PG_VERSION_NUM < 170000
#define CompatLockHeldByMe(tag, mode)	LockHeldByMe(tag, mode)
#else
#define CompatLockHeldByMe(tag, mode)	LockHeldByMe(tag, mode, false)
#endif

/*
 * 17 numbers processes instead of backends, and keeps a process's virtual
 * transaction id in one struct.  A lock's holder may be a prepared transaction
 * in all versions.
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

/* How many pages the notification queue has. */
#if PG_VERSION_NUM < 170000
#define NOTIFY_QUEUE_PAGES	1048575
#else
#define NOTIFY_QUEUE_PAGES	max_notify_queue_pages
#endif

#endif							/* GPUCREDIT_COMPAT_H */
