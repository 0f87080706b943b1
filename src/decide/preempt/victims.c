/*
 * victims.c
 *	  Lists the running jobs that could leave, cheapest first, and releases
 *	  their devices in a search.
 *
 * A candidate is preemptible, has run for its tier's min_run, and was not told
 * to leave yet.  Tiers and entitlements decide for which jobs it leaves.  The
 * cheapest candidate is of the least important tier, then loses the least work
 * since its last checkpoint, then started last.
 *
 * A search releases the devices of candidates, and counts the scopes that then
 * have enough room.
 */
#include <string.h>

#include "decide/preempt/claim_state.h"

/*
 * Releases all that a candidate has, or with give false allocates it again.
 */
void
DecideVictimRelease(Cycle *cycle, int32_t index, bool give)
{
	const DecideInput *input = cycle->input;
	ClaimState *claims = cycle->claims;
	Candidate  *candidate = &claims->candidates[index];
	const DecideRunning *running = &input->running[candidate->running];
	int32_t		p;

	DecideAssert(index >= 0 && index < cycle->claims->n_candidates);
	DecideAssert(cycle->claims->candidates[index].given != give);
	candidate->given = give;
	if (!claims->search.moving)
		DecideEntitleUse(cycle, running->account,
						 give ? -candidate->amount : candidate->amount);
	for (p = running->first_part; p < running->first_part + running->n_parts;
		 p++)
	{
		const DecidePart *part = &input->running_parts[p];
		int32_t		host = claims->host_of[part->node];

		DecideHostRelease(cycle, host, part, claims->shrunk[p], running->share,
						  give);
		DecideSearchUpdate(cycle, host);
	}
}

/*
 * A host's capacity for the search's request.
 */
static int32_t
capacity_of(const Cycle *cycle, int32_t index)
{
	const Search *search = &cycle->claims->search;
	const Host *host = &cycle->hosts[index];

	if (!DecideFitAllowed(host, search->request, search->offer))
		return 0;
	if (search->whole)
		return DecideFitGang(host, search->request, search->count);
	return DecideFitLess(DecideFitKey(cycle, host, search->request,
									  search->offer,
									  search->request->min_gpus),
						 FIT_NONE);
}

/*
 * Computes the capacity of a host and its scope again after the host has
 * changed.
 */
void
DecideSearchUpdate(Cycle *cycle, int32_t host)
{
	ClaimState *claims = cycle->claims;
	int32_t		scope = claims->scope_of[host];
	int64_t    *capacity;
	bool		ready;

	DecideAssert(cycle->claims != NULL);
	DecideAssert(host >= 0 && host < cycle->n_hosts);
	if (scope < 0)
		return;
	capacity = &claims->scope_capacity[scope];
	ready = *capacity >= claims->search.count;
	*capacity -= claims->capacity[host];
	claims->capacity[host] = capacity_of(cycle, host);
	*capacity += claims->capacity[host];
	claims->n_ready += (*capacity >= claims->search.count) - ready;
}

/*
 * The work that a running job would lose: device-thousandth-seconds since its
 * last checkpoint.  A job that was evicted before counts an hour more after
 * its first eviction, and twice as much more for each further one, so that
 * each eviction makes the next one more expensive.
 */
#define EVICTED_SECONDS	INT64_C(3600)

static int64_t
running_lost(const DecideInput *input, const DecideRunning *running)
{
	int64_t		since = running->saved_at > running->started ?
		running->saved_at : running->started;
	int64_t		seconds = input->now > since ?
		(input->now - since) / 1000000 : 0;
	int32_t		evictions = running->evictions < 10 ? running->evictions : 10;
	__int128	lost;

	seconds += EVICTED_SECONDS * ((INT64_C(1) << evictions) - 1);
	lost = (__int128) running->gpus * running->share * seconds;

	return lost > INT64_MAX / 1024 ? INT64_MAX / 1024 : (int64_t) lost;
}

/*
 * What the eviction of a running job for another account's entitlement costs:
 * a restart.  Earlier evictions make it more expensive, but no more than the
 * number after which a job is protected anyway.  Lost work does not count,
 * because a tenant could make its jobs expensive by never saving.
 */
static int64_t
running_price(const DecideInput *input, const DecideRunning *running)
{
	int32_t		evictions = running->evictions < DECIDE_MOST_RECLAIMED ?
		running->evictions : DECIDE_MOST_RECLAIMED;
	int64_t		seconds = input->policy.restart_cost / 1000000 +
		EVICTED_SECONDS * ((INT64_C(1) << evictions) - 1);

	return (int64_t) running->gpus * running->share * seconds;
}

/*----------
 * The order in which victims are tried, the cheapest first:
 *
 * 1. rank of the tier, the least important first;
 * 2. work lost since the last checkpoint;
 * 3. start, the latest first;
 * 4. organisation, by name;
 * 5. number of the job.
 *----------
 */
static int
compare_candidates(const void *context, int32_t a, int32_t b)
{
	const Cycle *cycle = context;
	const DecideRunning *x = &cycle->input->running[a];
	const DecideRunning *y = &cycle->input->running[b];
	int32_t		rank_x = cycle->input->tiers[x->tier].rank;
	int32_t		rank_y = cycle->input->tiers[y->tier].rank;
	int64_t		lost_x = running_lost(cycle->input, x);
	int64_t		lost_y = running_lost(cycle->input, y);
	int			order;

	if (rank_x != rank_y)
		return rank_x > rank_y ? -1 : 1;
	if (lost_x != lost_y)
		return lost_x < lost_y ? -1 : 1;
	if (x->started != y->started)
		return x->started > y->started ? -1 : 1;
	order = strcmp(x->org, y->org);
	if (order != 0)
		return order;
	return x->id < y->id ? -1 : x->id > y->id;
}

/*
 * Whether a running job may be evicted for capacity now.
 */
static bool
may_leave(const DecideInput *input, const DecideRunning *running)
{
	return running->preemptible == DECIDE_PREEMPT_CAPACITY &&
		DecideRunningSettled(input, running);
}

/*
 * Compares two running parts by host.
 */
static int
compare_parts(const void *context, int32_t a, int32_t b)
{
	const Cycle *cycle = context;
	const DecidePart *parts = cycle->input->running_parts;
	int32_t		x = cycle->claims->host_of[parts[a].node];
	int32_t		y = cycle->claims->host_of[parts[b].node];

	return x < y ? -1 : x > y;
}

/*
 * Whether a running job could continue with fewer devices.
 */
bool
DecideElasticMayShrink(const DecideInput *input,
					   const DecideRunning *running)
{
	int32_t		p;

	DecideAssert(running != NULL);
	DecideAssert(running->n_parts > 0);
	if (running->type == DECIDE_NO_TYPE || running->share < DECIDE_WHOLE ||
		running->gpus <= running->min_gpus ||
		running->min_gpus == running->max_gpus ||
		!DecideRunningSettled(input, running))
		return false;
	for (p = running->first_part; running->n_parts > 1 &&
		 p < running->first_part + running->n_parts; p++)
	{
		if (input->running_parts[p].cpu_milli > 0 ||
			input->running_parts[p].memory_mib > 0)
			return false;
	}
	return true;
}

/*
 * Whether a running job could continue on its nodes.
 */
bool
DecideElasticStays(const Cycle *cycle, const DecideRunning *running)
{
	const DecideInput *input = cycle->input;
	int32_t		p;

	DecideAssert(cycle->claims != NULL);
	DecideAssert(running->n_parts > 0);
	for (p = running->first_part; p < running->first_part + running->n_parts;
		 p++)
	{
		const DecidePart *part = &input->running_parts[p];
		const Host *host = &cycle->hosts[cycle->claims->host_of[part->node]];

		if (!host->open || (part->devices & ~host->usable) != 0 ||
			(host->spot && running->preemptible == DECIDE_PREEMPT_NEVER) ||
			(part->cpu_milli > 0 && host->cpu_over > 0) ||
			(part->memory_mib > 0 && host->memory_over > 0))
			return false;
	}
	return true;
}

/*
 * Lists candidates and elastic jobs, in order.  Returns false if memory runs
 * out.
 */
static bool
list_running(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	ClaimState *claims = cycle->claims;
	int32_t    *order = DecideAlloc(cycle->arena, input->n_running,
									sizeof(int32_t));
	int32_t		i;
	int32_t		p;

	claims->ranks = DecideAlloc(cycle->arena, input->n_tiers,
								sizeof(int32_t));
	claims->candidates = DecideAlloc(cycle->arena, input->n_running,
									 sizeof(Candidate));
	claims->elastics = DecideAlloc(cycle->arena, input->n_running,
								   sizeof(Elastic));
	claims->by_running = DecideAlloc(cycle->arena, input->n_running,
									 sizeof(int32_t));
	if (order == NULL || claims->ranks == NULL || claims->candidates == NULL ||
		claims->elastics == NULL || claims->by_running == NULL)
		return false;
	claims->least_price = INT64_MAX;
	claims->least_amount = INT64_MAX;
	for (i = 0; i < input->n_running; i++)
		order[i] = i;
	if (!DecideSort(cycle->arena, order, input->n_running,
					compare_candidates, cycle))
		return false;
	for (i = 0; i < input->n_running; i++)
	{
		const DecideRunning *running = &input->running[order[i]];

		claims->by_running[order[i]] = -1;
		if (may_leave(input, running))
		{
			int32_t		rank = input->tiers[running->tier].rank;
			int64_t		price = running_price(input, running);
			int64_t		amount = DecideUsage(input, running->type,
											 running->gpus,
											 DecideRunningCounted(running));

			if (DecideReclaimable(input, running) &&
				price < claims->least_price)
				claims->least_price = price;
			if (claims->n_ranks == 0 ||
				claims->ranks[claims->n_ranks - 1] != rank)
				claims->ranks[claims->n_ranks++] = rank;
			if (amount < claims->least_amount)
				claims->least_amount = amount;
			claims->by_running[order[i]] = claims->n_candidates;
			claims->candidates[claims->n_candidates++] = (Candidate)
			{
				.running = order[i],
					.rank = rank,
					.lost = running_lost(input, running),
					.price = price,
					.amount = amount
			};
		}
		if (!DecideElasticMayShrink(input, running) ||
			!DecideElasticStays(cycle, running))
			continue;
		claims->elastics[claims->n_elastics++] = (Elastic)
		{
			.running = order[i],
				.candidate = claims->by_running[order[i]],
				.spare = running->gpus - running->min_gpus
		};
		for (p = 0; p < running->n_parts; p++)
			claims->in_order[running->first_part + p] = running->first_part +
				p;
		if (!DecideSort(cycle->arena, claims->in_order + running->first_part,
						running->n_parts, compare_parts, cycle))
			return false;
	}
	return true;
}

/*
 * Lists the candidates' parts by host, cheapest first.  Returns false if
 * memory runs out.
 */
static bool
list_holders(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	ClaimState *claims = cycle->claims;
	int32_t    *next = DecideAlloc(cycle->arena, (int64_t) cycle->n_hosts + 1,
								   sizeof(int32_t));
	int64_t		n = 0;
	int32_t		i;
	int32_t		p;

	claims->first_holder = DecideAlloc(cycle->arena,
									   (int64_t) cycle->n_hosts + 1,
									   sizeof(int32_t));
	if (next == NULL || claims->first_holder == NULL)
		return false;
	memset(next, 0, ((size_t) cycle->n_hosts + 1) * sizeof(int32_t));
	for (i = 0; i < claims->n_candidates; i++)
	{
		const DecideRunning *running =
		&input->running[claims->candidates[i].running];

		n += running->n_parts;
		for (p = 0; p < running->n_parts; p++)
			next[claims->host_of[input->running_parts
								 [running->first_part + p].node] + 1]++;
	}
	for (i = 0; i < cycle->n_hosts; i++)
		next[i + 1] += next[i];
	memcpy(claims->first_holder, next,
		   ((size_t) cycle->n_hosts + 1) * sizeof(int32_t));
	claims->holders = DecideAlloc(cycle->arena, n, sizeof(Holder));
	if (claims->holders == NULL)
		return false;
	for (i = 0; i < claims->n_candidates; i++)
	{
		const DecideRunning *running =
		&input->running[claims->candidates[i].running];

		for (p = running->first_part;
			 p < running->first_part + running->n_parts; p++)
			claims->holders[next[claims->host_of
								 [input->running_parts[p].node]]++] =
				(Holder)
		{
			i, p
		};
	}
	return true;
}

/*
 * Allocates and fills what a search for victims needs, once a cycle.  Returns
 * false if memory runs out.
 */
static bool
victims_load(Cycle *cycle)
{
	const DecideArena *arena = cycle->arena;
	const DecideInput *input = cycle->input;
	ClaimState *claims = cycle->claims;
	int32_t		n = cycle->n_hosts;

	claims->shrunk = DecideAlloc(arena, input->n_running_parts,
								 sizeof(uint64_t));
	claims->in_order = DecideAlloc(arena, input->n_running_parts,
								   sizeof(int32_t));
	claims->given = DecideAlloc(arena, input->n_running_parts,
								sizeof(Given));
	claims->saved = DecideAlloc(arena, n, sizeof(Host));
	claims->chosen = DecideAlloc(arena, input->n_running, sizeof(int32_t));
	claims->best = DecideAlloc(arena, input->n_running, sizeof(int32_t));
	claims->movers = DecideAlloc(arena, input->n_running, sizeof(int32_t));
	claims->capacity = DecideAlloc(arena, n, sizeof(int32_t));
	claims->scope_of = DecideAlloc(arena, n, sizeof(int32_t));
	claims->scope_capacity = DecideAlloc(arena, n, sizeof(int64_t));
	claims->keys = DecideAlloc(arena, n, sizeof(uint64_t));
	claims->keys_spare = DecideAlloc(arena, n, sizeof(uint64_t));
	if (claims->shrunk == NULL || claims->in_order == NULL ||
		claims->given == NULL ||
		claims->saved == NULL || claims->chosen == NULL ||
		claims->best == NULL || claims->movers == NULL ||
		claims->capacity == NULL ||
		claims->scope_of == NULL || claims->scope_capacity == NULL ||
		claims->keys == NULL || claims->keys_spare == NULL)
		return false;
	if (input->n_running_parts > 0)
		memset(claims->shrunk, 0,
			   (size_t) input->n_running_parts * sizeof(uint64_t));
	return DecideGangPrepare(cycle) && list_running(cycle) &&
		list_holders(cycle) && DecideEntitleLoad(cycle);
}

/*
 * Prepares for making claims, when the first job needs one.  Returns false if
 * memory runs out.
 */
bool
DecideClaimsLoad(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;

	DecideAssert(cycle->claims != NULL);
	DecideAssert(!cycle->reserving);
	if (claims->loaded)
		return true;
	claims->tried_size = 16;
	while (claims->tried_size < (uint64_t) cycle->input->n_jobs * 2)
		claims->tried_size *= 2;
	claims->tried = DecideAlloc(cycle->arena, (int64_t) claims->tried_size,
								sizeof(int32_t));
	claims->waiting = DecideAlloc(cycle->arena, cycle->input->n_jobs,
								  sizeof(int32_t));
	if (claims->tried == NULL || claims->waiting == NULL ||
		!victims_load(cycle))
		return false;
	memset(claims->tried, 0xFF, claims->tried_size * sizeof(int32_t));
	claims->loaded = true;
	cycle->unsettled = cycle->input->policy.reclaim || claims->elastic;
	return true;
}
