/*-------------------------------------------------------------------------
 *
 * trace.c
 *		The distributed trace (W3C Trace Context) that a thing belongs to.
 *
 * A caller sets gpucredit.traceparent, as it received the header of that name.
 * A job keeps the trace.  From there it travels as a value, with the job, its
 * holds and attempts, to every entry and audit row.  A thing without a job's
 * trace belongs to the session's.
 *
 * The check refuses any text that is not format version 00, even if a later
 * version may allow it: agents and logs rely on the value.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "util/compat.h"
#include "util/trace.h"
#include "types/clip.h"
#include "utils/array.h"
#include "utils/guc.h"

#define TRACEPARENT		"gpucredit.traceparent"
#define VERSION_END		2		/* "00-" */
#define TRACE_AT		3		/* 32 digits, "-" */
#define PARENT_AT		36		/* 16 digits, "-" */
#define FLAGS_AT		53		/* 2 digits */
#define PARENT_LENGTH	55
#define PARENT_MAX		128		/* of a later version */

static char *traceparent = NULL;
static Trace current = {.known = false};

static bool check_traceparent(char **newval, void **extra, GucSource source);
static void assign_traceparent(const char *newval, void *extra);
static const char *find_fault(const char *text);
static bool all_digits(const char *text, int n);
static bool all_zero(const char *text, int n);
static int	digit_value(char digit);

void
TraceInit(void)
{
	DefineCustomStringVariable(TRACEPARENT,
							   "The trace that calls of this session belong "
							   "to.",
							   "Its form is that of the W3C header of this "
							   "name. It is stored with what calls do, and "
							   "passed to agents. Empty means none.",
							   &traceparent, "", PGC_USERSET, 0,
							   check_traceparent, assign_traceparent, NULL);
}

/*
 * The caller's setting; NULL: none.
 */
const char *
TraceParent(void)
{
	return current.known ? traceparent : NULL;
}

/*
 * The trace, or the session's if it has none.
 */
Trace
TraceOr(Trace trace)
{
	return trace.known ? trace : current;
}

/*
 * Accept an empty text or a traceparent, and parse its trace.
 */
static bool
check_traceparent(char **newval, void **extra, GucSource source)
{
	const char *fault = NULL;
	Trace	   *trace;

	if (*newval != NULL && **newval != '\0')
		fault = find_fault(*newval);
	if (fault != NULL)
	{
		/* the server's own message would repeat the whole value */
		GUC_check_errcode(ERRCODE_INVALID_PARAMETER_VALUE);
		GUC_check_errmsg("invalid value for parameter \"%s\": \"%s\"",
						 TRACEPARENT, ClipForMessage(*newval));
		GUC_check_errdetail("%s", fault);
		GUC_check_errhint("Pass the traceparent header as it came, such as "
						  "\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\", "
						  "or nothing.");
		return false;
	}
	trace = guc_malloc(LOG, sizeof(Trace));
	if (trace == NULL)
		return false;
	*trace = TraceOfParent(*newval);
	*extra = trace;
	return true;
}

static void
assign_traceparent(const char *newval, void *extra)
{
	current = extra ? *(Trace *) extra : NO_TRACE;
}

/*
 * Why a text is no traceparent; NULL: it is one.
 */
static const char *
find_fault(const char *text)
{
	size_t		length = strlen(text);

	if (length < PARENT_LENGTH)
		return "It is too short.";
	if (!all_digits(text, VERSION_END) || text[VERSION_END] != '-' ||
		!all_digits(text + TRACE_AT, PARENT_AT - 1 - TRACE_AT) ||
		text[PARENT_AT - 1] != '-' ||
		!all_digits(text + PARENT_AT, FLAGS_AT - 1 - PARENT_AT) ||
		text[FLAGS_AT - 1] != '-' || !all_digits(text + FLAGS_AT, 2))
		return "It does not have the form version-trace-parent-flags in "
			"lower-case hexadecimal digits.";
	if (strncmp(text, "ff", VERSION_END) == 0)
		return "There is no version \"ff\".";
	if (all_zero(text + TRACE_AT, PARENT_AT - 1 - TRACE_AT))
		return "The trace is all zeros.";
	if (all_zero(text + PARENT_AT, FLAGS_AT - 1 - PARENT_AT))
		return "The parent is all zeros.";
	if (length > PARENT_LENGTH &&
		(strncmp(text, "00", VERSION_END) == 0 ||
		 text[PARENT_LENGTH] != '-' || length > PARENT_MAX ||
		 strspn(text, "0123456789abcdef-") != length))
		return "It is too long for its version.";
	return NULL;
}

static bool
all_digits(const char *text, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (digit_value(text[i]) < 0)
			return false;
	}
	return true;
}

static bool
all_zero(const char *text, int n)
{
	return strspn(text, "0") >= (size_t) n;
}

static int
digit_value(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/*
 * The trace of a traceparent; NULL or a malformed text has none.
 */
Trace
TraceOfParent(const char *text)
{
	Trace		trace = {.known = text != NULL && find_fault(text) == NULL};

	for (int i = 0; trace.known && i < UUID_LEN; i++)
		trace.id.data[i] = (unsigned char)
			(digit_value(text[TRACE_AT + 2 * i]) << 4 |
			 digit_value(text[TRACE_AT + 2 * i + 1]));
	return trace;
}

/*
 * A trace's id as tracing tools write it; NULL: none.
 */
char *
TraceText(const Trace *trace)
{
	char	   *text;

	if (!trace->known)
		return NULL;
	text = palloc(2 * UUID_LEN + 1);
	for (int i = 0; i < UUID_LEN; i++)
		snprintf(text + 2 * i, 3, "%02x", trace->id.data[i]);
	return text;
}

/*
 * As a parameter of a statement, of type uuid.
 */
NullableDatum
TraceValue(Trace trace)
{
	pg_uuid_t  *id;

	if (!trace.known)
		return NullValue();
	id = palloc(sizeof(pg_uuid_t));
	*id = trace.id;
	return DatumValue(UUIDPGetDatum(id));
}

NullableDatum
TraceArrayValue(const Trace *traces, int n)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		nulls[i] = !traces[i].known;
		elems[i] = UUIDPGetDatum(&traces[i].id);
	}
	return ArrayValue(elems, nulls, n, UUIDOID);
}

/*
 * From a uuid.
 */
Trace
TraceFrom(Datum value, bool isnull)
{
	Trace		trace = {.known = !isnull};

	if (!isnull)
		trace.id = *DatumGetUUIDP(value);
	return trace;
}
