/*-------------------------------------------------------------------------
 *
 * directory.c
 *		Determines which cell a router calls, and which callers it accepts:
 *		home_of(), location_of() and check_caller().
 *
 * A router connects to a cell as the current user. gpucredit identifies its
 * caller by the login, or by the role of SET ROLE, even inside a SECURITY
 * DEFINER function. In such a function the current user and the caller differ,
 * and a router refuses the call: the cell would run it with the rights of the
 * function's owner.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "directory.h"
#include "funcapi.h"
#include "lookup.h"
#include "miscadmin.h"
#include "util/compat.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(gpucredit_cells_home_of);
PG_FUNCTION_INFO_V1(gpucredit_cells_location_of);
PG_FUNCTION_INFO_V1(gpucredit_cells_check_caller);

/* Columns, counted from 0 */
#define HOME_CELL		1
#define HOME_EPOCH		2
#define LOCATION_CELL	2
#define CELL_NUMBER		1

static void require_caller(void);
static Datum number_of(Datum cell);

/*
 * Returns the number of an organisation's cell, and the epoch. An organisation
 * without a home is sent to the first cell, which refuses it like any unknown
 * organisation. The setting gpucredit_cells.at names another cell, which
 * itself checks whether the organisation may be there.
 */
void
HomeOf(NullableDatum org, NullableDatum *number, NullableDatum *epoch)
{
	Datum		home[LOOKUP_COLUMNS];
	const char *at = GetConfigOption("gpucredit_cells.at", true, false);
	const char *key;

	require_caller();
	*number = (NullableDatum){Int32GetDatum(0), false};
	*epoch = (NullableDatum){0, true};
	if (org.isnull)
		return;
	if (at != NULL && at[0] != '\0')
	{
		number->value = number_of(CStringGetTextDatum(at));
		return;
	}
	key = TextDatumGetCString(org.value);
	if (LookupRow("home", 1, &key, home))
	{
		number->value = number_of(home[HOME_CELL]);
		*epoch = (NullableDatum){home[HOME_EPOCH], false};
	}
}

/*
 * home_of(org): returns cell number and epoch as a row.
 */
Datum
gpucredit_cells_home_of(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	NullableDatum number;
	NullableDatum epoch;
	Datum		values[2];
	bool		nulls[2];

	HomeOf(fcinfo->args[0], &number, &epoch);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
				 errmsg("home_of() is not declared to return a row"),
				 errdetail("The function in the database is not the extension's."),
				 errhint("Create extension gpucredit_cells again.")));
	values[0] = number.value;
	values[1] = epoch.value;
	nulls[0] = number.isnull;
	nulls[1] = epoch.isnull;
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/*
 * location_of(kind, name): returns the number of the cell that has this pool,
 * node or other object, or null if the directory does not contain it.
 */
Datum
gpucredit_cells_location_of(PG_FUNCTION_ARGS)
{
	Datum		location[LOOKUP_COLUMNS];
	const char *keys[2];

	require_caller();
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	keys[0] = text_to_cstring(PG_GETARG_TEXT_PP(0));
	keys[1] = text_to_cstring(PG_GETARG_TEXT_PP(1));
	if (!LookupRow("location", 2, keys, location))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(number_of(location[LOCATION_CELL]));
}

Datum
gpucredit_cells_check_caller(PG_FUNCTION_ARGS)
{
	require_caller();
	PG_RETURN_VOID();
}

static void
require_caller(void)
{
	if (GetUserId() != GetOuterUserId())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("a router cannot pass on a call from inside a SECURITY DEFINER function"),
				 errdetail("It would reach the cell as the function's owner."),
				 errhint("Make the function SECURITY INVOKER, or put it into the cells.")));
}

/*
 * Returns the number of a cell by its name. The number never changes, so that
 * of the last cell is cached.
 */
static Datum
number_of(Datum cell)
{
	static char *last;
	static Datum number;
	const char *name = TextDatumGetCString(cell);
	char	   *kept;
	Datum		row[LOOKUP_COLUMNS];

	if (last != NULL && strcmp(name, last) == 0)
		return number;
	if (!LookupRow("cell", 1, &name, row))
		ereport(ERROR,
				(errcode(MAKE_SQLSTATE('U', 'C', '7', '0', '3')),
				 errmsg("cell \"%s\" is not in this router's directory", name),
				 errdetail("A home, a location or gpucredit_cells.at names it."),
				 errhint("Wait until the directory has been replicated, or correct the setting.")));
	kept = MemoryContextStrdup(TopMemoryContext, name);
	if (last != NULL)
		pfree(last);
	last = kept;
	number = row[CELL_NUMBER];
	return number;
}
