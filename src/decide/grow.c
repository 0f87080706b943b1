/*
 * grow.c
 *	  Elastic jobs that grow.
 *
 * After the queue, up to their quotas, once they have run for the pool's
 * elastic_idle_delay.  The job is promised more devices, its own among them, as its
 * topology allows, and told to go on there.  An account that has less than it
 * is entitled to takes them from others (grow_due.c).  Then jobs grow into
 * devices that were idle for elastic_idle_delay and are in no claim and no reservation.
 * The most important tier first, then whose account is due the devices, then
 * who started first.
 */
#include <string.h>

#include "decide/claim.h"
#include "decide/quota.h"

#define MOST_GROW	64			/* jobs looked at in a cycle */

/*
 * Is a device more due to the account of a running job?
 */
static bool
is_due(const Cycle *cycle, const DecideRunning *running)
{
	return cycle->claims->loaded &&
		DecideEntitleWithin(cycle, running->account,
							DecideUsage(cycle->input, running->type, 1,
										running->share), -1);
}

/*
 * Compare two running jobs by who grows first.
 */
static int
compare_growers(const void *context, int32_t a, int32_t b)
{
	const Cycle *cycle = context;
	const DecideInput *input = cycle->input;
	const DecideRunning *x = &input->running[a];
	const DecideRunning *y = &input->running[b];
	int32_t		rank_x = input->tiers[x->tier].rank;
	int32_t		rank_y = input->tiers[y->tier].rank;
	int			order;

	if (rank_x != rank_y)
		return rank_x < rank_y ? -1 : 1;
	if (is_due(cycle, x) != is_due(cycle, y))
		return is_due(cycle, x) ? -1 : 1;
	if (x->started != y->started)
		return x->started < y->started ? -1 : 1;
	order = strcmp(x->org, y->org);
	if (order != 0)
		return order;
	return x->id < y->id ? -1 : x->id > y->id;
}

/*
 * Could a running job do with more devices?
 */
static bool
may_grow(const DecideInput *input, const DecideRunning *running)
{
	return running->request >= 0 && running->type != DECIDE_NO_TYPE &&
		running->share == DECIDE_WHOLE &&
		running->gpus < running->max_gpus &&
		DecideRunningSettled(input, running) &&
		input->now - running->started >= input->policy.elastic_idle_delay;
}

/*
 * Was a running job told to go in this cycle?
 */
static bool
is_going(const DecideResult *result, int32_t running)
{
	int32_t		i;

	for (i = 0; i < result->n_evictions; i++)
	{
		if (result->evictions[i].running == running)
			return true;
	}
	return false;
}

/*
 * Leave only idle devices free.
 */
static void
hide_busy(Cycle *cycle)
{
	int32_t		i;

	for (i = 0; i < cycle->n_hosts; i++)
	{
		const Host *host = &cycle->hosts[i];
		DecidePart	part = {.devices = host->free &
			~cycle->input->nodes[host->node].idle};

		if (part.devices != 0)
			DecideHostPromise(cycle, i, &part, DECIDE_WHOLE);
	}
	for (i = 0; i < cycle->result->n_reserved_parts; i++)
	{
		const DecidePart *part = &cycle->result->reserved_parts[i];

		DecideHostPromise(cycle, cycle->claims->host_of[part->node], part,
						  DECIDE_WHOLE);
	}
}

/*
 * Give a running job's hosts what it has, or take that again.
 */
void
DecideGrowerGive(Cycle *cycle, const DecideRunning *running, bool give)
{
	int32_t		p;

	for (p = running->first_part; p < running->first_part + running->n_parts;
		 p++)
		DecideHostRelease(cycle, cycle->claims->host_of
						  [cycle->input->running_parts[p].node],
						  &cycle->input->running_parts[p], 0, running->share,
						  give);
}

/*
 * What a running job requests that is to have more devices, of the same type.
 */
DecideRequestClass
DecideGrowerAsk(const DecideInput *input, const DecideRunning *running,
				DecideOffer *offer)
{
	DecideRequestClass request = input->requests[running->request];
	int32_t		i;

	*offer = (DecideOffer)
	{
		.type = running->type
	};
	for (i = 0; i < request.n_offers; i++)
	{
		if (request.offers[i].type == running->type)
			*offer = request.offers[i];
	}
	offer->tied = false;
	request.min_gpus = running->gpus + 1;
	return request;
}

/*
 * Keep from all others what a running job is promised beside what it has.  What
 * it leaves is nobody's before it has left.
 */
static void
grower_keep(Cycle *cycle, const DecideRunning *running, DecidePart part)
{
	int32_t		p;

	for (p = running->first_part; p < running->first_part + running->n_parts;
		 p++)
	{
		const DecidePart *has = &cycle->input->running_parts[p];

		if (has->node != part.node)
			continue;
		part.cpu_milli -= has->cpu_milli < part.cpu_milli ?
			has->cpu_milli : part.cpu_milli;
		part.memory_mib -= has->memory_mib < part.memory_mib ?
			has->memory_mib : part.memory_mib;
	}
	DecideHostPromise(cycle, cycle->claims->host_of[part.node], &part,
					  running->share);
}

/*
 * A running job is promised more: it counts so, and neither gives devices in
 * this cycle nor leaves for others.
 */
static void
grower_note(Cycle *cycle, int32_t index, int64_t more)
{
	const DecideRunning *running = &cycle->input->running[index];
	ClaimState *claims = cycle->claims;
	int32_t		e;

	DecideQuotaTake(cycle, running->account, running->type,
					more * running->share, 0, false);
	if (!claims->loaded)
		return;
	DecideEntitleUse(cycle, running->account,
					 DecideUsage(cycle->input, running->type, more,
								 running->share));
	if (claims->by_running[index] >= 0)
		claims->candidates[claims->by_running[index]].gone = true;
	for (e = 0; e < claims->n_elastics; e++)
		claims->elastics[e].resized |= claims->elastics[e].running == index;
}

/*
 * Promise a running job all the devices of a plan, made while what it has and
 * what others give for it was given back, and tell all of them.  False: out of
 * memory.
 */
bool
DecideGrowerPromise(Cycle *cycle, int32_t index,
					const DecideRequestClass *request,
					Plan *plan)
{
	const DecideRunning *running = &cycle->input->running[index];
	ClaimState *claims = cycle->claims;
	int32_t		at = cycle->result->n_promises;
	DecidePromise *promise = DecidePromiseAdd(cycle);
	DecideWhy	why;
	int32_t		i;

	if (promise == NULL)
		return false;
	promise->running = index;
	promise->why = DECIDE_WHY_GROW;
	promise->type = running->type;
	promise->gpus = request->min_gpus;
	promise->share = running->share;
	promise->n_evictions = 1 + claims->n_chosen;
	if (!DecidePromisePlan(cycle, request, request->min_gpus, plan) ||
		!DecideEvictionAdd(cycle, index, DECIDE_WHY_GROW) ||
		!DecideVictimsTell(cycle, &why) || !DecideShrinksTell(cycle, at))
		return false;
	claims->n_chosen = claims->n_given = 0;
	DecideGrowerGive(cycle, running, false);
	grower_note(cycle, index, request->min_gpus - running->gpus);
	promise = &cycle->result->promises[at];
	for (i = 0; i < promise->n_parts; i++)
		grower_keep(cycle, running,
					cycle->result->promise_parts[promise->first_part + i]);
	return true;
}

/*
 * Give a running job more devices if there are some.  False: out of memory.
 */
static bool
grow_one(Cycle *cycle, int32_t index)
{
	const DecideRunning *running = &cycle->input->running[index];
	DecideOffer offer;
	DecideRequestClass request = DecideGrowerAsk(cycle->input, running,
												 &offer);
	Plan	   *plan = NULL;
	int32_t		count;

	request.max_gpus = DecideQuotaMore(cycle, running);
	if (request.max_gpus < request.min_gpus)
		return true;
	DecideGrowerGive(cycle, running, true);
	count = DecideRangeLargest(cycle, &request, &offer);
	if (count > 0)
	{
		request.min_gpus = request.max_gpus = count;
		plan = DecideClaimPlan(cycle, &request, &offer, count);
	}
	if (plan != NULL)
		return DecideGrowerPromise(cycle, index, &request, plan);
	DecideGrowerGive(cycle, running, false);
	return true;
}

/*
 * List who may grow, in order.  False: out of memory.
 */
static bool
list_growers(Cycle *cycle, int32_t **order, int32_t *n)
{
	const DecideInput *input = cycle->input;
	int32_t		i;

	*order = NULL;
	*n = 0;
	for (i = 0; i < input->n_running; i++)
	{
		if (!may_grow(input, &input->running[i]) ||
			is_going(cycle->result, i))
			continue;
		if (*order == NULL)
			*order = DecideAlloc(cycle->arena, input->n_running,
								 sizeof(int32_t));
		if (*order == NULL)
			return false;
		(*order)[(*n)++] = i;
	}
	if (*n == 0)
		return true;
	if (input->policy.reclaim && !DecideClaimsLoad(cycle))
		return false;
	return DecideGangPrepare(cycle) &&
		DecideSort(cycle->arena, *order, *n, compare_growers, cycle);
}

/*
 * Grow those elastic jobs that can.  It is the last that a round does with its
 * hosts.  False: out of memory.
 */
bool
DecideElasticsGrow(Cycle *cycle)
{
	const DecidePolicy *policy = &cycle->input->policy;
	int32_t    *order;
	int32_t		n;
	int32_t		i;

	if (policy->elastic_idle_delay == DECIDE_NEVER)
		return true;
	if (!list_growers(cycle, &order, &n))
		return false;
	for (i = 0; policy->reclaim && i < n && i < MOST_GROW; i++)
	{
		if (!is_going(cycle->result, order[i]) &&
			!DecideGrowDue(cycle, order[i]))
			return false;
	}
	if (n > 0)
		hide_busy(cycle);
	for (i = 0; i < n && i < MOST_GROW; i++)
	{
		if (!is_going(cycle->result, order[i]) && !grow_one(cycle, order[i]))
			return false;
	}
	return true;
}
