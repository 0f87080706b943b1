/*
 * range.c
 *	  Elastic asks: the most GPUs of a range that fit now.
 *
 * The more devices a job has, the less cpu and memory belong to each, so a
 * larger count may fit where a smaller one does not, and trying counts by
 * halving would miss it.  But the room S(c) that a scope has for a job of c
 * devices never grows as c falls.  So when c does not fit, nothing above S(c)
 * does either, and the search goes straight on to S(c): it ends at the largest
 * count that fits, usually after a step or two.
 */
#include "decide/core.h"

/*
 * Room of a scope for a job of count devices; cpu and memory count only where
 * asked, so that without them it is the free devices.
 */
static int64_t
scope_room(const Cycle *cycle, const Scope *scope, const DecideAsk *ask,
		   const DecideOffer *offer, int64_t count, bool host_resources)
{
	int64_t		room = 0;
	int32_t		i;

	for (i = 0; i < scope->n; i++)
	{
		const Host *host = &cycle->hosts[scope->hosts[i]];

		if (!DecideFitAllowed(host, ask, offer))
			continue;
		room += host_resources ?
			DecideFitRoom(host, ask->cpu_milli, ask->memory_mib,
						  (int32_t) count) : host->n_free;
	}
	return room;
}

/*
 * The most devices, up to max_gpus, that fit now with this offer within one
 * scope of the ask's topology; 0 when fewer than min_gpus do.
 */
int32_t
DecideRangeLargest(Cycle *cycle, const DecideAsk *ask,
				   const DecideOffer *offer)
{
	TypeRange	range = DecideHostsOfType(cycle, offer->type);
	Scope		scope = {0};
	int64_t		found = 0;

	while (DecideScopeNext(cycle, &range, ask->topology, &scope))
	{
		int64_t		count = scope_room(cycle, &scope, ask, offer, 0, false);

		if (count > ask->max_gpus)
			count = ask->max_gpus;
		while (count >= ask->min_gpus && count > found)
		{
			int64_t		room = scope_room(cycle, &scope, ask, offer, count,
										  true);

			DecidePoll(cycle->arena);
			if (room >= count)
				found = count;
			else
				count = room;
		}
	}
	return (int32_t) found;
}
