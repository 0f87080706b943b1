/*-------------------------------------------------------------------------
 *
 * collect.h
 *		What an attempt has cost when it ends, and the credit for it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_COLLECT_H
#define GPUCREDIT_COLLECT_H

#include "job/settlement.h"

extern void CollectLook(const Attempt *attempt, Settlement *settlement);
extern Credits CollectMissing(const Job *job, Hold *hold,
							  const LockedBuckets *locked,
							  const Cause *cause, Credits missing,
							  Settlement *settlement);
extern void CollectTell(const Job *job, const Attempt *attempt,
						const Settlement *settlement, Credits uncollected);

#endif							/* GPUCREDIT_COLLECT_H */
