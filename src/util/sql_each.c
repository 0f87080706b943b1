/*-------------------------------------------------------------------------
 *
 * sql_each.c
 *		Reading many rows without keeping any.
 *
 * What SqlRun() returns is a copy of every row, whose columns are found again
 * each time one is asked for.  A scheduling cycle reads hundreds of thousands
 * of rows and wants a few numbers of each: here a function sees each row as it
 * comes, where the executor has it.  It must not run statements itself.
 *
 * It can also say in which order a statement locks and changes rows, which the
 * plan of a join does not: the statement picks its rows by a number that is a
 * parameter, and that counts up as each row is handed over (SqlEachInTurn).  A
 * row that its plan comes to before its turn is passed over, neither locked
 * nor changed; then the statement is run again from there.
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

/* Where the executor sends the rows. */
typedef struct EachReceiver
{
	DestReceiver receiver;		/* first */
	MemoryContext caller;
	SqlRowFunction function;
	void	   *context;
	ParamExternData *turn;		/* NULL: rows come in any order */
	bool		enough;			/* the function wants no more */
} EachReceiver;

static bool run(SqlStatement *statement, SqlArgs *args, bool read_only,
				int32 *turn, SqlRowFunction function, void *context);
static ParamListInfo params_of(const SqlStatement *statement, SqlArgs *args);

/*
 * A row has come.
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
 * Run a query, with a snapshot of its own or (read_only) the caller's, and
 * call a function with the columns of each row.  What they point to is gone
 * when it returns; what it allocates is in the caller's memory context.  Where
 * it wants no more, the statement ends there: what it would have written, or
 * locked, after that row it leaves alone.
 */
void
SqlEach(SqlStatement *statement, SqlArgs *args, bool read_only,
		SqlRowFunction function, void *context)
{
	(void) run(statement, args, read_only, NULL, function, context);
}

/*
 * The same, in turn, of a statement with two more parameters: the numbers of
 * the rows, int[], from 1 to n, and the number of that whose turn it is, int:
 * "u.n = $7".  It ends with the last, where none comes that should, or where
 * the function wants no more.
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
 * Run a statement, with each row handed to a function.  False: it wants no
 * more.  turn: NULL, or whose turn it is, and then was next.
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
			/* SPI treats some kinds specially; not this one */
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
		each.turn->pflags = 0;	/* nobody may take it for a constant */
	}
	SQL_WITHIN(rc = SPI_execute_plan_extended(statement->plan, &options));
	MemoryContextSwitchTo(caller);
	SqlExpect(statement, rc);
	if (turn != NULL)
		*turn = DatumGetInt32(each.turn->value);
	return !each.enough;
}

/*
 * Parameters as the executor takes them.
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
