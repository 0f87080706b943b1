/*
 * grow.c
 *	  Elastic jobs that grow.
 *
 * After the queue, jobs that have run for the pool's elastic_idle_delay grow
 * up to their quotas.  A job is promised more devices, among them its own, as
 * its topology allows, and is told to continue there.  First, accounts below
 * their entitlements get devices of other accounts.  Then jobs grow into
 * devices that have been idle for elastic_idle_delay and are in no claim or
 * reservation.  The order is by tier, then accounts below their entitlements,
 * then start.
 *
 * A waiting job gets what its account is entitled to.  A running elastic job
 * with less than it asked for does the same, by the same right and from the
 * same jobs: those that are as important or less.  Other elastic jobs give
 * devices before any job is evicted.  A tier's right to preempt does not
 * matter here.
 *
 * The job stops together with its victims, and continues when all promised
 * devices are free.  A restart costs time, so the job gets as many devices at
 * once as it can.  It uses free devices first; if more would not help, it
 * waits until these have been idle long enough.
 *
 * Nothing is moved back and forth: the account stays within its entitlement,
 * so no other account may take the devices from it.
 */
#include <string.h>

#include "decide/preempt/claim_state.h"

#define MOST_GROW	64			/* most jobs that are examined in a cycle */

/*
 * Whether one more device would be within the entitlement of a running job's
 * account.
 */
static bool
is_due(const Cycle *cycle, const DecideRunning *running)
{
	return cycle->claims->loaded &&
		DecideEntitleWithin(cycle, running->account,
							DecideUsage(cycle->input, running->type, 1,
										running->share), -1);
}

/*----------
 * The order in which running elastic jobs get more devices:
 *
 * 1. rank of the tier;
 * 2. jobs whose account would still be within its entitlement;
 * 3. start, the earliest first;
 * 4. organisation, by name;
 * 5. number of the job.
 *----------
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
 * Whether a running job could use more devices.
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
 * Whether a running job was told to leave in this cycle.
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
 * Allocates all free devices that are not idle or that are reserved, so that
 * only idle devices are free.
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
			DecideHostPromise(cycle, i, &part, DECIDE_WHOLE, NULL);
	}
	for (i = 0; i < cycle->result->n_reserved_parts; i++)
	{
		const DecidePart *part = &cycle->result->reserved_parts[i];

		DecideHostPromise(cycle, cycle->claims->host_of[part->node], part,
						  DECIDE_WHOLE, NULL);
	}
}

/*
 * Releases what a running job has, or with give false undoes this.
 */
static void
grower_release(Cycle *cycle, const DecideRunning *running, bool give)
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
 * Returns a running job's request for more devices of the same type.
 */
static DecideRequestClass
grower_ask(const DecideInput *input, const DecideRunning *running,
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
 * Keeps from other jobs what a running job is promised in addition to what it
 * has.  Devices that it leaves stay allocated until it has left.
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
					  running->share, NULL);
}

/*
 * Adds more devices of a running job to quotas and entitlements.  In this
 * cycle the job neither gives devices nor leaves for other jobs.
 */
static void
grower_note(Cycle *cycle, int32_t index, int64_t more)
{
	const DecideRunning *running = &cycle->input->running[index];
	ClaimState *claims = cycle->claims;
	DecideUse	use = DecideGrowthUse(more, DecideRunningCounted(running),
									  running->stays);
	int32_t		e;

	DecideQuotaAdd(cycle, running->account, running->type, &use, false);
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
 * Reserve all devices of a plan for a running job that grows, and mark the
 * jobs that must leave for it.  The plan counted as free the devices of the
 * job itself and of those jobs.  Returns false if memory runs out.
 */
static bool
grower_promise(Cycle *cycle, int32_t index,
			   const DecideRequestClass *request,
			   Plan *plan)
{
	const DecideRunning *running = &cycle->input->running[index];
	ClaimState *claims = cycle->claims;
	int32_t		at = cycle->result->n_promises;
	DecidePromise *promise = DecidePromiseAdd(cycle, request,
											  request->min_gpus, plan);
	DecideWhy	why;
	int32_t		i;

	if (promise == NULL)
		return false;
	promise->running = index;
	promise->why = DECIDE_WHY_GROW;
	promise->type = running->type;
	if (!DecideEvictionsAdd(cycle, at, index, &why))
		return false;
	claims->n_chosen = 0;
	grower_release(cycle, running, false);
	grower_note(cycle, index, request->min_gpus - running->gpus);
	promise = &cycle->result->promises[at];
	for (i = 0; i < promise->n_parts; i++)
		grower_keep(cycle, running,
					cycle->result->promise_parts[promise->first_part + i]);
	return true;
}

/*
 * Whether the account of a running job has more than its entitlement, so that
 * the job may give devices to one that grows.
 */
static bool
may_shrink(const Cycle *cycle, const DecideRunning *grows,
		   const DecideRunning *gives)
{
	const DecideInput *input = cycle->input;
	const Entitle *entitle = &cycle->claims->entitle;

	return gives->type == grows->type && gives->account != grows->account &&
		input->tiers[grows->tier].rank <= input->tiers[gives->tier].rank &&
		entitle->used_own[gives->account] > entitle->due_own[gives->account];
}

/*
 * Whether any job could give devices to a running job.
 */
static bool
givers_there(const Cycle *cycle, const DecideRunning *running)
{
	const DecideInput *input = cycle->input;
	const ClaimState *claims = cycle->claims;
	int32_t		i;

	for (i = 0; i < claims->n_candidates; i++)
	{
		const Candidate *candidate = &claims->candidates[i];

		if (!candidate->gone &&
			may_shrink(cycle, running, &input->running[candidate->running]))
			return true;
	}
	for (i = 0; i < claims->n_elastics; i++)
	{
		const Elastic *elastic = &claims->elastics[i];

		if (!elastic->resized && elastic->spare > 0 &&
			may_shrink(cycle, running, &input->running[elastic->running]))
			return true;
	}
	return false;
}

/*
 * What count devices add to what a running job has, in the unit of usage.
 */
static int64_t
amount_more(const DecideInput *input, const DecideRunning *running,
			int32_t count)
{
	return DecideUsage(input, running->type, count - running->gpus,
					   running->share);
}

/*
 * Whether a running job could keep all its devices, because none of them is
 * reserved for another job and its nodes are available.
 */
static bool
keeps_own(const Cycle *cycle, const DecideRunning *running)
{
	int32_t		p;

	for (p = running->first_part; p < running->first_part + running->n_parts;
		 p++)
	{
		const DecidePart *part = &cycle->input->running_parts[p];

		if ((part->devices &
			 DecideAvailabilityReserved(cycle,
										cycle->claims->host_of[part->node])) != 0)
			return false;
	}
	return DecideElasticStays(cycle, running);
}

/*
 * The most devices, up to most, with which an account's own jobs stay within
 * their entitlement.
 */
static int32_t
most_due(const Cycle *cycle, const DecideRunning *running, int32_t most)
{
	int32_t		least = running->gpus;

	while (least < most)
	{
		int32_t		middle = least + (most - least + 1) / 2;

		if (DecideEntitleWithin(cycle, running->account,
								amount_more(cycle->input, running, middle),
								running->account))
			least = middle;
		else
			most = middle - 1;
	}
	return least;
}

/*
 * Finds jobs that give devices so that a running job, whose own devices are
 * released, has count devices: first elastic jobs, then victims that leave
 * their accounts their entitlements, then other victims.  They are then chosen
 * and released.
 */
static bool
givers_find(Cycle *cycle, const DecideRunning *running,
			DecideRequestClass *request,
			const DecideOffer *offer, int32_t count)
{
	Search	   *search = &cycle->claims->search;
	int			attempt;

	request->min_gpus = request->max_gpus = count;
	for (attempt = 0; attempt < 3; attempt++)
	{
		DecideSearchFor(cycle, request, offer);
		search->job = -1;
		search->account = running->account;
		search->rank = cycle->input->tiers[running->tier].rank;
		search->preempts = false;
		search->amount = amount_more(cycle->input, running, count);
		cycle->passes = search->rank;
		search->no_victims = attempt == 0;
		search->no_shrinks = attempt > 0;
		search->under = attempt == 2;
		if ((attempt > 0 || cycle->claims->n_elastics > 0) &&
			DecideVictimsFind(cycle))
			return true;
	}
	return false;
}

/*
 * Finds jobs that give devices for as many devices as possible, more than
 * least and up to most.  They are then chosen and released, and the request
 * has that number.  Returns false if there are none.
 */
static bool
givers_most(Cycle *cycle, const DecideRunning *running,
			DecideRequestClass *request,
			const DecideOffer *offer, int32_t least, int32_t most)
{
	int32_t		found = least;
	int32_t		try = least + 1;

	/* if n + 1 devices cannot be freed, no larger number can */
	while (found < most)
	{
		if (givers_find(cycle, running, request, offer, try))
		{
			if (try == most)
				return true;
			DecideVictimsGiveUp(cycle);
			found = try;
		}
		else
			most = found == least ? least : try - 1;
		try = found + (most - found + 1) / 2;
	}
	return found > least && givers_find(cycle, running, request, offer, found);
}

/*
 * Lets a running job grow at the expense of accounts with more than their
 * entitlement.  Returns false if memory runs out.
 */
static bool
grow_due(Cycle *cycle, int32_t index)
{
	ClaimState *claims = cycle->claims;
	const DecideRunning *running = &cycle->input->running[index];
	uint64_t	changes = claims->entitle.changes;
	DecideOffer offer;
	DecideRequestClass request;
	Plan	   *plan;
	int32_t		most = DecideQuotaMore(cycle, running);
	int32_t		least;

	most = most_due(cycle, running, most);
	if (most <= running->gpus || !givers_there(cycle, running))
		return true;
	request = grower_ask(cycle->input, running, &offer);
	DecideAvailabilityShow(cycle, request.wall_limit);
	cycle->passes = cycle->input->tiers[running->tier].rank;
	if (!keeps_own(cycle, running))
	{
		cycle->passes = INT32_MAX;
		return true;
	}
	grower_release(cycle, running, true);
	request.max_gpus = most;
	least = DecideRangeLargest(cycle, &request, &offer);
	least = least > running->gpus ? least : running->gpus;
	if (givers_most(cycle, running, &request, &offer, least, most))
	{
		plan = DecideClaimPlan(cycle, &request, &offer, request.min_gpus);
		if (plan == NULL || !grower_promise(cycle, index, &request, plan))
			return false;
	}
	else
	{
		grower_release(cycle, running, false);
		/* all releases were undone */
		claims->entitle.changes = changes;
	}
	cycle->passes = INT32_MAX;
	return true;
}

/*
 * Lets a running job grow into free devices.  Returns false if memory runs
 * out.
 */
static bool
grow_one(Cycle *cycle, int32_t index)
{
	const DecideRunning *running = &cycle->input->running[index];
	DecideOffer offer;
	DecideRequestClass request = grower_ask(cycle->input, running,
											&offer);
	Plan	   *plan = NULL;
	int32_t		count;

	request.max_gpus = DecideQuotaMore(cycle, running);
	if (request.max_gpus < request.min_gpus)
		return true;
	grower_release(cycle, running, true);
	count = DecideRangeLargest(cycle, &request, &offer);
	if (count > 0)
	{
		request.min_gpus = request.max_gpus = count;
		plan = DecideClaimPlan(cycle, &request, &offer, count);
	}
	if (plan != NULL)
		return grower_promise(cycle, index, &request, plan);
	grower_release(cycle, running, false);
	return true;
}

/*
 * Lists the jobs that may grow, in order.  Returns false if memory runs out.
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
 * Lets elastic jobs grow, after everything else in a round.  Returns false if
 * memory runs out.
 */
bool
DecideElasticsGrow(Cycle *cycle)
{
	const DecidePolicy *policy = &cycle->input->policy;
	int32_t    *order;
	int32_t		n;
	int32_t		i;

	DecideAssert(!cycle->reserving);
	DecideAssert(cycle->claims != NULL);
	if (policy->elastic_idle_delay == DECIDE_NEVER ||
		cycle->result->n_evictions >= cycle->input->max_evictions)
		return true;
	if (!list_growers(cycle, &order, &n))
		return false;
	for (i = 0; policy->reclaim && i < n && i < MOST_GROW; i++)
	{
		if (!is_going(cycle->result, order[i]) &&
			!grow_due(cycle, order[i]))
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
