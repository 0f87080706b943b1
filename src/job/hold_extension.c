/*-------------------------------------------------------------------------
 *
 * hold_extension.c
 *		Extending the hold of a running attempt, a window at a time.
 *
 * An extension is due when the hold has less left than gpucredit.exhaust_grace
 * costs. It is whole or not at all: a window, or what the wall limit leaves
 * unheld, whichever is less. A heartbeat that comes after the hold's reach
 * also takes the windows that passed, or else just one. A denial is audited
 * once, until credit comes.
 *
 * Locks: the attempt is locked; hold, then buckets in burn order.
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
 * How long the hold lets the attempt's processes run; for ever at price 0. A
 * hold for the whole wall limit lets them run for all of it, and the
 * settlement draws what the time before their start costs.
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
 * The most that is held while an attempt runs: what its wall limit and the
 * time before its start cost.
 */
static Credits
most_held(const Attempt *attempt)
{
	if (attempt->wall_limit < 0)
		return PG_INT64_MAX;
	return AttemptHoldFor(attempt, AttemptHad(attempt, attempt->wall_limit),
						  PG_INT64_MAX);
}

/*
 * Is an extension wanted now?
 */
bool
ExtendIsDue(const Attempt *attempt)
{
	return attempt->hold_window >= 0 &&
		CreditsSub(attempt->held, AttemptBill(attempt)) <
		AttemptHoldFor(attempt, SettingExhaustGrace(), PG_INT64_MAX) &&
		extension(attempt, 1) > 0;
}

/*
 * The number of windows: one, and those that passed unheld.
 */
static int64
windows_due(const Attempt *attempt)
{
	int64		unfunded = AttemptRan(attempt) - ExtendFundedFor(attempt);
	int64		window = Max(attempt->hold_window, 1);

	return unfunded <= 0 ? 1 : (unfunded - 1) / window + 2;
}

/*
 * The amount: so many windows, or what the wall limit leaves unheld.
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
 * Extend the hold of a locked attempt, or note the denial.
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
			/* the first try's locks forbid the second to wait */
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
 * Log a job that must stop without credit.
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

/*
 * Read the purpose of an attempt's job.
 */
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
