/*-------------------------------------------------------------------------
 *
 * period.c
 *		The periods of budgets: by the UTC calendar.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/compat.h"
#include "util/errors.h"
#include "ledger/budget.h"
#include "types/clip.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(gpucredit_period_start);

/*
 * When the period an instant is in began; period none never did.  All of them
 * begin with a day, so what was found for a day is remembered.
 */
TimestampTz
PeriodStart(const char *period, TimestampTz at)
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
 * The first budget of a set whose period an instant is not in; NULL: there is
 * none.
 */
const BudgetCount *
BudgetTurned(const BudgetSet *set, TimestampTz at)
{
	for (int i = 0; i < set->n; i++)
	{
		const BudgetCount *count = &set->counts[i];

		if (PeriodStart(count->period, at) != count->period_start)
			return count;
	}
	return NULL;
}

/*
 * The period turned while this call waited: it would have to lock another
 * counter now, out of order, and what was full may be of the period that
 * ended.  The retry will find it.
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
				 errdetail("The call waited for credit across the turn of a "
						   "%s.", turned->period),
				 errhint("Retry the transaction.")));
}

Datum
gpucredit_period_start(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(PeriodStart(TextDatumGetCString(PG_GETARG_DATUM(0)),
									  PG_GETARG_TIMESTAMPTZ(1)));
}
