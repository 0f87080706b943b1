/*-------------------------------------------------------------------------
 *
 * contain.c
 *		Finds, signals and freezes all processes of an attempt.
 *
 * On a machine with cgroups (version 2), an attempt's own cgroup contains its
 * processes and all that they fork. cgroup.kill ends all at once,
 * cgroup.freeze stops them, and "populated 0" in cgroup.events shows that none
 * is left.
 *
 * On a machine without cgroups, the processes of an attempt are the
 * descendants of its keeper. The keeper is their "child subreaper", so the
 * kernel makes it the parent of every orphan among them, and no process can
 * leave. If such a keeper dies, its orphans get another parent. The agent then
 * finds them by their user and by a mark in their environment
 * (GPUCREDIT_MARK), which consists of the agent's name and a random number that
 * no other user can read. So neither another tenant's process nor another
 * agent's matches. But a process that has cleared its environment escapes, and
 * a job's use is not limited. Therefore machines without cgroups are for
 * development only, and the agent reports that in its log (calls.c).
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
#include "log.h"
#include "memory.h"

typedef void (*Visit) (pid_t pid, void *context);

/* The program that starts a step's tasks on another node than the script's. */
#define STEP_SERVER		"gpucredit-step"

/* A signal for the processes with one command name. */
typedef struct NamedSignal
{
	const char *name;
	int			signal;
} NamedSignal;

/* The id that the job's program has in a pid namespace of the job: the first
 * after that of the init process. */
#define FIRST_INNER	2

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
static void send_to_job(pid_t pid, void *context);
static void send_to_nested(pid_t pid, void *context);
static void send_to_first(pid_t pid, void *context);
static void send_to_named(pid_t pid, void *context);
static bool has_name(pid_t pid, const char *name);
static int	inner_pid(pid_t pid);
static bool handles(pid_t pid, int signal);
static void count_awake(pid_t pid, void *context);

/*
 * Creates a cgroup. Returns false if the machine has none.
 */
bool
ContainMake(const char *path)
{
	return mkdir(path, 0755) == 0 || errno == EEXIST;
}

/*
 * Enables the controllers that limit a job for the cgroups below this one.
 * Returns false if the memory controller is not among them.
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
 * Removes a cgroup, together with those that a job has made below it. Returns
 * false while a process is in one of them.
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

/*
 * Moves the calling process into the cgroup, with all processes that it forks
 * later.
 */
bool
ContainEnter(const Contain *contain)
{
	return contain->cgroup < 0 || put(contain->cgroup, "cgroup.procs", "0");
}

/*
 * Sets a controller's limit, if the machine has the controller.
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
	if (contain->keeper == getpid() && contain->but[0] == 0 &&
		contain->but[1] == 0)
	{
		siginfo_t	info;

		/* A subreaper without children has no descendants. */
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
 * Sends a signal to all processes of the job, but not to the process that
 * serves its steps on this node, which would end at the signal. An srun ignores
 * it, since the tasks get it themselves.
 */
void
ContainSignalJob(const Contain *contain, int signal)
{
	(void) each_process(contain, contain->nested ? send_to_nested :
						send_to_job, &signal);
}

/*
 * Sends a signal to the processes with this command name. It is queued with a
 * value, by which srun knows that its tasks have not received the signal
 * (srun_run.c).
 */
void
ContainSignalNamed(const Contain *contain, const char *name, int signal)
{
	NamedSignal to = {name, signal};

	(void) each_process(contain, send_to_named, &to);
}

/*
 * Sends a signal to the job's program alone. "main" is the process that the
 * keeper started: the program, or the bubblewrap or podman around it.
 */
void
ContainSignalMain(const Contain *contain, pid_t main, int signal)
{
	if (!contain->nested)
		(void) kill(main, signal);
	else
		(void) each_process(contain, send_to_first, &signal);
}

/*
 * Stops all processes, or continues them. Returns false on failure.
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
 * Kills all processes that earlier runs of an agent have started on this
 * machine; their marks begin with "marks". Keepers are killed first, as a keeper
 * would only record that its job has ended. Returns false if no process is left.
 */
bool
ContainKillNode(const char *cgroup, const char *keepers, const char *marks)
{
	Contain		of_keepers = ContainOpen(keepers);
	char	   *mark = Format("%s*", marks);
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

		/* The names of attempts' folders consist of digits and hyphens. */
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

/*
 * Returns the number of out-of-memory kills, or 0 without the memory
 * controller.
 */
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

/*
 * Returns the number that follows a word in a file, or -1 if the file does not
 * contain the word.
 */
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
 * Calls a function for each process, and returns the number of processes
 * without zombies.
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

/* One process of the machine. */
typedef struct Process
{
	pid_t		pid;
	pid_t		parent;
	bool		ours;
	bool		lives;			/* it is not a zombie */
} Process;

/*
 * Calls a function for each descendant of the keeper.
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
	/* Each pass finds at least one more level of descendants. */
	while (more)
	{
		more = false;
		for (int i = 0; i < n; i++)
		{
			bool		ours = all[i].parent == contain->keeper &&
				all[i].pid != contain->but[0] &&
				all[i].pid != contain->but[1];

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
 * Calls a function for each process that has the mark and belongs to the
 * attempt's user, or to root, as podman does. Processes of other users do not
 * belong to the attempt, whatever their environment contains.
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
 * Kills all processes, including those that are forked meanwhile: it first
 * stops processes until none is found that still runs.
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
 * Whether a process belongs to a user.
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
 * Whether a process was started with the mark in its environment. A mark that
 * ends with * is a prefix.
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
 * Sends a signal. A signal that asks to save is sent only to processes that
 * handle it, because it would end others.
 */
static void
send_signal(pid_t pid, void *context)
{
	int			signal = *(int *) context;

	if ((signal != SIGUSR1 && signal != SIGUSR2) || handles(pid, signal))
		(void) kill(pid, signal);
}

/*
 * Sends a signal to a process of the job, and not to the bubblewrap or podman
 * around it, which would end at the signal and end the job with them. A
 * process of the job has a second process id, in the inner pid namespace, that
 * is not 1, the id of the init process.
 */
static void
send_inner(pid_t pid, void *context)
{
	if (inner_pid(pid) > 1)
		send_signal(pid, context);
}

/* Sends a signal to the program of a job that has its own pid namespace. */
static void
send_to_first(pid_t pid, void *context)
{
	if (inner_pid(pid) == FIRST_INNER)
		(void) kill(pid, *(int *) context);
}

/* Sends a signal to a process, unless it serves steps. */
static void
send_to_job(pid_t pid, void *context)
{
	if (!has_name(pid, STEP_SERVER))
		send_signal(pid, context);
}

/* The same in a job that has its own pid namespace. */
static void
send_to_nested(pid_t pid, void *context)
{
	if (!has_name(pid, STEP_SERVER))
		send_inner(pid, context);
}

/* Sends a signal to a process if it has the command name. */
static void
send_to_named(pid_t pid, void *context)
{
	const NamedSignal *to = context;
	union sigval nothing = {0};

	if (has_name(pid, to->name))
		(void) sigqueue(pid, to->signal, nothing);
}

/* Whether a process has the command name. */
static bool
has_name(pid_t pid, const char *name)
{
	char		path[64];
	char		found[32] = "";
	FILE	   *comm;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int) pid);
	comm = fopen(path, "re");
	if (comm == NULL)
		return false;
	if (fgets(found, sizeof(found), comm) != NULL)
		found[strcspn(found, "\n")] = '\0';
	fclose(comm);
	return strcmp(found, name) == 0;
}

/*
 * Returns a process's id in the pid namespace of the job, or 1 for a process
 * that is not in one.
 */
static int
inner_pid(pid_t pid)
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
	return inner;
}

/*
 * Whether a process catches, blocks or ignores a signal.
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
 * Returns the state of a process as a letter of proc(5), and its parent.
 * Returns '\0' if the process is gone.
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
	/* The name before the state may contain any characters. */
	after = strrchr(stat, ')');
	if (after == NULL || sscanf(after + 1, " %c %d", &state, &number) != 2)
		return '\0';
	*parent = (pid_t) number;
	return state;
}
