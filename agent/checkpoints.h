/*-------------------------------------------------------------------------
 *
 * checkpoints.h
 *		Computes the digests of checkpoints.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_CHECKPOINTS_H
#define GPUCREDIT_AGENT_CHECKPOINTS_H

#include "attempts.h"

extern void CheckpointsDigest(void);
extern bool CheckpointVerify(LocalAttempt *attempt, const char *uri);
extern bool CheckpointChildGone(pid_t pid, int status);
extern void CheckpointEnd(LocalAttempt *attempt);
extern void CheckpointDone(LocalAttempt *attempt);
extern bool CheckpointHolds(const LocalAttempt *attempt);

#endif							/* GPUCREDIT_AGENT_CHECKPOINTS_H */
