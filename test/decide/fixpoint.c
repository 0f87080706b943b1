/*
 * fixpoint.c
 *	  Tests that a second cycle at the same instant decides nothing.
 *
 * The pools are random and use all features: reservations, tiers,
 * entitlements, consolidation, elastic jobs, shares, gangs, limits, caches,
 * quotas, previous reservations.  The result is applied as a load would read
 * it (next.c), and decided again: nothing may start, be promised or be
 * evicted, and reservations and reasons must stay the same.  Then time passes,
 * some jobs leave, and the pool has its next cycle.  Before the last one all
 * quotas are lowered.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define SECOND		INT64_C(1000000)
#define MOST_CYCLES	3

/* Seeds of pools for which the decision was once wrong, in rare ways. */
static const uint64_t wrong_once[] = {
	700000249,					/* a job that had grown had more devices to
								 * give */
	700015772, 700022185,		/* starts brought caches, which ranges prefer */
	700022311, 700057931,		/* guaranteed tier shares */
	700111137,					/* an entitlement that depended on a victim
								 * that was then spared */
	700127650,					/* growth on a node with reservations */
	700133770,					/* two claims of one device */
	700037439					/* a quota removed a job from the queue after
								 * it had failed */
};

typedef struct Counts
{
	long		cycles;
	long		starts;
	long		claims;
	long		reservations;
	long		held;
} Counts;

/*
 * Returns one of the accounts.
 */
static char *
random_account(uint64_t *seed)
{
	static const char *const orgs[] = {"acme", "bolt", "corp"};
	static const char *const paths[] = {"", "", "/a", "/b", "/a/x"};

	return format("%s%s", orgs[random_below(seed, 3)],
				  paths[random_below(seed, 5)]);
}

/*
 * A random duration in seconds, often one of a few common ones.
 */
static int64_t
random_time(uint64_t *seed, int most)
{
	return SECOND * (random_below(seed, 2) == 0 ?
					 1 + random_below(seed, 4) * most / 4 :
					 1 + random_below(seed, most));
}

/*
 * Adds nodes of up to four devices, some limited, grouped or broken.
 */
static void
random_nodes(World *world, uint64_t *seed)
{
	int			n = 1 + random_below(seed, 5);
	int			i;

	for (i = 0; i < n; i++)
	{
		char	   *name = format("n%d", i);
		DecideNode *node = world_node(world, name, random_below(seed, 4) == 0,
									  1 + random_below(seed, 4));

		free(name);
		node->leaf = random_below(seed, 3) - 1;
		node->domain = random_below(seed, 3) - 1;
		if (random_below(seed, 3) == 0)
			node->cpu_milli = node->cpu_left = 4 + random_below(seed, 12);
		if (random_below(seed, 5) == 0)
			node->memory_mib = node->memory_left = 4 + random_below(seed, 12);
		node->schedulable = random_below(seed, 12) > 0;
		node->spot = random_below(seed, 8) == 0;
		node->idle = random_next(seed);
		if (random_below(seed, 10) == 0)
			node->usable = random_next(seed);
		if (random_below(seed, 3) == 0)
			world_cached(world, 1 + random_below(seed, 2), i);
	}
}

/*
 * The memory floor in MiB of a share: an eighth of a device and more.
 */
static int64_t
floor_of(int64_t id)
{
	return (id % 7 + 1) * 10240;
}

/*
 * Allocates devices on a node for a running job.  Returns false if there are
 * none.
 */
static bool
random_part(World *world, uint64_t *seed, DecideRunning *running, int index,
			int most)
{
	DecideNode *node = &world->nodes[index];
	DecidePart *part = NULL;
	int			d;

	if (running->gpus > 0 && node->type != running->type)
		return false;
	for (d = 0; d < node->gpus && most > 0; d++)
	{
		int64_t		memory = running->share == DECIDE_WHOLE ? 0 :
			running->id % 2 == 0 ? floor_of(running->id) :
			share_memory(node, running->share);

		if (node->device_left[d] < running->share ||
			node->gpu_memory_used[d] + memory > node->gpu_memory_mib)
			continue;
		if (part == NULL)
			part = world_part(world, running);
		part->node = index;
		part->devices |= UINT64_C(1) << d;
		part->gpus++;
		part->gpu_memory_mib = memory;
		node->gpu_memory_used[d] += memory;
		node->device_left[d] = (uint16_t) (node->device_left[d] -
										   running->share);
		most--;
	}
	if (part == NULL)
		return false;
	if (node->cpu_left > 0 && random_below(seed, 2) == 0)
		part->cpu_milli = random_below(seed, (int) node->cpu_left + 1) / 2;
	if (node->memory_left > 0 && random_below(seed, 2) == 0)
		part->memory_mib = random_below(seed, (int) node->memory_left + 1) / 2;
	node->cpu_left -= part->cpu_milli;
	node->memory_left -= part->memory_mib;
	running->type = node->type;
	running->gpus += part->gpus;
	return true;
}

/*
 * Adds a running job on free devices.
 */
static void
random_run(World *world, uint64_t *seed, int64_t id)
{
	char	   *account = random_account(seed);
	char	   *org = format("%.*s", (int) strcspn(account, "/"), account);
	DecideRunning *running = world_running(world, org, id);
	int			wanted = 1 + random_below(seed, 4);
	int			first = random_below(seed, world->n_nodes);
	int			i;

	running->account = world_account(world, account);
	free(account);
	free(org);
	running->tier = random_below(seed, world->n_tiers);
	if (random_below(seed, 5) == 0)
		running->share = 100 * (1 + random_below(seed, 9));
	running->preemptible = random_below(seed, 4) > 0 ?
		DECIDE_PREEMPT_CAPACITY : (DecidePreemptible) random_below(seed, 2);
	running->started = world->now - random_time(seed, 900);
	running->saved_at = running->started + random_time(seed, 100);
	running->expected_end = world->now + random_time(seed, 120) - SECOND;
	running->limit_end = running->expected_end + random_time(seed, 100) -
		SECOND;
	if (random_below(seed, 6) == 0)
		running->limit_end = DECIDE_NEVER;
	if (random_below(seed, 12) == 0)
		running->expected_end = running->limit_end = DECIDE_NEVER;
	running->leaving = random_below(seed, 12) == 0;
	for (i = 0; i < world->n_nodes; i++)
		(void) random_part(world, seed, running, (first + i) % world->n_nodes,
						   running->share < DECIDE_WHOLE ? 1 - running->gpus :
						   wanted - running->gpus);
	if (running->gpus == 0)
	{
		free((char *) world->running[--world->n_running].org);
		return;
	}
	world->accounts[running->account].live += (int64_t) running->gpus *
		running->share * world->weights[running->type].weight / 1000;
	world->tiers[running->tier].live += (int64_t) running->gpus *
		running->share;
	running->min_gpus = running->max_gpus = running->gpus;
	if (running->share == DECIDE_WHOLE && random_below(seed, 3) == 0)
	{
		running->min_gpus = 1 + random_below(seed, running->gpus);
		running->max_gpus = running->gpus + random_below(seed, 4);
	}
	running->submitted = running->started - random_below(seed, 3);
	running_request(world, running, (DecideTopology) random_below(seed, 2));
}

/*
 * Adds waiting jobs, all of one request.
 */
static void
random_waiting(World *world, uint64_t *seed, int64_t id)
{
	DecideOffer offers[2] = {{.type = random_below(seed, 2)}, {0}};
	DecideRequestClass request = {
		.share = DECIDE_WHOLE, .n_offers = 1 + random_below(seed, 2),
		.offers = offers, .spot_ok = random_below(seed, 2) == 0,
		.wall_limit = random_below(seed, 8) == 0 ? DECIDE_NEVER :
		random_time(seed, 150),
		.stays = id % 3 == 0
	};
	int			n = 1 + random_below(seed, 3);
	int			i;

	offers[1].type = 1 - offers[0].type;
	offers[1].tied = random_below(seed, 3) == 0;
	request.min_gpus = request.max_gpus = 1 + random_below(seed, 5);
	if (random_below(seed, 5) == 0)
	{
		request.min_gpus = request.max_gpus = 1;
		request.share = 100 * (1 + random_below(seed, 9));
		offers[0].min_memory = floor_of(id) << 20;
	}
	else if (random_below(seed, 10) == 0)
		request.min_gpus = request.max_gpus = request.n_offers = 0;
	else if (random_below(seed, 3) == 0)
		request.max_gpus += random_below(seed, 3);
	request.topology = (DecideTopology) random_below(seed, 4);
	request.prefer = random_below(seed, 3) > 0 ? DECIDE_TOPOLOGY_ANY :
		(DecideTopology) random_below(seed, 4);
	if (random_below(seed, 3) == 0)
		request.cpu_milli = random_below(seed, 12);
	if (random_below(seed, 6) == 0)
		request.memory_mib = random_below(seed, 12);
	for (i = 0; i < n; i++)
	{
		char	   *account = random_account(seed);
		DecideJob  *job;

		account[strcspn(account, "/")] = '\0';
		job = world_job(world, world_request(world, &request), account,
						random_below(seed, 2) == 0 ? "" : "a", id + i);
		free(account);
		job->tier = random_below(seed, world->n_tiers);
		job->submitted = random_below(seed, 100);
		job->priority = random_below(seed, 3);
		job->order_run = random_below(seed, 3);
		job->cache = random_below(seed, 3);
		job->expected_run = random_below(seed, 2) == 0 ? 0 :
			random_time(seed, 150);
		if (random_below(seed, 10) == 0)
			job->aged_at = world->now - random_below(seed, 3) * SECOND;
	}
}

/*
 * Chooses random tiers and a random policy.
 */
static void
random_policy(World *world, uint64_t *seed)
{
	int			i;

	for (i = 0; i < 4; i++)
	{
		int			number = world_rank(world, i);
		DecideTier *tier = &world->tiers[number];

		tier->rank = i > 0 && random_below(seed, 4) == 0 ? i - 1 : i;
		tier->can_preempt = random_below(seed, 2) == 0;
		tier->grace = SECOND * random_below(seed, 4) * 20;
		tier->min_run = SECOND * random_below(seed, 200);
		tier->max_wait = SECOND * random_below(seed, 3000);
		tier->ages_to = random_below(seed, 4);
		if (random_below(seed, 6) == 0)
			tier->share_ppm = random_below(seed, 500000);
	}
	world->policy.order = (DecideOrder) random_below(seed, 2);
	world->policy.packing = (DecidePacking) random_below(seed, 3);
	world->policy.fair_horizon = random_below(seed, 3) * 1800;
	world->policy.reclaim = random_below(seed, 2) == 0;
	world->policy.consolidate = random_below(seed, 3) == 0;
	world->policy.backfill_depth = random_below(seed, 6);
	if (random_below(seed, 2) == 0)
		world->policy.elastic_idle_delay = SECOND * random_below(seed, 100);
	if (random_below(seed, 8) == 0)
		world->max_starts = random_below(seed, 5);
}

/*
 * Makes a pool with running and waiting jobs.
 */
static void
random_pool(World *world, uint64_t *seed)
{
	int			n;
	int			i;

	world_init(world);
	world->now = SECOND * 10000;
	(void) world_type(world, "H100");
	(void) world_type(world, "A100");
	world->weights[1].weight = 1000 + 500 * random_below(seed, 3);
	random_policy(world, seed);
	random_nodes(world, seed);
	n = random_below(seed, 12);
	for (i = 0; i < n; i++)
		random_run(world, seed, 1000 + i);
	n = 1 + random_below(seed, 8);
	for (i = 0; i < n; i++)
		random_waiting(world, seed, 10 * i);
	for (i = 0; i < world->n_accounts; i++)
	{
		world->accounts[i].weight = DECIDE_WEIGHT_ONE *
			(1 + random_below(seed, 3));
		world->accounts[i].usage = random_below(seed, 3) * INT64_C(1000000);
	}
	for (i = 0; i < world->n_requests; i++)
	{
		if (random_below(seed, 3) > 0)
			world_workload(world, &world->requests[i], 1 + random_below(seed,
																		20));
	}
}

/*
 * Whether two reservations of one job are the same.
 */
static bool
reservation_alike(const DecideResult *a, const DecideReservation *r,
				  const DecideResult *b, const DecideReservation *s)
{
	int			p;

	if (r->at != s->at || r->limit_at != s->limit_at || r->type != s->type ||
		r->n_parts != s->n_parts)
		return false;
	for (p = 0; p < r->n_parts; p++)
	{
		const DecidePart *x = &a->reserved_parts[r->first_part + p];
		const DecidePart *y = &b->reserved_parts[s->first_part + p];

		if (x->node != y->node || x->devices != y->devices)
			return false;
	}
	return true;
}

/*
 * Whether waiting jobs keep exactly their reservations.  Guaranteed ones are
 * made in order of their times, so the order of all may differ.
 */
static bool
reserved_alike(const World *world, const DecideResult *a, const World *next,
			   const DecideResult *b)
{
	int			i;
	int			k;

	if (a->n_reservations != b->n_reservations)
		return false;
	for (i = 0; i < a->n_reservations; i++)
	{
		const DecideReservation *r = &a->reservations[i];

		for (k = 0; k < b->n_reservations; k++)
		{
			const DecideReservation *s = &b->reservations[k];

			if (world->jobs[r->job].id == next->jobs[s->job].id &&
				strcmp(world->jobs[r->job].org, next->jobs[s->job].org) == 0)
				break;
		}
		if (k == b->n_reservations ||
			!reservation_alike(a, r, b, &b->reservations[k]))
			return false;
	}
	return true;
}

/*
 * Checks that a second cycle decides nothing.  *next is its world.
 */
static char *
second_error(const World *world, const DecideResult *result,
			 const World *next)
{
	Pool		pool;
	DecideArena arena;
	DecideInput input = world_input(next);
	DecideResult again;
	const char *error;
	char	   *why = NULL;

	pool_init(&pool);
	arena = pool_arena(&pool);
	error = DecideRun(&input, &arena, &again);
	if (error != NULL)
		why = format("a second cycle fails: %s", error);
	else if (again.n_starts + again.n_promises + again.n_evictions > 0 ||
			 !reserved_alike(world, result, next, &again))
	{
		char	   *text = world_render(next, &again, NULL);

		why = format("a second cycle decides:\n%s", text);
		free(text);
	}
	pool_free(&pool);
	return why;
}

/*
 * Lets time pass, and ends some leaving or ended jobs.
 */
static void
time_passes(const World *world, uint64_t *seed, World *later)
{
	bool	   *gone = malloc(sizeof(bool) * (size_t) (world->n_running + 1));
	int64_t		now = world->now + random_below(seed, 40) * SECOND;
	int			i;

	for (i = 0; i < world->n_running; i++)
	{
		const DecideRunning *running = &world->running[i];

		gone[i] = (running->leaving && random_below(seed, 3) > 0) ||
			running->expected_end <= now || random_below(seed, 8) == 0;
	}
	world_without(world, gone, later);
	later->now = now;
	free(gone);
}

/*
 * Runs one cycle of a world, which then becomes the world of the next cycle.
 * Returns NULL, or what is wrong.
 */
static char *
cycle_error(World *world, uint64_t *seed, Counts *counts)
{
	DecideInput input = world_input(world);
	DecideResult result;
	World		next;
	World		later;
	Pool		pool;
	DecideArena arena;
	const char *error;
	char	   *why = NULL;
	char	   *text;
	int			i;

	pool_init(&pool);
	arena = pool_arena(&pool);
	error = DecideRun(&input, &arena, &result);
	if (error != NULL)
	{
		pool_free(&pool);
		return format("%s", error);
	}
	text = world_render(world, &result, NULL);
	error = DecideCheck(&input, &result, &arena, NULL);
	if (error != NULL)
		why = format("DecideCheck: %s", error);
	world_next(world, &result, &next);
	if (why == NULL && result.n_starts < world->max_starts)
	{
		/*
		 * As many jobs may start as in the first cycle, less those that did:
		 * if max_starts is reached, all guaranteed jobs go first.
		 */
		next.max_starts = world->max_starts - result.n_starts;
		why = second_error(world, &result, &next);
		next.max_starts = world->max_starts;
	}
	if (why == NULL)
		why = again_permuted(world, text, seed);
	if (why != NULL)
	{
		char	   *full = format("%s\ndecided:\n%s", why, text);

		free(why);
		why = full;
	}
	counts->cycles++;
	counts->starts += result.n_starts;
	counts->claims += result.n_promises;
	counts->reservations += result.n_reservations;
	for (i = 0; i < world->n_jobs && result.held != NULL; i++)
		counts->held += result.held[i] != DECIDE_NOT_HELD;
	time_passes(&next, seed, &later);
	free(text);
	pool_free(&pool);
	world_free(&next);
	world_free(world);
	*world = later;
	return why;
}

/*
 * Tests one pool.  Returns NULL, or what is wrong.
 */
static char *
pool_error(uint64_t seed, bool quotas, Counts *counts)
{
	uint64_t	first = seed;
	World		world;
	char	   *why = NULL;
	int			i;

	random_pool(&world, &seed);
	if (quotas)
		random_quotas(&world, &seed);
	for (i = 0; i < MOST_CYCLES + quotas && why == NULL; i++)
	{
		if (i == MOST_CYCLES)
			quotas_halve(&world);
		why = cycle_error(&world, &seed, counts);
		if (why != NULL)
		{
			char	   *full = format("seed %" PRIu64 ", cycle %d: %s", first,
									  i + 1, why);

			free(why);
			why = full;
		}
	}
	world_free(&world);
	return why;
}

/*
 * Records an error of a pool, if there is one.
 */
static void
pool_note(char *why, long *wrong, char **first)
{
	*wrong += why != NULL;
	if (*first == NULL)
		*first = why;
	else
		free(why);
}

/*
 * Tests random pools, with quotas or without.
 */
static void
pools_test(Tap *tap, int instances, bool quotas)
{
	const char *what = quotas ? "pools with quotas" : "pools";
	Counts		counts = {0};
	long		wrong = 0;
	char	   *first = NULL;
	char	   *name = format("fixpoint: of %d random %s none decides at once "
							  "again", instances, what);
	int			i;

	for (i = 0; i < instances; i++)
		pool_note(pool_error(UINT64_C(700000000) + (uint64_t) i, quotas,
							 &counts), &wrong, &first);
	for (i = 0; i < (int) (sizeof(wrong_once) / sizeof(wrong_once[0])); i++)
		pool_note(pool_error(wrong_once[i], quotas, &counts), &wrong, &first);
	if (wrong > 0)
		printf("# %ld %s are wrong\n", wrong, what);
	tap_ok(tap, wrong == 0, name, first);
	free(first);
	free(name);
	printf("# %ld cycles with %ld starts, %ld claims, %ld reservations, %ld "
		   "held back\n", counts.cycles, counts.starts, counts.claims,
		   counts.reservations, counts.held);
	name = format("fixpoint: the %s decide something", what);
	tap_ok(tap, counts.starts > instances &&
		   counts.claims > instances / (quotas ? 8 : 4) &&
		   counts.reservations > instances / (quotas ? 4 : 1) &&
		   (counts.held > instances) == quotas, name, NULL);
	free(name);
}

/*
 * Tests random pools.
 */
void
fixpoint_tests(Tap *tap, int instances)
{
	pools_test(tap, instances, false);
	pools_test(tap, instances, true);
}
