/*
 * apply_result.c
 *	  Applies a result in memory: makes the input that the next cycle at the
 *	  same instant would load.
 *
 * Starts become running jobs with their expected ends; promises become claims
 * that are made now; evicted jobs are leaving, and are expected to be gone
 * after their grace.  Nodes, accounts and tiers include the starts.
 * Everything that changes is a copy.
 */
#include <string.h>

#include "decide/backfill/backfill.h"
#include "decide/cycle/cycle.h"

/*
 * The time at which a running job that is evicted now is expected to be gone.
 */
static int64_t
leave_end(const DecideInput *input, const DecideRunning *running)
{
	int64_t		end = DecideEndAfter(input, input->tiers[running->tier].grace);

	return end < running->expected_end ? end : running->expected_end;
}

/*
 * Allocates n + more items and copies the first n.  Returns NULL if memory
 * runs out.
 */
static void *
copied(const DecideArena *arena, const void *items, int32_t n, int32_t more,
	   size_t size)
{
	void	   *copy = DecideAlloc(arena, (int64_t) n + more, size);

	if (copy != NULL && n > 0)
		memcpy(copy, items, (size_t) n * size);
	return copy;
}

/*
 * Subtracts a part of a start from what is free on its node.
 */
static void
allocate_part(DecideNode *node, const DecidePart *part, int32_t share)
{
	uint64_t	rest;

	for (rest = part->devices; rest != 0; rest &= rest - 1)
	{
		int			d = __builtin_ctzll(rest);
		int32_t		left = node->device_left[d];

		node->device_left[d] = (uint16_t) (left > share ? left - share : 0);
		node->gpu_memory_used[d] += part->gpu_memory_mib;
	}
	if (node->cpu_milli > 0)
		node->cpu_left -= part->cpu_milli;
	if (node->memory_mib > 0)
		node->memory_left -= part->memory_mib;
}

/*
 * Subtracts starts from what is free on the nodes, and adds them to accounts
 * and tiers.  Returns false if memory runs out.
 */
static bool
apply_use(const DecideInput *input, const DecideResult *result,
		  const DecideArena *arena, DecideInput *next)
{
	DecideNode *nodes = copied(arena, input->nodes, input->n_nodes, 0,
							   sizeof(DecideNode));
	DecideAccount *accounts = copied(arena, input->accounts,
									 input->n_accounts, 0,
									 sizeof(DecideAccount));
	DecideTier *tiers = copied(arena, input->tiers, input->n_tiers, 0,
							   sizeof(DecideTier));
	int32_t		i;
	int32_t		p;

	if (nodes == NULL || accounts == NULL || tiers == NULL)
		return false;
	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];
		const DecideJob *job = &input->jobs[start->job];
		int64_t    *live = &accounts[job->account].live;
		int32_t		counted = DecideCounted(&input->requests[job->request],
											start->type);
		int64_t		used = start->type == DECIDE_NO_TYPE ? 0 :
			DecideUsage(input, start->type, start->gpus, counted);

		*live = used > INT64_MAX - *live ? INT64_MAX : *live + used;
		tiers[job->tier].live += (int64_t) start->gpus * counted;
		for (p = start->first_part; p < start->first_part + start->n_parts;
			 p++)
			allocate_part(&nodes[result->parts[p].node], &result->parts[p],
						  start->share);
	}
	next->nodes = nodes;
	next->accounts = accounts;
	next->tiers = tiers;
	return true;
}

/*
 * Removes started jobs from the queue.  job_now gets each job's index in the
 * next input, or -1.  Returns false if memory runs out.
 */
static bool
apply_jobs(const DecideInput *input, const DecideResult *result,
		   const DecideArena *arena, int32_t *job_now, DecideInput *next)
{
	DecideJob  *jobs = DecideAlloc(arena, input->n_jobs, sizeof(DecideJob));
	int32_t		i;

	if (jobs == NULL)
		return false;
	for (i = 0; i < input->n_jobs; i++)
		job_now[i] = 0;
	for (i = 0; i < result->n_starts; i++)
		job_now[result->starts[i].job] = -1;
	next->n_jobs = 0;
	for (i = 0; i < input->n_jobs; i++)
	{
		if (job_now[i] < 0)
			continue;
		jobs[next->n_jobs] = input->jobs[i];
		job_now[i] = next->n_jobs++;
	}
	next->jobs = jobs;
	next->max_starts = input->max_starts - result->n_starts;
	next->max_evictions = result->n_evictions >= input->max_evictions ? 0 :
		input->max_evictions - result->n_evictions;
	return true;
}

/*
 * Marks evicted jobs as leaving for their claims.
 */
static void
apply_evictions(const DecideInput *input, const DecideResult *result,
				const DecidePromise *promise, DecideRunning *running)
{
	int32_t		i;

	for (i = promise->first_eviction;
		 i < promise->first_eviction + promise->n_evictions; i++)
	{
		DecideRunning *leaves = &running[result->evictions[i].running];

		leaves->leaving = true;
		leaves->expected_end = leave_end(input, leaves);
		leaves->for_org = promise->job >= 0 ? input->jobs[promise->job].org :
			input->running[promise->running].org;
		leaves->for_job = promise->job >= 0 ? input->jobs[promise->job].id :
			input->running[promise->running].id;
	}
}

/*
 * Adds starts to the running jobs, and marks evicted jobs as leaving.  Jobs
 * that have just started cannot be victims, and neither move nor grow.
 * Returns false if memory runs out.
 */
static bool
apply_running(const DecideInput *input, const DecideResult *result,
			  const DecideArena *arena, DecideInput *next)
{
	DecideRunning *running = copied(arena, input->running, input->n_running,
									result->n_starts, sizeof(DecideRunning));
	DecidePart *parts = copied(arena, input->running_parts,
							   input->n_running_parts, result->n_parts,
							   sizeof(DecidePart));
	int32_t		i;

	if (running == NULL || parts == NULL)
		return false;
	for (i = 0; i < result->n_promises; i++)
		apply_evictions(input, result, &result->promises[i], running);
	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];
		const DecideJob *job = &input->jobs[start->job];
		const DecideRequestClass *request = &input->requests[job->request];

		running[input->n_running + i] = (DecideRunning)
		{
			.org = job->org, .id = job->id, .attempt = INT32_MAX,
				.account = job->account, .tier = job->tier,
				.type = start->type, .gpus = start->gpus,
				.share = start->share,
				.counted = DecideCounted(request, start->type),
				.stays = request->stays,
				.min_gpus = request->min_gpus,
				.max_gpus = request->max_gpus,
				.first_part = input->n_running_parts + start->first_part,
				.n_parts = start->n_parts, .started = input->now,
				.saved_at = input->now,
				.aged = DecideJobAged(input, start->job),
				.expected_end = DecideStartEnd(input, start->job, true),
				.limit_end = DecideStartEnd(input, start->job, false),
				.request = job->request, .priority = job->priority,
				.submitted = job->submitted
		};
	}
	if (result->n_parts > 0)
		memcpy(parts + input->n_running_parts, result->parts,
			   (size_t) result->n_parts * sizeof(DecidePart));
	next->running = running;
	next->n_running = input->n_running + result->n_starts;
	next->running_parts = parts;
	next->n_running_parts = input->n_running_parts + result->n_parts;
	return true;
}

/*
 * Keeps the claims whose jobs did not start, and adds the new claims after
 * them.  Returns false if memory runs out.
 */
static bool
apply_claims(const DecideInput *input, const DecideResult *result,
			 const DecideArena *arena, const int32_t *job_now,
			 int32_t made_before, DecideInput *next)
{
	DecideClaim *claims = DecideAlloc(arena, (int64_t) input->n_claims +
									  result->n_promises, sizeof(DecideClaim));
	DecidePart *parts = copied(arena, input->claim_parts,
							   input->n_claim_parts, result->n_promise_parts,
							   sizeof(DecidePart));
	int32_t		i;

	if (claims == NULL || parts == NULL)
		return false;
	next->n_claims = 0;
	for (i = 0; i < input->n_claims; i++)
	{
		DecideClaim claim = input->claims[i];

		if (claim.job >= 0)
		{
			claim.job = job_now[claim.job];
			if (claim.job < 0)
				continue;
		}
		claims[next->n_claims++] = claim;
	}
	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *promise = &result->promises[i];
		const DecideJob *job = promise->job < 0 ? NULL :
			&input->jobs[promise->job];
		const DecideRunning *running = job != NULL ? NULL :
			&input->running[promise->running];

		claims[next->n_claims++] = (DecideClaim)
		{
			.org = job != NULL ? job->org : running->org,
				.id = job != NULL ? job->id : running->id,
				.job = job != NULL ? job_now[promise->job] : -1,
				.running = job == NULL, .made = input->now,
				.turn = made_before + i + 1,
				.account = job != NULL ? job->account : running->account,
				.type = promise->type, .gpus = promise->gpus,
				.share = promise->share,
				.counted = job != NULL ?
				DecideCounted(&input->requests[job->request], promise->type) :
				DecideRunningCounted(running),
				.stays = job != NULL ? input->requests[job->request].stays :
				running->stays,
				.first_part = input->n_claim_parts + promise->first_part,
				.n_parts = promise->n_parts
		};
	}
	if (result->n_promise_parts > 0)
		memcpy(parts + input->n_claim_parts, result->promise_parts,
			   (size_t) result->n_promise_parts * sizeof(DecidePart));
	next->claims = claims;
	next->claim_parts = parts;
	next->n_claim_parts = input->n_claim_parts + result->n_promise_parts;
	return true;
}

/*
 * Returns the reservation of a round by which a job's guarantee is kept, or
 * NULL if there is none or nothing was guaranteed.  reserved contains the
 * reservation of each job.
 */
static const DecideReservation *
guaranteed_reservation(const DecideReservation **reserved,
					   const DecidePreviousReservation *previous)
{
	const DecideReservation *r = reserved[previous->job];

	return r != NULL && previous->latest > 0 &&
		r->limit_at <= previous->latest ? r : NULL;
}

/*
 * Whether quotas allowed a job nothing in a round.
 */
static bool
is_held(const DecideResult *result, int32_t job)
{
	return result->held != NULL &&
		(result->held[job] != DECIDE_NOT_HELD || result->held_beside[job]);
}

/*
 * Keeps the previous reservations of waiting jobs.  New reservations replace
 * them only in the last round; until then every job keeps its own if it can.
 * But a job with a guarantee gets the reservation that the round made for it,
 * because jobs that started may have the devices of the previous one.  If
 * quotas allow such a job nothing, other jobs may use these devices, too, and
 * only the guarantee is kept.  Returns false if memory runs out.
 */
static bool
apply_previous(const DecideInput *input, const DecideResult *result,
			   const DecideArena *arena, const int32_t *job_now,
			   DecideInput *next)
{
	DecidePreviousReservation *previous =
	DecideAlloc(arena, input->n_previous, sizeof(DecidePreviousReservation));
	DecidePart *parts = copied(arena, input->previous_parts,
							   input->n_previous_parts,
							   result->n_reserved_parts, sizeof(DecidePart));
	const DecideReservation **reserved =
	DecideAlloc(arena, input->n_jobs, sizeof(DecideReservation *));
	int32_t		i;

	if (previous == NULL || parts == NULL || reserved == NULL)
		return false;
	memset(reserved, 0, (size_t) input->n_jobs * sizeof(DecideReservation *));
	for (i = 0; i < result->n_reservations; i++)
		reserved[result->reservations[i].job] = &result->reservations[i];
	if (result->n_reserved_parts > 0)
		memcpy(parts + input->n_previous_parts, result->reserved_parts,
			   (size_t) result->n_reserved_parts * sizeof(DecidePart));
	next->n_previous = 0;
	next->n_previous_parts = input->n_previous_parts +
		result->n_reserved_parts;
	for (i = 0; i < input->n_previous; i++)
	{
		DecidePreviousReservation *kept = &previous[next->n_previous];
		const DecideReservation *now;

		if (job_now[input->previous[i].job] < 0)
			continue;
		*kept = input->previous[i];
		kept->job = job_now[kept->job];
		next->n_previous++;
		now = guaranteed_reservation(reserved, &input->previous[i]);
		if (now == NULL)
		{
			if (is_held(result, input->previous[i].job))
				kept->n_parts = kept->gpus = 0;
			continue;
		}
		kept->type = now->type;
		kept->gpus = now->gpus;
		kept->limit_at = now->limit_at;
		kept->first_part = input->n_previous_parts + now->first_part;
		kept->n_parts = now->n_parts;
	}
	next->previous = previous;
	next->previous_parts = parts;
	return true;
}

/*
 * Adds to nodes the caches of jobs that started there.  Returns false if
 * memory runs out.
 */
static bool
apply_cached(const DecideInput *input, const DecideResult *result,
			 const DecideArena *arena, DecideInput *next)
{
	DecideCached *cached = copied(arena, input->cached, input->n_cached,
								  result->n_parts, sizeof(DecideCached));
	int32_t		i;
	int32_t		p;

	if (cached == NULL)
		return false;
	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];
		int32_t		cache = input->jobs[start->job].cache;

		for (p = start->first_part; cache > 0 &&
			 p < start->first_part + start->n_parts; p++)
			cached[next->n_cached++] = (DecideCached)
		{
			cache, result->parts[p].node
		};
	}
	next->cached = cached;
	return true;
}

/*
 * Makes the input that the next cycle at this instant would load after a
 * result, with made_before promises made before it.  job_now gets each job's
 * index in it, or -1.  Returns false if memory runs out.
 */
bool
DecideResultApply(const DecideInput *input, const DecideResult *result,
				  const DecideArena *arena, int32_t made_before,
				  int32_t *job_now, DecideInput *next)
{
	*next = *input;
	return apply_use(input, result, arena, next) &&
		DecideQuotasApply(input, result, arena, next) &&
		apply_jobs(input, result, arena, job_now, next) &&
		apply_running(input, result, arena, next) &&
		apply_claims(input, result, arena, job_now, made_before, next) &&
		apply_previous(input, result, arena, job_now, next) &&
		apply_cached(input, result, arena, next);
}
