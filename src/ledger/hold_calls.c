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

/* What a hold is expected to be granted with. */
typedef struct Grant
{
	Request    *request;
	Credits		amount;
} Grant;

/* What is left to who comes to capture too late. */
#define TAKE_ANOTHER "Take a new hold by gpucredit.hold()."

SQL_STATEMENT(hold_end, SPI_OK_SELECT, "text, bigint",
			  "SELECT h.expires_at FROM gpucredit.hold h"
			  " WHERE h.org = $1 AND h.hold = $2");

static void expect_grant(void *context, const Hold *hold);
static void add_grant(Row *row, const Hold *hold, Credits amount);
static void complete_grant(Request *request, char **columns);
static void lock_own_hold(const char *org, int64 id, Hold *hold);
static pg_attribute_noreturn() void refuse_hold(int64 id, const char *why,
												const char *hint);
static void audit_settled(const Request *request, const Hold *hold,
						  const char *decision, Credits captured,
						  Returned returned, TimestampTz at);

Datum
call_hold(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	char	   *account = ArgPath(fcinfo, 1, "account");
	Credits		amount;
	int64		ttl;
	AccountPath path = AccountParse(org, account);
	Purpose		purpose = {0};
	Cause		cause = {"hold", 0, 0};
	Request		request;
	Datum		result;
	Row			row = {0};
	Hold		hold = {0};
	AuditRow	audit = {.org = org, .account = account,
		.operation = "hold"};

	RequestInit(&request, fcinfo, "hold", org, ArgKey(fcinfo, 2, "key"));
	request.complete = complete_grant;
	RequestText(&request, account);
	RequestInt8(&request, amount = ArgAmount(fcinfo, 3, "amount", false));
	RequestInt8(&request, ttl = ArgDuration(fcinfo, 4, "ttl", false));

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	if (AccountSuspended(&path))
	{
		audit.reason = "account_suspended";
		audit.at = ClockNow();
	}
	else
	{
		Grant		grant = {&request, amount};
		Expecting	expecting = {expect_grant, &grant};
		LedgerStatus status = HoldOpen(&path, &purpose, &cause, amount, ttl,
									   true, &expecting, &hold, &audit.at);

		if (status != LEDGER_DONE)
			audit.reason = LedgerReason(status);
	}

	audit.decision = audit.reason ? "denied" : "granted";
	audit.hold = audit.reason ? 0 : hold.hold;
	AuditCredits(&audit, "amount", amount);
	AuditInt8(&audit, "ttl_us", ttl);
	AuditDecision(&audit, request.key);

	if (audit.reason == NULL)
	{
		add_grant(&row, &hold, amount);
		return SqlFinishRow(request.stored ? RowReturn(fcinfo, &row) :
							RequestFinish(&request, &row));
	}
	RowNull(&row);
	RowText(&row, audit.decision);
	RowText(&row, audit.reason);
	RowCredits(&row, 0);
	RowNull(&row);
	RowAdd(&row, BoolGetDatum(false));
	return SqlFinishRow(RequestFinish(&request, &row));
}

/*
 * Before the hold is made nobody knows when it will be dead: a replay reads
 * that from the hold, whose row stays as long as any.
 */
static void
expect_grant(void *context, const Hold *hold)
{
	Grant	   *grant = context;
	Hold		unmade = *hold;
	Row			row = {0};

	unmade.expires_at = DT_NOEND;
	add_grant(&row, &unmade, grant->amount);
	RequestExpect(grant->request, &row);
}

static void
add_grant(Row *row, const Hold *hold, Credits amount)
{
	RowAdd(row, Int64GetDatum(hold->hold));
	RowText(row, "granted");
	RowNull(row);
	RowCredits(row, amount);
	RowTime(row, hold->expires_at);
	RowAdd(row, BoolGetDatum(false));
}

static void
complete_grant(Request *request, char **columns)
{
	SqlArgs		args = {0};
	SqlResult	row;

	if (columns[0] == NULL || columns[4] != NULL)
		return;
	SqlArgText(&args, request->org);
	SqlArgInt8(&args, pg_strtoint64(columns[0]));
	row = SqlRun(&hold_end, &args);
	Ensure(row.n == 1, "A hold that was granted is missing.");
	columns[4] = RequestStoredTime(SqlTime(row, 0, 1));
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
	audit_settled(&request, &hold, "captured", amount, returned, at);

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
		audit_settled(&request, &hold, "released", 0, returned, at);
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

static void
audit_settled(const Request *request, const Hold *hold, const char *decision,
			  Credits captured, Returned returned, TimestampTz at)
{
	AuditRow	audit = {.org = hold->org, .account = hold->account,
		.operation = request->operation, .decision = decision,
		.hold = hold->hold, .at = at, .trace = hold->trace};

	AuditCredits(&audit, "captured", captured);
	AuditCredits(&audit, "released", returned.released);
	AuditCredits(&audit, "lapsed", returned.lapsed);
	AuditText(&audit, "key", request->key);
	AuditWrite(&audit);
}
