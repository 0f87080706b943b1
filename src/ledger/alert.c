/*-------------------------------------------------------------------------
 *
 * alert.c
 *		Alerts: a row once per period and threshold, and a NOTIFY.
 *
 * Only the call that passes a threshold does anything here, so an ordinary
 * hold pays nothing for it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/async.h"
#include "common/sql.h"
#include "ledger/alert.h"
#include "lib/stringinfo.h"
#include "utils/json.h"

#define CHANNEL "gpucredit_alert"

SQL_STATEMENT(alert_insert, SPI_OK_INSERT_RETURNING,
			  "text, timestamptz, text, text, timestamptz, text, text",
			  "INSERT INTO gpucredit.alert (org, at, account, kind, period,"
			  " period_start, threshold, detail)"
			  " VALUES ($1, $2, $3, 'budget', $4, $5,"
			  " $6::pg_catalog.numeric, $7::pg_catalog.jsonb)"
			  " ON CONFLICT (org, account, kind, period, period_start,"
			  " threshold) DO NOTHING RETURNING alert");

static char *describe(const char *org, const BudgetCount *count,
					  const char *share, Credits taken);
static void member(StringInfo text, const char *name, const char *value,
				   bool quoted);

/*
 * Alert for each threshold that a budget passes by an amount just taken.
 */
void
AlertBudget(const char *org, const BudgetCount *count, Credits taken,
			TimestampTz at)
{
	Credits		before = CreditsAdd(count->reserved, count->spent);
	Credits		after = CreditsAdd(before, taken);

	for (int i = 0; i < count->nalerts; i++)
	{
		SqlArgs		args = {0};
		char	   *detail;

		if (before >= count->alerts[i] || after < count->alerts[i])
			continue;
		detail = describe(org, count, count->alert_shares[i], after);
		SqlArgText(&args, org);
		SqlArgTime(&args, at);
		SqlArgText(&args, count->account);
		SqlArgText(&args, count->period);
		SqlArgTime(&args, count->period_start);
		SqlArgText(&args, count->alert_shares[i]);
		SqlArgText(&args, detail);
		if (SqlRun(&alert_insert, &args).n > 0)
			Async_Notify(CHANNEL, detail);
	}
}

/*
 * The alert as JSON.
 */
static char *
describe(const char *org, const BudgetCount *count, const char *share,
		 Credits taken)
{
	StringInfoData text;

	initStringInfo(&text);
	member(&text, "kind", "budget", true);
	member(&text, "org", org, true);
	member(&text, "account", count->account, true);
	member(&text, "period", count->period, true);
	member(&text, "threshold", share, false);
	member(&text, "amount", CreditsToCString(count->amount), false);
	member(&text, "taken", CreditsToCString(taken), false);
	appendStringInfoChar(&text, '}');
	return text.data;
}

static void
member(StringInfo text, const char *name, const char *value, bool quoted)
{
	appendStringInfoChar(text, text->len == 0 ? '{' : ',');
	escape_json(text, name);
	appendStringInfoChar(text, ':');
	if (quoted)
		escape_json(text, value);
	else
		appendStringInfoString(text, value);
}
