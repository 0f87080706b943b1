/*-------------------------------------------------------------------------
 *
 * statement.c
 *		Statements by SPI, prepared at their first use and kept.
 *
 * Their text is constant and names schemas; parameters are of built-in types.
 * So PostgreSQL can plan a kept statement again after any change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "statement.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"

static void prepare(Statement *statement);
static pg_attribute_noreturn() void refuse(const Statement *statement,
										   int result);

static inline bool
outgrown(uint64 uses)
{
	return (uses & (uses - 1)) == 0;
}

/*
 * Runs a statement, within SPI_connect(); how many rows it returns or changes.
 *
 * A generic plan stays until statistics change, even if the table was small
 * then.  So it is made again when it was used twice as often, unless a trigger
 * of somebody's runs it within itself.
 */
uint64
StatementRun(Statement *statement, const NullableDatum *args)
{
	Datum		values[STATEMENT_MAX_ARGS];
	char		nulls[STATEMENT_MAX_ARGS];
	volatile int result;

	if (statement->plan == NULL ||
		(statement->running == 0 && outgrown(statement->uses)))
		prepare(statement);
	statement->uses++;
	for (int i = 0; i < statement->nargs; i++)
	{
		values[i] = args[i].value;
		nulls[i] = args[i].isnull ? 'n' : ' ';
	}
	statement->running++;
	PG_TRY();
	{
		result = SPI_execute_plan(statement->plan, values, nulls, false, 0);
	}
	PG_FINALLY();
	{
		statement->running--;
	}
	PG_END_TRY();
	if (result < 0)
		refuse(statement, result);
	return SPI_processed;
}

static void
prepare(Statement *statement)
{
	SPIPlanPtr	plan = SPI_prepare_cursor(statement->text, statement->nargs,
										  statement->types,
										  CURSOR_OPT_GENERIC_PLAN);

	if (plan == NULL)
		refuse(statement, SPI_result);
	SPI_keepplan(plan);
	if (statement->plan != NULL)
		SPI_freeplan(statement->plan);
	statement->plan = plan;
}

static void
refuse(const Statement *statement, int result)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("gpucredit_eval cannot run a statement of its own"),
			 errdetail("%s: %s", SPI_result_code_string(result),
					   statement->text),
			 errhint("Update the extension to the version of its library.")));
}

/*
 * A value of the last statement's result; rows count from 0, columns from 1.
 */
NullableDatum
StatementValue(uint64 row, int column)
{
	NullableDatum value;

	value.value = SPI_getbinval(SPI_tuptable->vals[row],
								SPI_tuptable->tupdesc, column, &value.isnull);
	return value;
}

/*
 * The same of the first row, in memory that outlives SPI.
 */
NullableDatum
StatementKept(MemoryContext context, int column)
{
	NullableDatum value = StatementValue(0, column);
	Oid			type = SPI_gettypeid(SPI_tuptable->tupdesc, column);
	int16		length;
	bool		by_value;

	if (!value.isnull)
	{
		MemoryContext old = MemoryContextSwitchTo(context);

		get_typlenbyval(type, &length, &by_value);
		value.value = datumCopy(value.value, by_value, length);
		MemoryContextSwitchTo(old);
	}
	return value;
}

/*
 * The row that a function returns.
 */
Datum
RowOf(FunctionCallInfo fcinfo, const NullableDatum *columns)
{
	Datum		values[STATEMENT_MAX_ARGS];
	bool		nulls[STATEMENT_MAX_ARGS];
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("a function of gpucredit_eval does not return a row"),
				 errdetail("It was declared by hand, or is of another version."),
				 errhint("Update the extension to the version of its library.")));
	for (int i = 0; i < desc->natts; i++)
	{
		values[i] = columns[i].value;
		nulls[i] = columns[i].isnull;
	}
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values,
											 nulls));
}
