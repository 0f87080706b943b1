/*-------------------------------------------------------------------------
 *
 * slurm_tree.c
 *		Switches and blocks as Slurm's topology files list them.
 *
 * The switch that lists a node is its leaf, and the switch that lists the leaf
 * is its spine. The block that lists a node is its NVLink domain. A file is
 * refused as a whole if a name occurs twice, a node or a switch is below two
 * switches, or a switch is named that the file does not describe: such a file
 * was written by mistake, or not to its end.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "node_list.h"
#include "slurm_tree.h"

#define MOST_ENTRIES	20000

static const char *check_entry(const SlurmEntry *entry);
static const char *check_names(const SlurmTree *tree);
static const char *check_children(const SlurmTree *tree);
static int	choose(const SlurmTree *tree, bool block);
static const char *find_above(const SlurmTree *tree, int topology, bool block,
							  bool child, const char *name, char *above);
static int	compare_entries(const void *a, const void *b);
static bool copy_name(Span name, char *to);

/* Adds an empty entry. Returns NULL if there are too many. */
SlurmEntry *
SlurmTreeAdd(SlurmTree *tree)
{
	if (tree->n == MOST_ENTRIES)
		return NULL;
	if (tree->n == tree->size)
	{
		int			size = tree->size == 0 ? 64 : tree->size * 2;
		SlurmEntry *more = realloc(tree->entries,
								   (size_t) size * sizeof(SlurmEntry));

		if (more == NULL)
			return NULL;
		tree->entries = more;
		tree->size = size;
	}
	memset(&tree->entries[tree->n], 0, sizeof(SlurmEntry));
	return &tree->entries[tree->n++];
}

void
SlurmTreeFree(SlurmTree *tree)
{
	free(tree->entries);
	tree->entries = NULL;
	tree->n = tree->size = 0;
}

/*
 * Checks the tree and finds a node in it. Returns NULL, or why the file is
 * refused. The entries are sorted by name afterwards.
 */
const char *
SlurmTreeFind(SlurmTree *tree, const char *node, Topology *found)
{
	const char *why = NULL;
	int			switches = choose(tree, false);
	int			blocks = choose(tree, true);

	for (int i = 0; i < tree->n && why == NULL; i++)
		why = check_entry(&tree->entries[i]);
	if (why == NULL && tree->n > 1)
		qsort(tree->entries, (size_t) tree->n, sizeof(SlurmEntry),
			  compare_entries);
	if (why == NULL)
		why = check_names(tree);
	if (why == NULL)
		why = check_children(tree);
	if (why == NULL)
		why = find_above(tree, switches, false, false, node, found->leaf);
	if (why == NULL && *found->leaf != '\0')
		why = find_above(tree, switches, false, true, found->leaf,
						 found->spine);
	if (why == NULL)
		why = find_above(tree, blocks, true, false, node,
						 found->nvlink_domain);
	return why;
}

/* Checks one entry by itself. */
static const char *
check_entry(const SlurmEntry *entry)
{
	char		name[TOPOLOGY_NAME];
	uint64_t	count;

	if (entry->name.at == NULL)
		return "a switch or block has no name";
	if (!copy_name(entry->name, name))
		return "a name is malformed";
	if (entry->children.at != NULL && entry->nodes.at != NULL)
		return "a switch has nodes and switches below it";
	if (entry->block && entry->children.at != NULL)
		return "a block has switches";
	if ((entry->children.at != NULL &&
		 !NodeListCount(entry->children.at, entry->children.size, &count)) ||
		(entry->nodes.at != NULL &&
		 !NodeListCount(entry->nodes.at, entry->nodes.size, &count)))
		return "a list of names is malformed";
	return NULL;
}

/* Refuses a name that occurs twice. */
static const char *
check_names(const SlurmTree *tree)
{
	for (int i = 1; i < tree->n; i++)
	{
		if (compare_entries(&tree->entries[i - 1], &tree->entries[i]) == 0)
			return "a switch or block is described twice";
	}
	return NULL;
}

/* Refuses switches that are named as a child and not described. */
static const char *
check_children(const SlurmTree *tree)
{
	for (int i = 0; i < tree->n; i++)
	{
		const SlurmEntry *entry = &tree->entries[i];
		uint64_t	wanted;

		if (entry->children.at == NULL)
			continue;
		(void) NodeListCount(entry->children.at, entry->children.size,
							 &wanted);
		for (int c = 0; c < tree->n && wanted > 0; c++)
		{
			const SlurmEntry *child = &tree->entries[c];
			char		name[TOPOLOGY_NAME];

			(void) copy_name(child->name, name);
			if (!child->block && child->topology == entry->topology &&
				c != i && NodeListHas(entry->children.at,
									  entry->children.size, name))
				wanted--;
		}
		if (wanted > 0)
			return "a switch names switches that the file does not describe";
	}
	return NULL;
}

/*
 * Returns the topology to read switches or blocks from: the default one if it
 * has any, else the first that has. Returns -1 if there is none.
 */
static int
choose(const SlurmTree *tree, bool block)
{
	int			chosen = -1;

	for (int i = 0; i < tree->n; i++)
	{
		const SlurmEntry *entry = &tree->entries[i];

		if (entry->block != block)
			continue;
		if (entry->topology == tree->preferred)
			return entry->topology;
		if (chosen < 0 || entry->topology < chosen)
			chosen = entry->topology;
	}
	return chosen;
}

/*
 * Finds the entry that lists a node, or a switch as its child. Refuses a file
 * in which two do.
 */
static const char *
find_above(const SlurmTree *tree, int topology, bool block, bool child,
		   const char *name, char *above)
{
	*above = '\0';
	for (int i = 0; i < tree->n; i++)
	{
		const SlurmEntry *entry = &tree->entries[i];
		Span		list = child ? entry->children : entry->nodes;

		if (entry->topology != topology || entry->block != block ||
			list.at == NULL || !NodeListHas(list.at, list.size, name))
			continue;
		if (*above != '\0')
			return child ? "a switch is below two switches" :
				"this node is below two switches or in two blocks";
		(void) copy_name(entry->name, above);
	}
	return NULL;
}

/*----------
 * The order in which the same name twice stands side by side:
 *
 * 1. topology;
 * 2. switches, then blocks;
 * 3. name.
 *----------
 */
static int
compare_entries(const void *a, const void *b)
{
	const SlurmEntry *x = a;
	const SlurmEntry *y = b;
	size_t		less = x->name.size < y->name.size ? x->name.size :
		y->name.size;
	int			order;

	if (x->topology != y->topology)
		return x->topology < y->topology ? -1 : 1;
	if (x->block != y->block)
		return x->block ? 1 : -1;
	order = memcmp(x->name.at, y->name.at, less);
	if (order != 0)
		return order;
	return (x->name.size > y->name.size) - (x->name.size < y->name.size);
}

/*
 * Copies a name with its end. Returns false if it is empty, too long, or has
 * characters that a list of names cannot have.
 */
static bool
copy_name(Span name, char *to)
{
	uint64_t	count;

	if (name.size == 0 || name.size >= TOPOLOGY_NAME ||
		memchr(name.at, '[', name.size) != NULL ||
		memchr(name.at, ',', name.size) != NULL ||
		!NodeListCount(name.at, name.size, &count))
		return false;
	memcpy(to, name.at, name.size);
	to[name.size] = '\0';
	return true;
}
