/*-------------------------------------------------------------------------
 *
 * hold_extension.h
 *		Extending the hold of a running attempt.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_HOLD_EXTENSION_H
#define GPUCREDIT_HOLD_EXTENSION_H

#include "job/attempt.h"

extern bool ExtendIsDue(const Attempt *attempt);
extern void ExtendHold(Attempt *attempt, bool wait);
extern int64 ExtendFundedFor(const Attempt *attempt);

#endif							/* GPUCREDIT_HOLD_EXTENSION_H */
