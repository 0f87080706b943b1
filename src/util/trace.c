/*-------------------------------------------------------------------------
 *
 * trace.c
 *		The distributed trace (W3C Trace Context) that a job or a call
 *		belongs to.
 *
 * A caller sets gpucredit.traceparent to the HTTP header of that name that it
 * received.  A job keeps the trace in which it was submitted.  The trace is
 * passed as a value along with the job, its holds and its attempts, and is
 * written into every entry and audit row.  What has no trace from a job
 * belongs to the session's trace.
 *
 * The check hook refuses any text that is not of format version 00, even where
 * a later version may allow it, because agents and logs rely on the format.
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
#define VERSION_END		2		/* offset of the "-" behind the version */
#define TRACE_AT		3		/* offset of the trace's id, 32 digits and "-" */
#define PARENT_AT		36		/* offset of the parent span's id, 16 digits
								 * and "-" */
#define FLAGS_AT		53		/* offset of the flags, 2 digits */
#define PARENT_LENGTH	55
#define PARENT_MAX		128		/* most bytes of a text of a later version */

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

/* Returns the session's setting, or NULL if it has none. */
const char *
TraceParent(void)
{
	return current.known ? traceparent : NULL;
}

/* Returns the given trace, or the session's if the given one is empty. */
Trace
TraceOr(Trace trace)
{
	return trace.known ? trace : current;
}

/*
 * The check hook: accepts an empty text or a traceparent, and parses its
 * trace.
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
		/*
		 * The server's own message would repeat the whole value, which may be
		 * long.
		 */
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

/* Returns why a text is no traceparent, or NULL if it is one. */
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
 * Returns the trace of a traceparent.  It is empty for NULL or a malformed
 * text.
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
 * Returns a trace's id in the form that tracing tools use, or NULL if the
 * trace is empty.
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

/* Returns a trace as a parameter of a statement, of type uuid. */
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

/* Returns a trace that was stored as a uuid. */
Trace
TraceFrom(Datum value, bool isnull)
{
	Trace		trace = {.known = !isnull};

	if (!isnull)
		trace.id = *DatumGetUUIDP(value);
	return trace;
}
