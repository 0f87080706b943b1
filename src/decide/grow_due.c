/*
 * grow_due.c
 *	  Elastic jobs that grow to what their accounts are entitled to, at the
 *	  expense of accounts that have more.
 *
 * A rigid job that waits takes what its account is due; an elastic one that
 * runs with less than it asked for takes it as well, by the same right and from
 * the same jobs: those that are as important or less.  Other elastic jobs give
 * devices before anybody is evicted.  A tier's right to preempt plays no part.
 *
 * It leaves together with its victims, and goes on when all that it is promised
 * is free.  As that costs a restart, it takes as many devices at once as it can
 * be given.  What is free it takes first: where more would be no use, it waits
 * until these devices were idle for long enough (grow.c).
 *
 * Nothing goes back and forth: the account stays within what it is due, so that
 * nobody may take that from it.
 */
#include "decide/claim.h"
#include "decide/quota.h"

/*
 * Has the account of a running job more than it is due, so that it might give
 * some to one that grows?
 */
static bool
might_give(const Cycle *cycle, const DecideRunning *grows,
		   const DecideRunning *gives)
{
	const DecideInput *input = cycle->input;
	const Entitle *entitle = &cycle->claims->entitle;

	return gives->type == grows->type && gives->account != grows->account &&
		input->tiers[grows->tier].rank <= input->tiers[gives->tier].rank &&
		entitle->used_own[gives->account] > entitle->due_own[gives->account];
}

/*
 * Is there anybody who might give devices to a running job?
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
			might_give(cycle, running, &input->running[candidate->running]))
			return true;
	}
	for (i = 0; i < claims->n_elastics; i++)
	{
		const Elastic *elastic = &claims->elastics[i];

		if (!elastic->resized && elastic->spare > 0 &&
			might_give(cycle, running, &input->running[elastic->running]))
			return true;
	}
	return false;
}

/*
 * What so many devices count beside those that a running job has.
 */
static int64_t
amount_more(const DecideInput *input, const DecideRunning *running,
			int32_t count)
{
	return DecideUsage(input, running->type, count - running->gpus,
					   running->share);
}

/*
 * Does a running job keep all it has, where it is, beside what is reserved for
 * others?
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
 * The most devices, up to some, with which a running job leaves its account's
 * own jobs within what they are due.
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
 * Find who gives devices so that a running job, whose own are given back, has
 * so many: elastic jobs, else victims that leave their accounts what they are
 * due, else others.  They are then chosen and given back.
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
		search->passes = true;
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
 * Find who gives a running job as many devices as it can be given: more than
 * least, up to most.  They are then chosen and given back, and the request is for
 * so many.  False: nobody gives any.
 */
static bool
givers_most(Cycle *cycle, const DecideRunning *running,
			DecideRequestClass *request,
			const DecideOffer *offer, int32_t least, int32_t most)
{
	int32_t		found = least;
	int32_t		try = least + 1;

	/* who cannot have one more has no more either */
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
 * Let a running job grow at the expense of accounts that have more than they
 * are entitled to.  False: out of memory.
 */
bool
DecideGrowDue(Cycle *cycle, int32_t index)
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
	request = DecideGrowerAsk(cycle->input, running, &offer);
	DecideAvailabilityShow(cycle, request.wall_limit);
	claims->search.passes = true;
	claims->search.rank = cycle->input->tiers[running->tier].rank;
	if (!keeps_own(cycle, running))
	{
		claims->search.passes = false;
		return true;
	}
	DecideGrowerGive(cycle, running, true);
	request.max_gpus = most;
	least = DecideRangeLargest(cycle, &request, &offer);
	least = least > running->gpus ? least : running->gpus;
	if (givers_most(cycle, running, &request, &offer, least, most))
	{
		plan = DecideClaimPlan(cycle, &request, &offer, request.min_gpus);
		if (plan == NULL || !DecideGrowerPromise(cycle, index, &request, plan))
			return false;
	}
	else
	{
		DecideGrowerGive(cycle, running, false);
		/* what was given was taken again */
		claims->entitle.changes = changes;
	}
	claims->search.passes = false;
	return true;
}
