/*-------------------------------------------------------------------------
 *
 * placement.c
 *		The member "placement" of a submission's options: which nodes a job
 *		may use.
 *
 *	{"nodes": ["n1", "n2"]}			only these nodes
 *	{"exclude": ["n3"]}				none of these
 *	{"labels": ["ib", "disk=nvme"]}	only nodes with all of these labels; an
 *									element that is a list itself means any
 *									label of it
 *	{"gpus_per_node": 4}			exactly so many GPUs on each of its nodes
 *	{"whole_nodes": true}			only nodes that the job uses up: they have no
 *									more GPUs, cpu and memory than its part
 *
 * Names and labels that no node has are no error, as nodes come and go: a
 * submission that no node of the pool could satisfy is denied, and a job that
 * waits says in explain() that its placement allows no node.  The lists are
 * short, because each cycle looks up all of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "job/placement.h"
#include "types/control.h"
#include "mb/pg_wchar.h"
#include "util/args.h"
#include "util/json_value.h"

#define NODES_MOST		64		/* names of each list */
#define LABELS_MOST		32		/* labels, those of choices included */
#define LABEL_BYTES		512

static bool read_names(JsonbValue *value, int *n, const char ***names);
static bool read_choices(JsonbValue *value, Placement *placement);
static bool read_texts(const JsonbValue *list, int bytes, int most, int *n,
					   const char ***texts);
static const char *read_text(const JsonbValue *value, int bytes);
static bool read_count(const JsonbValue *value, int32 *count);
static void keep_whole_nodes(const NodeSet *set,
							 const DecideRequestClass *request, int32 per_node,
							 uint64 *mask);

/* Parses a placement. Returns NULL if it is malformed. */
Placement *
PlacementParse(const JsonbValue *value)
{
	Placement  *placement = palloc0(sizeof(Placement));
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;

	if (value->type != jbvBinary ||
		!JsonContainerIsObject(value->val.binary.data))
		return NULL;
	it = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char	   *word;
		bool		good = false;

		if (token != WJB_KEY)
			continue;
		word = pnstrdup(v.val.string.val, v.val.string.len);
		(void) JsonbIteratorNext(&it, &v, true);
		if (strcmp(word, "nodes") == 0)
			good = read_names(&v, &placement->n_nodes, &placement->nodes);
		else if (strcmp(word, "exclude") == 0)
			good = read_names(&v, &placement->n_excluded,
							  &placement->excluded);
		else if (strcmp(word, "labels") == 0)
			good = read_choices(&v, placement);
		else if (strcmp(word, "gpus_per_node") == 0)
			good = read_count(&v, &placement->gpus_per_node);
		else if (strcmp(word, "whole_nodes") == 0)
		{
			good = v.type == jbvBool;
			placement->whole_nodes = good && v.val.boolean;
		}
		if (!good)
			return NULL;
	}
	return placement;
}

/* Parses a list of 1 to NODES_MOST names of nodes. */
static bool
read_names(JsonbValue *value, int *n, const char ***names)
{
	return read_texts(value, ARG_NAME_MAX, NODES_MOST, n, names);
}

/* Parses the labels: each element is a label, or a list of alternatives. */
static bool
read_choices(JsonbValue *value, Placement *placement)
{
	JsonbContainer *list;
	int			labels = 0;
	int			size;

	if (value->type != jbvBinary ||
		!JsonContainerIsArray(value->val.binary.data))
		return false;
	list = value->val.binary.data;
	size = (int) JsonContainerSize(list);
	if (size < 1 || size > LABELS_MOST)
		return false;
	placement->choices = palloc0(sizeof(LabelChoice) * size);
	for (int i = 0; i < size; i++)
	{
		JsonbValue *element = getIthJsonbValueFromContainer(list, i);
		LabelChoice *choice = &placement->choices[placement->n_choices++];

		if (element->type == jbvBinary)
		{
			if (!read_texts(element, LABEL_BYTES, LABELS_MOST, &choice->n,
							&choice->labels))
				return false;
		}
		else
		{
			choice->n = 1;
			choice->labels = palloc(sizeof(char *));
			choice->labels[0] = read_text(element, LABEL_BYTES);
			if (choice->labels[0] == NULL)
				return false;
		}
		labels += choice->n;
	}
	return labels <= LABELS_MOST;
}

/*
 * Parses a list of 1 to `most` texts of at most `bytes` bytes.  Returns false
 * if it is anything else.
 */
static bool
read_texts(const JsonbValue *value, int bytes, int most, int *n,
		   const char ***texts)
{
	JsonbContainer *list;

	if (value->type != jbvBinary ||
		!JsonContainerIsArray(value->val.binary.data))
		return false;
	list = value->val.binary.data;
	*n = (int) JsonContainerSize(list);
	if (*n < 1 || *n > most)
		return false;
	*texts = palloc(sizeof(char *) * *n);
	for (int i = 0; i < *n; i++)
	{
		(*texts)[i] = read_text(getIthJsonbValueFromContainer(list, i),
								bytes);
		if ((*texts)[i] == NULL)
			return false;
	}
	return true;
}

/* Returns a text of 1 to `bytes` bytes without control characters, or NULL. */
static const char *
read_text(const JsonbValue *value, int bytes)
{
	int			size;
	pg_wchar	code;

	if (value->type != jbvString || value->val.string.len < 1 ||
		value->val.string.len > bytes ||
		ControlCharIn(value->val.string.val, value->val.string.len, &size,
					  &code) != NULL)
		return NULL;
	return pnstrdup(value->val.string.val, value->val.string.len);
}

static bool
read_count(const JsonbValue *value, int32 *count)
{
	int64		number;

	if (!JsonWhole(value, &number) || number < 1 ||
		number > DECIDE_MAX_DEVICES)
		return false;
	*count = (int32) number;
	return true;
}

/*
 * Returns the mask of the nodes that a placement of a job with this request
 * allows, as DecideRequestClass.filter describes it, or NULL if it allows all.
 */
uint64 *
PlacementFilter(const Placement *placement, const NodeSet *set,
				const DecideRequestClass *request)
{
	int			words = set->n / 64 + 1;
	uint64	   *mask;
	uint64	   *choice;

	if (placement == NULL || (placement->n_nodes == 0 &&
							  placement->n_excluded == 0 &&
							  placement->n_choices == 0 &&
							  !placement->whole_nodes))
		return NULL;
	mask = palloc(sizeof(uint64) * words);
	choice = palloc(sizeof(uint64) * words);
	memset(mask, placement->n_nodes > 0 ? 0 : 0xFF, sizeof(uint64) * words);
	for (int i = 0; i < placement->n_nodes; i++)
	{
		int32		node = NodeIndex(set, placement->nodes[i]);

		if (node >= 0)
			mask[node / 64] |= UINT64CONST(1) << (node % 64);
	}
	for (int i = 0; i < placement->n_choices; i++)
	{
		memset(choice, 0, sizeof(uint64) * words);
		for (int l = 0; l < placement->choices[i].n; l++)
			NodeLabelsFind(set, placement->choices[i].labels[l], choice);
		for (int w = 0; w < words; w++)
			mask[w] &= choice[w];
	}
	for (int i = 0; i < placement->n_excluded; i++)
	{
		int32		node = NodeIndex(set, placement->excluded[i]);

		if (node >= 0)
			mask[node / 64] &= ~(UINT64CONST(1) << (node % 64));
	}
	if (placement->whole_nodes)
		keep_whole_nodes(set, request, placement->gpus_per_node, mask);
	pfree(choice);
	return mask;
}

/*
 * Removes the nodes from a mask of which a job with `per_node` GPUs on each of
 * its nodes would leave something to others.  A node without a limit of cpu or
 * memory has none of it to leave.
 */
static void
keep_whole_nodes(const NodeSet *set, const DecideRequestClass *request,
				 int32 per_node, uint64 *mask)
{
	int64		nodes = request->min_gpus / per_node;

	for (int32 i = 0; i < set->n; i++)
	{
		const DecideNode *node = &set->nodes[i];

		if (node->gpus != per_node ||
			node->cpu_milli > request->cpu_milli / nodes ||
			node->memory_mib > request->memory_mib / nodes)
			mask[i / 64] &= ~(UINT64CONST(1) << (i % 64));
	}
}
