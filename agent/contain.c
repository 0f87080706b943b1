/*-------------------------------------------------------------------------
 *
 * contain.c
 *		All processes of an attempt, held together.
 *
 * Its own cgroup (version 2) holds them with all they fork.  cgroup.kill ends
 * all at once, cgroup.freeze stops them, and "populated 0" in cgroup.events
 * says that none is left.
 *
 * On a machine without cgroups, the attempt's name in the environment
 * (GPUCREDIT_ATTEMPT) marks the processes.  A process that clears its
 * environment escapes.  So this is for development, and the agent logs a
 * warning.
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
#include <unistd.h>

#include "contain.h"
#include "util.h"

typedef void (*Visit) (pid_t pid, void *context);

static bool put(int dir, const char *name, const char *value);
static long event(int dir, const char *file, const char *word);
static int	each_process(const Contain *contain, Visit visit, void *context);
static bool tagged(const char *pid, const char *tag);
static bool stopped_or_dead(pid_t pid);
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
ContainOpen(const char *path, const char *tag)
{
	Contain		contain = {-1, tag, false};

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
	return each_process(contain, NULL, NULL) > 0;
}

void
ContainSignal(const Contain *contain, int signal)
{
	if (signal == SIGKILL && contain->cgroup >= 0 &&
		put(contain->cgroup, "cgroup.kill", "1"))
		return;
	(void) each_process(contain, contain->nested && (signal == SIGTERM ||
													 signal == SIGUSR1) ?
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
	else
	{
		DIR		   *proc = opendir("/proc");
		struct dirent *entry;

		while (proc != NULL && (entry = readdir(proc)) != NULL)
		{
			if (!isdigit((unsigned char) entry->d_name[0]) ||
				!tagged(entry->d_name, contain->tag))
				continue;
			n++;
			if (visit != NULL)
				visit((pid_t) strtol(entry->d_name, NULL, 10), context);
		}
		if (proc != NULL)
			closedir(proc);
	}
	return n;
}

/*
 * Did this process start with the tag in its environment?
 */
static bool
tagged(const char *pid, const char *tag)
{
	char		path[64];
	char		environment[128 * 1024];
	size_t		len = strlen(tag);
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
		if (strncmp(at, "GPUCREDIT_ATTEMPT=", 18) == 0)
			return strlen(at) == 18 + len && strcmp(at + 18, tag) == 0;
	}
	return false;
}

/*
 * Send SIGUSR1 only to processes that handle it: it would end others.
 */
static void
send_signal(pid_t pid, void *context)
{
	int			signal = *(int *) context;

	if (signal != SIGUSR1 || handles(pid, signal))
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
	if (!stopped_or_dead(pid))
		++* (int *) context;
}

/*
 * Is this process stopped, a zombie, or gone?
 */
static bool
stopped_or_dead(pid_t pid)
{
	char		path[64];
	char		stat[512];
	char	   *after;
	ssize_t		n;
	int			fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	n = read(fd, stat, sizeof(stat) - 1);
	close(fd);
	if (n <= 0)
		return true;
	stat[n] = '\0';
	after = strrchr(stat, ')');
	return after == NULL || strchr("TtZXx", after[2]) != NULL;
}
