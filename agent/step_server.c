/*-------------------------------------------------------------------------
 *
 * step_server.c
 *		Waits for srun on a node whose job's script runs elsewhere.
 *
 *     gpucredit-step serve ADDRESS
 *
 * The agent starts this program in place of the script, as the job's user and
 * within the job's limits. It listens for srun of the same job, which proves
 * its identity by the job's secret, and serves each srun in a process of its
 * own. It ends when it is told to and no step is left.
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file.h"
#include "log.h"
#include "memory.h"
#include "step_serve.h"
#include "step_wire.h"

#define STEPS_MOST	4096		/* most steps at once */

static int	listen_somewhere(const char *address, const char *key, int rank);
static int	listen_at(const char *address, int port);
static void accept_one(int listener, const char *key, const char *folder,
					   int *children);

void
StepServer(const char *address)
{
	const char *folder = getenv("GPUCREDIT_STEPS");
	char	   *key = folder == NULL ? NULL :
		FileGet(-1, Format("%s/key", folder), NULL);
	char	   *nodes = folder == NULL ? NULL :
		FileGet(-1, Format("%s/nodes", folder), NULL);
	int			listener;
	int			signals;
	int			children = 0;
	bool		ends = false;
	sigset_t	watched;

	if (key == NULL || *key == '\0' || nodes == NULL)
		Die("this node has no secret of its job");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	sigaddset(&watched, SIGTERM);
	sigprocmask(SIG_SETMASK, &watched, NULL);
	signals = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
	listener = listen_somewhere(address, key, atoi(nodes));
	while (!ends || children > 0)
	{
		struct pollfd fds[2] = {
			{signals, POLLIN, 0},
			{ends || children >= STEPS_MOST ? -1 : listener, POLLIN, 0},
		};
		struct signalfd_siginfo info;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			Die("could not wait: %s", strerror(errno));
		while (read(signals, &info, sizeof(info)) == sizeof(info))
			ends |= info.ssi_signo == SIGTERM;
		while (waitpid(-1, NULL, WNOHANG) > 0)
			children--;
		if (fds[1].revents != 0)
			accept_one(listener, key, folder, &children);
	}
	exit(0);
}

/*
 * Listens on the first of the job's ports that is free.
 */
static int
listen_somewhere(const char *address, const char *key, int rank)
{
	for (int i = 0; i < STEP_PORTS; i++)
	{
		int			port = StepPort(key, rank, i);
		int			fd = listen_at(address, port);

		if (fd < 0 && errno == EADDRNOTAVAIL)
			fd = listen_at("", port);
		if (fd >= 0)
			return fd;
	}
	Die("could not listen for steps: %s", strerror(errno));
}

/*
 * Opens a listening socket. Returns -1 with errno set on failure.
 */
static int
listen_at(const char *address, int port)
{
	char	   *service = Format("%d", port);
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *found = NULL;
	int			fd = -1;
	int			error = EADDRNOTAVAIL;

	if (getaddrinfo(*address == '\0' ? NULL : address, service, &hints,
					&found) == 0)
	{
		fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		error = errno;
		if (fd >= 0 && (bind(fd, found->ai_addr, found->ai_addrlen) != 0 ||
						listen(fd, 128) != 0))
		{
			error = errno;
			close(fd);
			fd = -1;
		}
		freeaddrinfo(found);
	}
	free(service);
	errno = error;
	return fd;
}

/*
 * Serves a connection in a process of its own, once the other side has proved
 * that it knows the secret.
 */
static void
accept_one(int listener, const char *key, const char *folder, int *children)
{
	int			fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	pid_t		pid;

	if (fd < 0)
		return;
	pid = fork();
	if (pid == 0)
	{
		close(listener);
		if (!StepAccept(fd, key))
			_exit(1);
		StepServe(fd, folder);
	}
	close(fd);
	if (pid > 0)
		++* children;
}
