/*-------------------------------------------------------------------------
 *
 * checkpoint.h
 *		Stores and reads the checkpoints of an attempt.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CHECKPOINT_H
#define GPUCREDIT_CHECKPOINT_H

#include "fmgr.h"
#include "job/attempt.h"

extern int64 CheckpointElapsed(const Attempt *attempt);
extern char *CheckpointPath(const char *prefix, const Attempt *attempt);
extern void CheckpointLockAttempt(const char *org, int64 job, int32 number,
								  Attempt *attempt);

#endif							/* GPUCREDIT_CHECKPOINT_H */
