/*-------------------------------------------------------------------------
 *
 * policy.c
 *		The words of a pool's policy, which no other file knows.
 *
 * A policy is a JSON object, and a missing word has its default.  To add a
 * word, add a line to the table and a function that stores its value in
 * PoolPolicy or raises an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/json_value.h"
#include "util/settings.h"
#include "util/sql.h"
#include "inventory/inventory.h"
#include "lib/stringinfo.h"
#include "types/clip.h"
#include "types/control.h"
#include "utils/builtins.h"

#define MILLION		1000000
#define PLACE_MAX	1024		/* most bytes of the name of a place */

typedef void (*TakeFn) (PoolPolicy *policy, const char *word,
						JsonbValue *value);

typedef struct PolicyWord
{
	const char *word;
	const char *takes;
	TakeFn		take;
} PolicyWord;

static void parse_checkpoints(PoolPolicy *policy, const char *word,
							  JsonbValue *value);
static void parse_consolidate(PoolPolicy *policy, const char *word,
							  JsonbValue *value);
static void parse_image_wait(PoolPolicy *policy, const char *word,
							 JsonbValue *value);
static void parse_order(PoolPolicy *policy, const char *word,
						JsonbValue *value);
static void parse_reclaim(PoolPolicy *policy, const char *word,
						  JsonbValue *value);
static void parse_placed_by(PoolPolicy *policy, const char *word,
							JsonbValue *value);
static bool yes_or_no(const char *word, JsonbValue *value);
static void set_defaults(PoolPolicy *policy);
static void parse_packing(PoolPolicy *policy, const char *word,
						  JsonbValue *value);
static void parse_tier_share(PoolPolicy *policy, const char *word,
							 JsonbValue *value);
static int	one_of(const char *word, JsonbValue *value,
				   const char *const *choices, int n);
static int32 millionths(const char *word, JsonbValue *value);
static pg_attribute_noreturn() void refuse(const char *word, const char *why);

static const char *const order_words[] = {"fair", "shortest"};
static const char *const placed_by_words[] = {"place", "foreign"};
static const char *const packing_words[] = {"pack", "spread", "fgd"};

static const PolicyWord words[] = {
	{"checkpoints", "path or URI", parse_checkpoints},
	{"consolidate", "boolean", parse_consolidate},
	{"image_wait", "interval", parse_image_wait},
	{"order", "fair or shortest", parse_order},
	{"packing", "pack, spread or fgd", parse_packing},
	{"placed_by", "foreign", parse_placed_by},
	{"reclaim", "boolean", parse_reclaim},
	{"tier_share", "fractions", parse_tier_share},
};

SQL_STATEMENT(policy_read, SPI_OK_SELECT, "text",
			  "SELECT p.policy FROM gpucredit.pool p WHERE p.pool = $1");

/* Parses a policy; raises 22023 if a word or its value is not allowed. */
void
PolicyParse(Jsonb *json, PoolPolicy *policy)
{
	JsonbIterator *it = JsonbIteratorInit(&json->root);
	JsonbIteratorToken token;
	JsonbValue	v;

	set_defaults(policy);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char	   *word;
		Size		w = 0;

		if (token != WJB_KEY)
			continue;
		word = pnstrdup(v.val.string.val, v.val.string.len);
		(void) JsonbIteratorNext(&it, &v, true);
		while (w < lengthof(words) && strcmp(words[w].word, word) != 0)
			w++;
		if (w == lengthof(words))
			refuse(word, "The word is unknown.");
		words[w].take(policy, word, &v);
	}
}

/* Reads the policy of a pool; a pool without a row has all defaults. */
PoolPolicy *
PolicyRead(const char *pool, bool read_only)
{
	PoolPolicy *policy = palloc(sizeof(PoolPolicy));
	Values	   *args;
	SqlResult	row;
	bool		isnull;

	set_defaults(policy);
	args = VALUES(TextValue(pool));
	row = read_only ? SqlRead(&policy_read, args) :
		SqlRun(&policy_read, args);
	if (row.n > 0)
		PolicyParse(DatumGetJsonbPCopy(SqlDatum(row, 0, 1, &isnull)), policy);
	return policy;
}

/* Sets all defaults. */
static void
set_defaults(PoolPolicy *policy)
{
	memset(policy, 0, sizeof(PoolPolicy));
	policy->decide.fair_horizon = SettingFairHorizon();
	policy->decide.backfill_depth = SettingBackfillDepth();
	policy->decide.restart_cost = SettingRestartCost();
	policy->decide.elastic_idle_delay = SettingElasticIdleDelay() == 0 ?
		DECIDE_NEVER :
		SettingElasticIdleDelay();
}

/*
 * "checkpoints": where jobs save by default.  Heartbeats read it; a cycle does
 * not need it, so it is only checked here.
 */
static void
parse_checkpoints(PoolPolicy *policy, const char *word, JsonbValue *value)
{
	if (!JsonPlace(value))
		refuse(word, "It takes a path or URI of 1 to 1024 bytes without "
			   "control characters.");
}

/*
 * "image_wait": how long an attempt keeps its devices while its node pulls its
 * image.  Heartbeats read it; a cycle does not need it, so it is only checked
 * here.
 */
static void
parse_image_wait(PoolPolicy *policy, const char *word, JsonbValue *value)
{
	int64		us;

	if (!JsonDuration(value, &us) || us > USECS_PER_DAY)
		refuse(word, "It must be an interval of at most a day; 0 lets devices "
			   "wait for no image.");
}

/* "consolidate": whether running jobs are moved to make room for others. */
static void
parse_consolidate(PoolPolicy *policy, const char *word, JsonbValue *value)
{
	policy->decide.consolidate = yes_or_no(word, value);
}

/*
 * "reclaim": whether an account may reclaim its entitlement from running jobs
 * of the same or a lower rank.
 */
static void
parse_reclaim(PoolPolicy *policy, const char *word, JsonbValue *value)
{
	policy->decide.reclaim = yes_or_no(word, value);
}

/* "order": the order among the jobs of one account. */
static void
parse_order(PoolPolicy *policy, const char *word, JsonbValue *value)
{
	policy->decide.order = (DecideOrder) one_of(word, value, order_words,
												lengthof(order_words));
}

/* "packing": the choice among nodes that serve a job equally well. */
static void
parse_packing(PoolPolicy *policy, const char *word, JsonbValue *value)
{
	policy->decide.packing = (DecidePacking) one_of(word, value,
													packing_words,
													lengthof(packing_words));
}

/*
 * "placed_by": who chooses the devices: place(), or another scheduler, which
 * calls placed().
 */
static void
parse_placed_by(PoolPolicy *policy, const char *word, JsonbValue *value)
{
	policy->foreign = one_of(word, value, placed_by_words,
							 lengthof(placed_by_words)) == 1;
}

/*
 * "tier_share": an object such as {"batch_inference": 0.2}.  The shares must
 * add up to at most 1, the whole pool.
 */
static void
parse_tier_share(PoolPolicy *policy, const char *word, JsonbValue *value)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;
	int64		sum = 0;

	if (value->type != jbvBinary ||
		!JsonContainerIsObject(value->val.binary.data))
		refuse(word, "It must be an object of tiers and fractions.");
	it = JsonbIteratorInit(value->val.binary.data);
	policy->shares = palloc(sizeof(TierShare) *
							(JsonContainerSize(value->val.binary.data) + 1));
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		TierShare  *share;

		if (token != WJB_KEY)
			continue;
		share = &policy->shares[policy->n_shares++];
		share->tier = pnstrdup(v.val.string.val, v.val.string.len);
		(void) JsonbIteratorNext(&it, &v, true);
		share->ppm = millionths(word, &v);
		sum += share->ppm;
	}
	if (sum > MILLION)
		refuse(word, "Its fractions add up to more than 1.");
}

static bool
yes_or_no(const char *word, JsonbValue *value)
{
	if (value->type != jbvBool)
		refuse(word, "It must be true or false.");
	return value->val.boolean;
}

/* Returns the index of a value in the list of possible values. */
static int
one_of(const char *word, JsonbValue *value, const char *const *choices, int n)
{
	StringInfoData why;

	for (int i = 0; i < n && value->type == jbvString; i++)
	{
		if (strlen(choices[i]) == (Size) value->val.string.len &&
			memcmp(choices[i], value->val.string.val,
				   value->val.string.len) == 0)
			return i;
	}
	initStringInfo(&why);
	appendStringInfoString(&why, "It must be one of");
	for (int i = 0; i < n; i++)
		appendStringInfo(&why, "%s \"%s\"", i > 0 ? "," : "", choices[i]);
	appendStringInfoChar(&why, '.');
	refuse(word, why.data);
}

/* Returns a fraction from 0 to 1 in millionths, rounded down. */
static int32
millionths(const char *word, JsonbValue *value)
{
	Numeric		scaled;
	bool		bad = false;
	int32		ppm;

	if (value->type != jbvNumeric ||
		numeric_is_nan(value->val.numeric) ||
		numeric_is_inf(value->val.numeric))
		refuse(word, "It must be a fraction from 0 to 1.");
	scaled = numeric_mul_opt_error(value->val.numeric,
								   int64_to_numeric(MILLION), &bad);
	if (!bad)
		scaled = DatumGetNumeric(DirectFunctionCall1(numeric_floor,
													 NumericGetDatum(scaled)));
	ppm = bad ? -1 : numeric_int4_opt_error(scaled, &bad);
	if (bad || ppm < 0 || ppm > MILLION)
		refuse(word, "It must be a fraction from 0 to 1.");
	return ppm;
}

/* Raises 22023, with a list of the possible words as hint. */
static void
refuse(const char *word, const char *why)
{
	StringInfoData hint;

	initStringInfo(&hint);
	appendStringInfoString(&hint, "Use");
	for (Size w = 0; w < lengthof(words); w++)
		appendStringInfo(&hint, "%s %s (%s)", w > 0 ? "," : "",
						 words[w].word, words[w].takes);
	appendStringInfoChar(&hint, '.');
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("bad word \"%s\" in the pool's policy",
					ClipForMessage(word)),
			 errdetail_internal("%s", why),
			 errhint("%s", hint.data)));
}

/*
 * Whether a JSON value is a text that can name a place, such as a path or URI.
 * Policies and specs of jobs have such texts.
 */
bool
JsonPlace(const JsonbValue *value)
{
	int			size;
	pg_wchar	code;

	return value->type == jbvString && value->val.string.len > 0 &&
		value->val.string.len <= PLACE_MAX &&
		ControlCharIn(value->val.string.val, value->val.string.len, &size,
					  &code) == NULL;
}
