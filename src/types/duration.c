/*-------------------------------------------------------------------------
 *
 * duration.c
 *		Intervals as exact durations in microseconds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"

#include "types/duration.h"
#include "utils/builtins.h"

/*
 * Returns the microseconds of an interval.  argname is the argument's name in
 * error messages.
 */
int64
DurationFromInterval(const Interval *interval, const char *argname)
{
	int64		days;
	int64		result;

	if (interval->month != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not have months or years",
						argname),
				 errdetail("Months and years have no fixed length."),
				 errhint("Give \"%s\" in days and hours; a day is 24 hours.",
						 argname)));
	if (pg_mul_s64_overflow(interval->day, USECS_PER_DAY, &days) ||
		pg_add_s64_overflow(days, interval->time, &result))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is too long an interval", argname),
				 errdetail("A duration has at most %lld microseconds.",
						   (long long) PG_INT64_MAX),
				 errhint("Give a shorter \"%s\".", argname)));
	return result;
}

/*
 * Returns an interval for a number of microseconds, in hours, minutes and
 * seconds only.
 */
Interval *
DurationToInterval(int64 microseconds)
{
	Interval   *result = palloc0(sizeof(Interval));

	result->time = microseconds;
	return result;
}

char *
DurationToCString(int64 microseconds)
{
	Datum		interval = PointerGetDatum(DurationToInterval(microseconds));

	return DatumGetCString(DirectFunctionCall1(interval_out, interval));
}
