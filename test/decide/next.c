/*
 * next.c
 *	  Tests after a cycle: deciding again changes nothing, and promised jobs
 *	  get exactly their devices after the other jobs have left.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * Allocates a part on its node, or releases it.
 */
static void
node_allocate(DecideNode *node, const DecidePart *part, int share, bool take)
{
	devices_allocate(node, part, share, take ? 1 : -1);
	if (node->cpu_milli > 0)
		node->cpu_left += take ? -part->cpu_milli : part->cpu_milli;
	if (node->memory_mib > 0)
		node->memory_left += take ? -part->memory_mib : part->memory_mib;
}

/*
 * Copies a world's tiers, accounts, types, nodes and requests, with the same
 * numbers.
 */
static void
world_copy(const World *world, World *copy)
{
	int			i;

	world_init(copy);
	copy->now = world->now;
	copy->max_starts = world->max_starts;
	copy->max_evictions = world->max_evictions;
	copy->policy = world->policy;
	for (i = 0; i < world->n_types; i++)
	{
		(void) world_type(copy, world->types[i]);
		copy->weights[i] = world->weights[i];
	}
	for (i = 0; i < world->n_tiers; i++)
	{
		(void) world_tier(copy, world->tier_names[i]);
		copy->tiers[i] = world->tiers[i];
	}
	for (i = 0; i < world->n_accounts; i++)
	{
		int			account = world_account(copy, world->accounts[i].name);

		copy->accounts[account].weight = world->accounts[i].weight;
		copy->accounts[account].usage = world->accounts[i].usage;
		copy->accounts[account].live = world->accounts[i].live;
	}
	for (i = 0; i < world->n_nodes; i++)
	{
		DecideNode *node = world_node(copy, world->nodes[i].name, 0, 0);
		const char *name = node->name;

		*node = world->nodes[i];
		node->name = name;
	}
	for (i = 0; i < world->n_workloads; i++)
		(void) world_workload(copy, &world->workloads[i].request,
							  world->workloads[i].jobs);
	for (i = 0; i < world->n_cached; i++)
		world_cached(copy, world->cached[i].cache, world->cached[i].node);
	quotas_copy(world, NULL, NULL, copy);
}

/*
 * Copies a queued job.
 */
static DecideJob *
job_copy(const World *world, const DecideJob *old, World *copy)
{
	DecideJob  *job = world_job(copy, world_request(copy,
													&world->requests[old->request]),
								old->org, "", old->id);

	const char *org = job->org;
	int32_t		request = job->request;

	*job = *old;
	job->org = org;
	job->request = request;
	job->account = world_account(copy, world->accounts[old->account].name);
	return job;
}

/*
 * Copies a running job.
 */
static DecideRunning *
running_copy(const World *world, const DecideRunning *old, World *copy)
{
	DecideRunning *running = world_running(copy, old->org, old->id);
	const char *org = running->org;
	int32_t		first = running->first_part;
	int			i;

	*running = *old;
	running->org = org;
	if (old->for_org != NULL)
		world_leaves(running, old->for_org, old->for_job);
	running->first_part = first;
	running->n_parts = 0;
	running->account = world_account(copy,
									 world->accounts[old->account].name);
	if (old->request >= 0)
		running->request = world_request(copy, &world->requests[old->request]);
	for (i = 0; i < old->n_parts; i++)
		*world_part(copy, running) = world->parts[old->first_part + i];
	return running;
}

/*
 * Adds a claim of a job.
 */
static void
claim_add(World *copy, const char *org, int64_t id, int job, bool running,
		  const char *account, int type, int share, const DecidePart *parts,
		  int n_parts, int64_t made, int turn)
{
	DecideClaim *claim = world_claim(copy, org, id);
	int			i;

	claim->job = job;
	claim->running = running;
	claim->account = world_account(copy, account);
	claim->type = type;
	claim->share = share;
	claim->made = made;
	claim->turn = turn;
	for (i = 0; i < n_parts; i++)
	{
		*world_claim_part(copy, claim) = parts[i];
		claim->gpus += parts[i].gpus;
	}
}

/*
 * The sum of an instant and a duration, at most DECIDE_NEVER.
 */
static int64_t
later(int64_t at, int64_t by)
{
	return by > DECIDE_NEVER - at ? DECIDE_NEVER : at + by;
}

/*
 * Adds the cache of a job that starts to a node.
 */
static void
node_caches(World *world, int cache, int node)
{
	int			i = 0;

	while (i < world->n_cached && (world->cached[i].cache != cache ||
								   world->cached[i].node != node))
		i++;
	if (cache > 0 && i == world->n_cached)
		world_cached(world, cache, node);
}

/*
 * Makes a running job leave for a claim, within its tier's grace.
 */
static void
run_leaves(const World *world, DecideRunning *running, const char *org,
		   int64_t id)
{
	int64_t		gone = later(world->now, world->tiers[running->tier].grace);

	world_leaves(running, org, id);
	if (gone < running->expected_end)
		running->expected_end = gone;
}

/*
 * Adds a queued job that started to the running jobs.
 */
static void
start_run(const World *world, const DecideResult *result,
		  const DecideStart *start, World *next)
{
	const DecideJob *job = &world->jobs[start->job];
	DecideRunning *running = world_running(next, job->org, job->id);
	const DecideRequestClass *request = &world->requests[job->request];
	int64_t		weight = start->type >= 0 ?
		world->weights[start->type].weight :
		0;
	int			i;

	running->account = world_account(next,
									 world->accounts[job->account].name);
	running->tier = job->tier;
	running->type = start->type;
	running->gpus = start->gpus;
	running->share = start->share;
	for (i = 0; i < request->n_offers; i++)
	{
		if (request->offers[i].type == start->type)
			running->counted = request->offers[i].counted;
	}
	running->stays = request->stays;
	running->min_gpus = request->min_gpus;
	running->max_gpus = request->max_gpus;
	running->started = running->saved_at = world->now;
	running->limit_end = later(world->now, request->wall_limit);
	running->expected_end = job->expected_run > 0 &&
		job->expected_run < request->wall_limit ?
		later(world->now, job->expected_run) : running->limit_end;
	running->request = world_request(next, request);
	for (i = 0; i < start->n_parts; i++)
	{
		const DecidePart *part = &result->parts[start->first_part + i];

		*world_part(next, running) = *part;
		node_allocate(&next->nodes[part->node], part, start->share, true);
		node_caches(next, job->cache, part->node);
	}
	next->accounts[running->account].live += (int64_t) start->gpus *
		start->share * weight / 1000;
	next->tiers[running->tier].live += (int64_t) start->gpus * start->share;
	quotas_count(next, running->account, start->type,
				 running_use(next, running), 1);
}

/*
 * Makes the world after a result has been applied, at the same instant.
 */
void
world_next(const World *world, const DecideResult *result, World *next)
{
	int		   *job_now = malloc(sizeof(int) * (size_t) (world->n_jobs + 1));
	int			i;
	int			e;

	world_copy(world, next);
	for (i = 0; i < world->n_running; i++)
		(void) running_copy(world, &world->running[i], next);
	memset(job_now, 0, sizeof(int) * (size_t) (world->n_jobs + 1));
	for (i = 0; i < result->n_starts; i++)
	{
		start_run(world, result, &result->starts[i], next);
		job_now[result->starts[i].job] = -1;
	}
	for (i = 0; i < world->n_jobs; i++)
	{
		if (job_now[i] == -1)
			continue;
		job_now[i] = next->n_jobs;
		(void) job_copy(world, &world->jobs[i], next);
	}
	for (i = 0; i < world->n_claims; i++)
	{
		const DecideClaim *old = &world->claims[i];

		if (old->job >= 0 && job_now[old->job] < 0)
			continue;
		claim_add(next, old->org, old->id, old->job < 0 ? -1 :
				  job_now[old->job], old->running,
				  world->accounts[old->account].name, old->type, old->share,
				  &world->claim_parts[old->first_part], old->n_parts,
				  old->made,
				  old->turn);
		next->claims[next->n_claims - 1].stays = old->stays;
	}
	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *p = &result->promises[i];
		const DecideRunning *running = p->job < 0 ?
			&world->running[p->running] : NULL;
		const DecideJob *job = p->job < 0 ? NULL : &world->jobs[p->job];

		claim_add(next, job ? job->org : running->org,
				  job ? job->id : running->id, job ? job_now[p->job] : -1,
				  job == NULL,
				  world->accounts[job ? job->account : running->account].name,
				  p->type, p->share, &result->promise_parts[p->first_part],
				  p->n_parts, world->now, i);
		next->claims[next->n_claims - 1].stays = job != NULL ?
			world->requests[job->request].stays : running->stays;
		for (e = p->first_eviction; e < p->first_eviction + p->n_evictions; e++)
			run_leaves(world, &next->running[result->evictions[e].running],
					   job ? job->org : running->org,
					   job ? job->id : running->id);
	}
	for (i = 0; i < result->n_reservations; i++)
	{
		const DecideReservation *r = &result->reservations[i];
		DecidePreviousReservation *previous =
		world_previous(next, job_now[r->job], r->type,
					   &result->reserved_parts[r->first_part], r->n_parts);

		previous->limit_at = r->limit_at;
		previous->latest = r->latest;
	}
	free(job_now);
}

/*
 * Frees what a running job had.
 */
static void
run_ended(const World *world, const DecideRunning *run, World *left)
{
	int64_t		weight = run->type >= 0 ? world->weights[run->type].weight : 0;
	int64_t		milli = (int64_t) run->gpus * run->share;
	DecideAccount *account =
	&left->accounts[world_account(left, world->accounts[run->account].name)];
	int			i;

	for (i = run->first_part; i < run->first_part + run->n_parts; i++)
		node_allocate(&left->nodes[world->parts[i].node], &world->parts[i],
					  run->share, false);
	account->live -= milli * weight / 1000 < account->live ?
		milli * weight / 1000 : account->live;
	left->tiers[run->tier].live -= milli < left->tiers[run->tier].live ?
		milli : left->tiers[run->tier].live;
	quotas_count(left, (int) (account - left->accounts), run->type,
				 running_use(world, run), -1);
}

/*
 * Makes the world after some jobs have left.  Jobs that continue elsewhere are
 * queued.
 */
void
world_without(const World *world, const bool *gone, World *left)
{
	int			i;
	int			j;

	world_copy(world, left);
	for (i = 0; i < world->n_jobs; i++)
		(void) job_copy(world, &world->jobs[i], left);
	for (i = 0; i < world->n_previous; i++)
	{
		const DecidePreviousReservation *old = &world->previous[i];
		DecidePreviousReservation *previous =
		world_previous(left, old->job, old->type,
					   &world->previous_parts[old->first_part],
					   old->n_parts);

		previous->limit_at = old->limit_at;
		previous->latest = old->latest;
	}
	for (i = 0; i < world->n_claims; i++)
	{
		const DecideClaim *old = &world->claims[i];

		claim_add(left, old->org, old->id, old->job, old->running,
				  world->accounts[old->account].name, old->type, old->share,
				  &world->claim_parts[old->first_part], old->n_parts,
				  old->made,
				  old->turn);
		left->claims[left->n_claims - 1].stays = old->stays;
	}
	for (i = 0; i < world->n_running; i++)
	{
		const DecideRunning *old = &world->running[i];

		if (!gone[i])
		{
			(void) running_copy(world, old, left);
			continue;
		}
		run_ended(world, old, left);
		for (j = 0; j < left->n_claims; j++)
		{
			DecideClaim *claim = &left->claims[j];

			if (!claim->running || claim->id != old->id ||
				strcmp(claim->org, old->org) != 0)
				continue;
			claim->running = false;
			claim->job = left->n_jobs;
			world_job(left, world_request(left,
										  &world->requests[old->request]), old->org,
					  "", old->id)->account =
				world_account(left, world->accounts[old->account].name);
			left->jobs[claim->job].tier = old->tier;
		}
	}
}

/*
 * Makes the world after all evicted jobs have left.
 */
static void
world_after_evictions(const World *world, World *left)
{
	bool	   *gone = malloc(sizeof(bool) * (size_t) (world->n_running + 1));
	int			i;

	for (i = 0; i < world->n_running; i++)
		gone[i] = world->running[i].leaving;
	world_without(world, gone, left);
	free(gone);
}

/*
 * Checks that every claim became a start on its devices.  Quotas may prevent
 * one.
 */
static char *
claims_started(const World *left, const DecideResult *result)
{
	int			i;
	int			s;

	for (i = 0; i < left->n_claims; i++)
	{
		const DecideClaim *claim = &left->claims[i];

		const DecideRequestClass *request = claim->job < 0 ? NULL :
			&left->requests[left->jobs[claim->job].request];

		if (request == NULL || claim->gpus < request->min_gpus ||
			claim->gpus > request->max_gpus || left->n_quotas > 0)
			continue;
		for (s = 0; s < result->n_starts; s++)
		{
			const DecideStart *start = &result->starts[s];

			if (start->job == claim->job && start->gpus == claim->gpus &&
				start->n_parts == claim->n_parts &&
				result->parts[start->first_part].devices ==
				left->claim_parts[claim->first_part].devices)
				break;
		}
		if (s == result->n_starts)
			return format("%s/%" PRId64 " does not start on its claim when all "
						  "have left", claim->org, claim->id);
	}
	return NULL;
}

/*
 * Checks that a result is final at its instant, and that its promises are
 * kept.  Returns NULL, or what is wrong.
 */
char *
next_error(const World *world, const DecideResult *result)
{
	World		next;
	World		left;
	Pool		pool;
	DecideArena arena;
	DecideInput input;
	DecideResult again;
	const char *error;
	char	   *why = NULL;
	char	   *text = NULL;

	world_next(world, result, &next);
	pool_init(&pool);
	arena = pool_arena(&pool);
	input = world_input(&next);
	error = DecideRun(&input, &arena, &again);
	if (error != NULL)
		why = format("a second cycle fails: %s", error);
	else if (result->n_starts < world->max_starts &&
			 again.n_starts + again.n_promises + again.n_evictions > 0)
	{
		text = world_render(&next, &again, NULL);
		why = format("a second cycle decides:\n%s", text);
	}
	if (why == NULL)
	{
		world_after_evictions(&next, &left);
		input = world_input(&left);
		error = DecideRun(&input, &arena, &again);
		if (error == NULL)
			error = DecideCheck(&input, &again, &arena, NULL);
		why = error != NULL ? format("when all have left: %s", error) :
			claims_started(&left, &again);
		world_free(&left);
	}
	free(text);
	pool_free(&pool);
	world_free(&next);
	return why;
}
