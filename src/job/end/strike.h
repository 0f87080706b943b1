/*-------------------------------------------------------------------------
 *
 * strike.h
 *		Counts against a node the attempts that it could not start.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_STRIKE_H
#define GPUCREDIT_STRIKE_H

#include "job/attempt.h"
#include "job/end/settlement.h"

extern void StrikeLock(const char *node);
extern char *StrikeLockOnly(const char *org, int64 job, int32 attempt);
extern void StrikeCount(const Attempt *attempt, const char *node,
						const Settlement *reported, TimestampTz now);
extern bool ImageIsAtFault(const char *message);

#endif							/* GPUCREDIT_STRIKE_H */
