/*-------------------------------------------------------------------------
 *
 * definer.c
 *		Acting as a function's owner without the catalogue's SECURITY DEFINER.
 *
 * SECURITY DEFINER with SET search_path costs a heartbeat a tenth of its
 * time, nearly all of it for the setting: a level of the GUC stack, the text
 * parsed, the path computed again, twice.  The one function that is called so
 * often enters and leaves here instead, and to the same effect: the user is
 * the function's owner, SET ROLE is off, and the search path is pg_catalog,
 * then pg_temp.  The path equals the one the other functions run under, so
 * they share their plans.  After an error the (sub)transaction's abort gives
 * both back, as it does for the catalogue's form.
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
	Oid			owner;

	owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * The row of pg_proc of a function that is being called, to be released.
 * Nothing keeps it from being dropped meanwhile.
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
