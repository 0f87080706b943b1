/*
 * previous.c
 *	  Makes the reservations of the previous cycle again.
 *
 * Every cycle makes all reservations again, and placement could find other
 * devices that are as good at the same time.  The job that had reserved those
 * devices would then have to wait for others.  So a job keeps its previous
 * reservation if no other place allows an earlier start, and starts on exactly
 * these devices once they are free.
 *
 * A job that was allowed to start behind a reservation never delays it.  So a
 * reservation moves to a later time only because running jobs end late,
 * because of jobs that come before it in the queue, and because of jobs that
 * start earlier than reserved.
 */
#include <string.h>

#include "decide/place/place.h"

/*
 * Finds the previous reservation of each job.  Returns false if memory runs
 * out.
 */
bool
DecidePreviousPrepare(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	int32_t		i;

	if (input->n_previous == 0)
		return true;
	cycle->previous = DecideAlloc(cycle->arena, input->n_jobs,
								  sizeof(DecidePreviousReservation *));
	cycle->previous_host = DecideAlloc(cycle->arena, cycle->n_hosts,
									   sizeof(int32_t));
	if (cycle->previous == NULL || cycle->previous_host == NULL)
		return false;
	memset(cycle->previous, 0,
		   (size_t) input->n_jobs * sizeof(DecidePreviousReservation *));
	for (i = 0; i < cycle->n_hosts; i++)
		cycle->previous_host[cycle->hosts[i].node] = i;
	for (i = 0; i < input->n_previous; i++)
		cycle->previous[input->previous[i].job] = &input->previous[i];
	return DecideHostsGroup(cycle);
}

/*
 * The one of these offers that the previous reservation used, or NULL.
 */
static const DecideOffer *
offer_reserved(const DecidePreviousReservation *previous,
			   const DecideOffer *offers,
			   int32_t n_offers)
{
	int32_t		i;

	for (i = 0; i < n_offers; i++)
	{
		if (offers[i].type == previous->type)
			return &offers[i];
	}
	return NULL;
}

/*
 * Whether a job can have a part on its host as the host is now.  first is the
 * host of the job's first part, for the topology.
 */
static bool
part_suits(const Cycle *cycle, const DecideRequestClass *request,
		   const DecideOffer *offer, const DecidePart *part,
		   const Host *first)
{
	const Host *host = &cycle->hosts[cycle->previous_host[part->node]];

	return DecideFitAllowed(host, request, offer) &&
		DecideHostHas(host, part, request->share) &&
		(host == first || (request->topology != DECIDE_TOPOLOGY_NODE &&
						   (request->topology != DECIDE_TOPOLOGY_NVLINK ||
							host->domain == first->domain) &&
						   (request->topology != DECIDE_TOPOLOGY_LEAF ||
							host->leaf == first->leaf)));
}

/*
 * Starts a job on the devices of its previous reservation, or reserves them
 * again, if they are free and one of these offers (NULL for a job without
 * GPUs) allows them.  Elastic jobs are placed anew instead, unless the
 * reservation is due.
 */
PlaceOutcome
DecidePreviousTry(Cycle *cycle, int32_t job, const DecideRequestClass *request,
				  const DecideOffer *offers, int32_t n_offers)
{
	const DecidePreviousReservation *previous = cycle->previous == NULL ?
		NULL : cycle->previous[job];
	const DecideOffer *offer = NULL;
	const Host *first;
	DecidePart *parts;
	int32_t    *hosts;
	int32_t		i;

	if (previous == NULL || previous->n_parts == 0 ||
		(!previous->due &&
		 (previous->gpus != request->min_gpus ||
		  request->min_gpus != request->max_gpus)))
		return OUTCOME_NO_FIT;
	if (offers != NULL)
		offer = offer_reserved(previous, offers, n_offers);
	if ((offer == NULL) != (request->max_gpus == 0) ||
		previous->gpus < request->min_gpus ||
		previous->gpus > (offer == NULL ? 0 :
						  DecideQuotaFilterMost(cycle, request, offer)))
		return OUTCOME_NO_FIT;
	parts = DecideAlloc(cycle->arena, previous->n_parts, sizeof(DecidePart));
	hosts = DecideAlloc(cycle->arena, previous->n_parts, sizeof(int32_t));
	if (parts == NULL || hosts == NULL)
		return OUTCOME_OUT_OF_MEMORY;
	first = &cycle->hosts[cycle->previous_host
						  [cycle->input->previous_parts[previous->first_part].node]];
	for (i = 0; i < previous->n_parts; i++)
	{
		const DecidePart *was = &cycle->input->previous_parts
			[previous->first_part + i];

		parts[i] = *was;
		hosts[i] = cycle->previous_host[was->node];
		parts[i].cpu_milli = previous->gpus == 0 ? request->cpu_milli :
			DecideFitSplit(request->cpu_milli, was->gpus, previous->gpus);
		parts[i].memory_mib = previous->gpus == 0 ? request->memory_mib :
			DecideFitSplit(request->memory_mib, was->gpus, previous->gpus);
		parts[i].gpu_memory_mib =
			DecideShareUse(&cycle->hosts[hosts[i]], request);
		if (!part_suits(cycle, request, offer, &parts[i], first) ||
			(i > 0 && hosts[i] <= hosts[i - 1]))
			return OUTCOME_NO_FIT;
	}
	return DecideStartOn(cycle, job, previous->type, previous->gpus, hosts,
						 parts,
						 previous->n_parts) ?
		OUTCOME_STARTED : OUTCOME_OUT_OF_MEMORY;
}
