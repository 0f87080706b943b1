/*-------------------------------------------------------------------------
 *
 * program.c
 *		Starts the job's program as the file "start" describes it.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "clock.h"
#include "crash_point.h"
#include "file.h"
#include "keeper.h"
#include "log.h"
#include "network.h"
#include "output.h"
#include "seccomp.h"

/* The step that the child was executing. */
typedef enum ExecStep
{
	OF_NODE, ENTER, OPEN_OUTPUT, OPEN_ERROR, EXECUTE
} ExecStep;

/* Why the child could not execute the program. */
typedef struct Failure
{
	int			error;			/* errno, or 0 for success */
	ExecStep	step;			/* all steps except the first depend on the
								 * job's choices */
} Failure;

static void open_pipe(int ends[2], bool nonblocking);
static void not_executed(Keeper *keeper, Failure failure);
static bool open_files(const Keeper *keeper, ExecStep *step);
static bool open_outputs(const Keeper *keeper, ExecStep *step);
static void run_program(const Keeper *keeper, int gate, int failed,
						int outputs[2], int messages);

/*
 * Parses "start". The texts remain in its buffer.
 */
void
ProgramRead(Keeper *keeper)
{
	Start	   *start = &keeper->start;
	size_t		len;
	char	   *text = FileGet(keeper->dir, "start", &len);

	if (text == NULL)
		Die("could not read start: %s", strerror(errno));
	for (char *at = text; at < text + len; at += strlen(at) + 1)
	{
		char	   *value = strchr(at, '=');

		if (value == NULL)
			Die("malformed start");
		value++;
		if (strncmp(at, "arg=", 4) == 0 && start->nargs < WORDS)
			start->argv[start->nargs++] = value;
		else if (strncmp(at, "env=", 4) == 0 && start->nenv < WORDS)
			start->envp[start->nenv++] = value;
		else if (strncmp(at, "tag=", 4) == 0)
			start->tag = value;
		else if (strncmp(at, "mark=", 5) == 0)
			start->mark = value;
		else if (strncmp(at, "taken=", 6) == 0)
			start->taken_ns = strtoll(value, NULL, 10);
		else if (strncmp(at, "save_signal=", 12) == 0)
			start->save_signal = atoi(value);
		else if (strncmp(at, "limit_signal=", 13) == 0)
			start->limit_signal = atoi(value);
		else if (strncmp(at, "limit_after=", 12) == 0)
			start->limit_after_ns = strtoll(value, NULL, 10) * NS_PER_S;
		else if (strcmp(at, "limit_batch=yes") == 0)
			start->limit_batch = true;
		else if (strncmp(at, "cgroup=", 7) == 0)
			start->cgroup = value;
		else if (strncmp(at, "cwd=", 4) == 0)
			start->cwd = value;
		else if (strncmp(at, "lease=", 6) == 0)
			start->lease = value;
		else if (strncmp(at, "output=", 7) == 0)
			start->files[0] = value;
		else if (strncmp(at, "error=", 6) == 0)
			start->files[1] = value;
		else if (strcmp(at, "nested=yes") == 0)
			start->nested = true;
		else if (strncmp(at, "network=", 8) == 0)
			start->network = value;
		else if (strncmp(at, "slirp=", 6) == 0)
			start->slirp = value;
		else if (strncmp(at, "resolver=", 9) == 0)
			start->resolver = value;
		else if (strncmp(at, "deny=", 5) == 0 && start->ndenied < NETWORKS)
			start->denied[start->ndenied++] = value;
		else if (strncmp(at, "allow=", 6) == 0 && start->nallowed < NETWORKS)
			start->allowed[start->nallowed++] = value;
		else if (strncmp(at, "made=", 5) == 0)
			start->made = value;
		else if (strcmp(at, "caps=keep") == 0)
			start->keeps = true;
		else if (strncmp(at, "seccomp=", 8) == 0)
		{
			start->filters = strcmp(value, "load") == 0;
			start->passes = strcmp(value, "pass") == 0;
		}
		else if (strncmp(at, "uid=", 4) == 0)
		{
			start->uid = strtoul(value, NULL, 10);
			start->drops = true;
		}
		else if (strncmp(at, "gid=", 4) == 0)
			start->gid = strtoul(value, NULL, 10);
		else
			Die("malformed start");
	}

	/*
	 * podman remains root: it creates the container, and starts the program
	 * as the user.
	 */
	if (start->made != NULL)
		start->drops = false;
	if (start->cgroup == NULL)
		start->cgroup = "";
	if (start->nargs == 0 || start->tag == NULL)
		Die("malformed start");
}

/*
 * Starts the program. The child waits until "main" with its process id is on
 * disk.
 */
void
ProgramStart(Keeper *keeper)
{
	static const char *const names[] = {"stdout", "stderr"};
	int			outputs[2][2];
	int			messages[2];
	int			gate[2];
	int			failed[2];
	Failure		failure = {0};
	sigset_t	watched;
	const char *network;
	char		line[128];
	int			len;
	int64_t		now;

	OutputStart(keeper);
	for (int i = 0; i < 2; i++)
	{
		open_pipe(outputs[i], true);
		keeper->logs[i].pipe = outputs[i][0];
		keeper->logs[i].file = openat(keeper->dir, names[i],
									  O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		keeper->logs[i].bytes = &keeper->state->log_bytes[i];
		keeper->logs[i].dropped = &keeper->state->log_dropped[i];
	}
	open_pipe(messages, true);
	open_pipe(gate, false);
	open_pipe(failed, true);
	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGINT);
	sigaddset(&watched, SIGHUP);
	sigaddset(&watched, SIGPIPE);
	sigprocmask(SIG_BLOCK, &watched, NULL);
	keeper->signals = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);

	network = NetworkMake(keeper);
	if (network != NULL)
	{
		snprintf(line, sizeof(line), "network: %s", network);
		KeeperWriteExit(keeper, EXIT_NOT_STARTED, 0, line);
		return;
	}
	keeper->main = fork();
	failure.error = errno;
	if (keeper->main < 0)
	{
		not_executed(keeper, failure);
		return;
	}
	if (keeper->main == 0)
	{
		int			ends[2] = {outputs[0][1], outputs[1][1]};

		close(gate[1]);
		sigprocmask(SIG_UNBLOCK, &watched, NULL);
		run_program(keeper, gate[0], failed[1], ends, messages[1]);
	}
	close(gate[0]);
	close(failed[1]);
	close(outputs[0][1]);
	close(outputs[1][1]);
	close(messages[1]);
	if (keeper->output_pipe >= 0)
	{
		close(keeper->output_pipe);
		close(keeper->output_socket);
	}
	keeper->messages = messages[0];
	keeper->failed = failed[0];

	len = snprintf(line, sizeof(line), "%d\n", (int) keeper->main);
	failure.error = FilePut(keeper->dir, "main", line, len) ? 0 : errno;
	CrashPoint("main");
	/* The elapsed time counts from when the agent assigned the devices. */
	now = MonotonicNs();
	if (failure.error == 0)
	{
		keeper->state->exec_ns = keeper->start.taken_ns > 0 &&
			keeper->start.taken_ns < now ? keeper->start.taken_ns : now;
		(void) WriteAll(gate[1], "x", 1);
	}
	close(gate[1]);
	CrashPoint("exec");
	if (failure.error != 0)
		not_executed(keeper, failure);
}

/*
 * Whether the child has reported that it could not execute the program; if so,
 * the end is recorded. The keeper does not block on the child's report,
 * because a job may name an output that nobody ever opens for reading.
 */
bool
ProgramFailed(Keeper *keeper)
{
	Failure		failure;
	ssize_t		n;

	if (keeper->failed < 0)
		return false;
	n = read(keeper->failed, &failure, sizeof(failure));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	close(keeper->failed);
	keeper->failed = -1;
	if (n != sizeof(failure) || keeper->ended)
		return false;
	not_executed(keeper, failure);
	return true;
}

static void
open_pipe(int ends[2], bool nonblocking)
{
	if (pipe2(ends, O_CLOEXEC) != 0)
		Die("could not make a pipe: %s", strerror(errno));
	if (nonblocking)
		fcntl(ends[0], F_SETFL, O_NONBLOCK);
}

/*
 * Records that the program was not executed. If a folder, file or program that
 * the job chose does not work, it is the job's fault, and the exit code is a
 * shell's. Only a lack of memory, processes or descriptors is the node's
 * fault; a node that cannot start jobs is drained.
 */
static void
not_executed(Keeper *keeper, Failure failure)
{
	const Start *start = &keeper->start;
	const char *const what[] = {"", start->cwd, start->files[0],
	start->files[1], start->argv[0]};
	char		message[400];

	if (failure.step == OF_NODE || failure.error == ENOMEM ||
		failure.error == EAGAIN || failure.error == EMFILE ||
		failure.error == ENFILE)
	{
		KeeperWriteExit(keeper, EXIT_NOT_STARTED, failure.error,
						strerror(failure.error));
		return;
	}
	snprintf(message, sizeof(message), "%.300s: %s",
			 what[failure.step] == NULL ? "" : what[failure.step],
			 strerror(failure.error));
	for (char *at = message; *at != '\0'; at++)
	{
		if ((unsigned char) *at < ' ')
			*at = '?';
	}
	KeeperWriteExit(keeper, EXIT_EXITED, failure.error == ENOENT ||
					failure.error == ENOTDIR ? 127 : 126, message);
}

/*
 * Runs in the child: sets its limits and rights, and executes the program.
 */
static void
run_program(const Keeper *keeper, int gate, int failed, int outputs[2],
			int messages)
{
	const Start *start = &keeper->start;
	int			null = open("/dev/null", O_RDONLY);
	Failure		failure = {0, OF_NODE};
	char		go;

	if (read(gate, &go, 1) == 1)
	{
		setsid();

		/*
		 * The agent ignores SIGPIPE, and whoever started it may have ignored
		 * other signals. A shell cannot trap a signal that it ignored when it
		 * began.
		 */
		for (int number = 1; number < NSIG; number++)
			signal(number, SIG_DFL);

		/*
		 * The job must not inherit the agent's protection from the
		 * out-of-memory killer.
		 */
		ProgramForgetProtection();
		/* If the keeper dies, the program dies too, even without a cgroup. */
		if (ContainEnter(&keeper->contain) &&
			dup2(null, STDIN_FILENO) >= 0 &&
			dup2(outputs[0], STDOUT_FILENO) >= 0 &&
			dup2(outputs[1], STDERR_FILENO) >= 0 &&
			dup2(messages, 3) >= 0 &&
			NetworkNames(start) &&
			(start->keeps || CapabilitiesBound()) &&
			(!start->drops || (setgroups(0, NULL) == 0 &&
							   setresgid(start->gid, start->gid,
										 start->gid) == 0 &&
							   setresuid(start->uid, start->uid,
										 start->uid) == 0)) &&
			prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
			prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
			(!start->passes || SeccompPass()) &&
			(start->keeps || CapabilitiesClear()))
		{
			/*
			 * From here on, steps depend on the job's choices: its folder,
			 * its files, its program.
			 */
			failure.step = ENTER;
			if ((start->cwd == NULL || chdir(start->cwd) == 0) &&
				open_files(keeper, &failure.step) &&
				(!start->filters || SeccompLoad()))
			{
				failure.step = EXECUTE;
				execvpe(start->argv[0], start->argv, start->envp);
			}
		}
		failure.error = errno;
		(void) WriteAll(failed, &failure, sizeof(failure));
	}
	_exit(127);
}

/*
 * Gives up the agent's protection from the out-of-memory killer.
 */
void
ProgramForgetProtection(void)
{
	int			fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
	{
		(void) WriteAll(fd, "0", 1);
		close(fd);
	}
}

/*
 * Opens the output files that the job named, as its user and in its folder.
 */
static bool
open_files(const Keeper *keeper, ExecStep *step)
{
	const Start *start = &keeper->start;
	bool		borrows = start->made != NULL && start->uid != 0;
	bool		opened = false;
	int			error;

	if (borrows && (setgroups(0, NULL) != 0 || setegid(start->gid) != 0 ||
					seteuid(start->uid) != 0))
		return false;
	opened = open_outputs(keeper, step);
	error = errno;
	if (borrows && (seteuid(0) != 0 || setegid(0) != 0))
		return false;
	errno = error;
	return opened;
}

/*
 * Replaces the log's pipes by the files that were named. A file that is named
 * for both streams is opened once.
 */
static bool
open_outputs(const Keeper *keeper, ExecStep *step)
{
	const Start *start = &keeper->start;
	bool		both = start->files[0] != NULL && start->files[1] != NULL &&
		strcmp(start->files[0], start->files[1]) == 0;

	if (start->files[0] != NULL && !both)
	{
		int			fd = open(start->files[0], O_WRONLY | O_CREAT | O_APPEND |
							  O_NOCTTY | O_CLOEXEC, 0666);

		*step = OPEN_OUTPUT;
		if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
			return false;
	}
	if (start->files[1] != NULL)
	{
		*step = OPEN_ERROR;
		if (!OutputOpen(start, keeper->output_pipe, keeper->output_socket) ||
			(both && dup2(STDERR_FILENO, STDOUT_FILENO) < 0))
			return false;
	}
	return true;
}
