/*-------------------------------------------------------------------------
 *
 * node_labels.c
 *		Finds the nodes of a set that have a label.
 *
 * Operators label nodes by register_node(), and jobs can require labels
 * (job/placement.c), as key=value or as the key alone.  A set keeps the labels
 * as they are stored.  The first search indexes them: most cycles need no
 * index, and one with many placements must not look at each node for each of
 * them, or tenants could slow down cycles by labels that most nodes have.  So
 * the index has the nodes of a rare label as a list, and those of a common one
 * as a mask.  Values that are no text, number or boolean cannot be required.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "inventory/inventory.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

/* A label with more than 1 of so many nodes of its set has a mask. */
#define COMMON_ONE_OF	64

/* A node's labels, as they are stored. */
typedef struct LabelledNode
{
	const char *node;
	Jsonb	   *labels;
} LabelledNode;

/* A label of a node, while the index is made. */
typedef struct LabelEntry
{
	const char *label;			/* "key=value", or the key alone */
	int32		node;			/* index into the set's nodes */
} LabelEntry;

/* A label, with the nodes that have it in one of two forms. */
typedef struct IndexedLabel
{
	const char *label;
	int			n;
	int32	   *nodes;			/* n indexes into the set's nodes, or NULL */
	uint64	   *mask;			/* mask of the nodes, or NULL */
} IndexedLabel;

typedef struct LabelIndex
{
	int			n;
	IndexedLabel *labels;		/* sorted by label */
} LabelIndex;

struct NodeLabels
{
	MemoryContext context;		/* has all of this */
	int			n;
	int			max;
	LabelledNode *nodes;		/* nodes that have labels */
	LabelIndex *index;			/* NULL until a label is looked up */
};

/* The entries that are collected for an index. */
typedef struct LabelEntries
{
	int64		n;
	int64		max;
	LabelEntry *entries;
} LabelEntries;

static LabelIndex *index_make(const NodeSet *set);
static void index_add(LabelIndex *index, const LabelEntry *entries, int n,
					  int n_nodes);
static void collect(LabelEntries *all, Jsonb *labels, int32 node);
static void collect_one(LabelEntries *all, const char *label, int32 node);
static const char *value_text(const JsonbValue *value);
static int	compare_entries(const void *a, const void *b);

/* Returns an empty collection, which lives in the current memory context. */
NodeLabels *
NodeLabelsCreate(void)
{
	NodeLabels *labels = palloc0(sizeof(NodeLabels));

	labels->context = CurrentMemoryContext;
	return labels;
}

/* Adds the labels of a node.  Both must live as long as the collection. */
void
NodeLabelsAdd(NodeLabels *labels, const char *node, Jsonb *stored)
{
	if (stored == NULL || !JB_ROOT_IS_OBJECT(stored))
		return;
	if (labels->n == labels->max)
	{
		labels->max = Max(labels->max * 2, 64);
		labels->nodes = labels->nodes == NULL ?
			MemoryContextAlloc(labels->context,
							   sizeof(LabelledNode) * labels->max) :
			repalloc_huge(labels->nodes, sizeof(LabelledNode) * labels->max);
	}
	labels->nodes[labels->n++] = (LabelledNode)
	{
		node, stored
	};
	labels->index = NULL;
}

/* Sets the bits of the nodes that have a label, "key=value" or "key". */
void
NodeLabelsFind(const NodeSet *set, const char *label, uint64 *mask)
{
	const LabelIndex *index;
	int			low = 0;
	int			high;

	if (set->labels->index == NULL)
		set->labels->index = index_make(set);
	index = set->labels->index;
	high = index->n - 1;
	while (low <= high)
	{
		int			middle = low + (high - low) / 2;
		const IndexedLabel *found = &index->labels[middle];
		int			order = strcmp(found->label, label);

		if (order < 0)
			low = middle + 1;
		else if (order > 0)
			high = middle - 1;
		else
		{
			for (int w = 0; found->mask != NULL && w <= set->n / 64; w++)
				mask[w] |= found->mask[w];
			for (int i = 0; found->nodes != NULL && i < found->n; i++)
				mask[found->nodes[i] / 64] |=
					UINT64CONST(1) << (found->nodes[i] % 64);
			return;
		}
	}
}

/* Returns the index of a set's labels, which lives as long as they do. */
static LabelIndex *
index_make(const NodeSet *set)
{
	const NodeLabels *labels = set->labels;
	MemoryContext before = MemoryContextSwitchTo(labels->context);
	LabelIndex *index = palloc0(sizeof(LabelIndex));
	LabelEntries all = {.max = 64};
	int64		last;

	all.entries = palloc(sizeof(LabelEntry) * all.max);
	for (int i = 0; i < labels->n; i++)
	{
		int32		node = NodeIndex(set, labels->nodes[i].node);

		CHECK_FOR_INTERRUPTS();
		if (node >= 0)
			collect(&all, labels->nodes[i].labels, node);
	}
	qsort(all.entries, all.n, sizeof(LabelEntry), compare_entries);
	index->labels = MemoryContextAllocHuge(CurrentMemoryContext,
										   sizeof(IndexedLabel) * (all.n + 1));
	for (int64 first = 0; first < all.n; first = last)
	{
		for (last = first + 1; last < all.n &&
			 strcmp(all.entries[first].label, all.entries[last].label) == 0;)
			last++;
		index_add(index, &all.entries[first], (int) (last - first), set->n);
	}
	pfree(all.entries);
	MemoryContextSwitchTo(before);
	return index;
}

/* Adds a label to an index.  The n entries are those of its nodes. */
static void
index_add(LabelIndex *index, const LabelEntry *entries, int n, int n_nodes)
{
	IndexedLabel *label = &index->labels[index->n++];

	*label = (IndexedLabel)
	{
		.label = entries[0].label,
			.n = n
	};
	if (n > n_nodes / COMMON_ONE_OF)
		label->mask = palloc0(sizeof(uint64) * (n_nodes / 64 + 1));
	else
		label->nodes = palloc(sizeof(int32) * n);
	for (int i = 0; i < n; i++)
	{
		if (label->mask != NULL)
			label->mask[entries[i].node / 64] |=
				UINT64CONST(1) << (entries[i].node % 64);
		else
			label->nodes[i] = entries[i].node;
	}
}

/* Collects the labels of a node, each as "key=value" and as its key. */
static void
collect(LabelEntries *all, Jsonb *labels, int32 node)
{
	JsonbIterator *it = JsonbIteratorInit(&labels->root);
	JsonbIteratorToken token;
	JsonbValue	v;

	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char	   *key;
		const char *value;

		if (token != WJB_KEY)
			continue;
		key = pnstrdup(v.val.string.val, v.val.string.len);
		(void) JsonbIteratorNext(&it, &v, true);
		value = value_text(&v);
		if (value == NULL)
			continue;
		collect_one(all, key, node);
		collect_one(all, psprintf("%s=%s", key, value), node);
	}
}

static void
collect_one(LabelEntries *all, const char *label, int32 node)
{
	if (all->n == all->max)
	{
		all->max *= 2;
		all->entries = repalloc_huge(all->entries,
									 sizeof(LabelEntry) * all->max);
	}
	all->entries[all->n++] = (LabelEntry)
	{
		label, node
	};
}

/* Returns the text of a label's value, or NULL if it has none. */
static const char *
value_text(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvString:
			return pnstrdup(value->val.string.val, value->val.string.len);
		case jbvNumeric:
			return DatumGetCString(DirectFunctionCall1(numeric_out,
													   NumericGetDatum(value->val.numeric)));
		case jbvBool:
			return value->val.boolean ? "true" : "false";
		default:
			return NULL;
	}
}

static int
compare_entries(const void *a, const void *b)
{
	return strcmp(((const LabelEntry *) a)->label,
				  ((const LabelEntry *) b)->label);
}
