/*-------------------------------------------------------------------------
 *
 * keep_log.c
 *		Hands over the output of ended attempts, so that it outlives the node.
 *
 * After the settlement, when no other call is due, the agent hands an
 * attempt's two streams to the database, a piece with each call.  The answer
 * names the next piece, so only the database knows how much a site keeps.
 * If the configuration names a folder, the output is written there first
 * (log_folder.c), and the database only receives the paths of its files.
 *
 * The file "output_kept" exists once both streams are handed over.  An agent
 * that was restarted before then begins with the first byte again, and the
 * database keeps no piece twice.
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "config.h"
#include "crash_point.h"
#include "db.h"
#include "file.h"
#include "keep_log.h"
#include "log.h"
#include "log_folder.h"
#include "log_piece.h"
#include "memory.h"
#include "node_proof.h"

#define PAUSE_LEAST	NS_PER_S
#define PAUSE_MOST	(60 * NS_PER_S)

static int64_t due_ns;
static int64_t pause_ns;
static char *in_flight;			/* tag of the attempt whose piece is in the
								 * call in flight */

static bool has_output(const LocalAttempt *attempt);
static void note_kept(LocalAttempt *attempt);
static void hand_over(LocalAttempt *attempt);
static void handed_over(PGresult * result, void *context);

/*
 * Hands over one piece of an attempt's output.  Returns whether it made a
 * call.
 */
bool
KeepLog(void)
{
	if (MonotonicNs() < due_ns)
		return false;
	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->phase != PHASE_SETTLED || a->output_kept)
			continue;
		if (!has_output(a))
			note_kept(a);
		else if (*config.log_folder == '\0' || LogFolderWrite(a))
		{
			hand_over(a);
			return true;
		}
	}
	return false;
}

/*
 * Returns when KeepLog() has a call to make, on the monotonic clock, or
 * INT64_MAX if it has none.
 */
int64_t
KeepLogDue(void)
{
	for (const LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (a->phase == PHASE_SETTLED && !a->output_kept &&
			(*config.log_folder == '\0' || a->in_log_folder))
			return due_ns;
	}
	return INT64_MAX;
}

/*
 * Whether the node has output of the attempt.  It has none of an attempt that
 * another scheduler ran.
 */
static bool
has_output(const LocalAttempt *attempt)
{
	int			dir = attempt->forgotten || attempt->foreign != NULL ? -1 :
		AttemptFolder(attempt);
	bool		has = dir >= 0 && FileThere(dir, "state");

	if (dir >= 0)
		close(dir);
	return has;
}

/*
 * Records that all of the attempt's output is handed over.  If the disk is
 * full, a restarted agent hands it over again, which changes nothing.
 */
static void
note_kept(LocalAttempt *attempt)
{
	int			dir = AttemptFolder(attempt);

	attempt->output_kept = true;
	if (dir < 0)
		return;
	if (!FilePut(dir, "output_kept", "", 0))
		LogLine("event=output_kept_not_written attempt=%s error=\"%s\"",
				attempt->tag, strerror(errno));
	close(dir);
}

/*
 * Hands the next piece of an attempt's output over to the database, which
 * answers from which byte the following one begins.
 */
static void
hand_over(LocalAttempt *attempt)
{
	static LogPiece piece;
	int			stream = attempt->keep_stream;
	char	   *uri = *config.log_folder == '\0' ? NULL :
		LogFolderFile(attempt, stream);
	char	   *body;
	char	   *numbers[5];
	const char *values[12];

	LogPieceRead(attempt, stream, attempt->keep_from, &piece);
	/* If the stream is in a file, only the file's name is handed over. */
	if (piece.message != NULL || uri != NULL)
	{
		piece.first = 0;
		piece.len = 0;
	}
	body = LogPieceHex(&piece);
	numbers[0] = Format("%lld", (long long) attempt->job);
	numbers[1] = Format("%d", attempt->number);
	numbers[2] = Format("%llu", (unsigned long long) piece.first);
	numbers[3] = Format("%llu", (unsigned long long) piece.written);
	numbers[4] = Format("%llu", (unsigned long long) piece.dropped);
	values[0] = config.key;
	values[1] = attempt->org;
	values[2] = numbers[0];
	values[3] = numbers[1];
	values[4] = config.node;
	values[5] = LogStreams[stream];
	values[6] = numbers[2];
	values[7] = body;
	values[8] = numbers[3];
	values[9] = numbers[4];
	values[10] = piece.message;
	values[11] = piece.message != NULL ? NULL : uri;
	CrashPoint("keep_log");
	free(in_flight);			/* DbCall() may call handed_over() at once */
	in_flight = Dup(attempt->tag);
	DbCall("SELECT k.next" FROM_PROVEN("log_keep", "$2::pg_catalog.text")
		   ", $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) k (next)", 12,
		   values, handed_over, NULL);
	for (int i = 0; i < 5; i++)
		free(numbers[i]);
	free(body);
	free(uri);
	free(piece.message);
}

/*
 * Continues at the byte that the database names, or with the other stream.
 * After an error that a repetition would meet again, the output is not handed
 * over; after any other error the agent pauses.
 */
static void
handed_over(PGresult * result, void *context)
{
	LocalAttempt *attempt = attempts;
	const char *state = result == NULL ? "" : DbState(result);

	(void) context;
	while (attempt != NULL && strcmp(attempt->tag, in_flight) != 0)
		attempt = attempt->next;
	if (attempt == NULL)
		return;					/* its folder was removed meanwhile */
	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1)
	{
		pause_ns = 0;
		if (!PQgetisnull(result, 0, 0))
		{
			attempt->keep_from = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
			return;
		}
		attempt->keep_from = 0;
		if (++attempt->keep_stream == 2)
			note_kept(attempt);
		return;
	}
	if (result != NULL)
		LogLine("event=output_refused attempt=%s state=%s error=\"%s\"",
				attempt->tag, state,
				PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
	if (strncmp(state, "UC3", 3) == 0 || strcmp(state, "UC001") == 0 ||
		strncmp(state, "22", 2) == 0)
	{
		note_kept(attempt);
		return;
	}
	pause_ns = pause_ns == 0 ? PAUSE_LEAST :
		pause_ns * 2 > PAUSE_MOST ? PAUSE_MOST : pause_ns * 2;
	due_ns = MonotonicNs() + pause_ns;
}
