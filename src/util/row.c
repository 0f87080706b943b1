/*-------------------------------------------------------------------------
 *
 * row.c
 *		Result rows of entry points, column by column.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/errors.h"
#include "types/duration.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

void
RowAdd(Row *row, Datum value)
{
	Ensure(row->n < (int) lengthof(row->values),
		   "A result has too many columns.");
	row->values[row->n] = value;
	row->nulls[row->n++] = false;
}

void
RowNull(Row *row)
{
	RowAdd(row, (Datum) 0);
	row->nulls[row->n - 1] = true;
}

void
RowText(Row *row, const char *value)
{
	if (value == NULL)
		RowNull(row);
	else
		RowAdd(row, CStringGetTextDatum(value));
}

void
RowCredits(Row *row, Credits value)
{
	RowAdd(row, NumericGetDatum(CreditsToNumeric(value)));
}

void
RowTime(Row *row, TimestampTz value)
{
	if (TIMESTAMP_NOT_FINITE(value))
		RowNull(row);
	else
		RowAdd(row, TimestampTzGetDatum(value));
}

void
RowDuration(Row *row, int64 microseconds)
{
	if (microseconds < 0)
		RowNull(row);
	else
		RowAdd(row, IntervalPGetDatum(DurationToInterval(microseconds)));
}

/*
 * The row type a function returns.
 */
TupleDesc
RowType(FunctionCallInfo fcinfo)
{
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("function returning record called in context that "
						"cannot accept it")));
	return tupdesc;
}

/*
 * The datum of a finished row.
 */
Datum
RowReturn(FunctionCallInfo fcinfo, Row *row)
{
	Oid			type = get_func_rettype(fcinfo->flinfo->fn_oid);
	TupleDesc	tupdesc = lookup_rowtype_tupdesc(type, -1);
	HeapTuple	tuple;

	Ensure(tupdesc->natts == row->n,
		   "A result has the wrong number of columns.");
	tuple = heap_form_tuple(tupdesc, row->values, row->nulls);
	ReleaseTupleDesc(tupdesc);
	return HeapTupleGetDatum(tuple);
}

/*
 * Add a finished row to a materialised result.
 */
void
RowPut(ReturnSetInfo *rsinfo, Row *row)
{
	Ensure(rsinfo->setDesc->natts == row->n,
		   "A result has the wrong number of columns.");
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->values,
						 row->nulls);
}
