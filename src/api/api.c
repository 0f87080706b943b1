/*-------------------------------------------------------------------------
 *
 * api.c
 *		The checks and counts around every call.
 *
 * Before the call, a tenant gets the error for a missing thing if the thing it
 * names is not its own.  An agent must prove that it speaks for its node, if
 * the node has a key (node_proof.c).  Then the rate limits of tenants and
 * applications apply, before any other check, so that replays and failures
 * count as well.  If an argument cannot be a name (null, too long), these
 * checks are skipped and the function itself raises the error.
 *
 * After the call, its result is counted, including errors, even if the
 * transaction rolls back (count.c).  If the call may allow waiting jobs to
 * start, the scheduler's background worker is woken at the commit.
 *
 * The check of tenants works without shared memory; everything else here needs
 * it and is skipped where the library was not preloaded.  Errors and log lines
 * that arise during the call have the caller's trace as their context.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/detoast.h"
#include "util/args.h"
#include "util/errors.h"
#include "util/trace.h"
#include "api/count.h"
#include "api/api.h"
#include "api/node_proof.h"
#include "api/rate.h"
#include "api/tenant.h"
#include "shmem/segment.h"
#include "shmem/wake.h"
#include "types/clip.h"
#include "utils/builtins.h"

static Datum call_counted(ApiFunction entry, PGFunction call,
						  FunctionCallInfo fcinfo);
static void check_caller(ApiFunction entry, FunctionCallInfo fcinfo);
static void add_trace_context(void *name);
static void check_rate(ApiFunction entry, FunctionCallInfo fcinfo);
static bool fits_name(FunctionCallInfo fcinfo, int n);
static pg_attribute_noreturn() void refuse_rate(ApiFunction entry,
												const char *org,
												const RateRefusal *refusal);

void
ApiInit(void)
{
	TenantInit();
	ProofInit();
	RateInit();
	CountInit();
}

Datum
ApiCall(ApiFunction entry, PGFunction call, FunctionCallInfo fcinfo)
{
	Datum		result;
	ErrorContextCallback context = {
		.previous = error_context_stack,
		.callback = add_trace_context,
		.arg = unconstify(char *, ApiName(entry))
	};

	if (TraceParent() != NULL)
		error_context_stack = &context;
	if (SegmentReady())
		result = call_counted(entry, call, fcinfo);
	else
	{
		check_caller(entry, fcinfo);
		result = call(fcinfo);
	}
	error_context_stack = context.previous;
	return result;
}

/*
 * Error context callback: adds the caller's trace to an error or a log line.
 */
static void
add_trace_context(void *name)
{
	if (TraceParent() != NULL)
		errcontext("gpucredit call=%s traceparent=%s", (const char *) name,
				   TraceParent());
}

/* Checks the caller and the rate limits, makes the call, and counts it. */
static Datum
call_counted(ApiFunction entry, PGFunction call, FunctionCallInfo fcinfo)
{
	Datum		result;
	Call		counted;

	CountBegin(&counted, entry);
	PG_TRY();
	{
		check_caller(entry, fcinfo);
		if (ApiIsLimited(entry))
			check_rate(entry, fcinfo);
		result = call(fcinfo);
	}
	PG_CATCH();
	{
		CountEnd(&counted, geterrcode());
		PG_RE_THROW();
	}
	PG_END_TRY();
	CountEnd(&counted, 0);
	if (ApiWakes(entry))
		WakeAll();
	return result;
}

/*
 * Raises an error if the caller may not make this call: a tenant about
 * another's things, or an agent without the key of its node.
 */
static void
check_caller(ApiFunction entry, FunctionCallInfo fcinfo)
{
	TenantCheckCall(entry, ApiSubjectOf(entry), fcinfo);
	if (API_PROVEN(entry))
		ProofCheckCall(entry, fcinfo);
}

/*
 * Raises UC202 if a rate limit of the call's account or of an account above it
 * refuses the call.
 */
static void
check_rate(ApiFunction entry, FunctionCallInfo fcinfo)
{
	RateSubject subject = {.kind = ApiSubjectOf(entry), .call = fcinfo};
	RateRefusal refusal;
	const char *org;

	if (!fits_name(fcinfo, 0))
		return;
	org = text_to_cstring(PG_GETARG_TEXT_PP(0));
	if (subject.kind != API_SUBJECT_ACCOUNT)
		subject.id = PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1);
	else if (fits_name(fcinfo, 1))
		subject.account = text_to_cstring(PG_GETARG_TEXT_PP(1));
	else
		subject.account = "";
	if (!RateAdmits(entry, org, &subject, &refusal))
		refuse_rate(entry, org, &refusal);
}

/*
 * Whether an argument is short enough to name an organisation or an account.
 */
static bool
fits_name(FunctionCallInfo fcinfo, int n)
{
	return !PG_ARGISNULL(n) &&
		toast_raw_datum_size(PG_GETARG_DATUM(n)) - VARHDRSZ <= ARG_NAME_MAX;
}

static void
refuse_rate(ApiFunction entry, const char *org, const RateRefusal *refusal)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_RATE_LIMITED),
			 errmsg("too many calls of \"%s\"", ApiName(entry)),
			 errdetail("Account \"%s\" of organisation \"%s\" may call \"%s\" "
					   "%g times a second, %d times at once.",
					   ClipForMessage(refusal->account), ClipForMessage(org),
					   refusal->operation, refusal->per_second,
					   refusal->burst),
			 errhint("Try again in %.3f seconds.",
					 ceil(refusal->wait * 1000 - 0.001) / 1000)));
}
