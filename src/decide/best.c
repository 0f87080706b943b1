/*
 * best.c
 *	  The best single host for an ask.
 *
 * The first look of an ask simply goes through the hosts, since many classes
 * have one job only.  From the second on a tournament is kept over the hosts
 * that compete: the leaf of a host is at n + its position, every inner entry is
 * the better of the two below it, [1] is the best of all; of equals the lower
 * position, so the lower name, wins.  A host that changed costs one walk to the
 * root.  Which hosts changed since the last look is read off the cycle's list,
 * in which each stands once.
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
 * The hosts that compete for an ask; *hosts is NULL when that is all of them.
 */
static TypeRange
competitors(const Cycle *cycle, const DecideOffer *offer,
			const int32_t **hosts)
{
	TypeRange	range = {DECIDE_NO_TYPE, 0, cycle->n_hosts};

	*hosts = NULL;
	if (offer != NULL)
	{
		range = DecideHostsOfType(cycle, offer->type);
		*hosts = cycle->by_type + range.first;
	}
	return range;
}

/*
 * The best host that takes all of count devices now, or -1, by looking at each;
 * and how well it suits.
 */
int32_t
DecideBestScan(const Cycle *cycle, const DecideAsk *ask,
			   const DecideOffer *offer, int32_t count, FitKey *key)
{
	const int32_t *hosts;
	TypeRange	range = competitors(cycle, offer, &hosts);
	int32_t		found = -1;
	int32_t		i;

	*key = FIT_NONE;
	for (i = 0; i < range.n; i++)
	{
		int32_t		host = hosts ? hosts[i] : i;
		FitKey		its = DecideFitKey(cycle, &cycle->hosts[host], ask, offer,
									   count);

		if (DecideFitLess(its, *key))
		{
			*key = its;
			found = host;
		}
	}
	return found;
}

/*
 * Set up the tournament for an ask of a fixed size that some host competes
 * for.  NULL: out of memory.
 */
Best *
DecideBestBuild(Cycle *cycle, const DecideAsk *ask, const DecideOffer *offer)
{
	const int32_t *hosts;
	TypeRange	range = competitors(cycle, offer, &hosts);
	Best	   *best = DecideAlloc(cycle->arena, 1, sizeof(Best));
	int32_t		i;

	if (best == NULL || range.n > INT32_MAX / 2)
		return NULL;
	best->hosts = hosts;
	best->n = range.n;
	best->synced = cycle->changes;
	best->keys = DecideAlloc(cycle->arena, range.n, sizeof(FitKey));
	best->winners = DecideAlloc(cycle->arena, (int64_t) range.n * 2,
								sizeof(int32_t));
	if (best->keys == NULL || best->winners == NULL)
		return NULL;
	for (i = 0; i < range.n; i++)
	{
		best->keys[i] = DecideFitKey(cycle,
									 &cycle->hosts[hosts ? hosts[i] : i], ask,
									 offer, ask->min_gpus);
		best->winners[range.n + i] = i;
	}
	for (i = range.n - 1; i >= 1; i--)
		best->winners[i] = winner(best, best->winners[2 * i],
								  best->winners[2 * i + 1]);
	DecidePoll(cycle->arena);
	return best;
}

/*
 * The best host now, or -1 when none can take the ask any more; and how well
 * it suits.
 */
int32_t
DecideBestFind(Cycle *cycle, Best *best, const DecideAsk *ask,
			   const DecideOffer *offer, FitKey *key)
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
		best->keys[position] = DecideFitKey(cycle, host, ask, offer,
											ask->min_gpus);
		replay(best, position);
	}
	best->synced = cycle->changes;
	first = best->winners[1];
	*key = best->keys[first];
	if (best->keys[first].high == UINT64_MAX)
		return -1;
	return best->hosts != NULL ? best->hosts[first] : first;
}
