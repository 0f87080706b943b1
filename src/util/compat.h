/*-------------------------------------------------------------------------
 *
 * compat.h
 *		What differs between PostgreSQL versions.
 *
 * The extension compiles against PostgreSQL 15 to 18.  This file and compat.c
 * hold all differences.  Where possible, older servers get the names of newer
 * ones. A file that uses a macro includes the server's header for it.
 *
 * PostgreSQL 16 declares the function named in PG_FUNCTION_INFO_V1 with
 * PGDLLEXPORT; 15 leaves that to the function.  We compile with hidden
 * visibility (the Makefile defines PGDLLEXPORT accordingly), so a file with
 * SQL entry points includes this header after fmgr.h and then writes
 * PG_FUNCTION_INFO_V1(name) as on 16.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_COMPAT_H
#define GPUCREDIT_COMPAT_H

#include "fmgr.h"

#if PG_VERSION_NUM < 150000
#error "gpucredit needs PostgreSQL 15 or later"
#endif

/* 16 moved the access to varlenas out of postgres.h. */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#if PG_VERSION_NUM < 160000
#undef PG_FUNCTION_INFO_V1
#define PG_FUNCTION_INFO_V1(funcname) \
extern PGDLLEXPORT Datum funcname(PG_FUNCTION_ARGS); \
extern PGDLLEXPORT const Pg_finfo_record * CppConcat(pg_finfo_,funcname)(void); \
const Pg_finfo_record * \
CppConcat(pg_finfo_,funcname) (void) \
{ \
	static const Pg_finfo_record my_finfo = { 1 }; \
	return &my_finfo; \
} \
extern int no_such_variable
#endif

/* 18 has pg_noreturn, only before the declaration. */
#ifndef pg_attribute_noreturn
#define pg_attribute_noreturn() __attribute__((noreturn))
#endif

/* 16 dropped Abs(). */
#ifndef Abs
#define Abs(x)		((x) >= 0 ? (x) : -(x))
#endif

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
