/*-------------------------------------------------------------------------
 *
 * sql.c
 *		The one way from C to the database: prepared statements over SPI.
 *
 * sql_plan.c prepares statements and keeps their plans.
 *
 * SqlRun() copies every row, and each access to a column searches it. A cycle
 * reads hundreds of thousands of rows for a few numbers of each. So SqlEach()
 * hands each row in the executor's memory to a function, which must not run
 * statements.
 *
 * SqlEachInTurn() also sets the order in which a statement locks and changes
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
#include "catalog/pg_type.h"
#include "util/errors.h"
#include "util/sql.h"
#include "parser/parse_type.h"
#include "types/duration.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "nodes/params.h"
#include "tcop/dest.h"

/* Parameters in SPI's form. */
typedef struct SpiArgs
{
	Datum		values[SQL_MAX_ARGS];
	char		nulls[SQL_MAX_ARGS];	/* ' ' or 'n' */
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

static SqlResult execute(SqlStatement *statement, SqlArgs *args,
						 bool read_only);
static SpiArgs spi_args(const SqlArgs *args);
static SqlResult executed(SqlStatement *statement, int rc);
static bool run(SqlStatement *statement, SqlArgs *args, bool read_only,
				int32 *turn, SqlRowFunction function, void *context);
static ParamListInfo params_of(const SqlStatement *statement, SqlArgs *args);

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
execute(SqlStatement *statement, SqlArgs *args, bool read_only)
{
	MemoryContext caller = CurrentMemoryContext;
	SpiArgs		spi = spi_args(args);
	volatile int rc;

	SqlReady(statement, args);
	SQL_WITHIN(rc = SPI_execute_plan(statement->plan, spi.values, spi.nulls,
									 read_only, 0));
	MemoryContextSwitchTo(caller);	/* SPI leaves us in its own */
	return executed(statement, rc);
}

static SpiArgs
spi_args(const SqlArgs *args)
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
	SqlExpect(statement, rc);
	return (SqlResult)
	{
		SPI_processed, SPI_tuptable
	};
}

/*
 * Run a statement with its own snapshot, in volatile functions.
 */
SqlResult
SqlRun(SqlStatement *statement, SqlArgs *args)
{
	return execute(statement, args, false);
}

/*
 * Run a query with the caller's snapshot, in stable functions.
 */
SqlResult
SqlRead(SqlStatement *statement, SqlArgs *args)
{
	return execute(statement, args, true);
}

/*
 * Run a query with a snapshot from now, at any isolation level: for results
 * that outlive the transaction.  In parallel mode only the statement's own
 * snapshot is allowed.
 */
SqlResult
SqlReadLatest(SqlStatement *statement, SqlArgs *args)
{
	MemoryContext caller = CurrentMemoryContext;
	SpiArgs		spi = spi_args(args);
	Snapshot	snapshot;
	volatile int rc;

	SqlReady(statement, args);
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
SqlCursor(SqlStatement *statement, SqlArgs *args)
{
	SpiArgs		spi = spi_args(args);
	Portal volatile portal;

	SqlReady(statement, args);
	SQL_WITHIN(portal = SPI_cursor_open(NULL, statement->plan, spi.values,
										spi.nulls, false));
	if (portal == NULL)
		SqlRefuse(SPI_result, statement);
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
 * More parameters, where not all are known at once.
 */
void
SqlAppend(SqlArgs *args, const SqlArgs *more)
{
	Ensure(args->n + more->n <= SQL_MAX_ARGS,
		   "A statement has too many parameters.");
	for (int i = 0; i < more->n; i++)
		args->values[args->n++] = more->values[i];
}

NullableDatum
SqlArgDuration(int64 microseconds)
{
	return SqlArg(IntervalPGetDatum(DurationToInterval(microseconds)));
}

/*
 * An array of one dimension; nulls NULL: without nulls.
 */
NullableDatum
SqlArgArray(Datum *elems, bool *nulls, int n, Oid type)
{
	int			lower = 1;
	int16		len;
	bool		byval;
	char		align;

	get_typlenbyvalalign(type, &len, &byval, &align);
	return SqlArg(PointerGetDatum(construct_md_array(elems, nulls, 1, &n,
													 &lower, type, len, byval,
													 align)));
}

NullableDatum
SqlArgTextArray(const char *const *values, int n)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		nulls[i] = values[i] == NULL;
		elems[i] = nulls[i] ? (Datum) 0 : CStringGetTextDatum(values[i]);
	}
	return SqlArgArray(elems, nulls, n, TEXTOID);
}

/*
 * An array of a type that is passed as an int64.
 */
static NullableDatum
int64_array(const int64 *values, int n, Oid type)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		elems[i] = Int64GetDatum(values[i]);
	return SqlArgArray(elems, NULL, n, type);
}

NullableDatum
SqlArgInt8Array(const int64 *values, int n)
{
	return int64_array(values, n, INT8OID);
}

NullableDatum
SqlArgInt4Array(const int32 *values, int n)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		elems[i] = Int32GetDatum(values[i]);
	return SqlArgArray(elems, NULL, n, INT4OID);
}

NullableDatum
SqlArgTimeArray(const TimestampTz *values, int n)
{
	return int64_array(values, n, TIMESTAMPTZOID);
}

NullableDatum
SqlArgCreditsArray(const Credits *values, int n)
{
	return int64_array(values, n, SqlCreditsType());
}

/*
 * Columns of a result.  A statement that always returns a row can only lack it
 * if another user's trigger removed it.
 */
Datum
SqlDatum(SqlResult result, uint64 row, int column, bool *isnull)
{
	EnsureStored(result.table != NULL && row < result.table->numvals,
				 "A row that was written or read is not there.");
	return SPI_getbinval(result.table->vals[row], result.table->tupdesc,
						 column, isnull);
}

bool
SqlIsNull(SqlResult result, uint64 row, int column)
{
	bool		isnull;

	(void) SqlDatum(result, row, column, &isnull);
	return isnull;
}

Datum
SqlNotNull(SqlResult result, uint64 row, int column)
{
	bool		isnull;
	Datum		value = SqlDatum(result, row, column, &isnull);

	Ensure(!isnull, "A column that is never null is null.");
	return value;
}

int64
SqlInt8(SqlResult result, uint64 row, int column)
{
	return DatumGetInt64(SqlNotNull(result, row, column));
}

int32
SqlInt4(SqlResult result, uint64 row, int column)
{
	return DatumGetInt32(SqlNotNull(result, row, column));
}

bool
SqlBool(SqlResult result, uint64 row, int column)
{
	return DatumGetBool(SqlNotNull(result, row, column));
}

Credits
SqlCredits(SqlResult result, uint64 row, int column)
{
	return DatumGetCredits(SqlNotNull(result, row, column));
}

int64
SqlDuration(SqlResult result, uint64 row, int column)
{
	return DurationFromInterval(DatumGetIntervalP(SqlNotNull(result, row,
															 column)), NULL);
}

TimestampTz
SqlTime(SqlResult result, uint64 row, int column)
{
	return DatumGetTimestampTz(SqlNotNull(result, row, column));
}

TimestampTz
SqlTimeOr(SqlResult result, uint64 row, int column, TimestampTz otherwise)
{
	bool		isnull;
	Datum		value = SqlDatum(result, row, column, &isnull);

	return isnull ? otherwise : DatumGetTimestampTz(value);
}

char *
SqlText(SqlResult result, uint64 row, int column)
{
	bool		isnull;
	Datum		value = SqlDatum(result, row, column, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
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
SqlEach(SqlStatement *statement, SqlArgs *args, bool read_only,
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
SqlEachInTurn(SqlStatement *statement, SqlArgs *args, int n,
			  SqlRowFunction function, void *context)
{
	int32	   *numbers = palloc(sizeof(int32) * n);
	int32		turn = 1;
	int32		before = 0;

	for (int i = 0; i < n; i++)
		numbers[i] = i + 1;
	SqlAdd(args, SqlArgInt4Array(numbers, n), SqlArgInt4(turn));
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
run(SqlStatement *statement, SqlArgs *args, bool read_only, int32 *turn,
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

	SqlReady(statement, args);
	options.params = params_of(statement, args);
	if (turn != NULL)
	{
		each.turn = &options.params->params[args->n - 1];
		each.turn->pflags = 0;	/* no constant for the planner */
	}
	SQL_WITHIN(rc = SPI_execute_plan_extended(statement->plan, &options));
	MemoryContextSwitchTo(caller);
	SqlExpect(statement, rc);
	if (turn != NULL)
		*turn = DatumGetInt32(each.turn->value);
	return !each.enough;
}

/*
 * Parameters in the executor's form.
 */
static ParamListInfo
params_of(const SqlStatement *statement, SqlArgs *args)
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
