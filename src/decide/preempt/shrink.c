/*
 * shrink.c
 *	  Elastic jobs give devices before any job is evicted.
 *
 * A running elastic job can give devices, down to its minimum, to a job that
 * goes before it: to one of a more important tier, of the same account with an
 * earlier turn, or of an account that may get devices of its account by
 * entitlement.  It keeps its cpu and memory, so a job with cpu or memory on
 * several nodes gives no devices.
 */

#include "decide/preempt/claim_state.h"

/*
 * The number of devices that an elastic job gives to another account by
 * entitlement.  Its account never keeps less than its entitlement, including
 * what its other jobs give.
 */
static int32_t
spare_by_right(Cycle *cycle, const DecideRunning *running, int32_t spare)
{
	bool		under = cycle->claims->search.under;
	bool		rounding = cycle->claims->search.rounding;
	int32_t		low = 0;

	cycle->claims->search.under = cycle->claims->search.rounding = false;
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
	cycle->claims->search.rounding = rounding;
	cycle->claims->search.shrinking = false;
	return low;
}

/*
 * The number of devices that an elastic job gives to the search's job: 0 if
 * its own turn would be earlier.  To a job that grows it gives devices only by
 * entitlement.
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
 * The highest n devices of a mask, or all if there are fewer.
 */
static uint64_t
highest_devices(uint64_t devices, int32_t n)
{
	while (__builtin_popcountll(devices) > n)
		devices &= devices - 1;
	return devices;
}

/*
 * Releases single devices, or with give false undoes this; cpu and memory stay
 * allocated.
 */
static void
devices_release(Cycle *cycle, int32_t host, uint64_t devices, bool give)
{
	DecidePart	part = {.devices = devices};

	DecideHostRelease(cycle, host, &part, 0, DECIDE_WHOLE, give);
}

/*
 * Releases the devices that elastic jobs can give on one host, or on all hosts
 * (-1).  Returns the number of devices.
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
 * Returns devices to the elastic job that gave them (back true), or undoes
 * this.
 */
static void
move_devices(Cycle *cycle, Given *given, uint64_t devices, bool back)
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
 * Undoes the release of all devices that elastic jobs give.
 */
void
DecideShrinkUndo(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;

	DecideAssert(cycle->claims != NULL);
	DecideAssert(cycle->claims->n_given >= 0);
	for (; claims->n_given > 0; claims->n_given--)
		move_devices(cycle, &claims->given[claims->n_given - 1],
					 claims->given[claims->n_given - 1].devices, true);
}

/*
 * Returns to elastic jobs the devices that the search does not need.  A job
 * that is evicted anyway gives all it has.
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

			move_devices(cycle, given, device, true);
			if (claims->n_ready == 0)
				move_devices(cycle, given, device, false);
		}
	}
}

/*
 * Promises a running job the devices that it did not give.  Returns false if
 * memory runs out.
 */
static bool
promise_remaining(Cycle *cycle, const Elastic *elastic, int32_t given,
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
 * The number of devices that an elastic job gives in its entries, from first
 * on; 0 if it leaves as a whole.  *last is set to the entry after them.
 */
static int32_t
devices_lost(const ClaimState *claims, int32_t first, int32_t *last)
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
 * Adds the evictions of the elastic jobs that give devices for a new claim,
 * behind the claim's other evictions, and promises them their remaining
 * devices.  Then undoes the release of the given devices.  Returns false if
 * memory runs out.
 */
static bool
shrinks_add(Cycle *cycle, int32_t leader)
{
	ClaimState *claims = cycle->claims;
	int32_t		last;
	int32_t		g;

	for (g = 0; g < claims->n_given; g = last)
	{
		Elastic    *elastic = &claims->elastics[claims->given[g].elastic];
		const DecideRunning *running =
		&cycle->input->running[elastic->running];
		int32_t		n = devices_lost(claims, g, &last);

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
		int32_t		n = devices_lost(claims, g, &last);

		if (n > 0 && !promise_remaining(cycle, elastic, n, leader))
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
 * Adds the evictions of all jobs that leave for a promise: the one that grows
 * (-1 if there is none), the chosen victims, and elastic jobs that give
 * devices.  *why is set to the right by which the last victim leaves, if there
 * is one.  Returns false if memory runs out.
 */
bool
DecideEvictionsAdd(Cycle *cycle, int32_t leader, int32_t grows, DecideWhy *why)
{
	ClaimState *claims = cycle->claims;

	DecideAssert(leader >= 0 && leader < cycle->result->n_promises);
	DecideAssert(grows >= -1 && grows < cycle->input->n_running);
	if ((grows >= 0 && !DecideEvictionAdd(cycle, grows, DECIDE_WHY_GROW)) ||
		!DecideEvictionsAddChosen(cycle, why))
		return false;
	cycle->result->promises[leader].n_evictions = (grows >= 0) +
		claims->n_chosen;
	if (!shrinks_add(cycle, leader))
		return false;
	claims->n_given = 0;
	return true;
}
