/*-------------------------------------------------------------------------
 *
 * output.c
 *		Writes a program's output to a file that its job names, and keeps the
 *		last bytes.
 *
 * The retry rules examine the end of a program's standard error, so it must
 * not be lost if the job directs it to a file. A process of the job's user,
 * the writer, reads standard error from a pipe, writes the file, and stores
 * the last bytes in memory that it shares with the keeper. The keeper does not
 * write the file itself: a file on a server that does not answer would block
 * it, and with it the fence and the deadlines.
 *
 * The program's process opens the file, as the job's user and in the job's
 * folder, and sends the descriptor to the writer. If standard output goes to
 * the same file, it also goes through the writer, so that the order is kept.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "file.h"
#include "log.h"
#include "output.h"

#define WRITER_ENDS_MS	3000	/* how long the keeper waits for the writer's
								 * end */

static void run_writer(const Start *start, int pipe, int socket, LastBytes *last)
			__attribute__((noreturn));
static int	receive_file(int socket);
static void remember(LastBytes *last, const char *data, size_t n);

/*
 * Starts the writer, if the job's standard error goes to a file. The program
 * gets outputs[0], the pipe, and outputs[1], the socket.
 */
void
OutputStart(Keeper *keeper)
{
	int			pipes[2];
	int			sockets[2];

	keeper->output_pipe = keeper->output_socket = -1;
	if (keeper->start.files[1] == NULL)
		return;
	keeper->last = mmap(NULL, sizeof(LastBytes), PROT_READ | PROT_WRITE,
						MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (keeper->last == MAP_FAILED || pipe2(pipes, O_CLOEXEC) != 0 ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
		Die("could not set up the output: %s", strerror(errno));
	keeper->writer = fork();
	if (keeper->writer < 0)
		Die("could not fork: %s", strerror(errno));
	if (keeper->writer == 0)
		run_writer(&keeper->start, pipes[0], sockets[0], keeper->last);
	close(pipes[0]);
	close(sockets[0]);
	keeper->output_pipe = pipes[1];
	keeper->output_socket = sockets[1];
	keeper->contain.but[0] = keeper->writer;
}

/*
 * Runs the writer. It keeps none of the keeper's files open, in particular not
 * its lock, and ends when the last process that has the pipe is gone.
 */
static void
run_writer(const Start *start, int pipe, int socket, LastBytes *last)
{
	char		chunk[64 * 1024];
	ssize_t		n;
	int			file;

	/*
	 * The keeper opened its folder and its lock first, so the pipe and the
	 * socket have numbers above 4.
	 */
	if (dup2(pipe, 3) < 0 || dup2(socket, 4) < 0)
		_exit(127);
	(void) close_range(5, ~0U, 0);
	if (start->uid != 0 && (setgroups(0, NULL) != 0 ||
							setresgid(start->gid, start->gid, start->gid) != 0 ||
							setresuid(start->uid, start->uid, start->uid) != 0))
		_exit(127);
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void) signal(SIGPIPE, SIG_IGN);
	file = receive_file(4);
	if (file < 0)
		_exit(0);
	while ((n = read(3, chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR))
	{
		if (n < 0)
			continue;
		remember(last, chunk, n);
		(void) WriteAll(file, chunk, n);	/* bytes that do not fit on the
											 * disk are lost */
	}
	_exit(0);
}

/*
 * Receives the descriptor that the program's process sends. Returns -1 if that
 * process could not open the file.
 */
static int
receive_file(int socket)
{
	char		byte;
	struct iovec data = {&byte, 1};
	char		control[CMSG_SPACE(sizeof(int))];
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *header;
	int			file = -1;

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) <= 0)
		return -1;
	header = CMSG_FIRSTHDR(&message);
	if (header != NULL && header->cmsg_type == SCM_RIGHTS)
		memcpy(&file, CMSG_DATA(header), sizeof(int));
	return file;
}

/*
 * Adds bytes to the last ones.
 */
static void
remember(LastBytes *last, const char *data, size_t n)
{
	if (n > LAST_BYTES)
	{
		last->total += n - LAST_BYTES;
		data += n - LAST_BYTES;
		n = LAST_BYTES;
	}
	for (size_t i = 0; i < n; i++)
		last->ring[(last->total + i) % LAST_BYTES] = data[i];
	last->total += n;
}

/*
 * Opens the file of standard error and sends it to the writer. Runs in the
 * program's process, as the job's user. Returns false with errno set on
 * failure.
 */
bool
OutputOpen(const Start *start, int pipe, int socket)
{
	char		byte = 'f';
	struct iovec data = {&byte, 1};
	char		control[CMSG_SPACE(sizeof(int))] = {0};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int			file = open(start->files[1], O_WRONLY | O_CREAT | O_APPEND |
							O_NOCTTY | O_CLOEXEC, 0666);

	if (file < 0)
		return false;
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &file, sizeof(int));
	return sendmsg(socket, &message, MSG_NOSIGNAL) == 1 &&
		dup2(pipe, STDERR_FILENO) >= 0;
}

/*
 * Waits until the writer ends and records the last bytes, once no process of
 * the job is left. A writer that hangs is killed.
 */
void
OutputEnd(Keeper *keeper)
{
	LastBytes  *last = keeper->last;
	char		text[LAST_BYTES];
	size_t		n;

	if (last == NULL)
		return;
	for (int ms = 0; keeper->writer > 0; ms += 10)
	{
		const struct timespec pause = {0, 10 * NS_PER_MS};

		if (waitpid(keeper->writer, NULL, WNOHANG) != 0)
			break;
		if (ms >= WRITER_ENDS_MS)
		{
			(void) kill(keeper->writer, SIGKILL);
			break;
		}
		(void) nanosleep(&pause, NULL);
	}
	keeper->writer = 0;
	n = last->total < LAST_BYTES ? last->total : LAST_BYTES;
	for (size_t i = 0; i < n; i++)
		text[i] = last->ring[(last->total - n + i) % LAST_BYTES];
	if (!FilePut(keeper->dir, "last_bytes", text, n))
		LogLine("event=last_bytes_not_written error=\"%s\"", strerror(errno));
}
