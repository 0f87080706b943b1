/*-------------------------------------------------------------------------
 *
 * alert.c
 *		Alerts: a row once per period and threshold, and a NOTIFY.
 *
 * The call that passes a budget's threshold sees it, under the lock of the
 * budget's counter.  The other alerts are about a state, not a change: a low
 * balance, credit that expires soon, an expensive day.  The calls that touch
 * the account see these, and maintain() looks at all accounts.  So the next
 * call raises an alert that this one could not raise.
 *
 * Nothing here waits: a call that does not get the alert's lock at once leaves
 * the alert to the transaction that has it (gpucredit_internal.raise_alert()).
 * At SERIALIZABLE a call reads no rows of other calls, as these reads would
 * conflict; maintain() reads them.
 *
 * The cost for a call: one look at a partial index, empty unless an account
 * has a balance threshold; nothing for buckets more than a week from their
 * end; at a settlement, the last days (alert_spend.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "common/hashfn.h"
#include "util/sql.h"
#include "api/api.h"
#include "ledger/alert.h"
#include "lib/stringinfo.h"
#include "shmem/notify.h"
#include "util/lock_class.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"

API_FUNCTION(set_alert);
PG_FUNCTION_INFO_V1(gpucredit_take_alert);
PG_FUNCTION_INFO_V1(gpucredit_tell_alert);

#define EXPIRY_AHEAD	(7 * USECS_PER_DAY)

SQL_STATEMENT(alert_raise, SPI_OK_SELECT,
			  "text, timestamptz, text, text, timestamptz, text, text",
			  "SELECT gpucredit_internal.raise_alert($1, $2, $3, 'budget', $4, $5,"
			  " $6::pg_catalog.numeric, 0, $7::pg_catalog.jsonb)");
SQL_STATEMENT(watched_any, SPI_OK_SELECT, "text, text[]",
			  "SELECT 1 FROM gpucredit.account a WHERE a.org = $1"
			  " AND a.account = ANY ($2) AND a.balance_low IS NOT NULL"
			  " LIMIT 1");
SQL_STATEMENT(alert_balances, SPI_OK_SELECT, "text, text[], timestamptz",
			  "SELECT gpucredit_internal.alert_balances($1, $2, $3)");
SQL_STATEMENT(alert_expiries, SPI_OK_SELECT, "text, bigint[], timestamptz",
			  "SELECT gpucredit_internal.alert_expiries($1, $2, $3)");
SQL_STATEMENT(account_watch, SPI_OK_UPDATE, "text, text, gpucredit.credits",
			  "UPDATE gpucredit.account a SET balance_low = $3"
			  " WHERE a.org = $1 AND a.account = $2");

static char *describe(const char *org, const BudgetCount *count,
					  const char *share, Credits taken);
static void member(StringInfo text, const char *name, const char *value,
				   bool quoted);

/*
 * Alert for each threshold of a locked budget that lies above what was taken
 * before, and not above what is taken after.
 */
void
AlertBudget(const char *org, const BudgetCount *count, Credits before,
			Credits after, TimestampTz at)
{
	for (int i = 0; i < count->nalerts; i++)
	{
		SqlArgs		args = {0};
		char	   *share;

		if (before >= count->alerts[i] || after < count->alerts[i])
			continue;
		SqlArgText(&args, org);
		SqlArgTime(&args, at);
		SqlArgText(&args, count->account);
		SqlArgText(&args, count->period);
		SqlArgTime(&args, count->period_start);
		share = DatumGetCString(DirectFunctionCall1(numeric_out,
													count->alert_shares[i]));
		SqlArgText(&args, share);
		SqlArgText(&args, describe(org, count, share, after));
		(void) SqlRun(&alert_raise, &args);
	}
}

/*
 * take_alert(name): keeps an alert to this transaction.  False: another one
 * has it, or has an alert whose name has the same hash.
 */
Datum
gpucredit_take_alert(PG_FUNCTION_ARGS)
{
	text	   *name = PG_GETARG_TEXT_PP(0);

	PG_RETURN_BOOL(LockClassTry(LOCK_ALERT,
								hash_bytes_extended((unsigned char *) VARDATA_ANY(name),
													VARSIZE_ANY_EXHDR(name), 0)));
}

/*
 * tell_alert(detail): notify listeners, at the commit.
 */
Datum
gpucredit_tell_alert(PG_FUNCTION_ARGS)
{
	NotifyAtCommit("gpucredit_alert", text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_BOOL(true);
}

/*
 * Alert if the balance of an account on a path is below its threshold.
 */
void
AlertBalance(const AccountPath *path, TimestampTz at)
{
	SqlArgs		args = {0};

	if (IsolationIsSerializable() || (path->looked && !path->watched))
		return;
	SqlArgText(&args, path->org);
	SqlArgTextArray(&args, path->accounts, path->n);
	if (SqlRun(&watched_any, &args).n == 0)
		return;
	SqlArgTime(&args, at);
	(void) SqlRun(&alert_balances, &args);
}

/*
 * After a draw: is little left, or do the buckets it came from expire soon?
 */
void
AlertDrawn(const HoldDraw *draw)
{
	int64	   *buckets = palloc(sizeof(int64) * (draw->nparts + 1));
	int			n = 0;
	SqlArgs		args = {0};

	if (draw->nparts == 0)
		return;
	for (int i = 0; i < draw->nparts; i++)
	{
		if (draw->parts[i].expires_at <= ClockAdd(draw->at, EXPIRY_AHEAD))
			buckets[n++] = draw->parts[i].bucket;
	}
	if (n > 0)
	{
		SqlArgText(&args, draw->path->org);
		SqlArgInt8Array(&args, buckets, n);
		SqlArgTime(&args, draw->at);
		(void) SqlRun(&alert_expiries, &args);
	}
	AlertBalance(draw->path, draw->at);
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

/*
 * What an account's owner wants to be told of.
 */
Datum
call_set_alert(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	char	   *account = ArgPath(fcinfo, 1, "account");
	bool		remove = PG_ARGISNULL(2);
	Credits		low = remove ? 0 : ArgAmount(fcinfo, 2, "balance_low", false);
	AccountPath path = AccountParse(org, account);
	AccountPath own = {.org = org, .n = 1, .accounts = {account}};
	AuditRow	audit = {.org = org, .account = account,
		.operation = "set_alert", .decision = remove ? "removed" : "set",
		.at = ClockNow()};
	SqlArgs		args = {0};

	SqlConnect();
	(void) AccountSuspended(&path);
	SqlArgText(&args, org);
	SqlArgText(&args, account);
	if (remove)
		SqlArgNull(&args);
	else
		SqlArgCredits(&args, low);
	(void) SqlRun(&account_watch, &args);
	if (!remove)
		AuditCredits(&audit, "balance_low", low);
	AuditWrite(&audit);
	AlertBalance(&own, audit.at);
	SqlFinish();
	PG_RETURN_VOID();
}
