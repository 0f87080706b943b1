/*-------------------------------------------------------------------------
 *
 * submission.c
 *		Parses the arguments of a submission, and checks whether it may be
 *		queued.
 *
 * reserve() queues the submission. plan_with() and quote() only compute what
 * would happen to it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "limits/quota_check.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/settings.h"
#include "util/sql.h"
#include "inventory/tier_grant.h"
#include "job/submit/submission.h"
#include "types/clip.h"

/*
 * A job without a wall limit gets that of its tier.  If the tier's is longer
 * than LONG_WALL, credit is held for one window at a time, because nobody has
 * the credit for a month of a service at once.
 */
#define DEFAULT_WINDOW	USECS_PER_HOUR
#define LONG_WALL		USECS_PER_DAY
#define MOST_RETRIES	1000

static void parse_cache(Submission *submission);
static bool apply_tier(Submission *submission);
static void check_window(const Job *job);
static QuotaRequest quota_request(const Job *job, const NodeSet *set,
								  const DecideRequestClass *request);
static bool unpaid_queue_full(const Job *job);

/* The condition is that of the index job_unpaid. */
SQL_STATEMENT(unpaid_count, SPI_OK_SELECT, "text, int",
			  "SELECT pg_catalog.count(*) FROM (SELECT 1 FROM gpucredit.job j"
			  " WHERE j.org = $1 AND j.state = 'queued'"
			  " AND '0'::gpucredit.credits"
			  "  OPERATOR(gpucredit.=) ALL (j.offer_prices)"
			  " AND '0'::gpucredit.credits OPERATOR(gpucredit.=) j.resources"
			  " LIMIT $2) u");

/* Parses the arguments and adds them to the fingerprint of the request. */
void
ParseSubmission(FunctionCallInfo fcinfo, Submission *submission,
				Request *request)
{
	Job		   *job = &submission->job;
	char	   *word;

	job->org = ArgName(fcinfo, 0, "org");
	job->account = ArgPath(fcinfo, 1, "account");
	submission->path = AccountParse(job->org, job->account);
	RequestInit(request, fcinfo, "reserve", job->org,
				ArgKey(fcinfo, 2, "key"));
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
	SubmissionOptions(submission);
	parse_cache(submission);
}

/*
 * Parses the member "cache" of the spec: the key of data that the job prefers
 * to find on its node.
 */
static void
parse_cache(Submission *submission)
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
				 errdetail("A cache key is a string of 1 to 255 bytes."),
				 errhint("Pass a string, or leave it out.")));
	submission->cache = pnstrdup(v.val.string.val, v.val.string.len);
}

/*
 * Applies the tier's defaults and limits.  Returns false if the tier is not
 * open to all accounts.
 */
static bool
apply_tier(Submission *submission)
{
	Job		   *job = &submission->job;
	Tier		tier;

	TierRead(job->tier, &tier);
	job->price_factor = tier.price_factor;
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
	else if (job->wall_limit > tier.max_wall)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"wall_limit\" is longer than the tier allows"),
				 errdetail("Jobs of tier \"%s\" run %lld seconds at most.",
						   ClipForMessage(job->tier),
						   (long long) (tier.max_wall / USECS_PER_SEC)),
				 errhint("Ask for less, or choose another tier.")));
	if (submission->tier_wall && job->wall_limit > LONG_WALL &&
		job->hold_window < 0)
		job->hold_window = Max(DEFAULT_WINDOW, SettingHoldWindowMin());
	check_window(job);
	return tier.open;
}

/*
 * Refuses a hold window that is too short. A hold must cover a run until its
 * next heartbeat, or the whole run.
 */
static void
check_window(const Job *job)
{
	int64		least = SettingHoldWindowMin();

	if (job->hold_window < 0 || job->hold_window >= least ||
		(job->wall_limit >= 0 && job->wall_limit <= job->hold_window))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("\"hold_window\" is too short"),
			 errdetail("It is %lld microseconds; gpucredit.hold_window_min is "
					   "%lld seconds.", (long long) job->hold_window,
					   (long long) (least / USECS_PER_SEC)),
			 errhint("Hold for at least that long, or leave it out to hold "
					 "for the whole wall limit.")));
}

/*
 * Checks everything that needs no credit. Returns NULL, or the reason for a
 * denial.  supposed is a set of nodes to check against, or NULL for the pool's
 * own nodes.  If counted is true, the submission is about to be queued, so
 * quotas that limit the queue are locked and count it.  Otherwise nothing is
 * locked or written.
 */
const char *
SubmissionCheck(Submission *submission, const NodeSet *supposed, bool counted)
{
	Job		   *job = &submission->job;
	bool		suspended = AccountSuspended(&submission->path);
	const NodeSet *set;
	const char *reason;
	bool		open = apply_tier(submission);
	DecideRequestClass request;
	QuotaRequest quota;

	set = supposed ? supposed : NodesCached(job->pool);
	reason = OffersMake(job, set, ClockNow());
	if (suspended)
		return "account_suspended";
	if (!open && !TierGranted(&submission->path, job->tier))
		return TIER_NOT_GRANTED;
	if (reason != NULL)
		return reason;
	request = OffersRequest(job, set);
	if (supposed ? !NodesCouldRun(set, &request) :
		!PoolCouldRun(job->pool, set, &request))
		return "impossible_request";
	if (request.unpaid && supposed == NULL && unpaid_queue_full(job))
		return "quota_exceeded";
	quota = quota_request(job, set, &request);
	return QuotaCheck(&submission->path, &quota, !counted);
}

/*
 * Returns the figures of a job that quotas limit. If the pool has no node of a
 * type, the job's own share counts for the type.
 */
static QuotaRequest
quota_request(const Job *job, const NodeSet *set,
			  const DecideRequestClass *request)
{
	int64	   *milli = palloc(sizeof(int64) * (job->offers.n + 1));

	for (int t = 0; t < job->offers.n; t++)
	{
		int32		type = NameFind(&set->types, job->offers.types[t]);

		milli[t] = type < 0 ?
			(int64) request->min_gpus * request->share :
			DecideJobUse(request, type,
						 request->min_gpus).of[DECIDE_LIMITED_DEVICES];
	}
	return (QuotaRequest)
	{
		.ntypes = job->offers.n,
			.gpu_types = job->offers.types,
			.milli = milli,
			.stays = request->stays,
			.cpu_milli = job->cpu_milli,
			.memory_mib = job->memory_mib
	};
}

/*
 * Whether the organisation has reached the limit of queued jobs that hold no
 * credit. Such jobs cost nothing, so without a limit they could fill the queue
 * that each cycle reads.  If several are submitted at the same time, a few
 * more may pass.
 */
static bool
unpaid_queue_full(const Job *job)
{
	int32		most = SettingUnpaidQueuedMax();

	return SqlInt8(SqlRun(&unpaid_count,
						  VALUES(TextValue(job->org), Int4Value(most))), 0, 1)
		>= most;
}
