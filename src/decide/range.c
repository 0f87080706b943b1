/*
 * range.c
 *	  Elastic requests: the most GPUs of a range that fit now.
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
scope_capacity(const Cycle *cycle, const Scope *scope,
			   const DecideRequestClass *request,
			   const DecideOffer *offer, int64_t count, bool host_resources)
{
	int64_t		capacity = 0;
	int32_t		i;

	for (i = 0; i < scope->n; i++)
	{
		const Host *host = &cycle->hosts[scope->hosts[i]];

		if (!DecideFitAllowed(host, request, offer))
			continue;
		capacity += host_resources ?
			DecideFitCapacity(host, request->cpu_milli, request->memory_mib,
							  (int32_t) count) : host->n_free;
	}
	return capacity;
}

/*
 * The most devices, up to max_gpus, that fit now with this offer within one
 * scope of the request's topology; 0 when fewer than min_gpus do.
 */
int32_t
DecideRangeLargest(Cycle *cycle, const DecideRequestClass *request,
				   const DecideOffer *offer)
{
	TypeRange	range = DecideHostsOfType(cycle, offer->type);
	Scope		scope = {0};
	int64_t		found = 0;

	while (DecideScopeNext(cycle, &range, request->topology, &scope))
	{
		int64_t		count = scope_capacity(cycle, &scope, request, offer, 0,
										   false);

		if (count > request->max_gpus)
			count = request->max_gpus;
		while (count >= request->min_gpus && count > found)
		{
			int64_t		capacity = scope_capacity(cycle, &scope, request,
												  offer, count,
												  true);

			DecidePoll(cycle->arena);
			if (capacity >= count)
				found = count;
			else
				count = capacity;
		}
	}
	return (int32_t) found;
}
