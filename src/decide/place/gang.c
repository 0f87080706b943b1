/*
 * gang.c
 *	  Places a gang on several hosts.
 *
 * A scope has room for a gang exactly if the capacities of its hosts (fit.c)
 * add up to the gang's devices.  The greedy choice below then succeeds: it
 * skips no capacity, and stops when the gang is complete.  The best plan of
 * all scopes that the topology allows wins; if the topology is any or nvlink,
 * each leaf is tried as a scope, too.
 *
 * If the topology is any and hosts are below several spines, each spine with
 * room is a scope as well.  If none has, the roomiest spines together are one,
 * and with them the one that has the least room for what is left; fewer spines
 * do not suffice.
 *
 * Within a scope whole domains are used, roomiest first, until one domain has
 * room for the remaining devices; this uses the fewest domains possible.  Of
 * equally roomy domains, those below a leaf in use come first, then those
 * below the roomiest leaf.  Of the domains that have room for the remaining
 * devices, the one with the best plan for them wins.
 *
 * Each gang examines all hosts of its type, which takes about 15 us for 1,213
 * hosts.  Tournaments that were kept from gang to gang made the queue of the
 * msr trace, decided in one cycle, 1.1 to 1.4 times as fast, and its replay no
 * faster.
 */
#include <string.h>

#include "decide/place/place.h"

typedef struct GangScratch GangScratch;

/*
 * Whether one scope of the topology contains both hosts.
 */
static bool
same_scope(const Host *a, const Host *b, DecideTopology topology)
{
	switch (topology)
	{
		case DECIDE_TOPOLOGY_NVLINK:
			return a->domain == b->domain;
		case DECIDE_TOPOLOGY_LEAF:
			return a->leaf == b->leaf;
		case DECIDE_TOPOLOGY_NODE:
			return false;
		case DECIDE_TOPOLOGY_ANY:
			break;
	}
	return true;
}

/*
 * Finds the next scope of a topology among the hosts of one type.  The caller
 * begins with a zeroed scope.  Returns false if there are no more scopes.
 */
bool
DecideScopeNext(const Cycle *cycle, const TypeRange *range,
				DecideTopology topology, Scope *scope)
{
	const int32_t *order = (topology == DECIDE_TOPOLOGY_LEAF) ?
		cycle->by_leaf : cycle->by_domain;
	const int32_t *hosts = order + range->first;
	int32_t		i = scope->next;

	DecideAssert(range->n >= 0 && scope->next >= 0);
	DecideAssert(cycle->by_domain != NULL);
	if (i >= range->n)
		return false;
	scope->hosts = hosts + i;
	for (i++; i < range->n; i++)
	{
		if (!same_scope(&cycle->hosts[hosts[i - 1]],
						&cycle->hosts[hosts[i]], topology))
			break;
	}
	scope->n = (int32_t) (hosts + i - scope->hosts);
	scope->next = i;
	return true;
}

/*
 * Finds the next part of a scope that is below one leaf.  The hosts of each
 * leaf must be adjacent in the scope.  Returns false if there are no more
 * parts.
 */
static bool
scope_leaf(const Cycle *cycle, const Scope *outer, Scope *inner)
{
	int32_t		i = inner->next;
	int32_t		leaf;

	if (i >= outer->n)
		return false;
	inner->hosts = outer->hosts + i;
	leaf = cycle->hosts[outer->hosts[i]].leaf;
	for (i++; i < outer->n; i++)
	{
		if (cycle->hosts[outer->hosts[i]].leaf != leaf)
			break;
	}
	inner->n = (int32_t) (outer->hosts + i - inner->hosts);
	inner->next = i;
	return true;
}

typedef struct GangGroup
{
	const int32_t *hosts;		/* the hosts of one domain that are in the
								 * scope */
	int32_t		n;
	int32_t		leaf;			/* leaf of the first host */
	int32_t		widest;			/* largest capacity of one host */
	int32_t		cache_hits;		/* number of its hosts that hold the job's
								 * cache */
	int64_t		capacity;		/* 0 if it has no room or is in the plan
								 * already */
} GangGroup;

typedef struct GangRequest
{
	const DecideRequestClass *request;
	int32_t		count;
} GangRequest;

/*
 * Working memory of gang placement.  Arrays have one entry for each host
 * unless their comment says something else.
 */
struct GangScratch
{
	uint8_t    *capacity;		/* most devices of the request that the host
								 * has room for */
	uint64_t   *keys;
	uint64_t   *keys_spare;
	GangGroup  *groups;
	int64_t    *leaf_capacity;	/* one for each leaf */
	uint64_t   *leaf_seen;		/* one for each leaf: stamp of the last plan
								 * that used it */
	uint64_t   *part_seen;		/* the same for one group of a plan */
	uint64_t   *spine_seen;		/* one for each spine, as leaf_seen */
	int64_t    *spine_capacity; /* one for each spine of the type */
	int32_t    *joined;			/* hosts of several spines, as a scope */
	uint64_t	stamp;
	Plan		best;
	Plan		trial;
	Plan		part;
	Plan		part_best;
};

/*
 * Empties a plan.
 */
static void
plan_clear(Plan *plan)
{
	plan->n = plan->domains = plan->leaves = plan->spines = 0;
	plan->mbps = 0;
	plan->loss = plan->free_left = plan->spare = plan->cache_misses = 0;
}

static void
plan_add(Cycle *cycle, const GangRequest *gang, Plan *plan, int32_t host,
		 int32_t gpus)
{
	const Host *h = &cycle->hosts[host];

	plan->hosts[plan->n] = host;
	plan->gpus[plan->n] = gpus;
	plan->n++;
	plan->loss += cycle->input->policy.packing == DECIDE_PACKING_PACK ?
		DecideFitLoss(h, gang->request, gpus, gang->count) :
		DecideFitPart(cycle, h, gang->request, gpus, gang->count);
	plan->free_left += h->n_free - gpus;
	plan->cache_misses += cycle->holds != NULL && !cycle->holds[host];
}

/*----------
 * The better plan of two for a gang comes first:
 *
 * 1. the count that the job prefers to be low: leaves or hosts;
 * 2. fewest spines of the network;
 * 3. fewest NVLink domains;
 * 4. fewest leaves of the network;
 * 5. fewest hosts;
 * 6. highest bandwidth at the widest level that it crosses, where the
 *    narrowest of its hosts counts;
 * 7. least usable devices lost in the pool, as the policy counts them;
 * 8. fewest devices left free on the hosts of the plan;
 * 9. least capacity left in the domain, leaf or spine;
 * 10. fewest hosts without the job's cache.
 *----------
 */
static int
plan_compare(const Plan *a, const Plan *b, DecideTopology prefer)
{
	if (prefer == DECIDE_TOPOLOGY_LEAF && a->leaves != b->leaves)
		return a->leaves < b->leaves ? -1 : 1;
	if (prefer == DECIDE_TOPOLOGY_NODE && a->n != b->n)
		return a->n < b->n ? -1 : 1;
	if (a->spines != b->spines)
		return a->spines < b->spines ? -1 : 1;
	if (a->domains != b->domains)
		return a->domains < b->domains ? -1 : 1;
	if (a->leaves != b->leaves)
		return a->leaves < b->leaves ? -1 : 1;
	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	if (a->mbps != b->mbps)
		return a->mbps > b->mbps ? -1 : 1;
	if (a->loss != b->loss)
		return a->loss < b->loss ? -1 : 1;
	if (a->free_left != b->free_left)
		return a->free_left < b->free_left ? -1 : 1;
	if (a->spare != b->spare)
		return a->spare < b->spare ? -1 : 1;
	if (a->cache_misses != b->cache_misses)
		return a->cache_misses < b->cache_misses ? -1 : 1;
	return 0;
}

/*
 * Orders hosts that are to contribute equally many devices to a gang: by the
 * policy, then by the job's cache.  The value is below 2^17.
 */
static uint64_t
part_rank(const Cycle *cycle, const GangRequest *gang, int32_t host,
		  int32_t gpus)
{
	int64_t		part = DecideFitPart(cycle, &cycle->hosts[host], gang->request,
									 gpus, gang->count);

	return (uint64_t) (part - INT16_MIN) << 1 |
		(uint64_t) (cycle->holds != NULL && !cycle->holds[host]);
}

/*
 * Of the hosts that have room for all wanted devices, adds the best one to the
 * plan: by rank, then by name.
 */
static void
add_last(Cycle *cycle, const GangRequest *gang, const GangGroup *group,
		 const uint64_t *keys, int32_t n, int32_t wanted, Plan *plan)
{
	uint64_t	best = UINT64_MAX;
	int32_t		found = -1;
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		int32_t		host = group->hosts[keys[i] & UINT32_MAX];
		uint64_t	key;

		if (cycle->gang->capacity[host] < wanted)
			break;
		key = part_rank(cycle, gang, host,
						wanted) << 32 | (uint64_t) host;
		if (key < best)
		{
			best = key;
			found = host;
		}
	}
	plan_add(cycle, gang, plan, found, wanted);
}

/*
 * Adds hosts of a group to a plan for the wanted devices, at most the group's
 * capacity.  It uses as few hosts as possible: the roomiest come first and are
 * filled, then comes the host that suits the remaining devices best.
 */
static void
group_fill(Cycle *cycle, const GangRequest *gang, const GangGroup *group,
		   int32_t wanted, Plan *plan)
{
	const uint8_t *capacity = cycle->gang->capacity;
	uint64_t   *keys = cycle->gang->keys;
	int32_t		n = 0;
	int32_t		i;

	for (i = 0; i < group->n; i++)
	{
		int32_t		most = capacity[group->hosts[i]];

		if (most == 0)
			continue;
		keys[n] = (uint64_t) (DECIDE_MAX_DEVICES - most) << 56 | (uint64_t) i;
		if (most < wanted)
			keys[n] |= part_rank(cycle, gang, group->hosts[i],
								 most) << 32;
		n++;
	}
	if (n > 1)
		DecideSortKeys(keys, cycle->gang->keys_spare, n);
	for (i = 0; i < n; i++)
	{
		int32_t		host = group->hosts[keys[i] & UINT32_MAX];

		if (capacity[host] >= wanted)
			break;
		plan_add(cycle, gang, plan, host, capacity[host]);
		wanted -= capacity[host];
	}
	add_last(cycle, gang, group, keys + i, n - i, wanted, plan);
}

/*
 * Counts the leaves in a range of a plan that have neither stamp yet, and
 * stamps them in seen.
 */
static int32_t
leaves_stamp(const Cycle *cycle, const Plan *plan, int32_t first,
			 uint64_t *seen, uint64_t stamp, const uint64_t *used,
			 uint64_t used_stamp)
{
	int32_t		fresh = 0;
	int32_t		i;

	for (i = first; i < plan->n; i++)
	{
		int32_t		leaf = cycle->hosts[plan->hosts[i]].leaf;

		if (seen[leaf] == stamp || used[leaf] == used_stamp)
			continue;
		seen[leaf] = stamp;
		fresh++;
	}
	return fresh;
}

/*
 * Whether two hosts of a scope belong to one group.  A group is a domain; if
 * the job prefers few leaves it is a leaf, and if it prefers few hosts it is
 * the whole scope.
 */
static bool
same_group(const Host *a, const Host *b, DecideTopology prefer)
{
	if (prefer == DECIDE_TOPOLOGY_LEAF)
		return a->leaf == b->leaf;
	return prefer == DECIDE_TOPOLOGY_NODE || a->domain == b->domain;
}

/*
 * Finds the groups of a scope and the capacity below each of its leaves.
 * Returns the number of groups.
 */
static int32_t
groups_find(Cycle *cycle, const Scope *scope, DecideTopology prefer)
{
	GangScratch *gang = cycle->gang;
	GangGroup  *group = NULL;
	int32_t		n = 0;
	int32_t		i;

	for (i = 0; i < scope->n; i++)
		gang->leaf_capacity[cycle->hosts[scope->hosts[i]].leaf] = 0;
	for (i = 0; i < scope->n; i++)
	{
		const Host *host = &cycle->hosts[scope->hosts[i]];
		int32_t		capacity = gang->capacity[scope->hosts[i]];

		if (i == 0 || !same_group(&cycle->hosts[scope->hosts[i - 1]], host,
								  prefer))
		{
			group = &gang->groups[n++];
			group->hosts = scope->hosts + i;
			group->n = 0;
			group->leaf = host->leaf;
			group->widest = 0;
			group->cache_hits = 0;
			group->capacity = 0;
		}
		group->n++;
		group->capacity += capacity;
		group->cache_hits += cycle->holds != NULL &&
			cycle->holds[scope->hosts[i]];
		if (capacity > group->widest)
			group->widest = capacity;
		gang->leaf_capacity[host->leaf] += capacity;
	}
	return n;
}

/*
 * The next group to use whole: the roomiest, then one below a leaf in use,
 * then one below the roomiest leaf, then the one with most hosts that hold the
 * job's cache.
 */
static GangGroup *
group_roomiest(const Cycle *cycle, int32_t n, uint64_t stamp)
{
	const GangScratch *gang = cycle->gang;
	GangGroup  *best = NULL;
	bool		best_used = false;
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		GangGroup  *group = &gang->groups[i];
		bool		used = gang->leaf_seen[group->leaf] == stamp;

		if (best != NULL)
		{
			if (group->capacity != best->capacity)
			{
				if (group->capacity < best->capacity)
					continue;
			}
			else if (used != best_used)
			{
				if (!used)
					continue;
			}
			else if (gang->leaf_capacity[group->leaf] !=
					 gang->leaf_capacity[best->leaf])
			{
				if (gang->leaf_capacity[group->leaf] <
					gang->leaf_capacity[best->leaf])
					continue;
			}
			else if (group->cache_hits <= best->cache_hits)
				continue;
		}
		best = group;
		best_used = used;
	}
	return best;
}

/*
 * Finds the group that suits the remaining devices best, and adds its hosts to
 * the plan.
 */
static void
group_last(Cycle *cycle, const GangRequest *request, int32_t n, int32_t wanted,
		   uint64_t stamp, Plan *plan)
{
	GangScratch *gang = cycle->gang;
	int32_t		i;

	plan_clear(&gang->part_best);
	for (i = 0; i < n; i++)
	{
		const GangGroup *group = &gang->groups[i];
		Plan		swap;

		if (group->capacity < wanted)
			continue;
		if (gang->part_best.n == 1 && gang->part_best.leaves == 0 &&
			group->widest < wanted)
			continue;
		plan_clear(&gang->part);
		group_fill(cycle, request, group, wanted, &gang->part);
		gang->part.spare = group->capacity - wanted;
		gang->part.leaves = leaves_stamp(cycle, &gang->part, 0,
										 gang->part_seen, ++gang->stamp,
										 gang->leaf_seen, stamp);
		if (gang->part_best.n > 0 &&
			plan_compare(&gang->part_best, &gang->part,
						 request->request->prefer) <= 0)
			continue;
		swap = gang->part_best;
		gang->part_best = gang->part;
		gang->part = swap;
	}
	for (i = 0; i < gang->part_best.n; i++)
	{
		plan->hosts[plan->n] = gang->part_best.hosts[i];
		plan->gpus[plan->n] = gang->part_best.gpus[i];
		plan->n++;
	}
	plan->domains++;
	plan->leaves += gang->part_best.leaves;
	plan->loss += gang->part_best.loss;
	plan->free_left += gang->part_best.free_left;
	plan->cache_misses += gang->part_best.cache_misses;
}

/*
 * Counts the domains and leaves of a plan whose groups were not domains.
 */
static void
plan_count(Cycle *cycle, Plan *plan)
{
	GangScratch *gang = cycle->gang;
	uint64_t	stamp = ++gang->stamp;
	int32_t		i;

	plan->domains = plan->leaves = 0;
	for (i = 0; i < plan->n; i++)
	{
		const Host *host = &cycle->hosts[plan->hosts[i]];

		plan->domains += gang->part_seen[host->domain] != stamp;
		gang->part_seen[host->domain] = stamp;
		plan->leaves += gang->leaf_seen[host->leaf] != stamp;
		gang->leaf_seen[host->leaf] = stamp;
	}
}

/*
 * Counts the spines of a complete plan, and finds its bandwidth.
 */
static void
plan_measure(Cycle *cycle, Plan *plan)
{
	GangScratch *gang = cycle->gang;
	uint64_t	stamp = ++gang->stamp;
	DecideLevel level = plan->domains == 1 ? DECIDE_LEVEL_NVLINK :
		plan->leaves == 1 ? DECIDE_LEVEL_LEAF : DECIDE_LEVEL_SPINE;
	int32_t		i;

	plan->mbps = INT64_MAX;
	for (i = 0; i < plan->n; i++)
	{
		const Host *host = &cycle->hosts[plan->hosts[i]];

		plan->spines += gang->spine_seen[host->spine] != stamp;
		gang->spine_seen[host->spine] = stamp;
		if (host->mbps[level] < plan->mbps)
			plan->mbps = host->mbps[level];
	}
}

/*
 * Plans the gang within a scope that has room for it.
 */
static void
scope_plan(Cycle *cycle, const GangRequest *request, const Scope *scope,
		   int64_t capacity,
		   DecideTopology prefer, Plan *plan)
{
	GangScratch *gang = cycle->gang;
	int32_t		n = groups_find(cycle, scope, prefer);
	int32_t		wanted = request->count;
	uint64_t	stamp = ++gang->stamp;

	plan_clear(plan);
	plan->spare = capacity - wanted;
	for (;;)
	{
		GangGroup  *group = group_roomiest(cycle, n, stamp);
		int32_t		first = plan->n;

		if (group->capacity >= wanted)
			break;
		group_fill(cycle, request, group, (int32_t) group->capacity,
				   plan);
		wanted -= (int32_t) group->capacity;
		group->capacity = 0;
		plan->domains++;
		plan->leaves += leaves_stamp(cycle, plan, first, gang->leaf_seen,
									 stamp, gang->leaf_seen, stamp);
	}
	group_last(cycle, request, n, wanted, stamp, plan);
	if (prefer == DECIDE_TOPOLOGY_LEAF || prefer == DECIDE_TOPOLOGY_NODE)
		plan_count(cycle, plan);
	plan_measure(cycle, plan);
	DecidePoll(cycle->arena);
}

/*
 * Plans the gang within a scope, if it has room, and keeps the plan if it is
 * the best so far.
 */
static void
scope_try(Cycle *cycle, const GangRequest *request, const Scope *scope,
		  DecideTopology prefer)
{
	GangScratch *gang = cycle->gang;
	int64_t		capacity = 0;
	int32_t		i;

	for (i = 0; i < scope->n; i++)
		capacity += gang->capacity[scope->hosts[i]];
	if (capacity < request->count)
		return;
	scope_plan(cycle, request, scope, capacity, prefer, &gang->trial);
	if (gang->best.n == 0 ||
		plan_compare(&gang->trial, &gang->best,
					 request->request->prefer) < 0)
	{
		Plan		swap = gang->best;

		gang->best = gang->trial;
		gang->trial = swap;
	}
}

/*
 * Tries smaller scopes than the topology requires: each leaf, and each domain
 * if the job prefers few hosts.
 */
static void
narrow_try(Cycle *cycle, const TypeRange *range, const GangRequest *request)
{
	DecideTopology whole = request->request->prefer == DECIDE_TOPOLOGY_NODE ?
		DECIDE_TOPOLOGY_NODE : DECIDE_TOPOLOGY_ANY;
	Scope		scope = {0};

	while (DecideScopeNext(cycle, range, DECIDE_TOPOLOGY_LEAF, &scope))
		scope_try(cycle, request, &scope, whole);
	memset(&scope, 0, sizeof(scope));
	while (whole == DECIDE_TOPOLOGY_NODE &&
		   DecideScopeNext(cycle, range, DECIDE_TOPOLOGY_NVLINK, &scope))
		scope_try(cycle, request, &scope, whole);
}

/*
 * Finds the next spine among the hosts of one type, and adds up its capacity.
 * The caller begins with a zeroed scope.  Returns false if there are no more.
 */
static bool
spine_next(const Cycle *cycle, const int32_t *hosts, int32_t n, Scope *scope,
		   int64_t *capacity)
{
	int32_t		i = scope->next;
	int32_t		spine;

	if (i >= n)
		return false;
	scope->hosts = hosts + i;
	spine = cycle->hosts[hosts[i]].spine;
	for (*capacity = 0; i < n && cycle->hosts[hosts[i]].spine == spine; i++)
		*capacity += cycle->gang->capacity[hosts[i]];
	scope->n = (int32_t) (hosts + i - scope->hosts);
	scope->next = i;
	return true;
}

/*
 * Returns the spine of the roomiest or, if wanted is not 0, of the one that has
 * the least room for so many devices.  Returns -1 if there is none.
 */
static int32_t
spine_best(const Cycle *cycle, int64_t wanted)
{
	const int64_t *capacity = cycle->gang->spine_capacity;
	int32_t		best = -1;
	int32_t		i;

	for (i = 0; i < cycle->n_spines; i++)
	{
		if (capacity[i] > 0 && capacity[i] >= wanted &&
			(best < 0 || (wanted > 0 ? capacity[i] < capacity[best] :
						  capacity[i] > capacity[best])))
			best = i;
	}
	return best;
}

/*
 * Tries the fewest spines that together have room, when none has by itself.
 * Their capacities are in the scratch memory.
 */
static void
spines_join(Cycle *cycle, const TypeRange *range, const GangRequest *request,
			DecideTopology prefer)
{
	GangScratch *gang = cycle->gang;
	const int32_t *order = (prefer == DECIDE_TOPOLOGY_LEAF ?
							cycle->by_leaf : cycle->by_domain) + range->first;
	uint64_t	stamp = ++gang->stamp;
	int64_t		wanted = request->count;
	Scope		scope = {gang->joined, 0, 0};
	int32_t		i;

	while (wanted > 0)
	{
		int32_t		spine = spine_best(cycle, wanted);

		if (spine < 0)
			spine = spine_best(cycle, 0);
		wanted -= gang->spine_capacity[spine];
		gang->spine_capacity[spine] = 0;
		gang->spine_seen[spine] = stamp;
	}
	for (i = 0; i < range->n; i++)
	{
		if (gang->spine_seen[cycle->hosts[order[i]].spine] == stamp)
			gang->joined[scope.n++] = order[i];
	}
	scope_try(cycle, request, &scope, prefer);
}

/*
 * Tries each spine as a scope, or the fewest that together have room.
 */
static void
spines_try(Cycle *cycle, const TypeRange *range, const GangRequest *request,
		   DecideTopology prefer)
{
	GangScratch *gang = cycle->gang;
	const int32_t *order = (prefer == DECIDE_TOPOLOGY_LEAF ?
							cycle->by_spine_leaf : cycle->by_spine) +
		range->first;
	bool		fits = false;
	int64_t		capacity;
	Scope		scope = {0};

	memset(gang->spine_capacity, 0,
		   (size_t) cycle->n_spines * sizeof(int64_t));
	while (spine_next(cycle, order, range->n, &scope, &capacity))
	{
		gang->spine_capacity[cycle->hosts[scope.hosts[0]].spine] = capacity;
		if (capacity < request->count)
			continue;
		fits = true;
		scope_try(cycle, request, &scope, prefer);
	}
	if (!fits)
		spines_join(cycle, range, request, prefer);
}

/*
 * Tries every scope that the topology allows, and smaller ones.
 */
static void
scopes_try(Cycle *cycle, const TypeRange *range, const GangRequest *request)
{
	DecideTopology topology = request->request->topology;
	DecideTopology prefer = request->request->prefer;
	Scope		scope = {0};
	Scope		leaf;

	if (topology == DECIDE_TOPOLOGY_ANY)
		narrow_try(cycle, range, request);
	if (topology == DECIDE_TOPOLOGY_ANY && cycle->by_spine != NULL)
		spines_try(cycle, range, request, prefer);
	if (topology == DECIDE_TOPOLOGY_ANY && prefer == DECIDE_TOPOLOGY_LEAF)
	{
		/* all hosts, sorted by leaf */
		scope.hosts = cycle->by_leaf + range->first;
		scope.n = range->n;
		scope_try(cycle, request, &scope, prefer);
		return;
	}
	while (DecideScopeNext(cycle, range, topology, &scope))
	{
		memset(&leaf, 0, sizeof(leaf));
		while (topology == DECIDE_TOPOLOGY_NVLINK &&
			   scope_leaf(cycle, &scope, &leaf) && leaf.n < scope.n)
			scope_try(cycle, request, &leaf, prefer);
		scope_try(cycle, request, &scope,
				  topology == DECIDE_TOPOLOGY_LEAF &&
				  prefer == DECIDE_TOPOLOGY_LEAF ? DECIDE_TOPOLOGY_ANY :
				  prefer);
	}
}

/*
 * Finds hosts for a gang of count devices with this offer.  Returns a plan
 * that is valid until the next call, or NULL if the gang does not fit.
 */
Plan *
DecideGangFind(Cycle *cycle, const DecideRequestClass *request,
			   const DecideOffer *offer,
			   int32_t count)
{
	GangScratch *gang = cycle->gang;
	TypeRange	range = DecideHostsOfType(cycle, offer->type);
	GangRequest asked = {request, count};
	int64_t		capacity = 0;
	int32_t		i;

	DecideAssert(count > 1);
	DecideAssert(offer != NULL);
	DecideAssert(cycle->gang != NULL);
	for (i = 0; i < range.n; i++)
	{
		int32_t		index = cycle->by_type[range.first + i];
		const Host *host = &cycle->hosts[index];

		gang->capacity[index] = (uint8_t)
			(DecideFitAllowed(host, request, offer) ?
			 DecideFitGang(host, request, count) : 0);
		capacity += gang->capacity[index];
	}
	if (capacity < count)
		return NULL;

	plan_clear(&gang->best);
	scopes_try(cycle, &range, &asked);
	return gang->best.n > 0 ? &gang->best : NULL;
}

/*
 * Allocates a plan with room for every host.  Returns false if memory runs
 * out.
 */
static bool
plan_alloc(Cycle *cycle, Plan *plan)
{
	plan->hosts = DecideAlloc(cycle->arena, cycle->n_hosts, sizeof(int32_t));
	plan->gpus = DecideAlloc(cycle->arena, cycle->n_hosts, sizeof(int32_t));
	plan_clear(plan);
	return plan->hosts != NULL && plan->gpus != NULL;
}

/*
 * Allocates the working memory for gangs, once a cycle.  Returns false if
 * memory runs out.
 */
bool
DecideGangPrepare(Cycle *cycle)
{
	const DecideArena *arena = cycle->arena;
	int32_t		n = cycle->n_hosts;
	GangScratch *gang;

	DecideAssert(cycle->n_hosts >= 0);
	DecideAssert(cycle->near != NULL);
	if (cycle->gang != NULL)
		return true;
	gang = DecideAlloc(arena, 1, sizeof(GangScratch));
	if (gang == NULL || !DecideHostsGroup(cycle))
		return false;
	gang->capacity = DecideAlloc(arena, n, sizeof(uint8_t));
	gang->keys = DecideAlloc(arena, n, sizeof(uint64_t));
	gang->keys_spare = DecideAlloc(arena, n, sizeof(uint64_t));
	gang->groups = DecideAlloc(arena, n, sizeof(GangGroup));
	gang->leaf_capacity = DecideAlloc(arena, n, sizeof(int64_t));
	gang->leaf_seen = DecideAlloc(arena, n, sizeof(uint64_t));
	gang->part_seen = DecideAlloc(arena, n, sizeof(uint64_t));
	gang->spine_seen = DecideAlloc(arena, n, sizeof(uint64_t));
	gang->spine_capacity = DecideAlloc(arena, n, sizeof(int64_t));
	gang->joined = DecideAlloc(arena, n, sizeof(int32_t));
	if (gang->capacity == NULL || gang->keys == NULL ||
		gang->keys_spare == NULL || gang->groups == NULL ||
		gang->leaf_capacity == NULL || gang->leaf_seen == NULL ||
		gang->part_seen == NULL || gang->spine_seen == NULL ||
		gang->spine_capacity == NULL || gang->joined == NULL || !plan_alloc(cycle, &gang->best) ||
		!plan_alloc(cycle, &gang->trial) || !plan_alloc(cycle, &gang->part) ||
		!plan_alloc(cycle, &gang->part_best))
		return false;
	memset(gang->leaf_seen, 0, (size_t) n * sizeof(uint64_t));
	memset(gang->part_seen, 0, (size_t) n * sizeof(uint64_t));
	memset(gang->spine_seen, 0, (size_t) n * sizeof(uint64_t));
	gang->stamp = 0;
	cycle->gang = gang;
	return true;
}
