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
 * Usage: SqlConnect(); SqlRun(&statement, SQL_ARGS(...)); SqlFinish().  A
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

#define SQL_MAX_ARGS	32
#define SQL_MAX_COLUMNS	64		/* the table of a whole row */

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

/* Parameters, in order: SqlRun(&s, SQL_ARGS(SqlArgText(org), ...)). */
typedef struct SqlArgs
{
	int			n;
	NullableDatum values[SQL_MAX_ARGS];
} SqlArgs;

#define SqlAdd(args, ...) SqlAppend(args, SQL_ARGS(__VA_ARGS__))
#define SQL_ARGS(...) \
	(&(SqlArgs) \
	{ \
		lengthof(((NullableDatum[]){__VA_ARGS__})), {__VA_ARGS__} \
	})

typedef struct SqlResult
{
	uint64		n;				/* rows returned, or affected */
	SPITupleTable *table;		/* NULL: a statement without rows */
} SqlResult;

extern void SqlConnect(void);
extern void SqlFinish(void);
extern Datum SqlFinishRow(Datum row);
extern SqlResult SqlRun(SqlStatement *statement, SqlArgs *args);
extern SqlResult SqlRead(SqlStatement *statement, SqlArgs *args);
extern SqlResult SqlReadLatest(SqlStatement *statement, SqlArgs *args);
extern Portal SqlCursor(SqlStatement *statement, SqlArgs *args);
extern SqlResult SqlFetch(Portal portal);
extern void SqlFree(SqlResult *result);
extern int64 SqlNext(const char *sequence);

/* sql_plan.c */
extern void SqlInit(void);
extern void SqlReady(SqlStatement *statement, SqlArgs *args);
extern void SqlEnter(void);
extern void SqlLeave(void);
extern void SqlExpect(SqlStatement *statement, int rc);
extern void SqlRefuse(int rc, const SqlStatement *statement)
			pg_attribute_noreturn();
extern Oid	SqlTypeOid(const char *name);
extern Oid	SqlCreditsType(void);

/* The functions that run a statement. */
#define SQL_WITHIN(call) \
	do { \
		SqlEnter(); \
		PG_TRY(); \
		{ \
			call; \
		} \
		PG_FINALLY(); \
		{ \
			SqlLeave(); \
		} \
		PG_END_TRY(); \
	} while (0)

/* columns count from 0; false: stop after this row */
typedef bool (*SqlRowFunction) (void *context, const Datum *values,
								const bool *nulls);

extern void SqlEach(SqlStatement *statement, SqlArgs *args, bool read_only,
					SqlRowFunction function, void *context);
extern void SqlEachInTurn(SqlStatement *statement, SqlArgs *args, int n,
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

extern void SqlTakeApart(SqlWhole *whole, Datum row, Datum *values,
						 bool *nulls);

extern void SqlAppend(SqlArgs *args, const SqlArgs *more);
extern NullableDatum SqlArgDuration(int64 microseconds);
extern NullableDatum SqlArgArray(Datum *elems, bool *nulls, int n,
								 Oid type); /* nulls NULL: none */
extern NullableDatum SqlArgTextArray(const char *const *values, int n);
extern NullableDatum SqlArgInt8Array(const int64 *values, int n);
extern NullableDatum SqlArgInt4Array(const int32 *values, int n);
extern NullableDatum SqlArgTimeArray(const TimestampTz *values, int n);
extern NullableDatum SqlArgCreditsArray(const Credits *values, int n);

static inline NullableDatum
SqlArg(Datum value)
{
	return (NullableDatum)
	{
		value, false
	};
}

static inline NullableDatum
SqlArgNull(void)
{
	return (NullableDatum)
	{
		(Datum) 0, true
	};
}

#define SqlArgInt8(value)		SqlArg(Int64GetDatum(value))
#define SqlArgInt4(value)		SqlArg(Int32GetDatum(value))
#define SqlArgBool(value)		SqlArg(BoolGetDatum(value))
#define SqlArgTime(value)		SqlArg(TimestampTzGetDatum(value))
#define SqlArgCredits(value)	SqlArg(CreditsGetDatum(value))

/* Null for a value that stands for none. */
static inline NullableDatum
SqlArgText(const char *value)
{
	return value == NULL ? SqlArgNull() : SqlArg(CStringGetTextDatum(value));
}

static inline NullableDatum
SqlArgJson(Jsonb *value)
{
	return value == NULL ? SqlArgNull() : SqlArg(JsonbPGetDatum(value));
}

static inline NullableDatum
SqlArgInt8OrNull(int64 value)
{
	return value == 0 ? SqlArgNull() : SqlArgInt8(value);
}

static inline NullableDatum
SqlArgInt4OrNull(int32 value)
{
	return value == 0 ? SqlArgNull() : SqlArgInt4(value);
}

static inline NullableDatum
SqlArgTimeOrNull(TimestampTz value)
{
	return value == DT_NOBEGIN ? SqlArgNull() : SqlArgTime(value);
}

static inline NullableDatum
SqlArgDurationOrNull(int64 microseconds)
{
	return microseconds < 0 ? SqlArgNull() : SqlArgDuration(microseconds);
}

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
