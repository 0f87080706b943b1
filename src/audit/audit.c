/*-------------------------------------------------------------------------
 *
 * audit.c
 *		The audit log of decisions: one row each, committed with the
 *		effect.
 *
 * Audit rows are the last in the lock order, and appending one locks nothing.
 * A client that repeats a denied request does not fill the log: the first of
 * many identical denials becomes a row, and the others are only counted
 * (15_audit.sql).
 *
 * Besides roles, a row records the session's application_name and client
 * address, as pg_stat_activity shows them.  Behind a connection pooler this is
 * the pooler's address.
 *
 * A row's detail is a JSON object.  It is built member by member directly as
 * jsonb, so the server parses no text.  Members are kept in the order of names
 * that jsonb uses, so nothing has to be sorted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "audit/audit.h"
#include "audit/event.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/digest.h"
#include "util/settings.h"
#include "util/sql.h"
#include "api/count.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "catalog/pg_type.h"
#include "types/credits.h"
#include "utils/array.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

PG_FUNCTION_INFO_V1(gpucredit_write_audit);

#define KIND_SIZE	16

#define AUDIT_INSERT \
	"INSERT INTO gpucredit.audit (org, at, login, actor, operation," \
	" decision, reason, account, bucket, hold, job, attempt, detail," \
	" application_name, client_addr, trace)" \
	" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13," \
	" $14, $15, $16)"
#define AUDIT_TYPES \
	"text, timestamptz, text, text, text, text, text, text," \
	" bigint, bigint, bigint, int, jsonb, text, inet, uuid"
SQL_STATEMENT(audit_insert, SPI_OK_INSERT, AUDIT_TYPES, AUDIT_INSERT);
SQL_STATEMENT(audit_insert_denial, SPI_OK_INSERT_RETURNING, AUDIT_TYPES,
			  AUDIT_INSERT " RETURNING audit");
SQL_STATEMENT(audit_insert_many, SPI_OK_INSERT,
			  "timestamptz, text, text, text, text[], text[], text[], text[],"
			  " bigint[], bigint[], int[], jsonb[], text, inet, uuid[]",
			  "INSERT INTO gpucredit.audit (org, at, login, actor, operation,"
			  " decision, reason, account, hold, job, attempt, detail,"
			  " application_name, client_addr, trace)"
			  " SELECT u.org, $1, $2, $3, $4, u.decision, u.reason, u.account,"
			  " NULLIF(u.hold, 0), NULLIF(u.job, 0), NULLIF(u.attempt, 0),"
			  " u.detail, $13, $14, u.trace"
			  " FROM ROWS FROM (pg_catalog.unnest($5),"
			  " pg_catalog.unnest($6), pg_catalog.unnest($7),"
			  " pg_catalog.unnest($8), pg_catalog.unnest($9),"
			  " pg_catalog.unnest($10), pg_catalog.unnest($11),"
			  " pg_catalog.unnest($12), pg_catalog.unnest($15))"
			  " AS u (org, decision, reason, account, hold, job, attempt,"
			  " detail, trace)");

SQL_STATEMENT(denial_first, SPI_OK_SELECT, "text, bytea, timestamptz",
			  "SELECT d.audit FROM gpucredit.denial d WHERE d.org = $1"
			  " AND d.kind = $2 AND d.n = 0 AND d.at > $3"
			  " ORDER BY d.at DESC LIMIT 1");
SQL_STATEMENT(denial_insert, SPI_OK_INSERT,
			  "text, bytea, timestamptz, bigint, int",
			  "INSERT INTO gpucredit.denial (org, kind, at, audit, n)"
			  " VALUES ($1, $2, $3, $4, $5)");

typedef struct Member
{
	JsonbValue	name;
	JsonbValue	value;
} Member;

struct AuditDetail
{
	int			n;
	int			room;
	Member	   *members;
};

static Values audit_args(AuditRow *row);
static bytea *kind_of(const AuditRow *row);
static int64 first_of(const AuditRow *row, bytea *kind);
static char *login_name(void);
static void arg_session(Values *args);
static Datum client_addr(void);
static Jsonb *detail_json(const AuditDetail *detail);
static void arg_details(Values *args, const AuditRow *rows, int n);
static void write_event(const AuditRow *row);
static const char *job_state_of(const AuditRow *row);
static AuditDetail *detail_of(AuditRow *row);
static JsonbValue *add_member(AuditRow *row, const char *name);
static int	compare_names(const JsonbValue *a, const JsonbValue *b);
static JsonbValue string_value(const char *text);

static char *
login_name(void)
{
	char	   *name = GetUserNameFromId(GetSessionUserId(), true);

	return name ? name : pstrdup("(dropped)");
}

/* Writes one row, and its event if the decision is one. */
void
AuditWrite(AuditRow *row)
{
	Values		args;

	if (row->at == 0)
		row->at = ClockNow();
	args = audit_args(row);
	if (strcmp(row->decision, "denied") == 0)
		CountDenial(row->reason);
	(void) SqlRun(&audit_insert, &args);
	write_event(row);
}

/* Writes an event if the row's decision is one that the feed has. */
static void
write_event(const AuditRow *row)
{
	const char *kind = EventKind(row->operation, row->decision,
								 job_state_of(row));

	if (kind != NULL)
		EventWrite(kind, row);
}

/* Returns the member "job_state" of a row's detail, or NULL if it has none. */
static const char *
job_state_of(const AuditRow *row)
{
	JsonbValue	name = string_value("job_state");

	for (int i = 0; row->detail != NULL && i < row->detail->n; i++)
	{
		const Member *member = &row->detail->members[i];

		if (compare_names(&member->name, &name) == 0)
			return pnstrdup(member->value.val.string.val,
							member->value.val.string.len);
	}
	return NULL;
}

/*
 * Writes the result of a keyed call.  A denial is only counted if an identical
 * one was written within gpucredit.denial_window.
 */
void
AuditDecision(AuditRow *row, const char *key)
{
	Values		args;
	bytea	   *kind;
	int64		first;

	if (strcmp(row->decision, "denied") != 0 || SettingDenialWindow() == 0)
	{
		AuditText(row, "key", key);
		AuditWrite(row);
		return;
	}
	CountDenial(row->reason);
	kind = kind_of(row);
	first = first_of(row, kind);
	if (first == 0)
	{
		AuditText(row, "key", key);
		args = audit_args(row);
		first = -SqlInt8(SqlRun(&audit_insert_denial, &args), 0, 1);
		write_event(row);
	}
	args = (Values){0};
	ValuesAdd(&args, TextValue(row->org), DatumValue(PointerGetDatum(kind)),
			  TimeValue(row->at), Int8Value(Abs(first)),
			  Int4Value(first > 0 ? 1 : 0));
	(void) SqlRun(&denial_insert, &args);
}

/*
 * Returns a digest of a denial.  Denials have the same digest if the caller,
 * the request and the reason are the same.
 */
static bytea *
kind_of(const AuditRow *row)
{
	const char *words[] = {row->operation, row->reason, row->account,
	login_name(), CallerName()};
	Jsonb	   *detail = detail_json(row->detail);
	uint8		digest[DIGEST_SIZE];
	bytea	   *kind = palloc(VARHDRSZ + KIND_SIZE);
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < (int) lengthof(words); i++)
		appendBinaryStringInfo(&text, words[i] ? words[i] : "",
							   words[i] ? strlen(words[i]) + 1 : 1);
	if (detail != NULL)
		appendBinaryStringInfo(&text, VARDATA(detail), VARSIZE(detail) -
							   VARHDRSZ);
	DigestOf(&text, digest);
	SET_VARSIZE(kind, VARHDRSZ + KIND_SIZE);
	memcpy(VARDATA(kind), digest, KIND_SIZE);
	return kind;
}

/*
 * Returns the audit row of the first denial of this kind within the window, or
 * 0 if the present one is the first.  Two concurrent denials can both be the
 * first.  At SERIALIZABLE this function reads nothing and returns 0, because
 * the read would make concurrent denials conflict.
 */
static int64
first_of(const AuditRow *row, bytea *kind)
{
	SqlResult	found;

	if (IsolationIsSerializable())
		return 0;
	found = SqlRun(&denial_first,
				   VALUES(TextValue(row->org),
						  DatumValue(PointerGetDatum(kind)),
						  TimeValue(ClockAdd(row->at,
											 -SettingDenialWindow()))));
	return found.n > 0 ? SqlInt8(found, 0, 1) : 0;
}

/* Returns the columns of a row. */
static Values
audit_args(AuditRow *row)
{
	Values	   *args = VALUES(TextValue(row->org ? row->org : ""),
							  TimeValue(row->at), TextValue(login_name()),
							  TextValue(CallerName()),
							  TextValue(row->operation),
							  TextValue(row->decision), TextValue(row->reason),
							  TextValue(row->account),
							  Int8ValueOrNull(row->bucket),
							  Int8ValueOrNull(row->hold),
							  Int8ValueOrNull(row->job),
							  row->attempt == 0 ? NullValue() :
							  Int4Value(row->attempt),
							  JsonValue(detail_json(row->detail)));

	arg_session(args);
	ValuesAdd(args, TraceValue(TraceOr(row->trace)));
	return *args;
}

/* Adds the session's application name and client address to the columns. */
static void
arg_session(Values *args)
{
	Datum		client = client_addr();

	ValuesAdd(args,
			  TextValue(application_name != NULL && *application_name != '\0' ?
						application_name : NULL),
			  client == (Datum) 0 ? NullValue() : DatumValue(client));
}

/*
 * Returns the client's address, or 0 for a local socket or a background
 * worker.  It is looked up once, as it never changes during a session.
 */
static Datum
client_addr(void)
{
	static Datum addr = (Datum) 0;
	static bool asked = false;

	if (!asked)
	{
		LOCAL_FCINFO(fcinfo, 0);
		Datum		value;

		InitFunctionCallInfoData(*fcinfo, NULL, 0, InvalidOid, NULL, NULL);
		value = inet_client_addr(fcinfo);
		if (!fcinfo->isnull)
		{
			MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

			addr = datumCopy(value, false, -1);
			MemoryContextSwitchTo(old);
		}
		asked = true;
	}
	return addr;
}

/*
 * Writes many rows that have the same operation and instant, and no buckets.
 */
void
AuditWriteMany(AuditRow *rows, int n)
{
	const char **text = palloc(sizeof(char *) * 4 * Max(n, 1));
	int64	   *ids = palloc(sizeof(int64) * 2 * Max(n, 1));
	int32	   *attempts = palloc(sizeof(int32) * Max(n, 1));
	Trace	   *traces = palloc(sizeof(Trace) * Max(n, 1));
	Values	   *args;

	if (n == 0)
		return;
	for (int i = 0; i < n; i++)
	{
		text[i] = rows[i].org == NULL ? "" : rows[i].org;
		text[n + i] = rows[i].decision;
		text[2 * n + i] = rows[i].reason;
		text[3 * n + i] = rows[i].account;
		ids[i] = rows[i].hold;
		ids[n + i] = rows[i].job;
		attempts[i] = rows[i].attempt;
		traces[i] = TraceOr(rows[i].trace);
	}
	args = VALUES(TimeValue(rows[0].at), TextValue(login_name()),
				  TextValue(CallerName()), TextValue(rows[0].operation));
	for (int column = 0; column < 4; column++)
		ValuesAdd(args, TextArrayValue(text + column * n, n));
	ValuesAdd(args, Int8ArrayValue(ids, n), Int8ArrayValue(ids + n, n),
			  Int4ArrayValue(attempts, n));
	arg_details(args, rows, n);
	arg_session(args);
	ValuesAdd(args, TraceArrayValue(traces, n));
	(void) SqlRun(&audit_insert_many, args);
	for (int i = 0; i < n; i++)
		write_event(&rows[i]);
}

/*
 * write_audit(): writes an audit row for a function written in SQL, with the
 * present instant and the caller's roles.
 */
Datum
gpucredit_write_audit(PG_FUNCTION_ARGS)
{
	AuditRow	audit = {
		.operation = ArgName(fcinfo, 0, "operation"),
		.decision = ArgName(fcinfo, 1, "decision"),
		.org = ArgPath(fcinfo, 2, "org"),
		.account = PG_ARGISNULL(3) ? NULL : ArgPath(fcinfo, 3, "account"),
		.bucket = PG_ARGISNULL(4) ? 0 : PG_GETARG_INT64(4),
		.hold = PG_ARGISNULL(5) ? 0 : PG_GETARG_INT64(5),
		.at = ClockNow()
	};

	if (!PG_ARGISNULL(6))
		AuditMembers(&audit, PG_GETARG_JSONB_P(6));
	SqlConnect();
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}

static AuditDetail *
detail_of(AuditRow *row)
{
	if (row->detail == NULL)
	{
		row->detail = palloc(sizeof(AuditDetail));
		row->detail->n = 0;
		row->detail->room = 8;
		row->detail->members = palloc(sizeof(Member) * row->detail->room);
	}
	return row->detail;
}

/*
 * Returns where to store the value of a member.  If a name is added twice, the
 * last value is kept.
 */
static JsonbValue *
add_member(AuditRow *row, const char *name)
{
	AuditDetail *detail = detail_of(row);
	JsonbValue	key = string_value(name);
	int			at = detail->n;
	int			order = 1;

	while (at > 0 && (order = compare_names(&detail->members[at - 1].name,
											&key)) > 0)
		at--;
	if (order == 0 && at > 0)
		return &detail->members[at - 1].value;
	if (detail->n == detail->room)
	{
		detail->room *= 2;
		detail->members = repalloc(detail->members,
								   sizeof(Member) * detail->room);
	}
	memmove(&detail->members[at + 1], &detail->members[at],
			sizeof(Member) * (detail->n++ - at));
	detail->members[at].name = key;
	return &detail->members[at].value;
}

/*----------
 * The order of keys in jsonb:
 *
 * 1. length of the key, the shortest first;
 * 2. bytes of the key.
 *----------
 */
static int
compare_names(const JsonbValue *a, const JsonbValue *b)
{
	if (a->val.string.len != b->val.string.len)
		return a->val.string.len > b->val.string.len ? 1 : -1;
	return memcmp(a->val.string.val, b->val.string.val, a->val.string.len);
}

static JsonbValue
string_value(const char *text)
{
	JsonbValue	value = {.type = jbvString};

	value.val.string.len = strlen(text);
	value.val.string.val = pnstrdup(text, value.val.string.len);
	return value;
}

void
AuditText(AuditRow *row, const char *name, const char *value)
{
	if (value != NULL)
		*add_member(row, name) = string_value(value);
}

/* Adds an instant, as text in UTC whatever the session's time zone. */
void
AuditTime(AuditRow *row, const char *name, TimestampTz at)
{
	char		text[MAXDATELEN + 1];
	int			utc = 0;

	AuditText(row, name, JsonEncodeDateTime(text, TimestampTzGetDatum(at),
											TIMESTAMPTZOID, &utc));
}

/* Adds a member whose value is given as JSON text, such as a number. */
void
AuditNumber(AuditRow *row, const char *name, const char *value)
{
	Jsonb	   *json = DatumGetJsonbP(DirectFunctionCall1(jsonb_in,
														  CStringGetDatum(value)));
	JsonbValue *member = add_member(row, name);

	if (!JsonbExtractScalar(&json->root, member))
		JsonbToJsonbValue(json, member);
}

void
AuditInt8(AuditRow *row, const char *name, int64 value)
{
	JsonbValue *member = add_member(row, name);

	member->type = jbvNumeric;
	member->val.numeric = int64_to_numeric(value);
}

void
AuditCredits(AuditRow *row, const char *name, int64 value)
{
	JsonbValue *member = add_member(row, name);

	member->type = jbvNumeric;
	member->val.numeric = CreditsToNumeric(value);
}

/* Adds all members of a JSON object. */
void
AuditMembers(AuditRow *row, Jsonb *object)
{
	JsonbIterator *members = JsonbIteratorInit(&object->root);
	JsonbValue	value;

	(void) detail_of(row);
	(void) JsonbIteratorNext(&members, &value, false);
	while (JsonbIteratorNext(&members, &value, true) == WJB_KEY)
	{
		char	   *name = pnstrdup(value.val.string.val,
									value.val.string.len);

		(void) JsonbIteratorNext(&members, &value, true);
		*add_member(row, name) = value;
	}
}

/* Returns the object built so far, or NULL if there is none. */
static Jsonb *
detail_json(const AuditDetail *detail)
{
	JsonbParseState *state = NULL;

	if (detail == NULL)
		return NULL;
	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < detail->n; i++)
	{
		(void) pushJsonbValue(&state, WJB_KEY, &detail->members[i].name);
		(void) pushJsonbValue(&state, WJB_VALUE, &detail->members[i].value);
	}
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

Jsonb *
AuditDetailJson(const AuditRow *row)
{
	return detail_json(row->detail);
}

/* Adds the objects of many rows to a statement's parameters, as a jsonb[]. */
static void
arg_details(Values *args, const AuditRow *rows, int n)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		nulls[i] = rows[i].detail == NULL;
		elems[i] = JsonbPGetDatum(detail_json(rows[i].detail));
	}
	ValuesAdd(args, ArrayValue(elems, nulls, n, JSONBOID));
}
