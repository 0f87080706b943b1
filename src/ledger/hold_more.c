/*-------------------------------------------------------------------------
 *
 * hold_more.c
 *		extend_hold, and captures above a hold or past its end: for callers
 *		whose jobs run longer, or cost more, than was thought.
 *
 * An extension is whole or not at all, as a hold is.  An overrun is what has
 * been used already: a capture that asks for it draws what is missing, as
 * much as there is, and says what is uncollected.  A hold that is past its
 * ttl is opened again for it, whoever released it, and its end is moved past
 * the capture, so that it is then closed as any other.
 *
 * Locks: key, hold; for an extension budgets, then buckets; for an overrun
 * those of the hold and of the draw together.  Dead holds that are locked are
 * left alone: who waited for them with a hold of its own locked might be
 * waited for by them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "api/api.h"
#include "ledger/external_hold.h"
#include "request/request.h"

API_FUNCTION(extend_hold);


static const char *extend(Hold *hold, Credits amount, TimestampTz *at);
static void answer(Request *request, Row *row, const Hold *hold,
				   const char *reason);
static void audit_extended(const Request *request, const Hold *hold,
						   const char *reason, Credits amount, int64 ttl,
						   TimestampTz at);

Datum
call_extend_hold(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		id = ArgInt8(fcinfo, 1, "hold", PG_INT64_MIN, PG_INT64_MAX);
	Credits		amount;
	int64		ttl;
	Request		request;
	Datum		result;
	Row			row = {0};
	Hold		hold;
	const char *reason;
	TimestampTz at = ClockNow();

	RequestInit(&request, fcinfo, "extend_hold", org,
				ArgKey(fcinfo, 2, "key"));
	RequestInt8(&request, id);
	RequestInt8(&request, amount = ArgAmount(fcinfo, 3, "amount", true));
	RequestInt8(&request, ttl = ArgDurationOr(fcinfo, 4, "ttl", false, -1));
	if (amount == 0 && ttl < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"amount\" or \"ttl\" must be given"),
				 errdetail("\"amount\" is 0 and there is no \"ttl\"."),
				 errhint("Pass an amount, a ttl, or both.")));

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	OwnHoldLock(org, id, &hold);
	if (!HoldIsOpen(&hold))
		OwnHoldRefuse(id, "It is closed.", TAKE_ANOTHER);
	reason = extend(&hold, amount, &at);
	if (hold.expires_at <= at)
		OwnHoldRefuse(id, "It is past its ttl.", TAKE_ANOTHER);
	if (reason == NULL && ttl > 0)
	{
		hold.expires_at = Max(hold.expires_at, ClockAdd(at, ttl));
		OwnHoldSetEnd(&hold, 0);
	}
	answer(&request, &row, &hold, reason);
	audit_extended(&request, &hold, reason, amount, ttl, at);
	return SqlFinishRow(RowReturn(fcinfo, &row));
}

/*
 * Draw more into a locked, open hold: NULL, or why it is denied.
 */
static const char *
extend(Hold *hold, Credits amount, TimestampTz *at)
{
	AccountPath path = AccountParse(hold->org, hold->account);
	Purpose		purpose = {.trace = hold->trace};
	Cause		cause = {"extend_hold", 0, 0};
	LedgerStatus status;

	*at = ClockNow();
	if (AccountSuspended(&path))
		return "account_suspended";
	if (amount == 0 || hold->expires_at <= *at)
		return NULL;
	status = HoldExtend(hold, &path, &purpose, &cause, amount, true, at);
	return status == LEDGER_DONE ? NULL : LedgerReason(status);
}

/*
 * What the hold is by now, whether or not that is more than it was.
 */
static void
answer(Request *request, Row *row, const Hold *hold, const char *reason)
{
	RowAdd(row, Int64GetDatum(hold->hold));
	RowText(row, reason ? "denied" : "granted");
	RowText(row, reason);
	RowCredits(row, hold->held);
	RowTime(row, hold->expires_at);
	RowAdd(row, BoolGetDatum(false));
	RequestStore(request, row);
}

/*
 * Audit the request and its result.
 */
static void
audit_extended(const Request *request, const Hold *hold, const char *reason,
			   Credits amount, int64 ttl, TimestampTz at)
{
	AuditRow	audit = {.org = hold->org, .account = hold->account,
		.operation = request->operation,
		.decision = reason ? "denied" : "granted", .reason = reason,
		.hold = hold->hold, .at = at, .trace = hold->trace};

	AuditCredits(&audit, "amount", amount);
	if (ttl > 0)
		AuditInt8(&audit, "ttl_us", ttl);
	AuditDecision(&audit, request->key);
}

/*
 * Capture an amount of a locked hold, more than it holds, or past its end;
 * *amount becomes the captured amount, and *owed the rest.
 */
Returned
OwnHoldOverrun(Hold *hold, const Cause *cause, Credits *amount, bool final,
			   Uncollected *owed)
{
	AccountPath path = AccountParse(hold->org, hold->account);
	Purpose		purpose = {.trace = hold->trace};
	Credits		missing = *amount - hold->held;
	bool		dead = hold->expires_at <= ClockNow();
	LedgerStatus status;
	LockedBuckets locked;
	Returned	returned;

	hold->closed_at = DT_NOBEGIN;
	owed->reason = "account_suspended";
	if (missing > 0)
	{
		locked = HoldsLockForNext(hold, 1, &purpose);
		purpose.locked = &locked;
		if (!AccountSuspended(&path) &&
			HoldExtendMost(hold, &path, &purpose, cause, missing,
						   &status) < missing)
			owed->reason = LedgerReason(status);
	}
	owed->amount = Max(*amount - hold->held, 0);
	*amount = Min(*amount, hold->held);
	dead |= hold->expires_at <= ClockNow();
	returned = HoldSettle(hold, cause, *amount, final || dead, &owed->at);
	if (hold->expires_at <= owed->at)
		hold->expires_at = owed->at + 1;
	if (dead || owed->amount > 0)
		OwnHoldSetEnd(hold, owed->amount);
	if (owed->amount > 0)
		UncollectedTell(owed, true);
	return returned;
}
