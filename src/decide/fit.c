/*
 * fit.c
 *	  What one host can take of an ask, and how well the two suit each other:
 *	  here by the policy pack, by the others in spread.c and fgd.c.
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
 * All products are exact: 128 bits where 64 could overflow.
 */
#include "decide/core.h"

typedef unsigned __int128 Wide;

/*
 * May this ask be on this host at all, with devices of this offer?  A CPU-only
 * ask has no offer.
 */
bool
DecideFitAllowed(const Host *host, const DecideAsk *ask,
				 const DecideOffer *offer)
{
	if (!host->open || (host->spot && !ask->spot_ok))
		return false;
	return offer == NULL ||
		(host->type == offer->type && DecideFitMemory(host, offer));
}

/*
 * The memory of a device that an offer asks for, in MiB.  Rounding it up
 * changes nothing, as hosts have whole MiB.
 */
int64_t
DecideFitFloor(const DecideOffer *offer)
{
	return offer->min_memory / (1 << 20) +
		(offer->min_memory % (1 << 20) != 0);
}

/*
 * Thousandths of devices that a host has left.
 */
int64_t
DecideFitLeft(const Host *host)
{
	int64_t		left = (int64_t) host->n_free * DECIDE_WHOLE;
	uint64_t	rest;

	for (rest = host->partial; rest != 0; rest &= rest - 1)
		left += host->left[__builtin_ctzll(rest)];
	return left;
}

/*
 * Do the host's devices have the memory that an offer asks for?
 */
bool
DecideFitMemory(const Host *host, const DecideOffer *offer)
{
	return host->gpu_memory_mib >= DecideFitFloor(offer);
}

/*
 * The part of a total that belongs to some of a job's devices, rounded up.
 */
int64_t
DecideFitSplit(int64_t total, int32_t gpus, int32_t count)
{
	if (total == 0 || gpus == count)
		return total;
	return (int64_t) (((Wide) total * (Wide) gpus + (Wide) count - 1) /
					  (Wide) count);
}

/*
 * Of at most limit devices, how many can left feed when all of count need
 * total?
 */
static int32_t
room_for(int64_t total, int64_t left, int32_t count, int32_t limit)
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
DecideFitRoom(const Host *host, int64_t cpu_milli, int64_t memory_mib,
			  int32_t count)
{
	int32_t		room = host->n_free < count ? host->n_free : count;

	if (host->cpu_milli > 0 && cpu_milli > 0)
		room = room_for(cpu_milli, host->cpu_left, count, room);
	if (host->memory_mib > 0 && memory_mib > 0)
		room = room_for(memory_mib, host->memory_left, count, room);
	return room;
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
	uint64_t	fed;

	if (left < 0)
		return 0;
	if (left <= INT64_MAX / DECIDE_MAX_DEVICES)
		fed = (uint64_t) left * (uint64_t) gpus / (uint64_t) capacity;
	else
	{
		Wide		wide = (Wide) left * (Wide) gpus / (Wide) capacity;

		fed = wide > (Wide) limit ? (uint64_t) limit : (uint64_t) wide;
	}
	return fed < (uint64_t) limit ? (int32_t) fed : limit;
}

/*
 * How many of n_free free devices the host feeds with so much left.
 */
int32_t
DecideFitFed(const Host *host, int32_t n_free, int64_t cpu_left,
			 int64_t memory_left)
{
	int32_t		fed = n_free;

	if (fed > 0 && host->cpu_milli > 0)
		fed = fed_by(cpu_left, host->cpu_milli, host->gpus, fed);
	if (fed > 0 && host->memory_mib > 0)
		fed = fed_by(memory_left, host->memory_mib, host->gpus, fed);
	return fed;
}

/*
 * How many fed free devices fewer the pool has once gpus of the ask's count
 * devices are on this host.
 */
int32_t
DecideFitLoss(const Host *host, const DecideAsk *ask, int32_t gpus,
			  int32_t count)
{
	int64_t		cpu = ask->cpu_milli;
	int64_t		memory = ask->memory_mib;

	if (count > 0)
	{
		cpu = DecideFitSplit(cpu, gpus, count);
		memory = DecideFitSplit(memory, gpus, count);
	}
	return host->n_fed - DecideFitFed(host, host->n_free - gpus,
									  host->cpu_left - cpu,
									  host->memory_left - memory);
}

/*
 * How well a host suits a part of a gang by the pool's policy, the lower the
 * better: -32768 to 32767.
 */
int64_t
DecideFitPart(const Cycle *cycle, const Host *host, const DecideAsk *ask,
			  int32_t gpus, int32_t count)
{
	int64_t		steps;

	if (cycle->mix != NULL)
	{
		steps = DecideFgdSteps(cycle, host, ask, gpus, count);
		return steps < INT16_MIN ? INT16_MIN :
			steps > INT16_MAX ? INT16_MAX : steps;
	}
	if (cycle->input->policy.packing == DECIDE_PACKING_SPREAD)
		return gpus - host->n_free;
	return (int64_t) DecideFitLoss(host, ask, gpus, count) << 8 |
		(int64_t) (host->n_free - gpus);
}

/*
 * How well a host that can take them suits whole devices, or none, by the
 * policy pack.  Whole devices: loss, then fewest free devices left.  None:
 * loss, then fewest free devices, then least cpu left (a host without limit
 * has the most).
 */
static FitKey
pack_key(const Host *host, const DecideAsk *ask, int32_t count)
{
	uint64_t	loss = (uint64_t) DecideFitLoss(host, ask, count, count);
	FitKey		key;

	key.high = loss << 8 | (uint64_t) (host->n_free - count);
	key.low = 0;
	if (count == 0)
		key.low = host->cpu_milli > 0 ?
			(uint64_t) (host->cpu_left - ask->cpu_milli) : INT64_MAX;
	return key;
}

/*
 * Can a host take all of an ask, with count devices?
 */
bool
DecideFitTakes(const Host *host, const DecideAsk *ask,
			   const DecideOffer *offer, int32_t count)
{
	if (!DecideFitAllowed(host, ask, offer) ||
		!has_left(host, ask->cpu_milli, ask->memory_mib))
		return false;
	return ask->share < DECIDE_WHOLE ?
		DecideShareDevice(host, ask->share) >= 0 : host->n_free >= count;
}

/*
 * How well a host suits an ask by the pool's policy, all of count devices on
 * it; FIT_NONE when it cannot take them.
 */
FitKey
DecideFitKey(const Cycle *cycle, const Host *host, const DecideAsk *ask,
			 const DecideOffer *offer, int32_t count)
{
	if (!DecideFitTakes(host, ask, offer, count))
		return FIT_NONE;
	if (ask->share < DECIDE_WHOLE)
		return DecideShareKey(cycle, host, ask);
	if (cycle->mix != NULL)
		return DecideFgdKey(cycle, host, ask, count);
	if (cycle->input->policy.packing == DECIDE_PACKING_SPREAD)
		return DecideSpreadKey(host, ask, count);
	return pack_key(host, ask, count);
}

/*
 * Is one key better than the other?
 */
bool
DecideFitLess(FitKey a, FitKey b)
{
	if (a.high != b.high)
		return a.high < b.high;
	return a.low < b.low;
}
