/*-------------------------------------------------------------------------
 *
 * budget.c
 *		The budgets on an account's path: read and locked before a draw.
 *
 * A hold counts in the period it is taken in, and an extension in its own
 * period. The first call in a period makes the counter. Counters are locked
 * leaf to root, before any bucket. They change after the credit is found, or
 * at once (budget_take.c). An account without budgets costs no lock.
 *
 * A counter may be spread over slices (slice.h). A hold that counts in its
 * slice alone plans and locks that slice; else it locks all of the counter.
 *
 * Locks: counters in BUDGET_ORDER, each with its slices.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "ledger/slice.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/timestamp.h"
#include "ledger/budget.h"
#include "ledger/limits.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "util/compat.h"
#include "types/clip.h"

#define BUDGETS_LOCK \
	"SELECT b.account, b.period FROM gpucredit.budget b" \
	" WHERE b.org = $1 AND b.account = ANY ($2)" \
	" ORDER BY pg_catalog.length(b.account) DESC, b.account," \
	" b.period COLLATE pg_catalog.\"C\"" \
	" FOR NO KEY UPDATE"
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
	" WHERE c.org = $1"
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
/* only if none is there: ON CONFLICT alone would wait for another's insert */
SQL_STATEMENT(counts_make, SPI_OK_INSERT, COUNTS_TYPES,
			  "INSERT INTO gpucredit.budget_counter"
			  " (org, account, period, period_start, made_at)"
			  " SELECT $1, u.account, u.period, u.period_start,"
			  "  gpucredit.now()"
			  " FROM ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3), pg_catalog.unnest($4))"
			  "  AS u (account, period, period_start)"
			  " WHERE NOT EXISTS (SELECT FROM gpucredit.budget_counter c"
			  "  WHERE c.org = $1 AND c.account = u.account"
			  "  AND c.period = u.period AND c.period_start = u.period_start)"
			  " ORDER BY pg_catalog.length(u.account) DESC, u.account,"
			  "  u.period COLLATE pg_catalog.\"C\", u.period_start"
			  " ON CONFLICT (org, account, period, period_start)"
			  " DO NOTHING");
SQL_STATEMENT(counts_lock_union, SPI_OK_SELECT,
			  "text, text[], bigint[], timestamptz",
			  "SELECT c.account, c.period, c.period_start, c.spread"
			  " FROM gpucredit.budget_counter c WHERE c.org = $1"
			  " AND (EXISTS (SELECT FROM gpucredit.budget b"
			  "  WHERE b.org = $1 AND b.account = ANY ($2)"
			  "  AND b.account = c.account AND b.period = c.period"
			  "  AND gpucredit_internal.period_start(b.period, $4) = c.period_start)"
			  " OR EXISTS (SELECT FROM gpucredit.hold_budget h"
			  "  WHERE h.org = $1 AND h.hold = ANY ($3)"
			  "  AND h.account = c.account AND h.period = c.period"
			  "  AND h.period_start = c.period_start))"
			  " ORDER BY" BUDGET_ORDER " FOR NO KEY UPDATE OF c");
SQL_STATEMENT(counts_any, SPI_OK_SELECT, "text",
			  "SELECT 1 FROM gpucredit.budget_counter c WHERE c.org = $1"
			  " ORDER BY c.account, c.period, c.period_start LIMIT 1");

#define SHARE_ONE	INT64CONST(1000000)

SQL_STATEMENT(budgets_read, SPI_OK_SELECT, "text, text[], timestamptz",
			  "SELECT b.* FROM " PATH_LEVELS(2) ", LATERAL ("
			  "  SELECT b.account, b.period, b.amount, b.hard, b.alert_at,"
			  "  b.slices, c.spread, c.reserved, c.spent"
			  "  FROM gpucredit.budget b LEFT JOIN gpucredit.budget_counter c"
			  "   ON c.org = $1 AND c.account = b.account"
			  "   AND c.period = b.period AND c.period_start ="
			  "    gpucredit_internal.period_start(b.period, $3)"
			  "  WHERE b.org = $1 AND b.account = p.account OFFSET 0) b");

/* Budgets as they are read. */
typedef struct BudgetLooking
{
	BudgetSet  *set;
	TimestampTz at;
	int			room;
	bool		counted;		/* each has a counter */
} BudgetLooking;

PG_FUNCTION_INFO_V1(gpucredit_period_start);

static TimestampTz period_start(const char *period, TimestampTz at);
static void keep_locked(BudgetSet *set);
static bool read_counts(SqlStatement *statement, BudgetSet *set);
static BudgetCount *read_count(BudgetSet *set, SqlResult rows, uint64 i);
static bool lock_counts(bool wait, BudgetSet *set);
static void know_budget(const JsonbValue *values, BudgetCount *count);
static void set_alerts(Datum *shares, BudgetCount *count);
static bool see_budget(void *context, const Datum *values, const bool *nulls);
static int	compare_counts(const void *a, const void *b);

/*
 * Lock the counters of the budgets on a path, and check an amount against the
 * hard ones. known: what BudgetLockUnion() found. Budgets set since do not
 * count.
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
		/* somebody removed a budget while this call waited for its counter */
		keep_locked(set);
	}
	if (!BudgetOver(set, amount))
		return LEDGER_DONE;
	BudgetCheckPeriods(set, ClockNow());
	return LEDGER_OVER_BUDGET;
}

/*
 * Drop removed budgets from the set. The locks taken so far forbid to look for
 * others. The set may share its counters with another set, so copy them.
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
 * Lock a set's counters one after the other, each with all its slices. False:
 * some are missing, or locked by others.
 */
static bool
lock_counts(bool wait, BudgetSet *set)
{
	SqlArgs		args = BudgetKeys(set);
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
 * Read the budgets on a path. False: the hold cannot count in its slice of
 * each. A counter that should be spread, but is not, counts at large first.
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
 * Lock the planned budgets, if they may take an amount.
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
 * Make the counters of a new period. The budgets' rows are locked first,
 * before any counter, so nobody waits for another's insert. False: without
 * waiting, some row is not free. Budgets removed meanwhile leave the set.
 */
bool
BudgetMakeCounts(const AccountPath *path, bool wait, BudgetSet *set)
{
	SqlArgs		args = {0};
	SqlResult	rows;

	SqlArgText(&args, path->org);
	SqlArgTextArray(&args, path->accounts, path->n);
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

/*
 * The parameters that name a set's counters.
 */
SqlArgs
BudgetKeys(const BudgetSet *set)
{
	const char **accounts = palloc(sizeof(char *) * set->n);
	const char **periods = palloc(sizeof(char *) * set->n);
	Datum	   *starts = palloc(sizeof(Datum) * set->n);
	SqlArgs		args = {0};

	for (int i = 0; i < set->n; i++)
	{
		accounts[i] = set->counts[i].account;
		periods[i] = set->counts[i].period;
		starts[i] = TimestampTzGetDatum(set->counts[i].period_start);
	}
	SqlArgText(&args, set->org);
	SqlArgTextArray(&args, accounts, set->n);
	SqlArgTextArray(&args, periods, set->n);
	SqlArg(&args, PointerGetDatum(construct_array(starts, set->n,
												  TIMESTAMPTZOID, 8, true,
												  TYPALIGN_DOUBLE)));
	return args;
}

/*
 * Read a set's counters, and lock them if the statement does. False: some are
 * missing, or locked by others.
 */
static bool
read_counts(SqlStatement *statement, BudgetSet *set)
{
	SqlArgs		args = BudgetKeys(set);
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

/*
 * Does an amount pass a hard budget?
 */
bool
BudgetOver(const BudgetSet *set, Credits amount)
{
	for (int i = 0; i < set->n; i++)
	{
		const BudgetCount *count = &set->counts[i];
		Credits		taken = CreditsAdd(count->reserved, count->spent);

		/* a budget that is already passed takes nothing more */
		if (count->hard && (taken > count->amount ||
							amount > count->amount - taken))
			return true;
	}
	return false;
}

/*
 * How much the hard budgets of a set still take.
 */
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
 * Would an amount pass a hard budget, as an unlocked look says?
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
 * Lock the counters of a path's present budgets and of some holds' budgets,
 * each with all its slices. The set then has the present ones: the draw may
 * count in these.
 */
void
BudgetLockUnion(const AccountPath *path, const int64 *holds, int n,
				TimestampTz at, BudgetSet *set)
{
	SqlArgs		args = {0};
	Portal		portal;

	if (!BudgetRead(path, at, set))
		(void) BudgetMakeCounts(path, true, set);
	for (int i = 0; i < set->n; i++)
		set->counts[i].locked = false;
	SqlArgText(&args, path->org);
	if (SqlRun(&counts_any, &args).n == 0)
	{
		keep_locked(set);
		return;
	}
	SqlArgTextArray(&args, path->accounts, path->n);
	SqlArgInt8Array(&args, holds, n);
	SqlArgTime(&args, at);
	portal = SqlCursor(&counts_lock_union, &args);
	while (true)
	{
		SqlResult	row = SqlFetch(portal);
		BudgetCount count = {0};

		CHECK_FOR_INTERRUPTS();
		if (row.n == 0)
			break;
		count.account = SqlText(row, 0, 1);
		count.period = SqlText(row, 0, 2);
		count.period_start = SqlTime(row, 0, 3);
		count.spread = SqlInt4(row, 0, 4);
		SqlFree(&row);
		(void) CountLockSlices(path->org, &count, true);
		for (int i = 0; i < set->n; i++)
			set->counts[i].locked |= set->counts[i].period_start ==
				count.period_start &&
				strcmp(set->counts[i].account, count.account) == 0 &&
				strcmp(set->counts[i].period, count.period) == 0;
	}
	SPI_cursor_close(portal);

	/*
	 * a budget that was removed and set again: its counter must not be waited
	 * for later
	 */
	keep_locked(set);
}

/*
 * Read the budgets on a path without locks, leaf to root: their periods at an
 * instant, and what is counted so far. False: a budget has no counter yet.
 */
bool
BudgetRead(const AccountPath *path, TimestampTz at, BudgetSet *set)
{
	BudgetLooking looking = {.set = set, .at = at, .room = path->n,
		.counted = true};
	SqlArgs		args = {0};

	SqlArgText(&args, path->org);
	SqlArgTextArray(&args, path->accounts, path->n);
	SqlArgTime(&args, at);
	set->org = path->org;
	set->n = 0;
	set->counts = palloc(sizeof(BudgetCount) * looking.room);
	SqlEach(&budgets_read, &args, false, see_budget, &looking);
	qsort(set->counts, set->n, sizeof(BudgetCount), compare_counts);
	return looking.counted;
}

/*
 * A budget, and its counter if it has one.
 */
static bool
see_budget(void *context, const Datum *values, const bool *nulls)
{
	BudgetLooking *looking = context;
	BudgetSet  *set = looking->set;
	BudgetCount *count;

	if (set->n == looking->room)
	{
		looking->room *= 2;
		set->counts = repalloc(set->counts,
							   sizeof(BudgetCount) * looking->room);
	}
	count = &set->counts[set->n++];
	memset(count, 0, sizeof(BudgetCount));
	count->account = TextDatumGetCString(values[0]);
	count->period = TextDatumGetCString(values[1]);
	count->period_start = period_start(count->period, looking->at);
	count->amount = DatumGetCredits(values[2]);
	count->hard = DatumGetBool(values[3]);
	BudgetReadAlerts(values[4], count);
	count->slices = DatumGetInt32(values[5]);
	if (nulls[6])
		looking->counted = false;
	else
	{
		count->spread = DatumGetInt32(values[6]);
		count->reserved = DatumGetCredits(values[7]);
		count->spent = DatumGetCredits(values[8]);
	}
	return true;
}

/*
 * BUDGET_ORDER on one path, where the longer account is the lower one.
 */
static int
compare_counts(const void *a, const void *b)
{
	const BudgetCount *one = a;
	const BudgetCount *other = b;
	size_t		length = strlen(one->account);
	size_t		other_length = strlen(other->account);

	if (length != other_length)
		return length > other_length ? -1 : 1;
	return strcmp(one->period, other->period);
}

/*
 * The thresholds of a budget, in credits.
 */
void
BudgetReadAlerts(Datum array, BudgetCount *count)
{
	Datum	   *elems;

	deconstruct_array(DatumGetArrayTypePCopy(array), NUMERICOID, -1, false,
					  TYPALIGN_INT, &elems, NULL, &count->nalerts);
	set_alerts(elems, count);
}

/*
 * A threshold of less than the smallest amount is that amount.
 */
static void
set_alerts(Datum *shares, BudgetCount *count)
{
	count->alerts = palloc(sizeof(Credits) * (count->nalerts + 1));
	count->alert_shares = shares;
	for (int i = 0; i < count->nalerts; i++)
	{
		Credits		share = CreditsFromNumeric(DatumGetNumeric(shares[i]),
											   "alert_at");

		count->alerts[i] = Max(1, CreditsMulRatioSat(count->amount, share,
													 SHARE_ONE,
													 CREDITS_ROUND_DOWN));
	}
}

/*
 * The budgets on a path from the account rows already read, leaf to root,
 * without what they count. False: these rows are too old.
 */
bool
BudgetKnown(const AccountPath *path, TimestampTz at, BudgetSet *set)
{
	ListCell   *lc;

	set->org = path->org;
	set->n = 0;
	set->counts = NULL;
	if (!AccountLimitsKnown(path))
		return false;
	for (int level = 0; level < path->n; level++)
	{
		List	   *budgets = AccountLimitsOf(path, level, LIMIT_BUDGETS);

		if (budgets == NIL)
			continue;
		set->counts = set->counts == NULL ?
			palloc(sizeof(BudgetCount) * list_length(budgets)) :
			repalloc(set->counts, sizeof(BudgetCount) *
					 (set->n + list_length(budgets)));
		foreach(lc, budgets)
		{
			BudgetCount *count = &set->counts[set->n++];

			memset(count, 0, sizeof(BudgetCount));
			count->account = path->accounts[level];
			know_budget(lfirst(lc), count);
			count->period_start = period_start(count->period, at);
		}
	}
	return true;
}

/*
 * A budget, as AccountLimitsKeep() wrote it.
 */
static void
know_budget(const JsonbValue *values, BudgetCount *count)
{
	JsonbContainer *shares = values[4].val.binary.data;
	Datum	   *elems;

	count->period = pnstrdup(values[0].val.string.val,
							 values[0].val.string.len);
	count->amount = CreditsFromNumeric(values[1].val.numeric, "amount");
	count->hard = values[2].val.boolean;
	count->slices = numeric_int4_opt_error(values[3].val.numeric, NULL);
	count->nalerts = JsonContainerSize(shares);
	elems = palloc(sizeof(Datum) * (count->nalerts + 1));
	for (int i = 0; i < count->nalerts; i++)
		elems[i] = NumericGetDatum(getIthJsonbValueFromContainer(shares,
																 i)->val.numeric);
	set_alerts(elems, count);
}

/*
 * When the period of an instant began; period none never did. All periods
 * begin with a day, so the result is kept for that day.
 */
static TimestampTz
period_start(const char *period, TimestampTz at)
{
	static const char *const periods[] = {
		"day", "week", "month", "quarter", "year"
	};
	static struct
	{
		int64		day;
		TimestampTz start;
	}			known[lengthof(periods)];
	int64		day = at / USECS_PER_DAY - (at % USECS_PER_DAY < 0);
	int			i = 0;

	if (strcmp(period, "none") == 0)
		return DT_NOBEGIN;
	while (i < (int) lengthof(periods) && strcmp(period, periods[i]) != 0)
		i++;
	Ensure(i < (int) lengthof(periods), "A budget's period is unknown.");
	if (known[i].start == 0 || known[i].day != day)
	{
		known[i].start = DatumGetTimestampTz(
											 DirectFunctionCall3(timestamptz_trunc_zone,
																 CStringGetTextDatum(period),
																 TimestampTzGetDatum(at),
																 CStringGetTextDatum("UTC")));
		known[i].day = day;
	}
	return known[i].start;
}

/*
 * The first budget of a set whose period ended before an instant; NULL: none.
 */
const BudgetCount *
BudgetTurned(const BudgetSet *set, TimestampTz at)
{
	for (int i = 0; i < set->n; i++)
	{
		const BudgetCount *count = &set->counts[i];

		if (period_start(count->period, at) != count->period_start)
			return count;
	}
	return NULL;
}

/*
 * A period ended while this call waited. The call would have to lock another
 * counter now, out of order. The caller retries the transaction.
 */
void
BudgetCheckPeriods(const BudgetSet *set, TimestampTz at)
{
	const BudgetCount *turned = BudgetTurned(set, at);

	if (turned != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("the period of a budget of %s \"%s\" ended during the "
						"call",
						*turned->account == '\0' ? "organisation" : "account",
						ClipForMessage(*turned->account == '\0' ? set->org :
									   turned->account)),
				 errdetail("The call waited for credit until the next %s "
						   "began.", turned->period),
				 errhint("Retry the transaction.")));
}

Datum
gpucredit_period_start(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(period_start(TextDatumGetCString(PG_GETARG_DATUM(0)),
									   PG_GETARG_TIMESTAMPTZ(1)));
}
