/*-------------------------------------------------------------------------
 *
 * running.h
 *		The argument "running" of heartbeat(): the attempts that an agent
 *		reports as running.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_RUNNING_H
#define GPUCREDIT_RUNNING_H

#include "fmgr.h"

/* A list of attempts. orgs is NULL if the agent reported nothing. */
typedef struct Running
{
	int			n;
	const char **orgs;
	int64	   *jobs;
	int32	   *attempts;
} Running;

extern void ParseRunning(FunctionCallInfo fcinfo, int arg, Running *running);
extern Running RunningRoom(uint64 n);

#endif							/* GPUCREDIT_RUNNING_H */
