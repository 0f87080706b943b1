/*
 * start.c
 *	  Places a job, now or at a reservation's time: chooses hosts and devices
 *	  and adds the start or the reservation to the result.
 */
#include <string.h>

#include "decide/place/place.h"

/*
 * Compares two entries of a plan by host.
 */
static int
compare_host(const void *context, int32_t a, int32_t b)
{
	const int32_t *hosts = context;

	return hosts[a] < hosts[b] ? -1 : hosts[a] > hosts[b];
}

/*
 * The lowest n devices of a mask.
 */
static uint64_t
lowest_devices(uint64_t devices, int32_t n)
{
	uint64_t	rest = devices;
	int32_t		i;

	for (i = 0; i < n; i++)
		rest &= rest - 1;
	return devices & ~rest;
}

/*
 * Fills in one host's part of a job: its devices, cpu and memory.
 */
static void
start_part(const Cycle *cycle, const DecideRequestClass *request,
		   int32_t host,
		   int32_t gpus, int32_t count, DecidePart *part)
{
	const Host *h = &cycle->hosts[host];

	part->node = h->node;
	part->gpus = gpus;
	part->cpu_milli = request->cpu_milli;
	part->memory_mib = request->memory_mib;
	if (count > 0)
	{
		part->cpu_milli = DecideFitSplit(request->cpu_milli, gpus, count);
		part->memory_mib = DecideFitSplit(request->memory_mib, gpus, count);
	}
	if (request->share < DECIDE_WHOLE)
		part->devices = UINT64_C(1) << DecideShareChoose(cycle, h, request);
	else
		part->devices = lowest_devices(h->free, gpus);
	part->gpu_memory_mib = DecideShareUse(h, request);
}

/*
 * Sorts a plan by host.  Returns false if memory runs out.
 */
static bool
plan_sort(Cycle *cycle, Plan *plan)
{
	int32_t    *order;
	int32_t    *copy;
	int32_t		i;

	if (plan->n < 2)
		return true;
	order = DecideAlloc(cycle->arena, plan->n, sizeof(int32_t));
	copy = DecideAlloc(cycle->arena, (int64_t) plan->n * 2, sizeof(int32_t));
	if (order == NULL || copy == NULL)
		return false;
	for (i = 0; i < plan->n; i++)
		order[i] = i;
	if (!DecideSort(cycle->arena, order, plan->n, compare_host, plan->hosts))
		return false;
	for (i = 0; i < plan->n; i++)
	{
		copy[i] = plan->hosts[order[i]];
		copy[plan->n + i] = plan->gpus[order[i]];
	}
	memcpy(plan->hosts, copy, (size_t) plan->n * sizeof(int32_t));
	memcpy(plan->gpus, copy + plan->n, (size_t) plan->n * sizeof(int32_t));
	return true;
}

/*
 * Makes the parts of a job of count devices on a plan's hosts as they are now.
 * Sorts the plan by host, and makes the parts in the same order.  Returns
 * false if memory runs out.
 */
bool
DecideStartParts(Cycle *cycle, const DecideRequestClass *request,
				 int32_t count, Plan *plan, DecidePart *parts)
{
	int32_t		i;

	DecideAssert(plan->n > 0);
	DecideAssert(count >= 0);
	if (!plan_sort(cycle, plan))
		return false;
	for (i = 0; i < plan->n; i++)
		start_part(cycle, request, plan->hosts[i], plan->gpus[i], count,
				   &parts[i]);
	return true;
}

/*
 * Starts a job as planned, or makes a reservation for it.  Returns false if
 * memory runs out.
 */
static bool
start_add(Cycle *cycle, int32_t job, const DecideOffer *offer,
		  int32_t count, Plan *plan)
{
	const DecideRequestClass *request = &cycle->input->requests[cycle->input->jobs[job].request];
	DecidePart	one = {0};
	DecidePart *parts = plan->n == 1 ? &one :
		DecideAlloc(cycle->arena, plan->n, sizeof(DecidePart));

	if (parts == NULL ||
		!DecideStartParts(cycle, request, count, plan, parts))
		return false;
	return DecideStartOn(cycle, job, offer != NULL ? offer->type :
						 DECIDE_NO_TYPE, count, plan->hosts, parts, plan->n);
}

/*
 * Starts a job on one host.
 */
static PlaceOutcome
start_on_host(Cycle *cycle, int32_t job, const DecideOffer *offer,
			  int32_t count, int32_t host)
{
	Plan	   *plan = &cycle->single;

	plan->hosts[0] = host;
	plan->gpus[0] = count;
	plan->n = 1;
	return start_add(cycle, job, offer, count, plan) ?
		OUTCOME_STARTED : OUTCOME_OUT_OF_MEMORY;
}

/*
 * Returns the one of the competing offers that is for a host's type.
 */
static const DecideOffer *
offer_of_host(const Cycle *cycle, const DecideOffer *offers, int32_t host)
{
	if (offers != NULL)
	{
		while (offers->type != cycle->hosts[host].type)
			offers++;
	}
	return offers;
}

/*
 * Starts a job on several hosts, if the topology allows it.
 */
static PlaceOutcome
start_over_several(Cycle *cycle, int32_t job,
				   const DecideRequestClass *request,
				   const DecideOffer *offer, int32_t count)
{
	int32_t		cache = cycle->input->jobs[job].cache;
	Plan	   *plan;

	if (count < 2 || request->topology == DECIDE_TOPOLOGY_NODE)
		return OUTCOME_NO_FIT;
	if (!DecideGangPrepare(cycle))
		return OUTCOME_OUT_OF_MEMORY;
	DecideCachedMark(cycle, cache, true);
	plan = DecideGangFind(cycle, request, offer, count);
	DecideCachedMark(cycle, cache, false);
	if (plan == NULL)
		return OUTCOME_NO_FIT;
	return start_add(cycle, job, offer, count, plan) ?
		OUTCOME_STARTED : OUTCOME_OUT_OF_MEMORY;
}

/*
 * Starts a job of fixed size with competing offers: on one host if any has
 * room, otherwise on several hosts with the first offer that fits.
 */
static PlaceOutcome
start_fixed(Cycle *cycle, RequestState *state, int32_t job,
			const DecideRequestClass *request,
			const DecideOffer *offers, int32_t n_offers)
{
	PlaceOutcome outcome = OUTCOME_NO_FIT;
	int32_t		host;
	int32_t		i;

	if (!DecideSingleFind(cycle, state, request, offers, n_offers,
						  cycle->input->jobs[job].cache, &host))
		return OUTCOME_OUT_OF_MEMORY;
	if (host >= 0)
		return start_on_host(cycle, job, offer_of_host(cycle, offers, host),
							 request->min_gpus, host);
	for (i = 0; i < n_offers && outcome == OUTCOME_NO_FIT; i++)
		outcome = start_over_several(cycle, job, request, &offers[i],
									 request->min_gpus);
	return outcome;
}

/*
 * Starts an elastic job with as many devices of its range as fit now.
 */
static PlaceOutcome
start_range(Cycle *cycle, int32_t job, const DecideRequestClass *request,
			const DecideOffer *offer)
{
	DecideRequestClass most = *request;
	int32_t		count;
	int32_t		host;

	if (!DecideHostsGroup(cycle))
		return OUTCOME_OUT_OF_MEMORY;
	most.max_gpus = DecideQuotaFilterMost(cycle, request, offer);
	count = DecideRangeLargest(cycle, &most, offer);
	if (count == 0)
		return OUTCOME_NO_FIT;
	host = DecideSingleScan(cycle, request, offer, count,
							cycle->input->jobs[job].cache);
	return host < 0 ? start_over_several(cycle, job, request, offer, count) :
		start_on_host(cycle, job, offer, count, host);
}

/*
 * Starts a job, or makes a reservation for it, with competing offers, or with
 * one offer if the job is elastic.  offers is NULL for a job without GPUs.
 */
PlaceOutcome
DecideTryOffers(Cycle *cycle, RequestState *state, int32_t job,
				const DecideRequestClass *request,
				const DecideOffer *offers, int32_t n_offers)
{
	PlaceOutcome outcome;

	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	DecideAssert(n_offers > 0);
	DecideAssert(offers != NULL || request->max_gpus == 0);
	outcome = DecidePreviousTry(cycle, job, request, offers, n_offers);
	if (outcome != OUTCOME_NO_FIT)
		return outcome;
	return request->max_gpus == request->min_gpus ?
		start_fixed(cycle, state, job, request, offers, n_offers) :
		start_range(cycle, job, request, offers);
}

/*
 * Prepares placement for a cycle, before DecideHostsGroup replaces the labels
 * of domains and leaves.  Returns false if memory runs out.
 */
bool
DecidePlacePrepare(Cycle *cycle)
{
	DecideAssert(cycle->previous == NULL);
	return DecideSinglePrepare(cycle) && DecidePreviousPrepare(cycle);
}
