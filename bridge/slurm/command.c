/*-------------------------------------------------------------------------
 *
 * command.c
 *		Runs Slurm's commands, each under a time limit.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "command.h"
#include "log.h"
#include "memory.h"
#include "slurm.h"

#define LONGEST		(20 * NS_PER_S) /* time limit of a command, long enough
									 * for a slurmctld that does not answer
									 * for a while */

static char *
more_room(char *text, size_t size)
{
	char	   *moved = realloc(text, size);

	if (moved == NULL)
		Die("out of memory");
	return moved;
}

/*
 * Runs a command and returns what it wrote. Returns NULL if the command failed
 * or exceeded the time limit.
 */
char *
CommandOutput(char *const argv[])
{
	int			ends[2];
	pid_t		pid;
	int64_t		until = MonotonicNs() + LONGEST;
	size_t		used = 0;
	size_t		size = 65536;
	char	   *text = Alloc(size);
	int			status;
	ssize_t		n = 1;

	if (pipe2(ends, O_CLOEXEC) != 0)
		Die("could not make a pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		Die("could not fork: %s", strerror(errno));
	if (pid == 0)
	{
		dup2(ends[1], 1);
		execv(argv[0], argv);
		_exit(127);
	}
	close(ends[1]);
	while (n != 0)
	{
		struct pollfd waits = {ends[0], POLLIN, 0};
		int64_t		left = (until - MonotonicNs()) / NS_PER_MS;

		if (left <= 0 || poll(&waits, 1, (int) left) == 0)
		{
			kill(pid, SIGKILL);
			break;
		}
		if (used + 1 == size)
			text = more_room(text, size *= 2);
		n = read(ends[0], text + used, size - used - 1);
		if (n < 0 && errno != EINTR)
			break;
		used += n > 0 ? n : 0;
	}
	close(ends[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	text[used] = '\0';
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return text;
	free(text);
	return NULL;
}

bool
CommandSlurm(const char *program, const char *a, const char *b)
{
	return CommandSlurm3(program, a, b, NULL);
}

bool
CommandSlurm3(const char *program, const char *a, const char *b,
			  const char *c)
{
	char	   *path = Format("%s/%s", slurm.bin, program);
	char	   *argv[] = {path, (char *) a, (char *) b, (char *) c, NULL};
	char	   *output = CommandOutput(argv);

	LogLine("event=%s a=%s b=%s done=%s", program, a, b == NULL ? "" : b,
			output == NULL ? "no" : "yes");
	free(path);
	free(output);
	return output != NULL;
}

/*
 * Ends the program if the gate, which is its child process, has ended: without
 * the gate, nobody answers job_submit.lua.
 */
void
CommandGateLives(void)
{
	if (waitpid(-1, NULL, WNOHANG) > 0)
		Die("the gate ended");
}
