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

#define COUNT_TYPES COUNTS_TYPES ", gpucredit.credits, int[], int"
#define COUNT_TAKE(from, n) \
	"UPDATE gpucredit.budget_count c" \
	" SET reserved = c.reserved OPERATOR(gpucredit.+) $5" from \
	" c.org = $1 AND c.account = ($2)[" n "] AND c.period = ($3)[" n "]" \
	" AND c.period_start = ($4)[" n "]" \
	" RETURNING c.reserved, c.spent, c.spread"
SQL_STATEMENT(count_take, SPI_OK_UPDATE_RETURNING, COUNT_TYPES,
			  COUNT_TAKE(" WHERE", "$7"));
/* several, in their turn */
SQL_STATEMENT(counts_take_each, SPI_OK_UPDATE_RETURNING, COUNT_TYPES,
			  COUNT_TAKE(" FROM (SELECT pg_catalog.unnest($6) AS n) u"
						 " WHERE u.n = $7 AND", "u.n"));
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
	" (org, hold, account, period, period_start, reserved, spent)" \
	" SELECT $1, $6, pg_catalog.unnest($2), pg_catalog.unnest($3)," \
	" pg_catalog.unnest($4), $5, '0'::gpucredit.credits"
SQL_STATEMENT(shares_insert, SPI_OK_INSERT,
			  COUNTS_TYPES ", gpucredit.credits, bigint", SHARES_INSERT);
SQL_STATEMENT(shares_take, SPI_OK_INSERT,
			  COUNTS_TYPES ", gpucredit.credits, bigint", SHARES_INSERT
			  " ON CONFLICT (org, hold, account, period, period_start)"
			  " DO UPDATE SET reserved ="
			  "  h.reserved OPERATOR(gpucredit.+) EXCLUDED.reserved");

SQL_STATEMENT(shares_delete, SPI_OK_DELETE, "text, bigint",
			  "DELETE FROM gpucredit.hold_budget h"
			  " WHERE h.org = $1 AND h.hold = $2");

/* Counters on their way to be counted in. */
typedef struct Counting
{
	BudgetSet  *set;
	Credits		amount;
} Counting;

static bool see_counted(void *context, const Datum *values,
						const bool *nulls);
static bool is_spread(const BudgetSet *set);
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
	Counting	counting = {.set = set, .amount = amount};
	int32	   *numbers;
	int			before = -1;

	set->counted = 0;
	if (set->n == 0)
		return true;
	numbers = palloc(sizeof(int32) * set->n);
	for (int i = 0; i < set->n; i++)
		numbers[i] = i + 1;
	while (before < set->counted && set->counted < set->n &&
		   !is_spread(set))
	{
		SqlArgs		args = BudgetKeys(set);

		before = set->counted;
		SqlArgCredits(&args, amount);
		SqlArgInt4Array(&args, numbers, set->n);
		SqlArgInt4(&args, before + 1);
		SqlEachInTurn(before + 1 == set->n ? &count_take : &counts_take_each,
					  &args, see_counted, &counting);
	}
	if (set->counted == set->n && !is_spread(set) && !BudgetOver(set, amount))
		return true;
	BudgetUncount(set, amount);
	return false;
}

/*
 * The next counter, with the amount in it.
 */
static bool
see_counted(void *context, const Datum *values, const bool *nulls)
{
	Counting   *counting = context;
	BudgetSet  *set = counting->set;
	BudgetCount *count = &set->counts[set->counted++];

	count->reserved = CreditsSub(DatumGetCredits(values[0]),
								 counting->amount);
	count->spent = DatumGetCredits(values[1]);
	count->spread = DatumGetInt32(values[2]);
	return !is_spread(set);
}

/*
 * Was the last counter that was counted in spread?
 */
static bool
is_spread(const BudgetSet *set)
{
	return set->counted > 0 && set->counts[set->counted - 1].spread > 0;
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
