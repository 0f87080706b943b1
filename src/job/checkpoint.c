/*-------------------------------------------------------------------------
 *
 * checkpoint.c
 *		Stores an attempt's checkpoints, and how much work each one saves.
 *
 * A checkpoint saves the work of the time that was metered before its report.
 * The attempt's row is locked, so that a settlement sees either the whole
 * report or nothing.
 *
 * Locks: attempt, then the rows of its devices.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "audit/event.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "util/not_found.h"
#include "api/api.h"
#include "job/checkpoint.h"
#include "job/job.h"
#include "lib/stringinfo.h"


API_FUNCTION(gpucredit_checkpoint, checkpoint);

SQL_STATEMENT(checkpoint_last, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT c.step, c.elapsed FROM gpucredit.checkpoint c"
			  " WHERE c.org = $1 AND c.job = $2 AND c.attempt = $3"
			  " ORDER BY c.step DESC LIMIT 1");
SQL_STATEMENT(checkpoint_same, SPI_OK_SELECT,
			  "text, bigint, int, bigint, text, bytea, bigint",
			  "SELECT c.uri = $5 AND c.sha256 = $6 AND c.size_bytes = $7"
			  " FROM gpucredit.checkpoint c WHERE c.org = $1 AND c.job = $2"
			  " AND c.attempt = $3 AND c.step = $4");
/*
 * The attempt's row stores a digest of its checkpoints, by which verify()
 * finds a changed row.
 */
SQL_STATEMENT(checkpoint_insert, SPI_OK_UPDATE,
			  "text, bigint, int, bigint, text, bytea, bigint, timestamptz,"
			  " interval",
			  "WITH c AS (INSERT INTO gpucredit.checkpoint AS n (org, job,"
			  " attempt, step, uri, sha256, size_bytes, at, elapsed)"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING"
			  " pg_catalog.hash_record_extended(ROW(n.step, n.uri, n.sha256,"
			  " n.size_bytes, n.at, n.elapsed), 0) AS hash)"
			  " UPDATE gpucredit.attempt a SET saved_at = $8,"
			  " checkpoint_digest ="
			  " a.checkpoint_digest OPERATOR(pg_catalog.#) c.hash FROM c"
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3");
SQL_STATEMENT(devices_saved, SPI_OK_UPDATE,
			  "text, bigint, int, timestamptz",
			  "UPDATE gpucredit.attempt_gpu g SET saved_at = $4"
			  " WHERE g.org = $1 AND g.job = $2 AND g.attempt = $3");
SQL_STATEMENT(job_exists, SPI_OK_SELECT, "text, bigint",
			  "SELECT 1 FROM gpucredit.job j"
			  " WHERE j.org = $1 AND j.job = $2");

static void check_step(const Attempt *attempt, int64 step);
static void write_saved(const Attempt *attempt, int64 step, int64 size,
						TimestampTz now);

Datum
call_checkpoint(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		job = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	int32		number = ArgInt4(fcinfo, 2, "attempt", PG_INT32_MIN,
								 PG_INT32_MAX);
	int64		step = ArgInt8(fcinfo, 3, "step", 0, PG_INT64_MAX);
	char	   *uri = ArgText(fcinfo, 4, "uri");
	bytea	   *sha256 = ArgSha256(fcinfo, 5, "sha256");
	int64		size = ArgInt8(fcinfo, 6, "size_bytes", 0, PG_INT64_MAX);
	Attempt		attempt;
	Values	   *args;
	SqlResult	row;

	if (*uri == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"uri\" is empty"),
				 errdetail("The next attempt must be able to find the "
						   "checkpoint."),
				 errhint("Pass the location of the checkpoint.")));
	SqlConnect();
	CheckpointLockAttempt(org, job, number, &attempt);
	args = VALUES(ATTEMPT_KEY(&attempt), Int8Value(step), TextValue(uri),
				  DatumValue(PointerGetDatum(sha256)), Int8Value(size));
	row = SqlRun(&checkpoint_same, args);
	if (row.n == 0 || !SqlBool(row, 0, 1))
	{
		TimestampTz now = ClockNow();

		check_step(&attempt, step);
		ValuesAdd(args, TimeValue(now), DurationValue(attempt.elapsed));
		(void) SqlRun(&checkpoint_insert, args);

		/*
		 * The time to the next checkpoint, and the work that a preempted
		 * attempt would lose, count from this instant.
		 */
		(void) SqlRun(&devices_saved,
					  VALUES(ATTEMPT_KEY(&attempt), TimeValue(now)));
		write_saved(&attempt, step, size, now);
	}
	SqlFinish();
	PG_RETURN_VOID();
}

/* Writes the event about a new checkpoint. */
static void
write_saved(const Attempt *attempt, int64 step, int64 size, TimestampTz now)
{
	AuditRow	event = {.org = attempt->org, .job = attempt->job,
		.attempt = attempt->attempt, .at = now};

	AuditInt8(&event, "step", step);
	AuditInt8(&event, "size_bytes", size);
	AuditInt8(&event, "elapsed_us", attempt->elapsed);
	EventWrite("job.saved", &event);
}

/*
 * Returns how much of an attempt's elapsed time its last checkpoint saves, or
 * 0 if there is no checkpoint.
 */
int64
CheckpointElapsed(const Attempt *attempt)
{
	SqlResult	row = SqlRun(&checkpoint_last, VALUES(ATTEMPT_KEY(attempt)));

	return row.n == 0 ? 0 : SqlDuration(row, 0, 2);
}

/*
 * Returns the folder in which an attempt saves its checkpoints, below the
 * prefix of its spec or of its pool's policy. Returns NULL if neither has a
 * prefix. The name of an organisation is written so that it cannot lead out of
 * the organisation's own folder.
 */
char *
CheckpointPath(const char *prefix, const Attempt *attempt)
{
	StringInfoData path;
	size_t		length = prefix == NULL ? 0 : strlen(prefix);

	if (prefix == NULL)
		return NULL;
	while (length > 1 && prefix[length - 1] == '/')
		length--;
	initStringInfo(&path);
	appendBinaryStringInfo(&path, prefix, (int) length);
	appendStringInfoChar(&path, '/');
	for (const char *p = attempt->org; *p != '\0'; p++)
	{
		if (isalnum((unsigned char) *p) || *p == '-' || *p == '_' ||
			(*p == '.' && p > attempt->org))
			appendStringInfoChar(&path, *p);
		else
			appendStringInfo(&path, "%%%02X", (unsigned char) *p);
	}
	appendStringInfo(&path, "/%lld/%d", (long long) attempt->job,
					 attempt->attempt);
	return path.data;
}

/*
 * Locks an attempt, or raises an error if the job or the attempt does not
 * exist.
 */
void
CheckpointLockAttempt(const char *org, int64 job, int32 number,
					  Attempt *attempt)
{
	if (AttemptLock(org, job, number, attempt))
		return;
	if (SqlRun(&job_exists, VALUES(TextValue(org), Int8Value(job))).n == 0)
		NotFoundJob(job);
	AttemptRefuseUnknown(job, number);
}

/*
 * Refuses a new checkpoint unless the attempt is live and the step is later
 * than all earlier steps.
 */
static void
check_step(const Attempt *attempt, int64 step)
{
	SqlResult	row;

	if (attempt->ended_at != DT_NOBEGIN)
		ereport(ERROR,
				(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
				 errmsg("attempt %d of job %lld is over", attempt->attempt,
						(long long) attempt->job),
				 errdetail("It ended as %s, and its job may have started "
						   "again from an earlier checkpoint.", attempt->outcome),
				 errhint("Report checkpoints while the attempt runs.")));
	row = SqlRun(&checkpoint_last, VALUES(ATTEMPT_KEY(attempt)));
	if (row.n > 0 && SqlInt8(row, 0, 1) >= step)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"step\" is not above the last one of attempt %d of "
						"job %lld", attempt->attempt,
						(long long) attempt->job),
				 errdetail("Its last checkpoint is of step %lld.",
						   (long long) SqlInt8(row, 0, 1)),
				 errhint("Pass a higher step; a repeated step must have the "
						 "same values.")));
}
