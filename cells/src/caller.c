/*-------------------------------------------------------------------------
 *
 * caller.c
 *		Determines as whom a router calls the cells: reconnect() and
 *		was_introduced().
 *
 * A backend of a router has one connection to each cell, which it opens as
 * role gpucredit_router. PL/Proxy's functions in schema gpucredit_proxy use
 * it. No login may call these functions or has any right on the foreign
 * server: the functions of this extension run them with their owner's rights.
 *
 * Before the first call of a caller, the router introduces the caller: it
 * calls gpucredit_cells.act_as(login, role) in the cell. The cell checks both
 * names and sets the role, which the connection keeps. So the names come from
 * the router's session and not from an argument, and the cell checks every
 * other right. A router's superuser is no superuser in a cell: it calls as
 * gpucredit_admin.
 *
 * This file remembers as whom each connection was introduced. After a call
 * that failed this is unknown, because PL/Proxy may open another connection
 * for the next call. It is also unknown after a change of the foreign server
 * or of its user mapping. In these cases the caller is introduced again.
 *
 * If a cell closes a connection, PL/Proxy opens a new one as gpucredit_router,
 * which has no rights: the call fails with 42501, and try_again() calls
 * was_introduced() and repeats the call.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "caller.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "proxy.h"
#include "util/compat.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(gpucredit_cells_reconnect);
PG_FUNCTION_INFO_V1(gpucredit_cells_was_introduced);

#define SERVER		"gpucredit_cells"
#define SUPERUSER	"gpucredit_admin"	/* the role as which a superuser calls */
#define MAX_CELLS	1000

/* As whom a cell was told that this backend calls. */
typedef struct Introduction
{
	Oid			login;			/* the session's user */
	Oid			role;			/* the role of SET ROLE, or the session's user */
	bool		in_doubt;		/* a call is under way, or did not end well */
	bool		was_known;		/* that call relied on an earlier introduction */
} Introduction;

static Introduction introductions[MAX_CELLS];
static int	n_cells = 0;		/* 0 if not known */

static void server_changed(Datum arg, int cacheid, uint32 hashvalue);
static void count_cells(void);
static int	cell_of(int number);
static Oid	owner_of(Oid function);
static void introduce(int cell);
static void call_act_as(int cell, const char *login, const char *role);

/*
 * Introduces the caller to a cell, or to all cells, and switches to the
 * function's owner. After an error, the abort of the transaction restores the
 * user.
 */
Caller
CallerEnter(Oid function, int number)
{
	Caller		caller = {.cell = ALL_CELLS};
	Oid			owner = owner_of(function);

	GetUserIdAndSecContext(&caller.user, &caller.security);
	SetUserIdAndSecContext(owner,
						   caller.security | SECURITY_LOCAL_USERID_CHANGE);
	count_cells();
	if (number != ALL_CELLS)
		introduce(caller.cell = cell_of(number));
	else
	{
		for (int i = 0; i < n_cells; i++)
			introduce(i);
	}
	return caller;
}

void
CallerLeave(Caller caller)
{
	int			first = caller.cell == ALL_CELLS ? 0 : caller.cell;
	int			last = caller.cell == ALL_CELLS ? n_cells - 1 : caller.cell;

	for (int i = first; i <= last; i++)
		introductions[i].in_doubt = false;
	SetUserIdAndSecContext(caller.user, caller.security);
}

/*
 * reconnect(number): introduces the caller again after a call that failed.
 * PL/Proxy then reports the dropped connection to this function, and not to
 * the caller's next call.
 */
Datum
gpucredit_cells_reconnect(PG_FUNCTION_ARGS)
{
	CallerLeave(CallerEnter(fcinfo->flinfo->fn_oid, PG_GETARG_INT32(0)));
	PG_RETURN_VOID();
}

/*
 * was_introduced(number): whether the last call of a cell relied on an
 * introduction by an earlier call. A null number means all cells.
 */
Datum
gpucredit_cells_was_introduced(PG_FUNCTION_ARGS)
{
	bool		was_known = false;

	count_cells();
	if (!PG_ARGISNULL(0))
		PG_RETURN_BOOL(introductions[cell_of(PG_GETARG_INT32(0))].was_known);
	for (int i = 0; i < n_cells; i++)
		was_known |= introductions[i].was_known;
	PG_RETURN_BOOL(was_known);
}

/*
 * Marks all introductions as unknown after a change of the server or of a user
 * mapping, because PL/Proxy then closes its connections, too.
 */
static void
server_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	n_cells = 0;
	for (int i = 0; i < MAX_CELLS; i++)
		introductions[i].in_doubt = true;
}

/*
 * Counts the cells that the router's server names, once after each change of
 * that server or of its user mapping.
 */
static void
count_cells(void)
{
	static bool is_registered = false;
	ForeignServer *server;
	int			n = 0;
	ListCell   *cell;

	if (n_cells > 0)
		return;
	if (!is_registered)
	{
		CacheRegisterSyscacheCallback(FOREIGNSERVEROID, server_changed,
									  (Datum) 0);
		CacheRegisterSyscacheCallback(USERMAPPINGOID, server_changed,
									  (Datum) 0);
		is_registered = true;
	}
	server = GetForeignServerByName(SERVER, false);
	foreach(cell, server->options)
	{
		const char *name = ((DefElem *) lfirst(cell))->defname;

		n += name[0] == 'p' && name[1] >= '0' && name[1] <= '9';
	}
	if (n == 0 || n > MAX_CELLS)
		ereport(ERROR,
				(errcode(MAKE_SQLSTATE('U', 'C', '7', '0', '3')),
				 errmsg("the router knows %d cells", n),
				 errdetail("It needs 1 to %d.", MAX_CELLS),
				 errhint("Call gpucredit_cells.set_cell() and gpucredit_cells.make_router().")));
	n_cells = n;
}

/* Returns the cell that PL/Proxy chooses for a number (modular_mapping). */
static int
cell_of(int number)
{
	return abs(number % n_cells);
}

/*
 * Returns the owner of a function, as whom PL/Proxy's function runs.
 */
static Oid
owner_of(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function with OID %u does not exist", function),
				 errdetail("It was dropped while it was called."),
				 errhint("Call it again once the router is made.")));
	owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * Introduces the caller to a cell, unless the cell has been told already. The
 * names are those of the session and of SET ROLE, which no function and no
 * argument can change.
 */
static void
introduce(int cell)
{
	Introduction *known = &introductions[cell];
	Oid			login = GetSessionUserId();
	Oid			role = GetOuterUserId();

	known->was_known = !known->in_doubt && known->login == login &&
		known->role == role;
	known->in_doubt = true;
	if (known->was_known)
		return;
	known->login = InvalidOid;
	if (superuser_arg(role))
		call_act_as(cell, SUPERUSER, SUPERUSER);
	else
		call_act_as(cell, GetUserNameFromId(superuser_arg(login) ? role : login,
											false),
					GetUserNameFromId(role, false));
	known->login = login;
	known->role = role;
}

static void
call_act_as(int cell, const char *login, const char *role)
{
	Oid			types[] = {INT4OID, TEXTOID, TEXTOID};
	FmgrInfo	act_as;
	int			level = NewGUCNestLevel();

	(void) set_config_option("client_min_messages", "error", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	ProxyFind("act_as", lengthof(types), types, CurrentMemoryContext, &act_as);
	(void) FunctionCall3(&act_as, Int32GetDatum(cell),
						 CStringGetTextDatum(login),
						 CStringGetTextDatum(role));
	AtEOXact_GUC(true, level);
}
