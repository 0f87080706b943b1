/*
 * cached_host.c
 *	  Prefers hosts that hold a job's cache.
 *
 * The cache decides only between hosts that suit a job equally well by the
 * policy, so hosts need no scores for it.  Once the best host is known, the
 * few hosts that hold the cache are compared with it.
 */
#include <string.h>

#include "decide/place/single.h"

/*----------
 * The order for the binary search of caches on hosts:
 *
 * 1. cache;
 * 2. host.
 *----------
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
 * Sorts the input's caches, once a cycle.  Returns false if memory runs out.
 */
bool
DecideCachedPrepare(Cycle *cycle)
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
 * The first entry of a cache.
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
 * Whether an entry belongs to a cache.
 */
static bool
is_of(const Cycle *cycle, int32_t entry, int32_t cache)
{
	return entry < cycle->input->n_cached &&
		cycle->cached[entry].cache == cache;
}

/*
 * Marks the hosts that hold a cache, or removes the marks.  The caller does so
 * before and after a turn of a job that uses the cache.
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
 * A host's key with the best of some offers (NULL for a job without devices).
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
 * Of the hosts that hold the cache and suit as well as this host with one of
 * the offers (NULL for a job without devices), returns the one with the fewest
 * free devices near it, then the lowest.  Returns the given host if there is
 * none.
 */
int32_t
DecideCachedHost(const Cycle *cycle, const DecideRequestClass *request,
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
		its.near = DecideNearKey(cycle, its.host, &near);
		if (best.host < 0 || DecideChoiceBetter(&its, &best))
			best = its;
	}
	return best.host >= 0 ? best.host : host;
}
