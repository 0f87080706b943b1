/*
 * preempt.h
 *	  Claims: devices that are promised to a job before their holders leave.
 */
#ifndef DECIDE_PREEMPT_H
#define DECIDE_PREEMPT_H

#include "decide/place/place.h"

/* claim.c */
extern bool DecideClaimsBegin(Cycle *cycle);
extern void DecideClaimsStarted(Cycle *cycle, const DecideStart *start);
extern int32_t DecideReservationYields(const Cycle *cycle, int32_t job,
									   const DecideReservation *made);
extern bool DecideClaimBeyond(const Cycle *cycle, int32_t job);
extern bool DecideClaimTry(Cycle *cycle, int32_t job, bool *made);
extern bool DecideClaimsEnd(Cycle *cycle);

/* quota_claim.c */
extern bool DecideClaimWithinQuota(Cycle *cycle, int32_t job, bool *made);

/* victims.c */
extern bool DecideClaimsLoad(Cycle *cycle);

/* promise.c */
extern DecidePromise *DecidePromiseNew(Cycle *cycle);
extern bool DecidePromisePart(Cycle *cycle, const DecidePart *part);
extern bool DecideEvictionAdd(Cycle *cycle, int32_t running, DecideWhy why);
extern bool DecideEvictionsAddChosen(Cycle *cycle, DecideWhy *why);

#endif							/* DECIDE_PREEMPT_H */
