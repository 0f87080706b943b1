/*-------------------------------------------------------------------------
 *
 * uncollected.c
 *		Uncollected use: an alert, a line of the log, a count.
 *
 * The books have no entry for it, as nobody has paid. It is a column of the
 * attempt's settlement, or of the hold, and verify() adds it to the bill.
 *
 * Locks: none that is waited for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/sql.h"
#include "api/count.h"
#include "ledger/uncollected.h"

/* one a day for an account; it names the first */
SQL_STATEMENT(uncollected_alert, SPI_OK_SELECT,
			  "text, timestamptz, text, bigint, int, bigint, text,"
			  " gpucredit.credits",
			  "SELECT gpucredit_internal.raise_alert($1, $2, $3, 'uncollected', 'day',"
			  " gpucredit_internal.period_start('day', $2), 0, 0,"
			  " pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object("
			  "  'kind', 'uncollected', 'org', $1, 'account', $3, 'job', $4,"
			  "  'attempt', $5, 'hold', $6, 'reason', $7,"
			  "  'uncollected', $8::pg_catalog.numeric)))");

/*
 * Report an unpaid amount.
 */
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
