/*-------------------------------------------------------------------------
 *
 * stop_timeout.h
 *		Attempts that should have ended by themselves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_OVERDUE_H
#define GPUCREDIT_OVERDUE_H

#include "util/sql.h"
#include "job/settlement.h"
#include "job/sweep.h"

extern SqlResult StopTimeoutAttempts(TimestampTz now);
extern bool StopTimeoutSince(const Attempt *attempt, TimestampTz now,
							 int64 ago,
							 Settlement *settlement);
extern SweepResult StopTimeoutSettle(const char *org, int64 id, int32 number,
									 const void *context);

#endif							/* GPUCREDIT_OVERDUE_H */
