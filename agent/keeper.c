/*-------------------------------------------------------------------------
 *
 * keeper.c
 *		gpucredit-keeper DIR: the parent process of one attempt.
 *
 * The agent may die, restart or be upgraded; the keeper stays with the job. It
 * starts the program, copies its output, enforces the fence and deadlines,
 * waits for its end, and kills the processes that it leaves. It writes each
 * step into the attempt's folder (attempt_dir.h) before the next, for any
 * later reader. It has no connection to the database.
 *
 * The agent writes commands into the pipe "control", one per line:
 *
 *     save               send the job's signal that asks it to save, if it
 *                        has one
 *     leave MS GRACE_MS  the same; then SIGTERM GRACE_MS before MS have
 *                        passed, and SIGKILL after MS
 *     stop GRACE_MS      SIGTERM now, SIGKILL after GRACE_MS
 *     signal NUMBER TARGET
 *                        send a signal: TARGET is "steps" for the tasks of
 *                        each srun, "script" for the program, or "all"
 *     thaw               continue after a freeze by the fence
 *
 * If the agent does not renew the lease in time, the keeper freezes the job. A
 * frozen job is not billed and loses nothing.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "crash_point.h"
#include "file.h"
#include "keeper.h"
#include "log.h"
#include "network.h"
#include "output.h"
#include "session_inside.h"

#define TICK_MS			500		/* interval of checking fence and deadlines */
#define EMPTY_TICK_MS	10		/* the interval while the last processes end */
#define FREEZE_LIMIT	(5 * NS_PER_S)
#define REQUEUE_GRACE	(30 * NS_PER_S) /* from SIGTERM to SIGKILL for a job
										 * that asks to run again */
#define CHECKPOINT_PAUSE	(200 * NS_PER_MS)

static void keep_room(const Keeper *keeper);
static void keep(Keeper *keeper);
static int	wait_ms(const Keeper *keeper);
static void reap(Keeper *keeper);
static void program_ended(Keeper *keeper, int status);
static int	exit_code(Keeper *keeper, int status);
static void read_lines(Keeper *keeper, int *fd, char *buffer, size_t size,
					   size_t *used, void (*take) (Keeper *, char *));
static void obey_command(Keeper *keeper, char *line);
static void signal_save(Keeper *keeper);
static void signal_target(Keeper *keeper, int number, const char *target);
static void parse_message(Keeper *keeper, char *line);
static void check_clocks(Keeper *keeper);
static bool fenced(const Keeper *keeper);
static void signal_limit(Keeper *keeper, int64_t now);
static void freeze(Keeper *keeper);
static void thaw(Keeper *keeper);

int
main(int argc, char **argv)
{
	Keeper		keeper = {.main = -1, .failed = -1};
	char		elapsed[32];
	int			len;
	int			lock;

	if (argc == 2 && strcmp(argv[1], "--version") == 0)
	{
		puts("gpucredit-keeper " AGENT_VERSION);
		return 0;
	}
	if (argc != 2)
		Die("usage: gpucredit-keeper DIR, or --version");
	CloseInherited();
	keeper.dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (keeper.dir < 0 || fchdir(keeper.dir) != 0)
		Die("could not enter %s: %s", argv[1], strerror(errno));
	lock = openat(keeper.dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX) != 0)
		Die("could not lock %s: %s", argv[1], strerror(errno));
	if (FileThere(keeper.dir, "exit") || FileThere(keeper.dir, "main"))
		Die("%s has been run already", argv[1]);
	setsid();
	CrashPoint("keeper-lock");
	ProgramRead(&keeper);

	keeper.state = FileMap(keeper.dir, "state", sizeof(KeeperState), true);
	keeper.control = openat(keeper.dir, "control",
							O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (keeper.state == NULL || keeper.control < 0)
		Die("could not set up %s: %s", argv[1], strerror(errno));
	keeper.state->magic = KEEPER_MAGIC;
	keeper.state->progress = -1;
	if (keeper.start.lease != NULL)
	{
		keeper.lease = FileMap(AT_FDCWD, keeper.start.lease, sizeof(Lease),
							   false);
		if (keeper.lease == NULL)
			Die("could not map %s: %s", keeper.start.lease, strerror(errno));
	}
	keep_room(&keeper);
	keeper.contain = ContainOpen(keeper.start.cgroup);
	if (keeper.contain.cgroup < 0 && *keeper.start.cgroup != '\0')
		Die("could not open %s: %s", keeper.start.cgroup, strerror(errno));
	keeper.contain.keeper = getpid();
	keeper.contain.nested = keeper.start.nested;
	prctl(PR_SET_CHILD_SUBREAPER, 1);

	ProgramStart(&keeper);
	keep(&keeper);
	NetworkEnd(&keeper);
	OutputEnd(&keeper);
	len = snprintf(elapsed, sizeof(elapsed), "%lld\n",
				   (long long) KeeperElapsedUs(keeper.state));
	if (!FilePut(keeper.dir, "gone", elapsed, len))
		Die("could not write %s/gone: %s", argv[1], strerror(errno));
	CrashPoint("gone");
	return 0;
}

/*
 * Reserves disk space for the record of the job's end, so that a job that
 * fills the disk cannot prevent it.
 */
static void
keep_room(const Keeper *keeper)
{
	int			fd = openat(keeper->dir, "reserve",
							O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || posix_fallocate(fd, 0, RESERVE) != 0)
		Die("no room on the disk");
	close(fd);
}

/*
 * Runs until no process of the attempt is left.
 */
static void
keep(Keeper *keeper)
{
	for (;;)
	{
		struct pollfd fds[] = {
			{keeper->signals, POLLIN, 0},
			{keeper->control, POLLIN, 0},
			{keeper->messages, POLLIN, 0},
			{keeper->logs[0].pipe, POLLIN, 0},
			{keeper->logs[1].pipe, POLLIN, 0},
			{keeper->failed, POLLIN, 0},
		};

		if (poll(fds, 6, wait_ms(keeper)) < 0 && errno != EINTR)
			Die("could not wait: %s", strerror(errno));
		keeper->state->seen_ns = MonotonicNs();
		JobLogPump(&keeper->logs[0]);
		JobLogPump(&keeper->logs[1]);
		read_lines(keeper, &keeper->messages, keeper->message,
				   sizeof(keeper->message), &keeper->nmessage, parse_message);
		(void) ProgramFailed(keeper);
		reap(keeper);
		read_lines(keeper, &keeper->control, keeper->words,
				   sizeof(keeper->words), &keeper->nwords, obey_command);
		if (keeper->ended && !ContainPopulated(&keeper->contain))
			break;
		check_clocks(keeper);
	}
	JobLogPump(&keeper->logs[0]);
	JobLogPump(&keeper->logs[1]);
}

static int
wait_ms(const Keeper *keeper)
{
	int64_t		now = MonotonicNs();
	int64_t		due[] = {keeper->term_ns, keeper->kill_ns,
	keeper->checkpoint_new ? keeper->checkpoint_due_ns : 0};
	int64_t		ms = keeper->ended ? EMPTY_TICK_MS : TICK_MS;

	for (int i = 0; i < 3; i++)
	{
		if (due[i] != 0 && due[i] - now < ms * NS_PER_MS)
			ms = due[i] <= now ? 0 : (due[i] - now) / NS_PER_MS + 1;
	}
	return (int) ms;
}

/*
 * Waits for the program, and for orphans that it left.
 */
static void
reap(Keeper *keeper)
{
	struct signalfd_siginfo info;
	int			status;
	pid_t		pid;

	while (read(keeper->signals, &info, sizeof(info)) == sizeof(info))
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
	{
		if (pid == keeper->main)
			program_ended(keeper, status);
		else if (pid == keeper->writer)
			keeper->writer = keeper->contain.but[0] = 0;
		else if (pid == keeper->router)
			keeper->router = keeper->contain.but[1] = 0;
	}
}

/*
 * Handles the end of the program. If podman ended before it created the
 * container, the job never started.
 */
static void
program_ended(Keeper *keeper, int status)
{
	/* What the job wrote just before it ended counts. */
	read_lines(keeper, &keeper->messages, keeper->message,
			   sizeof(keeper->message), &keeper->nmessage, parse_message);

	/* The child may have reported why it could not execute the program. */
	if (!keeper->ended && ProgramFailed(keeper))
	{
		keeper->main = -1;
		return;
	}
	keeper->main = -1;
	keeper->state->oom_kills = ContainOomKills(&keeper->contain);
	if (!keeper->ended)
	{
		if (WIFSIGNALED(status))
			KeeperWriteExit(keeper, EXIT_KILLED, WTERMSIG(status), "");
		else if (keeper->start.made != NULL &&
				 access(keeper->start.made, F_OK) != 0)
			KeeperWriteExit(keeper, EXIT_NOT_STARTED, 0, "");
		else
			KeeperWriteExit(keeper, EXIT_EXITED,
							exit_code(keeper, WEXITSTATUS(status)), "");
	}
}

/*
 * Returns the program's exit code. The init of a container that could not run
 * the program ends with 1 and prints why; that becomes the exit code that a
 * shell would return.
 */
static int
exit_code(Keeper *keeper, int status)
{
	char		text[512];
	size_t		len;

	if (keeper->start.made == NULL || status != 1)
		return status;
	JobLogPump(&keeper->logs[1]);
	len = JobLogTail(keeper->logs[1].file, keeper->state->log_bytes[1], text,
					 sizeof(text) - 1);
	text[len] = '\0';
	if (strstr(text, "ERROR (catatonit:") == NULL ||
		strstr(text, "failed to exec pid1: ") == NULL)
		return status;
	return strstr(text, strerror(EACCES)) != NULL ? 126 : 127;
}

/*
 * Reads what the pipe contains and passes on each complete line. A line that
 * is too long is dropped.
 */
static void
read_lines(Keeper *keeper, int *fd, char *buffer, size_t size, size_t *used,
		   void (*take) (Keeper *, char *))
{
	for (int i = 0; i < 16 && *fd >= 0; i++)
	{
		ssize_t		n = read(*fd, buffer + *used, size - 1 - *used);
		char	   *line = buffer;
		char	   *end;

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0)
		{
			close(*fd);
			*fd = -1;
			return;
		}
		*used += n;
		buffer[*used] = '\0';
		while ((end = memchr(line, '\n', buffer + *used - line)) != NULL)
		{
			*end = '\0';
			take(keeper, line);
			line = end + 1;
		}
		*used -= line - buffer;
		memmove(buffer, line, *used);
		if (*used == size - 1)
			*used = 0;
	}
}

/*
 * Executes a command of the agent. A command may arrive twice, as the agent
 * repeats it after a restart.
 */
static void
obey_command(Keeper *keeper, char *line)
{
	int64_t		now = MonotonicNs();
	long long	ms;
	long long	grace;
	char		name[SESSION_NAME + 1];
	char		target[8];
	int			port;
	int			number;

	if (strcmp(line, "thaw") == 0)
	{
		if (!fenced(keeper))
			thaw(keeper);
	}
	else if (strcmp(line, "save") == 0)
		signal_save(keeper);
	else if (sscanf(line, "leave %lld %lld", &ms, &grace) == 2)
	{
		if (!keeper->leaving)
		{
			signal_save(keeper);
			keeper->term_ns = now + (ms > grace ? ms - grace : 0) * NS_PER_MS;
			keeper->kill_ns = now + ms * NS_PER_MS;
		}
		keeper->leaving = true;
	}
	else if (sscanf(line, "session %16[0-9a-f] %d", name, &port) == 2)
		SessionBegin(keeper, name, port);
	else if (sscanf(line, "signal %d %7[a-z]", &number, target) == 2)
		signal_target(keeper, number, target);
	else if (sscanf(line, "stop %lld", &grace) == 1)
	{
		int64_t		kill_ns = now + grace * NS_PER_MS;

		keeper->leaving = true;
		keeper->term_ns = 0;
		ContainSignal(&keeper->contain, SIGTERM);
		if (keeper->kill_ns == 0 || kill_ns < keeper->kill_ns)
			keeper->kill_ns = kill_ns;
	}
}

/*
 * Asks the job to save, by the signal that its spec names. A job whose spec
 * names none gets no signal, because the job may use any signal for its own
 * purposes.
 */
static void
signal_save(Keeper *keeper)
{
	if (keeper->start.save_signal != 0)
		ContainSignal(&keeper->contain, keeper->start.save_signal);
}

/*
 * Sends a signal that somebody sent to the job. An srun passes it on to the
 * tasks of its step on all nodes.
 */
static void
signal_target(Keeper *keeper, int number, const char *target)
{
	if (keeper->ended || keeper->main < 0)
		return;
	if (strcmp(target, "script") == 0)
		ContainSignalMain(&keeper->contain, keeper->main, number);
	else if (strcmp(target, "steps") == 0)
		ContainSignalNamed(&keeper->contain, "srun", number);
	else
		ContainSignalJob(&keeper->contain, number);
}

/*
 * The job asks to run again. It must end within REQUEUE_GRACE, and its end is
 * reported as "requeued" (ending.c), unless the agent told it to stop.
 */
static void
requeue(Keeper *keeper)
{
	int64_t		kill_ns = MonotonicNs() + REQUEUE_GRACE;

	if (keeper->requeued || keeper->ended)
		return;
	keeper->requeued = true;
	if (!FilePut(keeper->dir, "requeue", "", 0))
		LogLine("event=requeue_not_written attempt=%s error=\"%s\"",
				keeper->start.tag, strerror(errno));
	keeper->leaving = true;
	keeper->term_ns = 0;
	ContainSignal(&keeper->contain, SIGTERM);
	if (keeper->kill_ns == 0 || kill_ns < keeper->kill_ns)
		keeper->kill_ns = kill_ns;
}

/*
 * Parses a line that the job wrote to its descriptor: "progress N",
 * "checkpoint STEP PATH", of which the newest is kept for the agent, or
 * "requeue".
 */
static void
parse_message(Keeper *keeper, char *line)
{
	long long	number;
	int			at = 0;

	if (sscanf(line, "progress %lld", &number) == 1 && number >= 0)
		keeper->state->progress = number;
	else if (strcmp(line, "requeue") == 0)
		requeue(keeper);
	else if (sscanf(line, "checkpoint %lld %n", &number, &at) == 1 &&
			 number >= 0 && at > 0 && line[at] != '\0')
	{
		snprintf(keeper->checkpoint, sizeof(keeper->checkpoint), "%s",
				 line + strlen("checkpoint "));
		keeper->checkpoint_new = true;
	}
}

/*
 * Writes the newest checkpoint for the agent. If a job reports many in a row,
 * only some are written, as each write waits for the disk.
 */
void
KeeperWriteCheckpoint(Keeper *keeper)
{
	if (!keeper->checkpoint_new)
		return;
	keeper->checkpoint_new = false;
	keeper->checkpoint_due_ns = MonotonicNs() + CHECKPOINT_PAUSE;
	(void) FilePut(keeper->dir, "checkpoint", keeper->checkpoint,
				   strlen(keeper->checkpoint));
}

/*
 * Does timed work: signals of a deadline, the fence, and leftover processes.
 */
static void
check_clocks(Keeper *keeper)
{
	int64_t		now = MonotonicNs();

	if (keeper->checkpoint_new && now >= keeper->checkpoint_due_ns)
		KeeperWriteCheckpoint(keeper);
	if (keeper->ended)
	{
		if (now >= keeper->kill_again_ns)
		{
			ContainSignal(&keeper->contain, SIGKILL);
			keeper->kill_again_ns = now + NS_PER_S;
		}
		return;
	}
	NetworkMend(keeper);
	signal_limit(keeper, now);
	if (keeper->term_ns != 0 && now >= keeper->term_ns)
	{
		keeper->term_ns = 0;
		ContainSignal(&keeper->contain, SIGTERM);
	}
	if (keeper->kill_ns != 0 && now >= keeper->kill_ns)
	{
		keeper->kill_ns = now + NS_PER_S;
		ContainSignal(&keeper->contain, SIGKILL);
	}
	if (keeper->state->frozen_since_ns == 0 && fenced(keeper))
		freeze(keeper);
	if (keeper->freezing_ns != 0)
	{
		if (ContainFrozen(&keeper->contain))
			keeper->freezing_ns = 0;
		else if (now > keeper->freezing_ns + FREEZE_LIMIT)
			ContainSignal(&keeper->contain, SIGKILL);
	}
}

/*
 * Announces the wall limit, once, by the signal that the job's spec names. An
 * srun passes the signal on to the tasks of its step on all nodes.
 */
static void
signal_limit(Keeper *keeper, int64_t now)
{
	const Start *start = &keeper->start;

	if (start->limit_signal == 0 || keeper->limit_sent || keeper->main < 0 ||
		keeper->state->exec_ns == 0 ||
		now < keeper->state->exec_ns + start->limit_after_ns)
		return;
	keeper->limit_sent = true;
	if (start->limit_batch)
		ContainSignalMain(&keeper->contain, keeper->main,
						  start->limit_signal);
	else
		ContainSignalNamed(&keeper->contain, "srun", start->limit_signal);
}

/* Whether the lease has ended. */
static bool
fenced(const Keeper *keeper)
{
	const Lease *lease = keeper->lease;

	return lease != NULL && lease->fence_ns > 0 &&
		BoottimeNs() - lease->answered_ns > lease->fence_ns;
}

static void
freeze(Keeper *keeper)
{
	int64_t		now = MonotonicNs();

	LogLine("event=fenced attempt=%s", keeper->start.tag);
	if (!ContainFreeze(&keeper->contain, true))
		ContainSignal(&keeper->contain, SIGKILL);
	keeper->state->frozen_since_ns = now;
	keeper->freezing_ns = now;
}

static void
thaw(Keeper *keeper)
{
	if (keeper->state->frozen_since_ns == 0)
		return;
	(void) ContainFreeze(&keeper->contain, false);
	keeper->state->frozen_ns += MonotonicNs() -
		keeper->state->frozen_since_ns;
	keeper->state->frozen_since_ns = 0;
	keeper->freezing_ns = 0;
	LogLine("event=thawed attempt=%s", keeper->start.tag);
}
