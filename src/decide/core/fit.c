/*
 * fit.c
 *	  What one host can take of a request, and what that costs the pool.
 *
 * A job's cpu and memory are split by ceil(total * devices here / devices in
 * all).  A host with L left can then take at most floor(L * all / total)
 * devices, and any number below that: ceil(y) <= L exactly when y <= L.
 *
 * A free device is fed when the host still has its fair part of cpu and memory
 * for it: of F free devices on a host of G, min(F, floor(cpu left * G / cpu),
 * the same for memory) are fed.  What a placement costs the pool is the number
 * of fed free devices that are fewer after it: its own devices, and those it
 * strands.  Placements of the same size therefore rank by what they strand,
 * and one that uses devices already stranded is cheap.
 *
 * A share takes memory of its device, too: the floors of those on a device
 * never pass what it has.
 *
 * All products are exact: 128 bits where 64 could overflow.
 */
#include "decide/core/core.h"

typedef unsigned __int128 Wide;

/*
 * May this request be on this host at all, with devices of this offer?  A CPU-only
 * request has no offer.
 */
bool
DecideFitAllowed(const Host *host, const DecideRequestClass *request,
				 const DecideOffer *offer)
{
	DecideAssert(host != NULL && request != NULL);
	DecideAssert(offer != NULL || request->min_gpus == 0);
	if (!host->open || (host->spot && !request->spot_ok))
		return false;
	return offer == NULL ||
		(host->type == offer->type && DecideFitMemory(host, offer));
}

/*
 * Of at most limit devices, how many can left feed when all of count need
 * total?
 */
static int32_t
capacity_for(int64_t total, int64_t left, int32_t count, int32_t limit)
{
	Wide		have = (Wide) left * (Wide) count;

	if ((Wide) total * (Wide) limit <= have)
		return limit;
	return (int32_t) (have / (Wide) total);
}

/*
 * The most devices, of count in all, that a host can take now with so much cpu
 * and memory for the whole job.
 */
int32_t
DecideFitCapacity(const Host *host, int64_t cpu_milli, int64_t memory_mib,
				  int32_t count)
{
	int32_t		capacity = host->n_free < count ? host->n_free : count;

	DecideAssert(count > 0);
	DecideAssert(cpu_milli >= 0 && memory_mib >= 0);
	DecideAssert(host->n_free >= 0);
	if (host->cpu_milli > 0 && cpu_milli > 0)
		capacity = capacity_for(cpu_milli, host->cpu_left, count, capacity);
	if (host->memory_mib > 0 && memory_mib > 0)
		capacity = capacity_for(memory_mib, host->memory_left, count,
								capacity);
	return capacity;
}

/*
 * Can a host give so much cpu and memory?
 */
static bool
has_left(const Host *host, int64_t cpu_milli, int64_t memory_mib)
{
	return (host->cpu_milli == 0 || host->cpu_left >= cpu_milli) &&
		(host->memory_mib == 0 || host->memory_left >= memory_mib);
}

/*
 * How many devices' fair parts are in what is left of a capacity, at most
 * limit?
 */
static int32_t
fed_by(int64_t left, int64_t capacity, int32_t gpus, int32_t limit)
{
	uint64_t	usable;

	if (left < 0)
		return 0;
	if (left <= INT64_MAX / DECIDE_MAX_DEVICES)
		usable = (uint64_t) left * (uint64_t) gpus / (uint64_t) capacity;
	else
	{
		Wide		wide = (Wide) left * (Wide) gpus / (Wide) capacity;

		usable = wide > (Wide) limit ? (uint64_t) limit : (uint64_t) wide;
	}
	return usable < (uint64_t) limit ? (int32_t) usable : limit;
}

/*
 * How many of n_free free devices the host feeds with so much left.
 */
int32_t
DecideFitUsable(const Host *host, int32_t n_free, int64_t cpu_left,
				int64_t memory_left)
{
	int32_t		usable = n_free;

	DecideAssert(n_free <= host->gpus);
	DecideAssert(host->cpu_milli >= 0 && host->memory_mib >= 0);
	if (usable > 0 && host->cpu_milli > 0)
		usable = fed_by(cpu_left, host->cpu_milli, host->gpus, usable);
	if (usable > 0 && host->memory_mib > 0)
		usable = fed_by(memory_left, host->memory_mib, host->gpus, usable);
	return usable;
}

/*
 * How many fed free devices fewer the pool has once gpus of the request's count
 * devices are on this host.
 */
int32_t
DecideFitLoss(const Host *host, const DecideRequestClass *request,
			  int32_t gpus,
			  int32_t count)
{
	int64_t		cpu = request->cpu_milli;
	int64_t		memory = request->memory_mib;

	DecideAssert(gpus >= 0 && gpus <= count);
	DecideAssert(gpus <= host->n_free);
	if (count > 0)
	{
		cpu = DecideFitSplit(cpu, gpus, count);
		memory = DecideFitSplit(memory, gpus, count);
	}
	return host->n_usable - DecideFitUsable(host, host->n_free - gpus,
											host->cpu_left - cpu,
											host->memory_left - memory);
}

/*
 * The MiB of a device of a type that a request's share has as its floor; 0: none,
 * or the request is for whole devices.  Of a type that is named more than once the
 * least floor counts.
 */
int64_t
DecideShareFloor(const DecideRequestClass *request, int32_t type)
{
	int64_t		floor = INT64_MAX;
	int32_t		i;

	for (i = 0; i < request->n_offers && request->share < DECIDE_WHOLE; i++)
	{
		int64_t		asked = DecideFitFloor(&request->offers[i]);

		if (request->offers[i].type == type && asked < floor)
			floor = asked;
	}
	return floor == INT64_MAX ? 0 : floor;
}

/*
 * The MiB that a share takes of a device of so much memory: its floor; without
 * one the same part of the memory as of the device.  A whole device is taken
 * as such: 0.
 */
int64_t
DecideShareMemory(int64_t gpu_memory_mib, int32_t share, int64_t floor)
{
	if (share == DECIDE_WHOLE || floor > 0)
		return share == DECIDE_WHOLE ? 0 : floor;
	return (int64_t) ((unsigned __int128) gpu_memory_mib *
					  (unsigned __int128) share / DECIDE_WHOLE);
}

/*
 * The MiB of its device that a start of a request takes on a host.
 */
int64_t
DecideShareTakes(const Host *host, const DecideRequestClass *request)
{
	DecideAssert(host != NULL && request != NULL);
	DecideAssert(request->share > 0 && request->share <= DECIDE_WHOLE);
	return DecideShareMemory(host->gpu_memory_mib, request->share,
							 DecideShareFloor(request, host->type));
}

/*
 * The device that a share should use: shared with the least left that fits,
 * else the lowest free one, else -1.
 */
int32_t
DecideShareDevice(const Host *host, const DecideRequestClass *request)
{
	int64_t		memory = DecideShareTakes(host, request);
	uint64_t	rest;
	int32_t		found = -1;

	DecideAssert(request->share > 0 && request->share < DECIDE_WHOLE);
	DecideAssert(host->gpus <= DECIDE_MAX_DEVICES);
	for (rest = host->partial; rest != 0; rest &= rest - 1)
	{
		int32_t		i = __builtin_ctzll(rest);

		if ((found < 0 || host->left[i] < host->left[found]) &&
			DecideShareFits(host, i, request->share, memory))
			found = i;
	}
	for (rest = host->free; rest != 0 && found < 0; rest &= rest - 1)
	{
		int32_t		i = __builtin_ctzll(rest);

		if (DecideShareFits(host, i, request->share, memory))
			found = i;
	}
	return found;
}

/*
 * Can a host take all of a request, with count devices?
 */
bool
DecideFitTakes(const Host *host, const DecideRequestClass *request,
			   const DecideOffer *offer, int32_t count)
{
	DecideAssert(count >= 0);
	DecideAssert(request->share == DECIDE_WHOLE || count == 1);
	if (!DecideFitAllowed(host, request, offer) ||
		!has_left(host, request->cpu_milli, request->memory_mib))
		return false;
	return request->share < DECIDE_WHOLE ?
		DecideShareDevice(host, request) >= 0 : host->n_free >= count;
}
