/*-------------------------------------------------------------------------
 *
 * proxy.c
 *		Calls the functions that PL/Proxy runs, in schema gpucredit_proxy.
 *
 * No login may call these functions; a router's functions call them as the
 * caller of the session (caller.c). remote() is the body of the functions of
 * schema gpucredit_remote, which routes in PL/pgSQL call; remote_all() is the
 * body of those that call all cells. Each calls the function of the same name
 * and arguments in schema gpucredit_proxy.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "caller.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "proxy.h"
#include "util/compat.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(gpucredit_cells_remote);
PG_FUNCTION_INFO_V1(gpucredit_cells_remote_all);

/* try_again() changes this code back to 57014. */
#define ERRCODE_CELL_CANCELED	MAKE_SQLSTATE('U','C','7','0','6')

static Datum call_same(FunctionCallInfo fcinfo, int number);
static bool is_remote(const ErrorData *error);
static void rewrite_notice(void *arg);
static const char *after(const char *text, const char *word);
static void keep_rows(FunctionCallInfo remote, ReturnSetInfo *into);

/* remote(number, ...): calls the cell of that number. */
Datum
gpucredit_cells_remote(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the number of the cell is null"),
				 errdetail("A function of schema gpucredit_remote calls one cell."),
				 errhint("Call the function of schema gpucredit.")));
	return call_same(fcinfo, PG_GETARG_INT32(0));
}

/* remote_all(...): calls all cells; the result has the rows of each. */
Datum
gpucredit_cells_remote_all(PG_FUNCTION_ARGS)
{
	return call_same(fcinfo, ALL_CELLS);
}

/*
 * Calls the function of the same name in schema gpucredit_proxy, which
 * PL/Proxy runs in the cell of this number, with the caller's arguments and in
 * the name of the session's login and role.
 */
static Datum
call_same(FunctionCallInfo fcinfo, int number)
{
	LOCAL_FCINFO(remote, FUNC_MAX_ARGS);
	FmgrInfo   *function = fcinfo->flinfo->fn_extra;

	if (GetUserId() != GetOuterUserId())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("a router cannot pass on a call from inside a SECURITY DEFINER function"),
				 errdetail("It would reach the cell as another than the function's owner."),
				 errhint("Make the function SECURITY INVOKER, or put it into the cells.")));
	if (function == NULL)
	{
		Oid		   *types;
		int			n;

		(void) get_func_signature(fcinfo->flinfo->fn_oid, &types, &n);
		function = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt,
										  sizeof(FmgrInfo));
		ProxyFind(get_func_name(fcinfo->flinfo->fn_oid), n, types,
				  fcinfo->flinfo->fn_mcxt, function);
		fcinfo->flinfo->fn_extra = function;
	}
	if (fcinfo->flinfo->fn_retset)
		InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	InitFunctionCallInfoData(*remote, function, fcinfo->nargs,
							 fcinfo->fncollation, NULL, NULL);
	memcpy(remote->args, fcinfo->args,
		   sizeof(NullableDatum) * fcinfo->nargs);
	return ProxyCall(remote, number, fcinfo);
}

/*
 * Finds a function of gpucredit_proxy, a schema that the caller may not use.
 */
void
ProxyFind(const char *name, int nargs, const Oid *types,
		  MemoryContext context, FmgrInfo *found)
{
	Oid			schema = get_namespace_oid(PROXY_SCHEMA, false);
	oidvector  *arguments = buildoidvector(types, nargs);
	Oid			function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
										   CStringGetDatum(name),
										   PointerGetDatum(arguments),
										   ObjectIdGetDatum(schema));

	if (!OidIsValid(function))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("the router has no function \"%s\" for PL/Proxy", name),
				 errdetail("Schema gpucredit_proxy lacks it."),
				 errhint("Call gpucredit_cells.make_router().")));
	fmgr_info_cxt(function, found, context);
}

/*
 * Calls a function of gpucredit_proxy in a cell, or in all, as the caller of
 * the session. The rows of a set go into the tuplestore of "from".
 */
Datum
ProxyCall(FunctionCallInfo remote, int number, FunctionCallInfo from)
{
	Datum		result = (Datum) 0;
	Caller		caller;
	ErrorContextCallback notices = {
		.previous = error_context_stack,
		.callback = rewrite_notice,
		.arg = CurrentMemoryContext
	};

	remote->flinfo->fn_extra = NULL;	/* the state of a call that failed */
	error_context_stack = &notices;
	caller = CallerEnter(remote->flinfo->fn_oid, number);
	if (from->flinfo->fn_retset)
		keep_rows(remote, (ReturnSetInfo *) from->resultinfo);
	else
	{
		result = FunctionCallInvoke(remote);
		from->isnull = remote->isnull;
	}
	CallerLeave(caller);
	error_context_stack = notices.previous;
	return result;
}

/*
 * Whether a cell raised this error.
 */
static bool
is_remote(const ErrorData *error)
{
	return error->message != NULL &&
		strncmp(error->message, PROXY_SCHEMA ".", strlen(PROXY_SCHEMA ".")) == 0 &&
		strstr(error->message, "] REMOTE ") != NULL;
}

/*
 * Restores a notice of the cell, which arrives as a notice of PL/Proxy with a
 * prefix before each text. try_again() removes the prefix from errors.
 *
 * If the cell reports that its statement was cancelled, PL/Proxy interprets
 * that as a cancel of this session, and waits without limit for an answer that
 * it has read already. Therefore that error gets another code here.
 */
static void
rewrite_notice(void *arg)
{
	MemoryContext context = MemoryContextSwitchTo((MemoryContext) arg);
	ErrorData  *notice = CopyErrorData();
	const char *told;

	if (notice->elevel == ERROR && is_remote(notice) &&
		notice->sqlerrcode == ERRCODE_QUERY_CANCELED)
		errcode(ERRCODE_CELL_CANCELED);
	if (notice->elevel < ERROR && is_remote(notice) &&
		(told = strstr(strstr(notice->message, "] REMOTE "), ": ")) != NULL)
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

/* Returns the text without a prefix that it may have. */
static const char *
after(const char *text, const char *word)
{
	size_t		length = strlen(word);

	return strncmp(text, word, length) == 0 ? text + length : text;
}

/*
 * Copies all rows at once, because the next call to the cells overwrites them
 * in PL/Proxy.
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
	bool		is_row = type_is_rowtype(get_func_rettype(remote->flinfo->fn_oid));

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
		if (!is_row)
		{
			tuplestore_putvalues(into->setResult, into->setDesc, &value,
								 &remote->isnull);
			continue;
		}
		tuple.t_data = DatumGetHeapTupleHeader(value);
		tuple.t_len = HeapTupleHeaderGetDatumLength(tuple.t_data);
		tuplestore_puttuple(into->setResult, &tuple);
	}
	FreeExprContext(each.econtext, true);
}
