/*
 * claims_load.c
 *	  Claims of earlier cycles, before the queue.
 *
 * One all of whose devices are free now becomes a start on exactly these, as
 * long as its quotas are kept; the others stay out of everybody else's reach.
 * One that is no longer what its job requests starts nothing, and keeps its devices
 * until it ends.
 */
#include <string.h>

#include "decide/claim.h"
#include "decide/quota.h"

/*
 * Compare two claims by when they were made, then by their jobs.
 */
static int
compare_claims(const void *context, int32_t a, int32_t b)
{
	const DecideClaim *x = (const DecideClaim *) context + a;
	const DecideClaim *y = (const DecideClaim *) context + b;
	int			order;

	if (x->made != y->made)
		return x->made < y->made ? -1 : 1;
	if (x->turn != y->turn)
		return x->turn < y->turn ? -1 : 1;
	order = strcmp(x->org, y->org);
	if (order != 0)
		return order;
	return x->id < y->id ? -1 : x->id > y->id;
}

/*
 * Is what was promised still what the job requests?
 */
static bool
claim_suits(const Cycle *cycle, const DecideClaim *claim)
{
	const DecideInput *input = cycle->input;
	const DecideRequestClass *request = &input->requests[input->jobs[claim->job].request];
	const DecideOffer *offer = NULL;
	const Host *first = NULL;
	int32_t		i;

	for (i = 0; i < request->n_offers && offer == NULL; i++)
	{
		if (request->offers[i].type == claim->type)
			offer = &request->offers[i];
	}
	if (claim->share != request->share || claim->gpus < request->min_gpus ||
		claim->gpus > request->max_gpus || (offer == NULL && claim->gpus > 0))
		return false;
	for (i = claim->first_part; i < claim->first_part + claim->n_parts; i++)
	{
		const Host *host =
		&cycle->hosts[cycle->claims->host_of[input->claim_parts[i].node]];

		if (!DecideFitAllowed(host, request, claim->gpus > 0 ? offer : NULL) ||
			input->claim_parts[i].gpu_memory_mib !=
			DecideShareTakes(host, request) ||
			!DecideHostHas(host, &input->claim_parts[i], claim->share))
			return false;
		if (first == NULL)
			first = host;
		if ((request->topology == DECIDE_TOPOLOGY_NODE && host != first) ||
			(request->topology == DECIDE_TOPOLOGY_NVLINK &&
			 host->domain != first->domain) ||
			(request->topology == DECIDE_TOPOLOGY_LEAF &&
			 host->leaf != first->leaf))
			return false;
	}
	return true;
}

/*
 * Does somebody who is leaving still have part of what was promised at this
 * very instant?  Then his leaving is what the promise is of, even if as much
 * is free beside him, kept for a reservation: that is for whom it is kept.
 */
static bool
claim_is_new(const DecideInput *input, const DecideClaim *claim)
{
	int32_t		r;
	int32_t		i;
	int32_t		p;

	for (r = 0; claim->made == input->now && r < input->n_running; r++)
	{
		const DecideRunning *running = &input->running[r];

		if (!running->leaving || running->over)
			continue;
		for (i = running->first_part;
			 i < running->first_part + running->n_parts; i++)
		{
			const DecidePart *has = &input->running_parts[i];

			for (p = claim->first_part;
				 p < claim->first_part + claim->n_parts; p++)
			{
				const DecidePart *part = &input->claim_parts[p];

				if (part->node == has->node &&
					((part->devices & has->devices) != 0 ||
					 (part->cpu_milli > 0 && has->cpu_milli > 0) ||
					 (part->memory_mib > 0 && has->memory_mib > 0)))
					return true;
			}
		}
	}
	return false;
}

/*
 * Start a job on the devices of its claim.  False: out of memory.
 */
static bool
claim_start(Cycle *cycle, const DecideClaim *claim)
{
	DecideResult *result = cycle->result;
	DecideStart *start;
	int32_t		i;

	result->starts = DecideGrow(cycle->arena, result->starts,
								result->n_starts, &cycle->starts_capacity,
								sizeof(DecideStart));
	if (result->starts == NULL)
		return false;
	start = &result->starts[result->n_starts++];
	start->job = claim->job;
	start->type = claim->type;
	start->gpus = claim->gpus;
	start->share = claim->share;
	start->first_part = result->n_parts;
	start->n_parts = claim->n_parts;
	start->fit = 0;
	for (i = 0; i < claim->n_parts; i++)
	{
		const DecidePart *part =
		&cycle->input->claim_parts[claim->first_part + i];

		result->parts = DecideGrow(cycle->arena, result->parts,
								   result->n_parts, &cycle->parts_capacity,
								   sizeof(DecidePart));
		if (result->parts == NULL)
			return false;
		result->parts[result->n_parts++] = *part;
		DecideHostTake(cycle, cycle->claims->host_of[part->node], part,
					   claim->share);
	}
	return true;
}

/*
 * Start the jobs whose claims are free, and keep the other claims from
 * everybody, also from the claims made after them.  False: out of memory.
 */
bool
DecideClaimsRestore(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	int32_t    *order = DecideAlloc(cycle->arena, input->n_claims,
									sizeof(int32_t));
	Leavers    *leavers = DecideLeaversLoad(cycle);
	int32_t		i;
	int32_t		p;

	if (order == NULL || leavers == NULL || !DecideHostsGroup(cycle))
		return false;
	cycle->claims->in_turn = order;
	for (i = 0; i < input->n_claims; i++)
		order[i] = i;
	if (!DecideSort(cycle->arena, order, input->n_claims, compare_claims,
					input->claims))
		return false;
	for (i = 0; i < input->n_claims; i++)
	{
		const DecideClaim *claim = &input->claims[order[i]];

		if (claim->job >= 0)
			cycle->claims->promised[claim->job] = true;
		if (claim->job >= 0 && cycle->result->n_starts < input->max_starts &&
			claim_suits(cycle, claim) && !claim_is_new(input, claim) &&
			DecideQuotaKept(cycle, claim->account, claim->type))
		{
			if (!claim_start(cycle, claim))
				return false;
			cycle->on_claim[claim->job] = true;
			continue;
		}
		for (p = 0; p < claim->n_parts; p++)
		{
			const DecidePart *part = &input->claim_parts[claim->first_part +
														 p];
			int32_t		host = cycle->claims->host_of[part->node];

			DecideHostPromise(cycle, host, part, claim->share,
							  DecideLeaversOf(cycle, leavers, order[i], host));
		}
	}
	return true;
}
