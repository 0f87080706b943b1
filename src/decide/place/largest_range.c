/*
 * largest_range.c
 *	  Elastic requests: finds the most devices of a range that fit now.
 *
 * With more devices, each has a smaller part of the job's cpu and memory.  So
 * a larger number may fit where a smaller one does not, and a binary search
 * would miss it.  But a scope's capacity S(c) for a job of c devices never
 * grows as c decreases.  If c does not fit, nothing above S(c) fits, and the
 * search continues at S(c).  It ends at the largest number that fits, usually
 * after one or two steps.
 */

#include "decide/place/place.h"

/*
 * A scope's capacity for a job of count devices, or just its free devices if
 * host_resources is false.
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
 * scope of the topology; 0 if fewer than min_gpus fit.
 */
int32_t
DecideRangeLargest(Cycle *cycle, const DecideRequestClass *request,
				   const DecideOffer *offer)
{
	TypeRange	range = DecideHostsOfType(cycle, offer->type);
	Scope		scope = {0};
	int64_t		found = 0;

	DecideAssert(offer != NULL);
	DecideAssert(cycle->by_domain != NULL);
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
