/*-------------------------------------------------------------------------
 *
 * requeue_job.c
 *		SQL function requeue_job: has a running job run again.
 *
 * The running attempt must stop. However its program then ends, the settlement
 * returns the job to the queue as "requeued" (settlement.c): that is no
 * failure, and the owner pays for what ran. A job that waits stays as it is.
 *
 * A job that another scheduler runs is requeued there, because this one starts
 * nothing in such a pool.
 *
 * Locks: request key, job.  The directive to the running attempt is a row of
 * its own, so the call never waits for an agent's open transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "util/not_found.h"
#include "api/api.h"
#include "job/end/settlement.h"
#include "job/job.h"
#include "request/request.h"

API_FUNCTION(gpucredit_requeue_job, requeue_job);

SQL_STATEMENT(foreign_read, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT a.is_foreign FROM gpucredit.attempt a"
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3");
SQL_STATEMENT(requeue_direct, SPI_OK_INSERT,
			  "text, bigint, int, timestamptz",
			  "INSERT INTO gpucredit.directive (org, job, attempt, cause,"
			  " action, reason, given_at)"
			  " VALUES ($1, $2, $3, '" REQUEUE_CAUSE "', 'stop',"
			  " '" REQUEUE_REASON "', $4)"
			  " ON CONFLICT (org, job, attempt, cause) DO NOTHING");

static const char *requeue_job(const Job *job, AuditRow *audit);
static pg_attribute_noreturn() void refuse_state(const Job *job,
												 const char *detail,
												 const char *hint);

Datum
call_requeue_job(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		id = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	char	   *reason;
	Request		request;
	Datum		result;
	Values	   *row;
	Job			job;
	AuditRow	audit = {.org = org, .operation = "requeue_job", .job = id};

	RequestInit(&request, fcinfo, "requeue_job", org,
				ArgKey(fcinfo, 2, "key"));
	RequestInt8(&request, id);
	RequestText(&request, reason = ArgTextOrNull(fcinfo, 3, "reason"));

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	if (!JobLock(org, id, true, &job))
		NotFoundJob(id);
	audit.account = job.account;
	audit.trace = job.trace;
	row = VALUES(TextValue(requeue_job(&job, &audit)), BoolValue(false));

	audit.at = ClockNow();
	audit.reason = reason;
	AuditText(&audit, "key", request.key);
	AuditWrite(&audit);
	return SqlFinishRow(RequestFinish(&request, row));
}

/*
 * Orders the running attempt of a locked job to stop, and returns the job's
 * state.
 */
static const char *
requeue_job(const Job *job, AuditRow *audit)
{
	Values	   *args;

	if (strcmp(job->state, "queued") == 0 ||
		strcmp(job->state, "unfunded") == 0)
	{
		audit->decision = "waiting";
		return job->state;
	}
	if (strcmp(job->state, "active") != 0)
		refuse_state(job, "It is over.", "Submit it again.");
	if (job->cancelled)
		refuse_state(job, "It was cancelled, and is stopping.",
					 "Submit it again.");
	args = VALUES(TextValue(job->org), Int8Value(job->job),
				  Int4Value(job->attempt));
	if (SqlBool(SqlRun(&foreign_read, args), 0, 1))
		refuse_state(job, "Another scheduler runs it.",
					 "Have that scheduler requeue it.");
	ValuesAdd(args, TimeValue(ClockNow()));
	(void) SqlRun(&requeue_direct, args);
	audit->decision = "stopping";
	audit->attempt = job->attempt;
	return "stopping";
}

static void
refuse_state(const Job *job, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
			 errmsg("job %lld cannot be requeued", (long long) job->job),
			 errdetail_internal("%s", detail),
			 errhint("%s", hint)));
}
