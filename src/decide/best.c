/*
 * best.c
 *	  The best single host for an ask, without looking at all of them again.
 *
 * A tournament over the hosts that compete: the leaf of a host is at n + its
 * position, every inner entry is the better of the two below it, [1] is the
 * best of all; of equals the lower position, so the lower name, wins.  A host
 * that changed costs one walk to the root.  Which hosts changed since the last
 * look is read off the cycle's list, in which each stands once.
 */
#include "decide/core.h"

/*
 * The better of two competitors.
 */
static int32_t
winner(const Best *best, int32_t a, int32_t b)
{
	if (DecideFitLess(best->keys[a], best->keys[b]))
		return a;
	if (DecideFitLess(best->keys[b], best->keys[a]))
		return b;
	return a < b ? a : b;
}

/*
 * Let a competitor play its way up after its key changed.
 */
static void
replay(Best *best, int32_t position)
{
	int32_t		i;

	for (i = (best->n + position) / 2; i >= 1; i /= 2)
		best->winners[i] = winner(best, best->winners[2 * i],
								  best->winners[2 * i + 1]);
}

/*
 * Set up the tournament for an ask of a fixed size.  NULL: no host can take
 * it, or out of memory.
 */
Best *
DecideBestBuild(Cycle *cycle, const DecideAsk *ask, const DecideOffer *offer,
				bool *out_of_memory)
{
	TypeRange	range = {DECIDE_NO_TYPE, 0, cycle->n_hosts};
	const int32_t *hosts = NULL;
	FitKey		key = FIT_NONE;
	Best	   *best;
	int32_t		first;
	int32_t		i;

	*out_of_memory = false;
	if (offer != NULL)
	{
		range = DecideHostsOfType(cycle, offer->type);
		hosts = cycle->by_type + range.first;
	}
	for (first = 0; first < range.n; first++)
	{
		key = DecideFitKey(&cycle->hosts[hosts ? hosts[first] : first], ask,
						   offer, ask->min_gpus);
		if (key.high != UINT64_MAX)
			break;
	}
	if (first == range.n || range.n > INT32_MAX / 2)
		return NULL;

	*out_of_memory = true;
	best = DecideAlloc(cycle->arena, 1, sizeof(Best));
	if (best == NULL)
		return NULL;
	best->hosts = hosts;
	best->n = range.n;
	best->synced = cycle->changes;
	best->keys = DecideAlloc(cycle->arena, range.n, sizeof(FitKey));
	best->winners = DecideAlloc(cycle->arena, (int64_t) range.n * 2,
								sizeof(int32_t));
	if (best->keys == NULL || best->winners == NULL)
		return NULL;
	*out_of_memory = false;
	for (i = 0; i < range.n; i++)
	{
		best->keys[i] = i < first ? FIT_NONE : i == first ? key :
			DecideFitKey(&cycle->hosts[hosts ? hosts[i] : i], ask, offer,
						 ask->min_gpus);
		best->winners[range.n + i] = i;
	}
	best->winners[0] = -1;
	for (i = range.n - 1; i >= 1; i--)
		best->winners[i] = winner(best, best->winners[2 * i],
								  best->winners[2 * i + 1]);
	DecidePoll(cycle->arena);
	return best;
}

/*
 * The best host now, or -1 when none can take the ask any more.
 */
int32_t
DecideBestFind(Cycle *cycle, Best *best, const DecideAsk *ask,
			   const DecideOffer *offer)
{
	int32_t		i;
	int32_t		first;

	for (i = cycle->latest; i >= 0 && cycle->hosts[i].changed > best->synced;
		 i = cycle->hosts[i].older)
	{
		const Host *host = &cycle->hosts[i];
		int32_t		position = i;

		if (best->hosts != NULL)
		{
			if (host->type != offer->type)
				continue;
			position = host->place;
		}
		best->keys[position] = DecideFitKey(host, ask, offer, ask->min_gpus);
		replay(best, position);
	}
	best->synced = cycle->changes;
	first = best->winners[1];
	if (best->keys[first].high == UINT64_MAX)
		return -1;
	return best->hosts != NULL ? best->hosts[first] : first;
}
