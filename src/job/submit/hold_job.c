/*-------------------------------------------------------------------------
 *
 * hold_job.c
 *		SQL functions hold_job and release_job: hold_job keeps a waiting
 *		job from starting, and release_job lets it start again.
 *
 * Only the job's row stores that the job is held.  A cycle that loaded the job
 * before the call locks the job only if nobody holds it by then
 * (sched/apply/apply.c).  After a release the next cycle makes the job
 * eligible, with a hold of credit at the prices of that instant
 * (sched/apply/rehold.c).
 *
 * Locks: request key, job, the row of its claim.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/api.h"
#include "api/tenant.h"
#include "audit/audit.h"
#include "job/job.h"
#include "request/request.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/not_found.h"
#include "util/sql.h"

API_FUNCTION(gpucredit_hold_job, hold_job);
API_FUNCTION(gpucredit_release_job, release_job);

#define HELD_BY_OWNER		"owner"
#define HELD_BY_OPERATOR	"operator"

SQL_STATEMENT(holder_read, SPI_OK_SELECT, "text, bigint",
			  "SELECT j.held_by FROM gpucredit.job j"
			  " WHERE j.org = $1 AND j.job = $2");
/* The time for which a job is held does not count as waiting. */
SQL_STATEMENT(job_held, SPI_OK_UPDATE, "text, bigint, text, timestamptz",
			  "UPDATE gpucredit.job j SET held_by = $3, eligible = false,"
			  " waited = CASE WHEN j.eligible"
			  "  THEN GREATEST(j.waited, $4 - j.waits_from)"
			  "  ELSE j.waited END"
			  " WHERE j.org = $1 AND j.job = $2");
SQL_STATEMENT(job_released, SPI_OK_UPDATE, "text, bigint",
			  "UPDATE gpucredit.job j SET held_by = NULL"
			  " WHERE j.org = $1 AND j.job = $2");

static Datum change_hold(FunctionCallInfo fcinfo, bool held);
static const char *hold(const Job *job, const char *held_by);
static void release(const Job *job, const char *held_by);
static bool caller_operates(void);
static pg_attribute_noreturn() void refuse_state(const Job *job);

Datum
call_hold_job(PG_FUNCTION_ARGS)
{
	return change_hold(fcinfo, true);
}

Datum
call_release_job(PG_FUNCTION_ARGS)
{
	return change_hold(fcinfo, false);
}

/* Holds or releases a job, and writes the audit row. */
static Datum
change_hold(FunctionCallInfo fcinfo, bool held)
{
	const char *operation = held ? "hold_job" : "release_job";
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		id = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	const char *held_by;
	const char *holder = NULL;
	char	   *reason;
	Request		request;
	Datum		result;
	SqlResult	row;
	Job			job;
	AuditRow	audit = {.org = org, .operation = operation, .job = id};

	RequestInit(&request, fcinfo, operation, org, ArgKey(fcinfo, 2, "key"));
	RequestInt8(&request, id);
	RequestText(&request, reason = ArgTextOrNull(fcinfo, 3, "reason"));

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	if (!JobLock(org, id, true, &job))
		NotFoundJob(id);
	if (strcmp(job.state, "queued") != 0 &&
		strcmp(job.state, "unfunded") != 0)
		refuse_state(&job);
	row = SqlRun(&holder_read, VALUES(TextValue(org), Int8Value(id)));
	held_by = SqlText(row, 0, 1);
	if (held)
		holder = hold(&job, held_by);
	else
		release(&job, held_by);

	audit.account = job.account;
	audit.trace = job.trace;
	audit.at = ClockNow();
	audit.decision = held ? "held" : "released";
	audit.reason = reason;
	AuditText(&audit, "key", request.key);
	AuditText(&audit, "held_by", held ? holder : held_by);
	AuditWrite(&audit);
	return SqlFinishRow(RequestFinish(&request,
									  VALUES(TextValue(job.state),
											 TextValue(holder),
											 BoolValue(false))));
}

/*
 * Holds a locked job and returns the role that holds it.  A job that an
 * operator holds stays held by the operator if its owner holds it, too.
 */
static const char *
hold(const Job *job, const char *held_by)
{
	const char *holder = caller_operates() ||
		(held_by != NULL && strcmp(held_by, HELD_BY_OPERATOR) == 0) ?
		HELD_BY_OPERATOR : HELD_BY_OWNER;

	(void) SqlRun(&job_held,
				  VALUES(TextValue(job->org), Int8Value(job->job),
						 TextValue(holder), TimeValue(ClockNow())));
	JobDropClaim(job);
	return holder;
}

/* Releases a locked job.  Does nothing if the job is not held. */
static void
release(const Job *job, const char *held_by)
{
	if (held_by == NULL)
		return;
	if (strcmp(held_by, HELD_BY_OPERATOR) == 0 && !caller_operates())
		ereport(ERROR,
				(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
				 errmsg("job %lld is held by an operator",
						(long long) job->job),
				 errdetail("Its owner cannot release it."),
				 errhint("Ask an operator to call gpucredit.release_job().")));
	(void) SqlRun(&job_released,
				  VALUES(TextValue(job->org), Int8Value(job->job)));
}

/* Whether the caller acts as an operator, and not for the job's owner. */
static bool
caller_operates(void)
{
	return CallerHasRole("gpucredit_operator") ||
		CallerHasRole("gpucredit_admin");
}

static void
refuse_state(const Job *job)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
			 errmsg("job %lld does not wait", (long long) job->job),
			 errdetail(strcmp(job->state, "active") == 0 ?
					   "It runs." : "It is over."),
			 errhint("Only a job that waits can be held or released.")));
}
