/*-------------------------------------------------------------------------
 *
 * update_job.c
 *		SQL function update_job: changes the name, labels or priority of a
 *		job that is not over.
 *
 * These three words of a job's options are for its owner: they change neither
 * what the job gets, nor its price, nor the credit that is held for it, nor
 * whether it may start. Every other word was checked, and paid for, when the
 * job was submitted, and stays as it is.
 *
 * The job's options are its own copy of what reserve() was called with, and
 * verify() compares them with the audit log. Therefore each change writes all
 * options after it to its audit row. The new options pass the same checks as
 * those of a submission.
 *
 * Locks: request key, job.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "api/api.h"
#include "audit/audit.h"
#include "job/submit/submission.h"
#include "types/clip.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/not_found.h"
#include "util/sql.h"
#include "utils/jsonb.h"

API_FUNCTION(gpucredit_update_job, update_job);

/* A member with the value null is removed, and so is a label. */
SQL_STATEMENT(options_merge, SPI_OK_SELECT, "text, bigint, jsonb",
			  "SELECT pg_catalog.jsonb_strip_nulls((j.options || $3)"
			  " || CASE WHEN pg_catalog.jsonb_typeof($3 -> 'labels') = 'object'"
			  " THEN pg_catalog.jsonb_build_object('labels',"
			  "  COALESCE(j.options -> 'labels', '{}') || ($3 -> 'labels'))"
			  " ELSE '{}' END)"
			  " FROM gpucredit.job j WHERE j.org = $1 AND j.job = $2");
SQL_STATEMENT(options_write, SPI_OK_UPDATE, "text, bigint, jsonb, int",
			  "UPDATE gpucredit.job j SET options = $3,"
			  " name = $3 ->> 'name', priority = $4"
			  " WHERE j.org = $1 AND j.job = $2");

static void check_words(const Jsonb *changes);
static Jsonb *merge(const Job *job, Jsonb *changes);
static pg_attribute_noreturn() void refuse_over(const Job *job);

Datum
call_update_job(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		id = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	Jsonb	   *changes = ArgObject(fcinfo, 3, "changes");
	char	   *reason = ArgTextOrNull(fcinfo, 4, "reason");
	Submission	changed = {0};
	Request		request;
	Datum		result;
	Job			job;
	AuditRow	audit = {.org = org, .operation = "update_job",
		.decision = "updated", .job = id, .reason = reason};

	check_words(changes);
	RequestInit(&request, fcinfo, "update_job", org,
				ArgKey(fcinfo, 2, "key"));
	RequestInt8(&request, id);
	RequestJson(&request, changes);
	RequestText(&request, reason);

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	if (!JobLock(org, id, true, &job))
		NotFoundJob(id);
	if (strcmp(job.state, "queued") != 0 &&
		strcmp(job.state, "unfunded") != 0 &&
		strcmp(job.state, "active") != 0)
		refuse_over(&job);
	changed.options = merge(&job, changes);
	/* SubmissionOptions() sets the rest, and checks it against the request. */
	changed.job.request = job.request;
	SubmissionOptions(&changed);
	(void) SqlRun(&options_write,
				  VALUES(TextValue(org), Int8Value(id),
						 JsonValue(changed.options),
						 Int4Value(changed.job.priority)));

	audit.account = job.account;
	audit.trace = job.trace;
	audit.at = ClockNow();
	AuditText(&audit, "key", request.key);
	AuditNumber(&audit, "options",
				JsonbToCString(NULL, &changed.options->root,
							   VARSIZE(changed.options)));
	AuditWrite(&audit);
	return SqlFinishRow(RequestFinish(&request,
									  VALUES(TextValue(job.state),
											 BoolValue(false))));
}

/* Refuses words that cannot change, and a call that changes nothing. */
static void
check_words(const Jsonb *changes)
{
	JsonbIterator *it = JsonbIteratorInit((JsonbContainer *) &changes->root);
	JsonbIteratorToken token;
	JsonbValue	v;

	if (JB_ROOT_COUNT(changes) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"changes\" is empty"),
				 errdetail("It names nothing that is to change."),
				 errhint("Pass name, labels or priority.")));
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char	   *word;

		if (token != WJB_KEY)
			continue;
		word = pnstrdup(v.val.string.val, v.val.string.len);
		if (strcmp(word, "name") != 0 && strcmp(word, "labels") != 0 &&
			strcmp(word, "priority") != 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"%s\" of a job cannot change",
							ClipForMessage(word)),
					 errdetail("Only name, labels and priority can."),
					 errhint("Cancel the job and submit it again.")));
	}
}

/* Returns the options that a locked job has after the changes. */
static Jsonb *
merge(const Job *job, Jsonb *changes)
{
	SqlResult	row = SqlRun(&options_merge,
							 VALUES(TextValue(job->org), Int8Value(job->job),
									JsonValue(changes)));

	return DatumGetJsonbPCopy(SqlNotNull(row, 0, 1));
}

static void
refuse_over(const Job *job)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
			 errmsg("job %lld is over", (long long) job->job),
			 errdetail("Its state is %s.", job->state),
			 errhint("Only a job that waits or runs can change.")));
}
