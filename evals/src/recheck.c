/*-------------------------------------------------------------------------
 *
 * recheck.c
 *		Compares a worker's reported checks with those of the case, and
 *		repeats those that the database can decide.
 *
 * A report has one element for each check of the case, in the same order and
 * of the same type. The following checks are decided here, exactly as in
 * evals/cli/lib/checks.mjs: equals with a string, contains and starts-with
 * with a non-empty string, is-json without a schema, exact_match without a
 * filter or other options, and the negation of each; and multiple_choice and
 * loglikelihood, by the likelihoods in the output. Any other check is left
 * to the worker: one whose value is not a string, or that needs a regular
 * expression, a schema, a script or the call's duration. So is a check with a
 * transform, which does not see the output as it is here.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/jsonapi.h"
#include "json_depth.h"
#include "likelihood.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "number.h"
#include "recheck.h"
#include "types/entry.h"

#define NOT_PREFIX		"not-"
#define NOT_LENGTH		4

typedef struct Text
{
	const char *data;
	int			len;
} Text;

static bool agrees(JsonbContainer *own, JsonbContainer *reported,
				   Decision decision);
static Decision decide(JsonbContainer *check, Text output);
static Decision decide_type(Text type, JsonbContainer *check, Text output);
static Decision decide_json(Text output);
static bool contains(Text text, Text part);
static bool text_field(JsonbContainer *object, const char *name, Text *text);
static bool has_field(JsonbContainer *object, const char *name);
static bool text_is(Text text, const char *word);
static Datum weight_of(JsonbContainer *check);
static JsonbContainer *element(Jsonb *array, int i);
static pg_attribute_noreturn() void refuse_other_checks(int own, int reported);

/*
 * Compares all checks. Raises an error if the report has other checks than the
 * case.
 */
Recheck
RecheckReport(Jsonb *own, Jsonb *reported, bytea *output)
{
	Text		text = {VARDATA_ANY(output), VARSIZE_ANY_EXHDR(output)};
	Recheck		result = {.agrees = true, .n = JB_ROOT_COUNT(own)};
	int			n = JB_ROOT_COUNT(reported);

	if (n != result.n)
		refuse_other_checks(result.n, n);
	result.decisions = palloc(sizeof(Decision) * Max(result.n, 1));
	for (int i = 0; i < result.n; i++)
	{
		JsonbContainer *check = element(own, i);
		JsonbContainer *report = element(reported, i);
		Text		type = {"", 0};
		Text		reported_type = {"", 0};

		CHECK_FOR_INTERRUPTS();
		if (check == NULL || report == NULL)
			refuse_other_checks(result.n, n);
		text_field(check, "type", &type);
		text_field(report, "type", &reported_type);
		if (type.len != reported_type.len ||
			memcmp(type.data, reported_type.data, type.len) != 0)
			refuse_other_checks(result.n, n);
		result.decisions[i] = decide(check, text);
		if (has_field(report, "error") ||
			!agrees(check, report, result.decisions[i]))
			result.agrees = false;
	}
	return result;
}

/*
 * Whether a reported check has the case's weight, and the result that was
 * decided here, if any, with the score of that result. A check without weight
 * always passes. A check that only the worker can decide may have any score
 * from 0 to 1, as those of scripts and sets of checks have.
 */
static bool
agrees(JsonbContainer *own, JsonbContainer *reported, Decision decision)
{
	Datum		weight = weight_of(own);
	bool		informs = COMPARE(eq, weight, NUMERIC(0));
	JsonbValue	value;
	bool		pass;

	getKeyJsonValueFromContainer(reported, "pass", 4, &value);
	pass = value.val.boolean;
	if (COMPARE(ne, weight, weight_of(reported)))
		return false;
	if (informs ? !pass : decision != CHECK_UNDECIDED && pass != (decision == CHECK_PASSES))
		return false;
	if (getKeyJsonValueFromContainer(reported, "score", 5, &value) == NULL)
		return !informs;
	return informs || decision == CHECK_UNDECIDED ||
		COMPARE(eq, NumericGetDatum(value.val.numeric), NUMERIC(pass));
}

/*
 * Decides whether an output passes a check, if that is possible here.
 */
static Decision
decide(JsonbContainer *check, Text output)
{
	Text		type;
	bool		opposite;
	Decision	decision;

	if (!text_field(check, "type", &type) || has_field(check, "transform"))
		return CHECK_UNDECIDED;
	opposite = type.len > NOT_LENGTH &&
		strncmp(type.data, NOT_PREFIX, NOT_LENGTH) == 0;
	if (opposite)
	{
		type.data += NOT_LENGTH;
		type.len -= NOT_LENGTH;
	}
	decision = decide_type(type, check, output);
	if (decision == CHECK_UNDECIDED || !opposite)
		return decision;
	return decision == CHECK_PASSES ? CHECK_FAILS : CHECK_PASSES;
}

/*
 * Decides a check whose type has no prefix "not-".
 */
static Decision
decide_type(Text type, JsonbContainer *check, Text output)
{
	Text		value = {"", 0};
	bool		plain = text_field(check, "value", &value);

	if (text_is(type, "multiple_choice") || text_is(type, "loglikelihood"))
		return LikelihoodDecide(check, text_is(type, "multiple_choice"),
								output.data, output.len);
	if (text_is(type, "is-json"))
		return has_field(check, "value") ? CHECK_UNDECIDED : decide_json(output);
	if (!plain)
		return CHECK_UNDECIDED;
	if (text_is(type, "equals"))
		return value.len == output.len &&
			memcmp(value.data, output.data, value.len) == 0;
	if (text_is(type, "exact_match") && !has_field(check, "filter") &&
		!has_field(check, "until") && !has_field(check, "ignore_case") &&
		!has_field(check, "ignore_punctuation") &&
		!has_field(check, "ignore_numbers") &&
		!has_field(check, "regexes_to_ignore"))
		return value.len == output.len &&
			memcmp(value.data, output.data, value.len) == 0;
	if (value.len == 0)
		return CHECK_UNDECIDED;
	if (text_is(type, "contains"))
		return contains(output, value);
	if (text_is(type, "starts-with"))
		return output.len >= value.len &&
			memcmp(output.data, value.data, value.len) == 0;
	return CHECK_UNDECIDED;
}

/*
 * Decides whether the output is JSON. Text that is nested too deep is left to
 * the worker.
 */
static Decision
decide_json(Text output)
{
	JsonSemAction actions = {0};
	JsonLexContext *lex;

	if (!pg_verify_mbstr(PG_UTF8, output.data, output.len, true) ||
		JsonIsTooDeep(output.data, output.len))
		return CHECK_UNDECIDED;
#if PG_VERSION_NUM >= 170000
	lex = makeJsonLexContextCstringLen(NULL, output.data, output.len, PG_UTF8,
									   false);
#else
	lex = makeJsonLexContextCstringLen((char *) output.data, output.len,
									   PG_UTF8, false);
#endif
	return pg_parse_json(lex, &actions) == JSON_SUCCESS;
}

static bool
contains(Text text, Text part)
{
	const char *end = text.data + text.len - part.len;

	for (const char *at = text.data; at <= end; at++)
	{
		at = memchr(at, part.data[0], end - at + 1);
		if (at == NULL)
			return false;
		if (memcmp(at, part.data, part.len) == 0)
			return true;
	}
	return false;
}

/*
 * Returns a string member of an object. Returns false if there is none of that
 * name.
 */
static bool
text_field(JsonbContainer *object, const char *name, Text *text)
{
	JsonbValue	value;

	if (getKeyJsonValueFromContainer(object, name, strlen(name),
									 &value) == NULL ||
		value.type != jbvString)
		return false;
	text->data = value.val.string.val;
	text->len = value.val.string.len;
	return true;
}

static bool
has_field(JsonbContainer *object, const char *name)
{
	JsonbValue	value;

	return getKeyJsonValueFromContainer(object, name, strlen(name),
										&value) != NULL;
}

static bool
text_is(Text text, const char *word)
{
	return text.len == (int) strlen(word) && memcmp(text.data, word, text.len) == 0;
}

/*
 * Returns the weight of a check as numeric. add_cases() and ChecksRead() have
 * refused invalid weights.
 */
static Datum
weight_of(JsonbContainer *check)
{
	JsonbValue	value;

	if (getKeyJsonValueFromContainer(check, "weight", 6, &value) == NULL ||
		value.type != jbvNumeric)
		return NUMERIC(1);
	return NumericGetDatum(value.val.numeric);
}

/*
 * Returns an element of an array that is an object, or NULL if it is not one.
 */
static JsonbContainer *
element(Jsonb *array, int i)
{
	JsonbValue *value = getIthJsonbValueFromContainer(&array->root, i);

	return value != NULL && value->type == jbvBinary &&
		JsonContainerIsObject(value->val.binary.data) ?
		value->val.binary.data : NULL;
}

static void
refuse_other_checks(int own, int reported)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the checks reported are not those of the case"),
			 errdetail("The case has %d checks, the report %d; their types have to be the same, in the same order.",
					   own, reported),
			 errhint("Report one result for each check that lease_cases() returned.")));
}
