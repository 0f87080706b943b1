/*-------------------------------------------------------------------------
 *
 * issue.c
 *		SQL function issue: creates a bucket, and the entry that fills it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "api/api.h"
#include "ledger/post.h"
#include "request/request.h"
#include "types/clip.h"
#include "types/duration.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

API_FUNCTION(gpucredit_issue, issue);

#define POLICY_MAX_NAMES	64

/*
 * A list of names that a policy allows. n < 0 if the policy does not limit
 * them.
 */
typedef struct Names
{
	int			n;
	const char *names[POLICY_MAX_NAMES];
} Names;

typedef struct Policy
{
	Names		gpu_types;
	Names		tiers;
	Names		pools;
	bool		has_max_per_job;
	Credits		max_per_job;
	Numeric		max_share;		/* NULL if not limited */
} Policy;

typedef struct Issue
{
	char	   *org;
	char	   *account;
	Credits		amount;
	char	   *kind;
	TimestampTz expires_at;		/* DT_NOBEGIN if not given */
	TimestampTz effective_at;
	int64		valid_for;		/* 0 if not given */
	int32		priority;
	Jsonb	   *policy_json;
	Policy		policy;
	char	   *memo;
} Issue;

static const char *const kinds[] = {"paid", "promo", "grant"};

static void parse_policy(Jsonb *json, Policy *policy);
static void parse_names(const char *word, JsonbValue *value, Names *names);
static Numeric parse_number(const char *word, JsonbValue *value);
static pg_attribute_noreturn() void refuse_policy(const char *word,
												  const char *why);
static void resolve_times(Issue *issue, TimestampTz now);
static int64 insert_bucket(const Issue *issue, TimestampTz now);
static NullableDatum names_value(const Names *names);

Datum
call_issue(PG_FUNCTION_ARGS)
{
	Issue		issue;
	Request		request;
	Datum		result;
	TimestampTz now;
	AuditRow	audit = {.operation = "issue", .decision = "issued"};
	Cause		cause = {"issue", 0, 0};
	Posting		posting;
	AccountPath path;

	issue.org = ArgName(fcinfo, 0, "org");
	issue.account = ArgPath(fcinfo, 1, "account");
	RequestInit(&request, fcinfo, "issue", issue.org,
				ArgKey(fcinfo, 2, "key"));
	RequestText(&request, issue.account);
	RequestInt8(&request, issue.amount = ArgAmount(fcinfo, 3, "amount",
												   false));
	RequestText(&request, issue.kind = ArgName(fcinfo, 4, "kind"));
	(void) ArgWord(issue.kind, "kind", kinds, lengthof(kinds));
	RequestInt8(&request, issue.expires_at =
				ArgTimeOrNull(fcinfo, 5, "expires_at"));
	RequestInt8(&request, issue.effective_at =
				ArgTimeOrNull(fcinfo, 6, "effective_at"));
	RequestInt8(&request, issue.priority =
				ArgInt4(fcinfo, 7, "priority", PG_INT32_MIN, PG_INT32_MAX));
	RequestJson(&request, issue.policy_json = ArgObject(fcinfo, 8, "policy"));
	parse_policy(issue.policy_json, &issue.policy);
	RequestText(&request, issue.memo = ArgTextOrNull(fcinfo, 9, "memo"));
	RequestInt8(&request, issue.valid_for =
				ArgDurationOr(fcinfo, 10, "valid_for", false, 0));
	path = AccountParse(issue.org, issue.account);

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	(void) AccountSuspended(&path);
	now = ClockNow();
	resolve_times(&issue, now);
	audit.bucket = insert_bucket(&issue, now);

	posting = (Posting)
	{
		.org = issue.org, .account = issue.account, .cause = &cause,
			.at = now, .n = 1,
			.moves = &(Move){audit.bucket, 0, ISSUED, AVAILABLE, issue.amount,
							   0}
	};
	LedgerPost(&posting);

	audit.org = issue.org;
	audit.account = issue.account;
	audit.at = now;
	AuditArgs(&audit, fcinfo);
	AuditWrite(&audit);

	return SqlFinishRow(RequestFinish(&request,
									  VALUES(Int8Value(audit.bucket),
											 BoolValue(false))));
}

/* Computes when the bucket becomes active and when it expires. */
static void
resolve_times(Issue *issue, TimestampTz now)
{
	if (issue->effective_at == DT_NOBEGIN)
		issue->effective_at = now;
	if (issue->valid_for > 0)
	{
		if (issue->expires_at != DT_NOBEGIN)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("both \"expires_at\" and \"valid_for\" given"),
					 errdetail("Each says when the credits expire."),
					 errhint("Pass one of them.")));
		issue->expires_at = ClockAdd(issue->effective_at, issue->valid_for);
	}
	if (issue->expires_at == DT_NOBEGIN)
		return;
	if (issue->expires_at <= now)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the credits would have expired already"),
				 errdetail("They expire at %s, and it is %s.",
						   pstrdup(timestamptz_to_str(issue->expires_at)),
						   pstrdup(timestamptz_to_str(now))),
				 errhint("Pass an \"expires_at\" in the future.")));
	if (issue->expires_at <= issue->effective_at)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"expires_at\" must be later than \"effective_at\""),
				 errdetail("The credits would never be active."),
				 errhint("Pass a later \"expires_at\".")));
}

/* Inserts the new bucket, which is still empty. */
static int64
insert_bucket(const Issue *issue, TimestampTz now)
{
	const Policy *policy = &issue->policy;
	NewBucket	bucket = {
		.org = issue->org, .account = issue->account, .kind = issue->kind,
		.priority = issue->priority, .effective_at = issue->effective_at,
		.expires_at = issue->expires_at,
		.gpu_types = names_value(&policy->gpu_types),
		.tiers = names_value(&policy->tiers),
		.pools = names_value(&policy->pools),
		.max_per_job = policy->has_max_per_job ?
		CreditsValue(policy->max_per_job) : NullValue(),
		.max_share = policy->max_share ?
		DatumValue(NumericGetDatum(policy->max_share)) : NullValue(),
		.policy = issue->policy_json, .memo = issue->memo, .created_at = now
	};

	return LedgerCreateBucket(&bucket);
}

static NullableDatum
names_value(const Names *names)
{
	return names->n < 0 ? NullValue() :
		TextArrayValue(names->names, names->n);
}

/* Parses a policy. */
static void
parse_policy(Jsonb *json, Policy *policy)
{
	JsonbIterator *it = JsonbIteratorInit(&json->root);
	JsonbIteratorToken token;
	JsonbValue	v;

	memset(policy, 0, sizeof(Policy));
	policy->gpu_types.n = policy->tiers.n = policy->pools.n = -1;
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char	   *word;

		if (token != WJB_KEY)
			continue;
		word = pnstrdup(v.val.string.val, v.val.string.len);
		(void) JsonbIteratorNext(&it, &v, true);
		if (strcmp(word, "gpu_types") == 0)
			parse_names(word, &v, &policy->gpu_types);
		else if (strcmp(word, "tiers") == 0)
			parse_names(word, &v, &policy->tiers);
		else if (strcmp(word, "pools") == 0)
			parse_names(word, &v, &policy->pools);
		else if (strcmp(word, "max_per_job") == 0)
		{
			policy->max_per_job = CreditsFromNumeric(parse_number(word, &v),
													 word);
			policy->has_max_per_job = true;
			if (policy->max_per_job <= 0)
				refuse_policy(word, "It must be above 0.");
		}
		else if (strcmp(word, "max_share") == 0)
		{
			Credits		share;

			policy->max_share = parse_number(word, &v);
			share = CreditsFromNumeric(policy->max_share, word);
			if (share <= 0 || share > 1000000)
				refuse_policy(word, "It must be above 0 and at most 1.");
		}
		else
			refuse_policy(word, "The word is unknown.");
	}
}

/* Parses an array of names, each of which must not be empty. */
static void
parse_names(const char *word, JsonbValue *value, Names *names)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;

	if (value->type != jbvBinary ||
		!JsonContainerIsArray(value->val.binary.data))
		refuse_policy(word, "It must be an array of names.");
	it = JsonbIteratorInit(value->val.binary.data);
	names->n = 0;
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token != WJB_ELEM)
			continue;
		if (v.type != jbvString || v.val.string.len == 0)
			refuse_policy(word, "It must be an array of names.");
		if (names->n == POLICY_MAX_NAMES)
			refuse_policy(word, "It has more than 64 names.");
		names->names[names->n++] = pnstrdup(v.val.string.val,
											v.val.string.len);
	}
}

static Numeric
parse_number(const char *word, JsonbValue *value)
{
	if (value->type != jbvNumeric)
		refuse_policy(word, "It must be a number.");
	return value->val.numeric;
}

static void
refuse_policy(const char *word, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("bad word \"%s\" in the policy", ClipForMessage(word)),
			 errdetail_internal("%s", why),
			 errhint("Words are gpu_types, tiers, pools (arrays of names), "
					 "max_per_job (credits), max_share (up to 1).")));
}
