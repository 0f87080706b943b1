/*-------------------------------------------------------------------------
 *
 * wake.h
 *		Wakes the scheduler's background worker after a commit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_WAKE_H
#define GPUCREDIT_WAKE_H

#include "datatype/timestamp.h"

typedef uint64 PoolSet;			/* set of pools, by a hash of their names */

#define ALL_POOLS	(~(PoolSet) 0)

/* The counts of a database's worker since the server started. */
typedef struct WakeReport
{
	int			pid;			/* 0 if no worker runs */
	uint64		cycles;
	uint64		started;		/* number of started jobs */
	uint64		failures;
	TimestampTz last_cycle;		/* when all pools last had a cycle, or 0 if
								 * never */
} WakeReport;

extern void WakeInit(void);
extern void WakePool(const char *pool);
extern void WakeAll(void);

/* Functions that only the worker calls. */
extern bool WakeListen(void);
extern PoolSet WakeCollect(void);
extern void WakeKeep(PoolSet pools);
extern PoolSet WakePoolSet(const char *pool);
extern void WakeCount(bool success, uint64 started, bool behind);

extern bool WakeRead(WakeReport *report);

#endif							/* GPUCREDIT_WAKE_H */
