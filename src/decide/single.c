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
 * How many offers of a request, from this one on, compete with each other.  A
 * range of sizes is decided offer by offer.
 */
int32_t
DecideSingleOffers(const Cycle *cycle, const DecideRequestClass *request,
				   int32_t first)
{
	int32_t		n = 1;

	if (cycle->mix == NULL || request->min_gpus != request->max_gpus)
		return 1;
	while (first + n < request->n_offers && request->offers[first + n].tied)
		n++;
	return n;
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
		state->best[i] = DecideBestBuild(cycle, request,
										 offers ? &offers[i] : NULL);
		if (state->best[i] == NULL)
			return false;
	}
	return true;
}

/*
 * Find the best single host now for a job that wants to find this cache, *host
 * is -1 when none can take the request any more.  offers is NULL of a job without
 * devices.  False: out of memory.
 */
bool
DecideSingleFind(Cycle *cycle, RequestState *state,
				 const DecideRequestClass *request,
				 const DecideOffer *offers, int32_t n_offers, int32_t cache,
				 int32_t *host)
{
	Choice		best = CHOICE_NONE;
	int32_t		i;

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
			its = DecideBestScan(cycle, request, offer, request->min_gpus);
		else if (state->best[i] != NULL)
			its = DecideBestFind(cycle, state->best[i], request, offer);
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
