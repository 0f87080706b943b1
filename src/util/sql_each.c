/*-------------------------------------------------------------------------
 *
 * sql_each.c
 *		Read many rows without keeping any.
 *
 * SqlRun() copies every row, and each access to a column searches it again. A
 * scheduling cycle reads hundreds of thousands of rows and wants a few numbers
 * of each.  Here a function gets each row in the executor's memory.  The
 * function must not run statements.
 *
 * SqlEachInTurn() also sets the order in which a statement locks and changes
 * rows, which a join's plan does not.  The statement picks its rows by a
 * number, a parameter that counts up with each row.  If the plan reaches a row
 * before its turn, it skips the row without a lock.  Then the statement runs
 * again from there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/sql.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "nodes/params.h"
#include "tcop/dest.h"

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

static bool run(SqlStatement *statement, SqlArgs *args, bool read_only,
				int32 *turn, SqlRowFunction function, void *context);
static ParamListInfo params_of(const SqlStatement *statement, SqlArgs *args);

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
	SqlArgInt4Array(args, numbers, n);
	SqlArgInt4(args, turn);
	while (before < turn && turn <= n)
	{
		before = turn;
		args->values[args->n - 1] = Int32GetDatum(turn);
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
		.value = args->values[i],
			.isnull = args->nulls[i] == 'n',
			.pflags = PARAM_FLAG_CONST,
			.ptype = SPI_getargtypeid(statement->plan, i)
	};
	return params;
}
