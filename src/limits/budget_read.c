/*-------------------------------------------------------------------------
 *
 * budget_read.c
 *		Reads the budgets on an account's path without locks, and computes
 *		their periods by the UTC calendar.
 *
 * Budgets are read from their own rows, with what they have counted so far, or
 * from the accounts' rows, if those were just read (limits.c).  Once the
 * counters are locked, budget.c reads the counted amounts again.
 *
 * SQL functions here: period_start.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/sql.h"
#include "limits/budget.h"
#include "limits/limits.h"
#include "types/clip.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

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

/* the state while budgets are read */
typedef struct BudgetLooking
{
	BudgetSet  *set;
	TimestampTz at;
	int			room;
	bool		leased;			/* whether to leave out soft budgets */
	bool		counted;		/* whether each budget has a counter */
} BudgetLooking;

PG_FUNCTION_INFO_V1(gpucredit_period_start);

static TimestampTz period_start(const char *period, TimestampTz at);
static void know_budget(const JsonbValue *values, BudgetCount *count);
static void set_alerts(Datum *shares, BudgetCount *count);
static bool read_budget_row(void *context, const Datum *values, const bool *nulls);
static int	compare_counts(const void *a, const void *b);

/*
 * Reads the budgets on a path without locks, leaf to root, with their periods
 * at an instant and what they have counted so far. Returns false if a budget
 * has no counter yet.
 */
bool
BudgetRead(const AccountPath *path, TimestampTz at, BudgetSet *set)
{
	BudgetLooking looking = {.set = set, .at = at, .room = path->n,
		.leased = path->leased, .counted = true};
	Values	   *args = VALUES(TextValue(path->org),
							  TextArrayValue(path->accounts, path->n),
							  TimeValue(at));

	set->org = path->org;
	set->n = 0;
	set->counts = palloc(sizeof(BudgetCount) * looking.room);
	SqlEach(&budgets_read, args, false, read_budget_row, &looking);
	qsort(set->counts, set->n, sizeof(BudgetCount), compare_counts);
	return looking.counted;
}

/* Reads a budget, and its counter if it has one. */
static bool
read_budget_row(void *context, const Datum *values, const bool *nulls)
{
	BudgetLooking *looking = context;
	BudgetSet  *set = looking->set;
	BudgetCount *count;

	if (looking->leased && !DatumGetBool(values[3]))
		return true;
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

/*----------
 * BUDGET_ORDER in C, for budgets of one path of accounts:
 *
 * 1. the lowest account, which has the longest path, comes first;
 * 2. period, by name.
 *----------
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

/* Computes the thresholds of a budget in credits. */
void
BudgetReadAlerts(Datum array, BudgetCount *count)
{
	Datum	   *elems;

	deconstruct_array(DatumGetArrayTypePCopy(array), NUMERICOID, -1, false,
					  TYPALIGN_INT, &elems, NULL, &count->nalerts);
	set_alerts(elems, count);
}

/*
 * Computes the thresholds from shares of the amount. A threshold is at least
 * the smallest amount of credits.
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
 * Reads the budgets on a path from the account rows that were already read,
 * leaf to root, without what they have counted. Returns false if these rows
 * were read too long ago.
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
			if (path->leased && !count->hard)
				set->n--;
		}
	}
	return true;
}

/* Reads a budget in the form in which AccountLimitsKeep() wrote it. */
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
 * Returns when the period of an instant began. Period none has no beginning.
 * All periods begin at the start of a day, so the last result is kept for its
 * day.
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
 * Returns the first budget of a set whose period does not contain an instant,
 * or NULL.
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
 * Raises an error if a period ended while this call waited. The call would now
 * have to lock another counter, out of order, so the caller has to retry the
 * transaction.
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
