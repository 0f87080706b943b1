/*-------------------------------------------------------------------------
 *
 * program.c
 *		From the file "start" to a process that runs the job's program.
 *
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

#include "keeper.h"
#include "seccomp.h"
#include "util.h"

/* Why the child could not become the program. */
typedef struct Failure
{
	int			error;			/* errno; 0: success */
	bool		of_job;			/* the job's fault, not the node's */
} Failure;

static void open_pipe(int ends[2], bool nonblocking);
static void not_executed(Keeper *keeper, Failure failure);
static void forget_protection(void);
static bool open_files(const Start *start);
static bool open_outputs(const Start *start);
static void run_program(const Start *start, const Contain *contain, int gate,
						int failed, int outputs[2], int messages);

/*
 * Parse "start"; the texts stay in its buffer.
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
	/* podman stays root: it makes the container, and enters it as the user */
	if (start->made != NULL)
		start->drops = false;
	if (start->nargs == 0 || start->tag == NULL)
		Die("malformed start");
}

/*
 * Start the program.  It waits at a gate until "main" names it on disk.
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
	char		line[64];
	int			len;
	int64_t		begun_ns;

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
	open_pipe(failed, false);
	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGINT);
	sigaddset(&watched, SIGHUP);
	sigaddset(&watched, SIGPIPE);
	sigprocmask(SIG_BLOCK, &watched, NULL);
	keeper->signals = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);

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
		run_program(&keeper->start, &keeper->contain, gate[0], failed[1],
					ends, messages[1]);
	}
	close(gate[0]);
	close(failed[1]);
	close(outputs[0][1]);
	close(outputs[1][1]);
	close(messages[1]);
	keeper->messages = messages[0];

	len = snprintf(line, sizeof(line), "%d\n", (int) keeper->main);
	failure.error = FilePut(keeper->dir, "main", line, len) ? 0 : errno;
	CrashPoint("main");
	/* read before the gate opens: it may have ended before we run again */
	begun_ns = MonotonicNs();
	if (failure.error == 0 && WriteAll(gate[1], "x", 1) &&
		read(failed[0], &failure, sizeof(failure)) <= 0)
		keeper->state->exec_ns = begun_ns;
	close(gate[1]);
	close(failed[0]);
	CrashPoint("exec");
	if (failure.error != 0)
		not_executed(keeper, failure);
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
 * A program or folder that is missing or forbidden is the job's fault and has
 * a shell's exit code.  Any other error is the node's.
 */
static void
not_executed(Keeper *keeper, Failure failure)
{
	if (failure.of_job &&
		(failure.error == ENOENT || failure.error == ENOTDIR))
		KeeperWriteExit(keeper, EXIT_EXITED, 127, strerror(failure.error));
	else if (failure.of_job &&
			 (failure.error == EACCES || failure.error == ENOEXEC))
		KeeperWriteExit(keeper, EXIT_EXITED, 126, strerror(failure.error));
	else
		KeeperWriteExit(keeper, EXIT_NOT_STARTED, failure.error,
						strerror(failure.error));
}

/*
 * The child: set its limits and rights, and become the program.
 */
static void
run_program(const Start *start, const Contain *contain, int gate, int failed,
			int outputs[2], int messages)
{
	int			null = open("/dev/null", O_RDONLY);
	Failure		failure = {0};
	char		go;

	if (read(gate, &go, 1) == 1)
	{
		setsid();
		/* the agent's protection from the memory killer is not the job's */
		forget_protection();
		/* if the keeper dies, the program dies too, even without a cgroup */
		if (ContainEnter(contain) &&
			dup2(null, STDIN_FILENO) >= 0 &&
			dup2(outputs[0], STDOUT_FILENO) >= 0 &&
			dup2(outputs[1], STDERR_FILENO) >= 0 &&
			dup2(messages, 3) >= 0 &&
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
			/* the job's own choices: its folder, its files, its program */
			failure.of_job = true;
			if ((start->cwd == NULL || chdir(start->cwd) == 0) &&
				open_files(start) && (!start->filters || SeccompLoad()))
				execvpe(start->argv[0], start->argv, start->envp);
		}
		failure.error = errno;
		(void) WriteAll(failed, &failure, sizeof(failure));
	}
	_exit(127);
}

static void
forget_protection(void)
{
	int			fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
	{
		(void) WriteAll(fd, "0", 1);
		close(fd);
	}
}

/*
 * Open the output file that the job named, as its user, in its folder.
 */
static bool
open_files(const Start *start)
{
	bool		borrows = start->made != NULL && start->uid != 0;
	bool		opened = false;

	if (borrows && (setgroups(0, NULL) != 0 || setegid(start->gid) != 0 ||
					seteuid(start->uid) != 0))
		return false;
	opened = open_outputs(start);
	return (!borrows || (seteuid(0) == 0 && setegid(0) == 0)) && opened;
}

/*
 * Each file that was named takes the place of the log's pipe.
 */
static bool
open_outputs(const Start *start)
{
	for (int i = 0; i < 2; i++)
	{
		int			fd;

		if (start->files[i] == NULL)
			continue;
		fd = open(start->files[i], O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY |
				  O_CLOEXEC, 0666);
		if (fd < 0 || dup2(fd, STDOUT_FILENO + i) < 0)
			return false;
	}
	return true;
}
