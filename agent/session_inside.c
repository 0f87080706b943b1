/*-------------------------------------------------------------------------
 *
 * session_inside.c
 *		Starts a terminal or a forwarded port within a job.
 *
 * The keeper forks a process that becomes part of the job before it reads a
 * byte of the user's: it enters the job's cgroup and namespaces, becomes the
 * job's user, gives up all capabilities and loads the system call filter. So a
 * session has no right that the job itself lacks, is counted in the job's
 * limits, and is killed with the job's other processes.
 *
 * The process reaches the user through a socket in the attempt's folder, on
 * which the agent's side of the session waits (session_outside.c).
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"
#include "memory.h"
#include "seccomp.h"
#include "session_forward.h"
#include "session_inside.h"

#define PROC_MOST	(256 * 1024)

static void run(const Keeper *keeper, const char *name, int port)
			__attribute__((noreturn));
static int	connect_socket(const char *name);
static const char *not_possible(const Keeper *keeper);
static pid_t child_of(pid_t pid);
static const char *become_job(const Keeper *keeper);
static bool enter_namespaces(pid_t target);
static bool enter(int fd, int type);
static bool same_as_ours(int fd, const char *kind);
static void wait_outside(const Start *start, pid_t child)
			__attribute__((noreturn));
static bool become_user(const Start *start);

/*
 * Starts the session of this name: a terminal, or with a port the forwarding
 * of that.
 */
void
SessionBegin(const Keeper *keeper, const char *name, int port)
{
	pid_t		pid = fork();

	if (pid == 0)
		run(keeper, name, port);
	LogLine("event=session attempt=%s session=%s port=%d pid=%d",
			keeper->start.tag, name, port, (int) pid);
}

/*
 * Runs in the child.
 */
static void
run(const Keeper *keeper, const char *name, int port)
{
	const char *why = not_possible(keeper);
	int			null = open("/dev/null", O_RDWR);
	int			fd = connect_socket(name);
	int			notice = open("notice", O_RDONLY | O_CREAT, 0644);
	FrameStream stream;
	sigset_t	none;

	if (fd < 0 || null < 0)
		_exit(1);
	fd = fcntl(fd, F_DUPFD, 10);
	if (notice >= 0)
		notice = fcntl(notice, F_DUPFD, 10);
	for (int i = 0; i < 3; i++)
		(void) dup2(null, i);
	if (dup2(fd, SESSION_SOCKET_FD) != SESSION_SOCKET_FD)
		_exit(1);
	fcntl(SESSION_SOCKET_FD, F_SETFD, FD_CLOEXEC);
	if (notice < 0 || dup2(notice, SESSION_NOTICE_FD) != SESSION_NOTICE_FD)
		close(SESSION_NOTICE_FD);
	else
	{
		fcntl(SESSION_NOTICE_FD, F_SETFD, FD_CLOEXEC);
		(void) lseek(SESSION_NOTICE_FD, 0, SEEK_END);
	}
	setsid();
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (why == NULL)
		why = become_job(keeper);
	(void) close_range(SESSION_NOTICE_FD + 1, ~0U, 0);
	FrameBegin(&stream, SESSION_SOCKET_FD);
	if (why != NULL)
	{
		FramePutText(&stream, FRAME_REFUSED, 0, why);
		FrameFinish(&stream, 5000);
		_exit(1);
	}
	if (port == 0)
		SessionTerminal(&stream, &keeper->start);
	SessionChoosePort(port);
	ForwardPort(&stream, SessionOpenPort, (void *) &keeper->start);
	_exit(0);
}

/* Connects to the agent's side, whose socket is then no longer needed. */
static int
connect_socket(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int			fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), SESSION_SOCKET,
			 name);
	if (fd >= 0 && connect(fd, (struct sockaddr *) &address,
						   sizeof(address)) != 0)
	{
		close(fd);
		return -1;
	}
	(void) unlink(address.sun_path);
	if (fd >= 0)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* Returns why no session can be started, or NULL. */
static const char *
not_possible(const Keeper *keeper)
{
	if (keeper->ended || keeper->main <= 0)
		return "the program has ended";
	if (keeper->state->frozen_since_ns != 0)
		return "the job is stopped, because its node has no answer from the"
			" database";
	if (keeper->start.made != NULL)
		return "the job runs in an image, which terminals cannot enter";
	if (keeper->start.nested && (child_of(keeper->main) == 0 ||
								 child_of(child_of(keeper->main)) == 0))
		return "the program has not begun yet: try again";
	return NULL;
}

/* Returns the first child of a process, or 0. */
static pid_t
child_of(pid_t pid)
{
	char	   *path = Format("/proc/%d/task/%d/children", (int) pid, (int) pid);
	char	   *text = SessionReadProc(path, NULL);
	pid_t		child = text == NULL ? 0 : (pid_t) strtol(text, NULL, 10);

	free(text);
	free(path);
	return child;
}

/*
 * Reads a file of /proc, whose size is not known before. Returns at most the
 * first PROC_MOST bytes, or NULL on failure.
 */
char *
SessionReadProc(const char *path, size_t *len)
{
	int			fd = open(path, O_RDONLY | O_CLOEXEC);
	char	   *text = fd < 0 ? NULL : Alloc(PROC_MOST + 1);
	size_t		used = 0;
	ssize_t		n;

	while (text != NULL && used < PROC_MOST &&
		   (n = read(fd, text + used, PROC_MOST - used)) > 0)
		used += n;
	if (fd >= 0)
		close(fd);
	if (len != NULL)
		*len = used;
	return text;
}

/*
 * Becomes part of the job. Returns NULL, or why that failed.
 */
static const char *
become_job(const Keeper *keeper)
{
	const Start *start = &keeper->start;
	pid_t		init = start->nested ? child_of(keeper->main) : keeper->main;
	char	   *link = Format("/proc/%d/cwd", (int)
							  (start->nested ? child_of(init) : init));
	char		folder[4096];
	ssize_t		len = readlink(link, folder, sizeof(folder) - 1);

	folder[len > 0 ? len : 0] = '\0';
	ProgramForgetProtection();
	if (!ContainEnter(&keeper->contain))
		return "it could not enter the job's limits";
	if (geteuid() == 0 && setgroups(0, NULL) != 0)
		return "it could not give up the agent's groups";
	if (!enter_namespaces(init))
		return "it could not enter the job's namespaces";
	if (start->nested)
	{
		/* A process enters a pid namespace only with its children. */
		pid_t		child = fork();

		if (child < 0)
			return "the job has too many processes";
		if (child > 0)
			wait_outside(start, child);
	}
	if (!become_user(start))
		return "it could not become the job's user";
	if (chdir(folder) != 0 && chdir("/") != 0)
		return "it could not enter the job's folder";
	if ((start->filters || start->passes) && !SeccompLoad())
		return "it could not load the filter of system calls";
	return NULL;
}

/*
 * Enters the namespaces of a process of the job. bubblewrap makes a user
 * namespace that owns the others, and another one below it for the program.
 */
static bool
enter_namespaces(pid_t target)
{
	static const struct
	{
		const char *kind;
		int			type;
	}			others[] = {
		{"mnt", CLONE_NEWNS}, {"pid", CLONE_NEWPID}, {"ipc", CLONE_NEWIPC},
		{"uts", CLONE_NEWUTS}, {"net", CLONE_NEWNET},
	};
	int			fds[5];
	char	   *path = Format("/proc/%d/ns/user", (int) target);
	int			user = open(path, O_RDONLY | O_CLOEXEC);
	bool		good = user >= 0;

	for (int i = 0; i < 5; i++)
	{
		path = Format("/proc/%d/ns/%s", (int) target, others[i].kind);
		fds[i] = open(path, O_RDONLY | O_CLOEXEC);
		good &= fds[i] >= 0;
		if (good && same_as_ours(fds[i], others[i].kind))
			fds[i] = -1;
	}
	if (good && fds[0] >= 0 && !same_as_ours(user, "user"))
	{
		int			owner = ioctl(fds[0], NS_GET_USERNS);

		good = owner >= 0 && (same_as_ours(owner, "user") ||
							  enter(owner, CLONE_NEWUSER));
	}
	for (int i = 0; i < 5 && good; i++)
		good = fds[i] < 0 || enter(fds[i], others[i].type);
	return good && (same_as_ours(user, "user") ||
					enter(user, CLONE_NEWUSER));
}

static bool
enter(int fd, int type)
{
	return setns(fd, type) == 0;
}

/* Whether this process is in a namespace already. */
static bool
same_as_ours(int fd, const char *kind)
{
	char	   *path = Format("/proc/self/ns/%s", kind);
	struct stat ours;
	struct stat theirs;
	bool		same = stat(path, &ours) == 0 && fstat(fd, &theirs) == 0 &&
		ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;

	free(path);
	return same;
}

/*
 * Waits for the child in the job's pid namespace. This process stays, because
 * it would otherwise leave the child without a parent that ends it.
 */
static void
wait_outside(const Start *start, pid_t child)
{
	close(SESSION_SOCKET_FD);
	close(SESSION_NOTICE_FD);
	(void) close_range(SESSION_NOTICE_FD + 1, ~0U, 0);
	if (!become_user(start))
		(void) kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	_exit(0);
}

/*
 * Becomes the job's user, without any capability. From then on this process
 * ends with its parent.
 */
static bool
become_user(const Start *start)
{
	bool		drops = start->drops && geteuid() != start->uid;

	return CapabilitiesBound() &&
		(!drops || (setresgid(start->gid, start->gid, start->gid) == 0 &&
					setresuid(start->uid, start->uid, start->uid) == 0)) &&
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
		CapabilitiesClear() &&
		prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
}
