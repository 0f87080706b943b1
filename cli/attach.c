/*-------------------------------------------------------------------------
 *
 * attach.c
 *		gpucredit attach and shell: a terminal in a running job.
 *
 * The user's terminal is in raw mode meanwhile, so that all keys reach the
 * job. At the beginning of a line "~." closes the session, and "~~" sends one
 * "~". The exit status is that of the command, or 255 if the session ended
 * before the command did.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "cli.h"
#include "session.h"

#define LOST	255				/* exit status of a session that broke */

/* What the keys of a line mean for the escape. */
typedef enum Escape
{
	LINE_BEGINS,
	TILDE,						/* "~" was the first key of the line */
	WITHIN_LINE
} Escape;

typedef struct Attach
{
	FrameStream stream;
	bool		terminal;		/* standard input is a terminal */
	bool		input_over;
	Escape		escape;
	bool		detached;
	int			status;			/* exit status, or -1 */
	char		output[FRAME_DATA]; /* output that is being written */
	size_t		output_at;
	size_t		output_len;
} Attach;

static struct termios before;
static bool changed;

static void parse(int argc, char **argv, const char **node);
static void start(Attach *attach, char **argv);
static int	watch_signals(void);
static void raw_terminal(void);
static void restore_terminal(void);
static void serve(Attach *attach, int signals);
static void send_size(Attach *attach);
static void read_keys(Attach *attach);
static size_t without_escape(Attach *attach, const char *in, size_t n,
							 char *out);
static void obey(Attach *attach);
static void write_output(Attach *attach);

int
CliAttach(int argc, char **argv)
{
	Attach	   *attach = Alloc(sizeof(Attach));
	const char *node = NULL;
	int			signals;

	parse(argc, argv, &node);
	attach->status = -1;
	attach->terminal = isatty(STDIN_FILENO);
	SessionOpen(&attach->stream, argv[optind], 0, node);
	signals = watch_signals();
	start(attach, argv + optind + 1);
	if (attach->terminal)
		raw_terminal();
	serve(attach, signals);
	restore_terminal();
	if (attach->status < 0 && !attach->detached)
		fprintf(stderr, "gpucredit: the session ended: the job is over, or the"
				" connection was lost\n");
	return attach->status >= 0 ? attach->status : attach->detached ?
		CLI_DONE : LOST;
}

/* Parses the command line. A wrong one ends the command. */
static void
parse(int argc, char **argv, const char **node)
{
	static const struct option options[] = {
		{"node", required_argument, NULL, 'n'},
		{NULL, 0, NULL, 0}
	};
	bool		shell = strcmp(argv[0], "shell") == 0;
	int			option;

	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1)
	{
		if (option != 'n')
			optind = argc;
		else
			*node = optarg;
	}
	if (optind >= argc || (shell && optind + 1 < argc))
		Fail(CLI_USAGE, shell ? "usage: gpucredit shell [--node NODE] JOB" :
			 "usage: gpucredit attach [--node NODE] JOB [COMMAND [ARGUMENT...]]");
}

/* Sends the first frame: the terminal and the command. */
static void
start(Attach *attach, char **argv)
{
	struct winsize size = {.ws_row = 24, .ws_col = 80};
	const char *term = getenv("TERM");
	char	   *text;
	size_t		len;
	FILE	   *out = open_memstream(&text, &len);

	if (out == NULL)
		Fail(CLI_REFUSED, "out of memory");
	if (attach->terminal)
		(void) ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	fprintf(out, "columns=%d%crows=%d%cterm=%s%c", size.ws_col, 0,
			size.ws_row, 0, term == NULL ? "dumb" : term, 0);
	if (argv[0] != NULL && strcmp(argv[0], "--") == 0)
		argv++;
	for (; *argv != NULL; argv++)
		fprintf(out, "arg=%s%c", *argv, 0);
	fclose(out);
	if (len > FRAME_DATA)
		Fail(CLI_USAGE, "the command is longer than %d bytes", FRAME_DATA);
	FramePut(&attach->stream, FRAME_START, 0, text, len);
	free(text);
}

static int
watch_signals(void)
{
	sigset_t	set;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

static void
raw_terminal(void)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &before) != 0)
		return;
	raw = before;
	cfmakeraw(&raw);
	changed = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static void
restore_terminal(void)
{
	if (changed)
		(void) tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

/* Passes on bytes until the session ends. */
static void
serve(Attach *attach, int signals)
{
	FrameStream *stream = &attach->stream;

	while (attach->status < 0 && !attach->detached)
	{
		struct pollfd fds[4] = {
			{stream->ended ? -1 : stream->fd, FrameEvents(stream), 0},
			{attach->input_over || !FrameHasRoom(stream) ? -1 : STDIN_FILENO,
			POLLIN, 0},
			{signals, POLLIN, 0},
			{attach->output_len > 0 ? STDOUT_FILENO : -1, POLLOUT, 0},
		};
		struct signalfd_siginfo info;

		if (poll(fds, 4, -1) < 0 && errno != EINTR)
			return;
		while (read(signals, &info, sizeof(info)) == sizeof(info))
		{
			if (info.ssi_signo != SIGWINCH)
				return;
			send_size(attach);
		}
		if (fds[1].revents != 0)
			read_keys(attach);
		if (fds[3].revents != 0)
			write_output(attach);
		FrameRead(stream);
		obey(attach);
		FrameWrite(stream);
		if (stream->ended && attach->output_len == 0)
			return;
	}
}

static void
send_size(Attach *attach)
{
	struct winsize size;
	char		text[32];

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0)
		return;
	snprintf(text, sizeof(text), "%d %d", size.ws_col, size.ws_row);
	FramePutText(&attach->stream, FRAME_SIZE, 0, text);
}

/*
 * Sends keys. At the end of an input that is not a terminal, the job's terminal
 * receives the key that means the end.
 */
static void
read_keys(Attach *attach)
{
	static const char end = 4;	/* Control-D */
	char		keys[FRAME_DATA / 2];
	char		sent[sizeof(keys) + 1];
	ssize_t		n = read(STDIN_FILENO, keys, sizeof(keys));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0)
	{
		attach->input_over = true;
		FramePut(&attach->stream, FRAME_BYTES, 0, &end, 1);
		return;
	}
	if (!attach->terminal)
		FramePut(&attach->stream, FRAME_BYTES, 0, keys, n);
	else if ((n = without_escape(attach, keys, n, sent)) > 0)
		FramePut(&attach->stream, FRAME_BYTES, 0, sent, n);
}

/*
 * Copies keys without the escape, which it obeys. A "~" that begins a line is
 * held back until the next key, so that "~." leaves nothing behind; so there may
 * be one byte more than was read. Returns how many there are.
 */
static size_t
without_escape(Attach *attach, const char *in, size_t n, char *out)
{
	size_t		len = 0;

	for (size_t i = 0; i < n && !attach->detached; i++)
	{
		if (attach->escape == TILDE)
		{
			attach->escape = WITHIN_LINE;
			if (in[i] == '.')
			{
				attach->detached = true;
				break;
			}
			out[len++] = '~';
			if (in[i] == '~')
				continue;
		}
		else if (attach->escape == LINE_BEGINS && in[i] == '~')
		{
			attach->escape = TILDE;
			continue;
		}
		attach->escape = in[i] == '\r' || in[i] == '\n' ? LINE_BEGINS :
			WITHIN_LINE;
		out[len++] = in[i];
	}
	return len;
}

/* Does what frames say, as long as no output waits. */
static void
obey(Attach *attach)
{
	Frame		frame;

	while (attach->output_len == 0 && FrameNext(&attach->stream, &frame))
	{
		if (frame.kind == FRAME_BYTES)
		{
			memcpy(attach->output, frame.data, frame.len);
			attach->output_at = 0;
			attach->output_len = frame.len;
			write_output(attach);
		}
		else if (frame.kind == FRAME_EXIT)
		{
			char		text[16];

			snprintf(text, sizeof(text), "%.*s", (int) frame.len, frame.data);
			attach->status = atoi(text) & 255;
			return;
		}
		else if (frame.kind == FRAME_REFUSED)
		{
			restore_terminal();
			SessionReport(frame.data, frame.len);
			attach->status = LOST;
			return;
		}
	}
}

/* Writes output. Where nobody reads it, the session ends. */
static void
write_output(Attach *attach)
{
	struct pollfd ready = {STDOUT_FILENO, POLLOUT, 0};

	while (attach->output_len > 0 && poll(&ready, 1, 0) == 1)
	{
		/* A descriptor that is ready accepts this many without blocking. */
		size_t		most = attach->output_len < 512 ? attach->output_len : 512;
		ssize_t		n = write(STDOUT_FILENO,
							  attach->output + attach->output_at, most);

		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
		{
			attach->output_len = 0;
			attach->detached = true;
			return;
		}
		attach->output_at += n;
		attach->output_len -= n;
	}
}
