/*-------------------------------------------------------------------------
 *
 * checkpoint_loaded.c
 *		SQL function checkpoint_loaded: reports whether an attempt could
 *		load the checkpoint that it was given.
 *
 * A checkpoint whose data differs from what its writer reported is marked as
 * bad for ever, and heartbeat hands out the one before it. The call names the
 * checkpoint, so a repeated call cannot mark another one.
 *
 * Locks: attempt, then the checkpoint's row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "api/api.h"
#include "job/checkpoint.h"
#include "job/job.h"

API_FUNCTION(gpucredit_checkpoint_loaded, checkpoint_loaded);

#define CHECKPOINT_COLUMNS \
	"c.attempt, c.step, c.uri, c.sha256, c.size_bytes"
SQL_STATEMENT(checkpoint_lock, SPI_OK_SELECT,
			  "text, bigint, int, bigint, bytea",
			  "SELECT " CHECKPOINT_COLUMNS ", c.bad_at IS NOT NULL,"
			  " COALESCE(c.sha256 = $5, false)"
			  " FROM gpucredit.checkpoint c WHERE c.org = $1 AND c.job = $2"
			  " AND c.attempt = $3 AND c.step = $4 FOR NO KEY UPDATE");
SQL_STATEMENT(checkpoint_bad, SPI_OK_UPDATE,
			  "text, bigint, int, bigint, timestamptz",
			  "UPDATE gpucredit.checkpoint c SET bad_at = $5"
			  " WHERE c.org = $1 AND c.job = $2"
			  " AND c.attempt = $3 AND c.step = $4");
SQL_STATEMENT(checkpoint_before, SPI_OK_SELECT, "text, bigint, int, bigint",
			  "SELECT " CHECKPOINT_COLUMNS
			  " FROM gpucredit.checkpoint c WHERE c.org = $1 AND c.job = $2"
			  " AND (c.attempt, c.step) < ($3, $4) AND c.bad_at IS NULL"
			  " ORDER BY c.attempt DESC, c.step DESC LIMIT 1");

/* the arguments of a call */
typedef struct Found
{
	char	   *org;
	int64		job;
	int32		attempt;
	int32		from_attempt;
	int64		from_step;
} Found;

static Attempt lock_live(const Found *found);
static SqlResult lock_checkpoint(FunctionCallInfo fcinfo,
								 const Found *found);
static Values checkpoint_key(const Found *found);
static void condemn(const Found *found, const Attempt *attempt);
static void put_checkpoint(Values *out, SqlResult row);

Datum
call_checkpoint_loaded(PG_FUNCTION_ARGS)
{
	Found		found = {
		ArgName(fcinfo, 0, "org"),
		ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX),
		ArgInt4(fcinfo, 2, "attempt", PG_INT32_MIN, PG_INT32_MAX),
		ArgInt4(fcinfo, 3, "from_attempt", PG_INT32_MIN, PG_INT32_MAX),
		ArgInt8(fcinfo, 4, "from_step", PG_INT64_MIN, PG_INT64_MAX)
	};
	Attempt		attempt;
	SqlResult	row;
	bool		was_bad;
	bool		good;
	Values	   *out;

	if (!PG_ARGISNULL(5))
		(void) ArgSha256(fcinfo, 5, "sha256");
	SqlConnect();
	attempt = lock_live(&found);
	row = lock_checkpoint(fcinfo, &found);
	was_bad = SqlBool(row, 0, 6);
	good = !was_bad && SqlBool(row, 0, 7);
	if (!good)
	{
		Values		args = checkpoint_key(&found);

		if (!was_bad)
			condemn(&found, &attempt);
		row = SqlRun(&checkpoint_before, &args);
	}
	out = VALUES(BoolValue(good));
	put_checkpoint(out, row);
	return SqlFinishRow(RowReturn(fcinfo, out));
}

/* Locks the attempt that resumes. Refuses an attempt that has ended. */
static Attempt
lock_live(const Found *found)
{
	Attempt		attempt;

	CheckpointLockAttempt(found->org, found->job, found->attempt, &attempt);
	if (attempt.ended_at != DT_NOBEGIN)
		ereport(ERROR,
				(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
				 errmsg("attempt %d of job %lld is over", attempt.attempt,
						(long long) attempt.job),
				 errdetail("It ended as %s.", attempt.outcome),
				 errhint("Report what was loaded while the attempt runs.")));
	return attempt;
}

static Values
checkpoint_key(const Found *found)
{
	return *VALUES(TextValue(found->org), Int8Value(found->job),
				   Int4Value(found->from_attempt),
				   Int8Value(found->from_step));
}

/* Locks the checkpoint, which must be of an earlier attempt. */
static SqlResult
lock_checkpoint(FunctionCallInfo fcinfo, const Found *found)
{
	Values		args = checkpoint_key(found);
	SqlResult	row = {0};

	ValuesAdd(&args, fcinfo->args[5]);
	if (found->from_attempt < found->attempt)
		row = SqlRun(&checkpoint_lock, &args);
	if (row.n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_GPUCREDIT_NO_ATTEMPT),
				 errmsg("checkpoint of attempt %d, step %lld of job %lld "
						"does not exist", found->from_attempt,
						(long long) found->from_step,
						(long long) found->job),
				 errdetail("No earlier attempt reported it."),
				 errhint("Pass the \"attempt\" and \"step\" that heartbeat() "
						 "gave in spec, under \"checkpoint\".")));
	return row;
}

/*
 * Marks a checkpoint as bad, because its data is not what its writer reported.
 */
static void
condemn(const Found *found, const Attempt *attempt)
{
	Values		args = checkpoint_key(found);
	AuditRow	audit = {.org = found->org, .operation = "checkpoint_loaded",
		.decision = "bad_checkpoint", .job = found->job,
		.attempt = found->attempt, .hold = attempt->hold, .at = ClockNow()};

	ValuesAdd(&args, TimeValue(audit.at));
	(void) SqlRun(&checkpoint_bad, &args);
	AuditInt8(&audit, "from_attempt", found->from_attempt);
	AuditInt8(&audit, "from_step", found->from_step);
	JobTraces(&audit, 1);
	AuditWrite(&audit);
}

/*
 * Adds the checkpoint from which to resume to the result. All columns are null
 * if there is none.
 */
static void
put_checkpoint(Values *out, SqlResult row)
{
	for (int column = 1; column <= 5; column++)
	{
		bool		isnull = true;
		Datum		value = row.n == 0 ? (Datum) 0 :
			SqlDatum(row, 0, column, &isnull);

		ValuesAdd(out, isnull ? NullValue() : DatumValue(value));
	}
}
