/*-------------------------------------------------------------------------
 *
 * checks.c
 *		Reads the checks and the usage in a worker's report on a case.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "checks.h"
#include "mb/pg_wchar.h"
#include "number.h"
#include "types/entry.h"

#define MAX_CHECKS_BYTES	(1024 * 1024)
#define MAX_USAGE_BYTES		8192
#define MAX_WEIGHT			1000000
#define MAX_TOKENS			1000000000

PG_FUNCTION_INFO_V1(gpucredit_eval_check_usage);

static bool read_check(JsonbContainer *check, bool *pass, Datum *score,
					   Datum *weight);
static JsonbValue *field(JsonbContainer *object, const char *name,
						 JsonbValue *value);
static bool is_number(const JsonbValue *value, int64 highest);
static NullableDatum tokens(JsonbContainer *usage, const char *name);
static NullableDatum embedded_tokens(Jsonb *usage);
static pg_attribute_noreturn() void refuse_checks(void);

/*
 * Computes the weighted score, and whether all checks pass. An empty list of
 * checks passes.
 */
Checks
ChecksRead(Jsonb *checks)
{
	Checks		result = {.passed = true};
	Datum		sum = NUMERIC(0);
	Datum		weights = NUMERIC(0);
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	value;

	if (checks == NULL || !JB_ROOT_IS_ARRAY(checks) ||
		JB_ROOT_IS_SCALAR(checks) || VARSIZE(checks) > MAX_CHECKS_BYTES)
		refuse_checks();
	it = JsonbIteratorInit(&checks->root);
	(void) JsonbIteratorNext(&it, &value, true);	/* the start of the array */
	while ((token = JsonbIteratorNext(&it, &value, true)) == WJB_ELEM)
	{
		bool		pass;
		Datum		score;
		Datum		weight;

		if (value.type != jbvBinary ||
			!read_check(value.val.binary.data, &pass, &score, &weight))
			refuse_checks();
		result.passed &= pass;
		weights = CALCULATE(add, weights, weight);
		sum = CALCULATE(add, sum, CALCULATE(mul, weight, score));
	}
	if (JB_ROOT_COUNT(checks) == 0)
		result.score = NUMERIC(1);
	else if (COMPARE(gt, weights, NUMERIC(0)))
		result.score = CALCULATE(div, sum, weights);
	else
		result.score = NUMERIC(0);
	return result;
}

/*
 * Reads one check. Returns false if it is malformed. Without a score, the
 * score is 1 if the check passes, otherwise 0.
 */
static bool
read_check(JsonbContainer *check, bool *pass, Datum *score, Datum *weight)
{
	JsonbValue	value;

	if (!JsonContainerIsObject(check) ||
		field(check, "pass", &value) == NULL || value.type != jbvBool)
		return false;
	*pass = value.val.boolean;
	*score = NUMERIC(*pass);
	*weight = NUMERIC(1);
	if (field(check, "score", &value) != NULL)
	{
		if (!is_number(&value, 1))
			return false;
		*score = NumericGetDatum(value.val.numeric);
	}
	if (field(check, "weight", &value) != NULL)
	{
		if (!is_number(&value, MAX_WEIGHT))
			return false;
		*weight = NumericGetDatum(value.val.numeric);
	}
	return true;
}

static JsonbValue *
field(JsonbContainer *object, const char *name, JsonbValue *value)
{
	return getKeyJsonValueFromContainer(object, name, strlen(name), value);
}

/* Whether a value is a number from 0 to "highest". */
static bool
is_number(const JsonbValue *value, int64 highest)
{
	return value->type == jbvNumeric &&
		NumberIsUpTo(NumericGetDatum(value->val.numeric), highest);
}

static void
refuse_checks(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("checks is an array of {\"pass\", \"score\", \"weight\", ..}"),
			 errdetail("pass is true or false, score 0 to 1, weight 0 or more."),
			 errhint("Correct the argument and call again.")));
}

/*
 * Reads how many tokens a call used.
 */
Usage
UsageRead(Jsonb *usage)
{
	Usage		result = {{0, true}, {0, true}, {0, true}};

	if (usage == NULL)
		return result;
	if (JB_ROOT_IS_OBJECT(usage) && VARSIZE(usage) <= MAX_USAGE_BYTES)
	{
		result.tokens_in = tokens(&usage->root, "prompt_tokens");
		result.tokens_out = tokens(&usage->root, "completion_tokens");
		result.embedded = embedded_tokens(usage);
	}
	if (result.tokens_in.isnull || result.tokens_out.isnull ||
		result.embedded.isnull)
	{
		char	   *text = JsonbToCString(NULL, &usage->root, VARSIZE(usage));

		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("usage has whole prompt_tokens and completion_tokens, 0 or more, and \"embedding\" whole prompt_tokens"),
				 errdetail("It is %s.",
						   pnstrdup(text, pg_mbcliplen(text, strlen(text), 200))),
				 errhint("Pass NULL where the endpoint did not say: the call then counts in full.")));
	}
	return result;
}

/*
 * Returns how many tokens the embedding model read, 0 if the usage does not
 * mention it, or null if that is malformed.
 */
static NullableDatum
embedded_tokens(Jsonb *usage)
{
	NullableDatum result = {NUMERIC(0), false};
	JsonbValue	value;

	if (field(&usage->root, "embedding", &value) == NULL)
		return result;
	if (value.type == jbvBinary && JsonContainerIsObject(value.val.binary.data))
		return tokens(value.val.binary.data, "prompt_tokens");
	result.isnull = true;
	return result;
}

/* Reads a whole number of tokens, or null. */
static NullableDatum
tokens(JsonbContainer *usage, const char *name)
{
	NullableDatum result = {0, true};
	JsonbValue	value;

	if (field(usage, name, &value) != NULL &&
		is_number(&value, MAX_TOKENS))
	{
		Datum		number = NumericGetDatum(value.val.numeric);

		result.value = number;
		result.isnull = COMPARE(ne, number, TRUNCATE(number, 0));
	}
	return result;
}

Datum
gpucredit_eval_check_usage(PG_FUNCTION_ARGS)
{
	(void) UsageRead(PG_ARGISNULL(0) ? NULL : PG_GETARG_JSONB_P(0));
	PG_RETURN_VOID();
}
