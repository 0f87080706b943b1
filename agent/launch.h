/*-------------------------------------------------------------------------
 *
 * launch.h
 *		From the database's description of an attempt to its keeper.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_LAUNCH_H
#define GPUCREDIT_AGENT_LAUNCH_H

#include <stdio.h>

#include "attempts.h"

/* "start" during the write; refused: the reason */
typedef struct Writer
{
	FILE	   *out;
	FILE	   *env;			/* podman's environment file; NULL: "start"
								 * takes it */
	char	   *env_text;
	size_t		env_len;
	char	   *refused;
} Writer;

/* An attempt while we write its start. */
typedef struct Launch
{
	const LocalAttempt *attempt;
	const		json_t *intent;
	const		json_t *spec;
	uint64_t	gpus;
	uid_t		uid;
	const char *image;			/* NULL: it runs on the node's file system */
	char	   *work;			/* its own folder */
	const char *workdir;		/* its working folder */
} Launch;

extern char *LaunchWriteStart(const LocalAttempt *attempt,
							  const json_t * intent);
extern void StartPut(Writer *writer, const char *key, const char *format,...)
			__attribute__((format(printf, 3, 4)));
extern void StartRefuse(Writer *writer, const char *kind, int status,
						const char *format,...)
			__attribute__((format(printf, 4, 5)));
extern uid_t LaunchUid(const char *org);
extern pid_t LaunchKeeper(const LocalAttempt *attempt);

#endif							/* GPUCREDIT_AGENT_LAUNCH_H */
