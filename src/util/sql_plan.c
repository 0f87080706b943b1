/*-------------------------------------------------------------------------
 *
 * sql_plan.c
 *		Prepare statements and keep their plans.
 *
 * Plans are kept (SPI_keepplan), so PostgreSQL revalidates them when a table
 * changes.  It cannot do that once the types of the parameters are gone.  So
 * whenever a schema is created or dropped, the generation counts up, and each
 * statement is prepared again at its next use.
 *
 * A statement may run within itself, if another user's trigger on our tables
 * calls one of our functions.  If the inner run prepares it again, the outer
 * plan is kept until the transaction ends.
 *
 * LLVM compiles no statement, and no SQL function within one.  The planner's
 * cost of a statement over many rows passes jit_above_cost, but compilation
 * takes a hundred times what it saves.  The planner decides on it, so
 * planner_hook turns it off. Public functions in SQL say SET jit = off, where
 * they pin their search path.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/sql.h"
#include "jit/jit.h"
#include "optimizer/planner.h"
#include "parser/parse_type.h"
#include "storage/proc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

static uint64 generation = 1;
static List *retired = NIL;		/* plans that may run, in TopMemoryContext */
static int	within = 0;			/* how many of our statements run now */
static planner_hook_type next_planner = NULL;

static void forget_plans(Datum arg, int cacheid, uint32 hashvalue);
static void free_retired(XactEvent event, void *arg);
static bool is_running(const SqlStatement *statement);
static PlannedStmt *plan_query(Query *query, const char *text, int options,
							   ParamListInfo params);
static void prepare(SqlStatement *statement);
static void retire(SPIPlanPtr plan);

/*
 * Watch schemas and our plans.
 */
void
SqlInit(void)
{
	next_planner = planner_hook;
	planner_hook = plan_query;
	CacheRegisterSyscacheCallback(NAMESPACEOID, forget_plans, (Datum) 0);
	RegisterXactCallback(free_retired, NULL);
}

static void
forget_plans(Datum arg, int cacheid, uint32 hashvalue)
{
	generation++;
}

/*
 * Plan a query.  Our own are planned as they run: at first, and after a change
 * of what they depend on.
 */
static PlannedStmt *
plan_query(Query *query, const char *text, int options, ParamListInfo params)
{
	PlannedStmt *result = next_planner != NULL ?
		next_planner(query, text, options, params) :
		standard_planner(query, text, options, params);

	if (within > 0)
		result->jitFlags = PGJIT_NONE;
	return result;
}

/*
 * The OID of a type by name, as "bigint" or "gpucredit.credits".
 */
Oid
SqlTypeOid(const char *name)
{
	Oid			oid;
	int32		typmod;

	parseTypeString(name, &oid, &typmod, false);
	return oid;
}

/*
 * The OID of credits, looked up once.
 */
Oid
SqlCreditsType(void)
{
	static Oid	oid = InvalidOid;
	static uint64 as_of = 0;

	if (as_of != generation)
	{
		uint64		now = generation;	/* it may move on in between */

		oid = SqlTypeOid("gpucredit.credits");
		as_of = now;
	}
	return oid;
}

/*
 * Prepare a statement and keep its plan.
 */
static void
prepare(SqlStatement *statement)
{
	Oid			types[SQL_MAX_ARGS];
	char	   *list = pstrdup(statement->types);
	char	   *state = NULL;
	char	   *name;
	SPIPlanPtr	plan;
	uint64		now = generation;
	int			nargs = 0;

	for (name = strtok_r(list, ",", &state); name != NULL;
		 name = strtok_r(NULL, ",", &state))
	{
		Ensure(nargs < SQL_MAX_ARGS, "A statement has too many parameters.");
		types[nargs++] = SqlTypeOid(name);
	}

	plan = SPI_prepare_cursor(statement->text, nargs, types,
							  CURSOR_OPT_GENERIC_PLAN);
	if (plan == NULL)
		SqlRefuse(SPI_result, statement);
	SPI_keepplan(plan);
	if (statement->plan != NULL && is_running(statement))
		retire(statement->plan);
	else if (statement->plan != NULL)
		SPI_freeplan(statement->plan);
	statement->plan = plan;
	statement->nargs = nargs;
	statement->generation = now;
	pfree(list);
}

/*
 * Does an outer call run it?  After an error it may seem so until the
 * transaction ends.
 */
static bool
is_running(const SqlStatement *statement)
{
	return statement->running > 0 &&
		statement->running_in == MyLocalTransactionId;
}

/*
 * Keep a plan to the end of the transaction.
 */
static void
retire(SPIPlanPtr plan)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	retired = lappend(retired, plan);
	MemoryContextSwitchTo(old);
}

static void
free_retired(XactEvent event, void *arg)
{
	ListCell   *cell;

	if (retired == NIL || event == XACT_EVENT_PRE_COMMIT ||
		event == XACT_EVENT_PRE_PREPARE ||
		event == XACT_EVENT_PARALLEL_PRE_COMMIT)
		return;
	foreach(cell, retired)
		(void) SPI_freeplan(lfirst(cell));
	list_free(retired);
	retired = NIL;
}

/*
 * PostgreSQL keeps a generic plan until statistics change, and inside one
 * transaction for ever, even if the table was small then.  So plan again when
 * a statement has run twice as often as at its last planning.
 */
static inline bool
outgrown(uint64 uses)
{
	return uses > 0 && (uses & (uses - 1)) == 0;
}

/*
 * Make sure that a statement has a plan for so many parameters.  It counts as
 * running until SqlExpect().
 */
void
SqlReady(SqlStatement *statement, SqlArgs *args)
{
	if (unlikely(statement->plan == NULL ||
				 statement->generation != generation ||
				 outgrown(statement->uses)))
		prepare(statement);
	statement->uses++;
	if (!is_running(statement))
		statement->running = 0;
	statement->running_in = MyLocalTransactionId;
	statement->running++;
	Ensure(statement->nargs == (args ? args->n : 0),
		   "A statement was given the wrong number of parameters.");
}

/*
 * Around the run of a statement; SqlLeave() also after a failure.
 */
void
SqlEnter(void)
{
	within++;
}

void
SqlLeave(void)
{
	within--;
}

/*
 * Check the kind of result after the run.
 */
void
SqlExpect(SqlStatement *statement, int rc)
{
	statement->running--;
	if (rc != statement->expected)
		SqlRefuse(rc, statement);
}

/*
 * Only another user's rule on our tables can change the kind of result.
 */
void
SqlRefuse(int rc, const SqlStatement *statement)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("a statement of gpucredit had an unexpected result: %s",
					SPI_result_code_string(rc)),
			 errdetail("The statement is: %s", statement->text),
			 errhint("Drop any rule that was created on tables of gpucredit.")));
}
