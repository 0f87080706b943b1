/*-------------------------------------------------------------------------
 *
 * budget_take.c
 *		Counting what a hold draws in the budgets on its account's path.
 *
 * Counters are locked first (budget.c), and changed when the credit has been
 * found.  Or they are changed by the statement that locks them, leaf to root.
 * If one does not allow that once it is locked, or the credit is short, what
 * was counted must be taken back.
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
			  "text, text, text, timestamptz, gpucredit.credits",
			  "UPDATE gpucredit.budget_count c"
			  " SET reserved = c.reserved OPERATOR(gpucredit.+) $5"
			  " WHERE c.org = $1 AND c.account = $2 AND c.period = $3"
			  " AND c.period_start = $4"
			  " RETURNING c.reserved, c.spent, c.spread");
#define COUNTS_OF_SET \
	" ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3)," \
	"  pg_catalog.unnest($4)) AS u (account, period, period_start)" \
	" WHERE c.org = $1 AND c.account = u.account" \
	" AND c.period = u.period AND c.period_start = u.period_start"
SQL_STATEMENT(counts_take, SPI_OK_UPDATE,
			  COUNTS_TYPES ", gpucredit.credits",
			  "UPDATE gpucredit.budget_count c"
			  " SET reserved = c.reserved OPERATOR(gpucredit.+) $5"
			  " FROM" COUNTS_OF_SET);
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

SQL_STATEMENT(shares_delete, SPI_OK_DELETE, "text, bigint",
			  "DELETE FROM gpucredit.hold_budget h"
			  " WHERE h.org = $1 AND h.hold = $2");

/* A counter on its way to be counted in. */
typedef struct Counting
{
	BudgetCount *count;
	Credits		amount;
	bool		found;
} Counting;

static bool see_counted(void *context, const Datum *values,
						const bool *nulls);
static void take_counts(const BudgetSet *set, Credits amount);

/*
 * The budgets on a path, if an amount may be counted in them at once: none is
 * spread, or to be, and it seems to fit (else dead holds may free what is
 * lacking, which come before budgets), nor does a hard one end where credits
 * do.  Makes the counters that are missing.
 */
bool
BudgetLook(const AccountPath *path, Credits amount, BudgetSet *set)
{
	bool		counted;

	set->org = path->org;
	set->n = 0;
	set->counted = 0;
	set->shared = false;
	if (path->looked && !path->budgeted)
		return true;
	counted = BudgetRead(path, ClockNow(), set);
	for (int i = 0; i < set->n; i++)
	{
		BudgetCount *count = &set->counts[i];

		if (count->slices > 1 || count->spread > 0 ||
			(count->hard && count->amount > PG_INT64_MAX - amount))
			return false;
	}
	if (BudgetOver(set, amount))
		return false;
	if (!counted)
		(void) BudgetMakeCounts(path, true, set);
	return true;
}

/*
 * Lock the counters of a set, one after the other, and count an amount in
 * each.  False: one does not allow it, as it is by now, or is gone with its
 * budget; what is locked stays so, but nothing is counted.  One that is spread
 * is the last that is locked: its slices come before the next counter.  None
 * is made here: whoever does that has the budget's row, or others would wait
 * for it in no order.
 */
bool
BudgetCountAtOnce(BudgetSet *set, Credits amount)
{
	bool		good = true;

	set->counted = 0;
	for (int i = 0; i < set->n && good; i++)
	{
		BudgetCount *count = &set->counts[i];
		Counting	counting = {.count = count, .amount = amount};
		SqlArgs		args = {0};

		SqlArgText(&args, set->org);
		SqlArgText(&args, count->account);
		SqlArgText(&args, count->period);
		SqlArgTime(&args, count->period_start);
		SqlArgCredits(&args, amount);
		SqlEach(&count_take, &args, false, see_counted, &counting);
		if (counting.found)
			set->counted++;
		good = counting.found && count->spread == 0;
	}
	if (good && !BudgetOver(set, amount))
		return true;
	BudgetUncount(set, amount);
	return false;
}

/*
 * A counter, with the amount in it.
 */
static bool
see_counted(void *context, const Datum *values, const bool *nulls)
{
	Counting   *counting = context;
	BudgetCount *count = counting->count;

	count->reserved = CreditsSub(DatumGetCredits(values[0]),
								 counting->amount);
	count->spent = DatumGetCredits(values[1]);
	count->spread = DatumGetInt32(values[2]);
	counting->found = true;
	return true;
}

/*
 * Take back what was counted at once; the counters stay locked.
 */
void
BudgetUncount(BudgetSet *set, Credits amount)
{
	BudgetSet	counted = {.org = set->org, .n = set->counted,
		.counts = set->counts};

	if (counted.n > 0)
		take_counts(&counted, -amount);
	set->counted = 0;
}

/*
 * Write with what a hold, new or not, is counted in a set's budgets.
 */
void
BudgetShare(BudgetSet *set, int64 hold, bool new, Credits amount)
{
	SqlArgs		args;

	if (set->n == 0)
		return;
	args = BudgetKeys(set);
	SqlArgCredits(&args, amount);
	SqlArgInt8(&args, hold);
	SqlArgInt4(&args, set->n);
	(void) SqlRun(new ? &shares_insert : &shares_take, &args);
	set->shared = true;
}

/*
 * Take that back, of a new hold.
 */
void
BudgetUnshare(BudgetSet *set, int64 hold)
{
	SqlArgs		args = {0};

	set->shared = false;
	if (set->n == 0)
		return;
	SqlArgText(&args, set->org);
	SqlArgInt8(&args, hold);
	Ensure(SqlRun(&shares_delete, &args).n == (uint64) set->n,
		   "A hold's share of a budget is missing.");
}

/*
 * Count an amount of a hold, new or not, in the locked counters, unless that
 * is done and its shares are written; and alert who asked to be.  at: the
 * instant of the call.
 */
void
BudgetTake(BudgetSet *set, int64 hold, bool new, Credits amount,
		   TimestampTz at)
{
	if (set->n == 0)
		return;
	BudgetCheckPeriods(set, at);
	if (set->counted == 0)
		take_counts(set, amount);
	if (!set->shared)
		BudgetShare(set, hold, new, amount);
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
	BudgetSet	whole = {.org = set->org,
		.counts = palloc(sizeof(BudgetCount) * set->n)};
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
 * The period turned while this call waited: it would have to lock another
 * counter now, out of order, and what was full may be of the period that
 * ended.  The retry will find it.
 */
void
BudgetCheckPeriods(const BudgetSet *set, TimestampTz at)
{
	for (int i = 0; i < set->n; i++)
	{
		const BudgetCount *count = &set->counts[i];

		if (PeriodStart(count->period, at) != count->period_start)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("a budget's period ended during the call"),
					 errdetail("It waited for credit across the turn of a %s.",
							   count->period),
					 errhint("Retry the transaction.")));
	}
}
