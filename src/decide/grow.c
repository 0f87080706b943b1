/*
 * grow.c
 *	  Elastic jobs that grow into devices nobody has had a use for.
 *
 * After the queue, and only into devices that were idle for the pool's
 * grow_after and are in no claim and no reservation, up to their quotas.  The
 * job is promised more devices, of these and its own, as its topology allows,
 * and told to go on there.  The most important tier first, then who started
 * first.
 */
#include <string.h>

#include "decide/claim.h"
#include "decide/quota.h"

#define MOST_GROW	64			/* jobs looked at in a cycle */

/*
 * Compare two running jobs by who grows first.
 */
static int
compare_growers(const void *context, int32_t a, int32_t b)
{
	const DecideInput *input = context;
	const DecideRunning *x = &input->running[a];
	const DecideRunning *y = &input->running[b];
	int32_t		rank_x = input->tiers[x->tier].rank;
	int32_t		rank_y = input->tiers[y->tier].rank;
	int			order;

	if (rank_x != rank_y)
		return rank_x < rank_y ? -1 : 1;
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
	return running->ask >= 0 && running->type != DECIDE_NO_TYPE &&
		running->share == DECIDE_WHOLE &&
		running->gpus < running->max_gpus &&
		DecideRunningSettled(input, running) &&
		input->now - running->started >= input->policy.grow_after;
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
static void
grower_give(Cycle *cycle, const DecideRunning *running, bool give)
{
	int32_t		p;

	for (p = running->first_part; p < running->first_part + running->n_parts;
		 p++)
		DecideHostGive(cycle, cycle->claims->host_of
					   [cycle->input->running_parts[p].node],
					   &cycle->input->running_parts[p], 0, running->share,
					   give);
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
 * Promise a job all the devices of a plan, made while what it has was given
 * back, and tell it to go on there.
 */
static bool
promise_growth(Cycle *cycle, int32_t index, const DecideAsk *ask,
			   int32_t count, Plan *plan)
{
	const DecideRunning *running = &cycle->input->running[index];
	DecidePromise *promise = DecidePromiseAdd(cycle);
	int32_t		i;

	if (promise == NULL)
		return false;
	promise->running = index;
	promise->why = DECIDE_WHY_GROW;
	promise->type = running->type;
	promise->gpus = count;
	promise->share = running->share;
	promise->n_evictions = 1;
	if (!DecidePromisePlan(cycle, ask, count, plan) ||
		!DecideEvictionAdd(cycle, index, DECIDE_WHY_GROW))
		return false;
	grower_give(cycle, running, false);
	DecideQuotaTake(cycle, running->account, running->type,
					(int64_t) (count - running->gpus) * running->share, 0,
					false);
	promise = &cycle->result->promises[cycle->result->n_promises - 1];
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
	const DecideInput *input = cycle->input;
	const DecideRunning *running = &input->running[index];
	DecideAsk	ask = input->asks[running->ask];
	DecideOffer offer = {.type = running->type};
	Plan	   *plan = NULL;
	int32_t		count;
	int32_t		p;

	for (p = 0; p < ask.n_offers; p++)
	{
		if (ask.offers[p].type == running->type)
			offer = ask.offers[p];
	}
	offer.tied = false;
	ask.min_gpus = running->gpus + 1;
	ask.max_gpus = DecideQuotaMore(cycle, running);
	if (ask.max_gpus < ask.min_gpus)
		return true;
	grower_give(cycle, running, true);
	count = DecideRangeLargest(cycle, &ask, &offer);
	if (count > 0)
	{
		ask.min_gpus = ask.max_gpus = count;
		plan = DecideClaimPlan(cycle, &ask, &offer, count);
	}
	if (plan != NULL)
		return promise_growth(cycle, index, &ask, count, plan);
	grower_give(cycle, running, false);
	return true;
}

/*
 * Grow those elastic jobs that can.  It is the last that a cycle does with its
 * hosts.  False: out of memory.
 */
bool
DecideElasticsGrow(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	int32_t    *order = NULL;
	int32_t		n = 0;
	int32_t		i;

	if (input->policy.grow_after == DECIDE_NEVER)
		return true;
	for (i = 0; i < input->n_running; i++)
	{
		if (!may_grow(input, &input->running[i]) ||
			is_going(cycle->result, i))
			continue;
		if (order == NULL)
			order = DecideAlloc(cycle->arena, input->n_running,
								sizeof(int32_t));
		if (order == NULL)
			return false;
		order[n++] = i;
	}
	if (n == 0)
		return true;
	if (!DecideGangPrepare(cycle) ||
		!DecideSort(cycle->arena, order, n, compare_growers, input))
		return false;
	hide_busy(cycle);
	for (i = 0; i < n && i < MOST_GROW; i++)
	{
		if (!grow_one(cycle, order[i]))
			return false;
	}
	return true;
}
