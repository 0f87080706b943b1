/*-------------------------------------------------------------------------
 *
 * hold_calls.c
 *		hold, capture, release: for callers with a scheduler of their own.
 *
 * From the instant of its ttl a hold is dead: it is refused to capture, unless
 * that asks for an overrun (hold_more.c), and its credit is free.  Release of a dead hold returns what was released,
 * whoever did it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "util/subtransaction.h"
#include "util/not_found.h"
#include "api/api.h"
#include "ledger/external_hold.h"
#include "request/request.h"
#include "utils/builtins.h"

API_FUNCTION(hold);
API_FUNCTION(capture);
API_FUNCTION(release);

/* A hold that is asked for. */
typedef struct HoldCall
{
	Request		request;
	const char *account;
	Credits		amount;
	int64		ttl;
	HoldOpening *opening;
	Hold		hold;
	TimestampTz at;				/* of the decision */
	Row			row;			/* the result */
} HoldCall;

static const char *open_hold(HoldCall *asking, const AccountPath *path);
static bool open_at_once(void *context);
static void grant(HoldCall *asking);
static void deny(HoldCall *asking, const char *reason);
static void audit_asked(const HoldCall *asking, const char *reason);
static Returned capture(Hold *hold, Credits *amount, bool final,
						Uncollected *owed);
static Returned give_back(Hold *hold, const Cause *cause, Credits amount,
						  TimestampTz *at);
static void refuse_unless(const Hold *hold, Credits amount, const char *hint);
static void audit_settled(const Request *request, const Hold *hold,
						  const char *decision, Credits captured, bool final,
						  Returned returned, const Uncollected *owed,
						  TimestampTz at);

Datum
call_hold(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	HoldCall	asking = {.account = ArgPath(fcinfo, 1, "account")};
	Request    *request = &asking.request;
	AccountPath path = AccountParse(org, asking.account);
	const char *reason;
	Datum		result;

	RequestInit(request, fcinfo, "hold", org, ArgKey(fcinfo, 2, "key"));
	RequestText(request, asking.account);
	RequestInt8(request, asking.amount = ArgAmount(fcinfo, 3, "amount",
												   false));
	RequestInt8(request, asking.ttl = ArgDuration(fcinfo, 4, "ttl", false));

	SqlConnect();
	if (RequestBegin(request, &result))
		return SqlFinishRow(result);
	asking.at = ClockNow();
	reason = AccountSuspended(&path) ? "account_suspended" :
		open_hold(&asking, &path);
	if (reason != NULL)
		deny(&asking, reason);
	return SqlFinishRow(RowReturn(fcinfo, &asking.row));
}

/*
 * Open the hold: NULL, or why it is denied.
 */
static const char *
open_hold(HoldCall *asking, const AccountPath *path)
{
	Purpose		purpose = {.first = asking->request.first};
	Cause		cause = {"hold", 0, 0};
	LedgerStatus status;

	asking->opening = HoldAsk(path, &purpose, &cause, asking->amount,
							  asking->ttl, true, &asking->hold);
	if (HoldMayBeAtOnce(asking->opening, &asking->at) &&
		SubtransactionTry(open_at_once, asking, NULL))
		return NULL;
	status = HoldLocked(asking->opening, &asking->at);
	if (status != LEDGER_DONE)
		return LedgerReason(status);
	grant(asking);
	return NULL;
}

/*
 * Write all of it before the credit is locked.
 */
static bool
open_at_once(void *context)
{
	HoldCall   *asking = context;

	HoldWrite(asking->opening);
	grant(asking);
	return HoldTake(asking->opening);
}

/*
 * Store the result, and audit it.
 */
static void
grant(HoldCall *asking)
{
	Row		   *row = &asking->row;

	*row = (Row){0};
	RowAdd(row, Int64GetDatum(asking->hold.hold));
	RowText(row, "granted");
	RowNull(row);
	RowCredits(row, asking->amount);
	RowTime(row, asking->hold.expires_at);
	RowAdd(row, BoolGetDatum(false));
	RequestStore(&asking->request, row);
	audit_asked(asking, NULL);
}

static void
deny(HoldCall *asking, const char *reason)
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
	audit_asked(asking, reason);
}

static void
audit_asked(const HoldCall *asking, const char *reason)
{
	AuditRow	audit = {.org = asking->request.org,
		.account = asking->account, .operation = "hold",
		.decision = reason ? "denied" : "granted", .reason = reason,
		.hold = reason ? 0 : asking->hold.hold, .at = asking->at};

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
	bool		overrun;
	Request		request;
	Datum		result;
	Row			row = {0};
	Hold		hold;
	Returned	returned;
	Uncollected owed = {0};

	RequestInit(&request, fcinfo, "capture", org, ArgKey(fcinfo, 2, "key"));
	RequestInt8(&request, id);
	RequestInt8(&request, amount = ArgAmount(fcinfo, 3, "amount", true));
	RequestInt8(&request, final = ArgBool(fcinfo, 4, "final"));
	overrun = ArgBool(fcinfo, 5, "overrun");
	if (overrun)				/* else as before there was any */
		RequestText(&request, "overrun");

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	OwnHoldLock(org, id, &hold);
	owed = (Uncollected){org, hold.account, .hold = id, .trace = hold.trace};
	if (overrun && (HoldIsOpen(&hold) || hold.closed_at >= hold.expires_at))
	{
		Cause		cause = {"capture", 0, 0};

		returned = OwnHoldOverrun(&hold, &cause, &amount, final, &owed);
	}
	else
		returned = capture(&hold, &amount, final, &owed);
	audit_settled(&request, &hold, "captured", amount, !HoldIsOpen(&hold),
				  returned, &owed, owed.at);

	RowCredits(&row, amount);
	RowCredits(&row, returned.released);
	RowCredits(&row, returned.lapsed);
	RowAdd(&row, BoolGetDatum(false));
	RowCredits(&row, owed.amount);
	return SqlFinishRow(RequestFinish(&request, &row));
}

/*
 * Capture what a locked hold holds.  owed->at is the instant.
 */
static Returned
capture(Hold *hold, Credits *amount, bool final, Uncollected *owed)
{
	Cause		cause = {"capture", 0, 0};
	Returned	returned;

	refuse_unless(hold, *amount,
				  "Capture at most that, extend the hold before, or pass "
				  "\"overrun\".");
	returned = HoldSettle(hold, &cause, *amount, final, &owed->at);
	if (hold->expires_at <= owed->at)
		OwnHoldRefuse(hold->hold, "It is past its ttl.", TAKE_ANOTHER);
	return returned;
}

Datum
call_release(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		id = ArgInt8(fcinfo, 1, "hold", PG_INT64_MIN, PG_INT64_MAX);
	Cause		cause = {"release", 0, 0};
	bool		part = !PG_ARGISNULL(3);
	Credits		amount = 0;
	Request		request;
	Datum		result;
	Row			row = {0};
	Hold		hold;
	Returned	returned;
	TimestampTz at;

	RequestInit(&request, fcinfo, "release", org, ArgKey(fcinfo, 2, "key"));
	RequestInt8(&request, id);
	if (part)					/* else as before there was any */
		RequestInt8(&request, amount = ArgAmount(fcinfo, 3, "amount", false));

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	OwnHoldLock(org, id, &hold);
	if (part)
	{
		returned = give_back(&hold, &cause, amount, &at);
		audit_settled(&request, &hold, "released", 0, false, returned, NULL,
					  at);
	}
	else if (HoldIsOpen(&hold))
	{
		returned = HoldSettle(&hold, &cause, 0, true, &at);
		audit_settled(&request, &hold, "released", 0, true, returned, NULL,
					  at);
	}
	else if (hold.closed_at >= hold.expires_at)
		returned = (Returned){hold.released, hold.lapsed};
	else
		OwnHoldRefuse(id, "It is closed.",
					  "Nothing of it is left to release.");

	RowCredits(&row, returned.released);
	RowCredits(&row, returned.lapsed);
	RowAdd(&row, BoolGetDatum(false));
	return SqlFinishRow(RequestFinish(&request, &row));
}

/*
 * Give part of what a locked hold holds back; it stays open.  *at is the
 * instant.
 */
static Returned
give_back(Hold *hold, const Cause *cause, Credits amount, TimestampTz *at)
{
	Returned	returned;

	refuse_unless(hold, amount,
				  "Release at most that, or all of it with no \"amount\".");
	(void) HoldShrink(hold, cause, amount, true, &returned, at);
	if (hold->expires_at <= *at)
		OwnHoldRefuse(hold->hold, "It is past its ttl.", TAKE_ANOTHER);
	return returned;
}

/*
 * Refuse unless a locked hold is open and alive, and holds an amount.
 */
static void
refuse_unless(const Hold *hold, Credits amount, const char *hint)
{
	if (!HoldIsOpen(hold))
		OwnHoldRefuse(hold->hold, "It is closed.", TAKE_ANOTHER);
	if (hold->expires_at <= ClockNow())
		OwnHoldRefuse(hold->hold, "It is past its ttl.", TAKE_ANOTHER);
	if (amount > hold->held)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"amount\" is more than is held"),
				 errdetail("Hold %lld holds %s.", (long long) hold->hold,
						   CreditsToCString(hold->held)),
				 errhint("%s", hint)));
}

/*
 * Audit the end of a hold, or that it stays open: after a capture of all its
 * credit no other row would say so.
 */
static void
audit_settled(const Request *request, const Hold *hold, const char *decision,
			  Credits captured, bool final, Returned returned,
			  const Uncollected *owed, TimestampTz at)
{
	AuditRow	audit = {.org = hold->org, .account = hold->account,
		.operation = request->operation, .decision = decision,
		.hold = hold->hold, .at = at, .trace = hold->trace};

	AuditCredits(&audit, "captured", captured);
	AuditCredits(&audit, "released", returned.released);
	AuditCredits(&audit, "lapsed", returned.lapsed);
	if (owed != NULL && owed->amount > 0)
	{
		AuditCredits(&audit, "uncollected", owed->amount);
		AuditText(&audit, "unpaid", owed->reason);
	}
	if (!final)
		AuditText(&audit, "final", "false");
	AuditText(&audit, "key", request->key);
	AuditWrite(&audit);
}
