/*-------------------------------------------------------------------------
 *
 * options.c
 *		The members of a submission's options.
 *
 *	priority, prefer		order within the account; a preferred topology
 *	after					what it waits for (types/dependency_parse.c)
 *	kill_on_invalid_dep		it is cancelled once that can never hold
 *	name					for people, and for the dependency singleton
 *	array, task, at_most	an array of jobs of one account: its key, the job's
 *							number in it, and how many of it run at once
 *	begin, deadline			when it starts at the earliest, and ends at the latest
 *	hold					it is held until its owner releases it
 *	labels					keys and values for reports
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "job/submit/submission.h"
#include "mb/pg_wchar.h"
#include "types/clip.h"
#include "types/control.h"
#include "util/args.h"
#include "util/json_value.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#define AFTER_BYTES		2000
#define ARRAY_BYTES		63
#define LABELS_MOST		16
#define LABEL_KEY_BYTES 63
#define TASK_MOST		INT64CONST(1000000000)
#define AT_MOST_MOST	1000000

/* A member that reads its value; false: it does not accept it. */
typedef struct OptionWord
{
	const char *word;
	bool		(*read) (Submission *submission, const JsonbValue *value);
} OptionWord;

static bool read_priority(Submission *submission, const JsonbValue *value);
static bool read_prefer(Submission *submission, const JsonbValue *value);
static bool read_after(Submission *submission, const JsonbValue *value);
static bool read_kill(Submission *submission, const JsonbValue *value);
static bool read_name(Submission *submission, const JsonbValue *value);
static bool read_array(Submission *submission, const JsonbValue *value);
static bool read_task(Submission *submission, const JsonbValue *value);
static bool read_at_most(Submission *submission, const JsonbValue *value);
static bool read_begin(Submission *submission, const JsonbValue *value);
static bool read_deadline(Submission *submission, const JsonbValue *value);
static bool read_hold(Submission *submission, const JsonbValue *value);
static bool read_labels(Submission *submission, const JsonbValue *value);
static bool is_text(const JsonbValue *value, int most);
static bool read_time(const JsonbValue *value, const char *word,
					  TimestampTz *at);
static void check_together(const Submission *submission);
static pg_attribute_noreturn() void refuse_word(const char *word);

static const OptionWord words[] = {
	{"priority", read_priority},
	{"prefer", read_prefer},
	{"after", read_after},
	{"kill_on_invalid_dep", read_kill},
	{"name", read_name},
	{"array", read_array},
	{"task", read_task},
	{"at_most", read_at_most},
	{"begin", read_begin},
	{"deadline", read_deadline},
	{"hold", read_hold},
	{"labels", read_labels},
};

/*
 * Parse the options, or refuse them.
 */
void
SubmissionOptions(Submission *submission)
{
	JsonbIterator *it = JsonbIteratorInit(&submission->options->root);
	JsonbIteratorToken token;
	JsonbValue	v;

	submission->wishes = (JobOptions)
	{
		.task = -1, .begin = DT_NOBEGIN, .deadline = DT_NOEND
	};
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char	   *word;
		int			n = 0;

		if (token != WJB_KEY)
			continue;
		word = pnstrdup(v.val.string.val, v.val.string.len);
		(void) JsonbIteratorNext(&it, &v, true);
		while (n < (int) lengthof(words) && strcmp(word, words[n].word) != 0)
			n++;
		if (n == lengthof(words) || !words[n].read(submission, &v))
			refuse_word(word);
	}
	check_together(submission);
}

static bool
read_priority(Submission *submission, const JsonbValue *value)
{
	bool		bad = false;
	int32		rounded;

	if (value->type != jbvNumeric)
		return false;
	rounded = numeric_int4_opt_error(value->val.numeric, &bad);
	submission->job.priority = rounded;
	return !bad &&
		DatumGetBool(DirectFunctionCall2(numeric_eq,
										 NumericGetDatum(value->val.numeric),
										 NumericGetDatum(int64_to_numeric(rounded))));
}

/*
 * All of the words but the first, "any".
 */
static bool
read_prefer(Submission *submission, const JsonbValue *value)
{
	if (value->type != jbvString)
		return false;
	submission->job.prefer = (DecideTopology)
		(1 + ArgWord(pnstrdup(value->val.string.val, value->val.string.len),
					 "prefer", TopologyNames + 1,
					 lengthof(TopologyNames) - 1));
	return true;
}

/*
 * "afterok:12:13"; whether its jobs exist is checked later, as a repeated call
 * does not need them (dependency_check.c).
 */
static bool
read_after(Submission *submission, const JsonbValue *value)
{
	const char *problem;

	if (!is_text(value, AFTER_BYTES))
		return false;
	submission->wishes.after = palloc(sizeof(Dependency));
	problem = DependencyParse(pnstrdup(value->val.string.val,
									   value->val.string.len),
							  submission->wishes.after);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("malformed \"after\" in \"options\""),
				 errdetail_internal("%s", problem),
				 errhint("Write it as Slurm's --dependency, for example "
						 "\"afterok:12:13,afterany:14\".")));
	return true;
}

static bool
read_kill(Submission *submission, const JsonbValue *value)
{
	return value->type == jbvBool;
}

static bool
read_name(Submission *submission, const JsonbValue *value)
{
	if (!is_text(value, ARG_NAME_MAX))
		return false;
	submission->wishes.name = pnstrdup(value->val.string.val,
									   value->val.string.len);
	return true;
}

static bool
read_array(Submission *submission, const JsonbValue *value)
{
	if (!is_text(value, ARRAY_BYTES))
		return false;
	submission->wishes.array = pnstrdup(value->val.string.val,
										value->val.string.len);
	return true;
}

static bool
read_task(Submission *submission, const JsonbValue *value)
{
	return JsonWhole(value, &submission->wishes.task) &&
		submission->wishes.task <= TASK_MOST;
}

static bool
read_at_most(Submission *submission, const JsonbValue *value)
{
	int64		most;

	if (!JsonWhole(value, &most) || most < 1 || most > AT_MOST_MOST)
		return false;
	submission->wishes.at_most = (int32) most;
	return true;
}

static bool
read_begin(Submission *submission, const JsonbValue *value)
{
	return read_time(value, "begin", &submission->wishes.begin);
}

static bool
read_deadline(Submission *submission, const JsonbValue *value)
{
	return read_time(value, "deadline", &submission->wishes.deadline);
}

static bool
read_hold(Submission *submission, const JsonbValue *value)
{
	submission->wishes.hold = value->type == jbvBool && value->val.boolean;
	return value->type == jbvBool;
}

/*
 * {"model": "llama", "team": "vision"}
 */
static bool
read_labels(Submission *submission, const JsonbValue *value)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;
	int			n = 0;

	if (value->type != jbvBinary || !JsonContainerIsObject(value->val.binary.data))
		return false;
	it = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token != WJB_KEY)
			continue;
		if (++n > LABELS_MOST || !is_text(&v, LABEL_KEY_BYTES) ||
			memchr(v.val.string.val, ',', v.val.string.len) != NULL)
			return false;
		(void) JsonbIteratorNext(&it, &v, true);
		if (!is_text(&v, ARG_NAME_MAX))
			return false;
	}
	return true;
}

/*
 * Is it a text of 1 to so many bytes without control characters?
 */
static bool
is_text(const JsonbValue *value, int most)
{
	int			size;
	pg_wchar	code;

	return value->type == jbvString && value->val.string.len > 0 &&
		value->val.string.len <= most &&
		ControlCharIn(value->val.string.val, value->val.string.len, &size,
					  &code) == NULL;
}

/*
 * An instant; 22007 or 22008 if the text is none.
 */
static bool
read_time(const JsonbValue *value, const char *word, TimestampTz *at)
{
	if (!is_text(value, ARG_NAME_MAX))
		return false;
	*at = DatumGetTimestampTz(DirectFunctionCall3(timestamptz_in,
												  CStringGetDatum(pnstrdup(value->val.string.val,
																		   value->val.string.len)),
												  ObjectIdGetDatum(InvalidOid),
												  Int32GetDatum(-1)));
	return !TIMESTAMP_NOT_FINITE(*at);
}

/*
 * Members that need others.
 */
static void
check_together(const Submission *submission)
{
	const JobOptions *wishes = &submission->wishes;
	JsonbContainer *root = &submission->options->root;
	const char *word = NULL;
	const char *needs = NULL;

	if (wishes->array == NULL && wishes->task >= 0)
		word = "task", needs = "array";
	else if (wishes->array == NULL && wishes->at_most > 0)
		word = "at_most", needs = "array";
	else if (wishes->after == NULL &&
			 getKeyJsonValueFromContainer(root, "kill_on_invalid_dep", 19,
										  NULL) != NULL)
		word = "kill_on_invalid_dep", needs = "after";
	for (int i = 0; wishes->after != NULL && i < wishes->after->n; i++)
	{
		if (wishes->after->terms[i].kind == AFTER_SINGLETON &&
			wishes->name == NULL)
			word = "after", needs = "name";
		else if (wishes->after->terms[i].kind == AFTER_CORRESPONDING &&
				 wishes->task < 0)
			word = "after", needs = "task";
	}
	if (word != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" in \"options\" needs \"%s\"", word, needs),
				 errdetail("Without the other member it has no meaning."),
				 errhint("Pass both, or leave it out.")));
}

static void
refuse_word(const char *word)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("bad word \"%s\" in \"options\"", ClipForMessage(word)),
			 errdetail("The word is unknown, or it does not accept this "
					   "value."),
			 errhint("Words are priority, prefer (nvlink, leaf, node), after, "
					 "kill_on_invalid_dep, name, array, task, at_most, begin, "
					 "deadline, hold and labels; docs/jobs.md has them.")));
}
