/*-------------------------------------------------------------------------
 *
 * launch.h
 *		From the database's description of an attempt to its keeper.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_LAUNCH_H
#define GPUCREDIT_AGENT_LAUNCH_H

#include <sys/resource.h>

#include "attempts.h"
#include "users.h"

/* An attempt while we write its start. */
typedef struct Launch
{
	const LocalAttempt *attempt;
	const		json_t *intent;
	const		json_t *spec;
	uint64_t	gpus;
	JobUser		user;
	const char *image;			/* NULL: it runs on the node's file system */
	char	   *mark;			/* GPUCREDIT_MARK of its processes */
	char	   *work;			/* its own folder */
	const char *workdir;		/* its working folder */
} Launch;

/* the soft limit of open files that jobs inherit, as it was at our start */
extern rlim_t LaunchFiles;

extern bool LaunchCgroup(const LocalAttempt *attempt, const json_t * intent);
extern char *LaunchWriteStart(const LocalAttempt *attempt,
							  const json_t * intent);
extern const char *LaunchKeepers(void);
extern pid_t LaunchKeeper(const LocalAttempt *attempt);

#endif							/* GPUCREDIT_AGENT_LAUNCH_H */
