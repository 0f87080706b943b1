/*-------------------------------------------------------------------------
 *
 * options.c
 *		Parses the members of a submission's options.
 *
 *	priority				order within the account
 *	prefer					preferred topology
 *	after					jobs that the job waits for
 *							(types/dependency_parse.c)
 *	kill_on_invalid_dep		whether the job is cancelled once its dependency
 *							can never be fulfilled
 *	name					name for people, and for the dependency singleton
 *	array					key of an array of jobs of one account
 *	task					number of the job in its array
 *	at_most					how many jobs of the array run at once
 *	begin					earliest start
 *	deadline				latest end
 *	hold					whether the job is held until its owner releases it
 *	labels					keys and values for reports
 *	placement				which nodes the job may use (job/placement.c)
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

/*
 * a member of the options and its parser, which returns false if it refuses
 * the value
 */
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
static bool read_placement(Submission *submission, const JsonbValue *value);
static void check_per_node(const Submission *submission);
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
	{"placement", read_placement},
};

/* Parses the options, or raises an error. */
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
	check_per_node(submission);
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

/* Parses "prefer". All words are accepted but the first, "any". */
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
 * Parses "after", for example "afterok:12:13". Whether the jobs exist is
 * checked later (dependency_check.c), because a repeated call skips that
 * check.
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

/* Parses "labels", for example {"model": "llama", "team": "vision"}. */
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

static bool
read_placement(Submission *submission, const JsonbValue *value)
{
	submission->job.placement = PlacementParse(value);
	return submission->job.placement != NULL;
}

/*
 * Refuses a number of GPUs per node by which the job's GPUs cannot be divided,
 * and whole nodes without that number.
 */
static void
check_per_node(const Submission *submission)
{
	const GpuReq *request = submission->job.request;
	const Placement *placement = submission->job.placement;
	int32		per_node = placement == NULL ? 0 : placement->gpus_per_node;

	if (placement != NULL && placement->whole_nodes && per_node == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"whole_nodes\" in \"placement\" needs "
						"\"gpus_per_node\""),
				 errdetail("The job pays for what it asks for, so it names "
						   "all GPUs of a node."),
				 errhint("Add the number of GPUs that the nodes have, and ask "
						 "for their cpu and memory; see node_sizes().")));
	if (per_node == 0 || (request->min_gpus == request->max_gpus &&
						  request->share_milli == 1000 &&
						  request->min_gpus > 0 &&
						  request->min_gpus % per_node == 0))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("\"gpus_per_node\" in \"placement\" does not divide the "
					"job's GPUs"),
			 errdetail("The request is \"%s\", and %d GPUs are to be on each "
					   "node.", GpuReqToCString(request), per_node),
			 errhint("Ask for a fixed number of whole GPUs that is a multiple "
					 "of it.")));
}

/*
 * Whether a value is a text of 1 to `most` bytes without control characters.
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
 * Parses an instant. Raises 22007 or 22008 if the text is not a timestamp, and
 * returns false for infinity.
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

/* Refuses members that have no meaning without another member. */
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
					 "deadline, hold, labels and placement; docs/jobs.md has "
					 "them.")));
}
