/*-------------------------------------------------------------------------
 *
 * line_process.c
 *		A process of the agent's own program that writes lines.
 *
 * The agent never waits for a slow disk or network. What could wait runs as
 * "gpucredit-agent COMMAND CONFIGURATION" in a process of its own, and the
 * agent's loop reads the lines that it writes.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "line_process.h"

static void run(const LineProcess *process, const char *configuration,
				int out) __attribute__((noreturn));
static void close_pipe(LineProcess *process);

/*
 * Starts the process. If that fails, pid stays 0 and the caller tries again.
 */
void
LineProcessStart(LineProcess *process, const char *configuration)
{
	int			out[2];

	if (pipe2(out, O_CLOEXEC) != 0)
		return;
	process->pid = fork();
	if (process->pid == 0)
		run(process, configuration, out[1]);
	close(out[1]);
	process->fd = out[0];
	fcntl(process->fd, F_SETFL, O_NONBLOCK);
	process->length = 0;
	if (process->pid < 0)
	{
		process->pid = 0;
		close_pipe(process);
	}
}

/*
 * Runs in the new process, which ends when the agent does.
 */
static void
run(const LineProcess *process, const char *configuration, int out)
{
	char	   *argv[] = {"gpucredit-agent", (char *) process->command,
	(char *) configuration, NULL};
	sigset_t	none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(out, STDOUT_FILENO) >= 0)
		execv("/proc/self/exe", argv);
	_exit(127);
}

static void
close_pipe(LineProcess *process)
{
	if (process->fd >= 0)
		close(process->fd);
	process->fd = -1;
}

/*
 * Passes on each complete line that the process has written. The rest of a
 * line that is too long is dropped.
 */
void
LineProcessRead(LineProcess *process)
{
	char		c;

	while (process->fd >= 0)
	{
		ssize_t		n = read(process->fd, &c, 1);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0)
		{
			close_pipe(process);
			return;
		}
		if (c != '\n' && process->length < sizeof(process->line) - 1)
			process->line[process->length++] = c;
		if (c != '\n')
			continue;
		process->line[process->length] = '\0';
		process->length = 0;
		process->parse(process->line);
	}
}

/*
 * Handles the end of a child of the agent. Returns whether it was this process,
 * whose last lines are passed on before.
 */
bool
LineProcessGone(LineProcess *process, pid_t pid)
{
	if (process->pid == 0 || pid != process->pid)
		return false;
	process->pid = 0;
	LineProcessRead(process);
	close_pipe(process);
	return true;
}
