/*
 * defragment.c
 *	  Consolidation: running jobs make room by moving.
 *
 * A job moves only to devices that are free now and that the job for which it
 * makes room does not use.  So its new devices are free from the start, and no
 * job is left without a place.  The largest job moves first.
 */
#include <string.h>

#include "decide/preempt/claim_state.h"

#define MOST_TRIALS	64			/* most trials for a job and offer */

/*
 * Returns the request of a job that moves: what it has, with the same type.
 */
static DecideRequestClass
mover_request(const DecideInput *input, const DecideRunning *running,
			  DecideOffer *offer)
{
	const DecideRequestClass *given = &input->requests[running->request];
	DecideRequestClass request = *given;
	int32_t		i;

	*offer = (DecideOffer)
	{
		.type = running->type, .min_memory = INT64_MAX
	};
	for (i = 0; i < given->n_offers; i++)
	{
		if (given->offers[i].type == running->type &&
			given->offers[i].min_memory < offer->min_memory)
			*offer = given->offers[i];
	}
	if (offer->min_memory == INT64_MAX)
		offer->min_memory = 0;
	offer->tied = false;
	request.min_gpus = request.max_gpus = running->gpus;
	request.n_offers = running->type == DECIDE_NO_TYPE ? 0 : 1;
	request.offers = offer;
	return request;
}

/*
 * Finds places for the chosen jobs on the hosts as they are now, and allocates
 * them.  If leader is not -1, also promises them.  Returns false if a job has
 * no place or memory runs out.
 */
static bool
movers_place(Cycle *cycle, int32_t leader)
{
	ClaimState *claims = cycle->claims;
	int32_t		i;
	int32_t		p;

	for (i = 0; i < claims->n_chosen; i++)
	{
		int32_t		index = claims->candidates[claims->movers[i]].running;
		const DecideRunning *running = &cycle->input->running[index];
		DecideOffer offer;
		DecideRequestClass request = mover_request(cycle->input, running,
												   &offer);
		Plan	   *plan = DecideClaimPlan(cycle, &request,
										   request.n_offers > 0 ?
										   &offer : NULL, running->gpus);
		DecidePromise *promise;

		if (plan == NULL)
			return false;
		if (leader < 0 && !DecideStartParts(cycle, &request, running->gpus,
											plan, claims->parts))
			return false;
		if (leader >= 0)
		{
			promise = DecidePromiseAdd(cycle, &request, running->gpus, plan);
			if (promise == NULL)
				return false;
			promise->running = index;
			promise->why = DECIDE_WHY_MOVE;
			promise->leader = leader;
			promise->type = running->type;
		}
		for (p = 0; p < plan->n; p++)
			DecideHostAllocate(cycle, plan->hosts[p], &claims->parts[p],
							   request.share);
	}
	return true;
}

/*
 * Saves the hosts, or restores them.
 */
static void
hosts_save(Cycle *cycle, bool save)
{
	ClaimState *claims = cycle->claims;
	size_t		size = (size_t) cycle->n_hosts * sizeof(Host);

	cycle->trying = save;
	if (save)
	{
		memcpy(claims->saved, cycle->hosts, size);
		claims->saved_latest = cycle->latest;
		claims->saved_changes = cycle->changes;
		return;
	}
	memcpy(cycle->hosts, claims->saved, size);
	cycle->latest = claims->saved_latest;
	cycle->changes = claims->saved_changes;
}

/*
 * Sorts the chosen jobs by size, the largest first.
 */
static void
movers_order(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	int32_t		i;
	int32_t		j;

	for (i = 0; i < claims->n_chosen; i++)
	{
		int32_t		mover = claims->chosen[i];
		int32_t		gpus =
		cycle->input->running[claims->candidates[mover].running].gpus;

		for (j = i; j > 0; j--)
		{
			int32_t		other =
			claims->candidates[claims->movers[j - 1]].running;

			if (cycle->input->running[other].gpus >= gpus)
				break;
			claims->movers[j] = claims->movers[j - 1];
		}
		claims->movers[j] = mover;
	}
}

/*
 * Marks a candidate as released and updates its hosts, whose devices have been
 * restored in the released state.
 */
static void
victim_count(Cycle *cycle, int32_t index)
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
 * Whether there is a place for the search's job and for all chosen jobs that
 * move.  Everything is restored afterwards.
 */
bool
DecideDefragmentFit(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	const Search *search = &claims->search;
	DecidePart *parts = claims->parts;
	Plan	   *plan;
	bool		fit;
	int32_t		n;
	int32_t		i;

	DecideAssert(cycle->claims->search.moving);
	DecideAssert(!cycle->trying);
	if (claims->trials++ >= MOST_TRIALS)
		return false;
	plan = DecideClaimPlan(cycle, search->request, search->offer,
						   search->request->min_gpus);
	if (plan == NULL)
		return false;
	movers_order(cycle);
	n = plan->n;
	if (!DecideStartParts(cycle, search->request, search->request->min_gpus,
						  plan, parts))
		return false;
	hosts_save(cycle, true);
	for (i = 0; i < claims->n_chosen; i++)
		DecideVictimRelease(cycle, claims->chosen[i], false);
	for (i = 0; i < n; i++)
		DecideHostPromise(cycle, claims->host_of[parts[i].node], &parts[i],
						  search->request->share, NULL);
	fit = movers_place(cycle, -1);
	hosts_save(cycle, false);
	for (i = 0; i < claims->n_chosen; i++)
		victim_count(cycle, claims->chosen[i]);
	return fit;
}

/*
 * Promises the chosen jobs their places, after the leader has its own.
 * Returns false if memory runs out.
 */
bool
DecideDefragmentAdd(Cycle *cycle, int32_t leader)
{
	DecideAssert(leader >= 0 && leader < cycle->result->n_promises);
	DecideAssert(cycle->claims->search.moving);
	movers_order(cycle);
	return movers_place(cycle, leader);
}
