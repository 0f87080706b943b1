/*-------------------------------------------------------------------------
 *
 * route.c
 *		Routes a call that names an organisation.
 *
 * Nearly all functions of a router have this body.  It finds the
 * organisation's home and calls the function of the same name in schema
 * gpucredit_remote, which PL/Proxy runs there.  It calls without the executor,
 * which would cost as much as PL/Proxy.  Other routes are bodies in PL/pgSQL
 * (sql/11_make_router.sql).
 *
 * Each try is a subtransaction.  After an error try_again() decides: it waits
 * where the organisation moves, and else raises the error as the cell did.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "directory.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "parser/parse_func.h"
#include "util/compat.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(gpucredit_cells_route);

#define ADDED	2				/* arguments before the caller's: number,
								 * epoch */

/* The functions that a router's function calls; kept as long as the caller's query. */
typedef struct Route
{
	FmgrInfo	remote;
	FmgrInfo	try_again;
	bool		is_void;
	bool		is_set;
} Route;

/* A call, and where it goes. */
typedef struct Routed
{
	Route	   *route;
	FunctionCallInfo from;
	NullableDatum number;
	NullableDatum epoch;
	Datum		result;
} Routed;

static Route *find_route(FmgrInfo *of);
static void find_function(const char *schema, const char *name, int n,
						  const Oid *types, MemoryContext context,
						  FmgrInfo *found);
static bool try_once(Routed *call, ErrorData **error);
static void call_remote(Routed *call);
static void tell_notice(void *arg);
static const char *after(const char *text, const char *word);
static void keep_rows(FunctionCallInfo remote, ReturnSetInfo *into);
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
 * Find what a function of the router calls.
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
	find_function("gpucredit_remote", get_func_name(of->fn_oid), n + ADDED,
				  types, of->fn_mcxt, &route->remote);
	find_function("gpucredit_cells", "try_again", lengthof(tries), tries,
				  of->fn_mcxt, &route->try_again);
	route->is_void = result == VOIDOID;
	route->is_set = of->fn_retset;
	return route;
}

static void
find_function(const char *schema, const char *name, int n, const Oid *types,
			  MemoryContext context, FmgrInfo *found)
{
	List	   *names = list_make2(makeString(pstrdup(schema)),
								   makeString(pstrdup(name)));

	fmgr_info_cxt(LookupFuncName(names, n, types, false), found, context);
}

/*
 * Call it in a subtransaction.  False: *error is the cell's error.  A
 * cancelled query is not tried again.
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
		if (geterrcode() == ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		*error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return *error == NULL;
}

/*
 * Call the remote function in the organisation's home.
 */
static void
call_remote(Routed *call)
{
	FunctionCallInfo from = call->from;

	ErrorContextCallback notices = {
		.previous = error_context_stack,
		.callback = tell_notice,
		.arg = CurrentMemoryContext
	};

	LOCAL_FCINFO(remote, FUNC_MAX_ARGS);
	HomeOf(from->args[0], &call->number, &call->epoch);
	call->route->remote.fn_extra = NULL;	/* of a try that failed */
	InitFunctionCallInfoData(*remote, &call->route->remote,
							 from->nargs + ADDED, from->fncollation, NULL,
							 NULL);
	remote->args[0] = call->number;
	remote->args[1] = call->epoch;
	for (int i = 0; i < from->nargs; i++)
		remote->args[ADDED + i] = from->args[i];
	error_context_stack = &notices;
	if (call->route->is_set)
		keep_rows(remote, (ReturnSetInfo *) from->resultinfo);
	else
	{
		call->result = FunctionCallInvoke(remote);
		if (!call->route->is_void)
			from->isnull = remote->isnull;
	}
	error_context_stack = notices.previous;
}

/*
 * A notice of the cell arrives as one of PL/Proxy, with its words before each
 * text.  They come off here; try_again() does so for errors.
 */
static void
tell_notice(void *arg)
{
	MemoryContext context = MemoryContextSwitchTo((MemoryContext) arg);
	ErrorData  *notice = CopyErrorData();
	const char *told = notice->message;

	if (notice->elevel < ERROR && told &&
		strncmp(told, "gpucredit_remote.", 17) == 0 &&
		(told = strstr(told, "] REMOTE ")) != NULL &&
		(told = strstr(told, ": ")) != NULL)
	{
		errmsg_internal("%s", told + 2);
		if (notice->detail)
			errdetail_internal("%s", after(notice->detail, "Remote detail: "));
		if (notice->hint)
			errhint("%s", after(notice->hint, "Remote hint: "));
	}
	FreeErrorData(notice);
	MemoryContextSwitchTo(context);
}

/* The text without a word that it may begin with. */
static const char *
after(const char *text, const char *word)
{
	size_t		length = strlen(word);

	return strncmp(text, word, length) == 0 ? text + length : text;
}

/*
 * Copy all rows at once: the next call to the cells overwrites them in
 * PL/Proxy.
 */
static void
keep_rows(FunctionCallInfo remote, ReturnSetInfo *into)
{
	ReturnSetInfo each = {
		.type = T_ReturnSetInfo,
		.econtext = CreateStandaloneExprContext(),
		.expectedDesc = into->setDesc,
		.allowedModes = SFRM_ValuePerCall,
		.returnMode = SFRM_ValuePerCall
	};

	remote->resultinfo = (Node *) &each;
	while (true)
	{
		HeapTupleData tuple = {0};
		Datum		value;

		CHECK_FOR_INTERRUPTS();
		remote->isnull = false;
		each.isDone = ExprSingleResult;
		value = FunctionCallInvoke(remote);
		if (each.isDone == ExprEndResult)
			break;
		tuple.t_data = DatumGetHeapTupleHeader(value);
		tuple.t_len = HeapTupleHeaderGetDatumLength(tuple.t_data);
		tuplestore_puttuple(into->setResult, &tuple);
	}
	FreeExprContext(each.econtext, true);
}

/*
 * Handle an error: raise it, or return after a wait.
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
