/*-------------------------------------------------------------------------
 *
 * row.c
 *		Result rows of entry points.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/errors.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

/* The columns of a row, in the form that the executor wants. */
typedef struct Columns
{
	Datum		values[VALUES_MAX];
	bool		nulls[VALUES_MAX];
} Columns;

static Columns columns_of(const Values *row, TupleDesc tupdesc);

/* Returns the row type that the called function declares. */
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

/* Returns a finished row as a datum of the function's named row type. */
Datum
RowReturn(FunctionCallInfo fcinfo, const Values *row)
{
	Oid			type = get_func_rettype(fcinfo->flinfo->fn_oid);
	TupleDesc	tupdesc = lookup_rowtype_tupdesc(type, -1);
	Columns		columns = columns_of(row, tupdesc);
	HeapTuple	tuple = heap_form_tuple(tupdesc, columns.values,
										columns.nulls);

	ReleaseTupleDesc(tupdesc);
	return HeapTupleGetDatum(tuple);
}

/*
 * As RowReturn(), for a function whose row type comes from its OUT arguments
 * and has no name.  It takes longer, because the type is built at each call.
 */
Datum
RowReturnRecord(FunctionCallInfo fcinfo, const Values *row)
{
	TupleDesc	tupdesc = BlessTupleDesc(RowType(fcinfo));
	Columns		columns = columns_of(row, tupdesc);

	return HeapTupleGetDatum(heap_form_tuple(tupdesc, columns.values,
											 columns.nulls));
}

/* Adds a finished row to the set that the function returns. */
void
RowPut(ReturnSetInfo *rsinfo, const Values *row)
{
	Columns		columns = columns_of(row, rsinfo->setDesc);

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, columns.values,
						 columns.nulls);
}

static Columns
columns_of(const Values *row, TupleDesc tupdesc)
{
	Columns		columns;

	Ensure(tupdesc->natts == row->n,
		   "A result has the wrong number of columns.");
	for (int i = 0; i < row->n; i++)
	{
		columns.values[i] = row->values[i].value;
		columns.nulls[i] = row->values[i].isnull;
	}
	return columns;
}
