/*-------------------------------------------------------------------------
 *
 * budget.c
 *		Reads and locks the budgets on an account's path before a draw.
 *
 * A hold counts in the period in which it is opened, and an extension in the
 * period in which it is drawn. The first call in a period inserts the counter.
 * Counters are locked leaf to root, before any bucket. They are changed after
 * the credit has been found, or by the statement that locks them
 * (budget_reserve.c). An account without budgets needs no lock.
 *
 * A counter may be spread over slices (slice.h). A hold that counts only in
 * its slice plans and locks that slice. Any other hold locks the whole
 * counter.
 *
 * Locks: counters in BUDGET_ORDER, each with its slices.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/sql.h"
#include "limits/budget_slice.h"
#include "miscadmin.h"

#define BUDGETS_LOCK \
	"SELECT b.account, b.period FROM ROWS FROM (pg_catalog.unnest($2))" \
	"  WITH ORDINALITY AS p (account, n)" \
	" JOIN gpucredit.budget b ON b.account = p.account" \
	" WHERE b.org = $1 AND" SEARCH_EACH("p.n") \
	" ORDER BY pg_catalog.length(b.account) DESC, b.account," \
	" b.period COLLATE pg_catalog.\"C\"" \
	" FOR NO KEY UPDATE OF b"
SQL_STATEMENT(budgets_lock, SPI_OK_SELECT, "text, text[]", BUDGETS_LOCK);
SQL_STATEMENT(budgets_lock_free, SPI_OK_SELECT, "text, text[]",
			  BUDGETS_LOCK " SKIP LOCKED");
#define COUNTS_READ(table, spread) \
	"SELECT u.n, c.reserved, c.spent, " spread " FROM ROWS FROM" \
	" (pg_catalog.unnest($2), pg_catalog.unnest($3)," \
	"  pg_catalog.unnest($4)) WITH ORDINALITY" \
	"  AS u (account, period, period_start, n)" \
	" JOIN gpucredit." table " c ON c.account = u.account" \
	"  AND c.period = u.period AND c.period_start = u.period_start" \
	" WHERE c.org = $1 AND" SEARCH_EACH("u.n")
SQL_STATEMENT(counts_read, SPI_OK_SELECT, COUNTS_TYPES,
			  COUNTS_READ("budget_counter_whole", "0"));
SQL_STATEMENT(counts_lock, SPI_OK_SELECT, COUNTS_TYPES,
			  COUNTS_READ("budget_counter",
						  "c.spread") " ORDER BY" BUDGET_ORDER
			  " FOR NO KEY UPDATE OF c");
SQL_STATEMENT(counts_lock_free, SPI_OK_SELECT, COUNTS_TYPES,
			  COUNTS_READ("budget_counter",
						  "c.spread") " ORDER BY" BUDGET_ORDER
			  " FOR NO KEY UPDATE OF c SKIP LOCKED");
/*
 * Inserts a counter only if there is none, because with ON CONFLICT alone the
 * statement would wait for another transaction's insert.
 */
SQL_STATEMENT(counts_make, SPI_OK_INSERT, COUNTS_TYPES,
			  "INSERT INTO gpucredit.budget_counter"
			  " (org, account, period, period_start, made_at)"
			  " SELECT $1, u.account, u.period, u.period_start,"
			  "  gpucredit.now()"
			  " FROM ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3), pg_catalog.unnest($4))"
			  "  AS u (account, period, period_start)"
			  " WHERE (SELECT true FROM gpucredit.budget_counter c"
			  "  WHERE c.org = $1 AND c.account = u.account"
			  "  AND c.period = u.period AND c.period_start = u.period_start)"
			  "  IS NULL"
			  " ORDER BY pg_catalog.length(u.account) DESC, u.account,"
			  "  u.period COLLATE pg_catalog.\"C\", u.period_start"
			  " ON CONFLICT (org, account, period, period_start)"
			  " DO NOTHING");
/*
 * Finds the counters in which the present budgets of a path and some holds
 * count.
 */
SQL_STATEMENT(counts_find, SPI_OK_SELECT,
			  "text, text[], bigint[], timestamptz",
			  "SELECT c.account, c.period, c.period_start FROM ("
			  "SELECT b.account, b.period, gpucredit_internal.period_start("
			  "  b.period, $4) AS period_start FROM " PATH_LEVELS(2)
			  "  CROSS JOIN LATERAL (SELECT b.account, b.period"
			  "   FROM gpucredit.budget b WHERE b.org = $1"
			  "   AND b.account = p.account OFFSET 0) b"
			  " UNION SELECT s.account, s.period, s.period_start"
			  "  FROM (SELECT pg_catalog.unnest($3) AS hold) h"
			  "  CROSS JOIN LATERAL (SELECT s.account, s.period,"
			  "   s.period_start FROM gpucredit.hold_budget s"
			  "   WHERE s.org = $1 AND s.hold = h.hold OFFSET 0) s) c"
			  " ORDER BY" BUDGET_ORDER);

static void keep_locked(BudgetSet *set);
static bool read_counts(SqlStatement *statement, BudgetSet *set);
static BudgetCount *read_count(BudgetSet *set, SqlResult rows, uint64 i);
static bool lock_counts(bool wait, BudgetSet *set);

/*
 * Locks the counters of the budgets on a path, and checks an amount against
 * the hard budgets. known is the set that BudgetLockUnion() found, or NULL.
 * Budgets that were set after that do not count the draw.
 */
LedgerStatus
BudgetLock(const AccountPath *path, Credits amount, bool wait,
		   const BudgetSet *known, BudgetSet *set)
{
	bool		own;

	set->org = path->org;
	if (amount == 0 ||
		(known == NULL && BudgetKnown(path, ClockNow(), set) && set->n == 0))
	{
		set->n = 0;
		return LEDGER_DONE;
	}
	own = known == NULL && wait && BudgetOwn(path, ClockNow(), set);
	if (known != NULL)
		*set = *known;
	else if (!own && !BudgetRead(path, ClockNow(), set) &&
			 !BudgetMakeCounts(path, wait, set))
		return LEDGER_BUSY;
	if (set->n == 0)
		return LEDGER_DONE;
	if (!own && !lock_counts(wait, set))
	{
		if (!wait)
			return LEDGER_BUSY;
		/* A budget was removed while this call waited for its counter. */
		keep_locked(set);
	}
	if (!BudgetOver(set, amount))
		return LEDGER_DONE;
	BudgetCheckPeriods(set, ClockNow());
	return LEDGER_OVER_BUDGET;
}

/*
 * Drops removed budgets from the set. Other budgets must not be searched,
 * because locks are held by now. The set may share its counters with another
 * set, so they are copied.
 */
static void
keep_locked(BudgetSet *set)
{
	BudgetCount *kept = palloc(sizeof(BudgetCount) * (set->n + 1));
	int			n = 0;

	for (int i = 0; i < set->n; i++)
	{
		if (set->counts[i].locked)
			kept[n++] = set->counts[i];
	}
	set->counts = kept;
	set->n = n;
}

/*
 * Locks a set's counters one after the other, each with all its slices.
 * Returns false if some are missing, or locked by other transactions.
 */
static bool
lock_counts(bool wait, BudgetSet *set)
{
	Values		args = BudgetKeys(set);
	Portal		portal = SqlCursor(wait ? &counts_lock : &counts_lock_free,
								   &args);
	int			locked = 0;
	SqlResult	row;

	for (int i = 0; i < set->n; i++)
		set->counts[i].locked = false;
	while ((row = SqlFetch(portal)).n > 0)
	{
		BudgetCount *count = read_count(set, row, 0);

		SqlFree(&row);
		if (!CountLockSlices(set->org, count, wait))
			break;
		locked++;
	}
	SPI_cursor_close(portal);
	return locked == set->n;
}

/*
 * Reads the budgets on a path. Returns false if the hold cannot count in its
 * slice of each of them. A counter that may be spread but is not yet has to
 * count at large first.
 */
bool
BudgetPlanSlice(const AccountPath *path, int64 hold, BudgetSet *set)
{
	if (!BudgetRead(path, ClockNow(), set))
		return false;
	for (int i = 0; i < set->n; i++)
	{
		BudgetCount *count = &set->counts[i];

		count->slice = SliceOf(hold, count->spread);
		if (count->slice == 0 && count->slices > 1)
			return false;
	}
	return true;
}

/*
 * Locks the planned budgets, and returns whether all of them allow the amount.
 */
bool
BudgetLockPlanned(BudgetSet *set, Credits amount, bool wait)
{
	for (int i = 0; i < set->n; i++)
	{
		BudgetSet	one = {.org = set->org, .n = 1,
			.counts = &set->counts[i]};

		if (one.counts->slice > 0)
		{
			if (!CountLockSlice(set->org, one.counts, amount, wait))
				return false;
		}
		else if (!read_counts(wait ? &counts_lock : &counts_lock_free,
							  &one) ||
				 one.counts->spread > 0 || BudgetOver(&one, amount))
			return false;
	}
	return true;
}

/*
 * Inserts the counters of a new period. The budgets' rows are locked first,
 * before any counter, so that a call that must not wait never waits for
 * another transaction's insert. Returns false if it would have to wait.
 * Budgets that were removed meanwhile are dropped from the set.
 */
bool
BudgetMakeCounts(const AccountPath *path, bool wait, BudgetSet *set)
{
	Values		args = {0};
	SqlResult	rows;

	ValuesAdd(&args, TextValue(path->org),
			  TextArrayValue(path->accounts, path->n));
	rows = SqlRun(wait ? &budgets_lock : &budgets_lock_free, &args);
	if (rows.n != (uint64) set->n && !wait)
		return false;
	for (int i = 0; i < set->n; i++)
		set->counts[i].locked = false;
	for (uint64 r = 0; r < rows.n; r++)
	{
		char	   *account = SqlText(rows, r, 1);
		char	   *period = SqlText(rows, r, 2);

		for (int i = 0; i < set->n; i++)
			set->counts[i].locked |=
				strcmp(set->counts[i].account, account) == 0 &&
				strcmp(set->counts[i].period, period) == 0;
	}
	SqlFree(&rows);
	keep_locked(set);
	if (set->n > 0)
	{
		args = BudgetKeys(set);
		(void) SqlRun(&counts_make, &args);
	}
	return true;
}

/* Returns the parameters that identify the counters of a set. */
Values
BudgetKeys(const BudgetSet *set)
{
	const char **accounts = palloc(sizeof(char *) * set->n);
	const char **periods = palloc(sizeof(char *) * set->n);
	TimestampTz *starts = palloc(sizeof(TimestampTz) * set->n);

	for (int i = 0; i < set->n; i++)
	{
		accounts[i] = set->counts[i].account;
		periods[i] = set->counts[i].period;
		starts[i] = set->counts[i].period_start;
	}
	return *VALUES(TextValue(set->org), TextArrayValue(accounts, set->n),
				   TextArrayValue(periods, set->n),
				   TimeArrayValue(starts, set->n));
}

/*
 * Reads a set's counters, and locks them if the statement does. Returns false
 * if some are missing, or locked by other transactions.
 */
static bool
read_counts(SqlStatement *statement, BudgetSet *set)
{
	Values		args = BudgetKeys(set);
	SqlResult	rows = SqlRun(statement, &args);

	for (uint64 i = 0; i < rows.n; i++)
		(void) read_count(set, rows, i);
	return rows.n == (uint64) set->n;
}

static BudgetCount *
read_count(BudgetSet *set, SqlResult rows, uint64 i)
{
	BudgetCount *count = &set->counts[SqlInt8(rows, i, 1) - 1];

	count->reserved = SqlCredits(rows, i, 2);
	count->spent = SqlCredits(rows, i, 3);
	count->spread = SqlInt4(rows, i, 4);
	count->locked = true;
	return count;
}

/* Whether a hard budget does not allow an amount. */
bool
BudgetOver(const BudgetSet *set, Credits amount)
{
	for (int i = 0; i < set->n; i++)
	{
		const BudgetCount *count = &set->counts[i];
		Credits		taken = CreditsAdd(count->reserved, count->spent);

		/* A budget that is already exceeded does not even allow 0. */
		if (count->hard && (taken > count->amount ||
							amount > count->amount - taken))
			return true;
	}
	return false;
}

/* Returns the largest amount that the hard budgets of a set allow. */
Credits
BudgetRoom(const BudgetSet *set)
{
	Credits		room = PG_INT64_MAX;

	for (int i = 0; i < set->n; i++)
	{
		const BudgetCount *count = &set->counts[i];
		Credits		taken = CreditsAdd(count->reserved, count->spent);

		if (count->hard)
			room = Min(room, Max(count->amount - taken, 0));
	}
	return room;
}

/*
 * Whether, according to a read without locks, a hard budget does not allow an
 * amount.
 */
bool
BudgetShort(const AccountPath *path, Credits amount, TimestampTz at)
{
	BudgetSet	set;

	(void) BudgetRead(path, at, &set);
	if (set.n == 0)
		return false;
	(void) read_counts(&counts_read, &set);
	return BudgetOver(&set, amount);
}

/*
 * Locks the counters of a path's present budgets and those in which some holds
 * count, each with all its slices. Afterwards the set contains the present
 * budgets, in which the draw may count.
 */
void
BudgetLockUnion(const AccountPath *path, const int64 *holds, int n,
				TimestampTz at, BudgetSet *set)
{
	BudgetSet	all = {.org = path->org};
	SqlResult	found;
	Values		args;
	Portal		portal;
	SqlResult	row;

	if (!BudgetRead(path, at, set))
		(void) BudgetMakeCounts(path, true, set);
	for (int i = 0; i < set->n; i++)
		set->counts[i].locked = false;
	found = SqlRun(&counts_find,
				   VALUES(TextValue(path->org),
						  TextArrayValue(path->accounts, path->n),
						  Int8ArrayValue(holds, n), TimeValue(at)));
	all.counts = palloc0(sizeof(BudgetCount) * (found.n + 1));
	for (; all.n < (int) found.n; all.n++)
	{
		all.counts[all.n].account = SqlText(found, all.n, 1);
		all.counts[all.n].period = SqlText(found, all.n, 2);
		all.counts[all.n].period_start = SqlTime(found, all.n, 3);
	}
	SqlFree(&found);

	/*
	 * The statement has one snapshot, so it does not lock counters that are
	 * inserted while this call waits.
	 */
	args = BudgetKeys(&all);
	portal = SqlCursor(&counts_lock, &args);
	while (all.n > 0 && (row = SqlFetch(portal)).n > 0)
	{
		BudgetCount *count = read_count(&all, row, 0);

		CHECK_FOR_INTERRUPTS();
		SqlFree(&row);
		(void) CountLockSlices(path->org, count, true);
		for (int i = 0; i < set->n; i++)
			set->counts[i].locked |= set->counts[i].period_start ==
				count->period_start &&
				strcmp(set->counts[i].account, count->account) == 0 &&
				strcmp(set->counts[i].period, count->period) == 0;
	}
	SPI_cursor_close(portal);

	/*
	 * A budget that was removed and set again is dropped, because its counter
	 * must not be waited for later.
	 */
	keep_locked(set);
}
