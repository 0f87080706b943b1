/*
 * victims_host.c
 *	  The cheapest set of running jobs without which one host has room.
 *
 * Every set of a host's candidates is tried, the cheapest first, and none that
 * cannot be better than the best so far: as a set only grows dearer, one that
 * makes room is not looked beyond.  Where entitlements count, those of the
 * job's own organisation come before the others: once they have left, it may
 * take from these.  A host with so many candidates that this
 * takes too long (shares; never with 8 devices held whole) gets the cheapest
 * that together make room, less whoever can be spared.
 */
#include <string.h>

#include "decide/claim.h"

#define MOST_STEPS	4096		/* on one host */

typedef struct Descent
{
	int32_t		host;
	int32_t		first;			/* its holders */
	int32_t		last;
	int32_t		steps;
	Cost		cost;			/* of those chosen so far */
	Cost		best;
	int32_t		best_host;		/* -1: none yet */
} Descent;

/*
 * What choosing one more makes of a cost.
 */
static Cost
cost_with(const Cycle *cycle, Cost cost, int32_t index)
{
	Cost		one = DecideVictimsCost(cycle, &index, 1);

	cost.rank = one.rank < cost.rank ? one.rank : cost.rank;
	cost.oldest = one.oldest < cost.oldest ? one.oldest : cost.oldest;
	cost.lost = cost.lost + one.lost > INT64_MAX / 2 ? INT64_MAX / 2 :
		cost.lost + one.lost;
	cost.n++;
	cost.gpus += one.gpus;
	return cost;
}

/*
 * Keep the chosen as the best set so far, if it is.
 */
static void
keep_best(Cycle *cycle, Descent *descent)
{
	ClaimState *claims = cycle->claims;

	if ((descent->best_host >= 0 &&
		 DecideCostCompare(&descent->best, &descent->cost) <= 0) ||
		(claims->search.moving && !DecideDefragmentFit(cycle)))
		return;
	descent->best = descent->cost;
	descent->best_host = descent->host;
	claims->n_best = claims->n_chosen;
	if (claims->n_chosen > 0)
		memcpy(claims->best, claims->chosen,
			   (size_t) claims->n_chosen * sizeof(int32_t));
}

/*
 * In which of two passes a candidate has its turn.
 */
static int
pass_of(const Cycle *cycle, int32_t index)
{
	const DecideInput *input = cycle->input;
	const int32_t *root = cycle->queue->tree.use.root;
	const ClaimState *claims = cycle->claims;

	return input->policy.reclaim &&
		root[claims->search.account] !=
		root[input->running[claims->candidates[index].running].account];
}

/*
 * Try the sets that have those chosen so far, and of the others only some from
 * here on.
 */
static void
descend(Cycle *cycle, Descent *descent, int pass, int32_t from)
{
	ClaimState *claims = cycle->claims;
	int32_t		i;

	if (claims->capacity[descent->host] >= claims->search.count)
	{
		keep_best(cycle, descent);
		return;
	}
	for (i = from; descent->steps > 0; i++)
	{
		Cost		before = descent->cost;
		int32_t		index;
		DecideWhy	why;

		if (i == descent->last && pass == 0 && cycle->input->policy.reclaim)
		{
			pass = 1;
			i = descent->first;
		}
		if (i >= descent->last)
			break;
		index = claims->holders[i].candidate;
		if (pass_of(cycle, index) != pass)
			continue;
		descent->steps--;
		if (!DecideVictimMay(cycle, &claims->candidates[index], &why))
			continue;
		descent->cost = cost_with(cycle, before, index);
		if (descent->best_host < 0 ||
			DecideCostCompare(&descent->cost, &descent->best) < 0)
		{
			DecideVictimRelease(cycle, index, true);
			claims->chosen[claims->n_chosen++] = index;
			descend(cycle, descent, pass, i + 1);
			claims->n_chosen--;
			DecideVictimRelease(cycle, index, false);
		}
		descent->cost = before;
	}
}

/*
 * Choose the cheapest until there is room, then spare whom that can do
 * without.
 */
static void
choose_greedily(Cycle *cycle, Descent *descent)
{
	ClaimState *claims = cycle->claims;
	int32_t		i;

	for (i = descent->first; i < descent->last &&
		 claims->capacity[descent->host] < claims->search.count; i++)
	{
		int32_t		index = claims->holders[i].candidate;
		DecideWhy	why;

		if (!DecideVictimMay(cycle, &claims->candidates[index], &why))
			continue;
		DecideVictimRelease(cycle, index, true);
		claims->chosen[claims->n_chosen++] = index;
	}
	if (claims->capacity[descent->host] >= claims->search.count)
	{
		Cost		shrunk = descent->cost;

		for (i = claims->n_chosen - 1; i >= 0; i--)
		{
			DecideVictimRelease(cycle, claims->chosen[i], false);
			if (claims->capacity[descent->host] < claims->search.count ||
				!DecideVictimsEntitled(cycle, claims->chosen[i]))
			{
				DecideVictimRelease(cycle, claims->chosen[i], true);
				continue;
			}
			claims->n_chosen--;
			memmove(&claims->chosen[i], &claims->chosen[i + 1],
					(size_t) (claims->n_chosen - i) * sizeof(int32_t));
		}
		descent->cost = DecideVictimsCost(cycle, claims->chosen,
										  claims->n_chosen);
		descent->cost.shrunk = shrunk.shrunk;
		keep_best(cycle, descent);
	}
	while (claims->n_chosen > 0)
		DecideVictimRelease(cycle, claims->chosen[--claims->n_chosen], false);
}

/*
 * Could a host be the best, at the least?
 */
static bool
worth_it(const Cycle *cycle, const Descent *descent)
{
	const ClaimState *claims = cycle->claims;
	const Host *host = &cycle->hosts[descent->host];
	int64_t		devices = host->n_free;
	int64_t		least = INT64_MAX;
	int32_t		rank = INT32_MIN;
	int32_t		i;

	if (!DecideFitAllowed(host, claims->search.request,
						  claims->search.offer) ||
		(claims->search.whole && host->gpus < claims->search.count))
		return false;
	for (i = descent->first; i < descent->last; i++)
	{
		const Candidate *candidate =
		&claims->candidates[claims->holders[i].candidate];

		if (candidate->gone)
			continue;
		devices += cycle->input->running_parts[claims->holders[i].part].gpus;
		if (candidate->lost < least)
			least = candidate->lost;
		if (candidate->rank > rank)
			rank = candidate->rank;
	}
	if (claims->n_elastics == 0 && rank == INT32_MIN)
		return false;
	if (claims->search.whole && claims->n_elastics == 0 &&
		devices < claims->search.count)
		return false;
	return descent->best_host < 0 || claims->n_elastics > 0 ||
		rank > descent->best.rank ||
		(rank == descent->best.rank && least <= descent->best.lost);
}

/*
 * Find the cheapest victims for the search on any single host; they are then
 * chosen and given back.  False: there are none.
 */
bool
DecideVictimsOnHost(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	const Search *search = &claims->search;
	Descent		descent = {.best_host = -1};
	int32_t		i;

	DecideSearchBegin(cycle, DECIDE_TOPOLOGY_NODE, true);
	claims->n_chosen = claims->n_best = 0;
	for (i = 0; i < search->range.n; i++)
	{
		int32_t		index = search->hosts != NULL ? search->hosts[i] : i;

		descent.host = index;
		descent.first = claims->first_holder[index];
		descent.last = claims->first_holder[index + 1];
		descent.steps = MOST_STEPS;
		if (!worth_it(cycle, &descent))
			continue;
		if (i % 64 == 0)
			DecidePoll(cycle->arena);
		descent.cost = DecideVictimsCost(cycle, NULL, 0);
		descent.cost.shrunk = DecideShrinkRelease(cycle, index);
		descend(cycle, &descent, 0, descent.first);
		if (descent.steps <= 0)
			choose_greedily(cycle, &descent);
		DecideShrinkTake(cycle);
	}
	if (descent.best_host < 0)
		return false;
	(void) DecideShrinkRelease(cycle, descent.best_host);
	for (i = 0; i < claims->n_best; i++)
	{
		claims->chosen[i] = claims->best[i];
		DecideVictimRelease(cycle, claims->chosen[i], true);
	}
	claims->n_chosen = claims->n_best;
	DecideShrinkFillBack(cycle);
	return true;
}
