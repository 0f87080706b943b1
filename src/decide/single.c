/*
 * single.c
 *	  The single host that a job of a fixed size goes onto.
 *
 * Offers are taken in order, one by one.  Only by the policy fgd, which knows
 * what each type is worth to others, do offers of one price compete: the best
 * host of any of them wins.
 */
#include <string.h>

#include "decide/core.h"

/*
 * How many offers of an ask, from this one on, compete with each other.  A
 * range of sizes is decided offer by offer.
 */
int32_t
DecideSingleOffers(const Cycle *cycle, const DecideAsk *ask, int32_t first)
{
	int32_t		n = 1;

	if (cycle->mix == NULL || ask->min_gpus != ask->max_gpus)
		return 1;
	while (first + n < ask->n_offers && ask->offers[first + n].tied)
		n++;
	return n;
}

/*
 * Build the tournaments of all offers that compete.  False: out of memory.
 */
static bool
bests_build(Cycle *cycle, AskState *state, const DecideAsk *ask,
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
		state->best[i] = DecideBestBuild(cycle, ask,
										 offers ? &offers[i] : NULL);
		if (state->best[i] == NULL)
			return false;
	}
	return true;
}

/*
 * Find the best single host now for a job that wants to find this cache, *host
 * is -1 when none can take the ask any more.  offers is NULL of a job without
 * devices.  False: out of memory.
 */
bool
DecideSingleFind(Cycle *cycle, AskState *state, const DecideAsk *ask,
				 const DecideOffer *offers, int32_t n_offers, int32_t cache,
				 int32_t *host)
{
	FitKey		best = FIT_NONE;
	int32_t		i;

	*host = -1;
	if (state->spread)
		return true;
	if (state->started && state->best == NULL &&
		!bests_build(cycle, state, ask, offers, n_offers))
		return false;
	for (i = 0; i < n_offers; i++)
	{
		const DecideOffer *offer = offers != NULL ? &offers[i] : NULL;
		FitKey		key = FIT_NONE;
		int32_t		found;

		if (state->best == NULL)
			found = DecideBestScan(cycle, ask, offer, ask->min_gpus, &key);
		else if (state->best[i] != NULL)
			found = DecideBestFind(cycle, state->best[i], ask, offer, &key);
		else
			continue;
		if (found < 0 || DecideFitLess(best, key) ||
			(*host >= 0 && !DecideFitLess(key, best) && found > *host))
			continue;
		best = key;
		*host = found;
	}
	state->started = *host >= 0;
	state->spread = *host < 0;
	if (*host < 0)
		state->best = NULL;
	else
		*host = DecideCachedHost(cycle, ask, offers, n_offers, ask->min_gpus,
								 cache, *host);
	return true;
}
