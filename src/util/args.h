/*-------------------------------------------------------------------------
 *
 * args.h
 *		Arguments of entry points, checked as they are read, and results.
 *
 * Each function checks one property of an argument.  Where it does not hold,
 * the function raises 22023 (unless noted otherwise) with the argument's SQL
 * name.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ARGS_H
#define GPUCREDIT_ARGS_H

#include "fmgr.h"
#include "funcapi.h"
#include "util/sql.h"

#define ARG_NAME_MAX	255		/* most bytes of a name: of an organisation,
								 * account, key, pool, ... */
#define ARG_TEXT_MAX	8192	/* most bytes of any other text, and of a
								 * jsonb */

/*
 * Names: not null, not empty, at most 255 bytes, and without control
 * characters.
 */
extern char *ArgName(FunctionCallInfo fcinfo, int n, const char *name);
extern char *ArgNameOrNull(FunctionCallInfo fcinfo, int n, const char *name);

/* Returns the elements of an array of names, none of which may be null. */
extern const char **ArgNames(FunctionCallInfo fcinfo, int n, const char *name,
							 int *count);

/* An idempotency key: like a name, but control characters are allowed. */
extern char *ArgKey(FunctionCallInfo fcinfo, int n, const char *name);

/* An account's path: like a name, but it may be empty. */
extern char *ArgPath(FunctionCallInfo fcinfo, int n, const char *name);

/* Texts that are no names: at most 8 kB. */
extern char *ArgText(FunctionCallInfo fcinfo, int n, const char *name);
extern char *ArgTextOrNull(FunctionCallInfo fcinfo, int n, const char *name);

extern int64 ArgInt8(FunctionCallInfo fcinfo, int n, const char *name,
					 int64 least, int64 most);
extern int32 ArgInt4(FunctionCallInfo fcinfo, int n, const char *name,
					 int32 least, int32 most);
extern bool ArgBool(FunctionCallInfo fcinfo, int n, const char *name);
extern bytea *ArgSha256(FunctionCallInfo fcinfo, int n, const char *name);
extern Jsonb *ArgObject(FunctionCallInfo fcinfo, int n, const char *name);

/*
 * Returns an amount.  Raises 22003 if it does not fit the type credits, and
 * 22023 if it has the wrong sign.
 */
extern Credits ArgAmount(FunctionCallInfo fcinfo, int n, const char *name,
						 bool zero_ok);

/*
 * Returns a duration in microseconds.  Raises 22023 if it has months or years.
 */
extern int64 ArgDuration(FunctionCallInfo fcinfo, int n, const char *name,
						 bool zero_ok);
extern int64 ArgDurationOr(FunctionCallInfo fcinfo, int n, const char *name,
						   bool zero_ok, int64 otherwise);

/* Returns a finite instant, or DT_NOBEGIN if the argument is null. */
extern TimestampTz ArgTimeOrNull(FunctionCallInfo fcinfo, int n,
								 const char *name);
extern void ArgNotNull(FunctionCallInfo fcinfo, int n, const char *name);

/* Returns the value's index in a list of allowed words. */
extern int	ArgWord(const char *value, const char *name,
					const char *const *words, int nwords);

/* The caller is the login, or the role it has SET ROLE to, not the definer. */
extern char *CallerName(void);
extern bool CallerHasRole(const char *role);
extern bool CallerIsAgent(void);
extern bool CallerIsSuperuser(void);

/*
 * Results: the type of a function's row, a row as a datum, and a row added to
 * a set.
 */
extern TupleDesc RowType(FunctionCallInfo fcinfo);
extern Datum RowReturn(FunctionCallInfo fcinfo, const Values *row);
extern Datum RowReturnRecord(FunctionCallInfo fcinfo, const Values *row);
extern void RowPut(ReturnSetInfo *rsinfo, const Values *row);

#endif							/* GPUCREDIT_ARGS_H */
