/*-------------------------------------------------------------------------
 *
 * leaf.c
 *		The sealed text of a row.
 *
 * The text is the table's name, then for each column that is not null its
 * name, the length of its value in bytes, and the value:
 *
 *		entry\n
 *		org 4 acme\n
 *		entry 2 17\n
 *		at 16 1798761600000000\n
 *		...
 *
 * Numbers are decimal, credits in millionths, instants in microseconds since
 * 1970, jsonb, addresses and uuids as the server prints them.  It depends on
 * no setting and survives dump and restore.  A new column that is null changes
 * nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "util/errors.h"
#include "datatype/timestamp.h"
#include "miscadmin.h"
#include "seal/seal.h"
#include "types/credits.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* Every column in a fixed order.  A new column must be added at the end. */
#define ENTRY_COLUMNS \
	"e.org, e.entry, e.at, e.account, e.bucket, e.source, e.target," \
	" e.amount, e.operation, e.hold, e.part, e.job, e.attempt, e.trace"
#define AUDIT_COLUMNS \
	"a.org, a.audit, a.at, a.login, a.actor, a.operation, a.decision," \
	" a.reason, a.account, a.bucket, a.hold, a.job, a.attempt, a.detail," \
	" a.application_name, a.client_addr, a.trace"

SQL_STATEMENT(entries_read, SPI_OK_SELECT, "bigint, bigint, bigint",
			  "SELECT " ENTRY_COLUMNS " FROM gpucredit.entry e"
			  " WHERE e.entry > $1 AND e.entry <= $2"
			  " ORDER BY e.entry LIMIT $3");
SQL_STATEMENT(audits_read, SPI_OK_SELECT, "bigint, bigint, bigint",
			  "SELECT " AUDIT_COLUMNS " FROM gpucredit.audit a"
			  " WHERE a.audit > $1 AND a.audit <= $2"
			  " ORDER BY a.audit LIMIT $3");

const char *const SealKindNames[SEAL_KINDS] = {"entry", "audit"};

static SqlResult read_rows(SealKind kind, int64 from, int64 to, int64 most);
static void put_row(StringInfo text, SealKind kind, SqlResult rows, uint64 i);
static void put_value(StringInfo out, Oid type, Datum value);
static void put_output(StringInfo out, PGFunction output, Datum value);

/*
 * Appends the leaves of the rows whose ids are above `from` and at most `to`,
 * but no more than `most`.  Returns the last id that the leaves cover: `to`,
 * or the id of the last row if the limit was reached.
 */
int64
LeavesRead(SealKind kind, int64 from, int64 to, int64 most, Leaves *leaves)
{
	SqlResult	rows = read_rows(kind, from, to, most);
	StringInfoData text;

	leaves->n = 0;
	leaves->ids = palloc(sizeof(int64) * Max(rows.n, 1));
	leaves->digests = palloc(sizeof(Digest) * Max(rows.n, 1));
	initStringInfo(&text);
	for (uint64 i = 0; i < rows.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		resetStringInfo(&text);
		appendStringInfoChar(&text, '\0');
		put_row(&text, kind, rows, i);
		leaves->ids[leaves->n] = SqlInt8(rows, i, 2);
		DigestOf(&text, leaves->digests[leaves->n++].bytes);
	}
	pfree(text.data);
	SqlFree(&rows);
	return leaves->n == most ? leaves->ids[leaves->n - 1] : to;
}

/* Returns the text of one row, or NULL if there is no such row. */
char *
LeafText(SealKind kind, int64 id)
{
	SqlResult	rows = read_rows(kind, id - 1, id, 1);
	StringInfoData text;

	if (rows.n == 0)
		return NULL;
	initStringInfo(&text);
	put_row(&text, kind, rows, 0);
	return text.data;
}

static SqlResult
read_rows(SealKind kind, int64 from, int64 to, int64 most)
{
	return SqlRun(kind == SEAL_ENTRY ? &entries_read : &audits_read,
				  VALUES(Int8Value(from), Int8Value(to), Int8Value(most)));
}

/* Appends a row's text: the table's name, then its columns. */
static void
put_row(StringInfo text, SealKind kind, SqlResult rows, uint64 i)
{
	TupleDesc	tupdesc = rows.table->tupdesc;
	StringInfoData value;

	initStringInfo(&value);
	appendStringInfo(text, "%s\n", SealKindNames[kind]);
	for (int c = 1; c <= tupdesc->natts; c++)
	{
		Form_pg_attribute column = TupleDescAttr(tupdesc, c - 1);
		bool		isnull;
		Datum		datum = SqlDatum(rows, i, c, &isnull);

		if (isnull)
			continue;
		resetStringInfo(&value);
		put_value(&value, column->atttypid, datum);
		appendStringInfo(text, "%s %d ", NameStr(column->attname), value.len);
		appendBinaryStringInfo(text, value.data, value.len);
		appendStringInfoChar(text, '\n');
	}
	pfree(value.data);
}

/*
 * Appends an instant, in microseconds since 1970.  The last thirty years of a
 * timestamp's range do not fit an int64 in this unit, so they are written
 * unsigned.
 */
void
PutInstant(StringInfo out, TimestampTz instant)
{
	const int64 later = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) *
		USECS_PER_DAY;

	if (instant > 0)
		appendStringInfo(out, UINT64_FORMAT, (uint64) instant + later);
	else
		appendStringInfo(out, INT64_FORMAT, instant + later);
}

/* Appends a value in its sealed form. */
static void
put_value(StringInfo out, Oid type, Datum value)
{
	char	   *string;

	switch (type)
	{
		case INT4OID:
			appendStringInfo(out, "%d", DatumGetInt32(value));
			break;
		case INT8OID:
			appendStringInfo(out, INT64_FORMAT, DatumGetInt64(value));
			break;
		case TIMESTAMPTZOID:
			PutInstant(out, DatumGetTimestampTz(value));
			break;
		case TEXTOID:
			string = TextDatumGetCString(value);
			appendStringInfoString(out, string);
			pfree(string);
			break;
		case JSONBOID:
			{
				Jsonb	   *json = DatumGetJsonbP(value);

				(void) JsonbToCString(out, &json->root, VARSIZE(json));
				break;
			}
		case INETOID:
			put_output(out, inet_out, value);
			break;
		case UUIDOID:
			put_output(out, uuid_out, value);
			break;
		default:				/* credits, the only type of our own */
			appendStringInfo(out, INT64_FORMAT, DatumGetCredits(value));
	}
}

/*
 * Appends a value in its type's text form, for types whose text depends on no
 * setting.
 */
static void
put_output(StringInfo out, PGFunction output, Datum value)
{
	char	   *string = DatumGetCString(DirectFunctionCall1(output, value));

	appendStringInfoString(out, string);
	pfree(string);
}
