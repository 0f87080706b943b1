/*-------------------------------------------------------------------------
 *
 * late_finish.h
 *		An agent's word on an attempt that ended without it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LATE_FINISH_H
#define GPUCREDIT_LATE_FINISH_H

#include "job/end/settlement.h"

extern int64 ReportWaited(TimestampTz begun);
extern void LateWait(Job *job, TimestampTz begun, int32 number,
					 Settlement *stored);
extern bool LateFinish(Job *job, Attempt *attempt, TimestampTz begun,
					   const Settlement *reported, Settlement *stored);

#endif							/* GPUCREDIT_LATE_FINISH_H */
