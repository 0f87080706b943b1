/*-------------------------------------------------------------------------
 *
 * budget_reserve.c
 *		Counts what a hold draws in the budgets on its account's path.
 *
 * There are two ways. Either the counters are locked first (budget.c), and
 * changed when the credit has been found. Or one statement for each counter
 * locks and changes it, leaf to root; if one refuses, or the credit does not
 * suffice, the caller rolls back.
 *
 * Locks: counters in BUDGET_ORDER.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/errors.h"
#include "common/hashfn.h"
#include "util/row_location.h"
#include "limits/budget_slice.h"
#include "util/sql.h"
#include "limits/budget.h"

/*
 * A counter that was made after the hold read the budgets belongs to a budget
 * that was set since then, which does not count the hold.
 */
#define COUNT_TYPES \
	COUNTS_TYPES ", gpucredit.credits, timestamptz, int[], int"
#define COUNT_UPDATE(from, n) \
	"UPDATE gpucredit.budget_counter c" \
	" SET reserved = c.reserved OPERATOR(gpucredit.+) $5" from \
	" c.org = $1 AND c.account = ($2)[" n "] AND c.period = ($3)[" n "]" \
	" AND c.period_start = ($4)[" n "] AND c.made_at <= $6" \
	" RETURNING c.reserved, c.spent, c.spread"
SQL_STATEMENT(count_reserve, SPI_OK_UPDATE_RETURNING, COUNT_TYPES,
			  COUNT_UPDATE(" WHERE", "$8"));
/* Counts in several counters, one after the other. */
SQL_STATEMENT(counts_reserve_each, SPI_OK_UPDATE_RETURNING, COUNT_TYPES,
			  COUNT_UPDATE(" FROM (SELECT pg_catalog.unnest($7) AS n) u"
						   " WHERE u.n = $8 AND", "u.n"));
#define COUNTS_OF_SET \
	" ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3)," \
	"  pg_catalog.unnest($4)) WITH ORDINALITY" \
	"  AS u (account, period, period_start, n)" \
	" WHERE" SEARCH_EACH("u.n") \
	" AND c.org = $1 AND c.account = u.account" \
	" AND c.period = u.period AND c.period_start = u.period_start"
SQL_STATEMENT(counts_reserve, SPI_OK_UPDATE,
			  COUNTS_TYPES ", gpucredit.credits",
			  "UPDATE gpucredit.budget_counter c"
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

/*
 * how many paths whose budgets refused are remembered, which only saves time
 */
#define MOST_SAID_NO	64

static uint64 noes[MOST_SAID_NO];	/* indexed by the value of path_key() */

/* the state while an amount is counted in counters */
typedef struct Counting
{
	BudgetSet  *set;
	Credits		amount;
	int			counted;		/* how many counters, from the first, have
								 * counted the amount */
	bool		spread;			/* whether the last of these is spread */
} Counting;

static uint64 path_key(const AccountPath *path);
static bool recently_denied(uint64 key);
static void remember_answer(uint64 key, bool no);
static void count_all(Counting *counting, TimestampTz at);
static bool read_counted(void *context, const Datum *values,
						 const bool *nulls);
static void add_to_counters(const BudgetSet *set, Credits amount);

/*
 * Reads the budgets on a path, and returns whether the amount can be counted
 * at once. It cannot if a counter is or may be spread, or if a hard budget is
 * so large that the sum could overflow. If the budgets of this path have
 * recently refused, the counters are read as well: all must exist and allow
 * the amount. Otherwise releasing dead holds might help, and dead holds are
 * locked before budgets.
 */
bool
BudgetReadUnlocked(const AccountPath *path, Credits amount, BudgetSet *set)
{
	TimestampTz now = ClockNow();
	bool		look = !BudgetKnown(path, now, set) ||
		(set->n > 0 && recently_denied(path_key(path)));

	if (look && (!BudgetRead(path, now, set) || BudgetOver(set, amount)))
		return false;
	for (int i = 0; i < set->n; i++)
	{
		BudgetCount *count = &set->counts[i];

		if (count->slices > 1 || count->spread > 0 ||
			(count->hard && count->amount > PG_INT64_MAX - amount))
			return false;
	}
	return true;
}

/* Returns a hash of a path. */
static uint64
path_key(const AccountPath *path)
{
	return hash_combine64(hash_bytes_extended((const unsigned char *) path->org,
											  strlen(path->org), 0),
						  hash_bytes_extended((const unsigned char *) path->accounts[0],
											  strlen(path->accounts[0]), 0));
}

/* Whether a path's budgets refused the last time. */
static bool
recently_denied(uint64 key)
{
	return noes[key % MOST_SAID_NO] == key;
}

/* Remembers whether a path's budgets refused. */
static void
remember_answer(uint64 key, bool no)
{
	if (no)
		noes[key % MOST_SAID_NO] = key;
	else if (recently_denied(key))
		noes[key % MOST_SAID_NO] = 0;
}

/*
 * Locks the counters of a set one after the other, and counts an amount in
 * each, for a hold of an instant. Returns false if one refuses, is spread, or
 * is missing; the caller then rolls back. No counter is inserted here, because
 * the inserting call must have locked the budget's row: otherwise other calls
 * would wait for the insert out of order.
 */
bool
BudgetTryCount(const AccountPath *path, BudgetSet *set, Credits amount,
			   TimestampTz at)
{
	Counting	counting = {.set = set, .amount = amount};
	bool		done;

	if (set->n == 0)
		return true;
	if (PlacesAreKept())
	{
		counting.counted = BudgetCountEach(set, amount, at);
		for (int i = 0; i < counting.counted; i++)
			counting.spread |= set->counts[i].spread > 0;
	}
	else
		count_all(&counting, at);
	done = counting.counted == set->n && !counting.spread &&
		!BudgetOver(set, amount);
	remember_answer(path_key(path), !done);
	return done;
}

/* Counts an amount in all counters by one statement, until one is spread. */
static void
count_all(Counting *counting, TimestampTz at)
{
	const BudgetSet *set = counting->set;
	Values		args = BudgetKeys(set);

	ValuesAdd(&args, CreditsValue(counting->amount), TimeValue(at));
	SqlUpdateInOrder(set->n == 1 ? &count_reserve : &counts_reserve_each, &args,
					 set->n, read_counted, counting);
}

/* Reads the next counter, in which the amount has been counted. */
static bool
read_counted(void *context, const Datum *values, const bool *nulls)
{
	Counting   *counting = context;
	BudgetCount *count = &counting->set->counts[counting->counted++];

	count->reserved = CreditsSub(DatumGetCredits(values[0]),
								 counting->amount);
	count->spent = DatumGetCredits(values[1]);
	counting->spread = DatumGetInt32(values[2]) > 0;
	return !counting->spread;
}

/* Writes a hold's share of each budget of a set. */
void
BudgetShare(const BudgetSet *set, int64 hold, bool new, Credits amount)
{
	Values		args;

	if (set->n == 0)
		return;
	args = BudgetKeys(set);
	ValuesAdd(&args, CreditsValue(amount), Int8Value(hold));
	(void) SqlRun(new ? &shares_insert : &shares_take, &args);
}

/*
 * Counts an amount in the locked counters, and raises alerts.  at is the
 * instant of the call.
 */
void
BudgetDebit(const BudgetSet *set, Credits amount, TimestampTz at)
{
	if (set->n == 0)
		return;
	BudgetCheckPeriods(set, at);
	add_to_counters(set, amount);
	BudgetAlert(set, amount, at);
	for (int i = 0; i < set->n; i++)
	{
		const BudgetCount *count = &set->counts[i];

		if (count->slice == 0 && (count->slices > 1 || count->spread > 0))
			CountEven(set->org, count, amount);
	}
}

/* Raises the alerts that are due after an amount was counted. */
void
BudgetAlert(const BudgetSet *set, Credits amount, TimestampTz at)
{
	for (int i = 0; i < set->n; i++)
	{
		const BudgetCount *count = &set->counts[i];
		Credits		before;

		if (count->slice > 0)
			continue;			/* no slice can reach a threshold */
		before = CreditsAdd(count->reserved, count->spent);
		AlertBudget(set->org, count, before, CreditsAdd(before, amount), at);
	}
}

/*
 * Counts an amount in the counters, or in those slices that are locked alone.
 */
static void
add_to_counters(const BudgetSet *set, Credits amount)
{
	BudgetSet	whole = {.org = set->org,
		.counts = palloc(sizeof(BudgetCount) * set->n)};
	bool		by_place = PlacesAreKept();
	Values		args;

	for (int i = 0; i < set->n; i++)
	{
		if (set->counts[i].slice > 0)
			CountDebitSlice(set->org, &set->counts[i], amount);
		else
			whole.counts[whole.n++] = set->counts[i];
		by_place &= set->counts[i].spread == 0;
	}
	if (whole.n == 0)
		return;
	if (by_place)
	{
		Ensure(BudgetCountEach(&whole, amount, DT_NOEND) == whole.n,
			   "A budget's counter is missing.");
		return;
	}
	args = BudgetKeys(&whole);
	ValuesAdd(&args, CreditsValue(amount));
	Ensure(SqlRun(&counts_reserve, &args).n == (uint64) whole.n,
		   "A budget's counter is missing.");
}
