/*-------------------------------------------------------------------------
 *
 * duration.h
 *		Intervals as exact durations in microseconds.
 *
 * A day is 24 hours.  Months and years have no fixed length, so they raise
 * 22023, as does a duration that does not fit an int64.  The caller checks the
 * sign.  An interval made here has hours only, never days.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_DURATION_H
#define GPUCREDIT_DURATION_H

#include "datatype/timestamp.h"

extern int64 DurationFromInterval(const Interval *interval,
								  const char *argname);
extern Interval *DurationToInterval(int64 microseconds);
extern char *DurationToCString(int64 microseconds);

#endif							/* GPUCREDIT_DURATION_H */
