/*-------------------------------------------------------------------------
 *
 * launch.h
 *		From the database's description of an attempt to its keeper.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_LAUNCH_H
#define GPUCREDIT_AGENT_LAUNCH_H

#include "attempts.h"

extern char *LaunchWriteStart(const LocalAttempt *attempt,
							  const json_t * intent);
extern uid_t LaunchUid(const char *org);
extern pid_t LaunchKeeper(const LocalAttempt *attempt);

#endif							/* GPUCREDIT_AGENT_LAUNCH_H */
