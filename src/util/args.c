/*-------------------------------------------------------------------------
 *
 * args.c
 *		Arguments of entry points, checked as they are read.
 *
 * The size of a text is checked before it is copied, so that a huge one costs
 * nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "util/args.h"
#include "util/errors.h"
#include "miscadmin.h"
#include "types/clip.h"
#include "types/control.h"
#include "types/duration.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"

#define SHA256_BYTES	32

static char *parse_text(FunctionCallInfo fcinfo, int n, const char *name,
						Size most, bool empty_ok);
static char *plain(char *value, const char *name);
static pg_attribute_noreturn() void refuse_null(const char *name);

/*
 * Returns a text argument that must not be null.  Raises an error if the text
 * has more than `most` bytes, or if it is empty and empty_ok is false.
 */
static char *
parse_text(FunctionCallInfo fcinfo, int n, const char *name, Size most,
		   bool empty_ok)
{
	Size		size;

	ArgNotNull(fcinfo, n, name);
	size = toast_raw_datum_size(PG_GETARG_DATUM(n)) - VARHDRSZ;
	if (size > most)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is too long", name),
				 errdetail("It has %zu bytes, and at most %zu are allowed.",
						   size, most),
				 errhint("Pass a shorter text.")));
	if (size == 0 && !empty_ok)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must not be empty", name),
				 errdetail("An empty text names nothing."),
				 errhint("Pass a text of 1 to %zu bytes.", most)));
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/*
 * Checks a name that will be displayed: raises an error if it has a control
 * character, and else returns it unchanged.
 */
static char *
plain(char *value, const char *name)
{
	pg_wchar	code;
	int			size;

	if (unlikely(ControlCharIn(value, strlen(value), &size, &code) != NULL))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" has a control character", name),
				 errdetail("It is \"%s\"; the character is U+%04X.",
						   ClipForMessage(value), code),
				 errhint("Use visible characters only.")));
	return value;
}

static void
refuse_null(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("\"%s\" must not be null", name),
			 errdetail("NULL has no meaning for this argument."),
			 errhint("Pass a value.")));
}

void
ArgNotNull(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (PG_ARGISNULL(n))
		refuse_null(name);
}

char *
ArgName(FunctionCallInfo fcinfo, int n, const char *name)
{
	return plain(parse_text(fcinfo, n, name, ARG_NAME_MAX, false), name);
}

/*
 * Empty texts are not refused here: no object has an empty name, so the
 * caller's lookup of the name fails and raises the error.
 */
const char **
ArgNames(FunctionCallInfo fcinfo, int n, const char *name, int *count)
{
	ArrayType  *array;
	Datum	   *elems;
	bool	   *nulls;
	const char **names;

	ArgNotNull(fcinfo, n, name);
	array = PG_GETARG_ARRAYTYPE_P(n);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must have one dimension", name),
				 errdetail("It has %d.", ARR_NDIM(array)),
				 errhint("Pass an array of one dimension.")));
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elems, &nulls,
					  count);
	names = palloc(sizeof(char *) * Max(*count, 1));
	for (int i = 0; i < *count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"%s\" has a null element", name),
					 errdetail("It is element %d.", i + 1),
					 errhint("Leave it out.")));
		names[i] = TextDatumGetCString(elems[i]);
	}
	return names;
}

/*
 * Returns an idempotency key.  Any characters are allowed, because a key is
 * shown to nobody but the caller who chose it.
 */
char *
ArgKey(FunctionCallInfo fcinfo, int n, const char *name)
{
	return parse_text(fcinfo, n, name, ARG_NAME_MAX, false);
}

char *
ArgNameOrNull(FunctionCallInfo fcinfo, int n, const char *name)
{
	return PG_ARGISNULL(n) ? NULL : ArgName(fcinfo, n, name);
}

char *
ArgPath(FunctionCallInfo fcinfo, int n, const char *name)
{
	return plain(parse_text(fcinfo, n, name, ARG_NAME_MAX, true), name);
}

char *
ArgText(FunctionCallInfo fcinfo, int n, const char *name)
{
	return parse_text(fcinfo, n, name, ARG_TEXT_MAX, true);
}

char *
ArgTextOrNull(FunctionCallInfo fcinfo, int n, const char *name)
{
	return PG_ARGISNULL(n) ? NULL : ArgText(fcinfo, n, name);
}

/*
 * Returns an integer argument; raises an error if it lies outside the bounds.
 */
int64
ArgInt8(FunctionCallInfo fcinfo, int n, const char *name, int64 least,
		int64 most)
{
	int64		value;

	ArgNotNull(fcinfo, n, name);
	value = PG_GETARG_INT64(n);
	if (value < least || value > most)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is out of range", name),
				 errdetail("It is %lld.", (long long) value),
				 errhint("Pass %lld to %lld.", (long long) least,
						 (long long) most)));
	return value;
}

int32
ArgInt4(FunctionCallInfo fcinfo, int n, const char *name, int32 least,
		int32 most)
{
	int32		value;

	ArgNotNull(fcinfo, n, name);
	value = PG_GETARG_INT32(n);
	if (value < least || value > most)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is out of range", name),
				 errdetail("It is %d.", value),
				 errhint("Pass %d to %d.", least, most)));
	return value;
}

bool
ArgBool(FunctionCallInfo fcinfo, int n, const char *name)
{
	ArgNotNull(fcinfo, n, name);
	return PG_GETARG_BOOL(n);
}

/* Returns a SHA-256 digest; raises an error if it does not have 32 bytes. */
bytea *
ArgSha256(FunctionCallInfo fcinfo, int n, const char *name)
{
	bytea	   *value;

	ArgNotNull(fcinfo, n, name);
	value = PG_GETARG_BYTEA_PP(n);
	if (VARSIZE_ANY_EXHDR(value) != SHA256_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" does not have 32 bytes", name),
				 errdetail("It has %d.", (int) VARSIZE_ANY_EXHDR(value)),
				 errhint("Pass the digest itself, as decode(..., 'hex').")));
	return value;
}

/*
 * Returns a jsonb argument that must be an object of at most ARG_TEXT_MAX
 * bytes.
 */
Jsonb *
ArgObject(FunctionCallInfo fcinfo, int n, const char *name)
{
	Jsonb	   *value;
	Size		size;

	ArgNotNull(fcinfo, n, name);
	size = toast_raw_datum_size(PG_GETARG_DATUM(n)) - VARHDRSZ;
	if (size > ARG_TEXT_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is too long", name),
				 errdetail("It has %zu bytes, and at most %d are allowed.",
						   size, ARG_TEXT_MAX),
				 errhint("Keep large documents elsewhere and pass a reference.")));
	value = PG_GETARG_JSONB_P(n);
	if (!JB_ROOT_IS_OBJECT(value))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be a JSON object", name),
				 errdetail("It is an array, a scalar or null."),
				 errhint("Pass '{}' for none.")));
	return value;
}

/*
 * Returns an amount of credits.  It must be above 0, or may be 0 if zero_ok.
 */
Credits
ArgAmount(FunctionCallInfo fcinfo, int n, const char *name, bool zero_ok)
{
	Credits		amount;

	ArgNotNull(fcinfo, n, name);
	amount = CreditsFromNumeric(PG_GETARG_NUMERIC(n), name);
	if (amount < 0 || (amount == 0 && !zero_ok))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be %s", name,
						zero_ok ? "0 or more" : "above 0"),
				 errdetail("It is %s.", CreditsToCString(amount)),
				 errhint("Pass %s amount.",
						 zero_ok ? "no negative" : "a positive")));
	return amount;
}

/*
 * Returns a duration in microseconds.  It must be above 0, or may be 0 if
 * zero_ok.
 */
int64
ArgDuration(FunctionCallInfo fcinfo, int n, const char *name, bool zero_ok)
{
	int64		us;

	ArgNotNull(fcinfo, n, name);
	us = DurationFromInterval(PG_GETARG_INTERVAL_P(n), name);
	if (us < 0 || (us == 0 && !zero_ok))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be %s", name,
						zero_ok ? "0 or more" : "above 0"),
				 errdetail("It is %s.", DurationToCString(us)),
				 errhint("Pass a longer interval.")));
	return us;
}

int64
ArgDurationOr(FunctionCallInfo fcinfo, int n, const char *name, bool zero_ok,
			  int64 otherwise)
{
	return PG_ARGISNULL(n) ? otherwise :
		ArgDuration(fcinfo, n, name, zero_ok);
}

TimestampTz
ArgTimeOrNull(FunctionCallInfo fcinfo, int n, const char *name)
{
	TimestampTz value;

	if (PG_ARGISNULL(n))
		return DT_NOBEGIN;
	value = PG_GETARG_TIMESTAMPTZ(n);
	if (TIMESTAMP_NOT_FINITE(value))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be finite", name),
				 errdetail("Infinity is not an instant."),
				 errhint("Pass NULL for no bound.")));
	return value;
}

/*
 * Returns the index of a value in a list of allowed words; raises an error if
 * the value is none of them.
 */
int
ArgWord(const char *value, const char *name, const char *const *words,
		int nwords)
{
	StringInfoData list;

	for (int i = 0; i < nwords; i++)
	{
		if (strcmp(value, words[i]) == 0)
			return i;
	}
	initStringInfo(&list);
	for (int i = 0; i < nwords; i++)
		appendStringInfo(&list, "%s%s", i > 0 ? ", " : "", words[i]);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown %s \"%s\"", name, ClipForMessage(value)),
			 errdetail("The argument does not accept that word."),
			 errhint("Pass one of: %s.", list.data)));
}

/*
 * Returns the name of the calling role.  Within SECURITY DEFINER functions the
 * current user is the definer, and the outer user is the caller.
 */
char *
CallerName(void)
{
	char	   *name = GetUserNameFromId(GetOuterUserId(), true);

	return name ? name : pstrdup("(dropped)");
}

bool
CallerIsSuperuser(void)
{
	return superuser_arg(GetOuterUserId());
}

bool
CallerHasRole(const char *role)
{
	Oid			oid = get_role_oid(role, true);

	return OidIsValid(oid) && has_privs_of_role(GetOuterUserId(), oid);
}

/* Whether the caller is a node's agent, and may not operate the cluster. */
bool
CallerIsAgent(void)
{
	return CallerHasRole("gpucredit_agent") &&
		!CallerHasRole("gpucredit_operator") &&
		!CallerHasRole("gpucredit_admin");
}
