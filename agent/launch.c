/*-------------------------------------------------------------------------
 *
 * launch.c
 *		Writes the keeper's description of an attempt from the database's, and
 *		starts the keeper.
 *
 * A job's spec names the program: "argv", an array of texts, or "script", a
 * text whose first line may name its interpreter, with "args". "env" and
 * "workdir" have their usual meaning. The agent ignores all members of spec
 * that it does not know. The program runs as the user of the job's account
 * (users.c).
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "config.h"
#include "contain.h"
#include "device_filter.h"
#include "devices.h"
#include "file.h"
#include "file_pattern.h"
#include "gang.h"
#include "job_signals.h"
#include "launch.h"
#include "launch_network.h"
#include "log.h"
#include "memory.h"
#include "run_podman.h"
#include "seccomp.h"
#include "slurm_environment.h"
#include "start_file.h"

/*
 * Most variables of a job. The keeper accepts a few more (WORDS in keeper.h),
 * which are the agent's.
 */
#define VARIABLES_MOST	4000

#define SIGNAL_BEFORE_MOST	65535	/* as in Slurm */

rlim_t		LaunchFiles;

static void put_isolation(Writer *writer, const Launch *launch);
static void make_work(Writer *writer, const Launch *launch);
static void put_bwrap(Writer *writer, const Launch *launch);
static void bind_device(Writer *writer, const char *path);
static void put_program(Writer *writer, const Launch *launch);
static void put_texts(Writer *writer, const char *key, const json_t * texts);
static void put_files(Writer *writer, const Launch *launch);
static void put_path_and_home(Writer *writer, const Launch *launch);
static void put_environment(Writer *writer, const Launch *launch);
static char *list_devices(uint64_t gpus, bool paths);
static void write_script(Writer *writer, const Launch *launch,
						 const char *script);
static void limit(const LocalAttempt *attempt, const json_t * intent);
static char *new_mark(void);
static void put_save_signal(Writer *writer, const Launch *launch);
static void put_limit_signal(Writer *writer, const Launch *launch);
static void bind_folder(Writer *writer, const char *how, const char *path);
static void bind_save_folder(Writer *writer, const Launch *launch);
static void put_file(Writer *writer, const Launch *launch, const char *key,
					 const char *pattern);

/*
 * Writes "start". Returns NULL, or on failure the line of "exit" with the
 * reason.
 */
char *
LaunchWriteStart(const LocalAttempt *attempt, const json_t * intent)
{
	Writer		writer = {0};
	char	   *text;
	size_t		len;
	const char *why;
	Launch		launch = {
		.attempt = attempt,
		.intent = intent,
		.spec = json_object_get(intent, "spec"),
		.work = Format("%s/run/%s/work", config.state, attempt->name),
	};

	writer.out = open_memstream(&text, &len);
	if (writer.out == NULL)
		Die("out of memory");
	launch.workdir = json_string_value(json_object_get(launch.spec,
													   "workdir"));
	launch.image = AttemptImage(intent);
	if (launch.workdir == NULL)
		launch.workdir = launch.work;
	if (!SetParse(json_string_value(json_object_get(intent, "gpus")),
				  &launch.gpus))
		StartRefuse(&writer, EXIT_NOT_STARTED, 0, "malformed set of devices");
	why = UserOf(attempt->org, attempt->account, &launch.user);
	if (why != NULL)
		StartRefuse(&writer, EXIT_NOT_STARTED, 0, "%s", why);
	if (!LaunchCgroup(attempt, intent))
		StartRefuse(&writer, EXIT_NOT_STARTED, errno, "no cgroup: %s",
					strerror(errno));
	make_work(&writer, &launch);
	if (GangRunsOnce(&launch))
		SlurmPutStepFiles(&writer, &launch);
	StartPut(&writer, "tag", "%s", attempt->tag);
	StartPut(&writer, "cgroup", "%s", attempt->cgroup);
	StartPut(&writer, "lease", "%s/lease", config.state);
	StartPut(&writer, "taken", "%lld", (long long) attempt->taken_ns);
	launch.mark = new_mark();
	StartPut(&writer, "mark", "%s", launch.mark);
	put_save_signal(&writer, &launch);
	put_limit_signal(&writer, &launch);
	if (launch.user.uid != 0)
	{
		StartPut(&writer, "uid", "%u", (unsigned) launch.user.uid);
		StartPut(&writer, "gid", "%u", (unsigned) launch.user.gid);
	}
	NetworkPut(&writer, &launch);
	put_isolation(&writer, &launch);
	put_program(&writer, &launch);
	put_files(&writer, &launch);
	if (launch.image != NULL)
		PodmanEnvironmentBegin(&writer);
	put_environment(&writer, &launch);
	if (launch.image != NULL)
		PodmanEnvironmentEnd(&writer, &launch);
	fclose(writer.out);
	if (writer.refused == NULL &&
		(!FilePut(attempt->dir, "start", text, len) ||
		 (mkfifoat(attempt->dir, "control", 0600) != 0 && errno != EEXIST)))
		StartRefuse(&writer, EXIT_NOT_STARTED, errno, "could not write it down: %s",
					strerror(errno));
	free(text);
	free(launch.work);
	free(launch.mark);
	return writer.refused;
}

/*
 * Creates the attempt's cgroup and sets its limits. Returns false with errno
 * set on failure.
 */
bool
LaunchCgroup(const LocalAttempt *attempt, const json_t * intent)
{
	if (attempt->cgroup == NULL || *attempt->cgroup == '\0')
		return true;
	if (!ContainMake(attempt->cgroup))
		return false;
	limit(attempt, intent);
	return true;
}

/*
 * Returns what the marks of this agent's processes begin with. Several agents
 * may run on one machine, also for nodes of one name in several databases, but
 * each has a state folder of its own.
 */
char *
LaunchMarks(void)
{
	return Format("%s:%s/", config.node, config.state);
}

/*
 * Generates the mark of an attempt's processes for machines without cgroups:
 * what marks its agent's processes, and a number that nobody can guess.
 */
static char *
new_mark(void)
{
	uint64_t	number[2];
	char	   *marks = LaunchMarks();
	char	   *mark;

	if (getrandom(number, sizeof(number), 0) != sizeof(number))
		Die("could not read random numbers: %s", strerror(errno));
	mark = Format("%s%016llx%016llx", marks, (unsigned long long) number[0],
				  (unsigned long long) number[1]);
	free(marks);
	return mark;
}

/*
 * Writes the signal that asks the program to save, if its spec names one.
 */
static void
put_save_signal(Writer *writer, const Launch *launch)
{
	const		json_t *signal = json_object_get(launch->spec,
												 "checkpoint_signal");
	const char *name = json_string_value(signal);

	if (signal == NULL || json_is_null(signal))
		return;
	if (name != NULL && strncmp(name, "SIG", 3) == 0)
		name += 3;
	if (name != NULL && strcmp(name, "USR1") == 0)
		StartPut(writer, "save_signal", "%d", SIGUSR1);
	else if (name != NULL && strcmp(name, "USR2") == 0)
		StartPut(writer, "save_signal", "%d", SIGUSR2);
	else
		StartRefuse(writer, EXIT_EXITED, 127,
					"\"checkpoint_signal\" is USR1 or USR2");
}

/*
 * Writes the signal that announces the wall limit, if the spec names one. The
 * database adds the limit to the spec. Nodes that only serve the steps of a
 * script get none, because srun passes it on to them.
 */
static void
put_limit_signal(Writer *writer, const Launch *launch)
{
	const		json_t *asked = json_object_get(launch->spec, "signal");
	const		json_t *wall = json_object_get(launch->spec, "wall_seconds");
	const		json_t *before = json_object_get(asked, "before");
	int			signal = JobSignalNumber(json_string_value(
														   json_object_get(asked, "name")));
	json_int_t	after = json_integer_value(wall) - json_integer_value(before);

	if (asked == NULL || json_is_null(asked))
		return;
	if (signal == 0 || !json_is_integer(before) || json_integer_value(before) < 0 ||
		json_integer_value(before) > SIGNAL_BEFORE_MOST)
	{
		StartRefuse(writer, EXIT_EXITED, 127, "\"signal\" has a \"name\""
					" (HUP, INT, QUIT, USR1, USR2, TERM or CONT), and"
					" \"before\", 0 to %d seconds", SIGNAL_BEFORE_MOST);
		return;
	}
	if (!json_is_integer(wall) || GangServesSteps(launch))
		return;
	StartPut(writer, "limit_signal", "%d", signal);
	StartPut(writer, "limit_after", "%lld", (long long)
			 (after < 0 ? 0 : after));
	if (json_is_true(json_object_get(asked, "batch")))
		StartPut(writer, "limit_batch", "yes");
}

/*
 * Writes what isolates the program from others: only its user, or its own
 * namespaces, or an image in podman.
 */
static void
put_isolation(Writer *writer, const Launch *launch)
{
	bool		bwrap = strcmp(config.isolation, "bwrap") == 0;

	if (launch->image != NULL)
	{
		StartPut(writer, "cwd", "%s", launch->work);
		PodmanPut(writer, launch);
		return;
	}
	StartPut(writer, "cwd", "%s", bwrap ? "/" : launch->workdir);
	if (strcmp(config.seccomp, "yes") == 0)
		StartPut(writer, "seccomp", "%s", bwrap ? "pass" : "load");
	if (bwrap)
	{
		StartPut(writer, "caps", "keep");
		StartPut(writer, "nested", "yes");
		put_bwrap(writer, launch);
	}
}

/*
 * Creates the attempt's own folder, which only its user can read.
 */
static void
make_work(Writer *writer, const Launch *launch)
{
	if (mkdirat(launch->attempt->dir, "work", 0700) != 0 && errno != EEXIST)
		StartRefuse(writer, EXIT_NOT_STARTED, errno, "no folder: %s",
					strerror(errno));
	if (launch->user.uid != 0 &&
		fchownat(launch->attempt->dir, "work", launch->user.uid,
				 launch->user.gid, AT_SYMLINK_NOFOLLOW) != 0)
		StartRefuse(writer, EXIT_NOT_STARTED, errno, "no folder: %s",
					strerror(errno));
}

/*
 * Runs the program in its own namespaces: with a read-only system, its own
 * /tmp, a /dev with only its devices, and its own process ids.
 */
static void
put_bwrap(Writer *writer, const Launch *launch)
{
	static const char *const words[] = {
		"bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
		"--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev",
		"--tmpfs", "/tmp", "--tmpfs", "/run", "--cap-drop", "ALL",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		StartPut(writer, "arg", "%s", words[i]);

	/*
	 * These mounts come before those that hide others' files, so that they
	 * cannot make the hidden files visible again.
	 */
	if (launch->workdir != launch->work)
		bind_folder(writer, "--bind", launch->workdir);
	if (launch->user.home != NULL)
		bind_folder(writer, "--bind-try", launch->user.home);
	bind_save_folder(writer, launch);
	/* Hide other attempts' folders, the keys and the spool. */
	StartPut(writer, "arg", "--tmpfs");
	StartPut(writer, "arg", "%s", config.state);
	StartPut(writer, "arg", "--bind");
	StartPut(writer, "arg", "%s", launch->work);
	StartPut(writer, "arg", "%s", launch->work);
	for (int i = 0; i < DeviceCount(); i++)
	{
		if ((launch->gpus >> i & 1) != 0)
			bind_device(writer, DeviceNumber(i)->path);
	}
	for (int i = 0; launch->gpus != 0 && DriverFiles[i] != NULL; i++)
		bind_device(writer, DriverFiles[i]);
	NetworkPutBwrap(writer, launch);
	if (strcmp(config.seccomp, "yes") == 0)
	{
		StartPut(writer, "arg", "--seccomp");
		StartPut(writer, "arg", "%d", SECCOMP_FD);
	}
	StartPut(writer, "arg", "--chdir");
	StartPut(writer, "arg", "%s", launch->workdir);
	StartPut(writer, "arg", "--");
}

static void
bind_folder(Writer *writer, const char *how, const char *path)
{
	StartPut(writer, "arg", "%s", how);
	StartPut(writer, "arg", "%s", path);
	StartPut(writer, "arg", "%s", path);
}

/*
 * Makes the folder where the job is to save writable, with the rights of the
 * job's user, as on the node itself. The folder may not exist yet, so the
 * nearest existing folder above it is mounted. Paths that the job shares with
 * nobody stay private: a name in /tmp, or one that is the whole system's.
 */
static void
bind_save_folder(Writer *writer, const Launch *launch)
{
	static const char *const own[] = {"/", "/dev", "/proc", "/run", "/sys",
	"/tmp"};
	const char *save_to = json_string_value(json_object_get(launch->intent,
															"save_to"));
	char	   *path = Dup(save_to != NULL && strncmp(save_to, "file://", 7) == 0 ?
						   save_to + 7 : save_to);
	char	   *real = NULL;

	while (path != NULL && *path == '/' && path[1] != '\0' &&
		   (real = realpath(path, NULL)) == NULL)
	{
		char	   *last = strrchr(path, '/');

		last[last == path] = '\0';
	}
	for (size_t i = 0; real != NULL && i < sizeof(own) / sizeof(own[0]); i++)
	{
		size_t		len = strlen(own[i]);

		if (strcmp(real, own[i]) == 0 ||
			(i > 0 && i < 5 && strncmp(real, own[i], len) == 0 &&
			 real[len] == '/'))
		{
			free(real);
			real = NULL;
		}
	}
	if (real != NULL)
		bind_folder(writer, "--bind-try", path);
	free(real);
	free(path);
}

/* Binds a device file. bwrap omits one that this machine does not have. */
static void
bind_device(Writer *writer, const char *path)
{
	if (*path == '\0')
		return;
	StartPut(writer, "arg", "--dev-bind-try");
	StartPut(writer, "arg", "%s", path);
	StartPut(writer, "arg", "%s", path);
}

/*
 * Writes the program: the script, or the words of argv.
 */
static void
put_program(Writer *writer, const Launch *launch)
{
	const		json_t *argv = json_object_get(launch->spec, "argv");
	const char *script = json_string_value(json_object_get(launch->spec,
														   "script"));

	GangPutArguments(writer, launch);
	if (GangServesSteps(launch))
	{
		StartPut(writer, "arg", "%s/gpucredit-step", config.steps);
		StartPut(writer, "arg", "serve");
		StartPut(writer, "arg", "%s", config.address);
	}
	else if (script != NULL)
	{
		write_script(writer, launch, script);
		StartPut(writer, "arg", "%s/script", launch->work);
		put_texts(writer, "arg", json_object_get(launch->spec, "args"));
	}
	else if (json_array_size(argv) > 0)
		put_texts(writer, "arg", argv);
	else
		StartRefuse(writer, EXIT_EXITED, 127,
					"its spec has neither \"argv\" nor \"script\"");
}

/*
 * Writes an array of texts. A zero byte is refused, as it would end the text
 * early.
 */
static void
put_texts(Writer *writer, const char *key, const json_t * texts)
{
	size_t		i;
	json_t	   *text;

	json_array_foreach(texts, i, text)
	{
		const char *value = json_string_value(text);

		if (value == NULL || strlen(value) != json_string_length(text))
			StartRefuse(writer, EXIT_EXITED, 127, "an argument is no text");
		else
			StartPut(writer, key, "%s", value);
	}
}

/*
 * Writes the script to a file that only the job's user can read.
 */
static void
write_script(Writer *writer, const Launch *launch, const char *script)
{
	int			work = openat(launch->attempt->dir, "work",
							  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int			fd = work < 0 ? -1 : openat(work, "script", O_WRONLY |
											O_CREAT | O_TRUNC | O_CLOEXEC |
											O_NOFOLLOW, 0700);

	if (fd < 0 || !WriteAll(fd, script, strlen(script)) ||
		(launch->user.uid != 0 &&
		 fchown(fd, launch->user.uid, launch->user.gid) != 0))
		StartRefuse(writer, EXIT_NOT_STARTED, errno, "no script: %s",
					strerror(errno));
	if (fd >= 0)
		close(fd);
	if (work >= 0)
		close(work);
}

/*
 * Writes the names of the files for the job's output, if it does not go to the
 * log. The job's user opens these files, so the job can only name files that
 * the user could write.
 */
static void
put_files(Writer *writer, const Launch *launch)
{
	const char *output = json_string_value(json_object_get(launch->spec,
														   "output"));
	const char *error = json_string_value(json_object_get(launch->spec,
														  "error"));

	if (GangServesSteps(launch))
		return;					/* this node's output goes to the script's
								 * standard output */
	if (output != NULL)
		put_file(writer, launch, "output", output);
	if (error != NULL || output != NULL)
		put_file(writer, launch, "error", error != NULL ? error : output);
}

/*
 * Writes the name of one output file. A relative name is relative to the
 * working folder. The name is made absolute because bwrap has not entered that
 * folder when the file is opened, and an image has another file system.
 */
static void
put_file(Writer *writer, const Launch *launch, const char *key,
		 const char *pattern)
{
	char	   *name = FilePattern(launch, pattern);

	if (*name == '/')
		StartPut(writer, key, "%s", name);
	else
		StartPut(writer, key, "%s/%s", launch->image != NULL ? launch->work :
				 launch->workdir, name);
	free(name);
}

/*
 * Writes PATH, which starts with the folder of the commands for steps, and
 * HOME, which is the submitter's if this node has such a folder.
 */
static void
put_path_and_home(Writer *writer, const Launch *launch)
{
	const		json_t *env = json_object_get(launch->spec, "env");
	const char *path = json_string_value(json_object_get(env, "PATH"));
	const char *home = json_string_value(json_object_get(env, "HOME"));
	struct stat st;

	if (path == NULL && launch->image == NULL)
		path = "/usr/local/bin:/usr/bin:/bin";
	if (path != NULL && GangRunsOnce(launch) && launch->image == NULL)
		StartPut(writer, "env", "PATH=%s:%s", config.steps, path);
	else if (path != NULL)
		StartPut(writer, "env", "PATH=%s", path);
	if (home == NULL || *home != '/' ||
		(launch->image == NULL && (stat(home, &st) != 0 ||
								   !S_ISDIR(st.st_mode))))
		home = launch->user.home != NULL && launch->image == NULL ?
			launch->user.home : launch->work;
	StartPut(writer, "env", "HOME=%s", home);
}

/*
 * Writes the environment. The agent's variables come last, so a job cannot
 * forge them.
 */
static void
put_environment(Writer *writer, const Launch *launch)
{
	const		json_t *env = json_object_get(launch->spec, "env");
	const		json_t *checkpoint = json_object_get(launch->spec,
													 "checkpoint");
	const char *save_to = json_string_value(json_object_get(launch->intent,
															"save_to"));
	const char *trace = json_string_value(json_object_get(launch->intent,
														  "traceparent"));
	char	   *visible = list_devices(launch->gpus, false);
	char	   *paths = list_devices(launch->gpus, true);
	const char *name;
	json_t	   *value;

	put_path_and_home(writer, launch);
	if (json_object_size(env) > VARIABLES_MOST)
		StartRefuse(writer, EXIT_EXITED, 127,
					"\"env\" has %zu variables, and a job may have %d",
					json_object_size(env), VARIABLES_MOST);
	json_object_foreach((json_t *) env, name, value)
	{
		const char *text = json_string_value(value);

		if (text == NULL || strlen(text) != json_string_length(value) ||
			*name == '\0' || strchr(name, '=') != NULL)
			StartRefuse(writer, EXIT_EXITED, 127, "\"env\" has no texts");
		else if (launch->image != NULL && strchr(text, '\n') != NULL)
			StartRefuse(writer, EXIT_EXITED, 127,
						"\"env\" has a line break, which podman takes none of");
		else if (strncmp(name, "GPUCREDIT_", 10) != 0 &&
				 strcmp(name, "PATH") != 0 && strcmp(name, "HOME") != 0)
			StartPut(writer, "env", "%s=%s", name, text);
	}
	/* OpenTelemetry's tools read it, so the program's spans join the job's */
	if (trace != NULL && json_object_get(env, "TRACEPARENT") == NULL)
		StartPut(writer, "env", "TRACEPARENT=%s", trace);
	StartPut(writer, "env", "GPUCREDIT_ATTEMPT=%s", launch->attempt->tag);
	StartPut(writer, "env", "GPUCREDIT_MARK=%s", launch->mark);
	StartPut(writer, "env", "GPUCREDIT_FD=3");
	StartPut(writer, "env", "GPUCREDIT_DEVICES=%s", paths);
	if (save_to != NULL)
		StartPut(writer, "env", "GPUCREDIT_SAVE_TO=%s", save_to);
	StartPut(writer, "env", "CUDA_VISIBLE_DEVICES=%s", visible);
	StartPut(writer, "env", "NVIDIA_VISIBLE_DEVICES=%s",
			 *visible == '\0' ? "void" : visible);
	if (json_is_object(checkpoint))
	{
		const char *uri = json_string_value(json_object_get(checkpoint,
															"uri"));

		StartPut(writer, "env", "RESUME_STEP=%lld", (long long)
				 json_integer_value(json_object_get(checkpoint, "step")));
		StartPut(writer, "env", "RESUME_FROM=%s", uri == NULL ? "" : uri);
	}
	GangPutEnvironment(writer, launch);
	free(visible);
	free(paths);
}

/*
 * Lists devices by UUID, because their indexes change where a cgroup hides
 * devices.
 */
static char *
list_devices(uint64_t gpus, bool paths)
{
	char	   *list = Dup("");

	for (int i = 0; i < 64; i++)
	{
		const Device *device = DeviceNumber(i);
		char	   *more;

		if ((gpus >> i & 1) == 0 || device == NULL)
			continue;
		more = Format("%s%s%s", list, *list == '\0' ? "" : ",",
					  paths ? device->path : device->uuid);
		free(list);
		list = more;
	}
	return list;
}

/*
 * Sets the limits of the attempt's cgroup, as far as the controllers exist.
 */
static void
limit(const LocalAttempt *attempt, const json_t * intent)
{
	static bool logged = false;
	const char *path = attempt->cgroup;
	long long	cpu = json_integer_value(json_object_get(intent, "cpu_milli"));
	long long	memory = json_integer_value(json_object_get(intent,
															"memory_mib"));
	char		text[32];

	if (!DeviceFilter(path, attempt->gpus) && !logged)
	{
		LogLine("event=no_device_filter error=\"%s\"", strerror(errno));
		logged = true;
	}
	snprintf(text, sizeof(text), "%ld", config.most_processes);
	ContainLimit(path, "pids.max", text);

	/*
	 * 100 for each core that the job requested; the kernel accepts 1 to
	 * 10000.
	 */
	cpu = cpu <= 0 ? 100 : cpu < 10 ? 1 : cpu > 1000000 ? 10000 : cpu / 10;
	snprintf(text, sizeof(text), "%lld", cpu);
	ContainLimit(path, "cpu.weight", text);
	if (memory > 0)
	{
		snprintf(text, sizeof(text), "%lld", memory * 1024 * 1024);
		ContainLimit(path, "memory.max", text);
		ContainLimit(path, "memory.oom.group", "1");
	}
}

/*
 * Returns the cgroup of the keepers. It is not the agent's own, because
 * systemd ends all processes of that with the agent's unit.
 */
const char *
LaunchKeepers(void)
{
	static char *path = NULL;

	if (path == NULL)
		path = *config.cgroup == '\0' ? Dup("") :
			Format("%s/keepers", config.cgroup);
	return path;
}

/*
 * Starts the keeper. It gets its own session and cgroup, so that it survives
 * the agent.
 */
pid_t
LaunchKeeper(const LocalAttempt *attempt)
{
	char	   *path = Format("%s/run/%s", config.state, attempt->name);
	pid_t		pid = fork();

	if (pid == 0)
	{
		sigset_t	none;
		Contain		keepers = ContainOpen(LaunchKeepers());
		struct rlimit files;

		(void) ContainEnter(&keepers);
		/* Programs that use select() cannot have a higher limit than usual. */
		if (LaunchFiles != 0 && getrlimit(RLIMIT_NOFILE, &files) == 0)
		{
			files.rlim_cur = LaunchFiles;
			(void) setrlimit(RLIMIT_NOFILE, &files);
		}
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		execl(config.keeper, "gpucredit-keeper", path, (char *) NULL);
		LogLine("event=no_keeper path=%s error=\"%s\"", config.keeper,
				strerror(errno));
		_exit(127);
	}
	free(path);
	return pid < 0 ? 0 : pid;
}
