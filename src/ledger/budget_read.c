/*-------------------------------------------------------------------------
 *
 * budget_read.c
 *		The budgets on an account's path, as an unlocked look says.
 *
 * It is a look at their own rows, and at what is counted so far; or at the
 * accounts' rows, which is at hand where the path was looked at (limits.c).
 *
 * Nothing of it is sure: what counts is read again once the counters are
 * locked (budget.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "util/sql.h"
#include "ledger/budget.h"
#include "ledger/limits.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

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

static void know_budget(const JsonbValue *values, BudgetCount *count);
static void set_alerts(Datum *shares, BudgetCount *count);
static bool see_budget(void *context, const Datum *values, const bool *nulls);
static int	compare_counts(const void *a, const void *b);

/*
 * The budgets on a path, leaf to root, with the period an instant is in, and
 * what is counted so far, as an unlocked look says.  False: one of them has no
 * counter for it yet.
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
 * A budget, and its counter where that is there.
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
	count->period_start = PeriodStart(count->period, looking->at);
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
 * BUDGET_ORDER, of accounts on one path: the longer is below the other.
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
 * Of a budget that is too small for a threshold, or 0, the least that can be
 * taken.
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
 * The budgets on a path that was looked at, leaf to root, with the period an
 * instant is in, and nothing of what they count.  False: what was seen goes no
 * more.
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
			count->period_start = PeriodStart(count->period, at);
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
