/*-------------------------------------------------------------------------
 *
 * period.c
 *		The periods of budgets: by the UTC calendar.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/compat.h"
#include "ledger/budget.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(gpucredit_period_start);

/*
 * When the period an instant is in began; period none never did.
 */
TimestampTz
PeriodStart(const char *period, TimestampTz at)
{
	if (strcmp(period, "none") == 0)
		return DT_NOBEGIN;
	return DatumGetTimestampTz(DirectFunctionCall3(timestamptz_trunc_zone,
												   CStringGetTextDatum(period),
												   TimestampTzGetDatum(at),
												   CStringGetTextDatum("UTC")));
}

Datum
gpucredit_period_start(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(PeriodStart(TextDatumGetCString(PG_GETARG_DATUM(0)),
									  PG_GETARG_TIMESTAMPTZ(1)));
}
