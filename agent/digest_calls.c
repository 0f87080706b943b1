/*-------------------------------------------------------------------------
 *
 * digest_calls.c
 *		Reports digests of checkpoints to the database: of one that a job
 *		saved, or of the one that an attempt starts from.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call_repeat.h"
#include "checkpoints.h"
#include "clock.h"
#include "config.h"
#include "db.h"
#include "digest_calls.h"
#include "log.h"
#include "memory.h"
#include "node_proof.h"
#include "orders.h"

static void resume_answered(PGresult * result, void *context);
static void save_answered(PGresult * result, void *context);

/*
 * Returns an attempt with a digest to report. The attempt's elapsed time is
 * reported first, because the checkpoint's progress counts from it.
 */
LocalAttempt *
DigestNext(bool resumes)
{
	int64_t		now = MonotonicNs();

	for (LocalAttempt *a = attempts; a != NULL; a = a->next)
	{
		if (!a->digest.ready || a->resumes != resumes ||
			a->phase == PHASE_SETTLED || now < a->settle_due_ns)
			continue;
		if (resumes || a->digest.metered || !AttemptMeters(a))
			return a;
		a->meter_due_ns = 0;
	}
	return NULL;
}

/*
 * Reports the digest of the checkpoint that an attempt starts from.
 */
void
DigestResume(LocalAttempt *attempt)
{
	const FileDigest *digest = &attempt->digest;
	char	   *job = Format("%lld", (long long) attempt->job);
	char	   *number = Format("%d", attempt->number);
	char	   *from = Format("%d", attempt->from_attempt);
	char	   *step = Format("%lld", (long long) attempt->from_step);
	const char *values[7] = {config.key, attempt->org, job, number, from,
	step, digest->sha256[0] == '\0' ? NULL : digest->sha256};

	DbCall("SELECT good, from_attempt, from_step, uri,"
		   " pg_catalog.encode(sha256, 'hex') AS sha256, size_bytes"
		   FROM_PROVEN("checkpoint_loaded", "$2::pg_catalog.text")
		   ", $3, $4, $5, $6, pg_catalog.decode($7, 'hex'))", 7, values,
		   resume_answered,
		   attempt);
	free(job);
	free(number);
	free(from);
	free(step);
}

/*
 * Starts the attempt from that checkpoint if it is good, otherwise from the
 * checkpoint that the database names.
 */
static void
resume_answered(PGresult * result, void *context)
{
	LocalAttempt *attempt = context;
	json_t	   *checkpoint = NULL;
	bool		good;

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		/*
		 * The attempt has ended, or soon will: the next heartbeat's answer
		 * shows that.
		 */
		attempt->settle_due_ns = MonotonicNs() + NS_PER_S;
		return;
	}
	good = strcmp(DbField(result, 0, "good"), "t") == 0;
	if (DbField(result, 0, "uri") != NULL)
		checkpoint = json_pack("{s:I, s:I, s:s, s:s, s:I}", "attempt",
							   (json_int_t) atoi(DbField(result, 0,
														 "from_attempt")),
							   "step", (json_int_t)
							   strtoll(DbField(result, 0, "from_step"), NULL,
									   10),
							   "uri", DbField(result, 0, "uri"),
							   "sha256", DbField(result, 0, "sha256"),
							   "size_bytes", (json_int_t)
							   strtoll(DbField(result, 0, "size_bytes"), NULL,
									   10));
	CheckpointDone(attempt);
	attempt->saved_step = -1;
	AttemptResume(attempt, good, checkpoint);
	json_decref(checkpoint);
}

/*
 * Reports the digest of a checkpoint that a job saved.
 */
void
DigestSave(LocalAttempt *attempt)
{
	const FileDigest *digest = &attempt->digest;
	char	   *job = Format("%lld", (long long) attempt->job);
	char	   *number = Format("%d", attempt->number);
	char	   *step = Format("%lld", (long long) digest->step);
	char	   *size = Format("%lld", (long long) digest->size);
	const char *values[8] = {config.key, attempt->org, job, number, step,
	digest->path, digest->sha256, size};

	DbCall("SELECT 1" FROM_PROVEN("checkpoint", "$2::pg_catalog.text")
		   ", $3, $4, $5, $6, pg_catalog.decode($7, 'hex'), $8)", 8, values,
		   save_answered, attempt);
	free(job);
	free(number);
	free(step);
	free(size);
}

/*
 * Clears the digest that the database has stored or refused permanently.
 * Repeats the call if the server could not store it.
 */
static void
save_answered(PGresult * result, void *context)
{
	LocalAttempt *attempt = context;
	const char *state = result == NULL ? "" : DbState(result);

	if (CallMayRepeat(result) != REPEAT_NEVER)
	{
		LogLine("event=checkpoint_delayed attempt=%s state=%s", attempt->tag,
				state);
		attempt->settle_due_ns = MonotonicNs() + NS_PER_S;
		return;
	}
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		LogLine("event=checkpoint_refused attempt=%s state=%s error=\"%s\"",
				attempt->tag, state,
				PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
	else
		LogLine("event=saved attempt=%s step=%lld", attempt->tag,
				(long long) attempt->digest.step);
	CheckpointDone(attempt);
}
