/*-------------------------------------------------------------------------
 *
 * cancel.c
 *		SQL function cancel: cancels a job.
 *
 * A waiting job ends at once, and its hold is released.  A running job must
 * stop. It ends as cancelled, unless its agent reports that it completed.
 *
 * Locks: request key, job, hold, buckets.  The directive to a running attempt
 * is a row of its own, so cancel never waits for an agent's open transaction.
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
#include "job/job.h"
#include "request/request.h"

API_FUNCTION(gpucredit_cancel, cancel);

SQL_STATEMENT(job_cancelled, SPI_OK_UPDATE, "text, bigint",
			  "UPDATE gpucredit.job j SET cancelled = true"
			  " WHERE j.org = $1 AND j.job = $2");
SQL_STATEMENT(cancel_direct, SPI_OK_INSERT,
			  "text, bigint, int, timestamptz",
			  "INSERT INTO gpucredit.directive (org, job, attempt, cause,"
			  " action, reason, given_at)"
			  " VALUES ($1, $2, $3, 'cancel', 'stop', 'cancelled', $4)"
			  " ON CONFLICT (org, job, attempt, cause) DO NOTHING");

static const char *cancel_job(Job *job, AuditRow *audit);
static void end_waiting(Job *job, AuditRow *audit);
static void stop_running(const Job *job, AuditRow *audit);

Datum
call_cancel(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		id = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	char	   *reason;
	Request		request;
	Datum		result;
	Values	   *row;
	Job			job;
	AuditRow	audit = {.org = org, .operation = "cancel", .job = id,
		.at = DT_NOBEGIN};

	RequestInit(&request, fcinfo, "cancel", org, ArgKey(fcinfo, 2, "key"));
	RequestInt8(&request, id);
	RequestText(&request, reason = ArgTextOrNull(fcinfo, 3, "reason"));

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	if (!JobLock(org, id, true, &job))
		NotFoundJob(id);
	audit.account = job.account;
	audit.trace = job.trace;
	row = VALUES(TextValue(cancel_job(&job, &audit)), BoolValue(false));

	if (audit.at == DT_NOBEGIN)
		audit.at = ClockNow();
	audit.reason = reason;
	AuditText(&audit, "key", request.key);
	AuditWrite(&audit);
	return SqlFinishRow(RequestFinish(&request, row));
}

/* Cancels a locked job and returns its new state. */
static const char *
cancel_job(Job *job, AuditRow *audit)
{
	if (strcmp(job->state, "active") == 0)
	{
		stop_running(job, audit);
		return "stopping";
	}
	if (strcmp(job->state, "queued") != 0 &&
		strcmp(job->state, "unfunded") != 0)
	{
		audit->decision = "over";
		return job->state;
	}
	end_waiting(job, audit);
	return "cancelled";
}

/* Ends a job that waits, and releases its hold. */
static void
end_waiting(Job *job, AuditRow *audit)
{
	Cause		cause = {"cancel", job->job, 0};
	Hold		hold;

	audit->decision = "cancelled";
	audit->hold = job->hold;
	audit->at = ClockNow();
	if (!HoldLock(job->org, job->hold, true, &hold))
		Ensure(false, "A job has no hold.");
	if (HoldIsOpen(&hold))
	{
		Returned	returned = HoldSettle(&hold, &cause, 0, true, &audit->at);

		AuditCredits(audit, "released", returned.released);
		AuditCredits(audit, "lapsed", returned.lapsed);
	}
	JobSetState(job, "cancelled", job->hold, job->failures, DT_NOBEGIN,
				audit->at);
	JobDropClaim(job);
}

static void
stop_running(const Job *job, AuditRow *audit)
{
	Values	   *args;

	audit->decision = "stopping";
	audit->attempt = job->attempt;
	args = VALUES(TextValue(job->org), Int8Value(job->job));
	(void) SqlRun(&job_cancelled, args);
	ValuesAdd(args, Int4Value(job->attempt), TimeValue(ClockNow()));
	(void) SqlRun(&cancel_direct, args);
}
