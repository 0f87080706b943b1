/*-------------------------------------------------------------------------
 *
 * budget_alert.c
 *		Raises the alerts of budgets: one row for a period and threshold.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "api/api.h"
#include "limits/budget.h"
#include "lib/stringinfo.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"

SQL_STATEMENT(alert_raise, SPI_OK_SELECT,
			  "text, timestamptz, text, text, timestamptz, text, text",
			  "SELECT gpucredit_internal.raise_alert($1, $2, $3, 'budget', $4, $5,"
			  " $6::pg_catalog.numeric, 0, $7::pg_catalog.jsonb, true)");

static char *describe(const char *org, const BudgetCount *count,
					  const char *share, Credits taken);
static void member(StringInfo text, const char *name, const char *value,
				   bool quoted);

/*
 * Raises an alert for each threshold that a locked budget had not reached
 * before and has reached now. before and after are its sum of reserved and
 * spent credit.
 */
void
AlertBudget(const char *org, const BudgetCount *count, Credits before,
			Credits after, TimestampTz at)
{
	for (int i = 0; i < count->nalerts; i++)
	{
		Values	   *args;
		char	   *share;

		if (before >= count->alerts[i] || after < count->alerts[i])
			continue;
		args = VALUES(TextValue(org), TimeValue(at), TextValue(count->account),
					  TextValue(count->period),
					  TimeValue(count->period_start));
		share = DatumGetCString(DirectFunctionCall1(numeric_out,
													count->alert_shares[i]));
		ValuesAdd(args, TextValue(share),
				  TextValue(describe(org, count, share, after)));
		(void) SqlRun(&alert_raise, args);
	}
}

/* Returns the detail of the alert as JSON. */
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
