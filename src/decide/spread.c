/*
 * spread.c
 *	  The packing policy spread: a job goes where the least is used.
 *
 * What is used is told in thousandths of what the host has, so that large and
 * small hosts fill alike.  Shares go onto the device with the most left.  Of
 * hosts used as much the one with the most left in all, then what it costs the
 * pool in fed free devices (fit.c).
 */
#include "decide/core.h"

/*
 * The device with the most left of those that a share fits on, a free one
 * first, the lowest of equals; -1: none.
 */
int32_t
DecideSpreadDevice(const Host *host, const DecideRequestClass *request)
{
	int64_t		memory = DecideShareTakes(host, request);
	uint64_t	rest;
	int32_t		found = -1;

	for (rest = host->free | host->partial; rest != 0; rest &= rest - 1)
	{
		int32_t		i = __builtin_ctzll(rest);

		if ((found < 0 || host->left[i] > host->left[found]) &&
			DecideShareFits(host, i, request->share, memory))
			found = i;
	}
	return found;
}

/*
 * Thousandths of so much that are used when so much is left.
 */
static uint64_t
used_of(int64_t capacity, int64_t left)
{
	return capacity == 0 ? 0 :
		1000 - (uint64_t) ((unsigned __int128) left * 1000 /
						   (unsigned __int128) capacity);
}

/*
 * How well a host that can take them suits count devices, a share of one, or
 * none: the part used of its devices afterwards, or of its cpu where none is
 * asked, then the most devices left, then loss.
 */
FitKey
DecideSpreadKey(const Host *host, const DecideRequestClass *request,
				int32_t count)
{
	int32_t		taken = count;
	int64_t		left = DecideFitLeft(host) - (int64_t) count * request->share;
	FitKey		key;

	if (request->share < DECIDE_WHOLE)
	{
		int32_t		device = DecideSpreadDevice(host, request);

		if (device < 0)
			return FIT_NONE;
		taken = (int32_t) ((host->free >> device) & 1);
	}
	key.high = count == 0 ?
		used_of(host->cpu_milli, host->cpu_left - request->cpu_milli) :
		used_of((int64_t) host->gpus * DECIDE_WHOLE, left);
	key.high = key.high << 32 |
		(uint64_t) (DECIDE_MAX_DEVICES * DECIDE_WHOLE - left);
	key.low = (uint64_t)
		(host->n_usable - DecideFitUsable(host, host->n_free - taken,
										  host->cpu_left - request->cpu_milli,
										  host->memory_left - request->memory_mib));
	return key;
}
