/*-------------------------------------------------------------------------
 *
 * budget_take.c
 *		Counting what a hold draws in the budgets on its account's path.
 *
 * Counters are locked first (budget.c), and changed when the credit has been
 * found.  Or each is changed by the statement that locks it, leaf to root, if
 * it allows that once it is locked; then the credit may still be short, and
 * what was counted must be taken back.
 *
 * Locks: counters in BUDGET_ORDER.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/errors.h"
#include "ledger/alert.h"
#include "ledger/slice.h"

SQL_STATEMENT(count_take, SPI_OK_UPDATE_RETURNING,
			  "text, text, text, timestamptz, gpucredit.credits,"
			  " gpucredit.credits",
			  "UPDATE gpucredit.budget_count c"
			  " SET reserved = c.reserved OPERATOR(gpucredit.+) $5"
			  " WHERE c.org = $1 AND c.account = $2 AND c.period = $3"
			  " AND c.period_start = $4 AND c.spread = 0"
			  " AND ($6 IS NULL OR c.reserved OPERATOR(gpucredit.+) c.spent"
			  "  OPERATOR(gpucredit.<=) ($6 OPERATOR(gpucredit.-) $5))"
			  " RETURNING c.reserved, c.spent");
SQL_STATEMENT(counts_take, SPI_OK_UPDATE,
			  COUNTS_TYPES ", gpucredit.credits",
			  "UPDATE gpucredit.budget_count c"
			  " SET reserved = c.reserved OPERATOR(gpucredit.+) $5"
			  " FROM ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3), pg_catalog.unnest($4))"
			  "  AS u (account, period, period_start)"
			  " WHERE c.org = $1 AND c.account = u.account"
			  " AND c.period = u.period"
			  " AND c.period_start = u.period_start");
#define SHARES_INSERT \
	"INSERT INTO gpucredit.hold_budget AS h" \
	" (org, hold, account, period, period_start, reserved)" \
	" SELECT $1, $6, ($2)[n], ($3)[n], ($4)[n], $5" \
	" FROM pg_catalog.generate_series(1, $7) AS n"
SQL_STATEMENT(shares_insert, SPI_OK_INSERT,
			  COUNTS_TYPES ", gpucredit.credits, bigint, int",
			  SHARES_INSERT);
SQL_STATEMENT(shares_take, SPI_OK_INSERT,
			  COUNTS_TYPES ", gpucredit.credits, bigint, int",
			  SHARES_INSERT
			  " ON CONFLICT (org, hold, account, period, period_start)"
			  " DO UPDATE SET reserved ="
			  "  h.reserved OPERATOR(gpucredit.+) EXCLUDED.reserved");

static bool count_at_once(const char *org, BudgetCount *count,
						  Credits amount);
static void take_counts(const BudgetSet *set, Credits amount);
static void check_period(const BudgetCount *count, TimestampTz at);

/*
 * The budgets on a path, if an amount may be counted in them at once: none is
 * spread, or to be, and it seems to fit (else dead holds may free what is
 * lacking, which come before budgets).  Makes the counters that are missing.
 */
bool
BudgetLook(const AccountPath *path, Credits amount, BudgetSet *set)
{
	bool		counted;

	set->org = path->org;
	set->n = 0;
	set->counted = false;
	if (path->looked && !path->budgeted)
		return true;
	counted = BudgetRead(path, ClockNow(), set);
	for (int i = 0; i < set->n; i++)
	{
		if (set->counts[i].slices > 1 || set->counts[i].spread > 0)
			return false;
	}
	if (BudgetOver(set, amount))
		return false;
	if (!counted)
		(void) BudgetMakeCounts(path, true, set);
	return true;
}

/*
 * Lock the counters of a set and count an amount in each.  False: one does not
 * allow it; those before it in order are locked, but nothing is counted.
 */
bool
BudgetCountAtOnce(BudgetSet *set, Credits amount)
{
	for (int i = 0; i < set->n; i++)
	{
		if (!count_at_once(set->org, &set->counts[i], amount))
		{
			BudgetSet	before = {set->org, i, set->counts, true};

			BudgetUncount(&before, amount);
			return false;
		}
	}
	set->counted = true;
	return true;
}

/*
 * One counter.  It may also be locked by a statement that changes nothing,
 * having waited for it.
 */
static bool
count_at_once(const char *org, BudgetCount *count, Credits amount)
{
	SqlArgs		args = {0};
	SqlResult	row;

	SqlArgText(&args, org);
	SqlArgText(&args, count->account);
	SqlArgText(&args, count->period);
	SqlArgTime(&args, count->period_start);
	SqlArgCredits(&args, amount);
	if (count->hard)
		SqlArgCredits(&args, count->amount);
	else
		SqlArgNull(&args);
	row = SqlRun(&count_take, &args);
	if (row.n == 0)
		return false;
	count->reserved = CreditsSub(SqlCredits(row, 0, 1), amount);
	count->spent = SqlCredits(row, 0, 2);
	SqlFree(&row);
	return true;
}

/*
 * Take back what was counted at once; the counters stay locked.
 */
void
BudgetUncount(BudgetSet *set, Credits amount)
{
	if (set->n > 0)
		take_counts(set, -amount);
	set->counted = false;
}

/*
 * Count an amount of a hold, new or not, in the locked counters (unless it is
 * counted there), and alert who asked to be.  at: the instant of the call.
 */
void
BudgetTake(const BudgetSet *set, int64 hold, bool new, Credits amount,
		   TimestampTz at)
{
	SqlArgs		args;

	if (set->n == 0)
		return;
	for (int i = 0; i < set->n; i++)
		check_period(&set->counts[i], at);
	if (!set->counted)
		take_counts(set, amount);
	args = BudgetKeys(set);
	SqlArgCredits(&args, amount);
	SqlArgInt8(&args, hold);
	SqlArgInt4(&args, set->n);
	(void) SqlRun(new ? &shares_insert : &shares_take, &args);
	for (int i = 0; i < set->n; i++)
	{
		const BudgetCount *count = &set->counts[i];
		Credits		before = CreditsAdd(count->reserved, count->spent);

		if (count->slice > 0)
			continue;			/* no slice can pass a threshold */
		AlertBudget(set->org, count, before, CreditsAdd(before, amount), at);
		if (count->slices > 1 || count->spread > 0)
			CountEven(set->org, count, amount);
	}
}

/*
 * Count an amount in the counters, or in those of their slices that are
 * locked alone.
 */
static void
take_counts(const BudgetSet *set, Credits amount)
{
	BudgetSet	whole = {set->org, 0,
		palloc(sizeof(BudgetCount) * set->n), false};
	SqlArgs		args;

	for (int i = 0; i < set->n; i++)
	{
		if (set->counts[i].slice > 0)
			CountTakeSlice(set->org, &set->counts[i], amount);
		else
			whole.counts[whole.n++] = set->counts[i];
	}
	if (whole.n == 0)
		return;
	args = BudgetKeys(&whole);
	SqlArgCredits(&args, amount);
	Ensure(SqlRun(&counts_take, &args).n == (uint64) whole.n,
		   "A budget's counter is missing.");
}

/*
 * The period turned while this call waited for a bucket: it would have to
 * lock another counter now, out of order.  The retry will find it.
 */
static void
check_period(const BudgetCount *count, TimestampTz at)
{
	if (PeriodStart(count->period, at) != count->period_start)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("a budget's period ended during the call"),
				 errdetail("It waited for credit across the turn of a %s.",
						   count->period),
				 errhint("Retry the transaction.")));
}
