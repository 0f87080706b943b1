/*-------------------------------------------------------------------------
 *
 * job_signals.c
 *		Delivers signals that people send to this node's jobs.
 *
 * A heartbeat's answer names each signal until the node report names its id.
 * The id is written into the attempt's folder before the signal is sent, so
 * that an agent that starts again does not send it twice. If the agent dies
 * between these two steps, the signal is lost.
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "crash_point.h"
#include "file.h"
#include "gang.h"
#include "job_signals.h"
#include "log.h"
#include "memory.h"
#include "orders.h"

#define ID_LENGTH	36			/* length of an id, which is a UUID */
#define REMEMBERED	64			/* how many ids an attempt's folder keeps; the
								 * database repeats fewer */

/* A signal that was delivered and that the database still names. */
typedef struct Delivered
{
	char		id[ID_LENGTH + 1];
	bool		named;			/* the present answer names it */
	struct Delivered *next;
} Delivered;

static Delivered *delivered;

static bool deliver(LocalAttempt *attempt, const char *id, int number,
					const char *target);
static void remember(const char *id);
static bool serves_only_steps(const LocalAttempt *attempt, bool *once);

/* Returns the number of a signal, or 0 if jobs cannot get it. */
int
JobSignalNumber(const char *name)
{
	static const struct
	{
		const char *name;
		int			number;
	}			signals[] = {
		{"HUP", SIGHUP}, {"INT", SIGINT}, {"QUIT", SIGQUIT}, {"USR1", SIGUSR1},
		{"USR2", SIGUSR2}, {"TERM", SIGTERM}, {"CONT", SIGCONT}
	};

	for (size_t i = 0; name != NULL &&
		 i < sizeof(signals) / sizeof(signals[0]); i++)
	{
		if (strcmp(name, signals[i].name) == 0)
			return signals[i].number;
	}
	return 0;
}

/* Begins an answer, which names all signals that are not reported yet. */
void
JobSignalsBegin(void)
{
	for (Delivered *d = delivered; d != NULL; d = d->next)
		d->named = false;
}

/*
 * Delivers the signal of a row of a heartbeat's answer, unless that was done
 * already. A signal for a program that is not executed yet is delivered by a
 * later heartbeat.
 */
void
JobSignalSend(const Order *order)
{
	LocalAttempt *attempt = AttemptFind(order->org, order->job,
										order->number);
	json_t	   *spec = order->spec == NULL ? NULL :
		json_loads(order->spec, 0, NULL);
	const char *id = json_string_value(json_object_get(spec, "id"));
	const char *target = json_string_value(json_object_get(spec, "target"));
	int			number = JobSignalNumber(json_string_value(
														   json_object_get(spec, "signal")));
	bool		known = id == NULL || strlen(id) != ID_LENGTH ||
		strspn(id, "0123456789abcdef-") != ID_LENGTH;

	for (Delivered *d = delivered; d != NULL && !known; d = d->next)
	{
		if (strcmp(d->id, id) == 0)
			known = d->named = true;
	}
	if (!known && target != NULL && number != 0 && attempt != NULL &&
		attempt->phase == PHASE_RUNS && attempt->foreign == NULL &&
		attempt->dir >= 0 && attempt->control >= 0 &&
		attempt->state != NULL && attempt->state->exec_ns != 0 &&
		deliver(attempt, id, number, target))
	{
		remember(id);
		BeatSoon();
	}
	json_decref(spec);
}

/*
 * Writes a signal's id down and sends the signal to the keeper. Returns
 * whether the signal is delivered now, or was before this agent started.
 */
static bool
deliver(LocalAttempt *attempt, const char *id, int number, const char *target)
{
	char	   *before = FileGet(attempt->dir, "signals", NULL);
	const char *kept = before == NULL ? "" : before;
	char	   *after;
	bool		once;
	bool		sent;

	if (strstr(kept, id) != NULL)
	{
		free(before);
		return true;
	}
	if (strlen(kept) >= REMEMBERED * (ID_LENGTH + 1))
		kept += ID_LENGTH + 1;
	after = Format("%s%s\n", kept, id);
	sent = FilePut(attempt->dir, "signals", after, strlen(after));
	if (sent)
	{
		/* A job without a script consists of nothing but tasks. */
		if (serves_only_steps(attempt, &once) && strcmp(target, "all") != 0)
			target = NULL;
		else if (!once && strcmp(target, "steps") == 0)
			target = "all";
		sent = target == NULL ||
			AttemptCommand(attempt, "signal %d %s\n", number, target);
		if (sent)
			LogLine("event=signal attempt=%s signal=%d target=%s",
					attempt->tag, number, target == NULL ? "none" : target);
		else
			(void) FilePut(attempt->dir, "signals", kept, strlen(kept));
	}
	CrashPoint("signal");
	free(after);
	free(before);
	return sent;
}

/*
 * Whether this node runs only what the script on the first node starts here.
 * Sets whether the attempt has such a script.
 */
static bool
serves_only_steps(const LocalAttempt *attempt, bool *once)
{
	json_t	   *intent = AttemptIntent(attempt->dir);
	Launch		launch = {.spec = json_object_get(intent, "spec")};

	*once = GangRunsOnce(&launch);
	json_decref(intent);
	return *once && attempt->rank > 0;
}

/* Adds a signal to those that the next node report names. */
static void
remember(const char *id)
{
	Delivered  *d = Alloc(sizeof(Delivered));

	snprintf(d->id, sizeof(d->id), "%s", id);
	d->named = true;
	d->next = delivered;
	delivered = d;
}

/* Ends an answer: signals that it does not name are reported. */
void
JobSignalsEnd(void)
{
	Delivered **link = &delivered;

	while (*link != NULL)
	{
		Delivered  *d = *link;

		if (d->named)
			link = &d->next;
		else
		{
			*link = d->next;
			free(d);
		}
	}
}

/* Returns the ids of the signals that were delivered, for the node report. */
json_t *
JobSignalsDelivered(void)
{
	json_t	   *list = json_array();

	for (const Delivered *d = delivered; d != NULL; d = d->next)
		json_array_append_new(list, json_string(d->id));
	return list;
}
