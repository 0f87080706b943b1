/*-------------------------------------------------------------------------
 *
 * slurm.c
 *		gpucredit-bridge slurm CONFIG: gives credit to the jobs of a Slurm
 *		cluster.
 *
 * The bridge consists of two processes. The gate answers job_submit.lua while
 * slurmctld waits. The sweep reads squeue, holds credit, releases jobs, and
 * reports to the database where they run. With separate processes, the sweep,
 * which waits for slurmctld, never blocks the gate, for which slurmctld waits.
 * If one process ends, so does the other.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../bridge.h"
#include "log.h"
#include "record.h"
#include "slurm.h"

#define BACKLOG		1024		/* how many submissions may wait for the gate */

static int	listen_at(const char *path);

int
SlurmMain(int argc, char **argv)
{
	int			listener;
	pid_t		gate;

	if (argc != 1)
		Die("usage: gpucredit-bridge slurm CONFIG");
	SlurmConfigRead(argv[0]);
	RecordsPrepare();
	listener = listen_at(slurm.socket);
	gate = fork();
	if (gate < 0)
		Die("could not fork: %s", strerror(errno));
	if (gate == 0)
	{
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		GateRun(listener);
	}
	close(listener);
	signal(SIGCHLD, SIG_DFL);
	LogLine("event=bridge_start pool=%s", slurm.pool);
	SweepRun();
}

/*
 * Opens the gate's socket. Its mode admits root and slurmctld's user.
 */
static int
listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int			fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC |
							SOCK_NONBLOCK, 0);

	if (strlen(path) >= sizeof(address.sun_path))
		Die("the path of the socket is too long: %s", path);
	strcpy(address.sun_path, path);
	(void) unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *) &address,
					   sizeof(address)) != 0 ||
		chmod(path, 0660) != 0 || listen(fd, BACKLOG) != 0)
		Die("could not listen at %s: %s", path, strerror(errno));
	return fd;
}
