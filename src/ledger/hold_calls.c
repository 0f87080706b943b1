/*-------------------------------------------------------------------------
 *
 * hold_calls.c
 *		hold, capture, release: for callers with a scheduler of their own.
 *
 * From the instant of its ttl a hold is dead: it is refused to capture and
 * its credit is free.  Release of a dead hold returns what was released,
 * whoever did it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "common/clock.h"
#include "common/errors.h"
#include "common/sql.h"
#include "common/unknown.h"
#include "entry/entry.h"
#include "ledger/ledger.h"
#include "request/request.h"
#include "utils/builtins.h"

ENTRY_POINT(hold);
ENTRY_POINT(capture);
ENTRY_POINT(release);

/* A hold that is asked for. */
typedef struct Asking
{
	Request		request;
	const char *account;
	Credits		amount;
	int64		ttl;
	Row			row;			/* what is answered */
} Asking;

/* What is left to who comes to capture too late. */
#define TAKE_ANOTHER "Take a new hold by gpucredit.hold()."

static void grant(void *context, const Hold *hold, TimestampTz at);
static void deny(Asking *asking, const char *reason, TimestampTz at);
static void audit_asked(const Asking *asking, const char *reason, int64 hold,
						TimestampTz at);
static void lock_own_hold(const char *org, int64 id, Hold *hold);
static pg_attribute_noreturn() void refuse_hold(int64 id, const char *why,
												const char *hint);
static void audit_settled(const Request *request, const Hold *hold,
						  const char *decision, Credits captured, bool final,
						  Returned returned, TimestampTz at);

Datum
call_hold(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	Asking		asking = {.account = ArgPath(fcinfo, 1, "account")};
	Granting	granting = {grant, &asking};
	Request    *request = &asking.request;
	AccountPath path = AccountParse(org, asking.account);
	Purpose		purpose = {0};
	Cause		cause = {"hold", 0, 0};
	LedgerStatus status;
	Datum		result;
	Hold		hold;
	TimestampTz at;

	RequestInit(request, fcinfo, "hold", org, ArgKey(fcinfo, 2, "key"));
	RequestText(request, asking.account);
	RequestInt8(request, asking.amount = ArgAmount(fcinfo, 3, "amount",
												   false));
	RequestInt8(request, asking.ttl = ArgDuration(fcinfo, 4, "ttl", false));

	SqlConnect();
	if (RequestBegin(request, &result))
		return SqlFinishRow(result);
	purpose.first = request->first;
	if (AccountSuspended(&path))
		deny(&asking, "account_suspended", ClockNow());
	else
	{
		status = HoldOpen(&path, &purpose, &cause, asking.amount, asking.ttl,
						  true, &granting, &hold, &at);
		if (status != LEDGER_DONE)
			deny(&asking, LedgerReason(status), at);
	}
	return SqlFinishRow(RowReturn(fcinfo, &asking.row));
}

/*
 * Write what comes of it.
 */
static void
grant(void *context, const Hold *hold, TimestampTz at)
{
	Asking	   *asking = context;
	Row		   *row = &asking->row;

	*row = (Row){0};
	RowAdd(row, Int64GetDatum(hold->hold));
	RowText(row, "granted");
	RowNull(row);
	RowCredits(row, asking->amount);
	RowTime(row, hold->expires_at);
	RowAdd(row, BoolGetDatum(false));
	RequestStore(&asking->request, row);
	audit_asked(asking, NULL, hold->hold, at);
}

static void
deny(Asking *asking, const char *reason, TimestampTz at)
{
	Row		   *row = &asking->row;

	*row = (Row){0};
	RowNull(row);
	RowText(row, "denied");
	RowText(row, reason);
	RowCredits(row, 0);
	RowNull(row);
	RowAdd(row, BoolGetDatum(false));
	RequestStore(&asking->request, row);
	audit_asked(asking, reason, 0, at);
}

static void
audit_asked(const Asking *asking, const char *reason, int64 hold,
			TimestampTz at)
{
	AuditRow	audit = {.org = asking->request.org,
		.account = asking->account, .operation = "hold",
		.decision = reason ? "denied" : "granted", .reason = reason,
		.hold = hold, .at = at};

	AuditCredits(&audit, "amount", asking->amount);
	AuditInt8(&audit, "ttl_us", asking->ttl);
	AuditDecision(&audit, asking->request.key);
}

Datum
call_capture(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		id = ArgInt8(fcinfo, 1, "hold", PG_INT64_MIN, PG_INT64_MAX);
	Credits		amount;
	bool		final;
	Cause		cause = {"capture", 0, 0};
	Request		request;
	Datum		result;
	Row			row = {0};
	Hold		hold;
	Returned	returned;
	TimestampTz at;

	RequestInit(&request, fcinfo, "capture", org, ArgKey(fcinfo, 2, "key"));
	RequestInt8(&request, id);
	RequestInt8(&request, amount = ArgAmount(fcinfo, 3, "amount", true));
	RequestInt8(&request, final = ArgBool(fcinfo, 4, "final"));

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	lock_own_hold(org, id, &hold);
	if (!HoldIsOpen(&hold))
		refuse_hold(id, "It is closed.", TAKE_ANOTHER);
	if (hold.expires_at <= ClockNow())
		refuse_hold(id, "It is past its ttl.", TAKE_ANOTHER);
	if (amount > hold.held)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"amount\" is more than is held"),
				 errdetail("Hold %lld holds %s.", (long long) id,
						   CreditsToCString(hold.held)),
				 errhint("Capture at most that.")));
	returned = HoldSettle(&hold, &cause, amount, final, &at);
	if (hold.expires_at <= at)
		refuse_hold(id, "It is past its ttl.", TAKE_ANOTHER);
	audit_settled(&request, &hold, "captured", amount, final, returned, at);

	RowCredits(&row, amount);
	RowCredits(&row, returned.released);
	RowCredits(&row, returned.lapsed);
	RowAdd(&row, BoolGetDatum(false));
	return SqlFinishRow(RequestFinish(&request, &row));
}

Datum
call_release(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		id = ArgInt8(fcinfo, 1, "hold", PG_INT64_MIN, PG_INT64_MAX);
	Cause		cause = {"release", 0, 0};
	Request		request;
	Datum		result;
	Row			row = {0};
	Hold		hold;
	Returned	returned;
	TimestampTz at;

	RequestInit(&request, fcinfo, "release", org, ArgKey(fcinfo, 2, "key"));
	RequestInt8(&request, id);

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	lock_own_hold(org, id, &hold);
	if (HoldIsOpen(&hold))
	{
		returned = HoldSettle(&hold, &cause, 0, true, &at);
		audit_settled(&request, &hold, "released", 0, true, returned, at);
	}
	else if (hold.closed_at >= hold.expires_at)
		returned = (Returned){hold.released, hold.lapsed};
	else
		refuse_hold(id, "It is closed.", "Nothing of it is left to release.");

	RowCredits(&row, returned.released);
	RowCredits(&row, returned.lapsed);
	RowAdd(&row, BoolGetDatum(false));
	return SqlFinishRow(RequestFinish(&request, &row));
}

/*
 * Lock a caller's own hold.
 */
static void
lock_own_hold(const char *org, int64 id, Hold *hold)
{
	if (!HoldLock(org, id, true, hold))
		RefuseUnknownHold(id);
	if (hold->job != 0)
		refuse_hold(id, "It belongs to a job, and is settled with that.",
					"Call gpucredit.settle() or gpucredit.cancel() for the job.");
}

static void
refuse_hold(int64 id, const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_HOLD),
			 errmsg("no such hold, or hold closed: %lld", (long long) id),
			 errdetail_internal("%s", why),
			 errhint("%s", hint)));
}

/*
 * What became of a hold.  That it stays open is told: of a capture of all there
 * was nothing else would.
 */
static void
audit_settled(const Request *request, const Hold *hold, const char *decision,
			  Credits captured, bool final, Returned returned, TimestampTz at)
{
	AuditRow	audit = {.org = hold->org, .account = hold->account,
		.operation = request->operation, .decision = decision,
		.hold = hold->hold, .at = at, .trace = hold->trace};

	AuditCredits(&audit, "captured", captured);
	AuditCredits(&audit, "released", returned.released);
	AuditCredits(&audit, "lapsed", returned.lapsed);
	if (!final)
		AuditText(&audit, "final", "false");
	AuditText(&audit, "key", request->key);
	AuditWrite(&audit);
}
