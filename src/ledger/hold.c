/*-------------------------------------------------------------------------
 *
 * hold.c
 *		Holds: credit set aside, spent in the order drawn, returned last
 *		drawn first, to the very buckets it came from.
 *
 * What returns to a bucket that has expired goes to "expired", to one that
 * was revoked to "revoked": it lapsed.  A hold taken before its buckets
 * expired stays good until it is settled.
 *
 * How credit gets into a hold: hold_open.c.
 *
 * Locks: hold, then budgets leaf to root, then buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "ledger/hold_part.h"
#include "ledger/slice.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#define HOLD_READ \
	"SELECT h FROM gpucredit.hold h" \
	" WHERE h.org = $1 AND h.hold = $2 FOR NO KEY UPDATE"
SQL_STATEMENT(hold_lock, SPI_OK_SELECT, "text, bigint", HOLD_READ);
SQL_STATEMENT(hold_lock_free, SPI_OK_SELECT, "text, bigint",
			  HOLD_READ " SKIP LOCKED");
SQL_STATEMENT(hold_update, SPI_OK_UPDATE,
			  "text, bigint, gpucredit.credits, gpucredit.credits,"
			  " gpucredit.credits, gpucredit.credits, gpucredit.credits,"
			  " timestamptz, boolean, boolean",
			  "UPDATE gpucredit.hold h SET drawn = $3, held = $4,"
			  " captured = $5, released = $6, lapsed = $7, closed_at = $8,"
			  " sliced = $9, counted = $10"
			  " WHERE h.org = $1 AND h.hold = $2");

static const char *const hold_names[] = {
	"account", "drawn", "held", "captured", "released", "lapsed", "sliced",
	"counted",
	"job", "expires_at", "closed_at", "trace"
};
static SqlWhole hold_row = SQL_WHOLE(hold_names, 8);

/*
 * The reasons of a denied hold, as in results.
 */
const char *
LedgerReason(LedgerStatus status)
{
	return status == LEDGER_OVER_BUDGET ? "budget_exceeded" :
		"insufficient_credits";
}

/*
 * Give an amount of a locked, open hold back, last drawn first.  *at is the
 * instant.
 */
LedgerStatus
HoldShrink(Hold *hold, const Cause *cause, Credits amount, bool wait,
		   Returned *returned, TimestampTz *at)
{
	HoldPart   *parts;
	HoldShares	shares;
	int			n;

	if (!BudgetLockHold(hold, wait, &shares))
		return LEDGER_BUSY;
	n = HoldPartsLock(hold, wait, &parts);
	if (n < 0)
		return LEDGER_BUSY;
	*at = ClockNow();
	BudgetReturn(hold, &shares, 0, amount);
	*returned = HoldPartsGiveBack(hold, cause, parts, n, 0, amount, *at);
	HoldUpdate(hold);
	return LEDGER_DONE;
}

/*
 * Spend part of a locked, open hold, first drawn first; final: give the rest
 * back and close it.  *at is the instant.
 */
Returned
HoldSettle(Hold *hold, const Cause *cause, Credits captured, bool final,
		   TimestampTz *at)
{
	HoldPart   *parts;
	HoldShares	shares;
	Returned	returned;
	int			n;

	(void) BudgetLockHold(hold, true, &shares);
	n = HoldPartsLock(hold, true, &parts);
	Ensure(n >= 0 && captured <= hold->held,
		   "A settlement passes what is held.");
	*at = ClockNow();
	BudgetReturn(hold, &shares, captured,
				 final ? hold->held - captured : 0);
	returned = HoldPartsGiveBack(hold, cause, parts, n, captured,
								 final ? hold->held - captured : 0, *at);
	if (final)
		hold->closed_at = *at;
	HoldUpdate(hold);
	if (captured > 0)
		SpendAdd(hold, captured, *at);
	return returned;
}

/*
 * Give all of a locked, open hold back and close it, unless a row it needs is
 * locked.
 */
LedgerStatus
HoldTryRelease(Hold *hold, const Cause *cause, Returned *returned,
			   TimestampTz *at)
{
	LedgerStatus status = HoldShrink(hold, cause, hold->held, false,
									 returned, at);

	if (status != LEDGER_DONE)
		return status;
	hold->closed_at = *at;
	HoldUpdate(hold);
	return LEDGER_DONE;
}

/*
 * Lock a hold's row and read it.  False: there is none (or, with wait =
 * false, another transaction has it).
 */
bool
HoldLock(const char *org, int64 id, bool wait, Hold *hold)
{
	SqlArgs		args = {0};
	SqlResult	row;

	SqlArgText(&args, org);
	SqlArgInt8(&args, id);
	row = SqlRun(wait ? &hold_lock : &hold_lock_free, &args);
	if (row.n == 0)
		return false;
	hold->org = org;
	hold->hold = id;
	HoldFrom(row, 0, 1, hold);
	SqlFree(&row);
	return true;
}

/*
 * The rest of a hold, from a column with its row.
 */
void
HoldFrom(SqlResult rows, uint64 i, int column, Hold *hold)
{
	Datum		value[lengthof(hold_names)];
	bool		null[lengthof(hold_names)];

	SqlTakeApart(&hold_row, SqlNotNull(rows, i, column), value, null);
	hold->account = TextDatumGetCString(value[0]);
	hold->drawn = DatumGetCredits(value[1]);
	hold->held = DatumGetCredits(value[2]);
	hold->captured = DatumGetCredits(value[3]);
	hold->released = DatumGetCredits(value[4]);
	hold->lapsed = DatumGetCredits(value[5]);
	hold->sliced = DatumGetBool(value[6]);
	hold->counted = DatumGetBool(value[7]);
	hold->job = null[8] ? 0 : DatumGetInt64(value[8]);
	hold->expires_at = null[9] ? DT_NOEND : DatumGetTimestampTz(value[9]);
	hold->closed_at = null[10] ? DT_NOBEGIN : DatumGetTimestampTz(value[10]);
	hold->trace = TraceFrom(value[11], null[11]);
}

/*
 * Write a hold's row as it now is.
 */
void
HoldUpdate(const Hold *hold)
{
	SqlArgs		args = {0};

	SqlArgText(&args, hold->org);
	SqlArgInt8(&args, hold->hold);
	SqlArgCredits(&args, hold->drawn);
	SqlArgCredits(&args, hold->held);
	SqlArgCredits(&args, hold->captured);
	SqlArgCredits(&args, hold->released);
	SqlArgCredits(&args, hold->lapsed);
	if (HoldIsOpen(hold))
		SqlArgNull(&args);
	else
		SqlArgTime(&args, hold->closed_at);
	SqlArgBool(&args, hold->sliced);
	SqlArgBool(&args, hold->counted);
	Ensure(SqlRun(&hold_update, &args).n == 1, "A hold is missing.");
}
