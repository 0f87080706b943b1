/*-------------------------------------------------------------------------
 *
 * route.c
 *		Routes a call that names an organisation.
 *
 * Nearly all functions of a router have this body. It finds the organisation's
 * home and calls the function of the same name in schema gpucredit_proxy,
 * which PL/Proxy runs there. It calls without the executor, which would cost
 * as much as PL/Proxy itself. Other routes have bodies in PL/pgSQL
 * (sql/11_make_router.sql), which call through proxy.c.
 *
 * Each attempt is a subtransaction of its own, so that an error of the cell
 * ends only the attempt. The SQL function try_again() then decides: while the
 * organisation moves, it waits and requests another attempt; it raises any
 * other error as the cell did. A statement that is cancelled in the router
 * ends at once, and it is unknown whether the cell executed the call. The
 * caller finds out by repeating the call with the same key.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "directory.h"
#include "fmgr.h"
#include "funcapi.h"
#include "parser/parse_func.h"
#include "proxy.h"
#include "util/compat.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(gpucredit_cells_route);

#define ADDED	2				/* arguments before the caller's: number and
								 * epoch */

/*
 * The functions that a router's function calls. Kept as long as the caller's
 * query.
 */
typedef struct Route
{
	FmgrInfo	remote;
	FmgrInfo	try_again;
	bool		is_void;
	bool		is_set;
} Route;

/* A call and its target. */
typedef struct Routed
{
	Route	   *route;
	FunctionCallInfo from;
	NullableDatum number;
	NullableDatum epoch;
	Datum		result;
} Routed;

static Route *find_route(FmgrInfo *of);
static bool try_once(Routed *call, ErrorData **error);
static void call_remote(Routed *call);
static int	try_again(const Routed *call, const ErrorData *error, int tries);
static NullableDatum text_of(const char *string);

Datum
gpucredit_cells_route(PG_FUNCTION_ARGS)
{
	Routed		call = {.from = fcinfo};
	ErrorData  *error;
	int			tries = 0;

	if (fcinfo->flinfo->fn_extra == NULL)
		fcinfo->flinfo->fn_extra = find_route(fcinfo->flinfo);
	call.route = fcinfo->flinfo->fn_extra;
	if (call.route->is_set)
		InitMaterializedSRF(fcinfo, 0);
	while (!try_once(&call, &error))
		tries = try_again(&call, error, tries);
	if (call.route->is_void)
		PG_RETURN_VOID();
	if (call.route->is_set)
		return (Datum) 0;
	return call.result;
}

/*
 * Finds the functions that a function of the router calls.
 */
static Route *
find_route(FmgrInfo *of)
{
	Oid			types[FUNC_MAX_ARGS] = {INT4OID, INT8OID};
	Oid			tries[] = {TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID,
	INT8OID, INT4OID};
	Oid		   *own;
	int			n;
	Oid			result = get_func_signature(of->fn_oid, &own, &n);
	Route	   *route = MemoryContextAllocZero(of->fn_mcxt, sizeof(Route));

	if (n + ADDED > FUNC_MAX_ARGS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_ARGUMENTS),
				 errmsg("a function of the router has too many arguments"),
				 errdetail("It has %d, and at most %d can be passed on.", n,
						   FUNC_MAX_ARGS - ADDED),
				 errhint("Generate the router again with tools/cells generate.")));
	memcpy(&types[ADDED], own, sizeof(Oid) * n);
	ProxyFind(get_func_name(of->fn_oid), n + ADDED, types, of->fn_mcxt,
			  &route->remote);
	fmgr_info_cxt(LookupFuncName(list_make2(makeString("gpucredit_cells"),
											makeString("try_again")),
								 lengthof(tries), tries, false),
				  &route->try_again, of->fn_mcxt);
	route->is_void = result == VOIDOID;
	route->is_set = of->fn_retset;
	return route;
}

/*
 * Makes the call in a subtransaction, which has ended when this returns or
 * raises an error. Returns false if *error is an error that the caller
 * handles.
 */
static bool
try_once(Routed *call, ErrorData **error)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	*error = NULL;
	call->number.isnull = true;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		call_remote(call);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		*error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (*error != NULL && (*error)->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(*error);
	return *error == NULL;
}

/*
 * Calls the remote function in the organisation's home.
 */
static void
call_remote(Routed *call)
{
	FunctionCallInfo from = call->from;

	LOCAL_FCINFO(remote, FUNC_MAX_ARGS);
	HomeOf(from->args[0], &call->number, &call->epoch);
	InitFunctionCallInfoData(*remote, &call->route->remote,
							 from->nargs + ADDED, from->fncollation, NULL,
							 NULL);
	remote->args[0] = call->number;
	remote->args[1] = call->epoch;
	for (int i = 0; i < from->nargs; i++)
		remote->args[ADDED + i] = from->args[i];
	call->result = ProxyCall(remote, DatumGetInt32(call->number.value), from);
}

/*
 * Handles an error: raises it, or returns after a wait if the call is to be
 * repeated.
 */
static int
try_again(const Routed *call, const ErrorData *error, int tries)
{
	LOCAL_FCINFO(decide, 7);

	InitFunctionCallInfoData(*decide, &call->route->try_again, 7, InvalidOid,
							 NULL, NULL);
	decide->fncollation = DEFAULT_COLLATION_OID;
	decide->args[0] = text_of(unpack_sql_state(error->sqlerrcode));
	decide->args[1] = text_of(error->message);
	decide->args[2] = text_of(error->detail);
	decide->args[3] = text_of(error->hint);
	decide->args[4] = call->number;
	decide->args[5] = call->epoch;
	decide->args[6] = (NullableDatum){Int32GetDatum(tries), false};
	return DatumGetInt32(FunctionCallInvoke(decide));
}

static NullableDatum
text_of(const char *string)
{
	return (NullableDatum){CStringGetTextDatum(string ? string : ""), false};
}
