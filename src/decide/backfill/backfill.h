/*
 * backfill.h
 *	  Devices reserved for jobs that cannot start now.
 */
#ifndef DECIDE_BACKFILL_H
#define DECIDE_BACKFILL_H

#include "decide/preempt/preempt.h"

/* reservation.c */
extern bool DecidePreviousPrepare(Cycle *cycle);
extern PlaceOutcome DecidePreviousTry(Cycle *cycle, int32_t job,
									  const DecideRequestClass *request,
									  const DecideOffer *offers, int32_t n_offers);
extern bool DecideMayReserve(const Cycle *cycle, int32_t job);
extern bool DecideReserve(Cycle *cycle, int32_t job);
extern PlaceOutcome DecideFreeButReserved(Cycle *cycle, int32_t job,
										  int32_t *type);

#endif							/* DECIDE_BACKFILL_H */
