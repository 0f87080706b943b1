/*
 * victims_gang.c
 *	  Victims for a gang that no single host could take.
 *
 * Within each place that the gang's topology allows, and only as important
 * tiers as must be: the hosts that could take most are cleared, those where
 * least is lost first, until the gang has room; then whoever it can do without
 * is spared, the dearest first.  So a gang gets few hosts, whole.  Of several
 * places the one that costs least; a gang that may be anywhere gets one NVLink
 * domain, or one leaf, where that takes no more important victims.
 *
 * Where that comes to nothing, those of the gang's own organisation leave first.
 * Trying sets of victims instead found nothing more for the msr trace's gangs in
 * pools of 62 to 1,213 hosts, and spared 0.5 % of the victims.
 */
#include <string.h>

#include "decide/claim.h"

#define INDEX_MASK	UINT64_C(0xFFFFFF)
#define MOST_LOST	UINT32_MAX	/* device-seconds, as a key tells them */

/*
 * Give a candidate back if it may be made to leave and its tier is not more
 * important than rank.
 */
static void
clear_of(Cycle *cycle, int32_t index, int32_t rank)
{
	ClaimState *claims = cycle->claims;
	DecideWhy	why;

	if (claims->candidates[index].rank < rank ||
		!DecideVictimMay(cycle, &claims->candidates[index], &why))
		return;
	DecideVictimRelease(cycle, index, true);
	claims->chosen[claims->n_chosen++] = index;
}

/*
 * Give back all that may be made to leave a host, until there is room.
 */
static void
clear_host(Cycle *cycle, int32_t host, int32_t rank)
{
	ClaimState *claims = cycle->claims;
	int32_t		i;

	for (i = claims->first_holder[host]; i < claims->first_holder[host + 1] &&
		 claims->n_ready == 0; i++)
		clear_of(cycle, claims->holders[i].candidate, rank);
}

/*
 * What a host could take at most without those it may be cleared of, and a key
 * by which hosts are cleared: that, then what would be lost.
 */
static int64_t
clearing_of(const Cycle *cycle, int32_t host, int32_t rank, uint64_t *key)
{
	const ClaimState *claims = cycle->claims;
	int64_t		capacity = cycle->hosts[host].n_free;
	int64_t		lost = 0;
	int32_t		i;

	*key = UINT64_MAX;
	if (!DecideFitAllowed(&cycle->hosts[host], claims->search.request,
						  claims->search.offer))
		return 0;
	for (i = claims->first_holder[host]; i < claims->first_holder[host + 1];
		 i++)
	{
		const Candidate *candidate =
		&claims->candidates[claims->holders[i].candidate];
		DecideWhy	why;

		if (candidate->rank < rank ||
			!DecideVictimMay(cycle, candidate, &why))
			continue;
		capacity += cycle->input->running_parts[claims->holders[i].part].gpus;
		lost += claims->search.moving ? candidate->amount : candidate->lost;
	}
	if (capacity > cycle->hosts[host].gpus)
		capacity = cycle->hosts[host].gpus;
	lost /= DECIDE_WHOLE;
	*key = (uint64_t) (DECIDE_MAX_DEVICES - capacity) << 56 |
		(uint64_t) (lost < MOST_LOST ? lost : MOST_LOST) << 24;
	return capacity;
}

/*
 * Take back all that is given.
 */
static void
take_back(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;

	while (claims->n_chosen > 0)
		DecideVictimRelease(cycle, claims->chosen[--claims->n_chosen], false);
}

/*
 * Give back all in a scope that are of the job's own organisation: once those
 * have left it may take more from others.
 */
static void
clear_own(Cycle *cycle, const Scope *scope, int32_t rank)
{
	ClaimState *claims = cycle->claims;
	const int32_t *root = cycle->queue->tree.use.root;
	int32_t		i;
	int32_t		h;

	for (i = 0; i < scope->n; i++)
	{
		int32_t		host = scope->hosts[i];

		if (!DecideFitAllowed(&cycle->hosts[host], claims->search.request,
							  claims->search.offer))
			continue;
		for (h = claims->first_holder[host];
			 h < claims->first_holder[host + 1]; h++)
		{
			int32_t		index = claims->holders[h].candidate;

			int32_t		account = cycle->input->running
				[claims->candidates[index].running].account;

			if (root[account] == root[claims->search.account])
				clear_of(cycle, index, rank);
		}
	}
}

/*
 * Clear the hosts of a scope, those that could take most first, until there is
 * room, and spare whom that can do without.  False: it comes to nothing.
 */
static bool
clear_scope(Cycle *cycle, const Scope *scope, int32_t rank)
{
	ClaimState *claims = cycle->claims;
	int64_t		capacity = 0;
	int32_t		i;

	for (i = 0; i < scope->n; i++)
	{
		capacity += clearing_of(cycle, scope->hosts[i], rank,
								&claims->keys[i]);
		claims->keys[i] = (claims->keys[i] & ~INDEX_MASK) | (uint64_t) i;
	}
	if (capacity < claims->search.count)
		return false;
	if (scope->n > 1)
		DecideSortKeys(claims->keys, claims->keys_spare, scope->n);
	for (i = 0; i < scope->n && claims->n_ready == 0; i++)
		clear_host(cycle, scope->hosts[claims->keys[i] & INDEX_MASK], rank);
	DecidePoll(cycle->arena);
	if (claims->n_ready == 0)
		return false;
	DecideVictimsFillBack(cycle);
	return DecideVictimsAllEntitled(cycle);
}

/*
 * Find victims within a scope, of tiers not more important than rank; they are
 * then chosen and given back.  False: none were found, and nothing is given.
 */
static bool
choose_in_scope(Cycle *cycle, const Scope *scope, int32_t rank)
{
	ClaimState *claims = cycle->claims;
	int64_t		most = 0;
	int32_t		i;

	for (i = 0; i < scope->n; i++)
		most += cycle->hosts[scope->hosts[i]].gpus;
	if (most < claims->search.count)
		return false;
	if (clear_scope(cycle, scope, rank))
		return true;
	take_back(cycle);
	if (!cycle->input->policy.reclaim || claims->search.moving)
		return false;
	clear_own(cycle, scope, rank);
	if (claims->n_chosen > 0 && clear_scope(cycle, scope, rank))
		return true;
	take_back(cycle);
	return false;
}

/*
 * Keep the chosen as the best set so far, if it is.
 */
static void
keep_best(Cycle *cycle, Cost *best, bool *found)
{
	ClaimState *claims = cycle->claims;
	Cost		cost = DecideVictimsCost(cycle, claims->chosen,
										 claims->n_chosen);

	if ((*found && DecideCostCompare(best, &cost) <= 0) ||
		(claims->search.moving && !DecideDefragmentFit(cycle)))
		return;
	*best = cost;
	*found = true;
	claims->n_best = claims->n_chosen;
	if (claims->n_chosen > 0)
		memcpy(claims->best, claims->chosen,
			   (size_t) claims->n_chosen * sizeof(int32_t));
}

/*
 * Choose the best set, and give back what its members have.
 */
static void
choose_best(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	int32_t		i;

	for (i = 0; i < claims->n_best; i++)
	{
		claims->chosen[i] = claims->best[i];
		DecideVictimRelease(cycle, claims->chosen[i], true);
	}
	claims->n_chosen = claims->n_best;
}

/*
 * In a scope of its own a gang may do with fewer than within all.  But where
 * they are to move, with fewer of them it may be placed where those that are
 * left would go; then all of them move.
 */
static void
spare_within_all(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;

	DecideSearchBegin(cycle, claims->search.request->topology, false);
	DecideVictimsFillBack(cycle);
	if (claims->search.moving && claims->n_chosen < claims->n_best &&
		!DecideDefragmentFit(cycle))
	{
		take_back(cycle);
		choose_best(cycle);
	}
	DecideShrinkFillBack(cycle);
}

/*
 * Look through the scopes of a topology for victims that cost less than the
 * best so far.  only_rank: they must be of less important tiers.
 */
static void
try_scopes(Cycle *cycle, DecideTopology topology, bool only_rank, Cost *best,
		   bool *found)
{
	ClaimState *claims = cycle->claims;
	Scope		scope = {0};
	int32_t		r;

	DecideSearchBegin(cycle, topology, false);
	while (DecideScopeNext(cycle, &claims->search.range, topology, &scope))
	{
		for (r = 0; r < claims->n_ranks; r++)
		{
			int32_t		rank = claims->ranks[r];

			if (*found && (rank < best->rank ||
						   (rank == best->rank && only_rank)))
				break;
			if (!choose_in_scope(cycle, &scope, rank))
				continue;
			keep_best(cycle, best, found);
			take_back(cycle);
			break;
		}
	}
}

/*
 * Find victims for a gang; they are then chosen and given back, and so is what
 * elastic jobs can do without.  False: there are none.
 */
static bool
victims_of_gang(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	DecideTopology topology = claims->search.request->topology;
	Cost		best = {0};
	bool		found = false;

	claims->n_chosen = claims->n_best = 0;
	DecideSearchBegin(cycle, topology, false);
	(void) DecideShrinkRelease(cycle, -1);
	if (claims->n_ready > 0)
	{
		/* those who shrink are enough */
		DecideShrinkFillBack(cycle);
		return true;
	}
	if (claims->search.no_victims)
	{
		DecideShrinkTake(cycle);
		return false;
	}
	if (topology == DECIDE_TOPOLOGY_ANY)
	{
		try_scopes(cycle, DECIDE_TOPOLOGY_NVLINK, false, &best, &found);
		try_scopes(cycle, DECIDE_TOPOLOGY_LEAF, found, &best, &found);
	}
	try_scopes(cycle, topology, topology == DECIDE_TOPOLOGY_ANY && found,
			   &best, &found);
	if (!found)
	{
		DecideShrinkTake(cycle);
		return false;
	}
	choose_best(cycle);
	spare_within_all(cycle);
	return true;
}

/*
 * Begin to seek devices for a request with one offer (none: CPU only).
 */
void
DecideSearchFor(Cycle *cycle, const DecideRequestClass *request,
				const DecideOffer *offer)
{
	Search	   *search = &cycle->claims->search;
	TypeRange	all = {DECIDE_NO_TYPE, 0, cycle->n_hosts};

	search->request = request;
	search->offer = offer;
	search->range = offer != NULL ? DecideHostsOfType(cycle, offer->type) :
		all;
	search->hosts = offer != NULL ? cycle->by_type + search->range.first :
		NULL;
	search->whole = offer != NULL && request->share == DECIDE_WHOLE;
	search->count = search->whole ? request->min_gpus : 1;
	search->above = INT32_MIN;
	search->no_victims = search->no_shrinks = false;
	search->moving = search->under = false;
	cycle->passes = INT32_MAX;
}

/*
 * Give everything back to those who have it.
 */
void
DecideVictimsGiveUp(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;

	while (claims->n_chosen > 0)
		DecideVictimRelease(cycle, claims->chosen[--claims->n_chosen], false);
	DecideShrinkTake(cycle);
}

/*
 * Find victims on one host, or for a gang on several where no host can be
 * cleared, or only at the cost of more important tiers.
 */
bool
DecideVictimsFind(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	Search	   *search = &claims->search;
	bool		found = DecideVictimsOnHost(cycle);
	Cost		cost;

	if (!search->whole || search->count < 2 ||
		search->request->topology == DECIDE_TOPOLOGY_NODE)
		return found;
	if (!found)
		return victims_of_gang(cycle);
	if (search->moving)
		return true;
	cost = DecideVictimsCost(cycle, claims->chosen, claims->n_chosen);
	if (claims->n_ranks > 0 && cost.rank < claims->ranks[0])
	{
		DecideVictimsGiveUp(cycle);
		search->above = cost.rank;
		found = victims_of_gang(cycle);
		search->above = INT32_MIN;
		if (found || !DecideVictimsOnHost(cycle))
			return found;
	}
	/* spread over several hosts it may do with fewer */
	DecideSearchBegin(cycle, search->request->topology, false);
	DecideVictimsFillBack(cycle);
	DecideShrinkFillBack(cycle);
	return true;
}
