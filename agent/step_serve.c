/*-------------------------------------------------------------------------
 *
 * step_serve.c
 *		Runs a step's tasks on one node.
 *
 * srun sends one request, and this process starts the tasks in it, once. It
 * runs as the job's user among the job's own processes, so that its tasks are
 * contained and ended like all processes of the job. It sends srun the output
 * of the tasks and their exit status.
 *
 * If srun is gone, its connection ends, and the tasks are killed. If this
 * process is killed, so are the tasks.
 *
 * A request is a sequence of texts "key=value", each followed by a zero byte:
 * cwd, arg, env, and for each task "task=NUMBER GPUS", where GPUS are numbers
 * of the job's devices on this node, separated by commas, followed by
 * "taskenv", "output" and "error" of that task.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file.h"
#include "log.h"
#include "memory.h"
#include "step_serve.h"
#include "step_wire.h"

#define MOST	16384			/* most words of a command, or of an
								 * environment */
#define OWN_ENV	4				/* number of variables that belong to this
								 * node */

/* A task. */
typedef struct StepTask
{
	int			number;			/* number among all tasks of the step */
	const char *gpus;			/* its devices among those of the node; NULL
								 * for all */
	const char *files[2];		/* files for its output; NULL if the output
								 * goes to srun */
	int			first_env;		/* index of the first of its own variables in
								 * task_env */
	int			nenv;
	pid_t		pid;			/* 0 if not started, or ended */
	int			pipes[2];		/* pipes of its output; -1 if closed */
	int			input;			/* pipe to its standard input; -1 if closed */
	size_t		written;		/* how much of the present piece of input it
								 * has received */
	int			status;
	bool		ended;
	bool		reported;
} StepTask;

/* A step on this node. */
typedef struct NodeStep
{
	int			fd;				/* connection to srun */
	const char *folder;			/* folder of the files that describe the job's
								 * nodes and devices */
	const char *cwd;
	char	   *argv[MOST + 1];
	int			nargs;
	char	   *envp[MOST + OWN_ENV + 1];
	int			nenv;
	char	   *task_env[MOST];
	int			ntask_env;
	StepTask   *tasks;
	int			ntasks;
	StepReader	reader;
	char	   *input;			/* a piece of standard input that is being
								 * written, or NULL */
	size_t		input_len;
	bool		input_over;
	bool		killed;			/* srun is gone */
} NodeStep;

static bool parse(NodeStep *step, char *text, size_t len);
static bool parse_task(NodeStep *step, char *value);
static void start_task(NodeStep *step, StepTask *task);
static void become(NodeStep *step, const StepTask *task, int pipes[2], int input)
			__attribute__((noreturn));
static void choose_devices(NodeStep *step, const StepTask *task);
static void open_file(const char *path, int to);
static void serve(NodeStep *step, int signals);
static void reap(NodeStep *step);
static void forward(NodeStep *step, StepTask *task, int stream);
static void report(NodeStep *step);
static void obey(NodeStep *step);
static void pass_input(NodeStep *step);
static void signal_all(const NodeStep *step, int number);
static bool over(const NodeStep *step);

/*
 * Serves the srun at the other end of this connection, until all its tasks
 * have ended.
 */
void
StepServe(int fd, const char *folder)
{
	NodeStep   *step = Alloc(sizeof(NodeStep));
	StepFrame	frame;
	sigset_t	watched;
	int			signals;

	step->fd = fd;
	step->folder = folder;
	step->tasks = Alloc(sizeof(StepTask) * MOST);
	/* These signals are meant for the tasks, which receive them themselves. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	sigprocmask(SIG_SETMASK, &watched, NULL);
	signals = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	while (!StepNextFrame(&step->reader, &frame))
	{
		struct pollfd wait = {fd, POLLIN, 0};

		if (step->reader.ended || (poll(&wait, 1, -1) < 0 && errno != EINTR))
			_exit(1);
		StepReadMore(&step->reader, fd);
	}
	if (frame.kind != STEP_REQUEST || !parse(step, frame.data, frame.len))
		_exit(1);
	for (int i = 0; i < step->ntasks; i++)
		start_task(step, &step->tasks[i]);
	serve(step, signals);
	_exit(0);
}

/*
 * Parses the request. The texts remain in its buffer.
 */
static bool
parse(NodeStep *step, char *text, size_t len)
{
	char	   *next;

	for (char *at = text; at < text + len; at = next)
	{
		char	   *value = strchr(at, '=');
		StepTask   *task = step->ntasks == 0 ? NULL :
			&step->tasks[step->ntasks - 1];

		if (value == NULL)
			return false;
		value++;
		next = at + strlen(at) + 1;
		if (strncmp(at, "cwd=", 4) == 0)
			step->cwd = value;
		else if (strncmp(at, "arg=", 4) == 0 && step->nargs < MOST)
			step->argv[step->nargs++] = value;
		else if (strncmp(at, "env=", 4) == 0 && step->nenv < MOST)
			step->envp[step->nenv++] = value;
		else if (strncmp(at, "task=", 5) == 0)
		{
			if (!parse_task(step, value))
				return false;
		}
		else if (task != NULL && strncmp(at, "taskenv=", 8) == 0 &&
				 step->ntask_env < MOST)
		{
			step->task_env[step->ntask_env++] = value;
			task->nenv++;
		}
		else if (task != NULL && strncmp(at, "output=", 7) == 0)
			task->files[0] = value;
		else if (task != NULL && strncmp(at, "error=", 6) == 0)
			task->files[1] = value;
		else
			return false;
	}
	return step->nargs > 0;
}

/*
 * Adds a task: its number, and which devices it has.
 */
static bool
parse_task(NodeStep *step, char *value)
{
	StepTask   *task = &step->tasks[step->ntasks];
	char	   *space = strchr(value, ' ');

	if (step->ntasks == MOST || space == NULL)
		return false;
	*space = '\0';
	*task = (StepTask)
	{
		.number = atoi(value), .first_env = step->ntask_env,
			.pipes =
		{
			-1, -1
		}, .input = -1
	};
	task->gpus = strcmp(space + 1, "all") == 0 ? NULL : space + 1;
	step->ntasks++;
	return true;
}

/*
 * Starts a task. One that cannot be started ends with the exit code that a
 * shell would return.
 */
static void
start_task(NodeStep *step, StepTask *task)
{
	int			pipes[2][2] = {{-1, -1}, {-1, -1}};
	int			input[2] = {-1, -1};

	if (pipe2(pipes[0], O_CLOEXEC) != 0 || pipe2(pipes[1], O_CLOEXEC) != 0 ||
		pipe2(input, O_CLOEXEC) != 0)
		Die("could not make a pipe: %s", strerror(errno));
	task->pid = fork();
	if (task->pid == 0)
	{
		int			ends[2] = {pipes[0][1], pipes[1][1]};

		become(step, task, ends, input[0]);
	}
	for (int i = 0; i < 2; i++)
	{
		close(pipes[i][1]);
		task->pipes[i] = pipes[i][0];
		fcntl(task->pipes[i], F_SETFL, O_NONBLOCK);
	}
	close(input[0]);
	task->input = input[1];
	fcntl(task->input, F_SETFL, O_NONBLOCK);
	if (task->pid < 0)
	{
		task->pid = 0;
		task->ended = true;
		task->status = 126 << 8;
	}
}

/*
 * Runs in the child: executes the task's program.
 */
static void
become(NodeStep *step, const StepTask *task, int pipes[2], int input)
{
	sigset_t	none;
	char		here[64];

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	dup2(input, STDIN_FILENO);
	dup2(pipes[0], STDOUT_FILENO);
	dup2(pipes[1], STDERR_FILENO);
	for (int i = 0; i < 2; i++)
	{
		if (task->files[i] != NULL)
			open_file(task->files[i], STDOUT_FILENO + i);
	}
	if (step->cwd != NULL && chdir(step->cwd) != 0)
	{
		fprintf(stderr, "srun: error: could not enter %s: %s: going to /tmp\n",
				step->cwd, strerror(errno));
		if (chdir("/tmp") != 0)
			_exit(126);
	}
	choose_devices(step, task);
	for (int i = 0; i < task->nenv; i++)
		putenv(step->task_env[task->first_env + i]);
	snprintf(here, sizeof(here), "%d", (int) getpid());
	setenv("SLURM_TASK_PID", here, 1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(step->argv[0], step->argv);
	fprintf(stderr, "srun: error: %s: %s\n", step->argv[0], strerror(errno));
	_exit(errno == ENOENT || errno == ENOTDIR ? 127 : 126);
}

/*
 * Builds the task's environment: that of srun, except for variables that
 * belong to this node, which are the mark by which the keeper finds the
 * processes, and the devices.
 */
static void
choose_devices(NodeStep *step, const StepTask *task)
{
	static const char *const own[OWN_ENV] = {"GPUCREDIT_MARK",
	"GPUCREDIT_ATTEMPT", "GPUCREDIT_FD", "GPUCREDIT_STEPS"};
	char	   *uuids = Dup("");
	char	   *paths = Dup("");
	char	   *kept[OWN_ENV];
	char	   *name = Format("%s/devices", step->folder);
	char	   *text = FileGet(-1, name, NULL);
	char	   *rest = text;
	char	   *line;

	for (int i = 0; i < OWN_ENV; i++)
		kept[i] = getenv(own[i]) == NULL ? NULL : Dup(getenv(own[i]));
	clearenv();
	for (int i = 0; i < step->nenv; i++)
		putenv(step->envp[i]);
	for (int i = 0; i < OWN_ENV; i++)
	{
		if (kept[i] != NULL)
			setenv(own[i], kept[i], 1);
	}
	for (int n = 0; (line = strsep(&rest, "\n")) != NULL; n++)
	{
		char	   *space = strchr(line, ' ');
		char	   *here = Format(",%d,", n);
		char	   *all = Format(",%s,", task->gpus == NULL ? "" : task->gpus);

		if (space == NULL)
			break;
		*space = '\0';
		if (task->gpus != NULL && strstr(all, here) == NULL)
			continue;
		uuids = Format("%s%s%s", uuids, *uuids == '\0' ? "" : ",", line);
		paths = Format("%s%s%s", paths, *paths == '\0' ? "" : ",", space + 1);
	}
	setenv("CUDA_VISIBLE_DEVICES", uuids, 1);
	setenv("NVIDIA_VISIBLE_DEVICES", *uuids == '\0' ? "void" : uuids, 1);
	setenv("GPUCREDIT_DEVICES", paths, 1);
}

static void
open_file(const char *path, int to)
{
	int			fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY |
						  O_CLOEXEC, 0666);

	if (fd < 0 || dup2(fd, to) < 0)
	{
		fprintf(stderr, "srun: error: could not open %s: %s\n", path,
				strerror(errno));
		_exit(1);
	}
}

/*
 * Runs until every task has ended and all its output was sent.
 */
static void
serve(NodeStep *step, int signals)
{
	struct pollfd *fds = Alloc(sizeof(struct pollfd) * (3 * step->ntasks + 2));

	/* Handle frames that arrived together with the request. */
	obey(step);
	while (!over(step))
	{
		struct signalfd_siginfo info;
		int			n = 0;

		fds[n++] = (struct pollfd)
		{
			step->killed ? -1 : step->fd, POLLIN, 0
		};
		fds[n++] = (struct pollfd)
		{
			signals, POLLIN, 0
		};
		for (int i = 0; i < step->ntasks; i++)
		{
			StepTask   *task = &step->tasks[i];

			fds[n++] = (struct pollfd)
			{
				task->pipes[0], POLLIN, 0
			};
			fds[n++] = (struct pollfd)
			{
				task->pipes[1], POLLIN, 0
			};
			fds[n++] = (struct pollfd)
			{
				step->input != NULL && task->written < step->input_len ?
					task->input : -1, POLLOUT, 0
			};
		}
		if (poll(fds, (nfds_t) n, -1) < 0 && errno != EINTR)
			Die("could not wait: %s", strerror(errno));
		while (read(signals, &info, sizeof(info)) == sizeof(info))
			;
		reap(step);
		for (int i = 0; i < step->ntasks; i++)
		{
			forward(step, &step->tasks[i], 0);
			forward(step, &step->tasks[i], 1);
		}
		pass_input(step);
		report(step);
		if (!step->killed && fds[0].revents != 0)
		{
			StepReadMore(&step->reader, step->fd);
			obey(step);
		}
	}
	free(fds);
}

/*
 * Records which tasks have ended.
 */
static void
reap(NodeStep *step)
{
	int			status;
	pid_t		pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
	{
		for (int i = 0; i < step->ntasks; i++)
		{
			StepTask   *task = &step->tasks[i];

			if (task->pid != pid)
				continue;
			task->pid = 0;
			task->ended = true;
			task->status = status;
		}
	}
}

/*
 * Sends a task's output to srun. Output that is in the pipe when the task ends
 * is still sent; a process that the task left behind does not keep the pipe
 * open.
 */
static void
forward(NodeStep *step, StepTask *task, int stream)
{
	static char piece[STEP_PIECE];

	for (int i = 0; i < 16 && task->pipes[stream] >= 0; i++)
	{
		ssize_t		n = read(task->pipes[stream], piece, sizeof(piece));

		if (n > 0)
		{
			if (!step->killed && !StepSend(step->fd, stream == 0 ?
										   STEP_OUTPUT : STEP_ERROR,
										   task->number, piece, (size_t) n))
			{
				step->killed = true;
				signal_all(step, SIGKILL);
			}
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && !task->ended)
			return;
		close(task->pipes[stream]);
		task->pipes[stream] = -1;
	}
}

/*
 * Reports the exit status of tasks whose output was sent completely.
 */
static void
report(NodeStep *step)
{
	for (int i = 0; i < step->ntasks; i++)
	{
		StepTask   *task = &step->tasks[i];
		char		text[16];

		if (!task->ended || task->reported || task->pipes[0] >= 0 ||
			task->pipes[1] >= 0)
			continue;
		task->reported = true;
		if (task->input >= 0)
			close(task->input);
		task->input = -1;
		snprintf(text, sizeof(text), "%d", task->status);
		if (!step->killed && !StepSend(step->fd, STEP_EXIT, task->number, text,
									   strlen(text)))
			step->killed = true;
	}
}

/*
 * Handles frames of srun. If srun is gone, the tasks are killed.
 */
static void
obey(NodeStep *step)
{
	StepFrame	frame;

	while (StepNextFrame(&step->reader, &frame))
	{
		if (frame.kind == STEP_SIGNAL && frame.len > 0)
			signal_all(step, frame.data[0]);
		else if (frame.kind == STEP_INPUT && step->input == NULL)
		{
			step->input = frame.data;
			step->input_len = frame.len;
			step->input_over = frame.len == 0;
			for (int i = 0; i < step->ntasks; i++)
				step->tasks[i].written = 0;
			pass_input(step);
			continue;
		}
		free(frame.data);
	}
	if (step->reader.ended)
	{
		step->killed = true;
		signal_all(step, SIGKILL);
	}
}

/*
 * Writes a piece of standard input to all tasks. srun sends the next piece
 * once all tasks have received this one.
 */
static void
pass_input(NodeStep *step)
{
	bool		all = true;

	if (step->input == NULL)
		return;
	for (int i = 0; i < step->ntasks; i++)
	{
		StepTask   *task = &step->tasks[i];

		while (task->input >= 0 && task->written < step->input_len)
		{
			ssize_t		n = write(task->input, step->input + task->written,
								  step->input_len - task->written);

			if (n < 0 && (errno == EAGAIN || errno == EINTR))
				break;
			if (n < 0)
			{
				close(task->input);
				task->input = -1;
			}
			else
				task->written += (size_t) n;
		}
		if (task->input >= 0 && step->input_over)
		{
			close(task->input);
			task->input = -1;
		}
		all &= task->input < 0 || task->written == step->input_len;
	}
	if (!all)
		return;
	free(step->input);
	step->input = NULL;
	if (!step->input_over)
		(void) StepSend(step->fd, STEP_INPUT_DONE, -1, NULL, 0);
}

/* Sends a signal to each task and to the processes in its process group. */
static void
signal_all(const NodeStep *step, int number)
{
	for (int i = 0; i < step->ntasks; i++)
	{
		if (step->tasks[i].pid > 0)
			kill(-step->tasks[i].pid, number);
	}
}

static bool
over(const NodeStep *step)
{
	for (int i = 0; i < step->ntasks; i++)
	{
		const StepTask *task = &step->tasks[i];

		if (!task->ended || (!task->reported && !step->killed))
			return false;
	}
	return true;
}
