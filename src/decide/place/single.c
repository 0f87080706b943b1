/*
 * single.c
 *	  Finds the single host on which a job of a fixed size is placed.
 *
 * Offers are tried in order.  Only under the policy fgd, which knows what each
 * type is worth to other jobs, do offers of one price compete: the best host
 * of all of them wins.
 *
 * The first search for a request examines all hosts, because many request
 * classes have one job only.  From the second search on, a tournament over the
 * competing hosts is kept: each entry is the better of the two entries below
 * it, and the last entry is the best of all.  A changed host is replayed from
 * its entry to the top; the cycle's list of changes contains each changed host
 * once.
 *
 * Of equally suited hosts the one with the fewest free devices near it wins,
 * then the one with the lower name.  The hosts of one domain have equal
 * counts, so counts are compared only between the best hosts of each domain,
 * then of each leaf.
 */
#include <string.h>

#include "decide/place/single.h"

/*
 * The tournament for one request and offer, which is kept up to date as hosts
 * change.
 */
struct Best
{
	const int32_t *hosts;		/* the competing hosts, in the order of
								 * by_near */
	const Near *places;			/* the ranges near each of them */
	int32_t		first;			/* position in by_near at which they begin */
	const NearTree *tree;
	FitKey	   *keys;			/* one for each competitor */
	uint8_t    *free;			/* number of free devices of each competitor */
	uint32_t   *leaf_free;
	uint32_t   *domain_free;
	uint64_t   *near;			/* counts near the winners of leaves and
								 * domains */
	int32_t    *winners;		/* one for each entry */
	uint64_t	synced;			/* number of the last change that has been
								 * processed */
};

#define WITHIN_DOMAIN	UINT64_C(0)
#define WITHIN_LEAF		((UINT64_C(1) << DECIDE_NEAR_LEAF) - 1)
#define ANYWHERE		UINT64_MAX

/*
 * Finds the winner of an entry, the better of the winners of the two entries
 * below it.  part is the mask of the counts near hosts that can differ between
 * the two.
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
 * Sets the counts near the winner of a domain or leaf.
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
 * Replays the entries from a changed competitor to the top.
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
 * The hosts that compete for a request, as a range of by_near.
 */
static TypeRange
competitors(const Cycle *cycle, const DecideOffer *offer)
{
	TypeRange	all = {DECIDE_NO_TYPE, 0, cycle->n_hosts};

	return offer != NULL ? DecideHostsOfType(cycle, offer->type) : all;
}

/*
 * Returns the best host that has room for all of count devices now, after
 * examining each host.
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
		its.near = DecideNearKey(cycle, its.host, &near);
		if (DecideChoiceBetter(&its, &best))
			best = its;
	}
	return best;
}

/*
 * Adds to the number of free devices of a competitor.
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
 * Allocates a tournament over n hosts.  Returns NULL if memory runs out.
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
	best->tree = DecideNearTree(cycle, range);
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
 * Builds the tournament for a request of fixed size with at least one
 * competitor.  Returns NULL if memory runs out.
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
		near_add(best, i, DecideNearFree(host));
	}
	for (i = 0; i < range.n; i++)
		near_set(best, i);
	for (i = range.n; i < best->tree->n_entries; i++)
		play(best, i, ANYWHERE);
	DecidePoll(cycle->arena);
	return best;
}

/*
 * Returns the best host now, after replaying the hosts that have changed.
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
				 DecideNearFree(host) - best->free[position]);
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
 * Returns the best host that has room for all of count devices now; of equally
 * good hosts, one that holds the cache (0 if the job uses none).  Returns -1
 * if no host has room.
 */
int32_t
DecideSingleScan(const Cycle *cycle, const DecideRequestClass *request,
				 const DecideOffer *offer, int32_t count, int32_t cache)
{
	int32_t		host = scan(cycle, request, offer, count).host;

	DecideAssert(count >= 0);
	DecideAssert(offer != NULL || request->min_gpus == 0);
	return host < 0 ? -1 :
		DecideCachedHost(cycle, request, offer, 1, count, cache, host);
}

/*
 * Builds the tournaments of all competing offers.  Returns false if memory
 * runs out.
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
 * Finds the best single host for a job with this cache.  *host is -1 if no
 * host has room for the request any more.  offers is NULL for a job without
 * devices.  Returns false if memory runs out.
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
			(best.host < 0 || DecideChoiceBetter(&its, &best)))
			best = its;
	}
	*host = best.host;
	state->started = *host >= 0;
	state->spread = *host < 0;
	if (*host < 0)
		state->best = NULL;
	else
		*host = DecideCachedHost(cycle, request, offers, n_offers, request->min_gpus,
								 cache, *host);
	return true;
}

/*
 * Prepares the search for single hosts, before DecideHostsGroup replaces the
 * labels of domains and leaves.  Returns false if memory runs out.
 */
bool
DecideSinglePrepare(Cycle *cycle)
{
	DecideAssert(cycle->by_near == NULL);
	DecideAssert(cycle->by_domain == NULL);
	return DecideNearPrepare(cycle) && DecideCachedPrepare(cycle) &&
		(cycle->input->policy.packing != DECIDE_PACKING_FGD ||
		 DecideMixPrepare(cycle));
}
