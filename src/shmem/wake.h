/*-------------------------------------------------------------------------
 *
 * wake.h
 *		Wake the scheduler's worker after a commit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_WAKE_H
#define GPUCREDIT_WAKE_H

#include "datatype/timestamp.h"

typedef uint64 PoolSet;			/* pools by a hash of their names */

#define ALL_POOLS	(~(PoolSet) 0)

/* The figures of a database's worker since the server started. */
typedef struct WakeReport
{
	int			pid;			/* 0: none is running */
	uint64		cycles;
	uint64		started;		/* jobs */
	uint64		failures;
	TimestampTz last_cycle;		/* when all pools last had a cycle; 0: never */
} WakeReport;

extern void WakeInit(void);
extern void WakePool(const char *pool);
extern void WakeAll(void);

/* For the worker alone. */
extern bool WakeListen(void);
extern PoolSet WakeCollect(void);
extern void WakeKeep(PoolSet pools);
extern PoolSet WakePoolSet(const char *pool);
extern void WakeCount(bool success, uint64 started, bool behind);

extern bool WakeRead(WakeReport *report);

#endif							/* GPUCREDIT_WAKE_H */
