/*
 * promise.c
 *	  Adds a new claim to the result: its exact devices and its evictions.
 */

#include "decide/preempt/claim_state.h"

/*
 * Plans a job of count devices on the hosts as they are now, on a single host
 * if possible.  Returns NULL if the job does not fit or memory runs out.
 */
Plan *
DecideClaimPlan(Cycle *cycle, const DecideRequestClass *request,
				const DecideOffer *offer,
				int32_t count)
{
	int32_t		host = DecideSingleScan(cycle, request, offer, count, 0);

	DecideAssert(count >= 0);
	DecideAssert(offer != NULL || count == 0);
	if (host >= 0)
	{
		cycle->single.hosts[0] = host;
		cycle->single.gpus[0] = count;
		cycle->single.n = 1;
		return &cycle->single;
	}
	if (count < 2 || request->topology == DECIDE_TOPOLOGY_NODE ||
		!DecideGangPrepare(cycle))
		return NULL;
	return DecideGangFind(cycle, request, offer, count);
}

/*
 * Adds a promise without parts.  Returns NULL if memory runs out.
 */
DecidePromise *
DecidePromiseNew(Cycle *cycle)
{
	DecideResult *result = cycle->result;
	DecidePromise *promise;

	result->promises = DecideGrow(cycle->arena, result->promises,
								  result->n_promises,
								  &cycle->claims->promises_capacity,
								  sizeof(DecidePromise));
	if (result->promises == NULL)
		return NULL;
	promise = &result->promises[result->n_promises];
	*promise = (DecidePromise)
	{
		.job = -1, .running = -1, .leader = result->n_promises,
			.first_part = result->n_promise_parts,
			.first_eviction = result->n_evictions
	};
	result->n_promises++;
	return promise;
}

/*
 * Adds a part to the last promise.  Returns false if memory runs out.
 */
bool
DecidePromisePart(Cycle *cycle, const DecidePart *part)
{
	DecideResult *result = cycle->result;

	result->promise_parts = DecideGrow(cycle->arena, result->promise_parts,
									   result->n_promise_parts,
									   &cycle->claims->promise_parts_capacity,
									   sizeof(DecidePart));
	if (result->promise_parts == NULL)
		return false;
	result->promise_parts[result->n_promise_parts++] = *part;
	result->promises[result->n_promises - 1].n_parts++;
	return true;
}

/*
 * Adds a promise of count devices as planned, on the hosts as they are now.
 * Returns NULL if memory runs out.
 */
DecidePromise *
DecidePromiseAdd(Cycle *cycle, const DecideRequestClass *request,
				 int32_t count, Plan *plan)
{
	DecidePart *parts = cycle->claims->parts;
	DecidePromise *promise = DecidePromiseNew(cycle);
	int32_t		i;

	DecideAssert(plan->n > 0);
	DecideAssert(!cycle->reserving);
	if (promise == NULL ||
		!DecideStartParts(cycle, request, count, plan, parts))
		return NULL;
	promise->gpus = count;
	promise->share = request->share;
	for (i = 0; i < plan->n; i++)
	{
		if (!DecidePromisePart(cycle, &parts[i]))
			return NULL;
	}
	return promise;
}

/*
 * Adds an eviction to the result.  Returns false if memory runs out.
 */
bool
DecideEvictionAdd(Cycle *cycle, int32_t running, DecideWhy why)
{
	DecideResult *result = cycle->result;

	result->evictions = DecideGrow(cycle->arena, result->evictions,
								   result->n_evictions,
								   &cycle->claims->evictions_capacity,
								   sizeof(DecideEviction));
	if (result->evictions == NULL)
		return false;
	result->evictions[result->n_evictions++] = (DecideEviction)
	{
		running, why
	};
	return true;
}

/*
 * Adds the evictions of the chosen victims, and undoes the release of their
 * devices.  Returns false if memory runs out.
 */
bool
DecideEvictionsAddChosen(Cycle *cycle, DecideWhy *why)
{
	ClaimState *claims = cycle->claims;
	int32_t		i;

	for (i = 0; i < claims->n_chosen; i++)
	{
		Candidate  *candidate = &claims->candidates[claims->chosen[i]];

		*why = DecideVictimWhy(cycle, candidate);
		DecideVictimRelease(cycle, claims->chosen[i], false);
		candidate->gone = true;
		if (!claims->search.moving)
			DecideEntitleUse(cycle,
							 cycle->input->running[candidate->running].account,
							 -candidate->amount);
		if (!DecideEvictionAdd(cycle, candidate->running, *why))
			return false;
	}
	return true;
}
