/*
 * fit.h
 *	  How much of a request one host has room for.
 */
#ifndef DECIDE_FIT_H
#define DECIDE_FIT_H

#include "decide/core/core.h"

extern int32_t DecideFitCapacity(const Host *host, int64_t cpu_milli,
								 int64_t memory_mib, int32_t count);
extern int32_t DecideFitUsable(const Host *host, int32_t n_free,
							   int64_t cpu_left, int64_t memory_left);
extern int32_t DecideFitLoss(const Host *host,
							 const DecideRequestClass *request,
							 int32_t gpus, int32_t count);
extern int32_t DecideShareDevice(const Host *host,
								 const DecideRequestClass *request);

/*
 * Whether a request may use a host at all, with devices of this offer.  A
 * CPU-only request has no offer (NULL).
 */
static inline bool
DecideFitAllowed(const Host *host, const DecideRequestClass *request,
				 const DecideOffer *offer)
{
	DecideAssert(host != NULL && request != NULL);
	DecideAssert(offer != NULL || request->min_gpus == 0);
	if (!host->open || (host->spot && !request->spot_ok) ||
		!DecideFilterAllows(request, host->node))
		return false;
	return offer == NULL ||
		(host->type == offer->type && DecideFitMemory(host, offer));
}

/*
 * The number of a host's devices that a request can use, if so many would be
 * free there: all of them, or exactly as many as it wants on each node.
 */
static inline int32_t
DecideFitPerNode(const DecideRequestClass *request, int32_t devices)
{
	if (request->per_node == 0)
		return devices;
	return devices >= request->per_node ? request->per_node : 0;
}

/*
 * Whether a host has this much cpu and memory free.
 */
static inline bool
DecideFitResources(const Host *host, int64_t cpu_milli, int64_t memory_mib)
{
	return (host->cpu_milli == 0 || host->cpu_left >= cpu_milli) &&
		(host->memory_mib == 0 || host->memory_left >= memory_mib);
}

/*
 * The MiB of device memory that a request's share uses on a host.
 */
static inline int64_t
DecideShareUse(const Host *host, const DecideRequestClass *request)
{
	DecideAssert(host != NULL && request != NULL);
	DecideAssert(request->share > 0 && request->share <= DECIDE_WHOLE);
	return DecideShareMemory(host->gpu_memory_mib, request->share,
							 DecideShareFloor(request, host->type));
}

/*
 * The number of devices that a host can give to a gang of count devices.
 */
static inline int32_t
DecideFitGang(const Host *host, const DecideRequestClass *request,
			  int32_t count)
{
	int32_t		capacity = DecideFitCapacity(host, request->cpu_milli,
											 request->memory_mib, count);

	return DecideFitPerNode(request, capacity);
}

/*
 * Whether one host has room for a whole request with count devices.
 */
static inline bool
DecideFitRequest(const Host *host, const DecideRequestClass *request,
				 const DecideOffer *offer, int32_t count)
{
	DecideAssert(count >= 0);
	DecideAssert(request->share == DECIDE_WHOLE || count == 1);
	if (!DecideFitAllowed(host, request, offer) ||
		(request->per_node > 0 && request->per_node != count) ||
		!DecideFitResources(host, request->cpu_milli, request->memory_mib))
		return false;
	return request->share < DECIDE_WHOLE ?
		DecideShareDevice(host, request) >= 0 : host->n_free >= count;
}

/*
 * Computes the members of a host that follow from left, what is free of each
 * device.
 */
static inline void
DecideHostDerive(Host *host)
{
	int			i;

	DecideAssert(host->gpus >= 0 && host->gpus <= DECIDE_MAX_DEVICES);
	DecideAssert(host->cpu_left >= 0 || host->cpu_milli == 0);
	host->free = host->partial = 0;
	host->n_free = 0;
	for (i = 0; i < host->gpus; i++)
	{
		if (host->left[i] == DECIDE_WHOLE)
		{
			host->free |= UINT64_C(1) << i;
			host->n_free++;
		}
		else if (host->left[i] > 0)
			host->partial |= UINT64_C(1) << i;
	}
	host->n_usable = DecideFitUsable(host, host->n_free, host->cpu_left,
									 host->memory_left);
}

#endif							/* DECIDE_FIT_H */
