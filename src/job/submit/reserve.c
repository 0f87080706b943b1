/*-------------------------------------------------------------------------
 *
 * reserve.c
 *		SQL function reserve: checks a job, holds its credit and queues
 *		it, in one transaction.
 *
 * Account, tier, prices and what the pool could run are read before the first
 * lock on money. The job's number is assigned before its hold is opened,
 * because the hold stores the number.
 *
 * Locks: request key, stored texts that the spec names, quotas with max_queued,
 * dead holds if the credit does not suffice, budgets, buckets.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "util/subtransaction.h"
#include "api/api.h"
#include "job/submit/stored_file.h"
#include "job/submit/submission.h"
#include "ledger/uncollected.h"
#include "shmem/wake.h"
#include "types/duration.h"

API_FUNCTION(gpucredit_reserve, reserve);

#define DEFAULT_RETRIES	3		/* The SQL function in
								 * sql/gpucredit/60_job.sql declares the same
								 * default. */

SQL_STATEMENT(job_insert, SPI_OK_INSERT,
			  "text, bigint, text, text, text, gpucredit.gpureq, text, text,"
			  " int, bigint, bigint, interval, interval, int, jsonb, jsonb,"
			  " text[], bigint[], gpucredit.credits[], gpucredit.credits[],"
			  " bigint, timestamptz, text, text, interval, text, int,"
			  " gpucredit.credits, text, timestamptz, timestamptz",
			  "INSERT INTO gpucredit.job (org, job, account, pool, tier,"
			  " request, topology, preemptible, priority, cpu_milli,"
			  " memory_mib, wall_limit, hold_window, max_retries, spec,"
			  " options, offer_types, offer_memory, offer_prices,"
			  " offer_spot_prices, state, hold, submitted_at, prefer, cache,"
			  " save_every, waits_from, traceparent, price_factor, resources,"
			  " after, not_before, deadline, name, array_key, task, at_most,"
			  " held_by, eligible, request_class)"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,"
			  " $13, $14, $15, $16, $17, $18, $19, $20, 'queued', $21, $22,"
			  " $23, $24, $25, GREATEST($22, $30), $26, $27, $28, $29, $30, $31,"
			  " $16 ->> 'name', $16 ->> 'array', ($16 ->> 'task')::numeric::bigint,"
			  " ($16 ->> 'at_most')::numeric::int,"
			  " CASE WHEN ($16 ->> 'hold')::boolean THEN 'owner' END,"
			  " $29 IS NULL AND $30 IS NULL"
			  "  AND NOT COALESCE(($16 ->> 'hold')::boolean, false),"
			  " gpucredit_internal.request_digest($6, $7, $23,"
			  " $8, $10, $11, $12, $13, $17, $18, $19, $20, $28,"
			  "  $16 -> 'placement'))");

/* One call of reserve, with its result. */
typedef struct ReserveCall
{
	Request		request;
	Submission	submission;
	HoldOpening *opening;
	Hold		hold;
	TimestampTz at;				/* when the decision was made */
	Values		row;
} ReserveCall;

static const char *fund(ReserveCall *asking);
static bool fund_at_once(void *context);
static void grant(ReserveCall *asking);
static void deny(ReserveCall *asking, const char *reason);
static void insert_job(const Submission *submission, TimestampTz at);
static void audit_asked(const ReserveCall *asking, const char *reason);
static void add_asked(AuditRow *audit, const Submission *submission);

Datum
call_reserve(PG_FUNCTION_ARGS)
{
	ReserveCall asking = {0};
	const char *reason;
	Datum		result;

	ParseSubmission(fcinfo, &asking.submission, &asking.request);
	SqlConnect();
	if (RequestBegin(&asking.request, &result))
		return SqlFinishRow(result);

	SubmissionResolve(&asking.submission);
	StoredFilesLock(&asking.submission);
	reason = SubmissionCheck(&asking.submission, NULL, true);
	asking.at = ClockNow();
	if (reason == NULL)
		reason = fund(&asking);
	if (reason == NULL)
		WakePool(asking.submission.job.pool);
	else
		deny(&asking, reason);
	return SqlFinishRow(RowReturn(fcinfo, &asking.row));
}

/*
 * Holds the credit and queues the job. Returns NULL, or the reason for a
 * denial.
 */
static const char *
fund(ReserveCall *asking)
{
	Job		   *job = &asking->submission.job;
	Cause		cause = {"reserve", 0, 0};
	Purpose		purpose;
	LedgerStatus status;

	cause.job = job->job = SqlNext("job_job_seq");
	purpose = JobPurpose(job);
	if (UncollectedDenies(&asking->submission.path, &purpose, OffersHold(job),
						  asking->at))
		return UNCOLLECTED_REASON;
	purpose.first = asking->request.first;
	asking->opening = HoldAsk(&asking->submission.path, &purpose, &cause,
							  OffersHold(job), 0, true, &asking->hold);
	if (HoldMayBeAtOnce(asking->opening, &asking->at) &&
		SubtransactionTry(fund_at_once, asking, NULL))
		return NULL;
	status = HoldLocked(asking->opening, &asking->at);
	if (status != LEDGER_DONE)
		return LedgerReason(status);
	grant(asking);
	return NULL;
}

/*
 * Writes the hold, the job and the answer, and debits the bucket last, so that
 * the bucket's row is locked only for a short time.
 */
static bool
fund_at_once(void *context)
{
	ReserveCall *asking = context;

	HoldWrite(asking->opening);
	grant(asking);
	return HoldDebit(asking->opening);
}

/*
 * Queues the job under its hold, stores the result of the call and writes the
 * audit row.
 */
static void
grant(ReserveCall *asking)
{
	Job		   *job = &asking->submission.job;

	asking->row = *VALUES(Int8Value(job->job), TextValue("granted"),
						  NullValue(), NumericValue(asking->hold.drawn),
						  BoolValue(false));
	RequestStore(&asking->request, &asking->row);

	job->hold = asking->hold.hold;
	insert_job(&asking->submission, asking->at);
	StoredFilesKeep(&asking->submission);
	audit_asked(asking, NULL);
}

static void
deny(ReserveCall *asking, const char *reason)
{
	asking->row = *VALUES(NullValue(), TextValue("denied"), TextValue(reason),
						  NumericValue(0), BoolValue(false));
	RequestStore(&asking->request, &asking->row);
	audit_asked(asking, reason);
}

/* Inserts the row of the queued job. */
static void
insert_job(const Submission *submission, TimestampTz at)
{
	const Job  *job = &submission->job;
	const JobOptions *wishes = &submission->wishes;

	(void) SqlRun(&job_insert,
				  VALUES(TextValue(job->org), Int8Value(job->job),
						 TextValue(job->account), TextValue(job->pool),
						 TextValue(job->tier),
						 DatumValue(GpuReqPGetDatum(job->request)),
						 TextValue(TopologyNames[job->topology]),
						 TextValue(PreemptibleNames[job->preemptible]),
						 Int4Value(job->priority), Int8Value(job->cpu_milli),
						 Int8Value(job->memory_mib),
						 DurationValueOrNull(job->wall_limit),
						 DurationValueOrNull(job->hold_window),
						 Int4Value(job->max_retries),
						 JsonValue(submission->spec),
						 JsonValue(submission->options),
						 TextArrayValue(job->offers.types, job->offers.n),
						 Int8ArrayValue(job->offers.memory, job->offers.n),
						 CreditsArrayValue(job->offers.prices, job->offers.n),
						 CreditsArrayValue(job->offers.spot_prices,
										   job->offers.n),
						 Int8Value(job->hold), TimeValue(at),
						 TextValue(job->prefer == DECIDE_TOPOLOGY_ANY ? NULL :
								   TopologyNames[job->prefer]),
						 TextValue(submission->cache),
						 DurationValueOrNull(submission->save.every),
						 TextValue(TraceParent()),
						 Int4Value(job->price_factor),
						 CreditsValue(job->resources),
						 TextValue(wishes->after == NULL ? NULL :
								   DependencyToCString(wishes->after)),
						 TimeValueOrNull(wishes->begin > at ? wishes->begin :
										 DT_NOBEGIN),
						 TimeValueOrNull(wishes->deadline)));
}

/*
 * Writes the audit row of the call. reason is the reason for a denial, or NULL
 * if the job is granted.
 */
static void
audit_asked(const ReserveCall *asking, const char *reason)
{
	const Job  *job = &asking->submission.job;
	AuditRow	audit = {.org = job->org, .account = job->account,
		.operation = "reserve", .decision = reason ? "denied" : "granted",
		.reason = reason, .at = asking->at};

	if (reason == NULL)
	{
		audit.hold = job->hold;
		audit.job = job->job;
	}
	add_asked(&audit, &asking->submission);
	AuditCredits(&audit, "amount", reason ? 0 : asking->hold.drawn);
	AuditDecision(&audit, asking->request.key);
}

/*
 * Adds the arguments that differ from their defaults to the audit row.  The
 * spec is not added, because it is stored with the job.
 */
static void
add_asked(AuditRow *audit, const Submission *submission)
{
	const Job  *job = &submission->job;

	AuditText(audit, "request", GpuReqToCString(job->request));
	AuditText(audit, "tier", job->tier);
	AuditText(audit, "pool", job->pool);
	if (job->wall_limit >= 0)
		AuditInt8(audit, "wall_limit_us", job->wall_limit);
	if (job->hold_window >= 0)
		AuditInt8(audit, "hold_window_us", job->hold_window);
	if (job->topology != DECIDE_TOPOLOGY_ANY)
		AuditText(audit, "topology", TopologyNames[job->topology]);
	AuditText(audit, "preemptible", PreemptibleNames[job->preemptible]);
	if (job->price_factor != 1000)
		AuditInt8(audit, "price_factor_milli", job->price_factor);
	if (job->max_retries != DEFAULT_RETRIES)
		AuditInt8(audit, "max_retries", job->max_retries);
	if (job->cpu_milli > 0)
		AuditInt8(audit, "cpu_milli", job->cpu_milli);
	if (job->memory_mib > 0)
		AuditInt8(audit, "memory_mib", job->memory_mib);
	if (JB_ROOT_COUNT(submission->options) > 0)
		AuditNumber(audit, "options",
					JsonbToCString(NULL, &submission->options->root,
								   VARSIZE(submission->options)));
}
