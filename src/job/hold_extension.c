/*-------------------------------------------------------------------------
 *
 * hold_extension.c
 *		Extends the hold of a running attempt by one window at a time.
 *
 * An extension is due when the rest of the hold would pay for less than
 * gpucredit.exhaust_grace. Its amount covers one window, or the part of the
 * wall limit that is not held yet, whichever is less. It is granted whole or
 * not at all. If a heartbeat comes after the time that the hold covers, the
 * extension also covers the windows that have passed. If the credit does not
 * suffice for those, only one window is held. A denial is audited once, until
 * an extension is granted.
 *
 * Locks: the caller has locked the attempt. Then the hold, and buckets in burn
 * order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "catalog/pg_type.h"
#include "util/clock.h"
#include "util/errors.h"
#include "common/int.h"
#include "util/log.h"
#include "util/settings.h"
#include "job/attempt_watch.h"
#include "job/hold_extension.h"
#include "ledger/uncollected.h"
#include "ledger/ledger.h"
#include "utils/array.h"
#include "utils/builtins.h"

SQL_STATEMENT(attempt_held, SPI_OK_UPDATE,
			  "text, bigint, int, gpucredit.credits, boolean",
			  "UPDATE gpucredit.attempt a SET held = $4, extension_denied = $5"
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3");
SQL_STATEMENT(purpose_read, SPI_OK_SELECT, "text, bigint",
			  "SELECT j.tier, j.pool, j.offer_types FROM gpucredit.job j"
			  " WHERE j.org = $1 AND j.job = $2");

static Credits most_held(const Attempt *attempt);
static int64 windows_due(const Attempt *attempt);
static Credits extension(const Attempt *attempt, int64 windows);
static Purpose read_purpose(const Attempt *attempt);
static void log_starved(const AuditRow *audit, Credits amount);
static void write_held(const Attempt *attempt);

/*
 * Returns how long the hold lets the attempt's processes run. At price 0 there
 * is no end. If there is no hold window, the hold covers the whole wall limit
 * and lets the processes run for all of it, and the settlement draws what the
 * time before their start costs.
 */
int64
ExtendFundedFor(const Attempt *attempt)
{
	int64		funded;

	if (attempt->per_hour == 0)
		return PG_INT64_MAX;
	funded = CreditsElapsedFor(attempt->per_hour, 1, SHARE_WHOLE,
							   attempt->held);
	return attempt->hold_window < 0 ? funded :
		Max(funded - attempt->overhead, 0);
}

/*
 * Returns the largest amount that is held while an attempt runs: the price of
 * its wall limit and of the time before its processes started.
 */
static Credits
most_held(const Attempt *attempt)
{
	if (attempt->wall_limit < 0)
		return PG_INT64_MAX;
	return AttemptHoldFor(attempt, AttemptHad(attempt, attempt->wall_limit),
						  PG_INT64_MAX);
}

/* Whether the hold must be extended now. */
bool
ExtendIsDue(const Attempt *attempt)
{
	return attempt->hold_window >= 0 &&
		CreditsSub(attempt->held, AttemptBill(attempt)) <
		AttemptHoldFor(attempt, SettingExhaustGrace(), PG_INT64_MAX) &&
		extension(attempt, 1) > 0;
}

/*
 * Returns the number of windows to hold: one, and as many as passed without a
 * hold.
 */
static int64
windows_due(const Attempt *attempt)
{
	int64		unfunded = AttemptRan(attempt) - ExtendFundedFor(attempt);
	int64		window = Max(attempt->hold_window, 1);

	return unfunded <= 0 ? 1 : (unfunded - 1) / window + 2;
}

/*
 * Returns the amount of an extension: the given number of windows, but at most
 * what the wall limit leaves unheld.
 */
static Credits
extension(const Attempt *attempt, int64 windows)
{
	Credits		unheld = Max(most_held(attempt) - attempt->held, 0);
	int64		duration;

	if (pg_mul_s64_overflow(attempt->hold_window, windows, &duration))
		duration = PG_INT64_MAX;
	return AttemptHoldFor(attempt, duration, unheld);
}

/*
 * Extends the hold of a locked attempt, or stores that the extension was
 * denied.
 */
void
ExtendHold(Attempt *attempt, bool wait)
{
	int64		windows = windows_due(attempt);
	Credits		amount = extension(attempt, windows);
	Purpose		purpose = read_purpose(attempt);
	Cause		cause = {"extend", attempt->job, attempt->attempt};
	Hold		hold;
	AccountPath path;
	LedgerStatus status = LEDGER_SHORT;
	bool		was_denied = attempt->extension_denied;
	AuditRow	audit = {.org = attempt->org, .operation = "extend",
		.job = attempt->job, .attempt = attempt->attempt,
		.hold = attempt->hold, .at = ClockNow()};

	if (!HoldLock(attempt->org, attempt->hold, wait, &hold))
		return;
	audit.account = hold.account;
	audit.trace = hold.trace;
	path = AccountParse(hold.org, hold.account);
	audit.reason = "account_suspended";
	if (!AccountSuspended(&path))
	{
		if (windows > 1 &&
			UncollectedDenies(&path, &purpose, amount, audit.at))
			amount = extension(attempt, windows = 1);
		audit.reason = UncollectedDenies(&path, &purpose, amount, audit.at) ?
			UNCOLLECTED_REASON : NULL;
	}
	if (audit.reason == NULL)
	{
		status = HoldExtend(&hold, &path, &purpose, &cause, amount, wait,
							&audit.at);
		if (status != LEDGER_DONE && windows > 1)
		{
			/*
			 * The first try already locked buckets, and to wait for more
			 * locks could deadlock.
			 */
			amount = extension(attempt, 1);
			status = HoldExtend(&hold, &path, &purpose, &cause, amount, false,
								&audit.at);
			if (status == LEDGER_BUSY && wait)
				status = LEDGER_SHORT;
		}
		audit.reason = LedgerReason(status);
	}
	if (status == LEDGER_BUSY)
		return;
	attempt->extension_denied = status != LEDGER_DONE;
	if (status == LEDGER_DONE)
	{
		attempt->held = CreditsAdd(attempt->held, amount);
		audit.reason = NULL;
	}
	else if (was_denied)
		return;
	write_held(attempt);
	audit.decision = attempt->extension_denied ? "denied" : "granted";
	AuditCredits(&audit, "amount", amount);
	AuditWrite(&audit);
	if (attempt->extension_denied)
	{
		WatchSoon(attempt);
		log_starved(&audit, amount);
	}
}

/*
 * Logs that an extension was denied, so that the attempt must stop when its
 * hold is used up.
 */
static void
log_starved(const AuditRow *audit, Credits amount)
{
	StringInfo	line = LogBegin("extension_denied");

	LogText(line, "org", audit->org);
	LogText(line, "account", audit->account);
	LogNumber(line, "job", audit->job);
	LogNumber(line, "attempt", audit->attempt);
	LogText(line, "reason", audit->reason);
	LogText(line, "amount", CreditsToCString(amount));
	LogTrace(line, &audit->trace);
	LogAtCommit(line);
}

/* Reads what the ledger must know of the attempt's job to choose buckets. */
static Purpose
read_purpose(const Attempt *attempt)
{
	Purpose		purpose = {.job = attempt->job};
	SqlResult	row;
	bool		isnull;
	Datum	   *types;
	const char **names;

	row = SqlRun(&purpose_read,
				 VALUES(TextValue(attempt->org), Int8Value(attempt->job)));
	Ensure(row.n == 1, "An attempt has no job.");
	purpose.tier = SqlText(row, 0, 1);
	purpose.pool = SqlText(row, 0, 2);
	deconstruct_array(DatumGetArrayTypePCopy(SqlDatum(row, 0, 3, &isnull)),
					  TEXTOID, -1, false, TYPALIGN_INT, &types, NULL,
					  &purpose.ntypes);
	names = palloc(sizeof(char *) * (purpose.ntypes + 1));
	for (int i = 0; i < purpose.ntypes; i++)
		names[i] = TextDatumGetCString(types[i]);
	purpose.gpu_types = names;
	return purpose;
}

static void
write_held(const Attempt *attempt)
{
	Ensure(SqlRun(&attempt_held,
				  VALUES(ATTEMPT_KEY(attempt), CreditsValue(attempt->held),
						 BoolValue(attempt->extension_denied))).n == 1,
		   "An attempt is missing.");
}
