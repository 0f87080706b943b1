/*-------------------------------------------------------------------------
 *
 * gate.c
 *		Answers job_submit.lua: would this job be refused?
 *
 * A question is a line, "ACCOUNT REQUEST MINUTES"; the answer is "ok", or "no"
 * and the reason.  The gate calls reserve() in a transaction that it rolls
 * back: so the answer is what the sweep will get a moment later.  If the
 * database is away there is no answer, and Slurm accepts the job, held.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "slurm.h"
#include "util.h"

#define QUESTION_MS		100		/* the gate drops a client that is silent for
								 * so long */

static void answer(int client);
static char *judge(const char *account, const char *request, long minutes);
static bool is_sure(const char *reason);

void
GateRun(int listener)
{
	for (;;)
	{
		struct pollfd waits = {listener, POLLIN, 0};
		int			client;

		if (poll(&waits, 1, -1) < 0 && errno != EINTR)
			Die("could not wait: %s", strerror(errno));
		client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (client < 0)
			continue;
		answer(client);
		close(client);
	}
}

/*
 * Read one question, and answer it.
 */
static void
answer(int client)
{
	struct pollfd waits = {client, POLLIN, 0};
	char		line[1024];
	char		account[256];
	char		request[256];
	long		minutes;
	ssize_t		n;
	char	   *answer;

	if (poll(&waits, 1, QUESTION_MS) <= 0)
		return;
	n = recv(client, line, sizeof(line) - 1, MSG_DONTWAIT);
	if (n <= 0)
		return;
	line[n] = '\0';
	/* a client that waited too long has hung up: serve the next one */
	if (sscanf(line, "%255s %255s %ld", account, request, &minutes) != 3 ||
		(poll(&waits, 1, 0) > 0 && (waits.revents & POLLHUP) != 0))
		return;
	answer = judge(account, request, minutes);
	if (answer != NULL)
		(void) send(client, answer, strlen(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
	free(answer);
}

/*
 * The answer; NULL: the database gives none.
 */
static char *
judge(const char *account, const char *request, long minutes)
{
	SlurmPayer	payer;
	PGresult   *asked;
	const char *code;
	char	   *answer = NULL;

	if (!PayerFind(account, &payer))
		return Format("no account \"%s\" has no credit here\n", account);
	asked = Reserve(&payer, "asked at submission", request, minutes, "{}",
					true);
	if (asked != NULL)
	{
		code = PQresultErrorField(asked, PG_DIAG_SQLSTATE);
		if (PQntuples(asked) == 1)
			answer = strcmp(PQgetvalue(asked, 0, 1), "granted") == 0 ||
				!is_sure(PQgetvalue(asked, 0, 2)) ? Dup("ok\n") :
				Format("no %s\n", PQgetvalue(asked, 0, 2));
		else if (code != NULL && (strncmp(code, "UC", 2) == 0 ||
								  strcmp(code, "22023") == 0))
			answer = Format("no %s\n", PQresultErrorField(asked,
														  PG_DIAG_MESSAGE_PRIMARY));
	}
	PQclear(asked);
	PayerFree(&payer);
	return answer;
}

/*
 * Is the refusal final?  Credit may come, and a budget or quota may be freed,
 * unless the configuration refuses for these, too.
 */
static bool
is_sure(const char *reason)
{
	return (strcmp(reason, "insufficient_credits") != 0 &&
			strcmp(reason, "budget_exceeded") != 0 &&
			strcmp(reason, "quota_exceeded") != 0 &&
			strcmp(reason, "uncollected") != 0) ||
		strstr(slurm.refuse, reason) != NULL;
}
