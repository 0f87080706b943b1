/*-------------------------------------------------------------------------
 *
 * crash_point.c
 *		Points at which tests make the agent or a keeper crash.
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crash_point.h"

/*
 * Kills the process if GPUCREDIT_CRASH_AT names this point. Only tests set the
 * variable.
 */
void
CrashPoint(const char *name)
{
	const char *wanted = getenv("GPUCREDIT_CRASH_AT");

	if (wanted != NULL && strcmp(wanted, name) == 0)
		kill(getpid(), SIGKILL);
}
