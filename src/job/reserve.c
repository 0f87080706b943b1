/*-------------------------------------------------------------------------
 *
 * reserve.c
 *		Submission: check, hold, queue, in one transaction.
 *
 * What does not depend on the outcome (account, tier, prices, what the pool
 * could run) is read before the first lock on money.  The job's number is
 * taken before its hold, which it is written into.
 *
 * Locks: request key, quotas with max_queued, dead holds if short, budgets,
 * buckets.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "admission/quota.h"
#include "audit/audit.h"
#include "common/args.h"
#include "common/clock.h"
#include "common/errors.h"
#include "common/sql.h"
#include "entry/entry.h"
#include "job/job.h"
#include "request/request.h"
#include "shmem/wake.h"
#include "types/clip.h"
#include "types/duration.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

ENTRY_POINT(reserve);

#define DEFAULT_WINDOW	USECS_PER_HOUR	/* of a tier without max_wall */
#define MOST_RETRIES	1000

/* What a submission has beyond the job itself. */
typedef struct Submission
{
	Job			job;
	AccountPath path;
	Jsonb	   *spec;
	Jsonb	   *options;
	char	   *cache;			/* NULL: none */
	SaveSpec	save;
	bool		tier_preemptible;	/* preemptible was not given */
	bool		tier_wall;		/* wall_limit was not given */
} Submission;

SQL_STATEMENT(job_next, SPI_OK_SELECT, "",
			  "SELECT pg_catalog.nextval('gpucredit.job_job_seq')");
SQL_STATEMENT(job_insert, SPI_OK_INSERT,
			  "text, bigint, text, text, text, gpucredit.gpureq, text, text,"
			  " int, bigint, bigint, interval, interval, int, jsonb, jsonb,"
			  " text[], bigint[], gpucredit.credits[], gpucredit.credits[],"
			  " bigint, timestamptz, text, text, interval",
			  "INSERT INTO gpucredit.job (org, job, account, pool, tier,"
			  " request, topology, preemptible, priority, cpu_milli,"
			  " memory_mib, wall_limit, hold_window, max_retries, spec,"
			  " options, offer_types, offer_memory, offer_prices,"
			  " offer_spot_prices, state, hold, submitted_at, prefer, cache,"
			  " save_every, waits_from)"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,"
			  " $13, $14, $15, $16, $17, $18, $19, $20, 'queued', $21, $22,"
			  " $23, $24, $25, $22)");

static void take_submission(FunctionCallInfo fcinfo, Submission *submission,
							Request *request);
static void take_options(Submission *submission);
static void take_cache(Submission *submission);
static void apply_tier(Submission *submission);
static const char *check(Submission *submission);
static const char *fund(Submission *submission, Hold *hold,
						TimestampTz *at);
static void insert_job(const Submission *submission, TimestampTz at);
static void arg_duration(SqlArgs *args, int64 us);

Datum
call_reserve(PG_FUNCTION_ARGS)
{
	Submission	submission = {0};
	Job		   *job = &submission.job;
	Request		request;
	Datum		result;
	Row			row = {0};
	Hold		hold = {0};
	AuditRow	audit = {.operation = "reserve"};

	take_submission(fcinfo, &submission, &request);
	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);

	audit.reason = check(&submission);
	audit.at = ClockNow();
	if (audit.reason == NULL)
		audit.reason = fund(&submission, &hold, &audit.at);
	if (audit.reason == NULL)
	{
		insert_job(&submission, audit.at);
		WakePool(job->pool);
	}

	audit.org = job->org;
	audit.account = job->account;
	audit.decision = audit.reason ? "denied" : "granted";
	audit.hold = hold.hold;
	audit.job = audit.reason ? 0 : job->job;
	AuditText(&audit, "request", GpuReqToCString(job->request));
	AuditText(&audit, "tier", job->tier);
	AuditText(&audit, "pool", job->pool);
	AuditCredits(&audit, "amount", audit.reason ? 0 : hold.drawn);
	AuditDecision(&audit, request.key);

	if (audit.reason)
		RowNull(&row);
	else
		RowAdd(&row, Int64GetDatum(job->job));
	RowText(&row, audit.decision);
	RowText(&row, audit.reason);
	RowCredits(&row, hold.drawn);
	RowAdd(&row, BoolGetDatum(false));
	return SqlFinishRow(RequestFinish(&request, &row));
}

/*
 * The arguments, and their fingerprint.
 */
static void
take_submission(FunctionCallInfo fcinfo, Submission *submission,
				Request *request)
{
	Job		   *job = &submission->job;
	char	   *word;

	job->org = ArgName(fcinfo, 0, "org");
	job->account = ArgPath(fcinfo, 1, "account");
	submission->path = AccountParse(job->org, job->account);
	RequestInit(request, fcinfo, "reserve", job->org,
				ArgName(fcinfo, 2, "key"));
	RequestText(request, job->account);
	job->request = GpuReqParse(ArgText(fcinfo, 3, "request"));
	RequestText(request, GpuReqToCString(job->request));

	job->wall_limit = ArgDurationOr(fcinfo, 4, "wall_limit", false, -1);
	submission->tier_wall = job->wall_limit < 0;
	RequestInt8(request, job->wall_limit);
	RequestText(request, job->tier = ArgName(fcinfo, 5, "tier"));
	RequestText(request, job->pool = ArgName(fcinfo, 6, "pool"));
	RequestText(request, word = ArgName(fcinfo, 7, "topology"));
	job->topology = (DecideTopology) ArgWord(word, "topology", TopologyNames,
											 lengthof(TopologyNames));
	RequestText(request, word = ArgNameOrNull(fcinfo, 8, "preemptible"));
	submission->tier_preemptible = word == NULL;
	if (word != NULL)
		job->preemptible = (Preemptible) ArgWord(word, "preemptible",
												 PreemptibleNames,
												 lengthof(PreemptibleNames));
	RequestInt8(request, job->max_retries =
				ArgInt4(fcinfo, 9, "max_retries", 0, MOST_RETRIES));
	RequestInt8(request, job->cpu_milli =
				ArgInt8(fcinfo, 10, "cpu_milli", 0, INT64CONST(1) << 40));
	RequestInt8(request, job->memory_mib =
				ArgInt8(fcinfo, 11, "memory_mib", 0, INT64CONST(1) << 40));
	RequestInt8(request, job->hold_window =
				ArgDurationOr(fcinfo, 12, "hold_window", false, -1));
	RequestJson(request, submission->spec = ArgObject(fcinfo, 13, "spec"));
	submission->save = SpecRead(submission->spec);
	RequestJson(request, submission->options =
				ArgObject(fcinfo, 14, "options"));
	take_options(submission);
	take_cache(submission);
}

/*
 * {"priority": n, "prefer": word}.
 */
static void
take_options(Submission *submission)
{
	JsonbIterator *it = JsonbIteratorInit(&submission->options->root);
	JsonbIteratorToken token;
	JsonbValue	v;

	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char	   *word;

		if (token != WJB_KEY)
			continue;
		word = pnstrdup(v.val.string.val, v.val.string.len);
		(void) JsonbIteratorNext(&it, &v, true);
		if (strcmp(word, "priority") == 0 && v.type == jbvNumeric)
		{
			bool		bad = false;

			submission->job.priority = numeric_int4_opt_error(v.val.numeric,
															  &bad);
			if (!bad)
				continue;
		}
		else if (strcmp(word, "prefer") == 0 && v.type == jbvString)
		{
			/* all of the words but the first, "any" */
			submission->job.prefer = (DecideTopology)
				(1 + ArgWord(pnstrdup(v.val.string.val, v.val.string.len),
							 "prefer", TopologyNames + 1,
							 lengthof(TopologyNames) - 1));
			continue;
		}
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("bad word \"%s\" in \"options\"",
						ClipForMessage(word)),
				 errdetail("It is unknown, or its value is not what it "
						   "takes."),
				 errhint("Words are priority (an integer) and prefer "
						 "(nvlink, leaf, node).")));
	}
}

/*
 * {"cache": key}: what the job wants to find on its node.
 */
static void
take_cache(Submission *submission)
{
	JsonbValue	v;

	if (getKeyJsonValueFromContainer(&submission->spec->root, "cache", 5,
									 &v) == NULL)
		return;
	if (v.type != jbvString || v.val.string.len == 0 ||
		v.val.string.len > ARG_NAME_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("bad \"cache\" in \"spec\""),
				 errdetail("It names what the job wants to find on its node, "
						   "in 1 to 255 bytes."),
				 errhint("Pass a string, or leave it out.")));
	submission->cache = pnstrdup(v.val.string.val, v.val.string.len);
}

/*
 * What the tier settles, and what it allows.
 */
static void
apply_tier(Submission *submission)
{
	Job		   *job = &submission->job;
	Tier		tier;

	TierRead(job->tier, &tier);
	if (submission->tier_preemptible)
		job->preemptible = tier.preemptible;
	else if (job->preemptible < tier.preemptible)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"preemptible\" is less willing than the tier"),
				 errdetail("Jobs of tier \"%s\" are preemptible \"%s\".",
						   ClipForMessage(job->tier),
						   PreemptibleNames[tier.preemptible]),
				 errhint("Leave it out, or choose another tier.")));
	if (submission->tier_wall)
		job->wall_limit = tier.max_wall;
	else if (tier.max_wall >= 0 && job->wall_limit > tier.max_wall)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"wall_limit\" is longer than the tier allows"),
				 errdetail("Jobs of tier \"%s\" run %lld seconds at most.",
						   ClipForMessage(job->tier),
						   (long long) (tier.max_wall / USECS_PER_SEC)),
				 errhint("Ask for less, or choose another tier.")));
	if (job->wall_limit < 0 && job->hold_window < 0)
		job->hold_window = DEFAULT_WINDOW;
}

/*
 * All that can be said before money is asked: NULL, or why it is denied.
 */
static const char *
check(Submission *submission)
{
	Job		   *job = &submission->job;
	bool		suspended = AccountSuspended(&submission->path);
	NodeSet    *set;
	const char *reason;
	DecideAsk	ask;
	QuotaAsk	quota;

	apply_tier(submission);
	set = NodesCached(job->pool);
	reason = OffersMake(job->request, job->pool, set, ClockNow(),
						&job->offers);
	if (suspended)
		return "account_suspended";
	if (reason != NULL)
		return reason;
	ask = OffersAsk(job, set);
	if (!PoolCouldRun(job->pool, set, &ask))
		return "impossible_request";
	quota = (QuotaAsk)
	{
		job->request->min_gpus, job->request->share_milli, job->offers.n,
			job->offers.types
	};
	return QuotaCheck(&submission->path, &quota);
}

/*
 * Hold the credit: NULL, or why it is denied.
 */
static const char *
fund(Submission *submission, Hold *hold, TimestampTz *at)
{
	Job		   *job = &submission->job;
	Cause		cause = {"reserve", 0, 0};
	Credits		amount = OffersHold(job);
	Purpose		purpose;
	LedgerStatus status;

	cause.job = job->job = SqlInt8(SqlRun(&job_next, NULL), 0, 1);
	purpose = JobPurpose(job);
	status = HoldOpen(&submission->path, &purpose, &cause, amount, 0, true,
					  hold, at);
	if (status != LEDGER_DONE)
		return LedgerReason(status);
	job->hold = hold->hold;
	return NULL;
}

/*
 * Queue the job.
 */
static void
insert_job(const Submission *submission, TimestampTz at)
{
	const Job  *job = &submission->job;
	SqlArgs		args = {0};

	SqlArgText(&args, job->org);
	SqlArgInt8(&args, job->job);
	SqlArgText(&args, job->account);
	SqlArgText(&args, job->pool);
	SqlArgText(&args, job->tier);
	SqlArg(&args, GpuReqPGetDatum(job->request));
	SqlArgText(&args, TopologyNames[job->topology]);
	SqlArgText(&args, PreemptibleNames[job->preemptible]);
	SqlArgInt4(&args, job->priority);
	SqlArgInt8(&args, job->cpu_milli);
	SqlArgInt8(&args, job->memory_mib);
	arg_duration(&args, job->wall_limit);
	arg_duration(&args, job->hold_window);
	SqlArgInt4(&args, job->max_retries);
	SqlArgJson(&args, submission->spec);
	SqlArgJson(&args, submission->options);
	SqlArgTextArray(&args, job->offers.types, job->offers.n);
	SqlArgInt8Array(&args, job->offers.memory, job->offers.n);
	SqlArgCreditsArray(&args, job->offers.prices, job->offers.n);
	SqlArgCreditsArray(&args, job->offers.spot_prices, job->offers.n);
	SqlArgInt8(&args, job->hold);
	SqlArgTime(&args, at);
	SqlArgText(&args, job->prefer == DECIDE_TOPOLOGY_ANY ? NULL :
			   TopologyNames[job->prefer]);
	SqlArgText(&args, submission->cache);
	arg_duration(&args, submission->save.every);
	(void) SqlRun(&job_insert, &args);
}

static void
arg_duration(SqlArgs *args, int64 us)
{
	if (us < 0)
		SqlArgNull(args);
	else
		SqlArgDuration(args, us);
}
