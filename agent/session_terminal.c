/*-------------------------------------------------------------------------
 *
 * session_terminal.c
 *		Runs a command in a terminal within a job.
 *
 * The first frame is a sequence of texts "key=value", each followed by a zero
 * byte: columns, rows, term, and for each word of the command "arg". Without a
 * word, the command is a shell.
 *
 * At most one frame of input is kept while the command does not read, and
 * output is read only while there is room for it.
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "memory.h"
#include "session_inside.h"

#define ARGS		1024
#define START_MS	30000		/* time for the first frame */
#define NOTICE_MS	1000		/* how often it looks for a notice */
#define LAST_MS		10000		/* time for the user to read the last output */

typedef struct Terminal
{
	FrameStream *stream;
	const Start *start;
	char	   *text;			/* the first frame's data */
	char	   *argv[ARGS + 1];
	int			nargs;
	const char *term;
	struct winsize size;
	int			master;
	pid_t		pid;
	int			pidfd;
	char		input[FRAME_DATA];
	size_t		input_at;
	size_t		input_len;
} Terminal;

static bool read_start(Terminal *terminal);
static void parse_start(Terminal *terminal, const Frame *frame);
static const char *open_terminal(Terminal *terminal);
static void execute(Terminal *terminal, const char *name)
			__attribute__((noreturn));
static void choose_environment(const Terminal *terminal);
static void serve(Terminal *terminal);
static void obey(Terminal *terminal);
static bool read_output(Terminal *terminal);
static void show_notice(Terminal *terminal);
static void write_input(Terminal *terminal);

void
SessionTerminal(FrameStream *stream, const Start *start)
{
	Terminal   *terminal = Alloc(sizeof(Terminal));
	const char *why;

	terminal->stream = stream;
	terminal->start = start;
	terminal->term = "dumb";
	if (!read_start(terminal))
		_exit(1);
	why = open_terminal(terminal);
	if (why != NULL)
		FramePutText(stream, FRAME_REFUSED, 0, why);
	else
		serve(terminal);
	FrameFinish(stream, LAST_MS);
	_exit(0);
}

/* Waits for the first frame. */
static bool
read_start(Terminal *terminal)
{
	FrameStream *stream = terminal->stream;
	Frame		frame;

	for (;;)
	{
		struct pollfd fd = {stream->fd, POLLIN, 0};

		FrameRead(stream);
		if (FrameNext(stream, &frame))
			break;
		if (stream->ended || (poll(&fd, 1, START_MS) <= 0 && errno != EINTR))
			return false;
	}
	if (frame.kind != FRAME_START)
		return false;
	parse_start(terminal, &frame);
	return true;
}

/*
 * Parses the first frame. Its texts remain in a copy of its data.
 */
static void
parse_start(Terminal *terminal, const Frame *frame)
{
	char	   *end;

	terminal->text = Alloc(frame->len + 1);
	memcpy(terminal->text, frame->data, frame->len);
	terminal->size = (struct winsize)
	{
		.ws_row = 24, .ws_col = 80
	};
	end = terminal->text + frame->len;
	for (char *at = terminal->text; at < end; at += strlen(at) + 1)
	{
		if (strncmp(at, "columns=", 8) == 0)
			terminal->size.ws_col = atoi(at + 8);
		else if (strncmp(at, "rows=", 5) == 0)
			terminal->size.ws_row = atoi(at + 5);
		else if (strncmp(at, "term=", 5) == 0 &&
				 at[5 + strspn(at + 5, "abcdefghijklmnopqrstuvwxyz"
							   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-")] ==
				 '\0' && at[5] != '\0')
			terminal->term = at + 5;
		else if (strncmp(at, "arg=", 4) == 0 && terminal->nargs < ARGS)
			terminal->argv[terminal->nargs++] = at + 4;
	}
}

/*
 * Opens a terminal and starts the command in it. Returns NULL, or why that
 * failed.
 */
static const char *
open_terminal(Terminal *terminal)
{
	const char *name;

	terminal->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC |
									O_NONBLOCK);
	if (terminal->master < 0 || grantpt(terminal->master) != 0 ||
		unlockpt(terminal->master) != 0 ||
		(name = ptsname(terminal->master)) == NULL)
		return "the node has no terminal left";
	(void) ioctl(terminal->master, TIOCSWINSZ, &terminal->size);
	terminal->pid = fork();
	if (terminal->pid < 0)
		return "the job has too many processes";
	if (terminal->pid == 0)
		execute(terminal, name);
	terminal->pidfd = (int) syscall(SYS_pidfd_open, terminal->pid, 0);
	return NULL;
}

/* Runs in the child: executes the command with the terminal. */
static void
execute(Terminal *terminal, const char *name)
{
	static char login[] = "-bash";
	static char plain[] = "-sh";
	int			fd;

	signal(SIGPIPE, SIG_DFL);
	setsid();
	fd = open(name, O_RDWR);
	if (fd < 0 || ioctl(fd, TIOCSCTTY, 0) != 0)
		_exit(126);
	for (int i = 0; i < 3; i++)
		(void) dup2(fd, i);
	(void) close_range(3, ~0U, 0);
	choose_environment(terminal);
	if (terminal->nargs > 0)
		execvp(terminal->argv[0], terminal->argv);
	else
	{
		terminal->argv[0] = login;
		execv("/bin/bash", terminal->argv);
		terminal->argv[0] = plain;
		execv("/bin/sh", terminal->argv);
	}
	dprintf(STDERR_FILENO, "%s: %s\r\n", terminal->argv[0], strerror(errno));
	_exit(errno == ENOENT || errno == ENOTDIR ? 127 : 126);
}

/*
 * Sets the environment: that of the job's program, and the terminal's type.
 * The program alone has the descriptor for reports of progress.
 */
static void
choose_environment(const Terminal *terminal)
{
	clearenv();
	for (int i = 0; i < terminal->start->nenv; i++)
	{
		if (strncmp(terminal->start->envp[i], "GPUCREDIT_FD=", 13) != 0)
			putenv(terminal->start->envp[i]);
	}
	setenv("TERM", terminal->term, 1);
}

/*
 * Passes on bytes until the command has ended, or the user has gone. The
 * kernel then hangs up the terminal.
 */
static void
serve(Terminal *terminal)
{
	FrameStream *stream = terminal->stream;
	bool		open = true;
	int			status = 0;
	char		code[16];

	for (;;)
	{
		struct pollfd fds[3] = {
			{stream->fd, FrameEvents(stream), 0},
			{open ? terminal->master : -1,
				(FrameHasRoom(stream) ? POLLIN : 0) |
			(terminal->input_len > 0 ? POLLOUT : 0), 0},
			{terminal->pidfd, POLLIN, 0},
		};
		bool		ended;

		/* A hangup would wake it even if it waits for room only. */
		if (fds[1].events == 0)
			fds[1].fd = -1;
		if (poll(fds, 3, terminal->pidfd < 0 ? 100 : NOTICE_MS) < 0 &&
			errno != EINTR)
			return;
		FrameRead(stream);
		obey(terminal);
		ended = waitpid(terminal->pid, &status, WNOHANG) == terminal->pid;
		open = open && read_output(terminal);
		show_notice(terminal);
		FrameWrite(stream);
		if (stream->ended)
			return;
		if (ended)
			break;
	}
	while (open && !stream->ended && terminal->pid > 0)
	{
		struct pollfd fd = {stream->fd, POLLOUT, 0};

		/* What the command wrote last is in the terminal. */
		if (FrameHasRoom(stream))
		{
			size_t		before = stream->out_used;

			open = read_output(terminal);
			if (stream->out_used == before)
				break;
		}
		else if (poll(&fd, 1, LAST_MS) <= 0)
			break;
		FrameWrite(stream);
	}
	snprintf(code, sizeof(code), "%d", WIFEXITED(status) ?
			 WEXITSTATUS(status) : 128 + WTERMSIG(status));
	FrameFinish(stream, LAST_MS);
	FramePutText(stream, FRAME_EXIT, 0, code);
}

/* Does what frames say, as long as no input waits. */
static void
obey(Terminal *terminal)
{
	Frame		frame;
	char		text[32];
	unsigned	columns;
	unsigned	rows;

	write_input(terminal);
	while (terminal->input_len == 0 && FrameNext(terminal->stream, &frame))
	{
		if (frame.kind == FRAME_BYTES)
		{
			memcpy(terminal->input, frame.data, frame.len);
			terminal->input_at = 0;
			terminal->input_len = frame.len;
			write_input(terminal);
		}
		else if (frame.kind == FRAME_SIZE)
		{
			snprintf(text, sizeof(text), "%.*s", (int) frame.len, frame.data);
			if (sscanf(text, "%u %u", &columns, &rows) == 2)
			{
				terminal->size.ws_col = columns;
				terminal->size.ws_row = rows;
				(void) ioctl(terminal->master, TIOCSWINSZ, &terminal->size);
			}
		}
	}
}

/* Writes input to the terminal, as far as that accepts it. */
static void
write_input(Terminal *terminal)
{
	while (terminal->input_len > 0)
	{
		ssize_t		n = write(terminal->master,
							  terminal->input + terminal->input_at,
							  terminal->input_len);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0)
		{
			terminal->input_len = 0;	/* nobody can read it */
			return;
		}
		terminal->input_at += n;
		terminal->input_len -= n;
	}
}

/*
 * Sends what the command wrote. Returns false once no process has the terminal
 * open.
 */
static bool
read_output(Terminal *terminal)
{
	char		piece[FRAME_DATA];

	while (FrameHasRoom(terminal->stream))
	{
		ssize_t		n = read(terminal->master, piece, sizeof(piece));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n <= 0)
			return false;
		FramePut(terminal->stream, FRAME_BYTES, 0, piece, n);
	}
	return true;
}

/*
 * Shows the user what the agent has written for all terminals of the job since
 * the last time, such as that the job is about to end.
 */
static void
show_notice(Terminal *terminal)
{
	char		text[512];
	ssize_t		n;

	while (FrameHasRoom(terminal->stream) &&
		   (n = read(SESSION_NOTICE_FD, text, sizeof(text))) > 0)
		FramePut(terminal->stream, FRAME_BYTES, 0, text, n);
}
