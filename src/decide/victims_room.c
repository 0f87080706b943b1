/*
 * victims_room.c
 *	  What the devices of candidates make room for.
 *
 * A search gives what candidates have back to their hosts and keeps count of
 * which places then have room enough.
 */
#include "decide/claim.h"

/*
 * Give back all that a candidate has, or take it again.
 */
void
DecideVictimRelease(Cycle *cycle, int32_t index, bool give)
{
	const DecideInput *input = cycle->input;
	ClaimState *claims = cycle->claims;
	Candidate  *candidate = &claims->candidates[index];
	const DecideRunning *running = &input->running[candidate->running];
	int32_t		p;

	candidate->given = give;
	if (!claims->search.moving)
		DecideEntitleUse(cycle, running->account,
						 give ? -candidate->amount : candidate->amount);
	for (p = running->first_part; p < running->first_part + running->n_parts;
		 p++)
	{
		const DecidePart *part = &input->running_parts[p];
		int32_t		host = claims->host_of[part->node];

		DecideHostRelease(cycle, host, part, claims->shrunk[p], running->share,
						  give);
		DecideSearchUpdate(cycle, host);
	}
}

/*
 * Count a candidate as given back, its hosts being so already.
 */
void
DecideVictimCapacity(Cycle *cycle, int32_t index)
{
	const DecideInput *input = cycle->input;
	ClaimState *claims = cycle->claims;
	const DecideRunning *running =
	&input->running[claims->candidates[index].running];
	int32_t		p;

	claims->candidates[index].given = true;
	for (p = running->first_part; p < running->first_part + running->n_parts;
		 p++)
		DecideSearchUpdate(cycle,
						   claims->host_of[input->running_parts[p].node]);
}

/*
 * What a host could take of what is sought.
 */
static int32_t
capacity_of(const Cycle *cycle, int32_t index)
{
	const Search *search = &cycle->claims->search;
	const Host *host = &cycle->hosts[index];

	if (!DecideFitAllowed(host, search->request, search->offer))
		return 0;
	if (search->whole)
		return DecideFitCapacity(host, search->request->cpu_milli,
								 search->request->memory_mib, search->count);
	return DecideFitLess(DecideFitKey(cycle, host, search->request,
									  search->offer,
									  search->request->min_gpus),
						 FIT_NONE);
}

/*
 * Begin to count room within the scopes of a topology, or on single hosts.
 */
void
DecideSearchBegin(Cycle *cycle, DecideTopology topology, bool single)
{
	ClaimState *claims = cycle->claims;
	const Search *search = &claims->search;
	int32_t		i;

	claims->n_ready = 0;
	for (i = 0; i < cycle->n_hosts; i++)
	{
		claims->scope_of[i] = -1;
		claims->scope_capacity[i] = 0;
	}
	for (i = 0; i < search->range.n; i++)
	{
		int32_t		index = search->hosts != NULL ? search->hosts[i] : i;
		const Host *host = &cycle->hosts[index];

		claims->capacity[index] = 0;
		if (single || topology == DECIDE_TOPOLOGY_NODE)
			claims->scope_of[index] = index;
		else if (topology == DECIDE_TOPOLOGY_NVLINK)
			claims->scope_of[index] = host->domain;
		else if (topology == DECIDE_TOPOLOGY_LEAF)
			claims->scope_of[index] = host->leaf;
		else
			claims->scope_of[index] = 0;
		DecideSearchUpdate(cycle, index);
	}
}

/*
 * A host has something more or less now.
 */
void
DecideSearchUpdate(Cycle *cycle, int32_t host)
{
	ClaimState *claims = cycle->claims;
	int32_t		scope = claims->scope_of[host];
	int64_t    *capacity;
	bool		ready;

	if (scope < 0)
		return;
	capacity = &claims->scope_capacity[scope];
	ready = *capacity >= claims->search.count;
	*capacity -= claims->capacity[host];
	claims->capacity[host] = capacity_of(cycle, host);
	*capacity += claims->capacity[host];
	claims->n_ready += (*capacity >= claims->search.count) - ready;
}
