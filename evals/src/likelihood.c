/*-------------------------------------------------------------------------
 *
 * likelihood.c
 *		Decides the checks of cases that ask how likely texts are, exactly as
 *		evals/cli/lib/likelihood.mjs does. measured_by() reads from an output
 *		what the score of a task is computed from.
 *
 * The output of such a case is an array with one object for each text: the sum
 * of the logarithms of its tokens' probabilities, and whether each token was
 * the likeliest one. A worker computes in double precision, and so does this
 * file. An output that has another form fails the check.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/jsonapi.h"
#include "json_depth.h"
#include "likelihood.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "number.h"
#include "types/entry.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

/* What a model's answer says of one text. */
typedef struct Likelihood
{
	double		logprob;
	bool		greedy_known;
	bool		greedy;			/* each token was the likeliest one */
} Likelihood;

typedef struct Likelihoods
{
	int			n;				/* 0 if the output is malformed */
	Likelihood *texts;
} Likelihoods;

static Likelihoods read_output(const char *output, int len);
static bool is_json(const char *output, int len);
static bool read_text(JsonbValue *value, Likelihood *text);
static Decision decide_greedy(JsonbContainer *check, Likelihoods all);
static Decision decide_likeliest(JsonbContainer *check, const JsonbValue *metric,
								 Likelihoods all);
static Decision find_likeliest(JsonbContainer *check, const JsonbValue *metric,
							   Likelihoods all, int *likeliest);
static bool text_length(JsonbContainer *choices, int i, bool in_bytes,
						double *length);
static int	count_right(JsonbContainer *check);
static bool right_at(JsonbContainer *check, int i, double *number);
static double number_of(const JsonbValue *value);
static bool is_text(const JsonbValue *value, const char *text);

/* No text is less likely than this logarithm says. */
#define LEAST_LOGPROB	(-1e9)

PG_FUNCTION_INFO_V1(gpucredit_eval_measured_by);

/*
 * Returns what the score of a task is computed from, of a case whose check has
 * the metric perplexity, mcc or f1: the logarithm of the text's probability, or
 * the number of the likeliest choice. Returns NULL if the output does not tell.
 */
Datum
gpucredit_eval_measured_by(PG_FUNCTION_ARGS)
{
	JsonbContainer *check = &PG_GETARG_JSONB_P(0)->root;
	bytea	   *output = PG_GETARG_BYTEA_PP(1);
	Likelihoods all = read_output(VARDATA_ANY(output),
								  VARSIZE_ANY_EXHDR(output));
	JsonbValue	metric;
	double		measured;
	int			likeliest;

	if (all.n == 0 ||
		getKeyJsonValueFromContainer(check, "metric", 6, &metric) == NULL)
		PG_RETURN_NULL();
	if (is_text(&metric, "perplexity"))
		measured = Max(Min(all.texts[0].logprob, 0), LEAST_LOGPROB);
	else if (find_likeliest(check, &metric, all, &likeliest) == CHECK_PASSES)
		measured = likeliest;
	else
		PG_RETURN_NULL();
	return DirectFunctionCall1(float8_numeric, Float8GetDatum(measured));
}

/*
 * Decides a check of type multiple_choice, or of loglikelihood otherwise. With
 * the metric perplexity it passes if the output has a likelihood.
 */
Decision
LikelihoodDecide(JsonbContainer *check, bool is_choice, const char *output,
				 int len)
{
	Likelihoods all = read_output(output, len);
	JsonbValue	metric;

	if (all.n == 0)
		return CHECK_FAILS;
	if (getKeyJsonValueFromContainer(check, "metric", 6, &metric) == NULL)
		metric.type = jbvNull;
	if (!is_choice)
		return is_text(&metric, "perplexity") ||
			(all.texts[0].greedy_known && all.texts[0].greedy);
	if (metric.type == jbvNull)
		return CHECK_UNDECIDED;
	if (is_text(&metric, "exact_match"))
		return decide_greedy(check, all);
	return decide_likeliest(check, &metric, all);
}

/*
 * Reads the likelihoods of all texts.
 */
static Likelihoods
read_output(const char *output, int len)
{
	Likelihoods all = {0, NULL};
	Jsonb	   *array;
	int			n;

	if (!is_json(output, len))
		return all;
	array = DatumGetJsonbP(DirectFunctionCall1(jsonb_in,
											   CStringGetDatum(pnstrdup(output, len))));
	if (!JB_ROOT_IS_ARRAY(array) || JB_ROOT_IS_SCALAR(array))
		return all;
	n = JB_ROOT_COUNT(array);
	all.texts = palloc(sizeof(Likelihood) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!read_text(getIthJsonbValueFromContainer(&array->root, i),
					   &all.texts[i]))
			return all;
	}
	all.n = n;
	return all;
}

/* Whether the output is JSON that jsonb can store. */
static bool
is_json(const char *output, int len)
{
	JsonSemAction actions = {0};
	JsonLexContext *lex;

	if (!pg_verify_mbstr(PG_UTF8, output, len, true) ||
		JsonIsTooDeep(output, len))
		return false;
#if PG_VERSION_NUM >= 170000
	lex = makeJsonLexContextCstringLen(NULL, output, len, PG_UTF8, false);
#else
	lex = makeJsonLexContextCstringLen((char *) output, len, PG_UTF8, false);
#endif
	return pg_parse_json(lex, &actions) == JSON_SUCCESS;
}

/*
 * Reads what the output says of one text. Returns false if it is no object
 * with a number "logprob".
 */
static bool
read_text(JsonbValue *value, Likelihood *text)
{
	JsonbValue	member;

	if (value == NULL || value->type != jbvBinary ||
		!JsonContainerIsObject(value->val.binary.data) ||
		getKeyJsonValueFromContainer(value->val.binary.data, "logprob", 7,
									 &member) == NULL ||
		member.type != jbvNumeric)
		return false;
	text->logprob = number_of(&member);
	text->greedy_known = getKeyJsonValueFromContainer(value->val.binary.data,
													  "greedy", 6, &member) != NULL &&
		member.type == jbvBool;
	text->greedy = text->greedy_known && member.val.boolean;
	return true;
}

/*
 * Decides whether the model would have written a right text. The right texts
 * are looked at in their order, up to the first that it would have written; if
 * that is not known of one of these, the check fails.
 */
static Decision
decide_greedy(JsonbContainer *check, Likelihoods all)
{
	int			n = count_right(check);

	for (int i = 0; i < n; i++)
	{
		double		number;
		int			at;

		if (!right_at(check, i, &number))
			return CHECK_UNDECIDED;
		at = number >= 0 && number < all.n ? (int) number : -1;
		if (at < 0 || at != number)
			continue;
		if (!all.texts[at].greedy_known)
			return CHECK_FAILS;
		if (all.texts[at].greedy)
			return CHECK_PASSES;
	}
	return CHECK_FAILS;
}

/*
 * Decides whether the likeliest text is a right one.
 */
static Decision
decide_likeliest(JsonbContainer *check, const JsonbValue *metric,
				 Likelihoods all)
{
	int			n = count_right(check);
	int			likeliest;
	Decision	found = find_likeliest(check, metric, all, &likeliest);

	if (found != CHECK_PASSES)
		return found;
	for (int i = 0; i < n; i++)
	{
		double		number;

		if (!right_at(check, i, &number))
			return CHECK_UNDECIDED;
		if (number == likeliest)
			return CHECK_PASSES;
	}
	return CHECK_FAILS;
}

/*
 * Finds the likeliest text, by its likelihood (acc, mcc, f1), or by that over
 * its length in characters (acc_norm) or bytes (acc_bytes). Fails if there are
 * not as many texts as choices, and decides nothing if the check is malformed.
 */
static Decision
find_likeliest(JsonbContainer *check, const JsonbValue *metric,
			   Likelihoods all, int *likeliest)
{
	bool		in_bytes = is_text(metric, "acc_bytes");
	bool		by_length = in_bytes || is_text(metric, "acc_norm");
	double		most = 0;
	JsonbValue	choices;

	*likeliest = 0;
	if (!by_length && !is_text(metric, "acc") && !is_text(metric, "mcc") &&
		!is_text(metric, "f1"))
		return CHECK_UNDECIDED;
	if (getKeyJsonValueFromContainer(check, "choices", 7, &choices) == NULL ||
		choices.type != jbvBinary ||
		!JsonContainerIsArray(choices.val.binary.data))
		return CHECK_UNDECIDED;
	if ((int) JsonContainerSize(choices.val.binary.data) != all.n)
		return CHECK_FAILS;
	for (int i = 0; i < all.n; i++)
	{
		double		length = 1;
		double		score;

		if (by_length &&
			!text_length(choices.val.binary.data, i, in_bytes, &length))
			return CHECK_UNDECIDED;
		score = all.texts[i].logprob / length;
		if (i == 0 || score > most)
		{
			most = score;
			*likeliest = i;
		}
	}
	return CHECK_PASSES;
}

/* Reads the length of a choice. Returns false if the choice is no string. */
static bool
text_length(JsonbContainer *choices, int i, bool in_bytes, double *length)
{
	JsonbValue *choice = getIthJsonbValueFromContainer(choices, i);

	if (choice == NULL || choice->type != jbvString)
		return false;
	*length = in_bytes ? choice->val.string.len :
		pg_mbstrlen_with_len(choice->val.string.val, choice->val.string.len);
	return true;
}

/* Returns how many texts are right: "value" is one number, or an array. */
static int
count_right(JsonbContainer *check)
{
	JsonbValue	value;

	if (getKeyJsonValueFromContainer(check, "value", 5, &value) != NULL &&
		value.type == jbvBinary && JsonContainerIsArray(value.val.binary.data))
		return JsonContainerSize(value.val.binary.data);
	return 1;
}

/* Reads the number of a right text. Returns false if it is no number. */
static bool
right_at(JsonbContainer *check, int i, double *number)
{
	JsonbValue	value;
	JsonbValue *found = getKeyJsonValueFromContainer(check, "value", 5, &value);

	if (found != NULL && found->type == jbvBinary &&
		JsonContainerIsArray(found->val.binary.data))
		found = getIthJsonbValueFromContainer(found->val.binary.data, i);
	if (found == NULL || found->type != jbvNumeric)
		return false;
	*number = number_of(found);
	return true;
}

/*
 * Converts a number as JavaScript reads it: to the nearest double, or to
 * infinity if it is too large.
 */
static double
number_of(const JsonbValue *value)
{
	char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out,
														   NumericGetDatum(value->val.numeric)));

	return strtod(text, NULL);
}

static bool
is_text(const JsonbValue *value, const char *text)
{
	return value->type == jbvString &&
		value->val.string.len == (int) strlen(text) &&
		memcmp(value->val.string.val, text, strlen(text)) == 0;
}
