/*-------------------------------------------------------------------------
 *
 * sql_whole.c
 *		Rows of a table that a statement returns as one value.
 *
 * Each column of a result costs a statement some 2,000 instructions, however
 * short the column is, because each plan node describes and copies it.  A
 * table's whole row is one column.  This file extracts its fields, which costs
 * less than one column does.
 *
 * Without it a settle takes 6 % more processor time (406 to 432 us) and a
 * capture 1 % (350 to 355 us).  The benchmark targets "pairs" (1,500 /s,
 * measured 1,810) and "batch" (not met) need it.
 *
 * An upgrade adds columns at the end of a table, so their order may differ
 * from that of a fresh install.  So columns are found by name, once per
 * version of the table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "util/errors.h"
#include "util/sql.h"
#include "utils/typcache.h"

static pg_attribute_noreturn() void refuse_null(const char *column);
static void find_columns(SqlWhole *whole, const TypeCacheEntry *type);

/*
 * Extracts the wanted columns of a row, in the order of whole->names.  Values
 * that are passed by reference point into the row.
 */
void
SqlDeformRow(SqlWhole *whole, Datum row, Datum *values, bool *nulls)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(row);
	TypeCacheEntry *type = lookup_type_cache(HeapTupleHeaderGetTypeId(header),
											 TYPECACHE_TUPDESC);
	HeapTupleData tuple = {
		.t_len = HeapTupleHeaderGetDatumLength(header),
		.t_data = header
	};
	Datum		all[SQL_MAX_COLUMNS];
	bool		is_null[SQL_MAX_COLUMNS];

	if (type->tupDesc_identifier != whole->type)
		find_columns(whole, type);
	heap_deform_tuple(&tuple, type->tupDesc, all, is_null);
	for (int i = 0; i < whole->n; i++)
	{
		values[i] = all[whole->places[i]];
		nulls[i] = is_null[whole->places[i]];
		if (i < whole->never_null && nulls[i])
			refuse_null(whole->names[i]);
	}
}

/*
 * Raises the error for a null in a column that must have none.  This is not
 * Ensure(), which ends a server with assertions: a superuser can drop NOT NULL
 * and write a null.
 */
static void
refuse_null(const char *column)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("gpucredit found its own data inconsistent"),
			 errdetail("Column \"%s\" of a row is null, and must not be.",
					   column),
			 errhint("Run gpucredit.verify() to see what is wrong.")));
}

/* Finds the indexes of the wanted columns in rows of a type. */
static void
find_columns(SqlWhole *whole, const TypeCacheEntry *type)
{
	TupleDesc	desc = type->tupDesc;

	Ensure(desc->natts <= SQL_MAX_COLUMNS, "A table has too many columns.");
	whole->type = 0;
	for (int i = 0; i < whole->n; i++)
	{
		int			a = 0;

		while (a < desc->natts &&
			   (TupleDescAttr(desc, a)->attisdropped ||
				strcmp(NameStr(TupleDescAttr(desc, a)->attname),
					   whole->names[i]) != 0))
			a++;
		Ensure(a < desc->natts, "A column is missing.");
		whole->places[i] = a;
	}
	whole->type = type->tupDesc_identifier;
}
