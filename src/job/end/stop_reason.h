/*-------------------------------------------------------------------------
 *
 * stop_reason.h
 *		Computes why an attempt must stop, and since when.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_STOP_REASON_H
#define GPUCREDIT_STOP_REASON_H

#include "job/end/settlement.h"

extern bool StopReasonSince(const Attempt *attempt, TimestampTz now,
							int64 ago, Settlement *settlement);

#endif							/* GPUCREDIT_STOP_REASON_H */
