/*
 * near.c
 *	  Counts the free devices near a host: below its leaf, and in its NVLink
 *	  domain.
 *
 * Of hosts that suit a job equally, the one wins whose leaf has the fewest
 * free devices, then the one whose domain has the fewest, so that other leaves
 * and domains stay whole for gangs.  Whole devices are counted on hosts of the
 * same type that accept new work.  For a host that is alone in its leaf or
 * domain none are counted.  A domain below several leaves is counted for each
 * leaf separately; a host with a domain but without a leaf uses its domain as
 * its leaf.
 *
 * In by_near the hosts of each leaf and type are adjacent, and among them the
 * hosts of each domain.
 */
#include <string.h>

#include "decide/place/single.h"

/*----------
 * The order that puts hosts which are near each other side by side:
 *
 * 1. GPU type;
 * 2. leaf of the network;
 * 3. NVLink domain;
 * 4. name, by which hosts are numbered.
 *----------
 */
static int
compare_near(const void *context, int32_t a, int32_t b)
{
	const Host *x = (const Host *) context + a;
	const Host *y = (const Host *) context + b;

	if (x->type != y->type)
		return x->type < y->type ? -1 : 1;
	if (x->leaf != y->leaf)
		return x->leaf < y->leaf ? -1 : 1;
	if (x->domain != y->domain)
		return x->domain < y->domain ? -1 : 1;
	return a < b ? -1 : 1;
}

/*
 * Whether two hosts are in one domain, below one leaf.
 */
static bool
same_domain(const Host *a, const Host *b)
{
	return a->type == b->type && a->leaf == b->leaf &&
		a->domain == b->domain && a->domain != DECIDE_OWN_GROUP;
}

/*
 * Whether two hosts are below one leaf.
 */
static bool
same_leaf(const Host *a, const Host *b)
{
	return a->leaf == DECIDE_OWN_GROUP ? same_domain(a, b) :
		a->type == b->type && a->leaf == b->leaf;
}

/*
 * Finds where the ranges of by_near begin and end.
 */
static void
cut(Cycle *cycle)
{
	Near	   *near = cycle->near;
	int32_t		n = cycle->n_hosts;
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		const Host *host = &cycle->hosts[cycle->by_near[i]];
		const Host *last = i == 0 ? NULL :
			&cycle->hosts[cycle->by_near[i - 1]];

		near[i].leaf = last != NULL && same_leaf(last, host) ?
			near[i - 1].leaf : i;
		near[i].domain = last != NULL && same_domain(last, host) ?
			near[i - 1].domain : i;
	}
	for (i = n - 1; i >= 0; i--)
	{
		near[i].leaf_end = i + 1 < n && near[i + 1].leaf == near[i].leaf ?
			near[i + 1].leaf_end : i + 1;
		near[i].domain_end = i + 1 < n &&
			near[i + 1].domain == near[i].domain ?
			near[i + 1].domain_end : i + 1;
	}
}

/*
 * Finds which hosts are near each other, before DecideHostsGroup replaces the
 * labels of leaves and domains.  Returns false if memory runs out.
 */
bool
DecideNearPrepare(Cycle *cycle)
{
	int32_t		n = cycle->n_hosts;
	size_t		trees = ((size_t) cycle->n_types + 1) * sizeof(NearTree *);
	bool		any = false;
	int32_t		i;

	cycle->by_near = DecideAlloc(cycle->arena, n, sizeof(int32_t));
	cycle->near = DecideAlloc(cycle->arena, n, sizeof(Near));
	cycle->near_trees = DecideAlloc(cycle->arena, 1, trees);
	if (cycle->by_near == NULL || cycle->near == NULL ||
		cycle->near_trees == NULL)
		return false;
	memset(cycle->near_trees, 0, trees);
	memcpy(cycle->by_near, cycle->by_type, (size_t) n * sizeof(int32_t));
	for (i = 0; i < n && !any; i++)
		any = cycle->hosts[i].leaf != DECIDE_OWN_GROUP ||
			cycle->hosts[i].domain != DECIDE_OWN_GROUP;
	if (any && !DecideSort(cycle->arena, cycle->by_near, n, compare_near,
						   cycle->hosts))
		return false;
	cut(cycle);
	for (i = 0; i < n; i++)
		cycle->hosts[cycle->by_near[i]].near = i;
	return true;
}

/*
 * Pairs entries under new entries, until one entry is above all of them, and
 * returns it.
 */
static int32_t
join(NearTree *tree, int32_t *entries, int32_t n)
{
	int32_t		i;

	for (; n > 1; n = (n + 1) / 2)
	{
		for (i = 0; i < n / 2; i++)
		{
			int32_t		entry = tree->n_entries++;

			tree->below[2 * (entry - tree->n)] = entries[2 * i];
			tree->below[2 * (entry - tree->n) + 1] = entries[2 * i + 1];
			tree->above[entries[2 * i]] = entry;
			tree->above[entries[2 * i + 1]] = entry;
			entries[i] = entry;
		}
		if (n % 2 == 1)
			entries[i] = entries[n - 1];
	}
	return entries[0];
}

/*
 * Pairs the hosts of one leaf, the hosts of each domain first.  Returns the
 * entry above all of them.
 */
static int32_t
join_leaf(NearTree *tree, const Near *near, int32_t first, int32_t leaf,
		  int32_t *entries, int32_t *domains)
{
	int32_t		end = near[leaf].leaf_end;
	int32_t		n_domains = 0;
	int32_t		top;
	int32_t		i;
	int32_t		d;

	for (d = leaf; d < end; d = near[d].domain_end)
	{
		for (i = d; i < near[d].domain_end; i++)
			entries[i - d] = i - first;
		top = join(tree, entries, near[d].domain_end - d);
		for (i = d; i < near[d].domain_end; i++)
			tree->domain_top[i - first] = top;
		domains[n_domains++] = top;
	}
	top = join(tree, domains, n_domains);
	for (i = leaf; i < end; i++)
		tree->leaf_top[i - first] = top;
	return top;
}

/*
 * Makes the tournament of a range of by_near.  Returns NULL if memory runs
 * out.
 */
static NearTree *
tree_make(const Cycle *cycle, int32_t first, int32_t n)
{
	const DecideArena *arena = cycle->arena;
	NearTree   *tree = DecideAlloc(arena, 1, sizeof(NearTree));
	int32_t    *entries = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t    *domains = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t    *leaves = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t		n_leaves = 0;
	int32_t		l;

	if (tree == NULL || entries == NULL || domains == NULL || leaves == NULL)
		return NULL;
	tree->n = tree->n_entries = n;
	tree->above = DecideAlloc(arena, (int64_t) n * 2, sizeof(int32_t));
	tree->below = DecideAlloc(arena, (int64_t) n * 2, sizeof(int32_t));
	tree->domain_top = DecideAlloc(arena, n, sizeof(int32_t));
	tree->leaf_top = DecideAlloc(arena, n, sizeof(int32_t));
	if (tree->above == NULL || tree->below == NULL ||
		tree->domain_top == NULL || tree->leaf_top == NULL)
		return NULL;
	for (l = first; l < first + n; l = cycle->near[l].leaf_end)
		leaves[n_leaves++] = join_leaf(tree, cycle->near, first, l, entries,
									   domains);
	tree->above[join(tree, leaves, n_leaves)] = -1;
	return tree;
}

/*
 * Returns the tournament tree of a type's hosts, or of all hosts, in which the
 * hosts of each domain and then of each leaf are paired with each other first.
 * A changed host therefore changes the counts near other hosts only above the
 * entry of its domain or leaf, which is on its own way to the top.  Returns
 * NULL if memory runs out.
 */
NearTree *
DecideNearTree(Cycle *cycle, const TypeRange *range)
{
	NearTree  **tree = &cycle->near_trees[cycle->n_types];

	if (range->n < cycle->n_hosts)
		tree = &cycle->near_trees
			[cycle->hosts[cycle->by_near[range->first]].kind];
	if (*tree == NULL)
		*tree = tree_make(cycle, range->first, range->n);
	return *tree;
}

/*
 * The number of devices that a gang could use on a host.
 */
int32_t
DecideNearFree(const Host *host)
{
	return host->open ? host->n_free : 0;
}

/*
 * The number of free devices in a range of by_near; 0 for a range of one host.
 */
static uint64_t
stretch_free(const Cycle *cycle, int32_t first, int32_t end)
{
	uint64_t	sum = 0;
	int32_t		i;

	for (i = first; i < end && end - first > 1; i++)
		sum += (uint64_t) DecideNearFree(&cycle->hosts[cycle->by_near[i]]);
	return sum;
}

/*
 * Returns a key that orders hosts which suit a job equally: the lower key is
 * better.  last keeps the counts of the previous call; they are valid as long
 * as no host changes.
 */
uint64_t
DecideNearKey(const Cycle *cycle, int32_t index, NearCount *last)
{
	const Near *near = &cycle->near[cycle->hosts[index].near];

	if (last->of.leaf_end != near->leaf_end)
		last->leaf_free = stretch_free(cycle, near->leaf, near->leaf_end);
	if (last->of.domain_end != near->domain_end)
		last->domain_free = stretch_free(cycle, near->domain,
										 near->domain_end);
	last->of = *near;
	return last->leaf_free << DECIDE_NEAR_LEAF | last->domain_free;
}
