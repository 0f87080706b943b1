/*
 * fit.c
 *	  How much of a request one host has room for, and what a placement costs
 *	  the pool.
 *
 * A job's cpu and memory are split over its hosts by ceil(total * devices here
 * / devices in all).  A host with L free then has room for at most floor(L *
 * all / total) devices, and for any smaller number: ceil(y) <= L exactly when
 * y <= L.
 *
 * A free device is usable while its host has the device's part of cpu and
 * memory free.  Of F free devices on a host of G, min(F, floor(cpu left * G /
 * cpu), the same for memory) are usable.  A placement costs the pool the
 * usable devices that it uses or strands.  So placements of the same size are
 * compared by the devices that they strand, and using devices that are
 * stranded already costs little.
 *
 * A share also uses memory of its device; the shares that are placed on a
 * device never use more memory than it has.
 *
 * All products are exact: they are computed in 128 bits where 64 bits could
 * overflow.
 */
#include "decide/core/fit.h"

typedef unsigned __int128 Wide;

/*
 * The number of devices, at most limit, for which left suffices if count
 * devices need total.
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
 * The largest number of devices, at most count, that fit on a host as it is.
 * cpu_milli and memory_mib are for the whole job with count devices.
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
 * The number of devices, at most limit, for which left suffices if all gpus of
 * the host share the capacity equally.
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
 * How many of n_free free devices are usable if this much cpu and memory is
 * free.
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
 * How many usable devices the pool loses if gpus of a job's count devices are
 * placed on this host.
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
 * Returns the memory floor in MiB of a request's share on a device of a type;
 * 0 if there is no floor or the request is for whole devices.  If several
 * offers name the type, the lowest floor counts.
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
 * Returns the MiB that a share uses of a device with gpu_memory_mib of memory:
 * its floor, or without a floor the same part of the memory as of the device;
 * 0 for whole devices.
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
 * Returns the device on which a share is placed: among the shared devices with
 * enough room the one with the least left, otherwise the lowest free device,
 * or -1 if none has room.
 */
int32_t
DecideShareDevice(const Host *host, const DecideRequestClass *request)
{
	int64_t		memory = DecideShareUse(host, request);
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
