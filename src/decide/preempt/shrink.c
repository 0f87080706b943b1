/*
 * shrink.c
 *	  Elastic jobs give devices before anybody is evicted.
 *
 * A running elastic job can give devices, down to its least, to a job ahead
 * of it: of a more important tier, of the same account with an earlier turn,
 * or of an account that may take from its own by entitlement.  Its cpu and
 * memory stay, so a job with cpu or memory on several nodes keeps its
 * devices.
 */

#include "decide/preempt/claim_state.h"

/*
 * How many devices an elastic job gives to another account by entitlement,
 * counted one by one.  Its account never keeps less than its entitlement,
 * beside what its other jobs give.
 */
static int32_t
spare_by_right(Cycle *cycle, const DecideRunning *running, int32_t spare)
{
	bool		under = cycle->claims->search.under;
	int32_t		low = 0;

	cycle->claims->search.under = false;
	cycle->claims->search.shrinking = true;
	while (low < spare)
	{
		int32_t		middle = low + (spare - low + 1) / 2;

		if (DecideEntitleMay(cycle, cycle->claims->search.account,
							 cycle->claims->search.amount, running->account,
							 DecideUsage(cycle->input, running->type, middle,
										 DECIDE_WHOLE)))
			low = middle;
		else
			spare = middle - 1;
	}
	cycle->claims->search.under = under;
	cycle->claims->search.shrinking = false;
	return low;
}

/*
 * How many devices an elastic job gives to the search's job: none if its own
 * turn would be earlier.  To a growing job it gives only by entitlement.
 */
static int32_t
spare_for(Cycle *cycle, const Elastic *elastic)
{
	const DecideInput *input = cycle->input;
	const Search *search = &cycle->claims->search;
	const DecideRunning *running = &input->running[elastic->running];
	int32_t		other = input->tiers[running->tier].rank;
	bool		ahead = search->rank < other;
	const DecideJob *job;

	if (search->account != running->account &&
		(search->rank == other || (ahead && search->job < 0)))
		return spare_by_right(cycle, running, elastic->spare);
	if (search->job < 0)
		return 0;
	job = &input->jobs[search->job];
	if (search->rank == other)
		ahead = job->priority != running->priority ?
			job->priority > running->priority :
			job->submitted != running->submitted ?
			job->submitted < running->submitted : job->id < running->id;
	return ahead ? elastic->spare : 0;
}

/*
 * The highest n of some devices, or all.
 */
static uint64_t
highest_devices(uint64_t devices, int32_t n)
{
	while (__builtin_popcountll(devices) > n)
		devices &= devices - 1;
	return devices;
}

/*
 * Release single devices, or take them again; cpu and memory stay.
 */
static void
devices_release(Cycle *cycle, int32_t host, uint64_t devices, bool give)
{
	DecidePart	part = {.devices = devices};

	DecideHostRelease(cycle, host, &part, 0, DECIDE_WHOLE, give);
}

/*
 * Release what elastic jobs can give on one host, or on all (-1).  Returns
 * the number of devices.
 */
int32_t
DecideShrinkRelease(Cycle *cycle, int32_t only)
{
	const DecideInput *input = cycle->input;
	ClaimState *claims = cycle->claims;
	int32_t		n = 0;
	int32_t		e;
	int32_t		i;

	DecideAssert(only >= -1 && only < cycle->n_hosts);
	DecideAssert(cycle->claims->n_given == 0);
	claims->n_given = 0;
	for (e = 0; e < claims->n_elastics && !claims->search.moving &&
		 !claims->search.no_shrinks; e++)
	{
		Elastic    *elastic = &claims->elastics[e];
		const DecideRunning *running = &input->running[elastic->running];
		int32_t		most;

		if (elastic->resized || elastic->spare == 0 ||
			(elastic->candidate >= 0 &&
			 claims->candidates[elastic->candidate].gone))
			continue;
		most = spare_for(cycle, elastic);
		for (i = 0; i < running->n_parts && most > 0; i++)
		{
			int32_t		p = claims->in_order[running->first_part + i];
			int32_t		host = claims->host_of[input->running_parts[p].node];
			uint64_t	devices = input->running_parts[p].devices;

			if ((only >= 0 && host != only) ||
				!DecideFitAllowed(&cycle->hosts[host], claims->search.request,
								  claims->search.offer))
				continue;
			devices = highest_devices(devices & cycle->hosts[host].usable,
									  most);
			claims->given[claims->n_given++] = (Given)
			{
				e, p, devices
			};
			claims->shrunk[p] = devices;
			elastic->spare -= __builtin_popcountll(devices);
			most -= __builtin_popcountll(devices);
			n += __builtin_popcountll(devices);
			DecideEntitleShrink(cycle, running,
								__builtin_popcountll(devices));
			devices_release(cycle, host, devices, true);
			DecideSearchUpdate(cycle, host);
		}
	}
	return n;
}

/*
 * Take some given devices again, or give them back.
 */
static void
take(Cycle *cycle, Given *given, uint64_t devices, bool back)
{
	ClaimState *claims = cycle->claims;
	Elastic    *elastic = &claims->elastics[given->elastic];
	int32_t		host =
	claims->host_of[cycle->input->running_parts[given->part].node];
	int32_t		n = __builtin_popcountll(devices);

	given->devices ^= devices;
	claims->shrunk[given->part] ^= devices;
	elastic->spare += back ? n : -n;
	DecideEntitleShrink(cycle, &cycle->input->running[elastic->running],
						back ? -n : n);
	devices_release(cycle, host, devices, !back);
	DecideSearchUpdate(cycle, host);
}

/*
 * Take all devices again that elastic jobs gave.
 */
void
DecideShrinkTake(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;

	DecideAssert(cycle->claims != NULL);
	DecideAssert(cycle->claims->n_given >= 0);
	for (; claims->n_given > 0; claims->n_given--)
		take(cycle, &claims->given[claims->n_given - 1],
			 claims->given[claims->n_given - 1].devices, true);
}

/*
 * Return to elastic jobs what the search does not need.  A job that leaves
 * anyway gives all it has.
 */
void
DecideShrinkFillBack(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	int32_t		g;

	DecideAssert(cycle->claims != NULL);
	DecideAssert(cycle->claims->n_ready > 0);
	for (g = claims->n_given - 1; g >= 0; g--)
	{
		Given	   *given = &claims->given[g];
		int32_t		candidate = claims->elastics[given->elastic].candidate;
		uint64_t	rest;

		if (candidate >= 0 && claims->candidates[candidate].given)
			continue;
		for (rest = given->devices; rest != 0; rest &= rest - 1)
		{
			uint64_t	device = rest & -rest;

			take(cycle, given, device, true);
			if (claims->n_ready == 0)
				take(cycle, given, device, false);
		}
	}
}

/*
 * Promise a running job the devices that it did not give.
 */
static bool
promise_rest(Cycle *cycle, const Elastic *elastic, int32_t given,
			 int32_t leader)
{
	const DecideInput *input = cycle->input;
	const DecideRunning *running = &input->running[elastic->running];
	DecidePromise *promise = DecidePromiseNew(cycle);
	int32_t		i;

	if (promise == NULL)
		return false;
	promise->running = elastic->running;
	promise->why = DECIDE_WHY_SHRINK;
	promise->leader = leader;
	promise->type = running->type;
	promise->share = running->share;
	promise->gpus = running->gpus - given;
	for (i = 0; i < running->n_parts; i++)
	{
		int32_t		p = cycle->claims->in_order[running->first_part + i];
		DecidePart	part = input->running_parts[p];

		part.devices &= ~cycle->claims->shrunk[p];
		part.gpus = __builtin_popcountll(part.devices);
		if (part.gpus > 0 && !DecidePromisePart(cycle, &part))
			return false;
	}
	return true;
}

/*
 * How many devices an elastic job gives in its entries, from first on; 0 if
 * it leaves as a whole.  *last: the entry after them.
 */
static int32_t
gives(const ClaimState *claims, int32_t first, int32_t *last)
{
	int32_t		e = claims->given[first].elastic;
	int32_t		candidate = claims->elastics[e].candidate;
	int32_t		n = 0;

	for (*last = first; *last < claims->n_given &&
		 claims->given[*last].elastic == e; ++*last)
		n += __builtin_popcountll(claims->given[*last].devices);
	return candidate >= 0 && claims->candidates[candidate].gone &&
		!claims->elastics[e].resized ? 0 : n;
}

/*
 * Tell the elastic jobs that give devices for a new claim, whose evictions
 * are the last so far, and promise them the rest.  Their hosts are then again
 * as they are now.  False: out of memory.
 */
static bool
shrinks_tell(Cycle *cycle, int32_t leader)
{
	ClaimState *claims = cycle->claims;
	int32_t		last;
	int32_t		g;

	for (g = 0; g < claims->n_given; g = last)
	{
		Elastic    *elastic = &claims->elastics[claims->given[g].elastic];
		const DecideRunning *running =
		&cycle->input->running[elastic->running];
		int32_t		n = gives(claims, g, &last);

		if (n == 0)
			continue;
		elastic->resized = true;
		if (elastic->candidate >= 0)
			claims->candidates[elastic->candidate].gone = true;
		DecideEntitleUse(cycle, running->account,
						 -DecideUsage(cycle->input, running->type, n,
									  DECIDE_WHOLE));
		if (!DecideEvictionAdd(cycle, elastic->running, DECIDE_WHY_SHRINK))
			return false;
		cycle->result->promises[leader].n_evictions++;
	}
	for (g = 0; g < claims->n_given; g = last)
	{
		const Elastic *elastic = &claims->elastics[claims->given[g].elastic];
		int32_t		n = gives(claims, g, &last);

		if (n > 0 && !promise_rest(cycle, elastic, n, leader))
			return false;
	}
	for (g = 0; g < claims->n_given; g++)
	{
		const Given *given = &claims->given[g];

		DecideEntitleShrink(cycle, &cycle->input->running
							[claims->elastics[given->elastic].running],
							-__builtin_popcountll(given->devices));
		devices_release(cycle, claims->host_of
						[cycle->input->running_parts[given->part].node],
						given->devices, false);
	}
	return true;
}

/*
 * Tell all jobs that leave for a promise: the one that grows (-1: none), the
 * chosen victims, elastic jobs that give devices.  *why: the right by which
 * the last victim leaves, if any.  False: out of memory.
 */
bool
DecideLeaversTell(Cycle *cycle, int32_t leader, int32_t grows, DecideWhy *why)
{
	ClaimState *claims = cycle->claims;

	DecideAssert(leader >= 0 && leader < cycle->result->n_promises);
	DecideAssert(grows >= -1 && grows < cycle->input->n_running);
	if ((grows >= 0 && !DecideEvictionAdd(cycle, grows, DECIDE_WHY_GROW)) ||
		!DecideEvictionsAddChosen(cycle, why))
		return false;
	cycle->result->promises[leader].n_evictions = (grows >= 0) +
		claims->n_chosen;
	if (!shrinks_tell(cycle, leader))
		return false;
	claims->n_given = 0;
	return true;
}
