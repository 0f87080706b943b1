/*
 * make_room.c
 *	  Running jobs that make room and go on, on other or on fewer devices; and
 *	  the rows that tell who goes.
 */
#include <string.h>

#include "decide/preempt/claim_state.h"

/*
 * A new claim: which devices exactly, who leaves for it, and the rows that
 * say so.
 */

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
 * A promise more, without parts yet.  NULL: out of memory.
 */
DecidePromise *
DecidePromiseAdd(Cycle *cycle)
{
	DecideResult *result = cycle->result;
	DecidePromise *promise;

	DecideAssert(cycle->claims != NULL);
	DecideAssert(!cycle->reserving);
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
static bool
promise_part(Cycle *cycle, const DecidePart *part)
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

	DecideAssert(plan->n > 0);
	DecideAssert(cycle->result->n_promises > 0);
	for (i = 0; order != NULL && i < plan->n; i++)
	{
		DecidePart	part;

		DecideStartPart(cycle, request, plan->hosts[order[i]],
						plan->gpus[order[i]], count, &part);
		if (!promise_part(cycle, &part))
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

	DecideAssert(running >= 0 && running < cycle->input->n_running);
	DecideAssert(cycle->result->n_promises > 0);
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

	DecideAssert(why != NULL);
	DecideAssert(cycle->claims->n_chosen >= 0);
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

/*
 * Elastic jobs that give devices rather than that anybody is evicted.
 *
 * A running job of a range can do with fewer devices, down to its least, for a
 * job ahead of it: one of a more important tier, one of the same account whose
 * turn would be before it, or one of an account that may take from its own by
 * what both are entitled to.  Its cpu and memory stay what they are, so one
 * that asked for any and is on several nodes keeps its devices.
 */

/*
 * How many devices an elastic job gives to another account, as far as both are
 * entitled: one by one, so that its account never keeps less than it is due,
 * beside what others of it give.
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
 * How many devices an elastic job gives to that of the search; none, if it
 * would have its turn before it.  To one that grows it gives only by right.
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
 * Give back what elastic jobs can do without on one host, or on all (-1).
 * Returns how many devices that is.
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
			DecideHostReleaseDevices(cycle, host, devices, true);
			DecideSearchUpdate(cycle, host);
		}
	}
	return n;
}

/*
 * Take some of what was given again.
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
	DecideHostReleaseDevices(cycle, host, devices, !back);
	DecideSearchUpdate(cycle, host);
}

/*
 * Take all that elastic jobs gave again.
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
 * Leave elastic jobs what the search can do without.  One that leaves anyway
 * gives all it has.
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
 * A running job goes on with the devices it did not give.
 */
static bool
promise_rest(Cycle *cycle, const Elastic *elastic, int32_t given,
			 int32_t leader)
{
	const DecideInput *input = cycle->input;
	const DecideRunning *running = &input->running[elastic->running];
	DecidePromise *promise = DecidePromiseAdd(cycle);
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
		if (part.gpus > 0 && !promise_part(cycle, &part))
			return false;
	}
	return true;
}

/*
 * How many devices the elastic job of an entry gives, in this entry and those
 * after it; none when it leaves as a whole.  *last: the entry after them.
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
 * Tell the elastic jobs that give devices for a new claim, whose evictions are
 * the last so far, and promise them the rest.  Their hosts are then again as
 * they are now.  False: out of memory.
 */
bool
DecideShrinksTell(Cycle *cycle, int32_t leader)
{
	ClaimState *claims = cycle->claims;
	int32_t		last;
	int32_t		g;

	DecideAssert(leader >= 0 && leader < cycle->result->n_promises);
	DecideAssert(cycle->claims->n_given >= 0);
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
		DecideHostReleaseDevices(cycle, claims->host_of
								 [cycle->input->running_parts[given->part].node],
								 given->devices, false);
	}
	return true;
}

/*
 * Consolidation: running jobs that make room by going on elsewhere.
 *
 * A mover goes only to devices that are free now and that the job it makes
 * room for does not take, so its claim is free from the first, and nobody is
 * left without a place.  The largest goes first.
 */

#define MOST_TRIALS	64			/* for one job and offer */

/*
 * What a mover requests: what it has, with the same type.
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
 * Find the chosen movers places on the hosts as they are now, and promise them
 * these; leader >= 0: for good, with the rows that say so.  False: one has
 * none (or out of memory).
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
		if (leader >= 0)
		{
			promise = DecidePromiseAdd(cycle);
			if (promise == NULL)
				return false;
			promise->running = index;
			promise->why = DECIDE_WHY_MOVE;
			promise->leader = leader;
			promise->type = running->type;
			promise->gpus = running->gpus;
			promise->share = running->share;
			if (!DecidePromisePlan(cycle, &request, running->gpus, plan))
				return false;
		}
		for (p = 0; p < plan->n; p++)
		{
			DecidePart	part;

			DecideStartPart(cycle, &request, plan->hosts[p], plan->gpus[p],
							running->gpus, &part);
			DecideHostTake(cycle, plan->hosts[p], &part, request.share);
		}
	}
	return true;
}

/*
 * Remember the hosts, or put them back.
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
 * Put the chosen in order of size, the largest first.
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
 * Would the job of the search and all chosen movers have a place?  Everything
 * is then as it was.
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
	for (i = 0; i < n; i++)
		DecideStartPart(cycle, search->request, plan->hosts[i], plan->gpus[i],
						search->request->min_gpus, &parts[i]);
	hosts_save(cycle, true);
	for (i = 0; i < claims->n_chosen; i++)
		DecideVictimRelease(cycle, claims->chosen[i], false);
	for (i = 0; i < n; i++)
		DecideHostPromise(cycle, claims->host_of[parts[i].node], &parts[i],
						  search->request->share, NULL);
	fit = movers_place(cycle, -1);
	hosts_save(cycle, false);
	for (i = 0; i < claims->n_chosen; i++)
		DecideVictimCapacity(cycle, claims->chosen[i]);
	return fit;
}

/*
 * Promise the chosen movers their places, once the leader has its.  False: out
 * of memory.
 */
bool
DecideDefragmentAdd(Cycle *cycle, int32_t leader)
{
	DecideAssert(leader >= 0 && leader < cycle->result->n_promises);
	DecideAssert(cycle->claims->search.moving);
	movers_order(cycle);
	return movers_place(cycle, leader);
}
