/*-------------------------------------------------------------------------
 *
 * overdue.h
 *		Attempts that should have ended by themselves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_OVERDUE_H
#define GPUCREDIT_OVERDUE_H

#include "common/sql.h"
#include "job/settlement.h"
#include "job/sweep.h"

extern SqlResult OverdueAttempts(TimestampTz now);
extern bool OverdueSince(const Attempt *attempt, TimestampTz now, int64 ago,
						 Settlement *settlement);
extern SweepResult OverdueSettle(const char *org, int64 id, int32 number,
								 const void *context);

#endif							/* GPUCREDIT_OVERDUE_H */
