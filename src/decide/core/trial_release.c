/*
 * trial_release.c
 *	  Releases devices on trial, and sets aside what is promised to a job.
 *
 * To find where a job could start after other jobs have left, the caller
 * returns their devices, cpu and memory to the hosts, places the job, and then
 * undoes the release exactly.  Scores that are kept for hosts need not be
 * computed again for that.  A promise does change the hosts: what its leaving
 * jobs do not return is subtracted from what is free.
 */
#include "decide/core/fit.h"

/*
 * Sets the thousandths that are free of a device.
 */
static void
device_set(Host *host, int32_t device, uint16_t left)
{
	uint64_t	bit = UINT64_C(1) << device;

	host->n_free -= (host->free & bit) != 0;
	host->free &= ~bit;
	host->partial &= ~bit;
	host->left[device] = left;
	if (left == DECIDE_WHOLE)
	{
		host->free |= bit;
		host->n_free++;
	}
	else if (left > 0)
		host->partial |= bit;
}

/*
 * Releases what a part of a job uses on a host, except the devices of keep;
 * with give false it undoes this.  Broken devices are not released, nor are
 * devices that are reserved too early for the job whose turn it is.
 */
void
DecideHostRelease(Cycle *cycle, int32_t index, const DecidePart *part,
				  uint64_t keep, int32_t share, bool give)
{
	Host	   *host = &cycle->hosts[index];
	uint64_t	rest;

	DecideAssert(index >= 0 && index < cycle->n_hosts);
	DecideAssert(share > 0 && share <= DECIDE_WHOLE);
	keep |= DecideAvailabilityReserved(cycle, index);
	for (rest = part->devices & host->usable & ~keep; rest != 0;
		 rest &= rest - 1)
	{
		int32_t		i = __builtin_ctzll(rest);

		device_set(host, i, (uint16_t)
				   (give ? host->left[i] + share : host->left[i] - share));
		host->gpu_memory_used[i] += give ? -part->gpu_memory_mib :
			part->gpu_memory_mib;
	}
	DecideHostAddCapacity(host, host->cpu_milli == 0 ? 0 :
						  give ? part->cpu_milli : -part->cpu_milli,
						  host->memory_mib == 0 ? 0 :
						  give ? part->memory_mib : -part->memory_mib);
	host->n_usable = DecideFitUsable(host, host->n_free, host->cpu_left,
									 host->memory_left);
}

/*
 * Whether a host has all of a part free now.
 */
bool
DecideHostHas(const Host *host, const DecidePart *part, int32_t share)
{
	uint64_t	rest;

	DecideAssert(host != NULL && part != NULL);
	DecideAssert(share > 0 && share <= DECIDE_WHOLE);
	if (!host->open || (part->devices & ~host->usable) != 0 ||
		(host->cpu_milli > 0 && part->cpu_milli > host->cpu_left) ||
		(host->memory_mib > 0 && part->memory_mib > host->memory_left))
		return false;
	for (rest = part->devices; rest != 0; rest &= rest - 1)
	{
		if (!DecideShareFits(host, __builtin_ctzll(rest), share,
							 part->gpu_memory_mib))
			return false;
	}
	return true;
}

/*
 * Subtracts amount from left, but not below 0.
 */
static int64_t
less(int64_t left, int64_t amount)
{
	if (amount <= 0 || left <= 0)
		return left;
	return left > amount ? left - amount : 0;
}

/*
 * Subtracts what is promised to a job from what is free on a host.  leaving is
 * what other jobs will return for the promise; NULL if they return nothing or
 * that is not known.
 */
void
DecideHostPromise(Cycle *cycle, int32_t index, const DecidePart *part,
				  int32_t share, const Leaving *leaving)
{
	static const Leaving nothing_leaves;
	Host	   *host = DecideHostTruth(cycle, index);
	DecidePart	nothing = {0};
	uint64_t	rest;

	DecideAssert(index >= 0 && index < cycle->n_hosts);
	DecideAssert(share > 0 && share <= DECIDE_WHOLE);
	if (leaving == NULL)
		leaving = &nothing_leaves;
	for (rest = part->devices & host->usable; rest != 0; rest &= rest - 1)
	{
		int32_t		i = __builtin_ctzll(rest);
		int64_t		memory = host->gpu_memory_mib - host->gpu_memory_used[i];

		device_set(host, i, (uint16_t) less(host->left[i],
											share - leaving->devices[i]));
		host->gpu_memory_used[i] += memory -
			less(memory, part->gpu_memory_mib - leaving->gpu_memory[i]);
	}
	if (host->cpu_milli > 0)
		host->cpu_left = less(host->cpu_left,
							  part->cpu_milli - leaving->cpu_milli);
	if (host->memory_mib > 0)
		host->memory_left = less(host->memory_left,
								 part->memory_mib - leaving->memory_mib);
	DecideHostAllocate(cycle, index, &nothing, 0);
}
