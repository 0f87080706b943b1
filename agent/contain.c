/*-------------------------------------------------------------------------
 *
 * contain.c
 *		All processes of an attempt, held together.
 *
 * Its own cgroup (version 2) holds them with all they fork.  cgroup.kill ends
 * all at once, cgroup.freeze stops them, and "populated 0" in cgroup.events
 * says that none is left.
 *
 * On a machine without cgroups, the processes of an attempt are the
 * descendants of its keeper.  The keeper is their "child subreaper", so the
 * kernel makes it the parent of every orphan among them, and none can leave.
 *
 * If such a keeper dies, its orphans get another parent.  The agent then finds
 * them by a mark in their environment (GPUCREDIT_MARK): the node's name and a
 * random number that no other user can read, and by their user.  So neither
 * another tenant's process nor another agent's counts.  But a process that has
 * cleared its environment escapes, and nothing limits what a job uses.  So
 * this is for development, and the agent says so (calls.c).
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contain.h"
#include "util.h"

typedef void (*Visit) (pid_t pid, void *context);

static bool put(int dir, const char *name, const char *value);
static long event(int dir, const char *file, const char *word);
static int	each_process(const Contain *contain, Visit visit, void *context);
static int	each_descendant(const Contain *contain, Visit visit,
							void *context);
static int	each_marked(const Contain *contain, Visit visit, void *context);
static bool marked(const char *pid, const char *mark);
static bool owned(const char *pid, uid_t uid);
static char state_of(const char *pid, pid_t *parent);
static void kill_descendants(const Contain *contain);
static void stop_awake(pid_t pid, void *context);
static void send_signal(pid_t pid, void *context);
static void send_inner(pid_t pid, void *context);
static bool handles(pid_t pid, int signal);
static void count_awake(pid_t pid, void *context);

/*
 * Make a cgroup; false where the machine has none.
 */
bool
ContainMake(const char *path)
{
	return mkdir(path, 0755) == 0 || errno == EEXIST;
}

/*
 * Hand the controllers that limit a job down to the cgroups below this one;
 * false where memory is not among them.
 */
bool
ContainDelegate(const char *path)
{
	static const char *const wanted[] = {"+cpu", "+memory", "+pids"};
	int			dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int			above = openat(dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool		limits = true;

	for (int i = 0; i < 3; i++)
	{
		(void) put(above, "cgroup.subtree_control", wanted[i]);
		if (!put(dir, "cgroup.subtree_control", wanted[i]) && i == 1)
			limits = false;
	}
	if (above >= 0)
		close(above);
	if (dir >= 0)
		close(dir);
	return limits;
}

/*
 * Remove a cgroup with those that a job has made below it; false while
 * processes are in it.
 */
bool
ContainRemove(const char *path)
{
	DIR		   *dir;
	struct dirent *entry;

	if (rmdir(path) == 0 || errno == ENOENT)
		return true;
	dir = opendir(path);
	while (dir != NULL && (entry = readdir(dir)) != NULL)
	{
		char	   *below;

		if (entry->d_name[0] == '.')
			continue;
		below = Format("%s/%s", path, entry->d_name);
		(void) ContainRemove(below);
		free(below);
	}
	if (dir != NULL)
		closedir(dir);
	return rmdir(path) == 0 || errno == ENOENT;
}

Contain
ContainOpen(const char *path)
{
	Contain		contain = {.cgroup = -1};

	if (path != NULL && *path != '\0')
		contain.cgroup = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return contain;
}

void
ContainClose(Contain *contain)
{
	if (contain->cgroup >= 0)
		close(contain->cgroup);
	contain->cgroup = -1;
}

/* the calling process, with all it forks later */
bool
ContainEnter(const Contain *contain)
{
	return contain->cgroup < 0 || put(contain->cgroup, "cgroup.procs", "0");
}

/*
 * Set a controller's limit, if the machine has the controller.
 */
void
ContainLimit(const char *path, const char *file, const char *value)
{
	int			dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return;
	if (!put(dir, file, value) && errno != ENOENT)
		LogLine("event=limit_refused path=%s/%s error=\"%s\"", path, file,
				strerror(errno));
	close(dir);
}

bool
ContainPopulated(const Contain *contain)
{
	if (contain->cgroup >= 0)
		return event(contain->cgroup, "cgroup.events", "populated") != 0;
	if (contain->keeper == getpid() && contain->but == 0)
	{
		siginfo_t	info;

		/* a subreaper without children has no descendants */
		return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT |
					  __WALL) == 0 || errno != ECHILD;
	}
	return each_process(contain, NULL, NULL) > 0;
}

void
ContainSignal(const Contain *contain, int signal)
{
	if (signal == SIGKILL && contain->cgroup >= 0 &&
		put(contain->cgroup, "cgroup.kill", "1"))
		return;
	if (signal == SIGKILL && contain->cgroup < 0)
		kill_descendants(contain);
	else
		(void) each_process(contain, contain->nested && signal != SIGKILL ?
							send_inner : send_signal, &signal);
}

/*
 * Stop all processes, or continue them; false on failure.
 */
bool
ContainFreeze(const Contain *contain, bool frozen)
{
	int			signal = frozen ? SIGSTOP : SIGCONT;

	if (contain->cgroup >= 0)
		return put(contain->cgroup, "cgroup.freeze", frozen ? "1" : "0");
	(void) each_process(contain, send_signal, &signal);
	return true;
}

bool
ContainFrozen(const Contain *contain)
{
	int			awake = 0;

	if (contain->cgroup >= 0)
		return event(contain->cgroup, "cgroup.events", "frozen") == 1;
	(void) each_process(contain, count_awake, &awake);
	return awake == 0;
}

/*
 * Kill what any agent of a node has started here, keepers first, as a keeper
 * would only write down that its job has ended; false if there is nothing left.
 */
bool
ContainKillNode(const char *cgroup, const char *keepers, const char *node)
{
	Contain		of_keepers = ContainOpen(keepers);
	char	   *mark = Format("%s/*", node);
	Contain		marked_ones = {.cgroup = -1, .mark = mark, .uid = geteuid()};
	int			signal = SIGKILL;
	DIR		   *dir = *cgroup == '\0' ? NULL : opendir(cgroup);
	struct dirent *entry;
	bool		left = false;

	if (of_keepers.cgroup >= 0 && ContainPopulated(&of_keepers))
	{
		ContainSignal(&of_keepers, SIGKILL);
		left = true;
	}
	ContainClose(&of_keepers);
	while (dir != NULL && (entry = readdir(dir)) != NULL)
	{
		char	   *path = Format("%s/%s", cgroup, entry->d_name);
		Contain		job = {.cgroup = -1};

		/* names of attempts' folders have digits and hyphens */
		if (entry->d_name[0] != '.' && strchr(entry->d_name, '-') != NULL)
			job = ContainOpen(path);
		if (job.cgroup >= 0 && ContainPopulated(&job))
		{
			ContainSignal(&job, SIGKILL);
			left = true;
		}
		else if (job.cgroup >= 0)
			(void) ContainRemove(path);
		ContainClose(&job);
		free(path);
	}
	if (dir != NULL)
		closedir(dir);
	left |= each_process(&marked_ones, send_signal, &signal) > 0;
	free(mark);
	return left;
}

/* 0 without the memory controller */
long
ContainOomKills(const Contain *contain)
{
	long		kills = contain->cgroup < 0 ? 0 :
		event(contain->cgroup, "memory.events", "oom_kill");

	return kills < 0 ? 0 : kills;
}

static bool
put(int dir, const char *name, const char *value)
{
	int			fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
	bool		ok;

	if (fd < 0)
		return false;
	ok = write(fd, value, strlen(value)) == (ssize_t) strlen(value);
	close(fd);
	return ok;
}

/* the number after a word; -1: no such word */
static long
event(int dir, const char *file, const char *word)
{
	char		text[4096];
	char	   *at;
	long		number = -1;
	int			fd;
	ssize_t		n;

	fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	for (at = text; (at = strstr(at, word)) != NULL; at += strlen(word))
	{
		if ((at == text || at[-1] == '\n') && at[strlen(word)] == ' ')
		{
			number = strtol(at + strlen(word) + 1, NULL, 10);
			break;
		}
	}
	return number;
}

/*
 * Visit the processes and return their number, without zombies.
 */
static int
each_process(const Contain *contain, Visit visit, void *context)
{
	int			n = 0;

	if (contain->cgroup >= 0)
	{
		int			fd = openat(contain->cgroup, "cgroup.procs",
								O_RDONLY | O_CLOEXEC);
		FILE	   *list = fd < 0 ? NULL : fdopen(fd, "r");
		long		pid;

		while (list != NULL && fscanf(list, "%ld", &pid) == 1)
		{
			n++;
			if (visit != NULL && pid > 1)
				visit((pid_t) pid, context);
		}
		if (list != NULL)
			fclose(list);
	}
	else if (contain->keeper != 0)
		return each_descendant(contain, visit, context);
	else if (contain->mark != NULL && *contain->mark != '\0')
		return each_marked(contain, visit, context);
	return n;
}

/* A process of the machine. */
typedef struct Process
{
	pid_t		pid;
	pid_t		parent;
	bool		ours;
	bool		lives;			/* it is no zombie */
} Process;

/*
 * Visit the descendants of the keeper.
 */
static int
each_descendant(const Contain *contain, Visit visit, void *context)
{
	DIR		   *proc = opendir("/proc");
	struct dirent *entry;
	Process    *all = NULL;
	int			n = 0;
	int			room = 0;
	int			count = 0;
	bool		more = true;

	while (proc != NULL && (entry = readdir(proc)) != NULL)
	{
		pid_t		parent;
		char		state;

		if (!isdigit((unsigned char) entry->d_name[0]))
			continue;
		state = state_of(entry->d_name, &parent);
		if (state == '\0')
			continue;
		if (n == room)
		{
			room = room * 2 + 256;
			all = realloc(all, room * sizeof(Process));
			if (all == NULL)
				Die("out of memory");
		}
		all[n++] = (Process)
		{
			(pid_t) strtol(entry->d_name, NULL, 10), parent, false,
				strchr("ZXx", state) == NULL
		};
	}
	if (proc != NULL)
		closedir(proc);
	/* each pass finds at least one more level of them */
	while (more)
	{
		more = false;
		for (int i = 0; i < n; i++)
		{
			bool		ours = all[i].parent == contain->keeper &&
				all[i].pid != contain->but;

			for (int p = 0; p < n && !ours && !all[i].ours; p++)
				ours = all[p].ours && all[p].pid == all[i].parent;
			if (ours && !all[i].ours)
				all[i].ours = more = true;
		}
	}
	for (int i = 0; i < n; i++)
	{
		if (!all[i].ours || !all[i].lives)
			continue;
		count++;
		if (visit != NULL)
			visit(all[i].pid, context);
	}
	free(all);
	return count;
}

/*
 * Visit the processes with the mark, of its user or root's, which podman is.
 * Another user's are not the attempt's, whatever they have in their environment.
 */
static int
each_marked(const Contain *contain, Visit visit, void *context)
{
	DIR		   *proc = opendir("/proc");
	struct dirent *entry;
	int			n = 0;

	while (proc != NULL && (entry = readdir(proc)) != NULL)
	{
		if (!isdigit((unsigned char) entry->d_name[0]) ||
			!marked(entry->d_name, contain->mark) ||
			(geteuid() == 0 &&
			 contain->mark[strlen(contain->mark) - 1] != '*' &&
			 !owned(entry->d_name, contain->uid) &&
			 !owned(entry->d_name, 0)))
			continue;
		n++;
		if (visit != NULL)
			visit((pid_t) strtol(entry->d_name, NULL, 10), context);
	}
	if (proc != NULL)
		closedir(proc);
	return n;
}

/*
 * Kill all processes, also those that fork meanwhile: first stop them, until
 * none is found that still runs.
 */
static void
kill_descendants(const Contain *contain)
{
	int			signal = SIGKILL;

	for (int i = 0; i < 20; i++)
	{
		int			awake = 0;

		if (each_process(contain, stop_awake, &awake) == 0 || awake == 0)
			break;
	}
	(void) each_process(contain, send_signal, &signal);
}

static void
stop_awake(pid_t pid, void *context)
{
	char		name[24];
	pid_t		parent;

	snprintf(name, sizeof(name), "%d", (int) pid);
	if (strchr("tTZXx", state_of(name, &parent)) == NULL)
	{
		++*(int *) context;
		(void) kill(pid, SIGSTOP);
	}
}

/*
 * Whether this is a process of the user.
 */
static bool
owned(const char *pid, uid_t uid)
{
	char		path[64];
	char		line[256];
	unsigned	real;
	bool		is = false;
	FILE	   *status;

	snprintf(path, sizeof(path), "/proc/%.20s/status", pid);
	status = fopen(path, "re");
	while (status != NULL && fgets(line, sizeof(line), status) != NULL)
	{
		if (sscanf(line, "Uid: %u", &real) == 1)
		{
			is = real == uid;
			break;
		}
	}
	if (status != NULL)
		fclose(status);
	return is;
}

/*
 * Whether this process started with the mark in its environment; one that ends
 * with * stands for all that begin so.
 */
static bool
marked(const char *pid, const char *mark)
{
	char		path[64];
	char		environment[128 * 1024];
	size_t		len = strlen(mark);
	ssize_t		n;
	int			fd;

	snprintf(path, sizeof(path), "/proc/%.20s/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, environment, sizeof(environment) - 1);
	close(fd);
	if (n <= 0)
		return false;
	environment[n] = '\0';
	for (char *at = environment; at < environment + n; at += strlen(at) + 1)
	{
		if (strncmp(at, "GPUCREDIT_MARK=", 15) == 0)
			return mark[len - 1] == '*' ?
				strncmp(at + 15, mark, len - 1) == 0 :
				strcmp(at + 15, mark) == 0;
	}
	return false;
}

/*
 * Send the signal that means save only to processes that handle it: it would
 * end others.
 */
static void
send_signal(pid_t pid, void *context)
{
	int			signal = *(int *) context;

	if ((signal != SIGUSR1 && signal != SIGUSR2) || handles(pid, signal))
		(void) kill(pid, signal);
}

/*
 * Does the process belong to the job, and not to bubblewrap or podman around
 * it?  Those would end at the signal and take the job along.  A job's process
 * has a second number, in the inner pid namespace, other than 1, the init's.
 */
static void
send_inner(pid_t pid, void *context)
{
	char		path[64];
	char		line[256];
	int			inner = 1;
	FILE	   *status;

	snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
	status = fopen(path, "re");
	while (status != NULL && fgets(line, sizeof(line), status) != NULL &&
		   sscanf(line, "NSpid: %*d %d", &inner) != 1)
		;
	if (status != NULL)
		fclose(status);
	if (inner > 1)
		send_signal(pid, context);
}

/*
 * Does a process catch, block or ignore a signal?
 */
static bool
handles(pid_t pid, int signal)
{
	char		path[64];
	char		line[256];
	FILE	   *status;
	unsigned long long mask;
	unsigned long long taken = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
	status = fopen(path, "re");
	while (status != NULL && fgets(line, sizeof(line), status) != NULL)
	{
		if (sscanf(line, "SigBlk: %llx", &mask) == 1 ||
			sscanf(line, "SigIgn: %llx", &mask) == 1 ||
			sscanf(line, "SigCgt: %llx", &mask) == 1)
			taken |= mask;
	}
	if (status != NULL)
		fclose(status);
	return (taken >> (signal - 1) & 1) != 0;
}

static void
count_awake(pid_t pid, void *context)
{
	char		name[24];
	pid_t		parent;

	snprintf(name, sizeof(name), "%d", (int) pid);
	if (strchr("tTZXx", state_of(name, &parent)) == NULL)
		++* (int *) context;
}

/*
 * The state of a process, as a letter of proc(5), and its parent; '\0': it is
 * gone.
 */
static char
state_of(const char *pid, pid_t *parent)
{
	char		path[64];
	char		stat[512];
	char	   *after;
	char		state;
	int			number;
	ssize_t		n;
	int			fd;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return '\0';
	n = read(fd, stat, sizeof(stat) - 1);
	close(fd);
	if (n <= 0)
		return '\0';
	stat[n] = '\0';
	/* the name before it may have any characters */
	after = strrchr(stat, ')');
	if (after == NULL || sscanf(after + 1, " %c %d", &state, &number) != 2)
		return '\0';
	*parent = (pid_t) number;
	return state;
}
