/*
 * fixpoint.c
 *	  A cycle decides until nothing is left to decide.
 *
 * The decisions of a round may make more possible.  Evicted jobs are expected
 * to be gone soon, so earlier reservations may move.  Started jobs move their
 * accounts behind others, so others reserve first.  So a round's result is
 * applied in memory, as the next cycle at the same instant would load it, and
 * that cycle runs at once.  The decision is what all rounds decide, with the
 * reservations and reasons of the last one: another cycle at the same instant
 * decides nothing.
 *
 * A round is followed by another only if it starts a job, makes a claim or
 * evicts a running job.  Each job starts once, gets a claim once, and is
 * evicted once, and jobs started at this instant are not evicted.  So there
 * are at most 2 x jobs + running rounds, usually two.  The last round decides
 * nothing, or nothing that concerns jobs that had turns before.  After
 * max_starts the rest waits for the next cycle.
 */
#include <string.h>

#include "decide/backfill/backfill.h"
#include "decide/cycle/cycle.h"

/*
 * Apply a result: what the next cycle at the same instant would load.
 *
 * Starts run, with their expected ends; promises are claims, made now;
 * evicted jobs leave, and are expected to be gone after their grace.  Nodes,
 * accounts and tiers count the starts.  Everything that changes is a copy.
 */

/*
 * When a running job that is evicted now is expected to be gone.
 */
static int64_t
leave_end(const DecideInput *input, const DecideRunning *running)
{
	int64_t		end = DecideEndAfter(input, input->tiers[running->tier].grace);

	return end < running->expected_end ? end : running->expected_end;
}

/*
 * Room for n + more items; the first n are copies.  NULL: out of memory.
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
 * Take a start's part off a node.
 */
static void
node_take(DecideNode *node, const DecidePart *part, int32_t share)
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
 * Take starts off the nodes, and add them to accounts and tiers.
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
			node_take(&nodes[result->parts[p].node], &result->parts[p],
					  start->share);
	}
	next->nodes = nodes;
	next->accounts = accounts;
	next->tiers = tiers;
	return true;
}

/*
 * Remove started jobs from the queue.  job_now gives each job's index in the
 * next input, -1: none.
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
	return true;
}

/*
 * Mark evicted jobs as leaving for their claims.
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
 * Add starts to the running jobs, and mark evicted ones as leaving.  New
 * running jobs are no victims, and neither move nor grow.
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
				.min_gpus = request->min_gpus,
				.max_gpus = request->max_gpus,
				.first_part = input->n_running_parts + start->first_part,
				.n_parts = start->n_parts, .started = input->now,
				.saved_at = input->now,
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
 * Keep the claims whose jobs did not start, and add the new ones after them.
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
 * Keep the previous reservations of waiting jobs.  New reservations replace
 * them only in the last round; until then every job keeps its own if it can.
 */
static bool
apply_previous(const DecideInput *input, const DecideArena *arena,
			   const int32_t *job_now, DecideInput *next)
{
	DecidePreviousReservation *previous = DecideAlloc(arena,
													  input->n_previous, sizeof(DecidePreviousReservation));
	int32_t		i;

	if (previous == NULL)
		return false;
	next->n_previous = 0;
	for (i = 0; i < input->n_previous; i++)
	{
		if (job_now[input->previous[i].job] < 0)
			continue;
		previous[next->n_previous] = input->previous[i];
		previous[next->n_previous++].job = job_now[input->previous[i].job];
	}
	next->previous = previous;
	return true;
}

/*
 * Add to nodes the caches of jobs that started there.
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
 * Make the input that the next cycle at this instant would load after a
 * result, with n_before promises made before it.  job_now gives each job's
 * index in it, or -1.  False: out of memory.
 */
static bool
result_apply(const DecideInput *input, const DecideResult *result,
			 const DecideArena *arena, int32_t made_before,
			 int32_t *job_now, DecideInput *next)
{
	*next = *input;
	return apply_use(input, result, arena, next) &&
		DecideQuotasApply(input, result, arena, next) &&
		apply_jobs(input, result, arena, job_now, next) &&
		apply_running(input, result, arena, next) &&
		apply_claims(input, result, arena, job_now, made_before, next) &&
		apply_previous(input, arena, job_now, next) &&
		apply_cached(input, result, arena, next);
}

/*
 * A new array with the items of one after those of another.  NULL: out of
 * memory.
 */
static void *
joined(const DecideArena *arena, const void *a, int32_t n_a, const void *b,
	   int32_t n_b, size_t size)
{
	char	   *both = DecideAlloc(arena, (int64_t) n_a + n_b, size);

	if (both != NULL && n_a > 0)
		memcpy(both, a, (size_t) n_a * size);
	if (both != NULL && n_b > 0)
		memcpy(both + (size_t) n_a * size, b, (size_t) n_b * size);
	return both;
}

/*
 * Add a round's starts.  job_of maps its jobs to the cycle's.
 */
static bool
starts_join(const DecideArena *arena, const int32_t *job_of,
			const DecideResult *round, DecideResult *all)
{
	int32_t		i;

	if (round->n_starts == 0)
		return true;
	all->starts = joined(arena, all->starts, all->n_starts, round->starts,
						 round->n_starts, sizeof(DecideStart));
	all->parts = joined(arena, all->parts, all->n_parts, round->parts,
						round->n_parts, sizeof(DecidePart));
	if (all->starts == NULL || all->parts == NULL)
		return false;
	for (i = 0; i < round->n_starts; i++)
	{
		DecideStart *start = &all->starts[all->n_starts + i];

		start->job = job_of[start->job];
		start->first_part += all->n_parts;
	}
	all->n_starts += round->n_starts;
	all->n_parts += round->n_parts;
	return true;
}

/*
 * Add a round's promises and evictions, made after this many starts.
 */
static bool
promises_join(const DecideArena *arena, const int32_t *job_of, int32_t after,
			  const DecideResult *round, DecideResult *all)
{
	int32_t		i;

	if (round->n_promises == 0)
		return true;
	all->promises = joined(arena, all->promises, all->n_promises,
						   round->promises, round->n_promises,
						   sizeof(DecidePromise));
	all->promise_parts = joined(arena, all->promise_parts,
								all->n_promise_parts, round->promise_parts,
								round->n_promise_parts, sizeof(DecidePart));
	all->evictions = joined(arena, all->evictions, all->n_evictions,
							round->evictions, round->n_evictions,
							sizeof(DecideEviction));
	if (all->promises == NULL || all->promise_parts == NULL ||
		all->evictions == NULL)
		return false;
	for (i = 0; i < round->n_promises; i++)
	{
		DecidePromise *promise = &all->promises[all->n_promises + i];

		if (promise->job >= 0)
			promise->job = job_of[promise->job];
		promise->leader += all->n_promises;
		promise->after = after;
		promise->first_part += all->n_promise_parts;
		promise->first_eviction += all->n_evictions;
	}
	all->n_promises += round->n_promises;
	all->n_promise_parts += round->n_promise_parts;
	all->n_evictions += round->n_evictions;
	return true;
}

/*
 * Replace reservations and reasons by a round's, made after this many starts.
 */
static void
waits_take(const DecideInput *input, const int32_t *job_of, int32_t after,
		   const DecideResult *round, DecideResult *all)
{
	int32_t		i;

	all->waits = round->waits;
	all->reservations = round->reservations;
	all->n_reservations = round->n_reservations;
	all->reserved_parts = round->reserved_parts;
	all->n_reserved_parts = round->n_reserved_parts;
	for (i = 0; i < input->n_requests; i++)
	{
		if (all->waits[i].job >= 0)
			all->waits[i].job = job_of[all->waits[i].job];
	}
	for (i = 0; i < all->n_reservations; i++)
	{
		all->reservations[i].job = job_of[all->reservations[i].job];
		all->reservations[i].after += after;
	}
}

/*
 * Note the jobs that quotas held back: before a round, after this many
 * promises, or at their turn in the last round.
 */
static void
held_join(const DecideInput *input, const int32_t *job_of, int32_t made,
		  const DecideResult *round, DecideResult *all)
{
	int32_t		i;

	for (i = 0; i < input->n_jobs && all->held != NULL; i++)
	{
		int32_t    *held = &all->held[job_of[i]];

		if (round->held[i] != 0)
			*held = round->held[i];
		else if (*held == DECIDE_NOT_HELD || *held == INT32_MAX)
			*held = made;
	}
}

/*
 * Is a start's part reserved for another job later?
 */
static bool
is_reserved(const DecideResult *round, const DecideReservation *reservation,
			const DecidePart *part)
{
	int32_t		i;

	for (i = reservation->first_part;
		 i < reservation->first_part + reservation->n_parts; i++)
	{
		const DecidePart *other = &round->reserved_parts[i];

		if (other->node == part->node &&
			((other->devices & part->devices) != 0 || part->cpu_milli > 0 ||
			 part->memory_mib > 0))
			return true;
	}
	return false;
}

/*
 * Mark a round's starts that came before a reservation of the same devices.
 */
static void
let_in_note(DecideResult *round)
{
	int32_t		i;
	int32_t		r;
	int32_t		p;

	for (i = 0; i < round->n_starts; i++)
	{
		DecideStart *start = &round->starts[i];

		start->let_in = false;
		for (r = 0; r < round->n_reservations && !start->let_in &&
			 round->reservations[r].after <= i; r++)
		{
			for (p = start->first_part; p < start->first_part +
				 start->n_parts && !start->let_in; p++)
				start->let_in = is_reserved(round, &round->reservations[r],
											&round->parts[p]);
		}
	}
}

/*
 * Note the jobs whose expected run affected a round.
 */
static bool
timed_note(const DecideArena *arena, const DecideInput *input,
		   const int32_t *job_of, const DecideResult *round, DecideResult *all)
{
	int32_t    *timed = DecideAlloc(arena, (int64_t) all->n_timed +
									round->n_starts + round->n_reservations +
									input->n_claims + round->n_promises,
									sizeof(int32_t));
	int32_t		n = all->n_timed;
	int32_t		i;

	if (timed == NULL)
		return false;
	if (n > 0)
		memcpy(timed, all->timed, (size_t) n * sizeof(int32_t));
	for (i = 0; i < round->n_starts; i++)
		timed[n++] = round->starts[i].job;
	for (i = 0; i < round->n_reservations; i++)
		timed[n++] = round->reservations[i].job;
	for (i = 0; i < input->n_claims; i++)
	{
		if (input->claims[i].job >= 0)
			timed[n++] = input->claims[i].job;
	}
	for (i = 0; i < round->n_promises; i++)
	{
		if (round->promises[i].job >= 0)
			timed[n++] = round->promises[i].job;
	}
	for (i = all->n_timed; i < n && job_of != NULL; i++)
		timed[i] = job_of[timed[i]];
	all->timed = timed;
	all->n_timed = n;
	return true;
}

/*
 * Decide rounds until nothing is left.  *all is the decision so far, and
 * *input is what the next round loads.
 */
static const char *
rounds_go(const DecideInput *first, const DecideArena *arena,
		  DecideResult *all)
{
	DecideInput input = *first;
	DecideResult round = *all;
	int32_t    *job_of = DecideAlloc(arena, first->n_jobs, sizeof(int32_t));
	int32_t    *job_now = DecideAlloc(arena, first->n_jobs, sizeof(int32_t));
	bool		over = false;
	int32_t		i;

	if (job_of == NULL || job_now == NULL)
		return "out of memory";
	for (i = 0; i < first->n_jobs; i++)
		job_of[i] = i;
	while (!over)
	{
		DecideInput next;
		int32_t		after = all->n_starts;
		const char *error;

		if (!result_apply(&input, &round, arena,
						  all->n_promises - round.n_promises, job_now,
						  &next))
			return "out of memory";
		for (i = 0; i < input.n_jobs; i++)
		{
			if (job_now[i] >= 0)
				job_of[job_now[i]] = job_of[i];
		}
		input = next;
		DecidePoll(arena);
		error = DecideRound(&input, arena, &round, &over);
		if (error != NULL)
			return error;
		let_in_note(&round);
		held_join(&input, job_of, all->n_promises, &round, all);
		if (!timed_note(arena, &input, job_of, &round, all) ||
			!starts_join(arena, job_of, &round, all) ||
			!promises_join(arena, job_of, after, &round, all))
			return "out of memory";
		waits_take(&input, job_of, after, &round, all);
	}
	return NULL;
}

/*
 * Decide one cycle.
 */
const char *
DecideRun(const DecideInput *input, const DecideArena *arena,
		  DecideResult *result)
{
	bool		over = true;
	const char *error = DecideRound(input, arena, result, &over);

	if (error == NULL)
	{
		let_in_note(result);
		if (!timed_note(arena, input, NULL, result, result))
			error = "out of memory";
	}
	if (error == NULL && !over)
		error = rounds_go(input, arena, result);
	if (error != NULL)
		memset(result, 0, sizeof(*result));
	return error;
}

/*
 * Could the pool ever run a request?
 *
 * The answer is a cycle of one job over a copy of the nodes in which
 * everything is free, so it cannot differ from placement.
 */

/*
 * Free everything on a node.
 */
static void
node_clear(DecideNode *node)
{
	int			i;

	node->schedulable = true;
	node->usable = UINT64_MAX;
	node->cpu_left = node->cpu_milli;
	node->memory_left = node->memory_mib;
	for (i = 0; i < DECIDE_MAX_DEVICES; i++)
	{
		node->device_left[i] = DECIDE_WHOLE;
		node->gpu_memory_used[i] = 0;
	}
}

/*
 * Could the nodes ever run this, all of them empty, healthy and schedulable?
 */
const char *
DecideFeasible(const DecideNode *nodes, int32_t n_nodes,
			   const DecideRequestClass *request,
			   const DecideArena *arena, bool *feasible)
{
	DecideTier	tier = {.max_wait = DECIDE_NEVER};
	DecideAccount account = {.parent = -1, .name = "", .weight = 1};
	DecideJob	job = {.aged_at = DECIDE_NEVER, .org = ""};
	DecideInput input = {.tiers = &tier, .n_tiers = 1, .accounts = &account,
		.n_accounts = 1, .n_nodes = n_nodes, .requests = request,
		.n_requests = 1,
		.jobs = &job, .n_jobs = 1, .max_starts = 1
		};
	DecideResult result;
	DecideNode *empty;
	const char *error;
	int32_t		i;

	*feasible = false;
	empty = DecideAlloc(arena, n_nodes, sizeof(DecideNode));
	if (empty == NULL)
		return n_nodes < 0 ?
			"a number of nodes, asks, jobs or starts is negative" :
			"out of memory";
	if (n_nodes > 0)
		memcpy(empty, nodes, (size_t) n_nodes * sizeof(DecideNode));
	for (i = 0; i < n_nodes; i++)
		node_clear(&empty[i]);
	input.nodes = empty;
	error = DecideRun(&input, arena, &result);
	if (error == NULL)
		*feasible = result.n_starts == 1;
	return error;
}
