/*-------------------------------------------------------------------------
 *
 * session_outside.c
 *		The process that carries a session between the relay and the job.
 *
 *     gpucredit-agent session FOLDER NAME PORT RELAY
 *
 * The agent starts it, with the session's digest on standard input. It waits
 * on a socket in the attempt's folder, gives up root, connects to the relay,
 * and once the relay has joined it to the user, asks the keeper to start the
 * session within the job (session_inside.c). It then passes bytes on between
 * the two, and does not read them. Of a terminal it notes when bytes came from
 * the user.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "clock.h"
#include "file.h"
#include "log.h"
#include "memory.h"
#include "relay_stream.h"
#include "session_inside.h"
#include "sessions.h"

#define NOBODY		65534
#define JOIN_NS		(70 * NS_PER_S) /* longer than the relay waits */
#define KEEPER_MS	10000		/* time for the keeper to start the session */

static int	listen_for_keeper(const char *name);
static void drop_root(pid_t agent);
static void join(RelayEnd *end, const char *relay, const char *digest,
				 const char *name);
static int	accept_job(int listener, int control, const char *name,
					   const char *port);
static void refuse(RelayEnd *end, const char *why);
static void note_typed(void);

static int	typed = -1;			/* the file that has when the user last typed;
								 * -1 for a forwarded port */

void
SessionRun(int argc, char **argv)
{
	char		digest[65] = "";
	RelayEnd	user;
	RelayEnd	job = {-1, NULL};
	pid_t		agent = getppid();
	int			listener;
	int			control;
	bool		began;			/* the program runs or has run */

	if (argc != 4 || strlen(argv[1]) != SESSION_NAME ||
		read(STDIN_FILENO, digest, 64) != 64)
		Die("usage: gpucredit-agent session FOLDER NAME PORT RELAY");
	signal(SIGPIPE, SIG_IGN);
	if (chdir(argv[0]) != 0)
		Die("could not enter %s: %s", argv[0], strerror(errno));
	control = open("control", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	listener = control < 0 ? -1 : listen_for_keeper(argv[1]);
	if (control >= 0 && strcmp(argv[2], "0") == 0)
	{
		char	   *path = Format(SESSION_TYPED, argv[1]);

		typed = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		free(path);
	}
	began = control >= 0 || access("exit", F_OK) == 0 ||
		access("gone", F_OK) == 0;
	drop_root(agent);
	join(&user, argv[3], digest, argv[1]);
	job.fd = control < 0 ? -1 : accept_job(listener, control, argv[1],
										   argv[2]);
	if (job.fd < 0)
		refuse(&user, began ? "the job has ended" :
			   "the job's program has not begun to run yet");
	else
		RelayPump(&user, &job, typed < 0 ? NULL : note_typed);
	RelayClose(&job);
	RelayClose(&user);
	exit(0);
}

/* Listens on the socket to which the keeper's process connects. */
static int
listen_for_keeper(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int			fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), SESSION_SOCKET,
			 name);
	(void) umask(077);
	(void) unlink(address.sun_path);
	if (fd < 0 || bind(fd, (struct sockaddr *) &address, sizeof(address)) != 0 ||
		listen(fd, 1) != 0)
		Die("event=no_session session=%s error=\"%s\"", name,
			strerror(errno));
	return fd;
}

/*
 * Becomes a user without rights: this process reads what comes from the
 * network.
 */
static void
drop_root(pid_t agent)
{
	if (geteuid() == 0 && (setgroups(0, NULL) != 0 ||
						   setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
						   setresuid(NOBODY, NOBODY, NOBODY) != 0))
		Die("event=no_session error=\"%s\"", strerror(errno));
	/* A change of the user cancels this. */
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != agent)
		exit(0);
	(void) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/*
 * Meets the user at the relay. The relay proves by the secret that the user has
 * it.
 */
static void
join(RelayEnd *end, const char *relay, const char *digest, const char *name)
{
	int64_t		until = MonotonicNs() + JOIN_NS;
	const char *why = RelayConnect(relay, MonotonicNs() + 15 * NS_PER_S, end);
	char		line[RELAY_LINE];
	char		found[65];

	if (why != NULL)
		Die("event=no_relay session=%s relay=\"%s\" error=\"%s\"", name, relay,
			why);
	snprintf(line, sizeof(line), "GPUCREDIT 1 agent %s", digest);
	if (!RelayWriteLine(end, line, until) ||
		!RelayReadLine(end, line, until))
		Die("event=no_relay session=%s relay=\"%s\" error=\"%s\"", name, relay,
			"it closed the connection");
	if (strncmp(line, "joined ", 7) != 0 || strlen(line) != 71)
		Die("event=session_refused session=%s", name);
	RelayDigest(line + 7, 64, found);
	if (strcmp(found, digest) != 0)
		Die("event=session_refused session=%s error=\"wrong secret\"", name);
}

/*
 * Has the keeper start the session, and returns the connection to it, or -1 if
 * it does not.
 */
static int
accept_job(int listener, int control, const char *name, const char *port)
{
	char	   *line = Format("session %s %s\n", name, port);
	struct pollfd fd = {listener, POLLIN, 0};

	if (write(control, line, strlen(line)) != (ssize_t) strlen(line))
		return -1;
	if (poll(&fd, 1, KEEPER_MS) != 1)
		return -1;
	return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* Tells the user why there is no session. */
static void
refuse(RelayEnd *end, const char *why)
{
	int			ends[2];
	FrameStream stream;
	RelayEnd	job;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
				   ends) != 0)
		return;
	FrameBegin(&stream, ends[0]);
	FramePutText(&stream, FRAME_REFUSED, 0, why);
	FrameFinish(&stream, 1000);
	close(ends[0]);
	job = (RelayEnd)
	{
		ends[1], NULL
	};
	RelayPump(end, &job, NULL);
	RelayClose(&job);
}

/*
 * Writes when the user last sent something, at most once a second. The agent
 * reports that to the database, which ends jobs whose GPUs are idle while nobody
 * types.
 */
static void
note_typed(void)
{
	static int64_t noted;
	int64_t		now = MonotonicNs();

	if (noted != 0 && now - noted < NS_PER_S)
		return;
	if (pwrite(typed, &now, sizeof(now), 0) == (ssize_t) sizeof(now))
		noted = now;
}
