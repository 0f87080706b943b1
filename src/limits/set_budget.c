/*-------------------------------------------------------------------------
 *
 * set_budget.c
 *		SQL function set_budget: sets or removes a budget.
 *
 * If a budget is set below what it has already counted, it refuses new holds
 * and leaves present ones as they are. If a budget is removed, its counters
 * are deleted. If it is then set again, it counts only holds that begin after
 * that. A spread counter is folded, since the room of its slices depends on
 * the budget.
 *
 * Locks: the account's row, the budget's, then its counters, each with its
 * slices.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "audit/audit.h"
#include "catalog/pg_type.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "api/api.h"
#include "limits/limits.h"
#include "limits/budget_slice.h"
#include "types/clip.h"
#include "utils/array.h"

API_FUNCTION(gpucredit_set_budget, set_budget);

#define MOST_ALERTS			16
#define MOST_ALERT_SHARE	INT64CONST(10000000)	/* 10, in millionths */

static const char *const periods[] = {
	"none", "day", "week", "month", "quarter", "year"
};

SQL_STATEMENT(budget_upsert, SPI_OK_INSERT,
			  "text, text, text, gpucredit.credits, boolean, numeric[],"
			  " timestamptz",
			  "INSERT INTO gpucredit.budget"
			  " (org, account, period, amount, hard, alert_at, set_at, slices)"
			  " SELECT a.org, a.account, $3, $4, $5, $6, $7, a.slices"
			  " FROM gpucredit.account a WHERE a.org = $1 AND a.account = $2"
			  " ON CONFLICT (org, account, period) DO UPDATE"
			  " SET amount = EXCLUDED.amount, hard = EXCLUDED.hard,"
			  " alert_at = EXCLUDED.alert_at, set_at = EXCLUDED.set_at");
SQL_STATEMENT(budget_delete, SPI_OK_DELETE, "text, text, text",
			  "DELETE FROM gpucredit.budget b WHERE b.org = $1"
			  " AND b.account = $2 AND b.period = $3");

SQL_STATEMENT(counts_delete, SPI_OK_DELETE, "text, text, text",
			  "DELETE FROM gpucredit.budget_counter c WHERE c.org = $1"
			  " AND c.account = $2 AND c.period = $3");
SQL_STATEMENT(shares_delete, SPI_OK_DELETE, "text, text, text",
			  "DELETE FROM gpucredit.hold_budget h WHERE h.org = $1"
			  " AND h.account = $2 AND h.period = $3");
SQL_STATEMENT(budget_log, SPI_OK_INSERT,
			  "text, text, text, timestamptz, gpucredit.credits, boolean",
			  "INSERT INTO gpucredit.budget_log AS l"
			  " (org, account, period, at, amount, hard, is_new, entry)"
			  " SELECT $1, $2, $3, GREATEST($4, p.at), $5, $6,"
			  " $5 IS NOT NULL AND p.amount IS NULL,"
			  " COALESCE(pg_catalog.pg_sequence_last_value("
			  "  'gpucredit.entry_entry_seq'::pg_catalog.regclass), 0)"
			  " FROM (SELECT) s LEFT JOIN (SELECT b.at, b.amount"
			  "  FROM gpucredit.budget_log b WHERE b.org = $1"
			  "  AND b.account = $2 AND b.period = $3"
			  "  ORDER BY b.at DESC LIMIT 1) p ON true"
			  " ON CONFLICT (org, account, period, at) DO UPDATE"
			  " SET amount = EXCLUDED.amount, hard = EXCLUDED.hard,"
			  " is_new = l.is_new OR EXCLUDED.is_new,"
			  " entry = CASE WHEN EXCLUDED.is_new THEN EXCLUDED.entry"
			  "  ELSE l.entry END");

/* Changes no value, but a caller with an older snapshot gets 40001. */
SQL_STATEMENT(budget_logged, SPI_OK_UPDATE, "text, text, text",
			  "UPDATE gpucredit.budget_log l SET hard = l.hard"
			  " WHERE l.org = $1 AND l.account = $2 AND l.period = $3"
			  " AND l.at = (SELECT pg_catalog.max(b.at)"
			  "  FROM gpucredit.budget_log b WHERE b.org = $1"
			  "  AND b.account = $2 AND b.period = $3)");

/* A counter without any amount raises no alert; most budgets are new. */
SQL_STATEMENT(count_taken, SPI_OK_SELECT, "text, text, text, timestamptz",
			  "SELECT 1 FROM gpucredit.budget_counter c WHERE c.org = $1"
			  " AND c.account = $2 AND c.period = $3 AND c.period_start ="
			  "  gpucredit_internal.period_start($3, $4)"
			  " AND (c.reserved OPERATOR(gpucredit.<>) '0'"
			  "  OR c.spent OPERATOR(gpucredit.<>) '0')");
SQL_STATEMENT(alert_budgets, SPI_OK_SELECT, "text, text, timestamptz",
			  "SELECT gpucredit_internal.alert_budgets(ARRAY[$1], $2, $3)");

static void alert_passed_thresholds(const char *org, const char *account,
									const char *period, TimestampTz at);
static void log_budget(const char *org, const char *account,
					   const char *period, TimestampTz at,
					   const Credits *amount, bool hard);
static Credits parse_amount(FunctionCallInfo fcinfo);
static char *parse_period(FunctionCallInfo fcinfo);
static void check_alerts(FunctionCallInfo fcinfo);
static pg_attribute_noreturn() void refuse_alerts(const char *why);

Datum
call_set_budget(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	char	   *account = ArgPath(fcinfo, 1, "account");
	bool		remove = PG_ARGISNULL(2);
	Credits		amount = remove ? 0 : parse_amount(fcinfo);
	char	   *period = parse_period(fcinfo);
	bool		hard = ArgBool(fcinfo, 4, "hard");
	AccountPath path = AccountParse(org, account);
	AuditRow	audit = {.org = org, .account = account,
		.operation = "set_budget", .decision = remove ? "removed" : "set"};
	Values	   *args;

	check_alerts(fcinfo);
	SqlConnect();
	(void) AccountSuspended(&path);
	AccountLimitsLock(org, account);
	audit.at = ClockNow();
	args = VALUES(TextValue(org), TextValue(account), TextValue(period));
	if (remove)
	{
		if (SqlRun(&budget_delete, args).n > 0)
			log_budget(org, account, period, audit.at, NULL, hard);
		BudgetFold(org, account, period, true);
		(void) SqlRun(&counts_delete, args);

		/*
		 * This also deletes the shares of holds for whose counters the
		 * statement above waited.
		 */
		(void) SqlRun(&shares_delete, args);
	}
	else
	{
		ValuesAdd(args, CreditsValue(amount), BoolValue(hard),
				  DatumValue(PG_GETARG_DATUM(5)), TimeValue(audit.at));
		(void) SqlRun(&budget_upsert, args);
		log_budget(org, account, period, audit.at, &amount, hard);
		BudgetFold(org, account, period, false);
		alert_passed_thresholds(org, account, period, audit.at);
	}
	AccountLimitsKeep(org, account);
	AuditArgs(&audit, fcinfo);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}

/*
 * Logs the change, for balances of the past. amount is NULL if the budget was
 * removed. The last row of the log is changed as well, so that a call with an
 * older snapshot, in which that row is the last, gets 40001.
 */
static void
log_budget(const char *org, const char *account, const char *period,
		   TimestampTz at, const Credits *amount, bool hard)
{
	Values	   *args = VALUES(TextValue(org), TextValue(account),
							  TextValue(period));

	(void) SqlRun(&budget_logged, args);
	ValuesAdd(args, TimeValue(at),
			  amount == NULL ? NullValue() : CreditsValue(*amount),
			  BoolValue(hard));
	(void) SqlRun(&budget_log, args);
}

/*
 * Raises alerts for thresholds that are already reached, because no later call
 * will reach them.
 */
static void
alert_passed_thresholds(const char *org, const char *account,
						const char *period, TimestampTz at)
{
	if (IsolationIsSerializable() ||
		SqlRun(&count_taken,
			   VALUES(TextValue(org), TextValue(account), TextValue(period),
					  TimeValue(at))).n == 0)
		return;
	(void) SqlRun(&alert_budgets,
				  VALUES(TextValue(org), TextValue(account), TimeValue(at)));
}

/* Parses the amount, which is 0 or more. */
static Credits
parse_amount(FunctionCallInfo fcinfo)
{
	Credits		amount = CreditsFromNumeric(PG_GETARG_NUMERIC(2), "amount");

	if (amount < 0)
		ereport(ERROR,
				(errcode(ERRCODE_GPUCREDIT_BAD_BUDGET),
				 errmsg("\"amount\" of a budget must be 0 or more"),
				 errdetail("It is %s.", CreditsToCString(amount)),
				 errhint("Pass 0 or more, or NULL to remove the budget.")));
	return amount;
}

/* Parses the period, which is one of a fixed list. */
static char *
parse_period(FunctionCallInfo fcinfo)
{
	char	   *period;

	ArgNotNull(fcinfo, 3, "period");
	period = ArgText(fcinfo, 3, "period");
	for (int i = 0; i < (int) lengthof(periods); i++)
	{
		if (strcmp(period, periods[i]) == 0)
			return period;
	}
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_BAD_BUDGET),
			 errmsg("bad \"period\" of a budget: \"%s\"",
					ClipForMessage(period)),
			 errdetail("There is no such period."),
			 errhint("Pass none, day, week, month, quarter or year.")));
}

/*
 * Checks the thresholds, which are shares of the amount, each above 0 and at
 * most 10.
 */
static void
check_alerts(FunctionCallInfo fcinfo)
{
	ArrayType  *array;
	Datum	   *elems;
	bool	   *nulls;
	int			n;

	ArgNotNull(fcinfo, 5, "alert_at");
	array = PG_GETARG_ARRAYTYPE_P(5);
	deconstruct_array(array, NUMERICOID, -1, false, TYPALIGN_INT, &elems,
					  &nulls, &n);
	if (ARR_NDIM(array) > 1 || n > MOST_ALERTS)
		refuse_alerts("It has more than 16 thresholds, or more than one "
					  "dimension.");
	for (int i = 0; i < n; i++)
	{
		Credits		share;

		if (nulls[i])
			refuse_alerts("A threshold is null.");
		share = CreditsFromNumeric(DatumGetNumeric(elems[i]), "alert_at");
		if (share <= 0 || share > MOST_ALERT_SHARE)
			refuse_alerts("A threshold is not above 0 and at most 10.");
	}
}

static void
refuse_alerts(const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_BAD_BUDGET),
			 errmsg("bad \"alert_at\" of a budget"),
			 errdetail_internal("%s", why),
			 errhint("Pass shares of the amount, as '{0.5,0.8,1}'.")));
}
