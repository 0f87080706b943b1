/*-------------------------------------------------------------------------
 *
 * gate.c
 *		Answers job_submit.lua, which asks at submission whether a job would
 *		be refused.
 *
 * A question is a line, "ACCOUNT REQUEST MINUTES"; the answer is "ok", or "no"
 * and the reason. The gate calls reserve() in a transaction that it rolls
 * back, so the answer is the one that the sweep will get a moment later. If
 * the database cannot be reached, the gate gives no answer, and Slurm accepts
 * the job in the held state.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "call_repeat.h"
#include "log.h"
#include "memory.h"
#include "slurm.h"

#define QUESTION_MS		100		/* a client that sends nothing for so long is
								 * dropped */

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
 * Reads one question and answers it.
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

	/*
	 * A client that waited too long has closed the connection: serve the next
	 * client.
	 */
	if (sscanf(line, "%255s %255s %ld", account, request, &minutes) != 3 ||
		(poll(&waits, 1, 0) > 0 && (waits.revents & POLLHUP) != 0))
		return;
	answer = judge(account, request, minutes);
	if (answer != NULL)
		(void) send(client, answer, strlen(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
	free(answer);
}

/*
 * Returns the answer to a question, or NULL if the database gives none.
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
		else if (CallMayRepeat(asked) == REPEAT_NEVER && code != NULL &&
				 (strncmp(code, "UC", 2) == 0 || strcmp(code, "22023") == 0))
			answer = Format("no %s\n", PQresultErrorField(asked,
														  PG_DIAG_MESSAGE_PRIMARY));
	}
	PQclear(asked);
	PayerFree(&payer);
	return answer;
}

/*
 * Whether a refusal is final. By default it is not if credit may arrive later,
 * or if a budget or quota may be freed; the setting "refuse" can make these
 * reasons final, too.
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
