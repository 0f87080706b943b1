/*-------------------------------------------------------------------------
 *
 * session.c
 *		Opens terminals and forwarded ports in running jobs.
 *
 * The database returns a secret and the relay's address, with which the
 * command meets the agent of the job's node (lib/relay.c). A child process has
 * the TLS connection and passes its bytes on, so that the commands read and
 * write a plain socket.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli.h"
#include "clock.h"
#include "relay_stream.h"
#include "session.h"

#define CONNECT_NS	(15 * NS_PER_S)
#define AGENT_NS	(70 * NS_PER_S) /* longer than the relay waits */

static void meet_agent(RelayEnd *end, const char *job, const char *relay,
					   const char *secret);
static void fail_if_over(const char *job);
static void pass_on(RelayEnd *end, FrameStream *stream);

/*
 * Opens a session of a job: a terminal, or with a port the forwarding of that.
 * Ends the command if that is refused.
 */
void
SessionOpen(FrameStream *stream, const char *job, int port, const char *node)
{
	char	   *number = port == 0 ? NULL : Format("%d", port);
	const char *values[] = {CliOrg(), job, port == 0 ? "terminal" : "forward",
	number, node};
	PGresult   *result;
	RelayEnd	end;

	(void) CliNumber(job, 1, INT64_MAX, "a job");
	result = CliCall("SELECT s.relay, s.secret FROM"
					 " gpucredit.open_session($1, $2::bigint, $3, $4::int, $5)"
					 " s", 5, values);
	signal(SIGPIPE, SIG_IGN);
	meet_agent(&end, job, PQgetvalue(result, 0, 0), PQgetvalue(result, 0, 1));
	PQclear(result);
	pass_on(&end, stream);
}

/*
 * Connects to the relay and waits until it has joined this command to the agent
 * of the job's node. Ends the command if that fails. The agent does not come if
 * the job has ended meanwhile.
 */
static void
meet_agent(RelayEnd *end, const char *job, const char *relay,
		   const char *secret)
{
	const char *why = RelayConnect(relay, MonotonicNs() + CONNECT_NS, end);
	int64_t		until = MonotonicNs() + AGENT_NS;
	char		line[RELAY_LINE];

	if (why != NULL)
		Fail(CLI_REFUSED, "could not use the relay %.*s: %s",
			 (int) strcspn(relay, " "), relay, why);
	snprintf(line, sizeof(line), "GPUCREDIT 1 caller %s", secret);
	if (!RelayWriteLine(end, line, until) ||
		!RelayReadLine(end, line, until))
		Fail(CLI_REFUSED, "the relay closed the connection");
	if (strcmp(line, "joined") != 0)
	{
		fail_if_over(job);
		Fail(CLI_REFUSED, "the relay refused: %s",
			 strncmp(line, "refused ", 8) == 0 ? line + 8 :
			 "it is no relay of this version");
	}
}

/* Ends the command if the job has ended. */
static void
fail_if_over(const char *job)
{
	const char *values[] = {CliOrg(), job};
	PGresult   *row = CliCall("SELECT FROM gpucredit.jobs j"
							  " WHERE j.org = $1 AND j.job = $2::bigint"
							  " AND j.ended_at IS NOT NULL", 2, values);

	if (PQntuples(row) != 0)
		Fail(CLI_REFUSED, "job %s ended before it could be reached:"
			 " \"gpucredit logs %s\" shows why", job, job);
	PQclear(row);
}

/*
 * Starts the child that passes bytes on between the relay and the command. It
 * ends with the command.
 */
static void
pass_on(RelayEnd *end, FrameStream *stream)
{
	int			ends[2];
	pid_t		command = getpid();
	pid_t		pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
				   ends) != 0 || (pid = fork()) < 0)
		Fail(CLI_REFUSED, "could not start a process: %s", strerror(errno));
	if (pid == 0)
	{
		RelayEnd	here = {ends[0], NULL};

		/* Keys that interrupt the command are for the job. */
		setsid();
		(void) prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != command)
			_exit(0);
		close(ends[1]);
		RelayPump(end, &here, NULL);
		close(here.fd);
		RelayClose(end);
		_exit(0);
	}
	close(ends[0]);
	close(end->fd);
	FrameBegin(stream, ends[1]);
}

/*
 * Prints a reason that comes from the job's node. The job's own programs may
 * have written it, so control characters are replaced.
 */
void
SessionReport(const char *why, size_t len)
{
	fprintf(stderr, "gpucredit: ");
	for (size_t i = 0; i < len && i < 400; i++)
		fputc((unsigned char) why[i] < ' ' || why[i] == 127 ||
			  (why[i] & 0x80) != 0 ? '?' : why[i], stderr);
	fputc('\n', stderr);
}
