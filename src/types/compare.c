/*-------------------------------------------------------------------------
 *
 * compare.c
 *		Comparison of the types that are an int64: credits and gpuset.
 *
 * The server has the same functions for bigint, under LANGUAGE internal.  But
 * each start of a statement looks such a function up by name among all of the
 * server's own, which costs more than many statements.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/compat.h"

PG_FUNCTION_INFO_V1(gpucredit_value_eq);
PG_FUNCTION_INFO_V1(gpucredit_value_ne);
PG_FUNCTION_INFO_V1(gpucredit_value_lt);
PG_FUNCTION_INFO_V1(gpucredit_value_le);
PG_FUNCTION_INFO_V1(gpucredit_value_gt);
PG_FUNCTION_INFO_V1(gpucredit_value_ge);
PG_FUNCTION_INFO_V1(gpucredit_value_cmp);

Datum
gpucredit_value_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(PG_GETARG_INT64(0) == PG_GETARG_INT64(1));
}

Datum
gpucredit_value_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(PG_GETARG_INT64(0) != PG_GETARG_INT64(1));
}

Datum
gpucredit_value_lt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(PG_GETARG_INT64(0) < PG_GETARG_INT64(1));
}

Datum
gpucredit_value_le(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(PG_GETARG_INT64(0) <= PG_GETARG_INT64(1));
}

Datum
gpucredit_value_gt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(PG_GETARG_INT64(0) > PG_GETARG_INT64(1));
}

Datum
gpucredit_value_ge(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(PG_GETARG_INT64(0) >= PG_GETARG_INT64(1));
}

Datum
gpucredit_value_cmp(PG_FUNCTION_ARGS)
{
	int64		a = PG_GETARG_INT64(0);
	int64		b = PG_GETARG_INT64(1);

	PG_RETURN_INT32((a > b) - (a < b));
}
