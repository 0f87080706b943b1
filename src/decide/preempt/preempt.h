/*
 * preempt.h
 *	  Devices promised to a job, of which others must leave first.
 */
#ifndef DECIDE_PREEMPT_H
#define DECIDE_PREEMPT_H

#include "decide/place/place.h"

/* claim.c */
extern bool DecideClaimsBegin(Cycle *cycle);
extern bool DecideClaimsMay(const Cycle *cycle, int32_t request);
extern bool DecideClaimed(const Cycle *cycle, int32_t job);
extern void DecideClaimsStarted(Cycle *cycle, const DecideStart *start);
extern bool DecideClaimsUnsettled(const Cycle *cycle);
extern int32_t DecideReservationYields(const Cycle *cycle, int32_t job,
									   const DecideReservation *made);
extern bool DecideClaimTry(Cycle *cycle, int32_t job, bool *made);
extern bool DecideClaimsEnd(Cycle *cycle);

#endif							/* DECIDE_PREEMPT_H */
