/*
 * victims.c
 *	  Running jobs that may be made to leave, cheapest first.
 *
 * May be made to leave: what allows it, has run for its tier's least time, and
 * was not told to go yet.  By whom is a matter of tiers and of entitlements.
 * The cheapest is of the least important tier, loses the least work since its
 * last checkpoint, started last.
 */
#include <string.h>

#include "decide/claim.h"

/*
 * The work a running job would lose: device-thousandth-seconds since its last
 * checkpoint.
 */
static int64_t
running_lost(const DecideInput *input, const DecideRunning *running)
{
	int64_t		since = running->saved_at > running->started ?
		running->saved_at : running->started;
	int64_t		seconds = input->now > since ?
		(input->now - since) / 1000000 : 0;
	__int128	lost = (__int128) running->gpus * running->share * seconds;

	return lost > INT64_MAX / 1024 ? INT64_MAX / 1024 : (int64_t) lost;
}

/*
 * Compare two candidates by what their leaving costs.
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
 * May a running job be made to leave for capacity at all?
 */
static bool
may_leave(const DecideInput *input, const DecideRunning *running)
{
	return running->preemptible == DECIDE_PREEMPT_CAPACITY &&
		DecideRunningSettled(input, running);
}

/*
 * Does a job run, has it for its tier's least time, and nobody told it to go?
 */
bool
DecideRunningSettled(const DecideInput *input, const DecideRunning *running)
{
	return !running->leaving && !running->over && running->account >= 0 &&
		input->now > running->started &&
		input->now - running->started >= input->tiers[running->tier].min_run;
}

/*
 * Compare two running parts by host.
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
 * Could a running job do with fewer devices?
 */
bool
DecideElasticMayShrink(const DecideInput *input,
					   const DecideRunning *running)
{
	int32_t		p;

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
 * Could a running job go on where it is?
 */
bool
DecideElasticStays(const Cycle *cycle, const DecideRunning *running)
{
	const DecideInput *input = cycle->input;
	int32_t		p;

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
 * List who may leave, and who can do with less, in order.
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

			if (claims->n_ranks == 0 ||
				claims->ranks[claims->n_ranks - 1] != rank)
				claims->ranks[claims->n_ranks++] = rank;
			claims->by_running[order[i]] = claims->n_candidates;
			claims->candidates[claims->n_candidates++] = (Candidate)
			{
				.running = order[i],
					.rank = rank,
					.lost = running_lost(input, running),
					.amount = DecideUsage(input, running->type, running->gpus,
										  running->share)
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
 * List the candidates' parts by host, cheapest first.
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
 * Get ready to look for victims, once a cycle.  False: out of memory.
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
	claims->parts = DecideAlloc(arena, n, sizeof(DecidePart));
	claims->capacity = DecideAlloc(arena, n, sizeof(int32_t));
	claims->scope_of = DecideAlloc(arena, n, sizeof(int32_t));
	claims->scope_capacity = DecideAlloc(arena, n, sizeof(int64_t));
	claims->keys = DecideAlloc(arena, n, sizeof(uint64_t));
	claims->keys_spare = DecideAlloc(arena, n, sizeof(uint64_t));
	if (claims->shrunk == NULL || claims->in_order == NULL ||
		claims->given == NULL ||
		claims->saved == NULL || claims->chosen == NULL ||
		claims->best == NULL || claims->movers == NULL ||
		claims->parts == NULL || claims->capacity == NULL ||
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
 * May the job of the search make a candidate leave, and by what right?
 */
bool
DecideVictimMay(const Cycle *cycle, const Candidate *candidate,
				DecideWhy *why)
{
	const DecideInput *input = cycle->input;
	const Search *search = &cycle->claims->search;
	const DecideRunning *running = &input->running[candidate->running];

	if (candidate->gone || candidate->given || search->no_victims ||
		candidate->rank <= search->above)
		return false;
	*why = DecideVictimWhy(cycle, candidate);
	if (*why == DECIDE_WHY_TIER)
		return true;
	if (*why == DECIDE_WHY_MOVE)
		return search->rank <= candidate->rank && running->request >= 0;
	return input->policy.reclaim && search->rank <= candidate->rank &&
		DecideEntitleMay(cycle, search->account, search->amount,
						 running->account, candidate->amount);
}

/*
 * May the job of the search still take from all that are chosen, now that one
 * keeps what he has?  His own account, or one beside it, uses it again.
 */
bool
DecideVictimsEntitled(const Cycle *cycle, int32_t spared)
{
	const DecideInput *input = cycle->input;
	const ClaimState *claims = cycle->claims;
	const int32_t *root = cycle->queue->tree.use.root;
	const Search *search = &claims->search;
	int32_t		i;

	if (search->moving || !input->policy.reclaim ||
		root[input->running[claims->candidates[spared].running].account] !=
		root[search->account])
		return true;
	for (i = 0; i < claims->n_chosen; i++)
	{
		const Candidate *candidate = claims->chosen[i] < 0 ? NULL :
			&claims->candidates[claims->chosen[i]];

		if (candidate != NULL && candidate->given &&
			DecideVictimWhy(cycle, candidate) == DECIDE_WHY_ENTITLEMENT &&
			!DecideEntitleWithin(cycle, search->account, search->amount,
								 input->running[candidate->running].account))
			return false;
	}
	return true;
}

/*
 * Spare whom the search can do without, the dearest first; what is left of the
 * chosen is in order of cost.
 */
void
DecideVictimsFillBack(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	int32_t		kept = 0;
	int32_t		i;

	for (i = claims->n_chosen - 1; i >= 0; i--)
	{
		DecideVictimRelease(cycle, claims->chosen[i], false);
		if (claims->n_ready == 0 ||
			!DecideVictimsEntitled(cycle, claims->chosen[i]))
			DecideVictimRelease(cycle, claims->chosen[i], true);
		else
			claims->chosen[i] = -1;
	}
	for (i = 0; i < claims->n_chosen; i++)
	{
		if (claims->chosen[i] >= 0)
			claims->chosen[kept++] = claims->chosen[i];
	}
	claims->n_chosen = kept;
}

/*
 * What the leaving of some candidates costs.
 */
Cost
DecideVictimsCost(const Cycle *cycle, const int32_t *chosen, int32_t n)
{
	Cost		cost = {INT32_MAX, 0, n, INT64_MAX, 0, 0};
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		const Candidate *candidate = &cycle->claims->candidates[chosen[i]];
		const DecideRunning *running =
		&cycle->input->running[candidate->running];

		if (candidate->rank < cost.rank)
			cost.rank = candidate->rank;
		if (running->started < cost.oldest)
			cost.oldest = running->started;
		cost.gpus += running->gpus;
		cost.lost += candidate->lost;
		if (cost.lost > INT64_MAX / 2)
			cost.lost = INT64_MAX / 2;
	}
	return cost;
}

/*
 * Which of two sets of victims is the lesser evil: below 0, the first.
 */
int
DecideCostCompare(const Cost *a, const Cost *b)
{
	if (a->rank != b->rank)
		return a->rank > b->rank ? -1 : 1;
	if (a->lost != b->lost)
		return a->lost < b->lost ? -1 : 1;
	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	if (a->oldest != b->oldest)
		return a->oldest > b->oldest ? -1 : 1;
	if (a->shrunk != b->shrunk)
		return a->shrunk < b->shrunk ? -1 : 1;
	if (a->gpus != b->gpus)
		return a->gpus < b->gpus ? -1 : 1;
	return 0;
}

/*
 * Get ready to make claims, when the first is asked for.  False: out of memory.
 */
bool
DecideClaimsLoad(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;

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
	return true;
}
