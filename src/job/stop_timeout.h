/*-------------------------------------------------------------------------
 *
 * stop_timeout.h
 *		Attempts that should have ended by themselves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_STOP_TIMEOUT_H
#define GPUCREDIT_STOP_TIMEOUT_H

#include "util/sql.h"
#include "job/settlement.h"
#include "job/sweep.h"

extern SqlResult StopTimeoutAttempts(TimestampTz now);
extern SweepResult StopTimeoutSettle(const char *org, int64 id, int32 number,
									 const void *context);

#endif							/* GPUCREDIT_STOP_TIMEOUT_H */
