/*-------------------------------------------------------------------------
 *
 * changed_budgets.c
 *		Finds the counters of budgets that this transaction has changed.
 *
 * A transaction that opens many holds finds these counters by their noted
 * locations (util/row_location.h), with one statement for each, in
 * BUDGET_ORDER.
 *
 * Locks: counters in BUDGET_ORDER.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/row_location.h"
#include "util/sql.h"
#include "limits/budget.h"

#define COUNT_OWN_TYPES \
	"text, text, text, timestamptz, gpucredit.credits, timestamptz"
#define COUNT_OWN(also) \
	"UPDATE gpucredit.budget_counter c" \
	" SET reserved = c.reserved OPERATOR(gpucredit.+) $5" \
	" WHERE c.org = $1 AND c.account = $2 AND c.period = $3" \
	" AND c.period_start = $4 AND c.made_at <= $6" also \
	" RETURNING c.reserved, c.spent, c.spread, c.ctid"
SQL_STATEMENT(count_by_key, SPI_OK_UPDATE_RETURNING, COUNT_OWN_TYPES, COUNT_OWN(""));
SQL_STATEMENT(count_own, SPI_OK_UPDATE_RETURNING, COUNT_OWN_TYPES ", tid",
			  COUNT_OWN(" AND c.ctid = $7"));
/*
 * Locks the row again, because after a rollback to a savepoint another
 * transaction may have locked it.
 */
SQL_STATEMENT(count_own_lock, SPI_OK_SELECT,
			  "text, text, text, timestamptz, tid",
			  "SELECT c.reserved, c.spent, c.spread"
			  " FROM gpucredit.budget_counter c"
			  " WHERE c.ctid = $5 AND c.org = $1 AND c.account = $2"
			  " AND c.period = $3 AND c.period_start = $4"
			  " FOR NO KEY UPDATE");

/* a counter's row, with its location */
typedef struct Own
{
	BudgetCount *count;
	Credits		amount;			/* amount that the statement has counted */
	bool		found;
	ItemPointerData place;
} Own;

static uint64 key_of(const char *org, const BudgetCount *count);
static Values args_of(const char *org, const BudgetCount *count);
static bool read_locked(void *context, const Datum *values, const bool *nulls);
static bool read_counted_at(void *context, const Datum *values,
							const bool *nulls);

/*
 * Returns the budgets on a path, if this transaction has changed, and so
 * locked, all their counters. Returns false if the caller must search for
 * them.
 */
bool
BudgetOwn(const AccountPath *path, TimestampTz at, BudgetSet *set)
{
	if (!PlacesAreKept() || !BudgetKnown(path, at, set) || set->n == 0)
		return false;
	for (int i = 0; i < set->n; i++)
	{
		BudgetCount *count = &set->counts[i];
		ItemPointer place = PlaceFind(key_of(set->org, count));
		Own			own = {.count = count};
		Values		args;

		if (place == NULL || count->slices > 1)
			return false;
		args = args_of(set->org, count);
		ValuesAdd(&args, DatumValue(PointerGetDatum(place)));
		SqlEach(&count_own_lock, &args, false, read_locked, &own);
		if (!own.found || count->spread > 0)
			return false;
	}
	return true;
}

/*
 * Counts an amount in each counter of a set that existed at an instant.
 * Returns how many counters were changed. Stops at a counter that is spread or
 * missing.
 */
int
BudgetCountEach(BudgetSet *set, Credits amount, TimestampTz at)
{
	for (int i = 0; i < set->n; i++)
	{
		uint64		key = key_of(set->org, &set->counts[i]);
		ItemPointer place = PlaceFind(key);
		Own			own = {.count = &set->counts[i], .amount = amount};
		Values		args = args_of(set->org, own.count);

		ValuesAdd(&args, CreditsValue(amount), TimeValue(at));
		if (place != NULL)
		{
			ValuesAdd(&args, DatumValue(PointerGetDatum(place)));
			SqlEach(&count_own, &args, false, read_counted_at, &own);
			args.n--;
		}
		if (!own.found)
			SqlEach(&count_by_key, &args, false, read_counted_at, &own);
		if (!own.found)
			return i;
		PlaceNote(key, &own.place);
		if (own.count->spread > 0)
			return i + 1;
	}
	return set->n;
}

static uint64
key_of(const char *org, const BudgetCount *count)
{
	const char *names[] = {"budget_counter", org, count->account,
	count->period};

	return PlaceKey(names, lengthof(names), count->period_start);
}

static Values
args_of(const char *org, const BudgetCount *count)
{
	return *VALUES(TextValue(org), TextValue(count->account),
				   TextValue(count->period), TimeValue(count->period_start));
}

static bool
read_locked(void *context, const Datum *values, const bool *nulls)
{
	Own		   *own = context;

	own->found = true;
	own->count->reserved = CreditsSub(DatumGetCredits(values[0]),
									  own->amount);
	own->count->spent = DatumGetCredits(values[1]);
	own->count->spread = DatumGetInt32(values[2]);
	own->count->locked = true;
	return true;
}

static bool
read_counted_at(void *context, const Datum *values, const bool *nulls)
{
	((Own *) context)->place = *(ItemPointer) DatumGetPointer(values[3]);
	return read_locked(context, values, nulls);
}
