/*-------------------------------------------------------------------------
 *
 * plan_with.c
 *		plan_with: a cycle with nodes and jobs that are not there.
 *
 * What is supposed is written as words of JSON, which are made the arguments
 * of register_node and reserve and taken by the code that takes theirs: so it
 * is checked as they check it, in their words.  The cycle then is plan's, with
 * what is supposed (suppose.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/args.h"
#include "common/compat.h"
#include "common/errors.h"
#include "common/sql.h"
#include "job/submission.h"
#include "sched/sched.h"
#include "sched/suppose.h"
#include "types/clip.h"
#include "types/duration.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(gpucredit_plan_with);

#define MOST		10000		/* nodes, jobs */
#define MOST_WORDS	16

/* A word, the type of the argument it stands for, and its default as text. */
typedef struct Word
{
	const char *name;			/* NULL: the pool, or the key */
	Oid			type;
	const char *otherwise;		/* NULL: null */
} Word;

/* In the order of the arguments. */
static const Word node_words[] = {
	{NULL, TEXTOID, NULL}, {"name", TEXTOID, NULL},
	{"gpu_type", TEXTOID, NULL}, {"gpus", INT4OID, NULL},
	{"gpu_memory_mib", INT8OID, NULL}, {"cpu_milli", INT8OID, "0"},
	{"memory_mib", INT8OID, "0"}, {"nvlink_domain", TEXTOID, NULL},
	{"leaf", TEXTOID, NULL}, {"spot", BOOLOID, "false"},
	{"labels", JSONBOID, "{}"}
};

static const Word job_words[] = {
	{"org", TEXTOID, NULL}, {"account", TEXTOID, ""}, {NULL, TEXTOID, "-"},
	{"request", TEXTOID, NULL}, {"wall_limit", INTERVALOID, NULL},
	{"tier", TEXTOID, "standard_training"}, {NULL, TEXTOID, NULL},
	{"topology", TEXTOID, "any"}, {"preemptible", TEXTOID, NULL},
	{"max_retries", INT4OID, "3"}, {"cpu_milli", INT8OID, "0"},
	{"memory_mib", INT8OID, "0"}, {"hold_window", INTERVALOID, NULL},
	{"spec", JSONBOID, "{}"}, {"options", JSONBOID, "{}"}
};

static void take_list(FunctionCallInfo call, const JsonbValue *list,
					  bool is_node, const char *pool, Supposed *supposed);
static int32 take_words(FunctionCallInfo call, const JsonbValue *object,
						const Word *words, int n, const char *pool);
static void take_value(FunctionCallInfo call, int n, const Word *word,
					   JsonbValue *value);
static void set_default(FunctionCallInfo call, int n, const Word *word);
static void add_nodes(FunctionCallInfo call, int32 count, Supposed *supposed);
static void add_jobs(FunctionCallInfo call, int32 count, Supposed *supposed);
static pg_attribute_noreturn() void refuse_word(const char *word,
												const Word *words, int n);
static pg_attribute_noreturn() void refuse_value(const char *word,
												 const char *hint);
static void put_denied(ReturnSetInfo *rsinfo, const Supposed *supposed);

Datum
gpucredit_plan_with(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Supposed	supposed = {0};
	Cycle		cycle = {.pool = ArgName(fcinfo, 0, "pool"),
		.supposed = &supposed};
	Jsonb	   *what = ArgObject(fcinfo, 1, "what");
	JsonbIterator *it = JsonbIteratorInit(&what->root);
	JsonbIteratorToken token;
	JsonbValue	v;

	LOCAL_FCINFO(call, MOST_WORDS);

	InitFunctionCallInfoData(*call, fcinfo->flinfo, MOST_WORDS,
							 fcinfo->fncollation, NULL, NULL);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		static const Word lists[] = {{"nodes", JSONBOID, NULL},
		{"jobs", JSONBOID, NULL}};
		char	   *word;

		if (token != WJB_KEY)
			continue;
		word = pnstrdup(v.val.string.val, v.val.string.len);
		(void) JsonbIteratorNext(&it, &v, true);
		if (strcmp(word, "nodes") != 0 && strcmp(word, "jobs") != 0)
			refuse_word(word, lists, lengthof(lists));
		if (v.type != jbvBinary || !JsonContainerIsArray(v.val.binary.data))
			refuse_value(word, "Pass an array of objects.");
		take_list(call, &v, strcmp(word, "nodes") == 0, cycle.pool,
				  &supposed);
	}

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	CycleThink(&cycle);
	CyclePutStarts(rsinfo, &cycle);
	ClaimsPut(&cycle, rsinfo);
	put_denied(rsinfo, &supposed);
	SqlFinish();
	return (Datum) 0;
}

/*
 * The nodes, or the jobs.
 */
static void
take_list(FunctionCallInfo call, const JsonbValue *list, bool is_node,
		  const char *pool, Supposed *supposed)
{
	const char *name = is_node ? "nodes" : "jobs";
	JsonbIterator *it = JsonbIteratorInit(list->val.binary.data);
	JsonbIteratorToken token;
	JsonbValue	v;

	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		int32		count;

		if (token != WJB_ELEM)
			continue;
		if (v.type != jbvBinary || !JsonContainerIsObject(v.val.binary.data))
			refuse_value(name, "Pass an array of objects.");
		count = is_node ?
			take_words(call, &v, node_words, lengthof(node_words), pool) :
			take_words(call, &v, job_words, lengthof(job_words), pool);
		if ((is_node ? supposed->n_nodes : supposed->n_jobs) + count > MOST)
			refuse_value(name, "Suppose 10000 at most.");
		if (is_node)
			add_nodes(call, count, supposed);
		else
			add_jobs(call, count, supposed);
	}
}

/*
 * Make an object the arguments of a call; returns its "count".
 */
static int32
take_words(FunctionCallInfo call, const JsonbValue *object,
		   const Word *words, int n, const char *pool)
{
	JsonbIterator *it = JsonbIteratorInit(object->val.binary.data);
	JsonbIteratorToken token;
	JsonbValue	v;
	int64		count = 1;

	for (int i = 0; i < n; i++)
		set_default(call, i, &words[i]);
	/* the one without a name and a default */
	for (int i = 0; i < n; i++)
	{
		if (words[i].name == NULL && words[i].otherwise == NULL)
			call->args[i] = (NullableDatum)
		{
			CStringGetTextDatum(pool), false
		};
	}
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char	   *word;
		int			found = 0;

		if (token != WJB_KEY)
			continue;
		word = pnstrdup(v.val.string.val, v.val.string.len);
		(void) JsonbIteratorNext(&it, &v, true);
		while (found < n && (words[found].name == NULL ||
							 strcmp(words[found].name, word) != 0))
			found++;
		if (found < n)
			take_value(call, found, &words[found], &v);
		else if (strcmp(word, "count") != 0)
			refuse_word(word, words, n);
		else if (!JsonWhole(&v, &count) || count < 1 || count > MOST)
			refuse_value("count", "Pass a whole number from 1 to 10000.");
	}
	return (int32) count;
}

/*
 * One value as the argument it stands for.
 */
static void
take_value(FunctionCallInfo call, int n, const Word *word, JsonbValue *value)
{
	NullableDatum *arg = &call->args[n];
	int64		number;

	arg->isnull = value->type == jbvNull;
	if (arg->isnull)
		return;
	switch (word->type)
	{
		case TEXTOID:
			if (value->type != jbvString)
				refuse_value(word->name, "Pass a string.");
			arg->value =
				PointerGetDatum(cstring_to_text_with_len(value->val.string.val,
														 value->val.string.len));
			break;
		case INT4OID:
		case INT8OID:
			if (!JsonWhole(value, &number) ||
				(word->type == INT4OID && number > PG_INT32_MAX))
				refuse_value(word->name, "Pass a whole number of 0 or more.");
			arg->value = word->type == INT4OID ?
				Int32GetDatum((int32) number) : Int64GetDatum(number);
			break;
		case BOOLOID:
			if (value->type != jbvBool)
				refuse_value(word->name, "Pass true or false.");
			arg->value = BoolGetDatum(value->val.boolean);
			break;
		case INTERVALOID:
			if (!JsonDuration(value, &number))
				refuse_value(word->name,
							 "Pass an interval without months, as \"30 min\".");
			arg->value = PointerGetDatum(DurationToInterval(number));
			break;
		default:
			arg->value = JsonbPGetDatum(JsonbValueToJsonb(value));
	}
}

/*
 * What an argument is that nothing is said of.
 */
static void
set_default(FunctionCallInfo call, int n, const Word *word)
{
	NullableDatum *arg = &call->args[n];
	Oid			input;
	Oid			param;

	arg->isnull = word->otherwise == NULL;
	if (arg->isnull)
		return;
	getTypeInputInfo(word->type, &input, &param);
	arg->value = OidInputFunctionCall(input, (char *) word->otherwise, param,
									  -1);
}

/*
 * Suppose a node, or some alike.
 */
static void
add_nodes(FunctionCallInfo call, int32 count, Supposed *supposed)
{
	GpuNode		node;

	NodeTake(call, &node);
	if (supposed->nodes == NULL)
		supposed->nodes = palloc(sizeof(GpuNode) * MOST);
	for (int32 i = 1; i <= count; i++)
	{
		GpuNode    *added = &supposed->nodes[supposed->n_nodes++];

		*added = node;
		if (count == 1)
			continue;
		added->node = psprintf("%s-%d", node.node, i);
		if (strlen(added->node) > ARG_NAME_MAX)
			refuse_value("name", "Use a shorter name.");
	}
}

/*
 * Suppose a job, or some alike.
 */
static void
add_jobs(FunctionCallInfo call, int32 count, Supposed *supposed)
{
	Submission	submission = {0};
	Request		request;

	SubmissionTake(call, &submission, &request);
	if (supposed->jobs == NULL)
	{
		supposed->jobs = MemoryContextAllocHuge(CurrentMemoryContext,
												sizeof(Submission) * MOST);
		supposed->denied = palloc0(sizeof(char *) * MOST);
	}
	for (int32 i = 0; i < count; i++)
		supposed->jobs[supposed->n_jobs++] = submission;
}

/*
 * Refuse a word that is none of a list.
 */
static void
refuse_word(const char *word, const Word *words, int n)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < n; i++)
	{
		if (words[i].name != NULL)
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "",
							 words[i].name);
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown word \"%s\" in \"what\"", ClipForMessage(word)),
			 errdetail("A misspelt one would silently suppose nothing."),
			 errhint("Words there are %s%s.", list.data,
					 n > 2 ? ", count" : "")));
}

static void
refuse_value(const char *word, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("bad value of \"%s\" in \"what\"", word),
			 errdetail("It is not what the word takes."),
			 errhint("%s", hint)));
}

/*
 * A row for each supposed job that would not be queued.
 */
static void
put_denied(ReturnSetInfo *rsinfo, const Supposed *supposed)
{
	for (int i = 0; i < supposed->n_jobs; i++)
	{
		Row			row = {0};

		if (supposed->denied[i] == NULL)
			continue;
		RowText(&row, "denied");
		RowText(&row, supposed->jobs[i].job.org);
		RowAdd(&row, Int64GetDatum(-(i + 1)));
		for (int c = 3; c < 9; c++)
			RowNull(&row);
		RowText(&row, supposed->denied[i]);
		RowPut(rsinfo, &row);
	}
}
