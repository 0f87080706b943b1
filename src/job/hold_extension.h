/*-------------------------------------------------------------------------
 *
 * hold_extension.h
 *		Extending the hold of a running attempt.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EXTEND_H
#define GPUCREDIT_EXTEND_H

#include "job/attempt.h"

extern bool ExtendIsDue(const Attempt *attempt);
extern void ExtendHold(Attempt *attempt, bool wait);
extern int64 ExtendFundedFor(const Attempt *attempt);
extern Credits ExtendMost(const Attempt *attempt);

#endif							/* GPUCREDIT_EXTEND_H */
