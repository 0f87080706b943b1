/*
 * claim_add.c
 *	  A new claim: which devices exactly, who leaves for it, and the rows that
 *	  say so.
 */
#include "decide/claim.h"

/*
 * Plan a job of so many devices on the hosts as they are now: on one of them
 * if any can take it.  NULL: it does not fit (or out of memory).
 */
Plan *
DecideClaimPlan(Cycle *cycle, const DecideRequestClass *request,
				const DecideOffer *offer,
				int32_t count)
{
	int32_t		host = DecideBestScan(cycle, request, offer, count).host;

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
 * A promise more, without parts yet.  NULL: out of memory.
 */
DecidePromise *
DecidePromiseAdd(Cycle *cycle)
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
 * The last promise has a part more.
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
 * The last promise has the parts that a plan says, on hosts as they are now.
 */
bool
DecidePromisePlan(Cycle *cycle, const DecideRequestClass *request,
				  int32_t count,
				  Plan *plan)
{
	int32_t    *order = DecideStartOrder(cycle, plan);
	int32_t		i;

	for (i = 0; order != NULL && i < plan->n; i++)
	{
		DecidePart	part;

		DecideStartPart(cycle, request, plan->hosts[order[i]],
						plan->gpus[order[i]], count, &part);
		if (!DecidePromisePart(cycle, &part))
			return false;
	}
	return order != NULL;
}

/*
 * A running job more that is told to go.
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
 * The victims chosen are told to go; their hosts are again as they are now.
 */
bool
DecideVictimsTell(Cycle *cycle, DecideWhy *why)
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
