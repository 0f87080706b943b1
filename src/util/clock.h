/*-------------------------------------------------------------------------
 *
 * clock.h
 *		The instant a call works with.
 *
 * One instant per call, read from the wall clock after the last lock that
 * decides (or before it, where that is as good: ledger/hold_open.c).
 * gpucredit.clock freezes it for tests and simulation.  How long something
 * takes, and when it is due, a process measures by ClockSteady().
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
