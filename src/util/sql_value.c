/*-------------------------------------------------------------------------
 *
 * sql_value.c
 *		Values that go into statements and result rows, and the columns that
 *		come out of results (util/sql.h).
 *
 * Only PostgreSQL's own types are here, so that companion extensions compile
 * this file as it is.  sql_credits.c has the values of type credits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "types/duration.h"
#include "util/errors.h"
#include "util/sql.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

/* Appends values that were not known when VALUES() was written. */
void
ValuesAppend(Values *values, const Values *more)
{
	Ensure(values->n + more->n <= VALUES_MAX,
		   "A statement or a row has too many values.");
	for (int i = 0; i < more->n; i++)
		values->values[values->n++] = more->values[i];
}

/*
 * Functions that make one value of each type.  sql.h says which values stand
 * for null.
 */
NullableDatum
DatumValue(Datum value)
{
	return (NullableDatum)
	{
		value, false
	};
}

NullableDatum
NullValue(void)
{
	return (NullableDatum)
	{
		(Datum) 0, true
	};
}

NullableDatum
TextValue(const char *value)
{
	return value == NULL ? NullValue() : DatumValue(CStringGetTextDatum(value));
}

NullableDatum
JsonValue(Jsonb *value)
{
	return value == NULL ? NullValue() : DatumValue(JsonbPGetDatum(value));
}

NullableDatum
Int8ValueOrNull(int64 value)
{
	return value == 0 ? NullValue() : Int8Value(value);
}

NullableDatum
Int4ValueOrNull(int32 value)
{
	return value == 0 ? NullValue() : Int4Value(value);
}

NullableDatum
TimeValueOrNull(TimestampTz value)
{
	return TIMESTAMP_NOT_FINITE(value) ? NullValue() : TimeValue(value);
}

NullableDatum
DurationValueOrNull(int64 microseconds)
{
	return microseconds < 0 ? NullValue() : DurationValue(microseconds);
}

NullableDatum
DurationValue(int64 microseconds)
{
	return DatumValue(IntervalPGetDatum(DurationToInterval(microseconds)));
}

/*
 * Returns an array of one dimension.  nulls may be NULL if no element is null.
 */
NullableDatum
ArrayValue(Datum *elems, bool *nulls, int n, Oid type)
{
	int			lower = 1;
	int16		len;
	bool		byval;
	char		align;

	get_typlenbyvalalign(type, &len, &byval, &align);
	return DatumValue(PointerGetDatum(construct_md_array(elems, nulls, 1, &n,
														 &lower, type, len, byval,
														 align)));
}

NullableDatum
TextArrayValue(const char *const *values, int n)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		nulls[i] = values[i] == NULL;
		elems[i] = nulls[i] ? (Datum) 0 : CStringGetTextDatum(values[i]);
	}
	return ArrayValue(elems, nulls, n, TEXTOID);
}

/* Returns an array whose elements' type is passed by value as an int64. */
static NullableDatum
int64_array(const int64 *values, int n, Oid type)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		elems[i] = Int64GetDatum(values[i]);
	return ArrayValue(elems, NULL, n, type);
}

NullableDatum
Int8ArrayValue(const int64 *values, int n)
{
	return int64_array(values, n, INT8OID);
}

NullableDatum
Int4ArrayValue(const int32 *values, int n)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		elems[i] = Int32GetDatum(values[i]);
	return ArrayValue(elems, NULL, n, INT4OID);
}

NullableDatum
TimeArrayValue(const TimestampTz *values, int n)
{
	return int64_array(values, n, TIMESTAMPTZOID);
}

/*
 * Returns a column of a result.  If the row of a statement that always returns
 * one is missing, another user's trigger has removed it.
 */
Datum
SqlDatum(SqlResult result, uint64 row, int column, bool *isnull)
{
	EnsureStored(result.table != NULL && row < result.table->numvals,
				 "A row that was written or read is not there.");
	return SPI_getbinval(result.table->vals[row], result.table->tupdesc,
						 column, isnull);
}

bool
SqlIsNull(SqlResult result, uint64 row, int column)
{
	bool		isnull;

	(void) SqlDatum(result, row, column, &isnull);
	return isnull;
}

Datum
SqlNotNull(SqlResult result, uint64 row, int column)
{
	bool		isnull;
	Datum		value = SqlDatum(result, row, column, &isnull);

	Ensure(!isnull, "A column that is never null is null.");
	return value;
}

int64
SqlInt8(SqlResult result, uint64 row, int column)
{
	return DatumGetInt64(SqlNotNull(result, row, column));
}

int32
SqlInt4(SqlResult result, uint64 row, int column)
{
	return DatumGetInt32(SqlNotNull(result, row, column));
}

bool
SqlBool(SqlResult result, uint64 row, int column)
{
	return DatumGetBool(SqlNotNull(result, row, column));
}

int64
SqlDuration(SqlResult result, uint64 row, int column)
{
	return DurationFromInterval(DatumGetIntervalP(SqlNotNull(result, row,
															 column)), NULL);
}

TimestampTz
SqlTime(SqlResult result, uint64 row, int column)
{
	return DatumGetTimestampTz(SqlNotNull(result, row, column));
}

TimestampTz
SqlTimeOr(SqlResult result, uint64 row, int column, TimestampTz otherwise)
{
	bool		isnull;
	Datum		value = SqlDatum(result, row, column, &isnull);

	return isnull ? otherwise : DatumGetTimestampTz(value);
}

char *
SqlText(SqlResult result, uint64 row, int column)
{
	bool		isnull;
	Datum		value = SqlDatum(result, row, column, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}
