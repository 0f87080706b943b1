/*-------------------------------------------------------------------------
 *
 * budget_slice.c
 *		Changes the slices of budgets' counters.
 *
 * A slice may count up to its "most" without any other lock. The slices
 * together stay below a hard budget's amount and below the next alert. A hold
 * that would reach either of these counts at large, reads the whole counter,
 * and distributes what is left over the slices again. The shares depend on the
 * budget's row. Therefore a call that distributes locks that row, if it is not
 * locked, and a call that spreads a counter changes it. set_budget has locked
 * the row, and folds the counter.
 *
 * Locks: counters in BUDGET_ORDER, each with its slices; the budget's row
 * after them, without waiting for it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/sql.h"
#include "limits/budget_slice.h"
#include "miscadmin.h"

#define KEY_TYPES "text, text, text, timestamptz"
#define OF_KEY(t) \
	" WHERE " #t ".org = $1 AND " #t ".account = $2" \
	" AND " #t ".period = $3 AND " #t ".period_start = $4"

#define SLICES_READ \
	"SELECT pg_catalog.count(*)," \
	" COALESCE(gpucredit.sum(s.reserved), '0')," \
	" COALESCE(gpucredit.sum(s.spent), '0')" \
	" FROM (SELECT s.reserved, s.spent FROM gpucredit.budget_slice s" \
	OF_KEY(s) " ORDER BY s.slice FOR NO KEY UPDATE"
SQL_STATEMENT(slices_lock, SPI_OK_SELECT, KEY_TYPES, SLICES_READ ") s");
SQL_STATEMENT(slices_lock_free, SPI_OK_SELECT, KEY_TYPES,
			  SLICES_READ " SKIP LOCKED) s");
#define SLICE_ROOM(t) \
	"(" #t ".reserved OPERATOR(gpucredit.+) " #t ".spent)" \
	" OPERATOR(gpucredit.<=) (" #t ".most OPERATOR(gpucredit.-) $6)"
SQL_STATEMENT(slice_room, SPI_OK_SELECT, KEY_TYPES ", int, gpucredit.credits",
			  "SELECT 1 FROM gpucredit.budget_slice s" OF_KEY(s)
			  " AND s.slice = $5 AND " SLICE_ROOM(s) " FOR NO KEY UPDATE");
/*
 * Locks a slice that is not locked and had room, beginning with the hold's
 * own; see SLICE_FREE.
 */
SQL_STATEMENT(slice_room_free, SPI_OK_SELECT,
			  KEY_TYPES ", int, gpucredit.credits, int",
			  "SELECT s.slice, " SLICE_ROOM(s)
			  " FROM gpucredit.budget_slice s" OF_KEY(s)
			  " AND s.slice = ANY (ARRAY(SELECT r.slice"
			  "  FROM gpucredit.budget_slice r" OF_KEY(r)
			  "  AND " SLICE_ROOM(r) "))"
			  " ORDER BY ($7 + s.slice - $5) % $7 LIMIT 1"
			  " FOR NO KEY UPDATE SKIP LOCKED");
/*
 * Excludes shares of holds whose budget was removed together with the shares.
 */
#define SHARE_LIVES(t) \
	" AND EXISTS (SELECT FROM gpucredit.hold_budget h WHERE h.org = $1" \
	"  AND h.hold = $5 AND h.account = " #t ".account" \
	"  AND h.period = " #t ".period" \
	"  AND h.period_start = " #t ".period_start)"
#define SLICE_READ \
	"SELECT 1 FROM gpucredit.budget_slice s" OF_KEY(s) SHARE_LIVES(s) \
	" AND s.slice = $6 FOR NO KEY UPDATE OF s"
SQL_STATEMENT(slice_lock, SPI_OK_SELECT, KEY_TYPES ", bigint, int",
			  SLICE_READ);
SQL_STATEMENT(slice_lock_free, SPI_OK_SELECT, KEY_TYPES ", bigint, int",
			  SLICE_READ " SKIP LOCKED");
#define COUNT_READ \
	"SELECT 1 FROM gpucredit.budget_counter c" OF_KEY(c) SHARE_LIVES(c) \
	" FOR NO KEY UPDATE OF c"
SQL_STATEMENT(count_lock, SPI_OK_SELECT, KEY_TYPES ", bigint", COUNT_READ);
SQL_STATEMENT(count_lock_free, SPI_OK_SELECT, KEY_TYPES ", bigint",
			  COUNT_READ " SKIP LOCKED");
SQL_STATEMENT(slice_change, SPI_OK_UPDATE,
			  KEY_TYPES ", int, gpucredit.credits, gpucredit.credits",
			  "UPDATE gpucredit.budget_slice s"
			  " SET reserved = s.reserved OPERATOR(gpucredit.+) $6,"
			  " spent = s.spent OPERATOR(gpucredit.+) $7"
			  OF_KEY(s) " AND s.slice = $5");
SQL_STATEMENT(budget_read, SPI_OK_SELECT, "text, text, text",
			  "SELECT b.amount, b.hard, b.slices,"
			  " b.alert_at FROM gpucredit.budget b"
			  " WHERE b.org = $1 AND b.account = $2 AND b.period = $3"
			  " FOR NO KEY UPDATE SKIP LOCKED");
SQL_STATEMENT(budget_touch, SPI_OK_UPDATE, "text, text, text",
			  "UPDATE gpucredit.budget b SET slices = b.slices"
			  " WHERE b.org = $1 AND b.account = $2 AND b.period = $3");
SQL_STATEMENT(slices_make, SPI_OK_INSERT,
			  KEY_TYPES ", int, gpucredit.credits",
			  "INSERT INTO gpucredit.budget_slice"
			  " (org, account, period, period_start, slice, most)"
			  " SELECT $1, $2, $3, $4, n, $6"
			  " FROM pg_catalog.generate_series(1, $5) AS n");
SQL_STATEMENT(slices_even, SPI_OK_UPDATE,
			  KEY_TYPES ", gpucredit.credits",
			  "UPDATE gpucredit.budget_slice s SET most = s.reserved"
			  " OPERATOR(gpucredit.+) s.spent OPERATOR(gpucredit.+) $5"
			  OF_KEY(s));
SQL_STATEMENT(count_spread, SPI_OK_UPDATE, KEY_TYPES ", int",
			  "UPDATE gpucredit.budget_counter c SET spread = $5" OF_KEY(c));
SQL_STATEMENT(slices_fold, SPI_OK_UPDATE, KEY_TYPES,
			  "WITH s AS (DELETE FROM gpucredit.budget_slice s"
			  OF_KEY(s) " RETURNING s.*)"
			  " UPDATE gpucredit.budget_counter c"
			  " SET reserved = c.reserved OPERATOR(gpucredit.+) s.reserved,"
			  " spent = c.spent OPERATOR(gpucredit.+) s.spent, spread = 0"
			  " FROM (SELECT gpucredit.sum(s.reserved) AS reserved,"
			  "  gpucredit.sum(s.spent) AS spent FROM s) s" OF_KEY(c));
SQL_STATEMENT(counts_lock, SPI_OK_SELECT, "text, text, text, boolean",
			  "SELECT c.period, c.period_start, c.spread"
			  " FROM gpucredit.budget_counter c"
			  " WHERE c.org = $1 AND c.account = $2"
			  " AND COALESCE(c.period = $3, true) AND (c.spread > 0 OR $4)"
			  " ORDER BY c.period COLLATE pg_catalog.\"C\","
			  " c.period_start FOR NO KEY UPDATE");
SQL_STATEMENT(shares_read, SPI_OK_SELECT, "text, bigint",
			  "SELECT h.account, h.period, h.period_start, h.reserved,"
			  " h.spent, c.spread"
			  " FROM gpucredit.hold_budget h JOIN gpucredit.budget_counter c"
			  "  ON c.org = h.org AND c.account = h.account"
			  "  AND c.period = h.period AND c.period_start = h.period_start"
			  " WHERE h.org = $1 AND h.hold = $2 AND c.org = $1"
			  " ORDER BY" BUDGET_ORDER);

static Values key_args(const char *org, const char *account,
					   const char *period, TimestampTz period_start);
static Values count_args(const char *org, const BudgetCount *count);
static void change_slice(Values *args, int32 slice, Credits reserved,
						 Credits spent);
static void touch_budget(const char *org, const BudgetCount *count);
static bool headroom(const char *org, const BudgetCount *count,
					 Credits taken, int32 *slices, Credits *room);
static int	lock_share(const Hold *hold, HoldShare *share, int32 spread,
					   bool wait);

static Values
key_args(const char *org, const char *account, const char *period,
		 TimestampTz period_start)
{
	return *VALUES(TextValue(org), TextValue(account), TextValue(period),
				   TimeValue(period_start));
}

static Values
count_args(const char *org, const BudgetCount *count)
{
	return key_args(org, count->account, count->period, count->period_start);
}

/*
 * Locks all slices of a counter whose row is locked, and adds up their
 * figures. Returns false if wait is false and another transaction has locked
 * one of them.
 */
bool
CountLockSlices(const char *org, BudgetCount *count, bool wait)
{
	Values		args = count_args(org, count);
	SqlResult	row;
	int64		n;

	if (count->spread == 0)
		return true;
	row = SqlRun(wait ? &slices_lock : &slices_lock_free, &args);
	n = SqlInt8(row, 0, 1);
	count->reserved = CreditsAdd(count->reserved, SqlCredits(row, 0, 2));
	count->spent = CreditsAdd(count->spent, SqlCredits(row, 0, 3));
	SqlFree(&row);
	Ensure(n == count->spread || !wait, "A slice is missing.");
	return n == count->spread;
}

/*
 * Locks one slice of a counter that has room for an amount: the hold's own, or
 * the next one that is not locked. Returns false if there is none.
 */
bool
CountLockSlice(const char *org, BudgetCount *count, Credits amount, bool wait)
{
	Values		args = count_args(org, count);
	SqlResult	row;

	ValuesAdd(&args, Int4Value(count->slice), CreditsValue(amount),
			  Int4Value(count->spread));
	row = SqlRun(&slice_room_free, &args);
	if (row.n == 1)
	{
		count->slice = SqlInt4(row, 0, 1);
		return SqlBool(row, 0, 2);
	}
	args.n--;
	return wait && SqlRun(&slice_room, &args).n == 1;
}

/* Counts an amount in a locked slice. */
void
CountDebitSlice(const char *org, const BudgetCount *count, Credits amount)
{
	Values		args = count_args(org, count);

	change_slice(&args, count->slice, amount, 0);
}

/* Changes what a slice has counted for a share of a hold. */
void
ShareReturnSlice(const char *org, const HoldShare *share)
{
	Values		args = key_args(org, share->account, share->period,
								share->period_start);

	change_slice(&args, share->slice, -share->unreserve, share->spend);
}

static void
change_slice(Values *args, int32 slice, Credits reserved, Credits spent)
{
	ValuesAdd(args, Int4Value(slice), CreditsValue(reserved),
			  CreditsValue(spent));
	Ensure(SqlRun(&slice_change, args).n == 1, "A slice is missing.");
}

/*
 * Distributes what is left over the slices after an amount was counted at
 * large, or folds the slices if each would get too little.
 */
void
CountEven(const char *org, const BudgetCount *count, Credits amount)
{
	Values		args = count_args(org, count);
	int32		slices = 0;
	Credits		share;
	Credits		room = 0;
	Credits		taken = CreditsAdd(CreditsAdd(count->reserved, count->spent),
								   amount);
	bool		known = headroom(org, count, taken, &slices, &room);

	if (count->spread > 0)
		slices = count->spread;
	share = slices > 1 ? room / slices : 0;
	if (!known || slices <= 1 || !SlicesWorth(share, amount, count->spread))
	{
		if (count->spread > 0)
			Ensure(SqlRun(&slices_fold, &args).n == 1,
				   "A budget's counter is missing.");
		return;
	}
	if (count->spread > 0)
	{
		ValuesAdd(&args, CreditsValue(share));
		(void) SqlRun(&slices_even, &args);
		return;
	}
	touch_budget(org, count);
	ValuesAdd(&args, Int4Value(slices));
	(void) SqlRun(&count_spread, &args);
	ValuesAdd(&args, CreditsValue(share));
	(void) SqlRun(&slices_make, &args);
}

/*
 * Changes the budget's row. A set_budget() that waits for the row may have a
 * snapshot in which the counter is not spread. Because of the change it gets
 * 40001.
 */
static void
touch_budget(const char *org, const BudgetCount *count)
{
	Ensure(SqlRun(&budget_touch,
				  VALUES(TextValue(org), TextValue(count->account),
						 TextValue(count->period))).n == 1,
		   "A budget is missing.");
}

/*
 * Computes how much more a counter may count before its budget is used up or
 * its next alert is due, and over how many slices it may be spread. Returns
 * false if another transaction has locked the budget's row.
 */
static bool
headroom(const char *org, const BudgetCount *count, Credits taken,
		 int32 *slices, Credits *room)
{
	Credits		most = PG_INT64_MAX / 4;
	BudgetCount now = *count;
	SqlResult	row;
	bool		isnull;

	row = SqlRun(&budget_read,
				 VALUES(TextValue(org), TextValue(count->account),
						TextValue(count->period)));
	if (row.n == 0)
		return false;
	now.amount = SqlCredits(row, 0, 1);
	*slices = SqlInt4(row, 0, 3);
	if (SqlBool(row, 0, 2))
		most = Min(most, now.amount);
	BudgetReadAlerts(SqlDatum(row, 0, 4, &isnull), &now);
	for (int i = 0; i < now.nalerts; i++)
	{
		if (now.alerts[i] > taken)
			most = Min(most, now.alerts[i] - 1);
	}
	*room = Max(most, taken) - taken;
	SqlFree(&row);
	return true;
}

/*
 * Folds the spread counters of an account's budgets, of one period or (with
 * NULL) of all. The caller has locked the budgets' rows. If all is true, the
 * other counters are locked as well, in order.
 */
void
BudgetFold(const char *org, const char *account, const char *period, bool all)
{
	Values		args = {0};
	Portal		portal;

	ValuesAdd(&args, TextValue(org), TextValue(account), TextValue(period),
			  BoolValue(all));
	portal = SqlCursor(&counts_lock, &args);
	while (true)
	{
		SqlResult	row = SqlFetch(portal);
		BudgetCount count = {.account = account};

		CHECK_FOR_INTERRUPTS();
		if (row.n == 0)
			break;
		count.period = SqlText(row, 0, 1);
		count.period_start = SqlTime(row, 0, 2);
		count.spread = SqlInt4(row, 0, 3);
		SqlFree(&row);
		if (count.spread == 0)
			continue;
		(void) CountLockSlices(org, &count, true);
		args = count_args(org, &count);
		Ensure(SqlRun(&slices_fold, &args).n == 1,
			   "A budget's counter is missing.");
	}
	SPI_cursor_close(portal);
}

/*
 * Locks the slices or rows to which a hold's shares return. Returns false if
 * wait is false and another transaction has locked one of them.
 */
bool
SharesLockSlices(const Hold *hold, bool wait, HoldShares *shares)
{
	SqlResult	rows;

	rows = SqlRun(&shares_read,
				  VALUES(TextValue(hold->org), Int8Value(hold->hold)));
	shares->shares = palloc0(sizeof(HoldShare) * (rows.n + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		HoldShare  *share = &shares->shares[shares->n];
		int			locked;

		CHECK_FOR_INTERRUPTS();
		share->account = SqlText(rows, i, 1);
		share->period = SqlText(rows, i, 2);
		share->period_start = SqlTime(rows, i, 3);
		share->reserved = SqlCredits(rows, i, 4);
		share->spent = SqlCredits(rows, i, 5);
		locked = lock_share(hold, share, SqlInt4(rows, i, 6), wait);
		if (locked == 0 && !wait)
			return false;
		shares->n += locked;	/* no row was locked if the budget was removed */
	}
	SqlFree(&rows);
	return true;
}

/*
 * Locks a share's slice, or the counter's row if it has no slices now. Returns
 * how many rows were locked. If the budget was removed and set again, there
 * are rows with the same key that do not count the share, and these are not
 * locked.
 */
static int
lock_share(const Hold *hold, HoldShare *share, int32 spread, bool wait)
{
	Values		args = key_args(hold->org, share->account, share->period,
								share->period_start);

	ValuesAdd(&args, Int8Value(hold->hold));
	share->slice = SliceOf(hold->hold, spread);
	if (share->slice > 0)
	{
		ValuesAdd(&args, Int4Value(share->slice));
		if (SqlRun(wait ? &slice_lock : &slice_lock_free, &args).n == 1)
			return 1;
		if (!wait)
			return 0;
		args.n--;
		share->slice = 0;
	}
	return (int) SqlRun(wait ? &count_lock : &count_lock_free, &args).n;
}
