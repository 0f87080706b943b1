/*-------------------------------------------------------------------------
 *
 * hold_calls.c
 *		SQL functions hold, extend_hold, capture and release, for callers
 *		that have a scheduler of their own.
 *
 * A hold is dead from the instant at which its ttl ends: its credit is
 * available, and capture refuses the hold, unless the call allows an overrun.
 * Release of a dead hold returns what was released, even if a sweep or another
 * call released it.
 *
 * A hold of 0 is granted for every account.  It is for use for which nobody
 * asked for credit before, and which a capture with an overrun then bills.
 * Tenants cannot open one: the amount that each hold sets aside limits how
 * many holds they have.
 *
 * An extension is granted whole or not at all.  An overrun is use that has
 * already happened: the capture draws as much of the missing amount as there
 * is, and returns the rest as uncollected.  If the hold is past its ttl, the
 * capture opens it again, sets its end to after the capture, and closes it
 * like any other hold.
 *
 * Locks: key, hold; for an extension budgets, then buckets; for an overrun
 * those of the hold and of the draw together. Both skip dead holds that others
 * have locked, because a call that waits for these while its own hold is
 * locked could deadlock.
 *
 * SQL functions here: hold_leased.
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
#include "api/tenant.h"
#include "ledger/uncollected.h"
#include "request/request.h"
#include "utils/builtins.h"
#include "util/args.h"

API_FUNCTION(gpucredit_hold, hold);
API_FUNCTION(gpucredit_capture, capture);
API_FUNCTION(gpucredit_release, release);
PG_FUNCTION_INFO_V1(gpucredit_hold_leased);

/* The hint of the error for a call that is too late. */
#define TAKE_ANOTHER "Take a new hold with gpucredit.hold()."

/* One call of hold(), with its result. */
typedef struct HoldCall
{
	Request		request;
	const char *account;
	Credits		amount;
	int64		ttl;
	HoldOpening *opening;
	Hold		hold;
	TimestampTz at;				/* when the decision was made */
	Values		row;			/* result of the call */
} HoldCall;

API_FUNCTION(gpucredit_extend_hold, extend_hold);

SQL_STATEMENT(hold_end, SPI_OK_UPDATE,
			  "text, bigint, timestamptz, gpucredit.credits",
			  "UPDATE gpucredit.hold h SET expires_at = $3,"
			  " uncollected = CASE WHEN $4 OPERATOR(gpucredit.>) '0'"
			  "  THEN COALESCE(h.uncollected, '0') OPERATOR(gpucredit.+) $4"
			  "  ELSE h.uncollected END"
			  " WHERE h.org = $1 AND h.hold = $2");

static Datum call_hold_leased(PG_FUNCTION_ARGS);
static Datum ask_hold(FunctionCallInfo fcinfo, bool leased);
static void lock_hold(const char *org, int64 id, Hold *hold);
static pg_attribute_noreturn() void refuse(int64 id, const char *why,
										   const char *hint);
static void set_end(const Hold *hold, Credits uncollected);
static Returned capture_overrun(Hold *hold, const Cause *cause,
								Credits *amount, bool final,
								Uncollected *owed);
static const char *open_hold(HoldCall *asking, const AccountPath *path);
static bool open_at_once(void *context);
static void grant(HoldCall *asking);
static void deny(HoldCall *asking, const char *reason);
static void audit_asked(const HoldCall *asking, const char *reason);
static Returned capture(Hold *hold, Credits *amount, bool final,
						Uncollected *owed);
static Returned release_part(Hold *hold, const Cause *cause, Credits amount,
							 TimestampTz *at);
static void refuse_unless(const Hold *hold, Credits amount, const char *hint);
static void audit_settled(const Request *request, const Hold *hold,
						  const char *decision, Credits captured, bool final,
						  Returned returned, const Uncollected *owed,
						  TimestampTz at);
static const char *extend(Hold *hold, Credits amount, TimestampTz *at);
static void answer(Request *request, Values *row, const Hold *hold,
				   const char *reason);
static void audit_extended(const Request *request, const Hold *hold,
						   const char *reason, Credits amount, int64 ttl,
						   TimestampTz at);

Datum
call_hold(PG_FUNCTION_ARGS)
{
	return ask_hold(fcinfo, false);
}

/*
 * SQL function hold_leased(): does the same as hold() for credit that is spent
 * in another cell. Soft budgets count what is captured of the hold.
 */
Datum
gpucredit_hold_leased(PG_FUNCTION_ARGS)
{
	return ApiCall(API_hold, call_hold_leased, fcinfo);
}

static Datum
call_hold_leased(PG_FUNCTION_ARGS)
{
	return ask_hold(fcinfo, true);
}

/* Handles a call of hold() or hold_leased(). */
static Datum
ask_hold(FunctionCallInfo fcinfo, bool leased)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	HoldCall	asking = {.account = ArgPath(fcinfo, 1, "account")};
	Request    *request = &asking.request;
	AccountPath path = AccountParse(org, asking.account);
	bool		suspended;
	const char *reason;
	Datum		result;

	RequestInit(request, fcinfo, "hold", org, ArgKey(fcinfo, 2, "key"));
	RequestText(request, asking.account);
	RequestInt8(request, asking.amount = ArgAmount(fcinfo, 3, "amount",
												   !leased && !TenantCalls()));
	RequestInt8(request, asking.ttl = ArgDuration(fcinfo, 4, "ttl", false));

	path.leased = leased;
	SqlConnect();
	if (RequestBegin(request, &result))
		return SqlFinishRow(result);
	asking.at = ClockNow();
	suspended = AccountSuspended(&path);
	if (asking.amount == 0)
		reason = open_hold(&asking, &path);
	else if (suspended)
		reason = "account_suspended";
	else if (UncollectedDenies(&path, &(Purpose){0}, asking.amount, asking.at))
		reason = UNCOLLECTED_REASON;
	else
		reason = open_hold(&asking, &path);
	if (reason != NULL)
		deny(&asking, reason);
	return SqlFinishRow(RowReturn(fcinfo, &asking.row));
}

/* Opens the hold. Returns NULL, or the reason for a denial. */
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
 * Writes the hold and the answer, and debits the bucket last, so that the
 * bucket's row is locked only for a short time.
 */
static bool
open_at_once(void *context)
{
	HoldCall   *asking = context;

	HoldWrite(asking->opening);
	grant(asking);
	return HoldDebit(asking->opening);
}

/* Stores the result of the call, and audits it. */
static void
grant(HoldCall *asking)
{
	asking->row = *VALUES(Int8Value(asking->hold.hold), TextValue("granted"),
						  NullValue(), NumericValue(asking->amount),
						  TimeValueOrNull(asking->hold.expires_at),
						  BoolValue(false));
	RequestStore(&asking->request, &asking->row);
	audit_asked(asking, NULL);
}

static void
deny(HoldCall *asking, const char *reason)
{
	asking->row = *VALUES(NullValue(), TextValue("denied"), TextValue(reason),
						  NumericValue(0), NullValue(), BoolValue(false));
	RequestStore(&asking->request, &asking->row);
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
	if (asking->hold.leased)
		AuditText(&audit, "leased", "true");
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
	Hold		hold;
	Returned	returned;
	Uncollected owed = {0};

	RequestInit(&request, fcinfo, "capture", org, ArgKey(fcinfo, 2, "key"));
	RequestInt8(&request, id);
	RequestInt8(&request, amount = ArgAmount(fcinfo, 3, "amount", true));
	RequestInt8(&request, final = ArgBool(fcinfo, 4, "final"));
	overrun = ArgBool(fcinfo, 5, "overrun");
	if (overrun)				/* Without "overrun" the fingerprint is the
								 * same as that of older versions. */
		RequestText(&request, "overrun");

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	lock_hold(org, id, &hold);
	owed = (Uncollected){org, hold.account, .hold = id, .trace = hold.trace};
	if (overrun && (HoldIsOpen(&hold) || hold.closed_at >= hold.expires_at))
	{
		Cause		cause = {"capture", 0, 0};

		returned = capture_overrun(&hold, &cause, &amount, final, &owed);
	}
	else
		returned = capture(&hold, &amount, final, &owed);
	audit_settled(&request, &hold, "captured", amount, !HoldIsOpen(&hold),
				  returned, &owed, owed.at);

	return SqlFinishRow(RequestFinish(&request,
									  VALUES(NumericValue(amount),
											 NumericValue(returned.released),
											 NumericValue(returned.lapsed),
											 BoolValue(false),
											 NumericValue(owed.amount))));
}

/* Captures an amount of a locked hold.  owed->at is set to the instant. */
static Returned
capture(Hold *hold, Credits *amount, bool final, Uncollected *owed)
{
	Cause		cause = {"capture", 0, 0};
	Returned	returned;

	refuse_unless(hold, *amount,
				  "Capture at most that, extend the hold first, or pass "
				  "\"overrun\".");
	returned = HoldSettle(hold, &cause, *amount, final, &owed->at);
	if (hold->expires_at <= owed->at)
		refuse(hold->hold, "The hold is past its ttl.", TAKE_ANOTHER);
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
	Hold		hold;
	Returned	returned;
	TimestampTz at;

	RequestInit(&request, fcinfo, "release", org, ArgKey(fcinfo, 2, "key"));
	RequestInt8(&request, id);
	if (part)					/* Without an amount the fingerprint is the
								 * same as that of older versions. */
		RequestInt8(&request, amount = ArgAmount(fcinfo, 3, "amount", false));

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	lock_hold(org, id, &hold);
	if (part)
	{
		returned = release_part(&hold, &cause, amount, &at);
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
		refuse(id, "The hold is closed.",
			   "Nothing of the hold is left to release.");

	return SqlFinishRow(RequestFinish(&request,
									  VALUES(NumericValue(returned.released),
											 NumericValue(returned.lapsed),
											 BoolValue(false))));
}

/*
 * Returns part of a locked hold, which stays open.  *at is set to the instant.
 */
static Returned
release_part(Hold *hold, const Cause *cause, Credits amount, TimestampTz *at)
{
	Returned	returned;

	refuse_unless(hold, amount,
				  "Release at most that, or all of it with no \"amount\".");
	(void) HoldShrink(hold, cause, amount, true, &returned, at);
	if (hold->expires_at <= *at)
		refuse(hold->hold, "The hold is past its ttl.", TAKE_ANOTHER);
	return returned;
}

/*
 * Raises an error unless a locked hold is open, not past its ttl, and holds an
 * amount.
 */
static void
refuse_unless(const Hold *hold, Credits amount, const char *hint)
{
	if (!HoldIsOpen(hold))
		refuse(hold->hold, "The hold is closed.", TAKE_ANOTHER);
	if (hold->expires_at <= ClockNow())
		refuse(hold->hold, "The hold is past its ttl.", TAKE_ANOTHER);
	if (amount > hold->held)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"amount\" is more than is held"),
				 errdetail("Hold %lld holds %s.", (long long) hold->hold,
						   CreditsToCString(hold->held)),
				 errhint("%s", hint)));
}

/*
 * Audits a capture or release, and whether the hold stays open. If all its
 * credit is captured, no other row shows that.
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

Datum
call_extend_hold(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		id = ArgInt8(fcinfo, 1, "hold", PG_INT64_MIN, PG_INT64_MAX);
	Credits		amount;
	int64		ttl;
	Request		request;
	Datum		result;
	Values		row = {0};
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
	lock_hold(org, id, &hold);
	if (!HoldIsOpen(&hold))
		refuse(id, "The hold is closed.", TAKE_ANOTHER);
	reason = extend(&hold, amount, &at);
	if (hold.expires_at <= at)
		refuse(id, "The hold is past its ttl.", TAKE_ANOTHER);
	if (reason == NULL && ttl > 0)
	{
		hold.expires_at = Max(hold.expires_at, ClockAdd(at, ttl));
		set_end(&hold, 0);
	}
	answer(&request, &row, &hold, reason);
	audit_extended(&request, &hold, reason, amount, ttl, at);
	return SqlFinishRow(RowReturn(fcinfo, &row));
}

/*
 * Draws an amount into a locked, open hold. Returns NULL, or the reason for a
 * denial.
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
	if (UncollectedDenies(&path, &purpose, amount, *at))
		return UNCOLLECTED_REASON;
	status = HoldExtend(hold, &path, &purpose, &cause, amount, true, at);
	return status == LEDGER_DONE ? NULL : LedgerReason(status);
}

/* Stores the result of the call: the hold in its present state. */
static void
answer(Request *request, Values *row, const Hold *hold, const char *reason)
{
	ValuesAdd(row, Int8Value(hold->hold),
			  TextValue(reason ? "denied" : "granted"), TextValue(reason),
			  NumericValue(hold->held), TimeValueOrNull(hold->expires_at),
			  BoolValue(false));
	RequestStore(request, row);
}

/* Audits the call and its result. */
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
 * Captures an amount of a locked hold that holds less than that, or that is
 * past its ttl. *amount becomes the captured amount, and *owed describes what
 * is uncollected.
 */
static Returned
capture_overrun(Hold *hold, const Cause *cause, Credits *amount, bool final,
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
		locked = HoldsLockForNext(hold, 1, &purpose, PG_INT64_MAX);
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
		set_end(hold, owed->amount);
	if (owed->amount > 0)
		UncollectedReport(owed);
	return returned;
}

/* Locks a caller's own hold. Raises an error for the hold of a job. */
static void
lock_hold(const char *org, int64 id, Hold *hold)
{
	if (!HoldLock(org, id, true, hold))
		NotFoundHold(id);
	if (hold->job != 0)
		refuse(id, "The hold belongs to a job, and is settled with it.",
			   "Call gpucredit.settle() or gpucredit.cancel() for the job.");
}

static void
refuse(int64 id, const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_HOLD),
			 errmsg("hold %lld is not open to callers", (long long) id),
			 errdetail_internal("%s", why),
			 errhint("%s", hint)));
}

/* Stores when a locked hold ends, and adds to what is uncollected of it. */
static void
set_end(const Hold *hold, Credits uncollected)
{
	Ensure(SqlRun(&hold_end,
				  VALUES(TextValue(hold->org), Int8Value(hold->hold),
						 TimeValue(hold->expires_at),
						 CreditsValue(uncollected))).n == 1,
		   "A hold is missing.");
}
