/*-------------------------------------------------------------------------
 *
 * uncollected.c
 *		Reports uncollected use: raises an alert, writes a line of the
 *		log, and counts it.
 *
 * The ledger has no entry for uncollected use, because nobody has paid it. It
 * is a column of the attempt or of the hold, and verify() adds it to the bill.
 * What an account owes in this way is also stored in gpucredit.uncollected,
 * together with what an administrator has written off (write_off.c). The sum
 * of both is what the account's attempts and holds did not pay.
 *
 * If the accounts of an organisation together owe more than
 * gpucredit.uncollected_max, the organisation can open no more holds unless
 * its credit covers the debt as well. Otherwise a tenant could gain by
 * overrunning one hold after another.  The debt counts for the whole
 * organisation, because a tenant could otherwise continue with another of its
 * accounts.  Time past a wall limit within gpucredit.stop_grace is at the
 * platform's expense, and nobody owes it.
 *
 * Locks: the account's row of gpucredit.uncollected, after all others.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/sql.h"
#include "api/count.h"
#include "ledger/uncollected.h"

/*
 * Raises at most one alert a day for an account, about the first uncollected
 * use of the day.
 */
SQL_STATEMENT(uncollected_alert, SPI_OK_SELECT,
			  "text, timestamptz, text, bigint, int, bigint, text,"
			  " gpucredit.credits",
			  "SELECT gpucredit_internal.raise_alert($1, $2, $3, 'uncollected', 'day',"
			  " gpucredit_internal.period_start('day', $2), 0, 0,"
			  " pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object("
			  "  'kind', 'uncollected', 'org', $1, 'account', $3, 'job', $4,"
			  "  'attempt', $5, 'hold', $6, 'reason', $7,"
			  "  'uncollected', $8::pg_catalog.numeric)), true)");

SQL_STATEMENT(owed_more, SPI_OK_INSERT,
			  "text, text, gpucredit.credits, timestamptz",
			  "INSERT INTO gpucredit.uncollected AS u (org, account, owed,"
			  " since) VALUES ($1, $2, $3, $4) ON CONFLICT (org, account)"
			  " DO UPDATE SET owed = u.owed OPERATOR(gpucredit.+)"
			  "  EXCLUDED.owed, since = CASE WHEN"
			  "  u.owed OPERATOR(gpucredit.=) '0' THEN EXCLUDED.since"
			  "  ELSE u.since END");
/*
 * Reduces what an account owes. If more is collected than it owes, the rest
 * reduces what was written off.
 */
SQL_STATEMENT(owed_less, SPI_OK_UPDATE, "text, text, gpucredit.credits",
			  "UPDATE gpucredit.uncollected u SET owed ="
			  " GREATEST(u.owed OPERATOR(gpucredit.-) $3, '0'),"
			  " written_off = u.written_off OPERATOR(gpucredit.-)"
			  " GREATEST($3 OPERATOR(gpucredit.-) u.owed, '0')"
			  " WHERE u.org = $1 AND u.account = $2");
SQL_STATEMENT(owed_forgiven, SPI_OK_UPDATE, "text, text, gpucredit.credits",
			  "UPDATE gpucredit.uncollected u SET"
			  " owed = u.owed OPERATOR(gpucredit.-) $3,"
			  " written_off = u.written_off OPERATOR(gpucredit.+) $3"
			  " WHERE u.org = $1 AND u.account = $2");
SQL_STATEMENT(owed_none, SPI_OK_DELETE, "text, text",
			  "DELETE FROM gpucredit.uncollected u WHERE u.org = $1"
			  " AND u.account = $2 AND u.owed OPERATOR(gpucredit.=) '0'"
			  " AND u.written_off OPERATOR(gpucredit.=) '0'");

/*
 * Whether an organisation may not hold an amount because of what it owes.
 * AccountSuspended() has set path->owed.
 */
bool
UncollectedDenies(const AccountPath *path, const Purpose *purpose,
				  Credits amount, TimestampTz at)
{
	Credits		most = SettingUncollectedMax();
	int128		missing;

	if (path->owed == 0 || most < 0 || path->owed <= most)
		return false;
	missing = (int128) amount + path->owed -
		LedgerAvailable(path, purpose, at);
	return missing > 0 && missing > LedgerHeldByDead(path, purpose, at);
}

/* Reduces what an account owes, because a part was collected after all. */
void
UncollectedLess(const char *org, const char *account, Credits amount)
{
	Values	   *args = VALUES(TextValue(org), TextValue(account));

	if (amount <= 0)
		return;
	ValuesAdd(args, CreditsValue(amount));
	(void) SqlRun(&owed_less, args);
	args->n--;
	(void) SqlRun(&owed_none, args);
}

/* Reduces what an account owes, because a part was written off. */
void
UncollectedWriteOff(const char *org, const char *account, Credits amount)
{
	if (amount > 0)
		(void) SqlRun(&owed_forgiven,
					  VALUES(TextValue(org), TextValue(account),
							 CreditsValue(amount)));
}

/* Reports an amount that was not collected. */
void
UncollectedReport(const Uncollected *owed)
{
	Values	   *args;
	StringInfo	line;

	CountUncollected(owed->amount);
	args = VALUES(TextValue(owed->org), TimeValue(owed->at),
				  TextValue(owed->account));
	if (owed->job == 0)
	{
		ValuesAdd(args, NullValue(), NullValue());
	}
	else
	{
		ValuesAdd(args, Int8Value(owed->job), Int4Value(owed->attempt));
	}
	ValuesAdd(args, Int8Value(owed->hold), TextValue(owed->reason),
			  CreditsValue(owed->amount));
	/* raise_alert() relies on the lock of this row. */
	(void) SqlRun(&owed_more,
				  VALUES(TextValue(owed->org), TextValue(owed->account),
						 CreditsValue(owed->amount), TimeValue(owed->at)));
	(void) SqlRun(&uncollected_alert, args);

	line = LogBegin("credit_uncollected");
	LogText(line, "org", owed->org);
	LogText(line, "account", owed->account);
	if (owed->job != 0)
	{
		LogNumber(line, "job", owed->job);
		LogNumber(line, "attempt", owed->attempt);
	}
	LogNumber(line, "hold", owed->hold);
	LogText(line, "reason", owed->reason);
	LogText(line, "amount", CreditsToCString(owed->amount));
	LogTrace(line, &owed->trace);
	LogAtCommit(line);
}
