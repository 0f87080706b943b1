/*
 * check_claims.c
 *	  Are the new claims of a result right?  By code that shares nothing with
 *	  what made them.
 *
 * Who is told to go may be told so, for a claim that is there, and only once.
 * What nodes give is another file's (check_given.c).
 */
#include <string.h>

#include "decide/core.h"

/*
 * Did a job start?
 */
bool
DecideCheckStarts(const DecideResult *result, int32_t job)
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
 * What is wrong with telling a running job to go for a leader's sake, or NULL.
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
 * What is wrong with where a running job is to go on, or NULL.
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
 * What is wrong with how promises and evictions belong together, or NULL.
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
 * Verify that promises and evictions list what they say, each once.
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
 * Verify that a job has one claim at most, and does not start as well.
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
		if (DecideCheckStarts(result, job))
			return "a job starts and is promised devices";
	}
	return NULL;
}

/*
 * Verify new claims, and that starts leave old ones alone.
 */
const char *
DecideCheckClaims(const DecideInput *input, const DecideResult *result,
				  const DecideArena *arena)
{
	const char *error;
	int32_t		i;

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
		error = DecideCheckGiven(input, result, arena);
	return error;
}
