/*-------------------------------------------------------------------------
 *
 * plan_with.c
 *		The function plan_with(): plans a cycle with hypothetical nodes
 *		and jobs.
 *
 * The caller describes nodes and jobs as JSON objects. Their members become
 * the arguments of register_node() and reserve(), whose code checks them and
 * reports errors with its own messages. The cycle is then planned as by
 * plan(), with the hypothetical nodes and jobs added (hypothetical.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "util/args.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/json_value.h"
#include "util/sql.h"
#include "job/submit/submission.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "sched/load/hypothetical.h"
#include "types/clip.h"
#include "types/duration.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(gpucredit_plan_with);

#define MOST		10000		/* largest number of nodes, and of jobs */
#define MOST_WORDS	16

/*
 * A member of a JSON object, the type of the argument that it becomes, and the
 * argument's default as text.
 */
typedef struct Word
{
	const char *name;			/* NULL for the arguments pool and key, which
								 * no member sets */
	Oid			type;
	const char *otherwise;		/* the default as text, or NULL if it is null */
} Word;

/* Members of a node's object, in the order of register_node()'s arguments. */
static const Word node_words[] = {
	{NULL, TEXTOID, NULL}, {"name", TEXTOID, NULL},
	{"gpu_type", TEXTOID, NULL}, {"gpus", INT4OID, NULL},
	{"gpu_memory_mib", INT8OID, NULL}, {"cpu_milli", INT8OID, "0"},
	{"memory_mib", INT8OID, "0"}, {"nvlink_domain", TEXTOID, NULL},
	{"leaf", TEXTOID, NULL}, {"spot", BOOLOID, "false"},
	{"labels", JSONBOID, "{}"}, {"spine", TEXTOID, NULL},
	{"nvlink_mbps", INT8OID, NULL}, {"leaf_mbps", INT8OID, NULL},
	{"spine_mbps", INT8OID, NULL}
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

static void parse_list(FunctionCallInfo call, const JsonbValue *list,
					   bool is_node, const char *pool,
					   Hypothetical *hypothetical);
static int32 parse_words(FunctionCallInfo call, const JsonbValue *object,
						 const Word *words, int n, const char *pool);
static void parse_value(FunctionCallInfo call, int n, const Word *word,
						JsonbValue *value);
static void set_default(FunctionCallInfo call, int n, const Word *word);
static void add_nodes(FunctionCallInfo call, int32 count,
					  Hypothetical *hypothetical);
static void add_jobs(FunctionCallInfo call, int32 count,
					 Hypothetical *hypothetical);
static pg_attribute_noreturn() void refuse_word(const char *word,
												const Word *words, int n);
static pg_attribute_noreturn() void refuse_value(const char *word,
												 const char *hint);
static void put_denied(ReturnSetInfo *rsinfo,
					   const Hypothetical *hypothetical);
static void put_waiting(ReturnSetInfo *rsinfo, const SchedCycle *cycle);
static void put_set_aside(ReturnSetInfo *rsinfo, const SchedCycle *cycle);
static void put_wait(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
					 const DecideJob *job, const DecideReservation *reserved,
					 const DecidePart *part);

Datum
gpucredit_plan_with(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Hypothetical hypothetical = {0};
	SchedCycle	cycle = {.pool = ArgName(fcinfo, 0, "pool"),
		.hypothetical = &hypothetical};
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
		parse_list(call, &v, strcmp(word, "nodes") == 0, cycle.pool,
				   &hypothetical);
	}

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	CyclePlan(&cycle);
	CyclePutStarts(rsinfo, &cycle);
	ClaimsPut(&cycle, rsinfo);
	SetAsidePut(rsinfo, &cycle);
	put_waiting(rsinfo, &cycle);
	put_set_aside(rsinfo, &cycle);
	put_denied(rsinfo, &hypothetical);
	SqlFinish();
	return (Datum) 0;
}

/* Parses the list of nodes or of jobs. */
static void
parse_list(FunctionCallInfo call, const JsonbValue *list, bool is_node,
		   const char *pool, Hypothetical *hypothetical)
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
			parse_words(call, &v, node_words, lengthof(node_words), pool) :
			parse_words(call, &v, job_words, lengthof(job_words), pool);
		if ((is_node ? hypothetical->n_nodes : hypothetical->n_jobs) +
			count > MOST)
			refuse_value(name, "Pass 10000 at most.");
		if (is_node)
			add_nodes(call, count, hypothetical);
		else
			add_jobs(call, count, hypothetical);
	}
}

/* Converts an object into the arguments of a call. Returns its "count". */
static int32
parse_words(FunctionCallInfo call, const JsonbValue *object,
			const Word *words, int n, const char *pool)
{
	JsonbIterator *it = JsonbIteratorInit(object->val.binary.data);
	JsonbIteratorToken token;
	JsonbValue	v;
	int64		count = 1;

	for (int i = 0; i < n; i++)
		set_default(call, i, &words[i]);
	/* The pool is the argument that has neither a name nor a default. */
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
			parse_value(call, found, &words[found], &v);
		else if (strcmp(word, "count") != 0)
			refuse_word(word, words, n);
		else if (!JsonWhole(&v, &count) || count < 1 || count > MOST)
			refuse_value("count", "Pass a whole number from 1 to 10000.");
	}
	return (int32) count;
}

/* Converts one JSON value into its argument. */
static void
parse_value(FunctionCallInfo call, int n, const Word *word, JsonbValue *value)
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
 * Set an argument to its default.
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

/* Adds a hypothetical node, or several equal ones. */
static void
add_nodes(FunctionCallInfo call, int32 count, Hypothetical *hypothetical)
{
	GpuNode		node;

	NodeParse(call, &node);
	if (hypothetical->nodes == NULL)
		hypothetical->nodes = palloc(sizeof(GpuNode) * MOST);
	for (int32 i = 1; i <= count; i++)
	{
		GpuNode    *added = &hypothetical->nodes[hypothetical->n_nodes++];

		*added = node;
		if (count == 1)
			continue;
		added->node = psprintf("%s-%d", node.node, i);
		if (strlen(added->node) > ARG_NAME_MAX)
			refuse_value("name", "Use a shorter name.");
	}
}

/*
 * Add a hypothetical job, or several equal ones.
 */
static void
add_jobs(FunctionCallInfo call, int32 count, Hypothetical *hypothetical)
{
	Submission	submission = {0};
	Request		request;

	ParseSubmission(call, &submission, &request);
	if (hypothetical->jobs == NULL)
	{
		hypothetical->jobs = MemoryContextAllocHuge(CurrentMemoryContext,
													sizeof(Submission) * MOST);
		hypothetical->denied = palloc0(sizeof(char *) * MOST);
	}
	for (int32 i = 0; i < count; i++)
		hypothetical->jobs[hypothetical->n_jobs++] = submission;
}

/* Raises the error for an unknown member, and lists the known ones. */
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
			 errdetail("The word may be misspelt."),
			 errhint("Known words are %s%s.", list.data,
					 n > 2 ? ", count" : "")));
}

static void
refuse_value(const char *word, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("bad value of \"%s\" in \"what\"", word),
			 errdetail("The word does not accept this value."),
			 errhint("%s", hint)));
}

/* Returns a row for each hypothetical job that reserve() would deny. */
static void
put_denied(ReturnSetInfo *rsinfo, const Hypothetical *hypothetical)
{
	for (int i = 0; i < hypothetical->n_jobs; i++)
	{
		Values	   *row;

		if (hypothetical->denied[i] == NULL)
			continue;
		row = VALUES(TextValue("denied"),
					 TextValue(hypothetical->jobs[i].job.org),
					 Int8Value(-(i + 1)));
		for (int c = 3; c < 9; c++)
			ValuesAdd(row, NullValue());
		ValuesAdd(row, TextValue(hypothetical->denied[i]), NullValue());
		RowPut(rsinfo, row);
	}
}

/*
 * Returns rows for the hypothetical jobs that wait: one for each node of a
 * job's reservation, or one without a node if it has none.
 */
static void
put_waiting(ReturnSetInfo *rsinfo, const SchedCycle *cycle)
{
	const DecideResult *result = &cycle->result;
	bool	   *reported = palloc0(sizeof(bool) * (cycle->input.n_jobs + 1));

	for (int i = 0; i < result->n_starts; i++)
		reported[result->starts[i].job] = true;
	for (int i = 0; i < result->n_promises; i++)
	{
		if (result->promises[i].job >= 0)
			reported[result->promises[i].job] = true;
	}
	for (int i = 0; i < result->n_reservations; i++)
	{
		const DecideReservation *r = &result->reservations[i];

		if (reported[r->job] || cycle->jobs[r->job].id > 0)
			continue;
		reported[r->job] = true;
		for (int p = r->first_part; p < r->first_part + r->n_parts; p++)
			put_wait(rsinfo, cycle, &cycle->jobs[r->job], r,
					 &result->reserved_parts[p]);
	}
	for (int i = 0; i < cycle->input.n_jobs; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!reported[i] && cycle->jobs[i].id < 0)
			put_wait(rsinfo, cycle, &cycle->jobs[i], NULL, NULL);
	}
}

/*
 * Returns a row for each hypothetical job that may not start, whatever devices
 * are free.
 */
static void
put_set_aside(ReturnSetInfo *rsinfo, const SchedCycle *cycle)
{
	for (int i = 0; i < cycle->n_set_aside; i++)
	{
		const SetAside *aside = &cycle->set_aside[i];
		Values	   *row;

		if (aside->job >= 0 || aside->ends)
			continue;
		row = VALUES(TextValue("wait"), TextValue(aside->org),
					 Int8Value(aside->job), Int4Value(1));
		for (int c = 4; c < 9; c++)
			ValuesAdd(row, NullValue());
		ValuesAdd(row, TextValue(SetAsideName(aside->reason)), NullValue());
		RowPut(rsinfo, row);
	}
}

/*
 * Returns the row of a waiting job: with one part of its reservation, or
 * without if part is NULL.
 */
static void
put_wait(ReturnSetInfo *rsinfo, const SchedCycle *cycle, const DecideJob *job,
		 const DecideReservation *reserved, const DecidePart *part)
{
	Values	   *row = VALUES(TextValue("wait"), TextValue(job->org),
							 Int8Value(job->id), Int4Value(1));

	if (part != NULL)
	{
		ValuesAdd(row, TextValue(cycle->set->nodes[part->node].name),
				  DatumValue(GpuSetGetDatum(part->devices)),
				  Int4Value(cycle->requests[job->request].share),
				  TextValue(reserved->type == DECIDE_NO_TYPE ? NULL :
							cycle->set->types.names[reserved->type]));
	}
	else
	{
		for (int c = 4; c < 8; c++)
			ValuesAdd(row, NullValue());
	}
	ValuesAdd(row, NullValue(),
			  TextValue(CycleWaitReason(cycle, (int32) (job - cycle->jobs))),
			  reserved != NULL ?
			  TimeValueOrNull(cycle->expected_at[reserved - cycle->result.reservations]) :
			  NullValue());
	RowPut(rsinfo, row);
}
