/*
 * backfill.h
 *	  Reservations: devices that are kept for jobs that cannot start now.
 */
#ifndef DECIDE_BACKFILL_H
#define DECIDE_BACKFILL_H

#include "decide/preempt/preempt.h"

/* reservation.c */
extern bool DecideReserve(Cycle *cycle, int32_t job, bool *more);
extern bool DecideReserveAgain(Cycle *cycle, int32_t job, bool *reserved);
extern PlaceOutcome DecideFreeButReserved(Cycle *cycle, int32_t job,
										  int32_t *type);

#endif							/* DECIDE_BACKFILL_H */
