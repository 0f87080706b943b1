/*-------------------------------------------------------------------------
 *
 * launch.h
 *		Writes the keeper's description of an attempt from the database's, and
 *		starts the keeper.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_LAUNCH_H
#define GPUCREDIT_AGENT_LAUNCH_H

#include <sys/resource.h>

#include "attempts.h"
#include "users.h"

/* An attempt whose "start" is being written. */
typedef struct Launch
{
	const LocalAttempt *attempt;
	const		json_t *intent;
	const		json_t *spec;
	uint64_t	gpus;
	JobUser		user;
	const char *image;			/* NULL if it runs on the node's file system */
	char	   *mark;			/* value of GPUCREDIT_MARK of its processes */
	char	   *work;			/* its own folder */
	const char *workdir;		/* its working folder */
} Launch;

/* The soft limit of open files when the agent started, which jobs inherit. */
extern rlim_t LaunchFiles;

extern bool LaunchCgroup(const LocalAttempt *attempt, const json_t * intent);
extern char *LaunchWriteStart(const LocalAttempt *attempt,
							  const json_t * intent);
extern const char *LaunchKeepers(void);
extern char *LaunchMarks(void);
extern pid_t LaunchKeeper(const LocalAttempt *attempt);

#endif							/* GPUCREDIT_AGENT_LAUNCH_H */
