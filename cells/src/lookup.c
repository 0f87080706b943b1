/*-------------------------------------------------------------------------
 *
 * lookup.c
 *		Reads one row of a table of gpucredit_cells by its primary key.
 *
 * Every call needs such a row, so this file reads the index without a plan. It
 * returns what is committed now, whatever the caller's snapshot and privileges
 * are.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "lookup.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/*
 * Returns the values of the row whose first columns, texts in collation "C",
 * are equal to the keys. Returns false if there is none. These tables have no
 * null values.
 */
bool
LookupRow(const char *table, int n_keys, const char *const *keys,
		  Datum *values)
{
	Oid			schema = get_namespace_oid("gpucredit_cells", false);
	char		index[NAMEDATALEN];
	bool		nulls[LOOKUP_COLUMNS];
	ScanKeyData key[LOOKUP_KEYS];
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	Relation	rel;
	SysScanDesc scan;
	HeapTuple	row;
	bool		is_there;

	snprintf(index, sizeof(index), "%s_pkey", table);
	rel = table_open(get_relname_relid(table, schema), AccessShareLock);
	for (int i = 0; i < n_keys; i++)
	{
		ScanKeyInit(&key[i], i + 1, BTEqualStrategyNumber, F_TEXTEQ,
					CStringGetTextDatum(keys[i]));
		key[i].sk_collation = C_COLLATION_OID;
	}
	scan = systable_beginscan(rel, get_relname_relid(index, schema), true,
							  snapshot, n_keys, key);
	row = systable_getnext(scan);
	is_there = HeapTupleIsValid(row);
	if (is_there)
		heap_deform_tuple(heap_copytuple(row), rel->rd_att, values, nulls);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	UnregisterSnapshot(snapshot);
	return is_there;
}
