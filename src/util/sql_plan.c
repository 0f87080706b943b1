/*-------------------------------------------------------------------------
 *
 * sql_plan.c
 *		Preparing statements, and keeping their plans.
 *
 * Plans are kept (SPI_keepplan), so PostgreSQL revalidates them itself when a
 * table changes.  What it cannot survive is the types of the parameters going
 * away: when a schema is created or dropped anywhere, the generation moves on
 * and each statement is prepared again at its next use.
 *
 * A statement may run within itself, where somebody has put a trigger on one of
 * our tables that calls a function of ours.  If it is prepared again there, the
 * plan that runs outside is kept until the transaction is over.
 *
 * None is compiled by LLVM, nor is what runs within one, as functions in SQL.
 * A statement over many rows is estimated above jit_above_cost, and compiling
 * it takes a hundred times what that saves.  Whether a plan is compiled is
 * decided as it is made, so planner_hook tells those.  A public function in SQL
 * says SET jit = off instead, where it pins its search path.
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
static int	within = 0;			/* so many statements of ours run */
static planner_hook_type next_planner = NULL;

static void forget_plans(Datum arg, int cacheid, uint32 hashvalue);
static void free_retired(XactEvent event, void *arg);
static bool is_running(const SqlStatement *statement);
static PlannedStmt *plan_query(Query *query, const char *text, int options,
							   ParamListInfo params);
static void prepare(SqlStatement *statement);
static void retire(SPIPlanPtr plan);

/*
 * Watch for the schema's coming and going, and for plans of ours.
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
 * Plan a query.  One of ours is planned as it runs, for the first time or after
 * something it depends on has changed.
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
		uint64		now = generation;	/* it may move on meanwhile */

		oid = SqlTypeOid("gpucredit.credits");
		as_of = now;
	}
	return oid;
}

/*
 * Prepare and keep a statement's plan.
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
 * Does it run, further out?  After an error it may seem so until the
 * transaction is over.
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
 * A generic plan made while a table was small stays until statistics change,
 * and inside one transaction for ever: plan again whenever a statement was used
 * twice as often as when it was last planned, when the planner sees what the
 * tables have become.
 */
static inline bool
outgrown(uint64 uses)
{
	return uses > 0 && (uses & (uses - 1)) == 0;
}

/*
 * See to it that a statement has a plan, for so many parameters.  It is said to
 * run until SqlExpect().
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
 * Around what runs a statement; SqlLeave() also where that fails.
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
 * It has run: insist on the kind of result it must have.
 */
void
SqlExpect(SqlStatement *statement, int rc)
{
	statement->running--;
	if (rc != statement->expected)
		SqlRefuse(rc, statement);
}

/*
 * No statement here has another result, unless somebody put a rule on one of
 * the tables.
 */
void
SqlRefuse(int rc, const SqlStatement *statement)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("a statement of gpucredit had an unexpected result: %s",
					SPI_result_code_string(rc)),
			 errdetail("The statement is: %s", statement->text),
			 errhint("Drop whatever rule was put on the tables of "
					 "gpucredit.")));
}
