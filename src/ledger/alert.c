/*-------------------------------------------------------------------------
 *
 * alert.c
 *		Raises alerts: each is a row, at most one for a period and
 *		threshold, and a NOTIFY.
 *
 * The call that passes a budget's threshold notices this while it holds the
 * lock of the budget's counter.  The other alerts are about a state, not a
 * change: a low balance, credit that expires soon, an expensive day.  Calls
 * that change the account check for these states, and maintain() checks all
 * accounts.  So the next call raises an alert that this one could not raise.
 *
 * A call that does not get the alert's lock at once leaves the alert to the
 * transaction that has the lock.  A call that passes a budget's threshold, or
 * whose use was not collected, waits a moment for the lock, because it may be
 * that of a transaction that is ending (gpucredit_internal.raise_alert()). At
 * SERIALIZABLE a call reads no rows of other calls, because these reads would
 * cause conflicts. maintain() reads these rows.
 *
 * A call costs one search in a partial index, which is empty unless an account
 * has a balance threshold. There is no cost for buckets that expire in more
 * than a week, or whose alert was raised before as far as this session knows.
 * A settlement also reads the last days' spending (AlertSpend()).
 *
 * SQL functions here: notify_number.
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
#include "miscadmin.h"
#include "shmem/notify.h"
#include "util/lock_class.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "util/compat.h"

API_FUNCTION(gpucredit_set_alert, set_alert);
PG_FUNCTION_INFO_V1(gpucredit_take_alert);
PG_FUNCTION_INFO_V1(gpucredit_wait_alert);
PG_FUNCTION_INFO_V1(gpucredit_notify_alert);
PG_FUNCTION_INFO_V1(gpucredit_notify_number);

#define EXPIRY_AHEAD	(7 * USECS_PER_DAY)
#define ENDING_LOOKS	20		/* how often to look whether a transaction has
								 * ended that is ending */
#define ENDING_PAUSE_US	1000

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

/* how many alerts a session remembers as raised, which only saves time */
#define MOST_RAISED		64

static uint64 raised[MOST_RAISED];	/* indexed by the value of expiry_key() */

static void check_balances(const AccountPath *path, TimestampTz at,
						   const int64 *buckets, const int64 *amounts,
						   int n);
static uint64 expiry_key(const HoldDraw *draw, const HoldDrawPart *part);
static uint64 alert_key(const text *name);

/*
 * SQL function lock_alert(name): claims an alert for this transaction. Returns
 * false if another transaction has claimed it, or one whose name has the same
 * hash.
 */
Datum
gpucredit_take_alert(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(LockClassTry(LOCK_ALERT, alert_key(PG_GETARG_TEXT_PP(0))));
}

/*
 * SQL function wait_alert(name): the same, but waits a moment for a transaction
 * that is ending, whose row locks end before its advisory locks.
 */
Datum
gpucredit_wait_alert(PG_FUNCTION_ARGS)
{
	uint64		key = alert_key(PG_GETARG_TEXT_PP(0));

	for (int i = 0; i < ENDING_LOOKS; i++)
	{
		if (LockClassTry(LOCK_ALERT, key))
			PG_RETURN_BOOL(true);
		CHECK_FOR_INTERRUPTS();
		pg_usleep(ENDING_PAUSE_US);
	}
	PG_RETURN_BOOL(false);
}

static uint64
alert_key(const text *name)
{
	return hash_bytes_extended((const unsigned char *) VARDATA_ANY(name),
							   VARSIZE_ANY_EXHDR(name), 0);
}

/* SQL function notify_alert(detail): notifies listeners at the commit. */
Datum
gpucredit_notify_alert(PG_FUNCTION_ARGS)
{
	NotifyAtCommit("gpucredit_alert", text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_BOOL(true);
}

/*
 * SQL function notify_number(channel, number): notifies listeners of a row at
 * the commit.
 */
Datum
gpucredit_notify_number(PG_FUNCTION_ARGS)
{
	NotifyAtCommit(text_to_cstring(PG_GETARG_TEXT_PP(0)),
				   psprintf(INT64_FORMAT, PG_GETARG_INT64(1)));
	PG_RETURN_VOID();
}

/*
 * Raises an alert if the balance of an account on a path is below its
 * threshold.
 */
void
AlertBalance(const AccountPath *path, TimestampTz at)
{
	check_balances(path, at, NULL, NULL, 0);
}

/*
 * Raises an alert after a draw if the balance of an account on a path is below
 * its threshold.  The amount drawn shows whether the balance had recovered
 * since the last alert without any call noticing that.
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
 * Raises an alert if the balance of an account on a path is below its
 * threshold after one bucket was debited by an amount.
 */
void
AlertBalanceDebited(const AccountPath *path, TimestampTz at, int64 bucket,
					Credits amount)
{
	check_balances(path, at, &bucket, &amount, 1);
}

/*
 * Raises the alerts of the accounts on a path whose balance is below their
 * threshold. The amounts have just been debited from the buckets, so that the
 * SQL function can compute the balance before that.
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
 * Raises the alerts that are due after a draw: for a low balance, and for
 * buckets of the draw that expire soon.
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
		/*
		 * If no alert is new, the session remembers these buckets: their
		 * alerts were raised before, or maintain() will raise them.
		 */
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
 * Identifies an alert: the bucket, and whether it is the alert for the
 * bucket's last day.
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
