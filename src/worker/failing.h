/*-------------------------------------------------------------------------
 *
 * failing.h
 *		Failed work of a worker, and when it is tried again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_FAILING_H
#define GPUCREDIT_FAILING_H

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"
#include "shmem/wake.h"

#define SWEEP_MARK	'\001'		/* first character of a task's name; no pool's
								 * name has it */

/*
 * Work is identified by a name: that of a pool or of a task of upkeep, or ""
 * for reading the list of pools.
 */
extern bool FailingMayTry(List *failing, const char *name, TimestampTz now);
extern PoolSet FailingDue(List *failing, TimestampTz now);
extern bool FailingMayRetry(List *failing, const char *name);
extern List *FailingRetried(List *failing, const char *name);
extern List *FailingFailed(List *failing, const char *name);
extern List *FailingOver(List *failing, const char *name);

#endif							/* GPUCREDIT_FAILING_H */
