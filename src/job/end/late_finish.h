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

extern bool LateFinish(Job *job, Attempt *attempt,
					   const Settlement *reported, Settlement *stored);

#endif							/* GPUCREDIT_LATE_FINISH_H */
