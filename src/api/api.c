/*-------------------------------------------------------------------------
 *
 * api.c
 *		What every call passes on its way in and out.
 *
 * On its way in: what a tenant may not touch is not there; an agent proves that
 * it speaks for its node, where that has a key (node_proof.c); then its rate
 * limits, before anything else is looked at, so that a replay counts as much
 * as a call that is new, and one that fails as much as one that succeeds.  An
 * argument that no limit could be of (null, too long) is left to the function
 * to refuse.
 *
 * On its way out: what came of it is counted, a tenant's refusal too, whatever
 * becomes of its transaction (count.c); and the scheduler's worker is told,
 * once it has committed, where what waits might start now.
 *
 * All but the first needs our shared memory; without it a call is just the
 * call.
 *
 * Whatever is logged meanwhile has the caller's trace as its context.
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

typedef struct EntryKind
{
	const char *name;
	ApiSubject	subject;
	bool		wakes;			/* all pools, when it has committed */
} EntryKind;

#define API_WAKES	true
#define API_QUIET	false

static const EntryKind kinds[API_COUNT] = {
#define API_KIND(name, subject, wakes) \
	[API_##name] = {#name, API_SUBJECT_##subject, API_##wakes},
	API_FUNCTIONS(API_KIND)
#undef API_KIND
};

static Datum call_counted(ApiFunction entry, PGFunction call,
						  FunctionCallInfo fcinfo);
static void check_caller(ApiFunction entry, FunctionCallInfo fcinfo);
static void tell_trace(void *name);
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

const char *
ApiName(ApiFunction entry)
{
	return kinds[entry].name;
}

/*
 * May there be a rate limit of it?
 */
bool
ApiIsLimited(ApiFunction entry)
{
	return kinds[entry].subject != API_SUBJECT_NOBODY;
}

/*
 * Make a call.
 */
Datum
ApiCall(ApiFunction entry, PGFunction call, FunctionCallInfo fcinfo)
{
	Datum		result;
	ErrorContextCallback context = {
		.previous = error_context_stack,
		.callback = tell_trace,
		.arg = unconstify(char *, kinds[entry].name)
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
 * Which trace an error, or a line of the log, belongs to.
 */
static void
tell_trace(void *name)
{
	if (TraceParent() != NULL)
		errcontext("gpucredit call=%s traceparent=%s", (const char *) name,
				   TraceParent());
}

/*
 * Make a call, by whom it may be made and within its rate limits, and count
 * it.
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
		if (ApiIsLimited(entry) &&
			kinds[entry].subject != API_SUBJECT_EACH)
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
	if (kinds[entry].wakes)
		WakeAll();
	return result;
}

/*
 * Refuse who may not make this call.
 */
static void
check_caller(ApiFunction entry, FunctionCallInfo fcinfo)
{
	TenantCheckCall(entry, kinds[entry].subject, fcinfo);
	if (API_PROVEN(entry))
		ProofCheckCall(entry, fcinfo);
}

/*
 * Raise UC202 where a limit on the path of the call's account refuses it.
 */
static void
check_rate(ApiFunction entry, FunctionCallInfo fcinfo)
{
	RateSubject subject = {.kind = kinds[entry].subject, .call = fcinfo};
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
 * May this element of a call go on?  Where it may not, the function answers
 * it as one it could not get to.
 */
bool
ApiAdmits(ApiFunction entry, const char *org, int64 job)
{
	RateSubject subject = {.kind = API_SUBJECT_JOB, .id = job};
	RateRefusal refusal;

	Assert(kinds[entry].subject == API_SUBJECT_EACH);
	return !SegmentReady() || RateAdmits(entry, org, &subject, &refusal);
}

/*
 * Is this a text that could name an organisation or an account?
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
			 errmsg("too many calls of \"%s\"", kinds[entry].name),
			 errdetail("Account \"%s\" of organisation \"%s\" may call \"%s\" "
					   "%g times a second, %d times at once.",
					   ClipForMessage(refusal->account), ClipForMessage(org),
					   refusal->operation, refusal->per_second,
					   refusal->burst),
			 errhint("Try again in %.3f seconds.",
					 ceil(refusal->wait * 1000 - 0.001) / 1000)));
}
