/*-------------------------------------------------------------------------
 *
 * sql.c
 *		The one way from C to the database: prepared statements over SPI.
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
 * SqlRun() copies every row, and each access to a column searches it. A cycle
 * reads hundreds of thousands of rows for a few numbers of each. So SqlEach()
 * hands each row in the executor's memory to a function, which must not run
 * statements.
 *
 * SqlUpdateInOrder() also sets the order in which a statement locks and changes
 * rows, which a join's plan does not. The statement picks rows by a number, a
 * parameter that counts up with each row. If the plan reaches a row before its
 * turn, it skips the row without a lock, and the statement runs again from
 * there.
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

/* Around the run of a statement; it leaves also after a failure. */
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

/* Parameters in SPI's form. */
typedef struct SpiArgs
{
	Datum		values[VALUES_MAX];
	char		nulls[VALUES_MAX];	/* ' ' or 'n' */
} SpiArgs;

/* The executor's receiver of rows. */
typedef struct EachReceiver
{
	DestReceiver receiver;		/* first */
	MemoryContext caller;
	SqlRowFunction function;
	void	   *context;
	ParamExternData *turn;		/* NULL: rows come in any order */
	bool		enough;			/* the function stops here */
} EachReceiver;

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

/*
 * Enter and leave SPI, around all other calls here.
 */
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
 * Leave SPI with a composite datum that outlives it.
 */
Datum
SqlFinishRow(Datum row)
{
	Datum		copy = SPI_datumTransfer(row, false, -1);

	SqlFinish();
	return copy;
}

/*
 * The next number of a sequence of the schema gpucredit: as SELECT nextval(),
 * for a fifth of its cost.  Everything else goes through SPI, as a table may
 * be another server's; a sequence is local.
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

/*
 * Run a prepared statement.
 */
static SqlResult
execute(SqlStatement *statement, Values *args, bool read_only)
{
	MemoryContext caller = CurrentMemoryContext;
	SpiArgs		spi = spi_args(args);
	volatile int rc;

	make_ready(statement, args);
	SQL_WITHIN(rc = SPI_execute_plan(statement->plan, spi.values, spi.nulls,
									 read_only, 0));
	MemoryContextSwitchTo(caller);	/* SPI leaves us in its own */
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

/*
 * Run a statement with its own snapshot, in volatile functions.
 */
SqlResult
SqlRun(SqlStatement *statement, Values *args)
{
	return execute(statement, args, false);
}

/*
 * Run a query with the caller's snapshot, in stable functions.
 */
SqlResult
SqlRead(SqlStatement *statement, Values *args)
{
	return execute(statement, args, true);
}

/*
 * Run a query with a snapshot from now, at any isolation level: for results
 * that outlive the transaction.  In parallel mode only the statement's own
 * snapshot is allowed.
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

/*
 * Open a cursor over a query, for rows locked one by one.
 */
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
	statement->running--;		/* the cursor has the plan now */
	return portal;
}

/*
 * The next row of a cursor; no rows: it is at its end.
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

/*
 * Free a result early, in loops.
 */
void
SqlFree(SqlResult *result)
{
	if (result->table != NULL)
		SPI_freetuptable(result->table);
	result->table = NULL;
}

/*
 * Receive a row.
 */
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
 * Run a query, with its own snapshot or (read_only) the caller's, and call a
 * function with the columns of each row.  They live until it returns; it
 * allocates in the caller's memory context.  If it stops, the statement ends
 * there, and writes and locks nothing for later rows.
 */
void
SqlEach(SqlStatement *statement, Values *args, bool read_only,
		SqlRowFunction function, void *context)
{
	(void) run(statement, args, read_only, NULL, function, context);
}

/*
 * The same, in turn, for a statement with two more parameters: the numbers of
 * the rows, int[], from 1 to n, and the number whose turn it is, int: "u.n =
 * $7".  It ends with the last number, with a missing row, or when the function
 * stops.
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
 * Run a statement and hand each row to a function.  False: the function stops.
 * turn: NULL, or the number whose turn it is, then the next.
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
			 * SPI treats some kinds of statements specially, but not this one
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
		each.turn->pflags = 0;	/* no constant for the planner */
	}
	SQL_WITHIN(rc = SPI_execute_plan_extended(statement->plan, &options));
	MemoryContextSwitchTo(caller);
	expect(statement, rc);
	if (turn != NULL)
		*turn = DatumGetInt32(each.turn->value);
	return !each.enough;
}

/*
 * Parameters in the executor's form.
 */
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
 * A number that counts up when a schema was created, changed or dropped.
 * Whoever keeps the OID of an object of ours looks it up again when the number
 * differs from the one of the last time.
 */
uint64
SqlGeneration(void)
{
	return generation;
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
 * Prepare a statement and keep its plan.
 */
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
 * running until expect().
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


/*
 * Check the kind of result after the run.
 */
static void
expect(SqlStatement *statement, int rc)
{
	statement->running--;
	if (rc != statement->expected)
		refuse(rc, statement);
}

/*
 * Only another user's rule on our tables can change the kind of result.
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
