/*-------------------------------------------------------------------------
 *
 * args.h
 *		Arguments of entry points, checked as they are read, and results.
 *
 * Each function checks one thing and raises one code, 22023 unless noted, with
 * the argument's name in SQL.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ARGS_H
#define GPUCREDIT_ARGS_H

#include "fmgr.h"
#include "funcapi.h"
#include "util/sql.h"

#define ARG_NAME_MAX	255		/* bytes of an org, account, key, pool, ... */
#define ARG_TEXT_MAX	8192	/* bytes of any other text, or of a jsonb */

/* Names: never null, never empty, at most 255 bytes, no control character. */
extern char *ArgName(FunctionCallInfo fcinfo, int n, const char *name);
extern char *ArgNameOrNull(FunctionCallInfo fcinfo, int n, const char *name);

/* An array of names, none of them null. */
extern const char **ArgNames(FunctionCallInfo fcinfo, int n, const char *name,
							 int *count);

/* A key may have any character. */
extern char *ArgKey(FunctionCallInfo fcinfo, int n, const char *name);

/* Names, but '' is valid (account). */
extern char *ArgPath(FunctionCallInfo fcinfo, int n, const char *name);

/* Other texts: at most 8 kB. */
extern char *ArgText(FunctionCallInfo fcinfo, int n, const char *name);
extern char *ArgTextOrNull(FunctionCallInfo fcinfo, int n, const char *name);

extern int64 ArgInt8(FunctionCallInfo fcinfo, int n, const char *name,
					 int64 least, int64 most);
extern int32 ArgInt4(FunctionCallInfo fcinfo, int n, const char *name,
					 int32 least, int32 most);
extern bool ArgBool(FunctionCallInfo fcinfo, int n, const char *name);
extern bytea *ArgSha256(FunctionCallInfo fcinfo, int n, const char *name);
extern Jsonb *ArgObject(FunctionCallInfo fcinfo, int n, const char *name);

/* Amounts: 22003 if credits cannot hold it, 22023 for the wrong sign. */
extern Credits ArgAmount(FunctionCallInfo fcinfo, int n, const char *name,
						 bool zero_ok);

/* Microseconds; months and years are 22023. */
extern int64 ArgDuration(FunctionCallInfo fcinfo, int n, const char *name,
						 bool zero_ok);
extern int64 ArgDurationOr(FunctionCallInfo fcinfo, int n, const char *name,
						   bool zero_ok, int64 otherwise);

/* A finite instant, or DT_NOBEGIN for null. */
extern TimestampTz ArgTimeOrNull(FunctionCallInfo fcinfo, int n,
								 const char *name);
extern void ArgNotNull(FunctionCallInfo fcinfo, int n, const char *name);

/* One of a list of words; returns its index. */
extern int	ArgWord(const char *value, const char *name,
					const char *const *words, int nwords);

/* The caller: the login or SET ROLE role, not the definer. */
extern char *CallerName(void);
extern bool CallerHasRole(const char *role);
extern bool CallerIsSuperuser(void);

/* Result rows. */
extern TupleDesc RowType(FunctionCallInfo fcinfo);
extern Datum RowReturn(FunctionCallInfo fcinfo, const Values *row);
extern Datum RowReturnRecord(FunctionCallInfo fcinfo, const Values *row);
extern void RowPut(ReturnSetInfo *rsinfo, const Values *row);

#endif							/* GPUCREDIT_ARGS_H */
