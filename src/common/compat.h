/*-------------------------------------------------------------------------
 *
 * compat.h
 *		What differs between PostgreSQL versions.
 *
 * The extension is written against PostgreSQL 15.  Everything that an older
 * or newer server does differently is settled here and nowhere else.
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

#endif							/* GPUCREDIT_COMPAT_H */
