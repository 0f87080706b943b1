/*-------------------------------------------------------------------------
 *
 * request.c
 *		Idempotency: a keyed call takes effect once.
 *
 * The key's row is inserted before anything else, in the transaction of the
 * effect.  A concurrent call with the same key (a twin) waits for that
 * transaction.  If it commits, the twin reads the stored result; if it aborts,
 * the twin does the work.  At REPEATABLE READ and SERIALIZABLE, a key whose
 * row the snapshot does not show raises 40001, as ON CONFLICT does.
 *
 * The fingerprint is the first half of the SHA-256 of the parsed arguments.
 * Arguments are compared by value, so that 1.0 equals 1.00, and equal jsonb
 * are equal.  The result is stored as the text of its columns.  If a later
 * version of the function returns more columns, an older result is returned
 * with nulls in them.
 *
 * A key belongs to the space of its caller (key_space.c).  The key of a
 * payment (column "lasting") never expires, because payment providers repeat
 * their calls after months.  Any other key can be used anew after
 * gpucredit.key_retention.
 *
 * Locks: the request's row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "util/clock.h"
#include "util/digest.h"
#include "util/errors.h"
#include "util/settings.h"
#include "util/sql.h"
#include "api/count.h"
#include "request/key_space.h"
#include "request/request.h"
#include "types/clip.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/lsyscache.h"

#define FINGERPRINT_SIZE	16

/* Each further try means that another transaction has committed in between. */
#define MAX_TRIES			1000

/*
 * The type of each argument goes into the fingerprint, so that two different
 * lists of arguments never give the same bytes.
 */
#define TAG_NULL	'N'
#define TAG_TEXT	'T'
#define TAG_INT8	'I'
#define TAG_JSON	'J'

static bytea *fingerprint(Request *request);
static bool insert_key(Request *request, bytea *print);
static bool renew_key(Request *request, bytea *print);
static pg_attribute_noreturn() void refuse_key(Request *request,
											   const char *operation);
static Datum replay(Request *request, Datum stored);
static int	replayed_column(TupleDesc tupdesc);
static char *stored_text(Oid type, Datum value);

SQL_STATEMENT(request_insert, SPI_OK_INSERT,
			  "text, text, text, text, bytea, timestamptz",
			  "INSERT INTO gpucredit.request"
			  " (org, space, key, operation, fingerprint, created_at)"
			  " VALUES ($1, $2, $3, $4, $5, $6)"
			  " ON CONFLICT (org, space, key) DO NOTHING");
SQL_STATEMENT(request_read, SPI_OK_SELECT, "text, text, text, timestamptz",
			  "SELECT r.operation, r.fingerprint, r.result,"
			  " NOT r.lasting AND r.created_at <= $4"
			  " FROM gpucredit.request r WHERE r.org = $1 AND r.space = $2"
			  " AND r.key = $3");
SQL_STATEMENT(request_renew, SPI_OK_UPDATE,
			  "text, text, text, text, bytea, timestamptz, timestamptz",
			  "UPDATE gpucredit.request r SET operation = $4,"
			  " fingerprint = $5, result = NULL, created_at = $6"
			  " WHERE r.org = $1 AND r.space = $2 AND r.key = $3"
			  " AND NOT r.lasting AND r.created_at <= $7");
SQL_STATEMENT(request_finish, SPI_OK_UPDATE, "text, text, text, text[]",
			  "UPDATE gpucredit.request r SET result = $4, digest ="
			  " pg_catalog.hash_record_extended(ROW(r.org, r.space, r.key,"
			  "  r.operation, r.fingerprint, $4, r.created_at), 0)"
			  " WHERE r.org = $1 AND r.space = $2 AND r.key = $3");

void
RequestInit(Request *request, FunctionCallInfo fcinfo, const char *operation,
			const char *org, const char *key)
{
	request->fcinfo = fcinfo;
	request->operation = operation;
	request->org = org;
	request->space = KeySpace();
	request->key = key;
	initStringInfo(&request->arguments);
	RequestText(request, operation);
}

/*
 * Functions that add an argument.  They are called in the order of the
 * function's signature.
 */
void
RequestText(Request *request, const char *value)
{
	uint32		size = value ? strlen(value) : 0;

	appendStringInfoChar(&request->arguments, value ? TAG_TEXT : TAG_NULL);
	appendBinaryStringInfo(&request->arguments, (char *) &size, sizeof(size));
	if (value)
		appendBinaryStringInfo(&request->arguments, value, size);
}

void
RequestInt8(Request *request, int64 value)
{
	appendStringInfoChar(&request->arguments, TAG_INT8);
	appendBinaryStringInfo(&request->arguments, (char *) &value,
						   sizeof(value));
}

/*
 * Adds a JSON value.  jsonb stores the keys of an object in one order, but a
 * number keeps its scale.  So numbers are written without trailing zeros,
 * which makes equal documents equal texts.
 */
void
RequestJson(Request *request, Jsonb *value)
{
	JsonbIterator *it = JsonbIteratorInit(&value->root);
	JsonbIteratorToken token;
	JsonbValue	v;

	appendStringInfoChar(&request->arguments, TAG_JSON);
	while ((token = JsonbIteratorNext(&it, &v, false)) != WJB_DONE)
	{
		appendStringInfoChar(&request->arguments, 'a' + token);
		if (token != WJB_KEY && token != WJB_VALUE && token != WJB_ELEM)
			continue;
		appendStringInfoChar(&request->arguments, 'A' + v.type);
		if (v.type == jbvString)
			RequestText(request, pnstrdup(v.val.string.val,
										  v.val.string.len));
		else if (v.type == jbvNumeric)
			RequestText(request, DatumGetCString(
												 DirectFunctionCall1(numeric_out,
																	 DirectFunctionCall1(numeric_trim_scale,
																						 NumericGetDatum(v.val.numeric)))));
		else if (v.type == jbvBool)
			RequestInt8(request, v.val.boolean);
	}
}

/* Returns the first half of the SHA-256 of the arguments. */
static bytea *
fingerprint(Request *request)
{
	uint8		digest[DIGEST_SIZE];
	bytea	   *print = palloc(VARHDRSZ + FINGERPRINT_SIZE);

	DigestOf(&request->arguments, digest);
	SET_VARSIZE(print, VARHDRSZ + FINGERPRINT_SIZE);
	memcpy(VARDATA(print), digest, FINGERPRINT_SIZE);
	return print;
}

/*
 * Claims the key for this call.  Returns true if the key was used before with
 * the same arguments; then *result is the result of that call.
 */
bool
RequestBegin(Request *request, Datum *result)
{
	bytea	   *print = fingerprint(request);
	int			tries = 0;
	TimestampTz old = ClockAdd(ClockNow(), -SettingKeyRetention());

	/* A transaction that has no id yet has locked no row so far. */
	request->first = !TransactionIdIsValid(GetTopTransactionIdIfAny());
	while (!insert_key(request, print))
	{
		SqlResult	row;
		bool		isnull;
		Datum		stored;

		EnsureStored(++tries < MAX_TRIES,
					 "A key can be neither inserted nor found.");
		row = SqlRun(&request_read,
					 VALUES(TextValue(request->org), TextValue(request->space),
							TextValue(request->key), TimeValue(old)));
		if (row.n == 0)
			continue;			/* an expired key was deleted in the meantime */
		if (SqlBool(row, 0, 4))
		{
			if (renew_key(request, print))
				return false;
			continue;			/* a twin has renewed it: read its result */
		}
		if (strcmp(SqlText(row, 0, 1), request->operation) != 0 ||
			!DatumGetBool(DirectFunctionCall2(byteaeq,
											  SqlDatum(row, 0, 2, &isnull),
											  PointerGetDatum(print))))
			refuse_key(request, SqlText(row, 0, 1));
		stored = SqlDatum(row, 0, 3, &isnull);
		EnsureStored(!isnull, "A request has no result.");
		CountReplay();
		*result = replay(request, stored);
		return true;
	}
	return false;
}

static bool
insert_key(Request *request, bytea *print)
{
	return SqlRun(&request_insert,
				  VALUES(TextValue(request->org), TextValue(request->space),
						 TextValue(request->key),
						 TextValue(request->operation),
						 DatumValue(PointerGetDatum(print)),
						 TimeValue(ClockNow()))).n == 1;
}

/*
 * Claims a key whose retention has passed.  Returns false if a concurrent call
 * has just done so.
 */
static bool
renew_key(Request *request, bytea *print)
{
	return SqlRun(&request_renew,
				  VALUES(TextValue(request->org), TextValue(request->space),
						 TextValue(request->key),
						 TextValue(request->operation),
						 DatumValue(PointerGetDatum(print)),
						 TimeValue(ClockNow()),
						 TimeValue(ClockAdd(ClockNow(),
											-SettingKeyRetention())))).n == 1;
}

/*
 * Raises the error for a key that was used with other arguments.  The earlier
 * call was made in the caller's own space, so the message may name its
 * function.
 */
static void
refuse_key(Request *request, const char *operation)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_KEY_REUSED),
			 errmsg("key \"%s\" was used before with other arguments",
					ClipForMessage(request->key)),
			 errdetail("It belongs to a call of \"%s\".", operation),
			 errhint("Repeat a call with exactly its arguments, or take a "
					 "new key.")));
}

/*
 * Returns the stored result as a row, with replayed = true.  The row is
 * allocated in the memory context that was current before SPI was connected.
 */
static Datum
replay(Request *request, Datum stored)
{
	TupleDesc	tupdesc = BlessTupleDesc(RowType(request->fcinfo));
	AttInMetadata *attin = TupleDescGetAttInMetadata(tupdesc);
	char	  **columns = palloc0(sizeof(char *) * tupdesc->natts);
	int			replayed = replayed_column(tupdesc);
	Datum	   *elems;
	bool	   *nulls;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(stored), TEXTOID, -1, false,
					  TYPALIGN_INT, &elems, &nulls, &n);
	EnsureStored(n > replayed, "A request's result is cut off.");
	for (int i = 0; i < Min(n, tupdesc->natts); i++)
		columns[i] = nulls[i] ? NULL : TextDatumGetCString(elems[i]);
	columns[replayed] = "true";
	return HeapTupleGetDatum(BuildTupleFromCStrings(attin, columns));
}

static int
replayed_column(TupleDesc tupdesc)
{
	for (int i = 0; i < tupdesc->natts; i++)
	{
		if (strcmp(NameStr(TupleDescAttr(tupdesc, i)->attname),
				   "replayed") == 0)
			return i;
	}
	Ensure(false, "A keyed function's result has no column \"replayed\".");
	return 0;
}

/*
 * Returns a value as text that means the same in every session.  The usual
 * text of an instant does not, as it depends on DateStyle and TimeZone.
 */
static char *
stored_text(Oid type, Datum value)
{
	Oid			output;
	bool		isvarlena;

	Assert(type != INTERVALOID);
	if (type == TIMESTAMPTZOID)
	{
		char		text[MAXDATELEN + 1];
		int			utc = 0;

		return pstrdup(JsonEncodeDateTime(text, value, TIMESTAMPTZOID, &utc));
	}
	getTypeOutputInfo(type, &output, &isvarlena);
	return OidOutputFunctionCall(output, value);
}

/* Stores the result under the key, and returns it as a row. */
Datum
RequestFinish(Request *request, Values *row)
{
	RequestStore(request, row);
	return RowReturn(request->fcinfo, row);
}

/* Stores the result under the key. */
void
RequestStore(Request *request, const Values *row)
{
	TupleDesc	tupdesc = RowType(request->fcinfo);
	const char **columns = palloc0(sizeof(char *) * row->n);

	for (int i = 0; i < row->n; i++)
	{
		if (!row->values[i].isnull)
			columns[i] = stored_text(TupleDescAttr(tupdesc, i)->atttypid,
									 row->values[i].value);
	}
	Ensure(SqlRun(&request_finish,
				  VALUES(TextValue(request->org), TextValue(request->space),
						 TextValue(request->key),
						 TextArrayValue(columns, row->n))).n == 1,
		   "A request vanished while it was carried out.");
}
