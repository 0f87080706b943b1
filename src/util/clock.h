/*-------------------------------------------------------------------------
 *
 * clock.h
 *		The instant of a call.
 *
 * Each call of the API decides by one instant.  It reads the server's clock
 * after it has the last lock that its decision depends on, or earlier where
 * this makes no difference (ledger/hold_open.c says where).  The setting
 * gpucredit.clock freezes the instant for tests and simulations.
 * ClockSteady() measures time spans within a process.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLOCK_H
#define GPUCREDIT_CLOCK_H

#include "datatype/timestamp.h"

extern void ClockInit(void);
extern TimestampTz ClockNow(void);
extern TimestampTz ClockAfter(TimestampTz begun);
extern TimestampTz ClockSteady(void);
extern bool ClockFrozen(void);
extern TimestampTz ClockAdd(TimestampTz instant, int64 microseconds);

#endif							/* GPUCREDIT_CLOCK_H */
