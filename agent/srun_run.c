/*-------------------------------------------------------------------------
 *
 * srun_run.c
 *		srun: starts the tasks of a step, copies their output, and returns
 *		their exit code.
 *
 * srun connects to every node first. Only then does it send each node its
 * request, once: a node that is lost afterwards ends the step, and nothing is
 * started again. A child of srun serves the tasks of the node where srun
 * itself runs.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "file.h"
#include "log.h"
#include "memory.h"
#include "srun.h"
#include "step_serve.h"
#include "step_wire.h"

#define NODE_WAIT	(120 * NS_PER_S)	/* how long to wait for a node's part
										 * of the job, which may start later */
#define CONNECT_MS	2000
#define RETRY_US	20000
#define LOST_MS		300000		/* how long to wait until the job of a lost
								 * node is ended */
#define KILL_AFTER	(10 * NS_PER_S) /* time between SIGTERM and SIGKILL, with
									 * --kill-on-bad-exit */

/* What a task wrote since its last line break, for --label. */
typedef struct Unfinished
{
	char	   *text;
	size_t		len;
} Unfinished;

/* The state of a running step. */
typedef struct RunningStep
{
	const Srun *srun;
	StepLayout *layout;
	const char *steps;
	int			fds[STEP_NODES];	/* connection to each node; -1 if not
									 * used, or closed */
	StepReader	readers[STEP_NODES];
	int			unanswered;		/* number of nodes that have not confirmed the
								 * last piece of input */
	bool		input_over;
	int			input;			/* -1 if closed */
	int			files[2];		/* files for standard output and standard
								 * error */
	Unfinished *unfinished;		/* for each task and stream */
	bool	   *ended;
	bool		lost;			/* a node is lost, and with it the job */
	int			left;			/* number of tasks that have not ended */
	int			code;			/* the highest exit code so far */
	int64_t		kill_ns;		/* when to send SIGKILL, or 0 for never */
} RunningStep;

static int	open_files(RunningStep *run);
static int	serve_here(const RunningStep *run);
static int	reach(const RunningStep *run, int node, const char *key);
static int	connect_to(const char *address, int port);
static void follow(RunningStep *run, int signals);
static void read_node(RunningStep *run, int node);
static void obey_frame(RunningStep *run, int node, StepFrame *frame);
static void write_output(RunningStep *run, int task, int stream,
						 const char *data, size_t len);
static void write_lines(RunningStep *run, int task, int stream, bool all);
static void task_ended(RunningStep *run, int node, int task, int status);
static void node_lost(RunningStep *run, int node);
static void send_input(RunningStep *run);
static void send_signal(RunningStep *run, int number);
static bool from_keeper(const struct signalfd_siginfo *info);

int
SrunRun(Srun *srun, StepLayout *layout, const char *steps)
{
	RunningStep *run = Alloc(sizeof(RunningStep));
	char	   *key = FileGet(-1, Format("%s/key", steps), NULL);
	sigset_t	watched;
	int			signals;

	run->srun = srun;
	run->layout = layout;
	run->steps = steps;
	run->left = layout->ntasks;
	run->ended = Alloc(sizeof(bool) * layout->ntasks);
	run->unfinished = Alloc(sizeof(Unfinished) * 2 * layout->ntasks);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&watched);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGINT);
	sigaddset(&watched, SIGHUP);
	sigaddset(&watched, SIGQUIT);
	sigaddset(&watched, SIGUSR1);
	sigaddset(&watched, SIGUSR2);
	sigaddset(&watched, SIGCONT);
	sigprocmask(SIG_BLOCK, &watched, NULL);
	signals = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
	run->input = open_files(run);
	for (int node = 0; node < layout->njob; node++)
	{
		run->fds[node] = -1;
		if (!layout->nodes[node].used)
			continue;
		run->fds[node] = node == layout->rank ? serve_here(run) :
			reach(run, node, key == NULL ? "" : key);
	}
	for (int node = 0; node < layout->njob; node++)
	{
		size_t		len = 0;
		char	   *request;

		if (run->fds[node] < 0)
			continue;
		request = SrunRequest(srun, layout, node, &len);
		if (len > STEP_REQUEST_MOST)
			StepFail("the step's arguments and environment are too long");
		if (!StepSend(run->fds[node], STEP_REQUEST, -1, request, len))
			node_lost(run, node);
		free(request);
	}
	follow(run, signals);
	if (run->lost)
	{
		struct pollfd wait = {signals, POLLIN, 0};

		/* The agents end the job; the script must not fail before that. */
		(void) poll(&wait, 1, LOST_MS);
	}
	return run->code;
}

/*
 * Opens the files that do not belong to a single task. Returns the descriptor
 * of the input, which is empty if there is none: a task that reads it must come
 * to its end.
 */
static int
open_files(RunningStep *run)
{
	const char *patterns[2] = {run->srun->output, run->srun->error};
	const char *input = run->srun->input;
	struct stat st;
	int			fd = -1;

	for (int i = 0; i < 2; i++)
	{
		const char *pattern = patterns[i];
		char	   *name;

		run->files[i] = i == 1 && patterns[0] != NULL && pattern == NULL ?
			run->files[0] : STDOUT_FILENO + i;
		if (pattern == NULL || strcmp(pattern, "all") == 0 ||
			SrunFileOfTask(pattern))
			continue;
		name = strcmp(pattern, "none") == 0 ? Dup("/dev/null") :
			SrunFile(run->srun, run->layout, pattern, run->layout->rank, 0);
		run->files[i] = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC |
							 (i == 1 && patterns[0] != NULL &&
							  strcmp(patterns[0], pattern) == 0 ? 0 :
							  O_TRUNC), 0666);
		if (run->files[i] < 0)
			StepFail("could not open %s: %s", name, strerror(errno));
		free(name);
	}
	if (input != NULL && strcmp(input, "none") != 0 &&
		strcmp(input, "all") != 0)
	{
		fd = open(input, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			StepFail("could not open %s: %s", input, strerror(errno));
	}
	else if ((input == NULL || strcmp(input, "all") == 0) &&
			 fstat(STDIN_FILENO, &st) == 0 &&
			 !(S_ISCHR(st.st_mode) && !isatty(STDIN_FILENO)))
		fd = STDIN_FILENO;
	else
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fd;
}

/*
 * Starts a child that serves the tasks of this node. Returns the connection to
 * it.
 */
static int
serve_here(const RunningStep *run)
{
	int			ends[2];
	pid_t		pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		StepFail("no socket: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		StepFail("no process: %s", strerror(errno));
	if (pid == 0)
	{
		close(ends[0]);

		/*
		 * The step's locks must be released when srun itself ends, so the
		 * child closes them.
		 */
		for (int fd = 4; fd < 256; fd++)
		{
			if (fd != ends[1])
				close(fd);
		}
		StepServe(ends[1], run->steps);
	}
	close(ends[1]);
	return ends[0];
}

/*
 * Connects to another node of the job. Waits, as that node's part may not have
 * begun yet.
 */
static int
reach(const RunningStep *run, int node, const char *key)
{
	const StepNode *there = &run->layout->nodes[node];
	int64_t		until = MonotonicNs() + NODE_WAIT;

	if (*key == '\0')
		StepFail("the nodes of this job have no secret to start steps by");
	while (MonotonicNs() < until)
	{
		for (int i = 0; i < STEP_PORTS; i++)
		{
			int			fd = connect_to(there->address, StepPort(key, node, i));

			if (fd < 0)
				continue;
			if (StepIntroduce(fd, key))
				return fd;
			close(fd);
		}
		usleep(RETRY_US);
	}
	StepFail("could not reach node %s at %s", there->name, there->address);
}

/*
 * Opens a connection. Returns -1 on failure.
 */
static int
connect_to(const char *address, int port)
{
	char	   *service = Format("%d", port);
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV};
	struct addrinfo *found = NULL;
	int			fd = -1;
	int			error = 0;
	int			yes = 1;
	socklen_t	len = sizeof(error);

	if (getaddrinfo(address, service, &hints, &found) == 0)
		fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC |
					SOCK_NONBLOCK, 0);
	free(service);
	if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0)
	{
		struct pollfd wait = {fd, POLLOUT, 0};

		if (errno != EINPROGRESS || poll(&wait, 1, CONNECT_MS) <= 0 ||
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 ||
			error != 0)
		{
			close(fd);
			fd = -1;
		}
	}
	if (found != NULL)
		freeaddrinfo(found);
	if (fd >= 0)
	{
		(void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
		(void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
		fcntl(fd, F_SETFL, 0);
	}
	return fd;
}

/*
 * Runs until every task has ended.
 */
static void
follow(RunningStep *run, int signals)
{
	while (run->left > 0)
	{
		struct pollfd fds[STEP_NODES + 2];
		struct signalfd_siginfo info;
		int			n = 0;
		int			wait = -1;

		for (int node = 0; node < run->layout->njob; node++)
			fds[n++] = (struct pollfd)
		{
			run->fds[node], POLLIN, 0
		};
		fds[n++] = (struct pollfd)
		{
			signals, POLLIN, 0
		};
		fds[n++] = (struct pollfd)
		{
			run->unanswered > 0 ? -1 : run->input, POLLIN, 0
		};
		if (run->kill_ns != 0)
			wait = run->kill_ns <= MonotonicNs() ? 0 :
				(int) ((run->kill_ns - MonotonicNs()) / NS_PER_MS) + 1;
		if (poll(fds, (nfds_t) n, wait) < 0 && errno != EINTR)
			StepFail("could not wait: %s", strerror(errno));
		while (read(signals, &info, sizeof(info)) == sizeof(info))
		{
			if (!from_keeper(&info))
				send_signal(run, (int) info.ssi_signo);
		}
		for (int node = 0; node < run->layout->njob; node++)
		{
			if (run->fds[node] >= 0 && fds[node].revents != 0)
				read_node(run, node);
		}
		if (fds[n - 1].revents != 0)
			send_input(run);
		if (run->kill_ns != 0 && MonotonicNs() >= run->kill_ns)
		{
			run->kill_ns = 0;
			send_signal(run, SIGKILL);
		}
	}
}

static void
read_node(RunningStep *run, int node)
{
	StepFrame	frame;

	StepReadMore(&run->readers[node], run->fds[node]);
	while (StepNextFrame(&run->readers[node], &frame))
	{
		obey_frame(run, node, &frame);
		free(frame.data);
	}
	if (run->readers[node].ended)
		node_lost(run, node);
}

/*
 * Handles a frame that a node sent about one of its tasks.
 */
static void
obey_frame(RunningStep *run, int node, StepFrame *frame)
{
	int			task;

	if (frame->kind == STEP_INPUT_DONE)
	{
		run->unanswered--;
		return;
	}
	task = StepTaskOf(frame);
	if (task < 0 || task >= run->layout->ntasks)
		return;
	if (frame->kind == STEP_OUTPUT)
		write_output(run, task, 0, frame->data, frame->len);
	else if (frame->kind == STEP_ERROR)
		write_output(run, task, 1, frame->data, frame->len);
	else if (frame->kind == STEP_EXIT)
		task_ended(run, node, task, atoi(frame->data));
}

/*
 * Writes output as it arrives; with --label, in complete lines.
 */
static void
write_output(RunningStep *run, int task, int stream, const char *data, size_t len)
{
	Unfinished *rest = &run->unfinished[2 * task + stream];

	if (!run->srun->labels)
	{
		(void) WriteAll(run->files[stream], data, len);
		return;
	}
	rest->text = realloc(rest->text, rest->len + len + 1);
	if (rest->text == NULL)
		Die("out of memory");
	memcpy(rest->text + rest->len, data, len);
	rest->len += len;
	write_lines(run, task, stream, rest->len > STEP_PIECE);
}

/*
 * Writes the complete lines of a task, each after the task's number. If "all"
 * is true, an incomplete last line is written as well.
 */
static void
write_lines(RunningStep *run, int task, int stream, bool all)
{
	Unfinished *rest = &run->unfinished[2 * task + stream];
	int			width = snprintf(NULL, 0, "%d", run->layout->ntasks - 1);
	char	   *end;

	while (rest->len > 0 &&
		   ((end = memchr(rest->text, '\n', rest->len)) != NULL || all))
	{
		size_t		len = end == NULL ? rest->len :
			(size_t) (end + 1 - rest->text);
		char	   *label = Format("%*d: ", width, task);
		char	   *line = Alloc(strlen(label) + len + 1);
		size_t		whole = strlen(label) + len;

		memcpy(line, label, strlen(label));
		memcpy(line + strlen(label), rest->text, len);
		if (end == NULL)
			line[whole++] = '\n';
		(void) WriteAll(run->files[stream], line, whole);
		rest->len -= len;
		memmove(rest->text, rest->text + len, rest->len);
		free(label);
		free(line);
	}
}

/*
 * Handles the end of a task. The step's exit code is the highest of its tasks.
 */
static void
task_ended(RunningStep *run, int node, int task, int status)
{
	int			code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) :
		WEXITSTATUS(status);
	const char *name = run->layout->nodes[node].name;

	if (run->ended[task])
		return;
	run->ended[task] = true;
	run->left--;
	write_lines(run, task, 0, true);
	write_lines(run, task, 1, true);
	run->code = code > run->code ? code : run->code;
	if (code == 0)
		return;
	if (!run->srun->quiet && WIFSIGNALED(status))
		fprintf(stderr, "srun: error: %s: task %d: %s\n", name, task,
				strsignal(WTERMSIG(status)));
	else if (!run->srun->quiet)
		fprintf(stderr, "srun: error: %s: task %d: Exited with exit code %d\n",
				name, task, code);
	if (run->srun->ends_all && run->kill_ns == 0 && run->left > 0)
	{
		send_signal(run, SIGTERM);
		run->kill_ns = MonotonicNs() + KILL_AFTER;
	}
}

/*
 * Handles a node that was lost before its tasks ended: the step cannot
 * continue.
 */
static void
node_lost(RunningStep *run, int node)
{
	bool		tasks = false;

	close(run->fds[node]);
	run->fds[node] = -1;
	for (int task = 0; task < run->layout->ntasks; task++)
	{
		int			local;

		if (run->ended[task] || StepLayoutNode(run->layout, &run->srun->ask,
											   task, &local) != node)
			continue;
		tasks = true;
		run->ended[task] = true;
		run->left--;
	}
	if (!tasks)
		return;
	fprintf(stderr, "srun: error: node %s failed: its tasks are lost\n",
			run->layout->nodes[node].name);
	run->code = run->code < 1 ? 1 : run->code;
	run->lost = true;
	send_signal(run, SIGKILL);
}

/*
 * Sends a piece of standard input to all tasks. The next piece is read once
 * all tasks have received this one.
 */
static void
send_input(RunningStep *run)
{
	static char piece[STEP_PIECE];
	ssize_t		n = read(run->input, piece, sizeof(piece));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0)
		run->input = -1;
	for (int node = 0; node < run->layout->njob; node++)
	{
		if (run->fds[node] < 0)
			continue;
		run->unanswered += n > 0;
		if (!StepSend(run->fds[node], STEP_INPUT, -1, piece,
					  n > 0 ? (size_t) n : 0))
			run->unanswered -= n > 0;
	}
}

static void
send_signal(RunningStep *run, int number)
{
	char		text = (char) number;

	for (int node = 0; node < run->layout->njob; node++)
	{
		if (run->fds[node] >= 0)
			(void) StepSend(run->fds[node], STEP_SIGNAL, -1, &text, 1);
	}
}

/*
 * Whether a signal came from the job's keeper, or from outside the job's own
 * processes. In that case every task on every node has received it already.
 * The exception is the signal that announces the wall limit: the keeper sends
 * it by sigqueue() to each srun alone.
 */
static bool
from_keeper(const struct signalfd_siginfo *info)
{
	char	   *path;
	char		name[32] = "";
	FILE	   *in;

	if (info->ssi_code == SI_QUEUE)
		return false;
	if (info->ssi_pid == 0)
		return true;
	path = Format("/proc/%d/comm", (int) info->ssi_pid);
	in = fopen(path, "re");
	if (in != NULL && fgets(name, sizeof(name), in) == NULL)
		*name = '\0';
	if (in != NULL)
		fclose(in);
	free(path);
	return strncmp(name, "gpucredit-keepe", 15) == 0;
}
