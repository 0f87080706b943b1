/*-------------------------------------------------------------------------
 *
 * forward.c
 *		gpucredit forward: brings a port of a running job to this machine.
 *
 * It listens on this machine's loopback address only. Each connection leads to
 * the port in the job, until the command is interrupted or the job ends.
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli.h"
#include "session.h"
#include "session_forward.h"

static const char usage[] =
"usage: gpucredit forward [--node NODE] JOB [LOCAL:]PORT";

int
CliForward(int argc, char **argv)
{
	static const struct option options[] = {
		{"node", required_argument, NULL, 'n'},
		{NULL, 0, NULL, 0}
	};
	const char *node = NULL;
	const char *colon;
	int			option;
	int			port;
	int			local;
	int			listener;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
	{
		if (option != 'n')
			Fail(CLI_USAGE, "%s", usage);
		node = optarg;
	}
	if (argc - optind != 2)
		Fail(CLI_USAGE, "%s", usage);
	colon = strchr(argv[optind + 1], ':');
	port = (int) CliNumber(colon == NULL ? argv[optind + 1] : colon + 1, 1,
						   65535, "a port");
	local = colon == NULL ? port :
		(int) CliNumber(Format("%.*s", (int) (colon - argv[optind + 1]),
							   argv[optind + 1]), 0, 65535, "a port");
	listener = SessionListen(&local);
	if (listener < 0)
		Fail(CLI_REFUSED, "could not listen on port %d of this machine: %s:"
			 " write another one before it, as in 0:%d", local,
			 strerror(errno), port);
	fprintf(stderr, "gpucredit: port %d of job %s is at 127.0.0.1:%d\n", port,
			argv[optind], local);
	return SessionForward(argv[optind], port, node, listener);
}

/*
 * Listens on the loopback address. With port 0 it chooses a free one. Returns
 * -1 with errno set on failure.
 */
int
SessionListen(int *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons(*port),.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	len = sizeof(address);
	const int	on = 1;
	int			fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK |
							SOCK_CLOEXEC, 0);

	if (fd < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
		bind(fd, (struct sockaddr *) &address, sizeof(address)) != 0 ||
		listen(fd, 64) != 0 ||
		getsockname(fd, (struct sockaddr *) &address, &len) != 0)
		return -1;
	*port = ntohs(address.sin_port);
	return fd;
}

/* Forwards connections until the session ends. Returns the exit status. */
int
SessionForward(const char *job, int port, const char *node, int listener)
{
	FrameStream stream;

	SessionOpen(&stream, job, port, node);
	ForwardConnections(&stream, listener, SessionReport);
	fprintf(stderr, "gpucredit: the session ended: the job is over, or the"
			" connection was lost\n");
	return CLI_REFUSED;
}
