/*-------------------------------------------------------------------------
 *
 * entry.h
 *		Version differences that types and files with SQL entry points
 *		need.
 *
 * PostgreSQL 16 declares the function named in PG_FUNCTION_INFO_V1 with
 * PGDLLEXPORT; PostgreSQL 15 leaves the declaration to the file.  The library
 * is compiled with hidden visibility (the Makefile defines PGDLLEXPORT
 * accordingly). So a file with SQL entry points includes this header after
 * fmgr.h, and then writes PG_FUNCTION_INFO_V1(name) as on PostgreSQL 16.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ENTRY_H
#define GPUCREDIT_ENTRY_H

#include "fmgr.h"

#if PG_VERSION_NUM < 150000
#error "gpucredit needs PostgreSQL 15 or later"
#endif

/*
 * PostgreSQL 16 moved the macros for varlenas from postgres.h to this header.
 */
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

/*
 * PostgreSQL 18 only has pg_noreturn, which must stand before the declaration.
 */
#ifndef pg_attribute_noreturn
#define pg_attribute_noreturn() __attribute__((noreturn))
#endif

/* PostgreSQL 16 removed Abs(). */
#ifndef Abs
#define Abs(x)		((x) >= 0 ? (x) : -(x))
#endif

#endif							/* GPUCREDIT_ENTRY_H */
