/*-------------------------------------------------------------------------
 *
 * sql.h
 *		The one way from C to the database: prepared statements over SPI.
 *
 * A statement is a static SqlStatement: constant text, the types of its
 * parameters by name, the result code it must have.  It is prepared on first
 * use and kept for the life of the backend, or until the schema gpucredit
 * changes under it (DROP EXTENSION and CREATE EXTENSION in one session).
 *
 * Usage: SqlConnect(); SqlRun(&statement, VALUES(...)); SqlFinish().  A
 * result stays valid until SqlFinish() or SqlFree().  Every object in the
 * text is schema-qualified.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SQL_H
#define GPUCREDIT_SQL_H

#include "util/compat.h"
#include "datatype/timestamp.h"
#include "executor/spi.h"
#include "types/credits.h"
#include "types/gpuset.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#define SQL_MAX_COLUMNS	64		/* the table of a whole row */

/*
 * Values in order: the parameters of a statement, or the columns of a result
 * row.  They stand in the call: SqlRun(&statement, VALUES(TextValue(org),
 * ...)), or RowPut(rsinfo, VALUES(...)).  ValuesAdd() adds those that are not
 * known at once.  VALUES() lives until the end of its block.
 */
#define VALUES_MAX	32

typedef struct Values
{
	int			n;
	NullableDatum values[VALUES_MAX];
} Values;

/*
 * Written in the WHERE of a statement that joins the elements of its arrays to
 * a table.  n: the column of WITH ORDINALITY.  It is always true.  The planner
 * supposes that an array has ten elements, and then often that reading all rows
 * of an organisation costs less than ten searches.  A kept plan lasts when the
 * organisation has grown to fifty thousand rows.  The range makes the planner
 * expect one element, so that it searches an index for each.
 */
#define SEARCH_EACH(n) " " n " BETWEEN 1 AND 1000000"

#define ValuesAdd(values, ...) ValuesAppend(values, VALUES(__VA_ARGS__))
#define VALUES(...) \
	(&(Values) \
	{ \
		lengthof(((NullableDatum[]){__VA_ARGS__})), {__VA_ARGS__} \
	})

extern void ValuesAppend(Values *values, const Values *more);
extern NullableDatum NumericValue(Credits value);
extern NullableDatum DurationValue(int64 microseconds);
extern NullableDatum ArrayValue(Datum *elems, bool *nulls, int n,
								Oid type);	/* nulls NULL: none */
extern NullableDatum TextArrayValue(const char *const *values, int n);
extern NullableDatum Int8ArrayValue(const int64 *values, int n);
extern NullableDatum Int4ArrayValue(const int32 *values, int n);
extern NullableDatum TimeArrayValue(const TimestampTz *values, int n);
extern NullableDatum CreditsArrayValue(const Credits *values, int n);
extern NullableDatum DatumValue(Datum value);
extern NullableDatum NullValue(void);

#define Int8Value(value)		DatumValue(Int64GetDatum(value))
#define Int4Value(value)		DatumValue(Int32GetDatum(value))
#define BoolValue(value)		DatumValue(BoolGetDatum(value))
#define TimeValue(value)		DatumValue(TimestampTzGetDatum(value))
#define CreditsValue(value)		DatumValue(CreditsGetDatum(value))

/*
 * Null for a value that stands for none: a null pointer; 0; an infinite
 * instant; a negative duration.
 */
extern NullableDatum TextValue(const char *value);
extern NullableDatum JsonValue(Jsonb *value);
extern NullableDatum Int8ValueOrNull(int64 value);
extern NullableDatum Int4ValueOrNull(int32 value);
extern NullableDatum TimeValueOrNull(TimestampTz value);
extern NullableDatum DurationValueOrNull(int64 microseconds);

typedef struct SqlStatement
{
	const char *types;			/* "text, bigint, gpucredit.credits" or "" */
	int			expected;		/* SPI_OK_SELECT, ... */
	const char *text;
	/* filled on first use */
	SPIPlanPtr	plan;
	int			nargs;
	uint64		generation;
	uint64		uses;
	int			running;		/* uses in this transaction */
	LocalTransactionId running_in;
} SqlStatement;

#define SQL_STATEMENT(name, expected, types, text) \
	static SqlStatement name = {types, expected, text, NULL, 0, 0, 0, 0, 0}

typedef struct SqlResult
{
	uint64		n;				/* rows returned, or affected */
	SPITupleTable *table;		/* NULL: a statement without rows */
} SqlResult;

extern void SqlConnect(void);
extern void SqlFinish(void);
extern Datum SqlFinishRow(Datum row);
extern SqlResult SqlRun(SqlStatement *statement, Values *args);
extern SqlResult SqlRead(SqlStatement *statement, Values *args);
extern SqlResult SqlReadLatest(SqlStatement *statement, Values *args);
extern Portal SqlCursor(SqlStatement *statement, Values *args);
extern SqlResult SqlFetch(Portal portal);
extern void SqlFree(SqlResult *result);
extern int64 SqlNext(const char *sequence);

extern void SqlInit(void);
extern Oid	SqlTypeOid(const char *name);
extern uint64 SqlGeneration(void);

/* columns count from 0; false: stop after this row */
typedef bool (*SqlRowFunction) (void *context, const Datum *values,
								const bool *nulls);

extern void SqlEach(SqlStatement *statement, Values *args, bool read_only,
					SqlRowFunction function, void *context);
extern void SqlUpdateInOrder(SqlStatement *statement, Values *args, int n,
							 SqlRowFunction function, void *context);

/* sql_whole.c: columns of a table's row that came as one value */
typedef struct SqlWhole
{
	const char *const *names;
	int			n;
	int			never_null;		/* the first columns only */
	/* found on first use */
	uint64		type;
	int			places[SQL_MAX_COLUMNS];	/* from 0 */
} SqlWhole;

#define SQL_WHOLE(names, never_null) \
	{names, lengthof(names), never_null, 0, {0}}

extern void SqlDeformRow(SqlWhole *whole, Datum row, Datum *values,
						 bool *nulls);

/* Columns count from 1; rows from 0.  The plain forms refuse a null. */
extern Datum SqlDatum(SqlResult result, uint64 row, int column, bool *isnull);
extern Datum SqlNotNull(SqlResult result, uint64 row, int column);
extern bool SqlIsNull(SqlResult result, uint64 row, int column);
extern int64 SqlInt8(SqlResult result, uint64 row, int column);
extern int32 SqlInt4(SqlResult result, uint64 row, int column);
extern bool SqlBool(SqlResult result, uint64 row, int column);
extern Credits SqlCredits(SqlResult result, uint64 row, int column);
extern int64 SqlDuration(SqlResult result, uint64 row, int column);
extern TimestampTz SqlTime(SqlResult result, uint64 row, int column);
extern TimestampTz SqlTimeOr(SqlResult result, uint64 row, int column,
							 TimestampTz otherwise);
extern char *SqlText(SqlResult result, uint64 row, int column); /* or NULL */

#endif							/* GPUCREDIT_SQL_H */
