/*-------------------------------------------------------------------------
 *
 * definer.c
 *		Act as a function's owner without the catalogue's SECURITY DEFINER.
 *
 * SECURITY DEFINER with SET search_path costs a heartbeat a tenth of its time:
 * 47.2 us of processor time instead of 43.0 (docs/decisions/internals.md).  The
 * setting takes nearly all of that: a level of the GUC stack, a parsed text, a
 * path computed twice.  The target of docs/benchmarks.md, 0.6 of a bare update
 * without waiting for the disk, is out of reach with it.
 *
 * The one function that callers run so often enters and leaves here instead,
 * with the same effect: the user is the function's owner, SET ROLE is off, and
 * the search path is pg_catalog, then pg_temp.  Other functions use the same
 * path, so they share plans.  After an error, the abort restores user and
 * path, as for the catalogue's form.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "util/compat.h"
#include "util/definer.h"
#include "miscadmin.h"
#include "utils/syscache.h"

static Oid	owner_of(Oid function);

Definer
DefinerEnter(FunctionCallInfo fcinfo)
{
	Definer		definer;

	GetUserIdAndSecContext(&definer.caller, &definer.security);
	SetUserIdAndSecContext(owner_of(fcinfo->flinfo->fn_oid),
						   definer.security | SECURITY_LOCAL_USERID_CHANGE);
	definer.path = CompatPinSearchPath();
	return definer;
}

void
DefinerLeave(Definer definer)
{
	CompatUnpinSearchPath(definer.path);
	SetUserIdAndSecContext(definer.caller, definer.security);
}

static Oid
owner_of(Oid function)
{
	HeapTuple	tuple = FunctionRow(function);
	Oid			owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;

	ReleaseSysCache(tuple);
	return owner;
}

/*
 * The pg_proc row of the running function; the caller releases it. Another
 * session may drop the function during the call.
 */
HeapTuple
FunctionRow(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function with OID %u does not exist", function),
				 errdetail("It was dropped while it was called."),
				 errhint("Call it again once gpucredit is installed.")));
	return tuple;
}
