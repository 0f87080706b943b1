/*-------------------------------------------------------------------------
 *
 * api.c
 *		The checks and counts around every call.
 *
 * Before the call: a tenant gets the error for a missing thing if the thing is
 * not its own.  An agent proves that it speaks for its node, if that has a key
 * (node_proof.c).  Then the rate limits apply to tenants and applications,
 * before any other check, so that replays and failures count, too.  An argument
 * that no limit could have (null, too long) is left to the function.
 *
 * After the call: its result is counted, also a tenant's refusal, whatever the
 * transaction does (count.c).  If waiting jobs may start now, the scheduler's
 * worker is woken at the commit.
 *
 * All but the first needs our shared memory; without it a call runs alone.
 *
 * Log lines in between have the caller's trace as their context.
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
 * The trace of an error, or of a line of the log.
 */
static void
add_trace_context(void *name)
{
	if (TraceParent() != NULL)
		errcontext("gpucredit call=%s traceparent=%s", (const char *) name,
				   TraceParent());
}

/*
 * Check role and rate limits, make the call, and count it.
 */
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
 * Refuse a caller without the right role.
 */
static void
check_caller(ApiFunction entry, FunctionCallInfo fcinfo)
{
	TenantCheckCall(entry, ApiSubjectOf(entry), fcinfo);
	if (API_PROVEN(entry))
		ProofCheckCall(entry, fcinfo);
}

/*
 * Raise UC202 if a limit on the path of the call's account refuses it.
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
 * Could this text name an organisation or an account?
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
