/*-------------------------------------------------------------------------
 *
 * sql.h
 *		The one way from C to the database: prepared statements over SPI.
 *
 * A statement is a static SqlStatement: constant text, the types of its
 * parameters by name, and the result code that it must have.  It is prepared
 * at its first use and kept for the life of the backend, or until the schema
 * gpucredit is dropped or created (DROP EXTENSION and CREATE EXTENSION in one
 * session).
 *
 * Usage: SqlConnect(); SqlRun(&statement, VALUES(...)); SqlFinish().  A result
 * stays valid until SqlFinish() or SqlFree().  Every object in the text is
 * schema-qualified.
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

#define SQL_MAX_COLUMNS	64		/* most columns of a table whose whole row is
								 * read */

/*
 * Values in order: the parameters of a statement, or the columns of a result
 * row.  They are written in the call: SqlRun(&statement,
 * VALUES(TextValue(org), ...)), or RowPut(rsinfo, VALUES(...)).  ValuesAdd()
 * appends values that are not known at once.  What VALUES() creates lives
 * until the end of its block.
 */
#define VALUES_MAX	32

typedef struct Values
{
	int			n;
	NullableDatum values[VALUES_MAX];
} Values;

/*
 * A condition for the WHERE clause of a statement that joins the elements of
 * its array parameters to a table.  n is the column that WITH ORDINALITY adds,
 * so the condition is always true.  Without it the planner assumes that an
 * array has ten elements, and then often finds a scan of all rows of an
 * organisation cheaper than ten index searches.  Such a plan is kept even when
 * the organisation has grown to fifty thousand rows.  The range makes the
 * planner expect one element, so that it searches an index for each.
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
								Oid type);	/* nulls may be NULL if no element
											 * is null */
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
 * These functions return a null for a value that stands for none: a NULL
 * pointer, 0, an infinite instant, or a negative duration.
 */
extern NullableDatum TextValue(const char *value);
extern NullableDatum JsonValue(Jsonb *value);
extern NullableDatum Int8ValueOrNull(int64 value);
extern NullableDatum Int4ValueOrNull(int32 value);
extern NullableDatum TimeValueOrNull(TimestampTz value);
extern NullableDatum DurationValueOrNull(int64 microseconds);

typedef struct SqlStatement
{
	const char *types;			/* type names, as "text, bigint,
								 * gpucredit.credits", or "" */
	int			expected;		/* result code, as SPI_OK_SELECT */
	const char *text;
	/* The fields below are filled at the first use. */
	SPIPlanPtr	plan;
	int			nargs;
	uint64		generation;
	uint64		uses;
	int			running;		/* how many calls are running it in this
								 * transaction */
	LocalTransactionId running_in;
} SqlStatement;

#define SQL_STATEMENT(name, expected, types, text) \
	static SqlStatement name = {types, expected, text, NULL, 0, 0, 0, 0, 0}

typedef struct SqlResult
{
	uint64		n;				/* number of rows returned, or changed */
	SPITupleTable *table;		/* NULL if the statement returns no rows */
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

/*
 * A function that is called for each row.  Columns count from 0.  It returns
 * false if it wants no more rows.
 */
typedef bool (*SqlRowFunction) (void *context, const Datum *values,
								const bool *nulls);

extern void SqlEach(SqlStatement *statement, Values *args, bool read_only,
					SqlRowFunction function, void *context);
extern void SqlUpdateInOrder(SqlStatement *statement, Values *args, int n,
							 SqlRowFunction function, void *context);

/*
 * A table's row that a statement returns as one value, and the columns that
 * are wanted of it (sql_whole.c).
 */
typedef struct SqlWhole
{
	const char *const *names;
	int			n;
	int			never_null;		/* how many of the first columns are NOT NULL */
	/* The fields below are filled at the first use. */
	uint64		type;
	int			places[SQL_MAX_COLUMNS];	/* the columns' indexes, from 0 */
} SqlWhole;

#define SQL_WHOLE(names, never_null) \
	{names, lengthof(names), never_null, 0, {0}}

extern void SqlDeformRow(SqlWhole *whole, Datum row, Datum *values,
						 bool *nulls);

/*
 * Columns of a result.  Columns count from 1, rows from 0.  A function refuses
 * a null unless its name or its comment says what it returns then.
 */
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
