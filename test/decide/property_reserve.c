/*
 * property_reserve.c
 *	  Tests random clusters with running jobs: reservations must be as early
 *	  as possible, and be kept.
 *
 * The first reservation of a cycle is compared with every instant at which
 * anything ends.  Then the cluster runs until its queue is empty, with all
 * jobs running as long as expected.  The job that was blocked first must start
 * no later than its first reservation, whichever jobs were allowed to start
 * behind it.
 *
 * Here cycles get no previous reservations, so only the first reservation is
 * kept.  stream.c passes them, and requires that all are kept.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define MOST_CYCLES	400

/*
 * Adds a running job on a node's free devices, or on a part of one.
 */
static void
random_run(World *world, uint64_t *seed, int64_t id)
{
	int			index = random_below(seed, world->n_nodes);
	DecideNode *node = &world->nodes[index];
	DecideRunning *running;
	DecidePart *part;
	int			share = random_below(seed, 4) == 0 ? 300 : DECIDE_WHOLE;
	uint64_t	devices = 0;
	int			wanted = share < DECIDE_WHOLE ? 1 : 1 + random_below(seed, 4);
	int			i;

	for (i = 0; i < node->gpus && wanted > 0; i++)
	{
		if (node->device_left[i] < share ||
			(share == DECIDE_WHOLE && ((node->usable >> i) & 1) == 0))
			continue;
		devices |= UINT64_C(1) << i;
		wanted--;
	}
	if (devices == 0)
		return;
	running = world_running(world, "runs", id);
	running->account = world_account(world, "runs");
	running->type = node->type;
	running->share = share;
	running->expected_end = 1 + random_below(seed, 20) * 10;
	running->limit_end = random_below(seed, 5) == 0 ? DECIDE_NEVER :
		running->expected_end + random_below(seed, 100);
	if (random_below(seed, 12) == 0)
		running->expected_end = running->limit_end = DECIDE_NEVER;
	part = world_part(world, running);
	part->node = index;
	part->devices = devices;
	part->gpus = __builtin_popcountll(devices);
	part->cpu_milli = node->cpu_left > 0 ?
		random_below(seed, (int) node->cpu_left + 1) : 0;
	part->memory_mib = node->memory_left > 0 ?
		random_below(seed, (int) node->memory_left + 1) : 0;
	running->gpus = running->min_gpus = running->max_gpus = part->gpus;
	part->gpu_memory_mib = share < DECIDE_WHOLE && id % 2 == 0 ?
		node->gpu_memory_mib / (1 + id % 3) : share_memory(node, share);
	devices_allocate(node, part, share, 1);
	if (node->cpu_milli > 0)
		node->cpu_left -= part->cpu_milli;
	if (node->memory_mib > 0)
		node->memory_left -= part->memory_mib;
}

/*
 * Makes some requests equal to others apart from the limit, or completely.
 */
static void
requests_repeat(World *world, uint64_t *seed)
{
	int			n = world->n_requests;
	int			first[64];
	int			i;

	for (i = 0; i < n; i++)
	{
		DecideRequestClass request = world->requests[i];

		if (random_below(seed, 4) > 0)
			request.wall_limit = 1 + random_below(seed, 150);
		first[i] = random_below(seed, 2) == 0 ? -1 :
			world_request_again(world, &request);
	}
	for (i = 0; i < world->n_jobs; i++)
	{
		DecideJob  *job = &world->jobs[i];

		if (first[job->request] >= 0 && random_below(seed, 2) == 0)
			job->request = first[job->request];
	}
}

/*
 * Makes a random world with running jobs, limits and a backfill depth.
 */
static void
random_busy_world(World *world, uint64_t *seed)
{
	int			i;

	random_world(world, seed);
	world->now = 0;
	world->policy.backfill_depth = random_below(seed, 5);
	for (i = 0; i < world->n_requests; i++)
		world->requests[i].wall_limit = random_below(seed, 6) == 0 ?
			DECIDE_NEVER : 1 + random_below(seed, 150);
	requests_repeat(world, seed);
	for (i = 0; i < world->n_jobs; i++)
	{
		DecideJob  *job = &world->jobs[i];

		job->expected_run = random_below(seed, 2) == 0 ? 0 :
			1 + random_below(seed, 150);
		if (random_below(seed, 12) == 0)
			job->aged_at = -1;
	}
	for (i = 0; i < 8 && world->n_nodes > 0; i++)
		random_run(world, seed, i);
}

/*
 * Whether a job could start at an instant, as expected, after the cycle's
 * first starts.  Placement answers this, on nodes as they are then.
 */
static bool
starts_at(const World *world, const DecideResult *result, int job, int after,
		  int64_t at)
{
	DecideInput input = world_input(world);
	DecideNode *nodes = malloc(sizeof(DecideNode) *
							   (size_t) (world->n_nodes + 1));
	DecideResult then;
	Pool		pool;
	DecideArena arena;
	bool		starts;
	int			i;
	int			p;

	if (world->n_nodes > 0)
		memcpy(nodes, world->nodes,
			   sizeof(DecideNode) * (size_t) world->n_nodes);
	for (i = 0; i < world->n_running + after; i++)
	{
		bool		runs = i < world->n_running;
		const DecideRunning *run = runs ? &world->running[i] : NULL;
		const DecideStart *start = runs ? NULL :
			&result->starts[i - world->n_running];
		int			first = runs ? run->first_part : start->first_part;
		int			n = runs ? run->n_parts : start->n_parts;
		int			share = runs ? run->share : start->share;
		int64_t		end = runs ? run->expected_end : 0;

		if (!runs)
		{
			const DecideJob *j = &world->jobs[start->job];
			int64_t		wall = world->requests[j->request].wall_limit;

			end = j->expected_run > 0 && j->expected_run < wall ?
				j->expected_run : wall;
		}
		if (runs ? end > at : end <= at)
			continue;
		for (p = first; p < first + n; p++)
		{
			const DecidePart *part = runs ? &world->parts[p] :
				&result->parts[p];
			DecideNode *node = &nodes[part->node];
			int			sign = runs ? 1 : -1;

			devices_allocate(node, part, share, -sign);
			node->cpu_left += node->cpu_milli > 0 ? sign * part->cpu_milli : 0;
			node->memory_left += node->memory_mib > 0 ?
				sign * part->memory_mib : 0;
		}
	}
	input.nodes = nodes;
	input.jobs = &world->jobs[job];
	input.n_jobs = 1;
	input.max_starts = 1;
	input.n_running = 0;
	input.n_running_parts = 0;
	input.policy.backfill_depth = 0;
	pool_init(&pool);
	arena = pool_arena(&pool);
	starts = DecideRun(&input, &arena, &then) == NULL && then.n_starts == 1;
	pool_free(&pool);
	free(nodes);
	return starts;
}

/*
 * Checks that the first reservation is possible, and not possible at an
 * earlier end.
 */
static char *
earliest_error(const World *world, const DecideResult *result)
{
	const DecideReservation *r = &result->reservations[0];
	int			i;

	if (result->n_reservations == 0)
		return NULL;
	if (!starts_at(world, result, r->job, r->after, r->at))
		return format("what is reserved first could not start then");
	for (i = 0; i < world->n_running + r->after; i++)
	{
		int64_t		end;

		if (i < world->n_running)
			end = world->running[i].expected_end;
		else
		{
			const DecideJob *j =
			&world->jobs[result->starts[i - world->n_running].job];

			end = world->requests[j->request].wall_limit;
			if (j->expected_run > 0 && j->expected_run < end)
				end = j->expected_run;
		}
		if (end < r->at && starts_at(world, result, r->job, r->after, end))
			return format("the first reservation could be at %" PRId64
						  ", not %" PRId64, end, r->at);
	}
	return NULL;
}

/*
 * Checks that every job that could have a reservation has one, and waits.
 */
static char *
missing_error(const World *world, const DecideResult *result)
{
	int			deep = 0;
	int			i;

	for (i = 0; i < result->n_reservations; i++)
		deep += world->jobs[result->reservations[i].job].aged_at >= 0;
	for (i = 0; i < world->n_requests; i++)
	{
		const DecideWait *wait = &result->waits[i];
		bool		found = false;
		int			r;

		if (wait->reason == DECIDE_NOT_WAITING ||
			wait->reason == DECIDE_ENOUGH_STARTED ||
			(deep >= world->policy.backfill_depth &&
			 world->jobs[wait->job].aged_at >= 0))
			continue;
		for (r = 0; r < result->n_reservations; r++)
			found |= result->reservations[r].job == wait->job;
		if (!found && result->n_reservations == 0 &&
			starts_at(world, result, wait->job, result->n_starts,
					  INT64_MAX - 1))
			return format("ask %d has no reservation", i);
	}
	return NULL;
}

/*
 * Whether two lists of parts are the same.
 */
static bool
same_parts(const DecidePart *a, const DecidePart *b, int n)
{
	int			i;

	for (i = 0; i < n; i++)
	{
		if (a[i].node != b[i].node || a[i].devices != b[i].devices ||
			a[i].cpu_milli != b[i].cpu_milli ||
			a[i].memory_mib != b[i].memory_mib ||
			a[i].gpu_memory_mib != b[i].gpu_memory_mib)
			return false;
	}
	return true;
}

/*
 * Whether two results start and reserve the same.
 */
static bool
same_decided(const DecideResult *a, const DecideResult *b)
{
	int			i;

	if (a->n_starts != b->n_starts ||
		a->n_reservations != b->n_reservations || a->n_parts != b->n_parts ||
		a->n_reserved_parts != b->n_reserved_parts)
		return false;
	for (i = 0; i < a->n_starts; i++)
	{
		if (a->starts[i].job != b->starts[i].job ||
			a->starts[i].type != b->starts[i].type ||
			a->starts[i].first_part != b->starts[i].first_part)
			return false;
	}
	for (i = 0; i < a->n_reservations; i++)
	{
		if (a->reservations[i].job != b->reservations[i].job ||
			a->reservations[i].type != b->reservations[i].type ||
			a->reservations[i].at != b->reservations[i].at ||
			a->reservations[i].limit_at != b->reservations[i].limit_at ||
			a->reservations[i].first_part != b->reservations[i].first_part)
			return false;
	}
	return same_parts(a->parts, b->parts, a->n_parts) &&
		same_parts(a->reserved_parts, b->reserved_parts,
				   a->n_reserved_parts);
}

/*
 * Checks that the same is decided if no two requests are equal apart from
 * their wall limit.  An additional offer, of a type that no node has, makes no
 * other difference.
 */
static char *
apart_error(const World *world, const DecideResult *result)
{
	DecideInput input = world_input(world);
	DecideRequestClass requests[64];
	DecideOffer offers[64][WORLD_MAX_OFFERS + 1];
	DecideResult apart;
	Pool		pool;
	DecideArena arena;
	char	   *why = NULL;
	int			i;
	int			j;

	for (i = 0; i < world->n_requests; i++)
	{
		requests[i] = world->requests[i];
		for (j = 0; j < requests[i].n_offers; j++)
			offers[i][j] = requests[i].offers[j];
		/* a type that no node has */
		offers[i][j] = (DecideOffer){.type = 1000 + i};
		requests[i].n_offers += requests[i].n_offers > 0;
		requests[i].offers = offers[i];
	}
	input.requests = requests;
	pool_init(&pool);
	arena = pool_arena(&pool);
	if (DecideRun(&input, &arena, &apart) != NULL ||
		!same_decided(result, &apart))
		why = format("otherwise if asks are not known to be alike");
	pool_free(&pool);
	return why;
}

/*
 * Tests one instance.  Returns NULL, or what is wrong.
 */
static char *
instance_error(uint64_t seed, long *reservations)
{
	World		world;
	DecideInput input;
	DecideResult result;
	Pool		pool;
	DecideArena arena;
	const char *error;
	char	   *text = NULL;
	char	   *why = NULL;

	random_busy_world(&world, &seed);
	pool_init(&pool);
	arena = pool_arena(&pool);
	input = world_input(&world);
	error = DecideRun(&input, &arena, &result);
	if (error == NULL)
	{
		text = world_render(&world, &result, NULL);
		*reservations += result.n_reservations;
		error = DecideCheck(&input, &result, &arena, NULL);
	}
	if (error != NULL)
		why = format("%s", error);
	if (why == NULL)
		why = earliest_error(&world, &result);
	if (why == NULL)
		why = earlier_error(&world, &result);
	if (why == NULL)
		why = missing_error(&world, &result);
	if (why == NULL)
		why = apart_error(&world, &result);
	if (why == NULL)
		why = again_permuted(&world, text, &seed);
	if (why != NULL)
	{
		char	   *full = format("%s\ndecided:\n%s", why, text ? text : "");

		free(why);
		why = full;
	}
	free(text);
	pool_free(&pool);
	world_free(&world);
	return why;
}

/*
 * Decides a world of two devices, one of which is busy for a while, and of
 * aged jobs that want both.  Returns how many have reservations, and whether a
 * short job behind them starts.
 */
static void
aged_line(int n_aged, int *reserved, bool *starts)
{
	World		world;
	DecideInput input;
	DecideResult result;
	Pool		pool;
	DecideArena arena;
	DecideOffer offer = {0};
	DecideRequestClass both = {
		.min_gpus = 2, .max_gpus = 2, .share = DECIDE_WHOLE, .n_offers = 1,
		.offers = &offer, .wall_limit = 10
	};
	DecideRequestClass one = {
		.min_gpus = 1, .max_gpus = 1, .share = DECIDE_WHOLE, .n_offers = 1,
		.offers = &offer, .wall_limit = 10
	};
	DecideRunning *running;
	DecidePart *part;
	DecideNode *node;
	int			i;

	world_init(&world);
	world.now = 1000;
	offer.type = world_type(&world, "a");
	node = world_node(&world, "n", offer.type, 2);
	running = world_running(&world, "o", 1);
	running->account = world_account(&world, "o");
	running->type = offer.type;
	running->gpus = running->min_gpus = running->max_gpus = 1;
	running->expected_end = running->limit_end = 1100;
	part = world_part(&world, running);
	part->gpus = 1;
	part->devices = 1;
	node->device_left[0] = 0;
	for (i = 0; i <= n_aged; i++)
	{
		DecideJob  *job = world_job(&world,
									world_request(&world, i < n_aged ? &both :
												  &one), "o", "", 100 + i);

		job->submitted = i;
		job->aged_at = i < n_aged ? i : DECIDE_NEVER;
	}
	world.tiers[world_rank(&world, 0)].max_wait = 0;
	pool_init(&pool);
	arena = pool_arena(&pool);
	input = world_input(&world);
	*reserved = -1;
	*starts = false;
	if (DecideRun(&input, &arena, &result) == NULL &&
		DecideCheck(&input, &result, &arena, NULL) == NULL)
	{
		*reserved = result.n_reservations;
		*starts = result.n_starts == 1;
	}
	pool_free(&pool);
	world_free(&world);
}

/*
 * Tests that at most 256 aged jobs have reservations, and that jobs that end
 * before these begin may start.
 */
static void
line_tests(Tap *tap)
{
	int			reserved;
	bool		starts;
	char	   *why;

	aged_line(256, &reserved, &starts);
	why = format("%d reserved, the short job %s", reserved,
				 starts ? "starts" : "waits");
	tap_ok(tap, reserved == 256 && starts,
		   "256 aged jobs have reservations, and a short one is let in", why);
	free(why);
	aged_line(257, &reserved, &starts);
	why = format("%d reserved, the short job %s", reserved,
				 starts ? "starts" : "waits");
	tap_ok(tap, reserved == 256 && starts,
		   "the 257th has none, and a short one is let in", why);
	free(why);
}

/*
 * Tests random instances.
 */
void
reserve_tests(Tap *tap, int instances)
{
	long		reservations = 0;
	int			batch;

	for (batch = 0; batch < 4; batch++)
	{
		char	   *name = format("property: %d random busy instances, "
								  "batch %d", instances, batch);
		char	   *why = NULL;
		int			i;

		for (i = 0; i < instances && why == NULL; i++)
		{
			uint64_t	seed = (uint64_t) (batch + 100) * 1000000 +
				(uint64_t) i;

			why = instance_error(seed, &reservations);
			if (why != NULL)
			{
				char	   *full = format("seed %" PRIu64 ": %s", seed, why);

				free(why);
				why = full;
			}
		}
		tap_ok(tap, why == NULL, name, why);
		free(why);
		free(name);
	}
	line_tests(tap);
	printf("# %ld reservations judged\n", reservations);
	tap_ok(tap, reservations > instances, "property: something is reserved",
		   NULL);
}
