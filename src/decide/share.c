/*
 * share.c
 *	  A share of one device: which device of a host, and how well it suits.
 *
 * By the policy pack a share goes onto the device already shared that has the least left of those
 * it fits on.  Only when there is none, a free device is broken: rather on a
 * host that has fragments already, then where the fewest free devices remain.
 * Both come after what the placement costs the pool in fed free devices, which
 * a share on a shared device normally does not touch.
 *
 * A share takes memory of its device, too: the floors of those on a device
 * never pass what it has.
 */
#include "decide/core.h"

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
	return DecideShareMemory(host->gpu_memory_mib, request->share,
							 DecideShareFloor(request, host->type));
}

/*
 * Does a share that takes so much memory fit on a device?
 */
bool
DecideShareFits(const Host *host, int32_t device, int32_t share,
				int64_t memory)
{
	return host->left[device] >= share &&
		memory <= host->gpu_memory_mib - host->gpu_memory_used[device];
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
 * How well a host that has its cpu and memory suits a share by the policy
 * pack: loss, then what the device has left, then whether the host is broken
 * into already, then fewest free devices left.
 */
static FitKey
pack_key(const Host *host, const DecideRequestClass *request)
{
	int32_t		device = DecideShareDevice(host, request);
	int32_t		breaks;
	FitKey		key;
	uint64_t	loss;

	if (device < 0)
		return FIT_NONE;
	breaks = (int32_t) ((host->free >> device) & 1);
	loss = (uint64_t) (host->n_usable -
					   DecideFitUsable(host, host->n_free - breaks,
									   host->cpu_left - request->cpu_milli,
									   host->memory_left - request->memory_mib));
	key.high = loss << 32 | (uint64_t) host->left[device] << 16 |
		(uint64_t) (host->partial == 0) << 8 |
		(uint64_t) (host->n_free - breaks);
	key.low = 0;
	return key;
}

/*
 * How well a host that may take the share and has its cpu and memory suits it,
 * by the pool's policy; FIT_NONE where no device has enough left.
 */
FitKey
DecideShareKey(const Cycle *cycle, const Host *host,
			   const DecideRequestClass *request)
{
	int32_t		device;

	if (cycle->mix != NULL)
		return DecideFgdShare(cycle, host, request, &device);
	if (cycle->input->policy.packing == DECIDE_PACKING_SPREAD)
		return DecideSpreadKey(host, request, 1);
	return pack_key(host, request);
}

/*
 * The device that a share goes onto by the pool's policy, or -1.
 */
int32_t
DecideShareChoose(const Cycle *cycle, const Host *host,
				  const DecideRequestClass *request)
{
	int32_t		device;

	if (cycle->mix != NULL)
	{
		(void) DecideFgdShare(cycle, host, request, &device);
		return device;
	}
	if (cycle->input->policy.packing == DECIDE_PACKING_SPREAD)
		return DecideSpreadDevice(host, request);
	return DecideShareDevice(host, request);
}
