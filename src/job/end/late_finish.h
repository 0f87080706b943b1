/*-------------------------------------------------------------------------
 *
 * late_finish.h
 *		Bills an attempt again if its agent reports the end after the
 *		attempt was ended without it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LATE_FINISH_H
#define GPUCREDIT_LATE_FINISH_H

#include "job/end/settlement.h"

extern bool LateFinish(Job *job, Attempt *attempt,
					   const Settlement *reported, Settlement *stored);

#endif							/* GPUCREDIT_LATE_FINISH_H */
