/*-------------------------------------------------------------------------
 *
 * sql.c
 *		The one way from C to the database: prepared statements over SPI.
 *
 * Plans are kept (SPI_keepplan), so PostgreSQL revalidates them when a table
 * changes.  It cannot do that after the types of the parameters have been
 * dropped.  So whenever a schema is created or dropped, a generation counter
 * is increased, and each statement is prepared again at its next use.
 *
 * A statement may run within itself, if another user's trigger on our tables
 * calls one of our functions.  If the inner run prepares the statement again,
 * the outer run's plan is kept until the transaction ends.
 *
 * LLVM compiles no statement, and no SQL function called by one.  The
 * estimated cost of a statement over many rows exceeds jit_above_cost, but
 * compiling it takes a hundred times longer than it saves.  The planner
 * decides about compilation, so planner_hook switches it off.  Public
 * functions written in SQL have SET jit = off next to their SET search_path.
 *
 * SqlRun() copies every row, and each access to a column walks through the row
 * again.  A scheduling cycle reads hundreds of thousands of rows and needs a
 * few numbers of each.  So SqlEach() calls a function for each row while the
 * row is in the executor's memory.  The function must not run statements.
 *
 * SqlUpdateInOrder() determines the order in which a statement locks and
 * changes rows, which the plan of a join does not.  The rows to change are
 * numbered, and the statement only picks the row whose number is in a
 * parameter that is increased with each row.  If the plan reaches a row before
 * its turn, it skips the row without locking it, and the statement runs again
 * from there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "executor/tuptable.h"
#include "jit/jit.h"
#include "miscadmin.h"
#include "nodes/params.h"
#include "optimizer/planner.h"
#include "parser/parse_type.h"
#include "storage/proc.h"
#include "tcop/dest.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/sql.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

/*
 * Wraps the call that runs a statement, and counts how many are running; the
 * count is also corrected after an error.
 */
#define SQL_WITHIN(call) \
	do { \
		within++; \
		PG_TRY(); \
		{ \
			call; \
		} \
		PG_FINALLY(); \
		{ \
			within--; \
		} \
		PG_END_TRY(); \
	} while (0)

/* Parameters in the form that SPI wants. */
typedef struct SpiArgs
{
	Datum		values[VALUES_MAX];
	char		nulls[VALUES_MAX];	/* ' ' for a value, 'n' for a null */
} SpiArgs;

/* The receiver that the executor passes rows to. */
typedef struct EachReceiver
{
	DestReceiver receiver;		/* must be the first field */
	MemoryContext caller;
	SqlRowFunction function;
	void	   *context;
	ParamExternData *turn;		/* parameter with the number of the row whose
								 * turn it is, or NULL if rows may come in any
								 * order */
	bool		enough;			/* the function wants no more rows */
} EachReceiver;

static uint64 generation = 1;
static List *retired = NIL;		/* replaced plans that may still be running,
								 * in TopMemoryContext */
static int	within = 0;			/* how many of our statements are running now */
static planner_hook_type next_planner = NULL;

static void forget_plans(Datum arg, int cacheid, uint32 hashvalue);
static void free_retired(XactEvent event, void *arg);
static bool is_running(const SqlStatement *statement);
static PlannedStmt *plan_query(Query *query, const char *text, int options,
							   ParamListInfo params);
static void prepare(SqlStatement *statement);
static void retire(SPIPlanPtr plan);
static void make_ready(SqlStatement *statement, Values *args);
static void expect(SqlStatement *statement, int rc);
static void refuse(int rc, const SqlStatement *statement)
			pg_attribute_noreturn();
static SqlResult execute(SqlStatement *statement, Values *args,
						 bool read_only);
static SpiArgs spi_args(const Values *args);
static SqlResult executed(SqlStatement *statement, int rc);
static bool run(SqlStatement *statement, Values *args, bool read_only,
				int32 *turn, SqlRowFunction function, void *context);
static ParamListInfo params_of(const SqlStatement *statement, Values *args);

/* Connects to SPI; all other calls here need a connection. */
void
SqlConnect(void)
{
	int			rc PG_USED_FOR_ASSERTS_ONLY = SPI_connect();

	Assert(rc == SPI_OK_CONNECT);
}

void
SqlFinish(void)
{
	int			rc PG_USED_FOR_ASSERTS_ONLY = SPI_finish();

	Assert(rc == SPI_OK_FINISH);
}

/*
 * Closes the connection to SPI, and returns a copy of a composite datum that
 * outlives it.
 */
Datum
SqlFinishRow(Datum row)
{
	Datum		copy = SPI_datumTransfer(row, false, -1);

	SqlFinish();
	return copy;
}

/*
 * Returns the next number of a sequence of the schema gpucredit, as SELECT
 * nextval() does, at a fifth of its cost.  Only sequences are accessed without
 * SPI: they are local, while a table may be distributed over several servers.
 */
int64
SqlNext(const char *sequence)
{
	Oid			schema = get_namespace_oid("gpucredit", false);
	Oid			oid = get_relname_relid(sequence, schema);

	Ensure(OidIsValid(oid), "A sequence is missing.");
	return DatumGetInt64(DirectFunctionCall1(nextval_oid,
											 ObjectIdGetDatum(oid)));
}

/* Runs a prepared statement and checks its result code. */
static SqlResult
execute(SqlStatement *statement, Values *args, bool read_only)
{
	MemoryContext caller = CurrentMemoryContext;
	SpiArgs		spi = spi_args(args);
	volatile int rc;

	make_ready(statement, args);
	SQL_WITHIN(rc = SPI_execute_plan(statement->plan, spi.values, spi.nulls,
									 read_only, 0));
	MemoryContextSwitchTo(caller);	/* SPI switched to its own context */
	return executed(statement, rc);
}

static SpiArgs
spi_args(const Values *args)
{
	SpiArgs		spi;

	for (int i = 0; args != NULL && i < args->n; i++)
	{
		spi.values[i] = args->values[i].value;
		spi.nulls[i] = args->values[i].isnull ? 'n' : ' ';
	}
	return spi;
}

static SqlResult
executed(SqlStatement *statement, int rc)
{
	expect(statement, rc);
	return (SqlResult)
	{
		SPI_processed, SPI_tuptable
	};
}

/* Runs a statement with a new snapshot, for volatile functions. */
SqlResult
SqlRun(SqlStatement *statement, Values *args)
{
	return execute(statement, args, false);
}

/* Runs a query with the caller's snapshot, for stable functions. */
SqlResult
SqlRead(SqlStatement *statement, Values *args)
{
	return execute(statement, args, true);
}

/*
 * Runs a query with a snapshot taken now, at any isolation level.  It serves
 * for results that are used after the transaction has ended.  In parallel mode
 * PostgreSQL allows no new snapshot, so the statement's own is used.
 */
SqlResult
SqlReadLatest(SqlStatement *statement, Values *args)
{
	MemoryContext caller = CurrentMemoryContext;
	SpiArgs		spi = spi_args(args);
	Snapshot	snapshot;
	volatile int rc;

	make_ready(statement, args);
	snapshot = RegisterSnapshot(IsInParallelMode() ? GetActiveSnapshot() :
								GetLatestSnapshot());
	SQL_WITHIN(rc = SPI_execute_snapshot(statement->plan, spi.values,
										 spi.nulls, snapshot, InvalidSnapshot,
										 true, false, 0));
	UnregisterSnapshot(snapshot);
	MemoryContextSwitchTo(caller);
	return executed(statement, rc);
}

/* Opens a cursor over a query, so that its rows are locked one by one. */
Portal
SqlCursor(SqlStatement *statement, Values *args)
{
	SpiArgs		spi = spi_args(args);
	Portal volatile portal;

	make_ready(statement, args);
	SQL_WITHIN(portal = SPI_cursor_open(NULL, statement->plan, spi.values,
										spi.nulls, false));
	if (portal == NULL)
		refuse(SPI_result, statement);
	statement->running--;		/* the cursor holds the plan from here on */
	return portal;
}

/*
 * Fetches the next row of a cursor.  The result has no rows if the cursor is
 * at its end.
 */
SqlResult
SqlFetch(Portal portal)
{
	SqlResult	row;
	MemoryContext caller = CurrentMemoryContext;

	SQL_WITHIN(SPI_cursor_fetch(portal, true, 1));
	MemoryContextSwitchTo(caller);
	row.n = SPI_processed;
	row.table = SPI_tuptable;
	return row;
}

/* Frees a result before SqlFinish(), for callers that loop. */
void
SqlFree(SqlResult *result)
{
	if (result->table != NULL)
		SPI_freetuptable(result->table);
	result->table = NULL;
}

/* Called by the executor for each row: passes its columns to the function. */
static bool
each_receive(TupleTableSlot *slot, DestReceiver *self)
{
	EachReceiver *each = (EachReceiver *) self;
	MemoryContext executor = MemoryContextSwitchTo(each->caller);
	bool		more;

	CHECK_FOR_INTERRUPTS();
	slot_getallattrs(slot);
	more = each->function(each->context, slot->tts_values, slot->tts_isnull);
	each->enough = !more;
	if (each->turn != NULL)
		each->turn->value = Int32GetDatum(DatumGetInt32(each->turn->value) +
										  1);
	MemoryContextSwitchTo(executor);
	return more;
}

static void
each_begin(DestReceiver *self, int operation, TupleDesc row)
{
}

static void
each_end(DestReceiver *self)
{
}

/*
 * Runs a query and calls a function with the columns of each row.  If
 * read_only, the query uses the caller's snapshot, else a new one.  The
 * columns live until the function returns; what the function allocates lives
 * in the caller's memory context.  If the function returns false, the
 * statement ends, and writes and locks nothing for later rows.
 */
void
SqlEach(SqlStatement *statement, Values *args, bool read_only,
		SqlRowFunction function, void *context)
{
	(void) run(statement, args, read_only, NULL, function, context);
}

/*
 * As SqlEach(), but in the order of numbers.  The statement has two more
 * parameters than args: an int[] of the numbers 1 to n, and an int, the number
 * whose turn it is; it compares the two, as in "u.n = $7".  The call ends
 * after number n, at a number for which there is no row, or when the function
 * returns false.
 */
void
SqlUpdateInOrder(SqlStatement *statement, Values *args, int n,
				 SqlRowFunction function, void *context)
{
	int32	   *numbers = palloc(sizeof(int32) * n);
	int32		turn = 1;
	int32		before = 0;

	for (int i = 0; i < n; i++)
		numbers[i] = i + 1;
	ValuesAdd(args, Int4ArrayValue(numbers, n), Int4Value(turn));
	while (before < turn && turn <= n)
	{
		before = turn;
		args->values[args->n - 1].value = Int32GetDatum(turn);
		if (!run(statement, args, false, &turn, function, context))
			break;
	}
	pfree(numbers);
}

/*
 * Runs a statement and passes each row to a function.  Returns false if the
 * function wanted no more rows.  If turn is not NULL, it points to the number
 * whose turn it is; on return it has the number that follows the last row.
 */
static bool
run(SqlStatement *statement, Values *args, bool read_only, int32 *turn,
	SqlRowFunction function, void *context)
{
	MemoryContext caller = CurrentMemoryContext;
	EachReceiver each = {
		.receiver = {
			.receiveSlot = each_receive,
			.rStartup = each_begin,
			.rShutdown = each_end,
			.rDestroy = each_end,

			/*
			 * SPI treats rows for some kinds of destination specially, but
			 * not for this kind.
			 */
			.mydest = DestSQLFunction
		},
		.caller = caller,
		.function = function,
		.context = context
	};
	SPIExecuteOptions options = {
		.read_only = read_only,
		.dest = &each.receiver
	};
	volatile int rc;

	make_ready(statement, args);
	options.params = params_of(statement, args);
	if (turn != NULL)
	{
		each.turn = &options.params->params[args->n - 1];
		each.turn->pflags = 0;	/* or the planner would treat it as a constant */
	}
	SQL_WITHIN(rc = SPI_execute_plan_extended(statement->plan, &options));
	MemoryContextSwitchTo(caller);
	expect(statement, rc);
	if (turn != NULL)
		*turn = DatumGetInt32(each.turn->value);
	return !each.enough;
}

/* Returns the parameters in the form that the executor wants. */
static ParamListInfo
params_of(const SqlStatement *statement, Values *args)
{
	ParamListInfo params;

	if (args == NULL || args->n == 0)
		return NULL;
	params = makeParamList(args->n);
	for (int i = 0; i < args->n; i++)
		params->params[i] = (ParamExternData)
	{
		.value = args->values[i].value,
			.isnull = args->values[i].isnull,
			.pflags = PARAM_FLAG_CONST,
			.ptype = SPI_getargtypeid(statement->plan, i)
	};
	return params;
}

/*
 * Registers what makes plans invalid when schemas change, and the planner
 * hook.
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
 * Returns a number that is increased when a schema is created, changed or
 * dropped.  A module that caches the OID of one of our objects remembers this
 * number with it, and looks the OID up again if the number has changed.
 */
uint64
SqlGeneration(void)
{
	return generation;
}

/*
 * The planner hook.  Our statements are planned while they run, at first and
 * after a change of a table they depend on, so `within` tells them apart from
 * other queries, for which LLVM stays on.
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
 * Returns the OID of a type, by a name such as "bigint" or
 * "gpucredit.credits".
 */
Oid
SqlTypeOid(const char *name)
{
	Oid			oid;
	int32		typmod;

	parseTypeString(name, &oid, &typmod, false);
	return oid;
}

/* Prepares a statement and keeps its plan. */
static void
prepare(SqlStatement *statement)
{
	Oid			types[VALUES_MAX];
	char	   *list = pstrdup(statement->types);
	char	   *state = NULL;
	char	   *name;
	SPIPlanPtr	plan;
	uint64		now = generation;
	int			nargs = 0;

	for (name = strtok_r(list, ",", &state); name != NULL;
		 name = strtok_r(NULL, ",", &state))
	{
		Ensure(nargs < VALUES_MAX, "A statement has too many parameters.");
		types[nargs++] = SqlTypeOid(name);
	}

	plan = SPI_prepare_cursor(statement->text, nargs, types,
							  CURSOR_OPT_GENERIC_PLAN);
	if (plan == NULL)
		refuse(SPI_result, statement);
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
 * Whether an outer call is running the statement.  After an error this may
 * return true until the transaction ends, although nothing is running.
 */
static bool
is_running(const SqlStatement *statement)
{
	return statement->running > 0 &&
		statement->running_in == MyLocalTransactionId;
}

/* Keeps a replaced plan until the end of the transaction. */
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
 * Whether a statement should be planned again, which is the case each time its
 * number of uses has doubled.  PostgreSQL keeps a generic plan until
 * statistics change.  Within one transaction it keeps the plan to the end,
 * even if the table was small when the plan was made.
 */
static inline bool
outgrown(uint64 uses)
{
	return uses > 0 && (uses & (uses - 1)) == 0;
}

/*
 * Makes sure that a statement has a plan for these parameters, and counts it
 * as running until expect() is called.
 */
static void
make_ready(SqlStatement *statement, Values *args)
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


/* Called after the run: checks that the result code is the expected one. */
static void
expect(SqlStatement *statement, int rc)
{
	statement->running--;
	if (rc != statement->expected)
		refuse(rc, statement);
}

/*
 * Raises the error for an unexpected result code.  Only another user's rule on
 * our tables can cause one.
 */
static void
refuse(int rc, const SqlStatement *statement)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("a statement of gpucredit had an unexpected result: %s",
					SPI_result_code_string(rc)),
			 errdetail("The statement is: %s", statement->text),
			 errhint("Drop any rule that was created on tables of gpucredit.")));
}
