/*
 * share.c
 *	  A share of one device: which device of a host, and how well it suits.
 *
 * By the policy pack a share goes onto the device already shared that has the least left of those
 * it fits on.  Only when there is none, a free device is broken: rather on a
 * host that has fragments already, then where the fewest free devices remain.
 * Both come after what the placement costs the pool in fed free devices, which
 * a share on a shared device normally does not touch.
 */
#include "decide/core.h"

/*
 * The device that a share should use: shared with the least left that fits,
 * else the lowest free one, else -1.
 */
int32_t
DecideShareDevice(const Host *host, int32_t share)
{
	uint64_t	rest;
	int32_t		found = -1;

	for (rest = host->partial; rest != 0; rest &= rest - 1)
	{
		int32_t		i = __builtin_ctzll(rest);

		if (host->left[i] >= share &&
			(found < 0 || host->left[i] < host->left[found]))
			found = i;
	}
	if (found < 0 && host->free != 0)
		found = __builtin_ctzll(host->free);
	return found;
}

/*
 * How well a host that has its cpu and memory suits a share by the policy
 * pack: loss, then what the device has left, then whether the host is broken
 * into already, then fewest free devices left.
 */
static FitKey
pack_key(const Host *host, const DecideAsk *ask)
{
	int32_t		device = DecideShareDevice(host, ask->share);
	int32_t		breaks;
	FitKey		key;
	uint64_t	loss;

	if (device < 0)
		return FIT_NONE;
	breaks = (int32_t) ((host->free >> device) & 1);
	loss = (uint64_t) (host->n_fed -
					   DecideFitFed(host, host->n_free - breaks,
									host->cpu_left - ask->cpu_milli,
									host->memory_left - ask->memory_mib));
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
DecideShareKey(const Cycle *cycle, const Host *host, const DecideAsk *ask)
{
	int32_t		device;

	if (cycle->mix != NULL)
		return DecideFgdShare(cycle, host, ask, &device);
	if (cycle->input->policy.packing == DECIDE_PACKING_SPREAD)
		return DecideSpreadKey(host, ask, 1);
	return pack_key(host, ask);
}

/*
 * The device that a share goes onto by the pool's policy, or -1.
 */
int32_t
DecideShareChoose(const Cycle *cycle, const Host *host, const DecideAsk *ask)
{
	int32_t		device;

	if (cycle->mix != NULL)
	{
		(void) DecideFgdShare(cycle, host, ask, &device);
		return device;
	}
	if (cycle->input->policy.packing == DECIDE_PACKING_SPREAD)
		return DecideSpreadDevice(host, ask->share);
	return DecideShareDevice(host, ask->share);
}
