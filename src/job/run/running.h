/*-------------------------------------------------------------------------
 *
 * running.h
 *		The argument "running" of heartbeat(): what an agent says it runs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_RUNNING_H
#define GPUCREDIT_RUNNING_H

#include "fmgr.h"

/* Attempts; orgs is NULL without a report. */
typedef struct Running
{
	int			n;
	const char **orgs;
	int64	   *jobs;
	int32	   *attempts;
} Running;

extern void RunningTake(FunctionCallInfo fcinfo, int arg, Running *running);
extern Running RunningRoom(uint64 n);

#endif							/* GPUCREDIT_RUNNING_H */
