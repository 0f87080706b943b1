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

/* A row in the executor's form. */
typedef struct Columns
{
	Datum		values[VALUES_MAX];
	bool		nulls[VALUES_MAX];
} Columns;

static Columns columns_of(const Values *row, TupleDesc tupdesc);

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
 * The same for a function whose row type is that of its OUT arguments and has
 * no name.  It takes longer: the type is made anew at each call.
 */
Datum
RowReturnRecord(FunctionCallInfo fcinfo, const Values *row)
{
	TupleDesc	tupdesc = BlessTupleDesc(RowType(fcinfo));
	Columns		columns = columns_of(row, tupdesc);

	return HeapTupleGetDatum(heap_form_tuple(tupdesc, columns.values,
											 columns.nulls));
}

/*
 * Add a finished row to a materialised result.
 */
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
