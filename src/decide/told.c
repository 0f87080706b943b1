/*
 * told.c
 *	  What the cycle before reserved is reserved again.
 *
 * Every cycle reserves anew, and placement might find other devices as good at
 * the same time: then who was reserved the ones it takes would have to wait for
 * others.  So a job whose last reservation can be had as early as any is given
 * just that, and starts on just that once all of it is free.  As nothing let
 * in behind a reservation is in its way, no reservation moves later but by what
 * ends later than expected, by who comes before it in the queue, and by who
 * starts earlier than he was to.
 */
#include <string.h>

#include "decide/claim.h"

/*
 * Find the reservations of the cycle before by their jobs.  False: out of
 * memory.
 */
bool
DecideToldPrepare(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	int32_t		i;

	if (input->n_told == 0)
		return true;
	cycle->told = DecideAlloc(cycle->arena, input->n_jobs,
							  sizeof(DecideTold *));
	cycle->told_host = DecideAlloc(cycle->arena, cycle->n_hosts,
								   sizeof(int32_t));
	if (cycle->told == NULL || cycle->told_host == NULL)
		return false;
	memset(cycle->told, 0, (size_t) input->n_jobs * sizeof(DecideTold *));
	for (i = 0; i < cycle->n_hosts; i++)
		cycle->told_host[cycle->hosts[i].node] = i;
	for (i = 0; i < input->n_told; i++)
		cycle->told[input->told[i].job] = &input->told[i];
	return DecideHostsGroup(cycle);
}

/*
 * Is this one of the offers tried?
 */
static const DecideOffer *
offer_told(const DecideTold *told, const DecideOffer *offers,
		   int32_t n_offers)
{
	int32_t		i;

	for (i = 0; i < n_offers; i++)
	{
		if (offers[i].type == told->type)
			return &offers[i];
	}
	return NULL;
}

/*
 * Can the job have a part on its host as things are there?
 */
static bool
part_suits(const Cycle *cycle, const DecideAsk *ask,
		   const DecideOffer *offer, const DecidePart *part,
		   const Host *first)
{
	const Host *host = &cycle->hosts[cycle->told_host[part->node]];

	return DecideFitAllowed(host, ask, offer) &&
		DecideHostHas(host, part, ask->share) &&
		(host == first || (ask->topology != DECIDE_TOPOLOGY_NODE &&
						   (ask->topology != DECIDE_TOPOLOGY_NVLINK ||
							host->domain == first->domain) &&
						   (ask->topology != DECIDE_TOPOLOGY_LEAF ||
							host->leaf == first->leaf)));
}

/*
 * Start a job on the devices that it was last told of, or reserve these again,
 * if one of these offers (NULL: without GPUs) is what they were and they can be
 * had.  A job of a range gets what there is instead.
 */
Outcome
DecideToldTry(Cycle *cycle, int32_t job, const DecideAsk *ask,
			  const DecideOffer *offers, int32_t n_offers)
{
	const DecideTold *told = cycle->told == NULL ? NULL : cycle->told[job];
	const DecideOffer *offer = NULL;
	const Host *first;
	DecidePart *parts;
	int32_t    *hosts;
	int32_t		i;

	if (told == NULL || told->gpus != ask->min_gpus ||
		ask->min_gpus != ask->max_gpus)
		return OUTCOME_NO_FIT;
	if (offers != NULL)
		offer = offer_told(told, offers, n_offers);
	if ((offer == NULL) != (ask->max_gpus == 0))
		return OUTCOME_NO_FIT;
	parts = DecideAlloc(cycle->arena, told->n_parts, sizeof(DecidePart));
	hosts = DecideAlloc(cycle->arena, told->n_parts, sizeof(int32_t));
	if (parts == NULL || hosts == NULL)
		return OUTCOME_OUT_OF_MEMORY;
	first = &cycle->hosts[cycle->told_host
						  [cycle->input->told_parts[told->first_part].node]];
	for (i = 0; i < told->n_parts; i++)
	{
		const DecidePart *was = &cycle->input->told_parts
			[told->first_part + i];

		parts[i] = *was;
		hosts[i] = cycle->told_host[was->node];
		parts[i].cpu_milli = told->gpus == 0 ? ask->cpu_milli :
			DecideFitSplit(ask->cpu_milli, was->gpus, told->gpus);
		parts[i].memory_mib = told->gpus == 0 ? ask->memory_mib :
			DecideFitSplit(ask->memory_mib, was->gpus, told->gpus);
		if (!part_suits(cycle, ask, offer, &parts[i], first) ||
			(i > 0 && hosts[i] <= hosts[i - 1]))
			return OUTCOME_NO_FIT;
	}
	return DecideStartOn(cycle, job, told->type, told->gpus, hosts, parts,
						 told->n_parts) ?
		OUTCOME_STARTED : OUTCOME_OUT_OF_MEMORY;
}
