/*-------------------------------------------------------------------------
 *
 * definer.c
 *		Runs code as a function's owner without the catalogue's SECURITY
 *		DEFINER.
 *
 * A heartbeat calls such a function, and SECURITY DEFINER with SET search_path
 * costs it a tenth of its time: 47.2 us of processor time instead of 43.0
 * (docs/decisions/internals.md).  Nearly all of this is due to the setting: a
 * level of the GUC stack, a text to parse, and a path that is computed twice.
 * With this cost the target of docs/benchmarks.md, 0.6 of the rate of a bare
 * update without waiting for the disk, is out of reach.
 *
 * So the one function that is called this often switches the user here, with
 * the same effect as the catalogue's form: the current user is the function's
 * owner, SET ROLE is refused, and the search path is pg_catalog, then pg_temp.
 * The other functions run with the same path, so all of them share plans.
 * After an error, the abort of the transaction restores the user and the path,
 * as it does for the catalogue's form.
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
 * Returns the pg_proc row of the running function, which the caller releases.
 * Raises an error if another session has dropped the function during the call.
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
