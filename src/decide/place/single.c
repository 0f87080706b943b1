/*
 * single.c
 *	  The single host that a job of a fixed size goes onto.
 *
 * Offers are tried in order.  Only under the policy fgd, which knows what
 * each type is worth to others, do offers of one price compete: the best host
 * of all of them wins.
 */
#include <string.h>

#include "decide/place/place.h"

/* A single host for a request, and how it compares. */
typedef struct Choice
{
	int32_t		host;			/* -1: none can take the request */
	FitKey		key;
	uint64_t	near;			/* devices free near it */
} Choice;

#define CHOICE_NONE	((Choice) {-1, FIT_NONE, 0})

/* Ranges of by_near: hosts of one type below one leaf, and of one domain
 * there. */
struct Near
{
	int32_t		leaf;			/* where the range begins */
	int32_t		leaf_end;
	int32_t		domain;
	int32_t		domain_end;
};

/* The free devices of the last ranges asked for; all 0: none. */
typedef struct NearCount
{
	Near		of;
	uint64_t	leaf_free;
	uint64_t	domain_free;
} NearCount;

struct NearTree
{
	int32_t		n;				/* hosts, entries 0 to n - 1 */
	int32_t		n_entries;		/* the last entry is the winner of all */
	int32_t    *above;			/* by entry; -1: none */
	int32_t    *below;			/* two each, for entries from n on */
	int32_t    *domain_top;		/* by host: the entry of its whole domain */
	int32_t    *leaf_top;		/* and leaf */
};

/* The best host for one request and offer, kept up to date as hosts change. */
struct Best
{
	const int32_t *hosts;		/* competitors, as in by_near */
	const Near *places;			/* of each */
	int32_t		first;			/* where in by_near they begin */
	const NearTree *tree;
	FitKey	   *keys;			/* per competitor */
	uint8_t    *free;			/* of each; then by start of leaf or domain: */
	uint32_t   *leaf_free;
	uint32_t   *domain_free;
	uint64_t   *near;			/* of the winners of leaf and domain */
	int32_t    *winners;		/* by entry */
	uint64_t	synced;			/* the last change it has seen */
};

#define DECIDE_NEAR_LEAF	32	/* the bit where the leaf's count begins */

/*
 * The free devices near a host: below its leaf, and in its NVLink domain.
 *
 * Of hosts that suit a job equally, the one wins whose leaf has the fewest
 * free devices, then whose domain has, so that gangs find others whole.
 * Whole devices count on hosts of the same type that take new work.  A host
 * that is alone in its leaf or domain counts none.  A domain that spans
 * leaves counts per leaf; a host with a domain but no leaf uses its domain as
 * its leaf.
 *
 * by_near has each leaf's hosts of a type together, and within it each
 * domain's.
 */

/*
 * Compare two hosts by type, leaf, domain, then name.
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
 * Are two hosts in one domain, below one leaf?
 */
static bool
same_domain(const Host *a, const Host *b)
{
	return a->type == b->type && a->leaf == b->leaf &&
		a->domain == b->domain && a->domain != DECIDE_OWN_GROUP;
}

/*
 * Are two hosts below one leaf?
 */
static bool
same_leaf(const Host *a, const Host *b)
{
	return a->leaf == DECIDE_OWN_GROUP ? same_domain(a, b) :
		a->type == b->type && a->leaf == b->leaf;
}

/*
 * Find where the ranges of by_near begin and end.
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
 * Find which hosts are near each other, before leaves and domains lose their
 * given labels.  False: out of memory.
 */
static bool
near_prepare(Cycle *cycle)
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
 * Pair entries under new ones, up to one above all.
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
 * Pair the hosts of one leaf, those of each domain first: returns the entry
 * above all.
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
 * Make the tournament of a range of by_near.  NULL: out of memory.
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
 * The pairing of a type's hosts, or of all hosts, in which each leaf's and
 * each domain's hosts meet among themselves first.  So a host changes the
 * counts of those near it only above the entry of its leaf or domain, which
 * is above its own.  NULL: out of memory.
 */
static NearTree *
near_tree(Cycle *cycle, const TypeRange *range)
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
 * The devices that a gang could have of a host.
 */
static int32_t
near_free(const Host *host)
{
	return host->open ? host->n_free : 0;
}

/*
 * Count the free devices of a range; a host alone has none near it.
 */
static uint64_t
stretch_free(const Cycle *cycle, int32_t first, int32_t end)
{
	uint64_t	sum = 0;
	int32_t		i;

	for (i = first; i < end && end - first > 1; i++)
		sum += (uint64_t) near_free(&cycle->hosts[cycle->by_near[i]]);
	return sum;
}

/*
 * The order of hosts that suit equally: lower is better.  last caches the
 * count while no host changes.
 */
static uint64_t
near_key(const Cycle *cycle, int32_t index, NearCount *last)
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

/*
 * The best single host for a request.
 *
 * The first search of a request goes through the hosts, since many classes
 * have one job only.  From the second on a tournament is kept over the
 * competing hosts: each entry is the better of the two below it, and the last
 * entry is the best of all.  A changed host costs one walk to the top; the
 * cycle's list of changes names each changed host once.
 *
 * Of equally suited hosts the one with the fewest free devices near it wins,
 * then the lower name.  Within a domain the counts are equal, so they are
 * compared only between the best of each domain, then of each leaf.
 */

#define WITHIN_DOMAIN	UINT64_C(0)
#define WITHIN_LEAF		((UINT64_C(1) << DECIDE_NEAR_LEAF) - 1)
#define ANYWHERE		UINT64_MAX

/*
 * Let the better of two competitors win an entry; part selects the counts
 * that can differ here.
 */
static void
play(Best *best, int32_t entry, uint64_t part)
{
	const int32_t *below = &best->tree->below[2 * (entry - best->tree->n)];
	int32_t		a = best->winners[below[0]];
	int32_t		b = best->winners[below[1]];
	bool		first;

	if (best->keys[a].high != best->keys[b].high)
		first = best->keys[a].high < best->keys[b].high;
	else if (best->keys[a].low != best->keys[b].low)
		first = best->keys[a].low < best->keys[b].low;
	else if (((best->near[a] ^ best->near[b]) & part) != 0)
		first = (best->near[a] & part) < (best->near[b] & part);
	else
		first = best->hosts[a] < best->hosts[b];
	best->winners[entry] = first ? a : b;
}

/*
 * Set the counts near the winner of a domain or leaf.
 */
static void
near_set(Best *best, int32_t position)
{
	const Near *near = &best->places[position];

	best->near[position] =
		(uint64_t) best->leaf_free[near->leaf - best->first] <<
		DECIDE_NEAR_LEAF | best->domain_free[near->domain - best->first];
}

/*
 * Replay a changed competitor up to the top.
 */
static void
replay(Best *best, int32_t position)
{
	const NearTree *tree = best->tree;
	int32_t		entry = position;

	while (entry != tree->domain_top[position])
	{
		entry = tree->above[entry];
		play(best, entry, WITHIN_DOMAIN);
	}
	near_set(best, best->winners[entry]);
	while (entry != tree->leaf_top[position])
	{
		entry = tree->above[entry];
		play(best, entry, WITHIN_LEAF);
	}
	near_set(best, best->winners[entry]);
	while (entry != tree->n_entries - 1)
	{
		entry = tree->above[entry];
		play(best, entry, ANYWHERE);
	}
}

/*
 * The hosts that compete for a request, a range of by_near.
 */
static TypeRange
competitors(const Cycle *cycle, const DecideOffer *offer)
{
	TypeRange	all = {DECIDE_NO_TYPE, 0, cycle->n_hosts};

	return offer != NULL ? DecideHostsOfType(cycle, offer->type) : all;
}

/*
 * Is one host a better choice than the other?
 */
static bool
choice_better(const Choice *a, const Choice *b)
{
	if (DecideFitLess(a->key, b->key) || DecideFitLess(b->key, a->key))
		return DecideFitLess(a->key, b->key);
	return a->near != b->near ? a->near < b->near : a->host < b->host;
}

/*
 * The best host that takes all of count devices now, from a look at each.
 */
static Choice
scan(const Cycle *cycle, const DecideRequestClass *request,
	 const DecideOffer *offer, int32_t count)
{
	TypeRange	range = competitors(cycle, offer);
	Choice		best = CHOICE_NONE;
	NearCount	near = {0};
	int32_t		i;

	for (i = 0; i < range.n; i++)
	{
		Choice		its = {.host = cycle->by_near[range.first + i]};

		its.key = DecideFitKey(cycle, &cycle->hosts[its.host], request, offer,
							   count);
		if (its.key.high == UINT64_MAX || DecideFitLess(best.key, its.key))
			continue;
		its.near = near_key(cycle, its.host, &near);
		if (choice_better(&its, &best))
			best = its;
	}
	return best;
}

/*
 * Add to the free devices of a competitor.
 */
static void
near_add(Best *best, int32_t position, int32_t more)
{
	const Near *near = &best->places[position];

	best->free[position] = (uint8_t) (best->free[position] + more);
	if (near->leaf_end - near->leaf > 1)
		best->leaf_free[near->leaf - best->first] += (uint32_t) more;
	if (near->domain_end - near->domain > 1)
		best->domain_free[near->domain - best->first] += (uint32_t) more;
}

/*
 * Get a tournament over n hosts.  NULL: out of memory.
 */
static Best *
best_alloc(Cycle *cycle, const TypeRange *range)
{
	const DecideArena *arena = cycle->arena;
	size_t		n = (size_t) range->n;
	Best	   *best = DecideAlloc(arena, 1, sizeof(Best));

	if (best == NULL || range->n > INT32_MAX / 2)
		return NULL;
	best->hosts = cycle->by_near + range->first;
	best->places = cycle->near + range->first;
	best->first = range->first;
	best->synced = cycle->changes;
	best->tree = near_tree(cycle, range);
	best->keys = DecideAlloc(arena, range->n, sizeof(FitKey));
	best->free = DecideAlloc(arena, range->n, sizeof(uint8_t));
	best->leaf_free = DecideAlloc(arena, range->n, sizeof(uint32_t));
	best->domain_free = DecideAlloc(arena, range->n, sizeof(uint32_t));
	best->near = DecideAlloc(arena, range->n, sizeof(uint64_t));
	best->winners = DecideAlloc(arena, (int64_t) range->n * 2,
								sizeof(int32_t));
	if (best->tree == NULL || best->keys == NULL || best->free == NULL ||
		best->leaf_free == NULL || best->domain_free == NULL ||
		best->near == NULL || best->winners == NULL)
		return NULL;
	memset(best->free, 0, n * sizeof(uint8_t));
	memset(best->leaf_free, 0, n * sizeof(uint32_t));
	memset(best->domain_free, 0, n * sizeof(uint32_t));
	return best;
}

/*
 * Set up the tournament for a request of fixed size with at least one
 * competitor.  NULL: out of memory.
 */
static Best *
best_build(Cycle *cycle, const DecideRequestClass *request,
		   const DecideOffer *offer)
{
	TypeRange	range = competitors(cycle, offer);
	Best	   *best = best_alloc(cycle, &range);
	int32_t		i;

	if (best == NULL)
		return NULL;
	for (i = 0; i < range.n; i++)
	{
		const Host *host = &cycle->hosts[best->hosts[i]];

		best->keys[i] = DecideFitKey(cycle, host, request, offer,
									 request->min_gpus);
		best->winners[i] = i;
		near_add(best, i, near_free(host));
	}
	for (i = 0; i < range.n; i++)
		near_set(best, i);
	for (i = range.n; i < best->tree->n_entries; i++)
		play(best, i, ANYWHERE);
	DecidePoll(cycle->arena);
	return best;
}

/*
 * The best host now.
 */
static Choice
best_find(Cycle *cycle, Best *best, const DecideRequestClass *request,
		  const DecideOffer *offer)
{
	Choice		choice = CHOICE_NONE;
	int32_t		i;

	for (i = cycle->latest; i >= 0 && cycle->hosts[i].changed > best->synced;
		 i = cycle->hosts[i].older)
	{
		const Host *host = &cycle->hosts[i];
		int32_t		position = host->near - best->first;

		if (offer != NULL && host->type != offer->type)
			continue;
		best->keys[position] = DecideFitKey(cycle, host, request, offer,
											request->min_gpus);
		near_add(best, position,
				 near_free(host) - best->free[position]);
		replay(best, position);
	}
	best->synced = cycle->changes;
	i = best->winners[best->tree->n_entries - 1];
	if (best->keys[i].high == UINT64_MAX)
		return choice;
	choice.host = best->hosts[i];
	choice.key = best->keys[i];
	choice.near = best->near[i];
	return choice;
}

/*
 * Hosts that hold a job's cache.
 *
 * The cache decides only between hosts that the policy finds equally good, so
 * it needs no scores of its own.  Once the best host is known, the few that
 * hold the cache are compared with it.
 */

/*
 * Compare two entries by cache, then host.
 */
static int
compare_cached(const void *context, int32_t a, int32_t b)
{
	const DecideCached *x = (const DecideCached *) context + a;
	const DecideCached *y = (const DecideCached *) context + b;

	if (x->cache != y->cache)
		return x->cache < y->cache ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/*
 * Sort the known caches, once a cycle.  False: out of memory.
 */
static bool
cached_prepare(Cycle *cycle)
{
	int32_t		n = cycle->input->n_cached;
	DecideCached *given;
	int32_t    *order;
	int32_t    *host_of;
	int32_t		i;

	if (n == 0)
		return true;
	given = DecideAlloc(cycle->arena, n, sizeof(DecideCached));
	order = DecideAlloc(cycle->arena, n, sizeof(int32_t));
	host_of = DecideAlloc(cycle->arena, cycle->n_hosts, sizeof(int32_t));
	cycle->cached = DecideAlloc(cycle->arena, n, sizeof(DecideCached));
	cycle->holds = DecideAlloc(cycle->arena, cycle->n_hosts, sizeof(bool));
	if (given == NULL || order == NULL || host_of == NULL ||
		cycle->cached == NULL || cycle->holds == NULL)
		return false;
	memset(cycle->holds, 0, (size_t) cycle->n_hosts * sizeof(bool));
	for (i = 0; i < cycle->n_hosts; i++)
		host_of[cycle->hosts[i].node] = i;
	for (i = 0; i < n; i++)
	{
		order[i] = i;
		given[i].cache = cycle->input->cached[i].cache;
		given[i].node = host_of[cycle->input->cached[i].node];
	}
	if (!DecideSort(cycle->arena, order, n, compare_cached, given))
		return false;
	for (i = 0; i < n; i++)
		cycle->cached[i] = given[order[i]];
	return true;
}

/*
 * Where the entries of a cache begin.
 */
static int32_t
first_of(const Cycle *cycle, int32_t cache)
{
	int32_t		low = 0;
	int32_t		high = cycle->input->n_cached;

	while (low < high)
	{
		int32_t		middle = low + (high - low) / 2;

		if (cycle->cached[middle].cache < cache)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Does this entry belong to the cache?
 */
static bool
is_of(const Cycle *cycle, int32_t entry, int32_t cache)
{
	return entry < cycle->input->n_cached &&
		cycle->cached[entry].cache == cache;
}

/*
 * Mark the hosts that hold a cache, or remove the marks, around a turn of one
 * of its jobs.
 */
void
DecideCachedMark(Cycle *cycle, int32_t cache, bool holds)
{
	int32_t		i;

	DecideAssert(cache >= 0);
	DecideAssert(cycle->holds != NULL || cycle->input->n_cached == 0);
	if (cache == 0 || cycle->cached == NULL)
		return;
	for (i = first_of(cycle, cache); is_of(cycle, i, cache); i++)
		cycle->holds[cycle->cached[i].node] = holds;
}

/*
 * A host's key with the best of some offers (NULL: without devices).
 */
static FitKey
best_key(const Cycle *cycle, const DecideRequestClass *request,
		 const DecideOffer *offers,
		 int32_t n_offers, int32_t count, int32_t host)
{
	FitKey		best = FIT_NONE;
	int32_t		i;

	for (i = 0; i < n_offers; i++)
	{
		FitKey		key = DecideFitKey(cycle, &cycle->hosts[host], request,
									   offers ? &offers[i] : NULL, count);

		if (DecideFitLess(key, best))
			best = key;
	}
	return best;
}

/*
 * Of the hosts that hold the cache and suit as well as this one with one of
 * the offers (NULL: without devices), the one with the fewest free devices
 * near it, then the lowest.  If there is none, this host.
 */
static int32_t
cached_host(const Cycle *cycle, const DecideRequestClass *request,
			const DecideOffer *offers, int32_t n_offers, int32_t count,
			int32_t cache, int32_t host)
{
	Choice		best = CHOICE_NONE;
	NearCount	near = {0};
	FitKey		least;
	int32_t		i;

	if (cache == 0 || cycle->cached == NULL)
		return host;
	least = best_key(cycle, request, offers, n_offers, count, host);
	for (i = first_of(cycle, cache); is_of(cycle, i, cache); i++)
	{
		Choice		its = {.host = cycle->cached[i].node};

		its.key = best_key(cycle, request, offers, n_offers, count, its.host);
		if (its.key.high == UINT64_MAX || DecideFitLess(least, its.key))
			continue;
		its.near = near_key(cycle, its.host, &near);
		if (best.host < 0 || choice_better(&its, &best))
			best = its;
	}
	return best.host >= 0 ? best.host : host;
}

/*
 * The best host that takes all of count devices now; of equally good ones,
 * one that holds the cache (0: none).  -1: no host can.
 */
int32_t
DecideSingleScan(const Cycle *cycle, const DecideRequestClass *request,
				 const DecideOffer *offer, int32_t count, int32_t cache)
{
	int32_t		host = scan(cycle, request, offer, count).host;

	DecideAssert(count >= 0);
	DecideAssert(offer != NULL || request->min_gpus == 0);
	return host < 0 ? -1 :
		cached_host(cycle, request, offer, 1, count, cache, host);
}

/*
 * Build the tournaments of all offers that compete.  False: out of memory.
 */
static bool
bests_build(Cycle *cycle, RequestState *state,
			const DecideRequestClass *request,
			const DecideOffer *offers, int32_t n_offers)
{
	int32_t		i;

	state->best = DecideAlloc(cycle->arena, n_offers, sizeof(Best *));
	if (state->best == NULL)
		return false;
	for (i = 0; i < n_offers; i++)
	{
		state->best[i] = NULL;
		if (offers != NULL &&
			DecideHostsOfType(cycle, offers[i].type).n == 0)
			continue;
		state->best[i] = best_build(cycle, request,
									offers ? &offers[i] : NULL);
		if (state->best[i] == NULL)
			return false;
	}
	return true;
}

/*
 * Find the best single host for a job with this cache; *host is -1 if none
 * can take the request any more.  offers is NULL for a job without devices.
 * False: out of memory.
 */
bool
DecideSingleFind(Cycle *cycle, RequestState *state,
				 const DecideRequestClass *request,
				 const DecideOffer *offers, int32_t n_offers, int32_t cache,
				 int32_t *host)
{
	Choice		best = CHOICE_NONE;
	int32_t		i;

	DecideAssert(n_offers > 0);
	DecideAssert(offers != NULL || n_offers == 1);
	*host = -1;
	if (state->spread)
		return true;
	if (state->started && state->best == NULL &&
		!bests_build(cycle, state, request, offers, n_offers))
		return false;
	for (i = 0; i < n_offers; i++)
	{
		const DecideOffer *offer = offers != NULL ? &offers[i] : NULL;
		Choice		its = CHOICE_NONE;

		if (state->best == NULL)
			its = scan(cycle, request, offer, request->min_gpus);
		else if (state->best[i] != NULL)
			its = best_find(cycle, state->best[i], request, offer);
		if (its.host >= 0 &&
			(best.host < 0 || choice_better(&its, &best)))
			best = its;
	}
	*host = best.host;
	state->started = *host >= 0;
	state->spread = *host < 0;
	if (*host < 0)
		state->best = NULL;
	else
		*host = cached_host(cycle, request, offers, n_offers, request->min_gpus,
							cache, *host);
	return true;
}

/*
 * Get ready to find single hosts, before hosts are grouped.  False: out of memory.
 */
bool
DecideSinglePrepare(Cycle *cycle)
{
	DecideAssert(cycle->by_near == NULL);
	DecideAssert(cycle->by_domain == NULL);
	return near_prepare(cycle) && cached_prepare(cycle) &&
		(cycle->input->policy.packing != DECIDE_PACKING_FGD ||
		 DecideMixPrepare(cycle));
}
