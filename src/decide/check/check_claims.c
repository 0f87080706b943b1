/*
 * check_claims.c
 *	  Checks the new claims of a result, without sharing code with what made
 *	  them.
 *
 * Each eviction must be allowed, be for an existing claim, and occur once.
 * Then all that nodes give, to starts, old claims and new claims, is compared
 * with what they will have after all evicted jobs have left: node by node,
 * device by device.
 */
#include <string.h>

#include "decide/check/check.h"

typedef __int128 Wide;

typedef enum ItemKind
{
	ITEM_START, ITEM_CLAIM, ITEM_PROMISE, ITEM_MOVE, ITEM_EVICTED,
	ITEM_LEAVING				/* what jobs that are leaving already will
								 * return */
} ItemKind;

/* A part that a node gives to a job, or gets back. */
typedef struct GivenItem
{
	const DecidePart *part;
	int32_t		share;
	ItemKind	kind;
} GivenItem;

typedef struct Items
{
	GivenItem  *items;
	int32_t		n;
	int32_t		capacity;
} Items;

/*
 * Add parts to the list.  Returns false if memory runs out.
 */
static bool
items_add(const DecideArena *arena, Items *items, const DecidePart *parts,
		  int32_t n, GivenItem like)
{
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		items->items = DecideGrow(arena, items->items, items->n,
								  &items->capacity,
								  sizeof(GivenItem));
		if (items->items == NULL)
			return false;
		like.part = &parts[i];
		items->items[items->n++] = like;
	}
	return true;
}

/*----------
 * The order that puts what is on one node side by side:
 *
 * 1. node;
 * 2. place in the array.
 *----------
 */
static int
compare_items(const void *context, int32_t a, int32_t b)
{
	const GivenItem *items = context;

	if (items[a].part->node != items[b].part->node)
		return items[a].part->node < items[b].part->node ? -1 : 1;
	return a < b ? -1 : a > b;
}

/*
 * Whether a job starts.
 */
static bool
check_starts(const DecideResult *result, int32_t job)
{
	int32_t		i;

	for (i = 0; i < result->n_starts; i++)
	{
		if (result->starts[i].job == job)
			return true;
	}
	return false;
}

/*
 * Lists all parts that nodes give and get back.  A claim that started is
 * listed as its start.  Like any old claim it comes before all others; what a
 * new claim gets of the same device need not be free yet.
 */
static bool
items_collect(const DecideInput *input, const DecideResult *result,
			  const DecideArena *arena, Items *items)
{
	bool	   *claimed = DecideAlloc(arena, input->n_jobs, sizeof(bool));
	bool		fine = claimed != NULL;
	int32_t		i;

	for (i = 0; i < input->n_jobs && fine; i++)
		claimed[i] = false;
	for (i = 0; i < input->n_claims && fine; i++)
	{
		if (input->claims[i].job >= 0)
			claimed[input->claims[i].job] = true;
	}
	for (i = 0; i < result->n_starts && fine; i++)
	{
		const DecideStart *start = &result->starts[i];
		GivenItem	item = {NULL, start->share,
			claimed[start->job] ? ITEM_CLAIM : ITEM_START};

		fine = items_add(arena, items, &result->parts[start->first_part],
						 start->n_parts, item);
	}
	for (i = 0; i < input->n_claims && fine; i++)
	{
		const DecideClaim *claim = &input->claims[i];
		GivenItem	item = {NULL, claim->share, ITEM_CLAIM};

		if (claim->job < 0 || !check_starts(result, claim->job))
			fine = items_add(arena, items,
							 &input->claim_parts[claim->first_part],
							 claim->n_parts, item);
	}
	for (i = 0; i < input->n_running && input->n_claims > 0 && fine; i++)
	{
		const DecideRunning *running = &input->running[i];
		GivenItem	item = {NULL, running->share, ITEM_LEAVING};

		if (running->leaving)
			fine = items_add(arena, items,
							 &input->running_parts[running->first_part],
							 running->n_parts, item);
	}
	for (i = 0; i < result->n_promises && fine; i++)
	{
		const DecidePromise *promise = &result->promises[i];
		GivenItem	item = {NULL, promise->share, ITEM_PROMISE};

		if (promise->why == DECIDE_WHY_MOVE && promise->job < 0)
			item.kind = ITEM_MOVE;
		fine = items_add(arena, items,
						 &result->promise_parts[promise->first_part],
						 promise->n_parts, item);
	}
	for (i = 0; i < result->n_evictions && fine; i++)
	{
		const DecideRunning *running =
		&input->running[result->evictions[i].running];
		GivenItem	item = {NULL, running->share, ITEM_EVICTED};

		fine = items_add(arena, items,
						 &input->running_parts[running->first_part],
						 running->n_parts, item);
	}
	return fine;
}

/*
 * Whether the devices of a node will have the memory that their shares use.
 */
static bool
gpu_memory_suffices(const DecideNode *node, const Items *items,
					const int32_t *list, int32_t n)
{
	Wide		need[DECIDE_MAX_DEVICES] = {0};
	Wide		back[DECIDE_MAX_DEVICES] = {0};
	Wide		claimed[DECIDE_MAX_DEVICES] = {0};
	int32_t		i;
	int32_t		d;

	for (i = 0; i < n; i++)
	{
		const GivenItem *item = &items->items[list[i]];
		Wide		memory = item->part->gpu_memory_mib;

		for (d = 0; d < node->gpus; d++)
		{
			if (((item->part->devices >> d) & 1) == 0)
				continue;
			if (item->kind == ITEM_EVICTED)
				back[d] += memory;
			else if (item->kind == ITEM_CLAIM)
				claimed[d] += memory;
			else if (item->kind == ITEM_LEAVING)
				claimed[d] -= (node->usable >> d) & 1 ? memory : 0;
			else
				need[d] += memory;
		}
	}
	for (d = 0; d < node->gpus; d++)
	{
		Wide		left = (Wide) node->gpu_memory_mib -
			node->gpu_memory_used[d];

		if (left > 0 && claimed[d] > 0)
			left = left > claimed[d] ? left - claimed[d] : 0;
		if (need[d] > 0 && need[d] > left + back[d])
			return false;
	}
	return true;
}

/*
 * Returns a message that says what is wrong with what one node gives, or NULL
 * if nothing is wrong.
 */
static const char *
node_error(const DecideNode *node, const Items *items, const int32_t *list,
		   int32_t n)
{
	int32_t		left[DECIDE_MAX_DEVICES];
	int32_t		need[DECIDE_MAX_DEVICES] = {0};
	int32_t		back[DECIDE_MAX_DEVICES] = {0};
	int32_t		claimed[DECIDE_MAX_DEVICES] = {0};
	Wide		cpu = node->cpu_left;
	Wide		memory = node->memory_left;
	Wide		cpu_need = 0;
	Wide		memory_need = 0;
	Wide		cpu_claimed = 0;
	Wide		memory_claimed = 0;
	bool		cpu_promised = false;
	bool		memory_promised = false;
	int32_t		i;
	int32_t		d;

	for (d = 0; d < node->gpus; d++)
		left[d] = (node->usable >> d) & 1 ? node->device_left[d] : 0;
	for (i = 0; i < n; i++)
	{
		const GivenItem *item = &items->items[list[i]];
		uint64_t	rest = item->part->devices;

		for (; rest != 0; rest &= rest - 1)
		{
			d = __builtin_ctzll(rest);
			if (d >= node->gpus)
				continue;
			if (item->kind == ITEM_EVICTED)
				back[d] += item->share;
			else if (item->kind == ITEM_CLAIM)
				claimed[d] += item->share;
			else if (item->kind == ITEM_LEAVING)
				claimed[d] -= (node->usable >> d) & 1 ? item->share : 0;
			else
				need[d] += item->share;
			if (item->kind == ITEM_MOVE && left[d] < item->share)
				return "a job moves to a device that is not free";
		}
		if (item->kind == ITEM_CLAIM)
		{
			cpu_claimed += item->part->cpu_milli;
			memory_claimed += item->part->memory_mib;
		}
		else if (item->kind == ITEM_LEAVING)
		{
			cpu_claimed -= item->part->cpu_milli;
			memory_claimed -= item->part->memory_mib;
		}
		else if (item->kind == ITEM_EVICTED)
		{
			cpu_need -= item->part->cpu_milli;
			memory_need -= item->part->memory_mib;
		}
		else
		{
			cpu_need += item->part->cpu_milli;
			memory_need += item->part->memory_mib;
			cpu_promised |= item->kind != ITEM_START &&
				item->part->cpu_milli > 0;
			memory_promised |= item->kind != ITEM_START &&
				item->part->memory_mib > 0;
		}
	}
	for (d = 0; d < node->gpus; d++)
	{
		/* leaving jobs first return devices to old claims */
		int32_t		taken = claimed[d] > 0 ? claimed[d] : 0;
		int32_t		free = left[d] > taken ? left[d] - taken : 0;

		if (need[d] > 0 && need[d] > free + back[d])
			return "a device is promised twice, or not given back by anybody";
	}
	if (!gpu_memory_suffices(node, items, list, n))
		return "a device's memory is promised over what it will have";
	cpu_claimed = cpu_claimed > 0 ? cpu_claimed : 0;
	memory_claimed = memory_claimed > 0 ? memory_claimed : 0;

	/*
	 * If the node is overcommitted already, the victims must return the
	 * excess as well before the claim can use anything.
	 */
	if (cpu > 0)
		cpu = cpu > cpu_claimed ? cpu - cpu_claimed : 0;
	if (memory > 0)
		memory = memory > memory_claimed ? memory - memory_claimed : 0;
	if ((cpu_promised && node->cpu_milli > 0 && cpu_need > cpu) ||
		(memory_promised && node->memory_mib > 0 && memory_need > memory))
		return "a node's cpu or memory is promised over what it will have";
	return NULL;
}

/*
 * Verifies that nodes will have what is promised.
 */
static const char *
check_promised(const DecideInput *input, const DecideResult *result,
			   const DecideArena *arena)
{
	Items		items = {0};
	int32_t    *list;
	int32_t		first;
	int32_t		last;
	int32_t		i;

	if (!items_collect(input, result, arena, &items))
		return "out of memory";
	list = DecideAlloc(arena, items.n, sizeof(int32_t));
	if (list == NULL)
		return "out of memory";
	for (i = 0; i < items.n; i++)
		list[i] = i;
	if (!DecideSort(arena, list, items.n, compare_items, items.items))
		return "out of memory";
	for (first = 0; first < items.n; first = last)
	{
		int32_t		node = items.items[list[first]].part->node;
		const char *error;

		for (last = first + 1; last < items.n &&
			 items.items[list[last]].part->node == node; last++)
			;
		error = node_error(&input->nodes[node], &items, list + first,
						   last - first);
		if (error != NULL)
			return error;
	}
	return NULL;
}

/*
 * Returns a message that says what is wrong with evicting a running job for a
 * leader, or NULL if nothing is wrong.
 */
static const char *
eviction_error(const DecideInput *input, const DecidePromise *leader,
			   const DecideEviction *eviction)
{
	const DecideRunning *running;
	const DecideTier *tier;
	const DecideTier *taker;
	int32_t		account;

	if (eviction->running < 0 || eviction->running >= input->n_running)
		return "a job that does not run is told to go";
	running = &input->running[eviction->running];
	tier = &input->tiers[running->tier];
	if (running->leaving || running->over)
		return "a job is told to go twice";
	if (running->started >= input->now ||
		running->started > input->now - tier->min_run)
		return "a job is told to go before it has run long enough";
	if (leader->job < 0 && (leader->why != DECIDE_WHY_GROW ||
							leader->running < 0 ||
							leader->running >= input->n_running))
		return "a job is told to go for the sake of nobody";
	if ((eviction->why == DECIDE_WHY_GROW) !=
		(leader->job < 0 && leader->running == eviction->running))
		return "a job is told to go for the sake of nobody";
	account = leader->job >= 0 ? input->jobs[leader->job].account :
		input->running[leader->running].account;
	taker = &input->tiers[leader->job >= 0 ? input->jobs[leader->job].tier :
						  input->running[leader->running].tier];
	switch (eviction->why)
	{
		case DECIDE_WHY_TIER:
			if (!taker->can_preempt || taker->rank >= tier->rank ||
				leader->job < 0)
				return "a job is evicted for a tier that may not";
			break;
		case DECIDE_WHY_ENTITLEMENT:
			if (!input->policy.reclaim || taker->rank > tier->rank ||
				account == running->account)
				return "a job is evicted for an account that may not";
			break;
		case DECIDE_WHY_MOVE:
			if (!input->policy.consolidate || leader->job < 0)
				return "a job is moved where that is not wanted";
			break;
		case DECIDE_WHY_SHRINK:
			if (leader->job < 0 &&
				(!input->policy.reclaim || taker->rank > tier->rank ||
				 account == running->account))
				return "a job shrinks for an account that may not ask for it";
			return NULL;
		case DECIDE_WHY_GROW:
			if (input->policy.elastic_idle_delay == DECIDE_NEVER ||
				running->started > input->now -
				input->policy.elastic_idle_delay)
				return "a job grows before it has run long enough";
			return NULL;
	}
	return running->preemptible == DECIDE_PREEMPT_CAPACITY ? NULL :
		"a job is evicted that may not be";
}

/*
 * Returns a message that says what is wrong with the promise of a running job
 * that goes on, or NULL if nothing is wrong.
 */
static const char *
running_error(const DecideInput *input, const DecideResult *result,
			  const DecidePromise *promise)
{
	const DecidePromise *leader = &result->promises[promise->leader];
	const DecideRunning *running;
	int32_t		gpus = 0;
	int32_t		i;

	if (promise->running < 0 || promise->running >= input->n_running)
		return "devices are promised to no job";
	running = &input->running[promise->running];
	for (i = 0; i < leader->n_evictions; i++)
	{
		const DecideEviction *eviction =
		&result->evictions[leader->first_eviction + i];

		if (eviction->running == promise->running &&
			eviction->why == promise->why)
			break;
	}
	if (i == leader->n_evictions)
		return "a running job is promised devices and not told to go there";
	for (i = 0; i < promise->n_parts; i++)
	{
		const DecidePart *part =
		&result->promise_parts[promise->first_part + i];

		if (part->node < 0 || part->node >= input->n_nodes ||
			(part->gpus > 0 &&
			 input->nodes[part->node].type != running->type))
			return "a running job is promised devices of another type";
		if (__builtin_popcountll(part->devices) != part->gpus)
			return "a part's devices are not as many as it says";
		gpus += part->gpus;
	}
	if (gpus != promise->gpus || promise->share != running->share ||
		promise->type != running->type)
		return "a running job is promised something else than it says";
	if ((promise->why == DECIDE_WHY_MOVE && gpus != running->gpus) ||
		(promise->why == DECIDE_WHY_SHRINK &&
		 (gpus < running->min_gpus || gpus >= running->gpus)) ||
		(promise->why == DECIDE_WHY_GROW &&
		 (gpus > running->max_gpus || gpus <= running->gpus)))
		return "a running job is promised too many devices or too few";
	return NULL;
}

/*
 * Returns a message that says what is wrong with how a promise and its
 * evictions belong together, or NULL if nothing is wrong.
 */
static const char *
promise_error(const DecideInput *input, const DecideResult *result,
			  int32_t index)
{
	const DecidePromise *promise = &result->promises[index];
	int32_t		follows = 0;
	int32_t		own = 0;
	int32_t		i;

	if (promise->leader < 0 || promise->leader > index ||
		result->promises[promise->leader].leader != promise->leader)
		return "a promise has no leader";
	if (promise->leader != index && promise->n_evictions > 0)
		return "jobs are told to go for one that does not lead";
	if (promise->job >= 0 && promise->leader != index)
		return "a waiting job does not lead its own claim";
	for (i = 0; i < promise->n_evictions; i++)
	{
		const DecideEviction *eviction =
		&result->evictions[promise->first_eviction + i];
		const char *error = eviction_error(input, promise, eviction);

		if (error != NULL)
			return error;
		own += eviction->why != DECIDE_WHY_TIER &&
			eviction->why != DECIDE_WHY_ENTITLEMENT;
	}
	for (i = 0; i < result->n_promises; i++)
		follows += result->promises[i].leader == index &&
			result->promises[i].job < 0;
	if (promise->leader == index && own != follows)
		return "a job is told to go on elsewhere, and is not promised where";
	return promise->job >= 0 ? NULL : running_error(input, result, promise);
}

/*
 * Verifies that promises and evictions are listed once each.
 */
static const char *
lists_error(const DecideInput *input, const DecideResult *result,
			const DecideArena *arena)
{
	bool	   *seen = DecideAlloc(arena, input->n_running, sizeof(bool));
	int32_t		next_part = 0;
	int32_t		next_eviction = 0;
	int32_t		i;

	if (seen == NULL)
		return "out of memory";
	if (input->n_running > 0)
		memset(seen, 0, (size_t) input->n_running * sizeof(bool));
	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *promise = &result->promises[i];

		if (promise->first_part != next_part || promise->n_parts < 1)
			return "the promises' parts overlap or leave a gap";
		next_part += promise->n_parts;
		if (promise->n_evictions > 0 &&
			promise->first_eviction != next_eviction)
			return "the promises' evictions overlap or leave a gap";
		if (promise->leader == i && next_eviction >= input->max_evictions)
			return "a claim is made after as many evictions as may be";
		next_eviction += promise->n_evictions;
	}
	if (next_part != result->n_promise_parts ||
		next_eviction != result->n_evictions)
		return "somebody is told to go, or promised something, for nobody";
	for (i = 0; i < result->n_evictions; i++)
	{
		int32_t		running = result->evictions[i].running;

		if (running < 0 || running >= input->n_running)
			return "a job that does not run is told to go";
		if (seen[running])
			return "a job is told to go twice";
		seen[running] = true;
	}
	return NULL;
}

/*
 * Verifies that a job has at most one claim, and does not start as well.
 */
static const char *
jobs_error(const DecideInput *input, const DecideResult *result,
		   const DecideArena *arena)
{
	bool	   *seen = DecideAlloc(arena, input->n_jobs, sizeof(bool));
	int32_t		i;

	if (seen == NULL)
		return "out of memory";
	if (input->n_jobs > 0)
		memset(seen, 0, (size_t) input->n_jobs * sizeof(bool));
	for (i = 0; i < input->n_claims; i++)
	{
		if (input->claims[i].job >= 0)
			seen[input->claims[i].job] = true;
	}
	for (i = 0; i < result->n_promises; i++)
	{
		int32_t		job = result->promises[i].job;

		if (job < 0)
			continue;
		if (job >= input->n_jobs || seen[job])
			return "a job has two claims, or is not there";
		seen[job] = true;
		if (check_starts(result, job))
			return "a job starts and is promised devices";
	}
	return NULL;
}

/*
 * Verifies new claims, and that starts do not use the devices of old claims.
 */
const char *
DecideCheckClaims(const DecideInput *input, const DecideResult *result,
				  const DecideArena *arena)
{
	const char *error;
	int32_t		i;

	DecideAssert(input != NULL && result != NULL);
	DecideAssert(arena != NULL);
	if (result->n_promises < 0 || result->n_promise_parts < 0 ||
		result->n_evictions < 0)
		return "a number of promises or evictions is negative";
	if (result->n_promises == 0 && input->n_claims == 0)
		return result->n_evictions == 0 ? NULL :
			"somebody is told to go for nobody";
	error = lists_error(input, result, arena);
	if (error == NULL)
		error = jobs_error(input, result, arena);
	for (i = 0; i < result->n_promises && error == NULL; i++)
		error = promise_error(input, result, i);
	if (error == NULL)
		error = check_promised(input, result, arena);
	return error;
}
