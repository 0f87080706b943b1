/*-------------------------------------------------------------------------
 *
 * keeper_exit.c
 *		How a program ended, on disk before anything follows from it.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "keeper.h"
#include "util.h"

/*
 * How long the program ran, less its frozen time.
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
 * The program ended.  Write how, and kill what it left, as that holds the
 * devices.
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
	/* free the reserved space */
	(void) unlinkat(keeper->dir, "reserve", 0);
	while (!FilePut(keeper->dir, "exit", line, len))
	{
		LogLine("event=exit_not_written error=\"%s\"", strerror(errno));
		sleep(1);				/* a full disk: the GPU stays held until the
								 * bill is written */
	}
	CrashPoint("exit");
	keeper->ended = true;
	ContainSignal(&keeper->contain, SIGKILL);
	keeper->kill_again_ns = MonotonicNs() + NS_PER_S;
}
