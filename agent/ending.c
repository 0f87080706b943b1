/*-------------------------------------------------------------------------
 *
 * ending.c
 *		Determines how an attempt ended, as arguments of part_ended().
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attempts.h"
#include "file.h"
#include "job_log.h"
#include "log.h"
#include "memory.h"
#include "utf8.h"

#define NOTES_MOST	200			/* most bytes of notes in the message */

static void count_until_gone(const LocalAttempt *attempt, Ending *ending);
static bool add_last_bytes(const LocalAttempt *attempt, Ending *ending);
static void trim(char *text);

/*
 * Records an error that the driver reported of a device while the attempt had
 * it. The notes become part of the message about its end. Each note appears
 * once; beyond the limit, later ones are dropped.
 */
void
AttemptNote(const LocalAttempt *attempt, const char *note)
{
	char	   *notes = attempt->dir < 0 ? NULL :
		FileGet(attempt->dir, "notes", NULL);
	char	   *more = Format("%s%s%s", notes == NULL ? "" : notes,
							  notes == NULL ? "" : "; ", note);

	if (attempt->dir >= 0 && strlen(more) <= NOTES_MOST &&
		(notes == NULL || strstr(notes, note) == NULL) &&
		!FilePut(attempt->dir, "notes", more, strlen(more)))
		LogLine("event=note_not_written attempt=%s note=\"%s\"", attempt->tag,
				note);
	free(notes);
	free(more);
}

/*
 * Puts the notes before the other parts of the message.
 */
static void
add_notes(const LocalAttempt *attempt, Ending *ending)
{
	char	   *notes = attempt->dir < 0 ? NULL :
		FileGet(attempt->dir, "notes", NULL);
	char	   *message;

	if (notes == NULL)
		return;
	message = Format("%s%s%s", notes, ending->message[0] == '\0' ? "" : "\n",
					 ending->message);
	snprintf(ending->message, sizeof(ending->message), "%s", message);
	free(notes);
	free(message);
}

/*
 * Extends the elapsed time until the last process is gone, and until a
 * checkpoint that the settlement waits for is read, because the devices are in
 * use until then.
 */
static void
count_until_gone(const LocalAttempt *attempt, Ending *ending)
{
	char	   *gone = attempt->dir < 0 ? NULL :
		FileGet(attempt->dir, "gone", NULL);
	int64_t		elapsed = gone == NULL ? 0 : strtoll(gone, NULL, 10);

	if (elapsed > ending->elapsed_us)
		ending->elapsed_us = elapsed;
	if (ending->elapsed_us >= 0 && attempt->held_ns > attempt->gone_ns)
		ending->elapsed_us += (attempt->held_ns - attempt->gone_ns) / 1000;
	free(gone);
}

/*
 * Adds the end of a standard error that went to a file of the job. Returns
 * false if it went to the log.
 */
static bool
add_last_bytes(const LocalAttempt *attempt, Ending *ending)
{
	size_t		len = 0;
	char	   *text = FileGet(attempt->dir, "last_bytes", &len);

	if (text == NULL)
		return false;
	snprintf(ending->message, sizeof(ending->message), "%s",
			 text + (len > MESSAGE_MOST ? len - MESSAGE_MOST : 0));
	trim(ending->message);
	free(text);
	return true;
}

/* Removes white space at the end of a text. */
static void
trim(char *text)
{
	size_t		n = strlen(text);

	while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL)
		n--;
	text[n] = '\0';
}

/*
 * Determines the arguments of part_ended() from "exit" and the reason to stop.
 */
void
AttemptEnding(const LocalAttempt *attempt, Ending *ending)
{
	static const struct
	{
		const char *reason;
		const char *outcome;
	}			outcomes[] = {
		{"cancelled", "cancelled"}, {"wall_limit", "timeout"},
		{"idle", "timeout"},
		{"stuck", "failed"}, {"resized", "resized"},
		{"requeued", "requeued"},
		{"preempted", "preempted"}, {"moved", "preempted"},
		{"drain", "preempted"}, {"reclaim", "preempted"},
		{"low_funds", "preempted"}, {"part_failed", "failed"},
		{"script_ended", "completed"},
	};
	char	   *line = attempt->unwritten != NULL ? Dup(attempt->unwritten) :
		FileGet(attempt->dir, "exit", NULL);
	char		kind[32] = EXIT_LOST;
	int			status = 0;
	long long	elapsed = -1;
	int			at = 0;
	KeeperState *state = FileMap(attempt->dir, "state", sizeof(KeeperState),
								 false);

	memset(ending, 0, sizeof(Ending));
	ending->exit_code = -1;
	strcpy(ending->outcome, "failed");
	if (line != NULL)
	{
		(void) sscanf(line, "%31s %d %lld %n", kind, &status, &elapsed, &at);
		snprintf(ending->message, sizeof(ending->message), "%.*s",
				 (int) strcspn(line + at, "\n"), line + at);
	}
	ending->elapsed_us = elapsed;
	count_until_gone(attempt, ending);
	if (strcmp(kind, EXIT_EXITED) == 0 || strcmp(kind, EXIT_KILLED) == 0)
	{
		ending->exit_code = strcmp(kind, EXIT_KILLED) == 0 ? 128 + status :
			status;
		if (ending->exit_code == 0)
			strcpy(ending->outcome, "completed");
		else if (state != NULL && state->oom_kills > 0)
			strcpy(ending->outcome, "out_of_memory");
	}
	else if (strcmp(kind, EXIT_NOT_STARTED) == 0)
		strcpy(ending->outcome, "not_started");
	else if (strcmp(kind, EXIT_NO_IMAGE) == 0)
		strcpy(ending->outcome, "failed");
	else
		strcpy(ending->outcome, "node_lost");
	if (ending->exit_code >= 0 && attempt->dir >= 0 &&
		FileThere(attempt->dir, "requeue"))
		strcpy(ending->outcome, "requeued");
	for (size_t i = 0; attempt->stop_reason != NULL &&
		 i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
	{
		if (strcmp(attempt->stop_reason, outcomes[i].reason) == 0)
			strcpy(ending->outcome, outcomes[i].outcome);
	}
	if ((ending->exit_code > 0 || strcmp(kind, EXIT_NOT_STARTED) == 0) &&
		ending->message[0] == '\0' && !add_last_bytes(attempt, ending) &&
		state != NULL)
	{
		int			file = openat(attempt->dir, "stderr",
								  O_RDONLY | O_CLOEXEC);

		if (file >= 0)
		{
			size_t		n = JobLogTail(file, state->log_bytes[1],
									   ending->message, MESSAGE_MOST);

			ending->message[n] = '\0';
			trim(ending->message);
			close(file);
		}
	}
	add_notes(attempt, ending);
	Utf8Mend(ending->message);
	if (state != NULL)
		munmap(state, sizeof(KeeperState));
	free(line);
}
