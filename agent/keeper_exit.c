/*-------------------------------------------------------------------------
 *
 * keeper_exit.c
 *		Records how a program ended, before anything else happens.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "crash_point.h"
#include "file.h"
#include "keeper.h"
#include "log.h"

/*
 * Returns how long the program ran, without the time that it was frozen.
 */
int64_t
KeeperElapsedUs(const KeeperState *state)
{
	int64_t		ran = state->exec_ns == 0 ? 0 :
		(state->frozen_since_ns != 0 ? state->frozen_since_ns :
		 MonotonicNs()) -
		state->exec_ns - state->frozen_ns;

	return ran < 0 ? 0 : ran / 1000;
}

/*
 * Records how the program ended, and kills the processes that it left, because
 * they occupy the devices.
 */
void
KeeperWriteExit(Keeper *keeper, const char *kind, int status, const char *message)
{
	char		line[512];
	int			len;

	KeeperWriteCheckpoint(keeper);
	len = snprintf(line, sizeof(line), "%s %d %lld %s\n", kind, status,
				   (long long) KeeperElapsedUs(keeper->state), message);
	if (len > (int) sizeof(line) - 1)
	{
		len = sizeof(line) - 1;
		line[len - 1] = '\n';
	}
	/* Free the reserved disk space, so that the record fits. */
	(void) unlinkat(keeper->dir, "reserve", 0);
	while (!FilePut(keeper->dir, "exit", line, len))
	{
		LogLine("event=exit_not_written error=\"%s\"", strerror(errno));
		sleep(1);				/* the disk is full: the GPU stays in use
								 * until the record is written */
	}
	CrashPoint("exit");
	keeper->ended = true;
	ContainSignal(&keeper->contain, SIGKILL);
	keeper->kill_again_ns = MonotonicNs() + NS_PER_S;
}
