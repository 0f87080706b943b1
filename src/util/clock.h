/*-------------------------------------------------------------------------
 *
 * clock.h
 *		The instant of a call.
 *
 * Each call has one instant.  It reads the wall clock after the last lock that
 * decides, or before it if that makes no difference (ledger/hold_open.c).
 * gpucredit.clock freezes it for tests and simulation.  ClockSteady() measures
 * time spans in a process.
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
