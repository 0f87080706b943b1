/*-------------------------------------------------------------------------
 *
 * detail.c
 *		The detail of an audit row: a JSON object.
 *
 * It grows by one member at a time, directly as jsonb: no text is built that
 * the server would have to parse.  Members stay in jsonb's order of names, so
 * nothing has to be sorted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/detail.h"
#include "catalog/pg_type.h"
#include "types/credits.h"
#include "utils/array.h"
#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

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

static AuditDetail *detail_of(AuditRow *row);
static JsonbValue *add_member(AuditRow *row, const char *name);
static int	compare_names(const JsonbValue *a, const JsonbValue *b);
static JsonbValue string_value(const char *text);

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
 * Place for the value of a member; the last one with a name stands.
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

/*
 * In jsonb's order of keys: shorter ones first.
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

/*
 * An instant in UTC, in any time zone of the caller.
 */
void
AuditTime(AuditRow *row, const char *name, TimestampTz at)
{
	char		text[MAXDATELEN + 1];
	int			utc = 0;

	AuditText(row, name, JsonEncodeDateTime(text, TimestampTzGetDatum(at),
											TIMESTAMPTZOID, &utc));
}

/*
 * A number, or another value, in JSON.
 */
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

/*
 * All members of an object.
 */
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

/*
 * The object so far; NULL: it has no member.
 */
Jsonb *
DetailJson(const AuditDetail *detail)
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

/*
 * The objects of many rows, as a statement's parameter of type jsonb[].
 */
void
DetailArgArray(SqlArgs *args, const AuditRow *rows, int n)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(n, 1));
	int			lower = 1;

	for (int i = 0; i < n; i++)
	{
		nulls[i] = rows[i].detail == NULL;
		elems[i] = JsonbPGetDatum(DetailJson(rows[i].detail));
	}
	SqlArg(args, PointerGetDatum(construct_md_array(elems, nulls, 1, &n,
													&lower, JSONBOID, -1,
													false, TYPALIGN_INT)));
}
