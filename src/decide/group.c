/*
 * group.c
 *	  The hosts of one NVLink domain taking their part of a gang, and plans.
 */
#include "decide/core.h"

/*
 * Add a host to a plan.
 */
void
DecidePlanAdd(Cycle *cycle, const GangRequest *gang, Plan *plan, int32_t host,
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

/*
 * Which of two plans is better: below 0, the first.  Fewest domains, leaves
 * and hosts, of which a preference moves its own to the front, best by the
 * pool's policy, fewest free devices left on the hosts used, least room left
 * around them, most hosts that hold the job's cache.
 */
int
DecidePlanCompare(const Plan *a, const Plan *b, DecideTopology prefer)
{
	if (prefer == DECIDE_TOPOLOGY_LEAF && a->leaves != b->leaves)
		return a->leaves < b->leaves ? -1 : 1;
	if (prefer == DECIDE_TOPOLOGY_NODE && a->n != b->n)
		return a->n < b->n ? -1 : 1;
	if (a->domains != b->domains)
		return a->domains < b->domains ? -1 : 1;
	if (a->leaves != b->leaves)
		return a->leaves < b->leaves ? -1 : 1;
	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
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
 * By what hosts that take equally many devices are chosen: the pool's policy,
 * then whether they hold the job's cache.  Below 2^17.
 */
uint64_t
DecidePartRank(const Cycle *cycle, const GangRequest *gang, int32_t host,
			   int32_t gpus)
{
	int64_t		part = DecideFitPart(cycle, &cycle->hosts[host], gang->request,
									 gpus, gang->count);

	return (uint64_t) (part - INT16_MIN) << 1 |
		(uint64_t) (cycle->holds != NULL && !cycle->holds[host]);
}

/*
 * Of the hosts that can take all that is wanted, add the best to the plan: by
 * rank, then name.
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
		key = DecidePartRank(cycle, gang, host,
							 wanted) << 32 | (uint64_t) host;
		if (key < best)
		{
			best = key;
			found = host;
		}
	}
	DecidePlanAdd(cycle, gang, plan, found, wanted);
}

/*
 * Add hosts of a group that take wanted devices (no more than its room) to a
 * plan: as few as possible, so the roomiest first and full, then the one the
 * rest suits best.
 */
void
DecideGroupFill(Cycle *cycle, const GangRequest *gang, const GangGroup *group,
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
			keys[n] |= DecidePartRank(cycle, gang, group->hosts[i],
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
		DecidePlanAdd(cycle, gang, plan, host, capacity[host]);
		wanted -= capacity[host];
	}
	add_last(cycle, gang, group, keys + i, n - i, wanted, plan);
}
