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
 * end, or whose alert this session saw raised; at a settlement, the last days
 * (AlertSpend()).
 *
 * gpucredit_internal.high_spend() says what an expensive day is, and adds up
 * exactly. Nearly no day is one, and each settlement asks. So AlertSpend()
 * first adds up the same rows in floating point, and asks only if the day may
 * be one.
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
#include "catalog/pg_type.h"
#include "util/compat.h"
#include "util/path.h"
#include "utils/date.h"

API_FUNCTION(gpucredit_set_alert, set_alert);
PG_FUNCTION_INFO_V1(gpucredit_take_alert);
PG_FUNCTION_INFO_V1(gpucredit_notify_alert);
PG_FUNCTION_INFO_V1(gpucredit_notify_number);

#define EXPIRY_AHEAD	(7 * USECS_PER_DAY)

SQL_STATEMENT(alert_raise, SPI_OK_SELECT,
			  "text, timestamptz, text, text, timestamptz, text, text",
			  "SELECT gpucredit_internal.raise_alert($1, $2, $3, 'budget', $4, $5,"
			  " $6::pg_catalog.numeric, 0, $7::pg_catalog.jsonb)");
SQL_STATEMENT(watched_any, SPI_OK_SELECT, "text, text[]",
			  "SELECT 1 FROM " PATH_LEVELS(2) " CROSS JOIN LATERAL (SELECT"
			  "  FROM gpucredit.account a WHERE a.org = $1"
			  "  AND a.account = p.account AND a.balance_low IS NOT NULL"
			  "  OFFSET 0) a LIMIT 1");
SQL_STATEMENT(alert_balances, SPI_OK_SELECT,
			  "text, text[], timestamptz, bigint[], bigint[]",
			  "SELECT gpucredit_internal.alert_balances(ARRAY[$1], $2, $3,"
			  " $4, $5)");
SQL_STATEMENT(alert_ready, SPI_OK_SELECT, "text, text[], timestamptz",
			  "SELECT gpucredit_internal.balances_recovered(ARRAY[$1], $2, $3,"
			  " '{}', '{}', true)");
SQL_STATEMENT(alert_expiries, SPI_OK_SELECT, "text, bigint[], timestamptz",
			  "SELECT gpucredit_internal.alert_expiries(pg_catalog.array_fill($1,"
			  " ARRAY[pg_catalog.cardinality($2)]), $2, $3)");
SQL_STATEMENT(account_watch, SPI_OK_UPDATE, "text, text, gpucredit.credits",
			  "UPDATE gpucredit.account a SET balance_low = $3"
			  " WHERE a.org = $1 AND a.account = $2");

#define DELTAS_MOST		200		/* a call reads no more; maintain() does */
#define DAYS			30		/* of an average */
#define DEAR			1.3		/* times the average */
#define MICRO			1e6		/* of a credit */
#define SLACK			1e-9	/* more than the rounding error of these sums */

/* What one account and all below it spent. */
typedef struct Spending
{
	double		today;
	double		past;			/* the days before */
	double		most;			/* sum of the absolute values */
	DateADT		first;			/* day of any */
} Spending;

typedef struct SpendLook
{
	const AccountPath *path;
	DateADT		today;
	Spending   *of;				/* each account of the path */
	bool		past;			/* there is a day before this one */
	int			deltas;
} SpendLook;

SQL_STATEMENT(days_read, SPI_OK_SELECT, "text, text[], date, date",
			  "SELECT s.account, s.day, s.spent FROM " PATH_LEVELS(2)
			  ", LATERAL (SELECT d.account, d.day, d.spent"
			  "  FROM gpucredit.spend_day d WHERE d.org = $1"
			  "  AND d.account = p.account AND d.day >= $3 AND d.day <= $4"
			  "  OFFSET 0) s");
SQL_STATEMENT(deltas_read, SPI_OK_SELECT, "text, int",
			  "SELECT d.account, d.day, d.spent FROM gpucredit.account_delta d"
			  " WHERE d.org = $1 AND d.day IS NOT NULL"
			  " ORDER BY d.day LIMIT $2");
SQL_STATEMENT(alert_spend, SPI_OK_SELECT, "text, text[], timestamptz, int",
			  "SELECT gpucredit_internal.alert_spend(ARRAY[$1], $2, $3, $4)");

/* how many alerts a session remembers as raised, for speed only */
#define MOST_RAISED		64

static uint64 raised[MOST_RAISED];	/* by expiry_key() */

static void check_balances(const AccountPath *path, TimestampTz at,
						   const int64 *buckets, const int64 *amounts,
						   int n);
static uint64 expiry_key(const HoldDraw *draw, const HoldDrawPart *part);
static char *describe(const char *org, const BudgetCount *count,
					  const char *share, Credits taken);
static void member(StringInfo text, const char *name, const char *value,
				   bool quoted);
static bool might_be_dear(const AccountPath *path, TimestampTz at);
static bool see_day(void *context, const Datum *values, const bool *nulls);
static bool see_delta(void *context, const Datum *values, const bool *nulls);
static void add(SpendLook *look, int level, DateADT day, double spent);

/*
 * Alert for each threshold that lies above what a locked budget had taken
 * before, and not above what it has taken after.
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

/*
 * take_alert(name): claims an alert for this transaction. False: another
 * transaction has it, or one whose name has the same hash.
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
 * notify_alert(detail): notify listeners, at the commit.
 */
Datum
gpucredit_notify_alert(PG_FUNCTION_ARGS)
{
	NotifyAtCommit("gpucredit_alert", text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_BOOL(true);
}

/*
 * notify_number(channel, number): notify listeners of a row, at the commit.
 */
Datum
gpucredit_notify_number(PG_FUNCTION_ARGS)
{
	NotifyAtCommit(text_to_cstring(PG_GETARG_TEXT_PP(0)),
				   psprintf(INT64_FORMAT, PG_GETARG_INT64(1)));
	PG_RETURN_VOID();
}

/*
 * Alert if the balance of an account on a path is below its threshold.
 */
void
AlertBalance(const AccountPath *path, TimestampTz at)
{
	check_balances(path, at, NULL, NULL, 0);
}

/*
 * The same after a draw.  Its amount tells whether the balance had recovered
 * since the last alert, although no call saw it then.
 */
void
AlertBalanceDrawn(const AccountPath *path, const HoldDraw *draw)
{
	int64	   *buckets = palloc(sizeof(int64) * (draw->nparts + 1));
	int64	   *amounts = palloc(sizeof(int64) * (draw->nparts + 1));

	for (int i = 0; i < draw->nparts; i++)
	{
		buckets[i] = draw->parts[i].bucket;
		amounts[i] = draw->parts[i].amount;
	}
	check_balances(path, draw->at, buckets, amounts, draw->nparts);
}

/*
 * The same after so much left one bucket.
 */
void
AlertBalanceDebited(const AccountPath *path, TimestampTz at, int64 bucket,
					Credits amount)
{
	check_balances(path, at, &bucket, &amount, 1);
}

/*
 * Raises the alerts of the accounts on a path whose balance fell below their
 * line. The buckets and amounts are what has just left them, so that the SQL
 * function can tell what the balance was before.
 */
static void
check_balances(const AccountPath *path, TimestampTz at,
			   const int64 *buckets, const int64 *amounts, int n)
{
	Values	   *args;

	if (IsolationIsSerializable() || (path->looked && !path->watched))
		return;
	args = VALUES(TextValue(path->org),
				  TextArrayValue(path->accounts, path->n));
	if (SqlRun(&watched_any, args).n == 0)
		return;
	ValuesAdd(args, TimeValue(at), Int8ArrayValue(buckets, n),
			  Int8ArrayValue(amounts, n));
	(void) SqlRun(&alert_balances, args);
}

/*
 * After a draw: is little left, or do the buckets it came from expire soon?
 */
void
AlertDrawn(const HoldDraw *draw)
{
	int64	   *buckets = palloc(sizeof(int64) * (draw->nparts + 1));
	uint64	   *keys = palloc(sizeof(uint64) * (draw->nparts + 1));
	int			n = 0;

	if (draw->nparts == 0)
		return;
	for (int i = 0; i < draw->nparts; i++)
	{
		if (draw->parts[i].expires_at > ClockAdd(draw->at, EXPIRY_AHEAD))
			continue;
		keys[n] = expiry_key(draw, &draw->parts[i]);
		if (raised[keys[n] % MOST_RAISED] != keys[n])
			buckets[n++] = draw->parts[i].bucket;
	}
	if (n > 0)
	{
		/* nothing new: it was raised before, or maintain() raises it */
		if (SqlInt8(SqlRun(&alert_expiries,
						   VALUES(TextValue(draw->path->org),
								  Int8ArrayValue(buckets, n),
								  TimeValue(draw->at))), 0, 1) == 0)
		{
			for (int i = 0; i < n; i++)
				raised[keys[i] % MOST_RAISED] = keys[i];
		}
	}
	AlertBalanceDrawn(draw->path, draw);
}

/*
 * Which bucket it is, and whether the alert is of its last day.
 */
static uint64
expiry_key(const HoldDraw *draw, const HoldDrawPart *part)
{
	const char *org = draw->path->org;
	bool		last = part->expires_at <= ClockAdd(draw->at, USECS_PER_DAY);

	return hash_combine64(hash_bytes_extended((const unsigned char *) org,
											  strlen(org), last),
						  (uint64) part->bucket);
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
 * Sets the balance threshold below which an account's owner gets an alert.
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

	SqlConnect();
	(void) AccountSuspended(&path);
	(void) SqlRun(&account_watch,
				  VALUES(TextValue(org), TextValue(account),
						 remove ? NullValue() : CreditsValue(low)));
	if (!remove)
		AuditCredits(&audit, "balance_low", low);
	AuditWrite(&audit);
	(void) SqlRun(&alert_ready,
				  VALUES(TextValue(org), TextArrayValue(own.accounts, 1),
						 TimeValue(audit.at)));
	AlertBalance(&own, audit.at);
	SqlFinish();
	PG_RETURN_VOID();
}

/*
 * Alert if an account on a path spent unusually much today.
 */
void
AlertSpend(const char *org, const char *account, TimestampTz at)
{
	AccountPath path = AccountParse(org, account);

	if (IsolationIsSerializable() || !might_be_dear(&path, at))
		return;
	(void) SqlRun(&alert_spend,
				  VALUES(TextValue(org), TextArrayValue(path.accounts, path.n),
						 TimeValue(at), Int4Value(DELTAS_MOST)));
}

/*
 * May today be an expensive day for an account of the path?
 */
static bool
might_be_dear(const AccountPath *path, TimestampTz at)
{
	SpendLook	look = {.path = path};

	look.today = (DateADT) (at / USECS_PER_DAY);
	if (at < look.today * USECS_PER_DAY)
		look.today--;
	look.of = palloc0(sizeof(Spending) * path->n);
	for (int level = 0; level < path->n; level++)
		look.of[level].first = look.today;

	SqlEach(&days_read,
			VALUES(TextValue(path->org),
				   TextArrayValue(path->accounts, path->n),
				   DatumValue(DateADTGetDatum(look.today - DAYS)),
				   DatumValue(DateADTGetDatum(look.today))), false, see_day,
			&look);
	SqlEach(&deltas_read,
			VALUES(TextValue(path->org),
				   Int4Value(DELTAS_MOST + 1)), false, see_delta, &look);
	if (!look.past || look.deltas > DELTAS_MOST)
		return false;

	for (int level = 0; level < path->n; level++)
	{
		const Spending *of = &look.of[level];
		double		slack = of->most * SLACK;
		int32		days = look.today - of->first;

		if (days > 0 && of->past > -slack &&
			(of->today + slack) * days > (of->past - slack) * DEAR)
			return true;
	}
	return false;
}

/*
 * A folded day of an account and all below it.
 */
static bool
see_day(void *context, const Datum *values, const bool *nulls)
{
	SpendLook  *look = context;
	char	   *account = TextDatumGetCString(values[0]);
	double		spent = DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow,
														   values[2]));

	look->past |= DatumGetDateADT(values[1]) < look->today;
	for (int level = 0; level < look->path->n; level++)
	{
		if (strcmp(look->path->accounts[level], account) == 0)
			add(look, level, DatumGetDateADT(values[1]), spent);
	}
	return true;
}

/*
 * What an account spent that is not folded yet, the oldest first. The first
 * row says whether anything was spent before today.
 */
static bool
see_delta(void *context, const Datum *values, const bool *nulls)
{
	SpendLook  *look = context;
	bool		dated = !nulls[1];	/* a repair is of no day */
	char	   *account;
	double		spent;

	if (dated && DatumGetDateADT(values[1]) < look->today)
		look->past = true;
	if (!look->past || ++look->deltas > DELTAS_MOST)
		return false;
	if (!dated)
		return true;
	account = TextDatumGetCString(values[0]);
	spent = (double) DatumGetCredits(values[2]) / MICRO;
	for (int level = 0; level < look->path->n; level++)
	{
		if (PathIsBelow(account, look->path->accounts[level]))
			add(look, level, DatumGetDateADT(values[1]), spent);
	}
	return true;
}

static void
add(SpendLook *look, int level, DateADT day, double spent)
{
	Spending   *of = &look->of[level];

	if (day < look->today - DAYS || day > look->today)
		return;
	if (day == look->today)
		of->today += spent;
	else
		of->past += spent;
	of->most += Abs(spent);
	of->first = Min(of->first, day);
}
