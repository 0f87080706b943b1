/*
 * property.c
 *	  Tests random small clusters and queues by trying everything.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static const char *const type_names[] = {"A100", "H100", "T4"};

/*
 * Adds a random node: small, sometimes limited, broken, busy or grouped.
 */
static void
random_node(World *world, uint64_t *seed, int index, bool nested)
{
	char	   *name = format("n%02d", (index * 7 + 3) % 100);
	int			type = random_below(seed, 4) > 0 ? 0 : random_below(seed, 3);
	DecideNode *node = world_node(world, name, type, random_below(seed, 5));
	uint64_t	side = *seed ^ 0x5eed;
	int			i;

	free(name);
	node->gpu_memory_mib = random_below(seed, 3) > 0 ? 80000 : 40000;
	if (random_below(seed, 2) == 0)
	{
		node->cpu_milli = 1 + random_below(seed, 40);
		node->cpu_left = random_below(seed, 3) > 0 ? node->cpu_milli :
			random_below(seed, (int) node->cpu_milli + 1);
	}
	if (random_below(seed, 3) == 0)
	{
		node->memory_mib = 1 + random_below(seed, 40);
		node->memory_left = random_below(seed, 3) > 0 ? node->memory_mib :
			random_below(seed, (int) node->memory_mib + 1);
	}
	if (random_below(seed, 4) > 0)
		node->leaf = random_below(seed, 3);
	if (random_below(seed, 4) > 0)
		node->domain = nested && node->leaf >= 0 ?
			node->leaf * 2 + random_below(seed, 2) : random_below(seed, 4);
	if (nested && node->leaf < 0)
		node->domain = DECIDE_OWN_GROUP;
	/* of a seed of its own, so that pools without spines stay as they are */
	if (nested)
		node->spine = random_below(&side, 5) == 0 ?
			random_below(&side, 4) - 1 : node->leaf / 2;
	for (i = 0; nested && i < DECIDE_LEVELS; i++)
		node->mbps[i] = random_below(&side, 3) * 100000;
	node->spot = random_below(seed, 6) == 0;
	node->schedulable = random_below(seed, 10) > 0;
	if (random_below(seed, 5) == 0)
		node->usable = random_next(seed);
	for (i = 0; i < node->gpus; i++)
	{
		if (random_below(seed, 6) == 0)
			node->device_left[i] = (uint16_t)
				(random_below(seed, 3) == 0 ? 0 :
				 random_below(seed, 11) * 100);
		if (node->device_left[i] > 0 && node->device_left[i] < DECIDE_WHOLE)
			node->gpu_memory_used[i] = node->device_left[i] * 79 % 5 * 20000;
	}
}

/*
 * Adds a random request, and one or a few jobs of it.
 */
static void
random_jobs(World *world, uint64_t *seed, int64_t first_id, bool one_node)
{
	static const char *const orgs[] = {"acme", "bolt", "corp"};
	static const char *const accounts[] = {"", "a", "b", "a/x", "a/x/y"};
	DecideOffer offers[3] = {{0}};
	DecideRequestClass request = {0};
	uint64_t	filter[WORLD_FILTER_WORDS] = {0};
	int			kind = random_below(seed, 8);
	int			n;
	int			i;

	request.offers = offers;
	request.n_offers = kind == 0 ? 0 : 1 + random_below(seed, 3);
	for (i = 0; i < request.n_offers; i++)
	{
		offers[i].type = random_below(seed, 3);
		offers[i].min_memory = random_below(seed, 4) > 0 ? 0 :
			INT64_C(1048576) * (39000 + random_below(seed, 4) * 20000);
	}
	request.share = DECIDE_WHOLE;
	request.wall_limit = DECIDE_NEVER;
	if (kind == 1 || kind == 2)
	{
		request.min_gpus = request.max_gpus = 1;
		request.share = 100 * (1 + random_below(seed, 10));
		for (i = 0; i < request.n_offers; i++)
			offers[i].min_memory /= first_id % 3 + 1;
	}
	else if (kind > 2)
	{
		request.min_gpus = 1 + random_below(seed, kind > 5 ? 3 : 8);
		request.max_gpus = request.min_gpus +
			(random_below(seed, 3) == 0 ? random_below(seed, 8) : 0);
	}
	request.topology = random_below(seed, 2) == 0 ? DECIDE_TOPOLOGY_ANY :
		(DecideTopology) random_below(seed, 4);
	if (one_node)
		request.topology = DECIDE_TOPOLOGY_NODE;
	request.cpu_milli = random_below(seed, 2) == 0 ? 0 : random_below(seed,
																	  50);
	request.memory_mib = random_below(seed, 3) > 0 ? 0 : random_below(seed,
																	  50);
	request.spot_ok = random_below(seed, 2) == 0;
	request.stays = !request.spot_ok && first_id % 4 < 3;
	request.prefer = random_below(seed, 2) == 0 ? DECIDE_TOPOLOGY_ANY :
		(DecideTopology) random_below(seed, 4);
	if (random_below(seed, 3) == 0)
	{
		filter[0] = random_next(seed);
		request.filter = filter;
	}
	if (kind > 2 && request.min_gpus == request.max_gpus)
		request.per_node = request.min_gpus %
			(n = 1 + random_below(seed, 6)) == 0 ? n : 0;
	n = random_below(seed, 4);
	for (i = 0; i < n; i++)
	{
		DecideJob  *job = world_job(world, world_request(world, &request),
									orgs[random_below(seed, 3)],
									accounts[random_below(seed, 5)],
									first_id + i);

		job->tier = world_rank(world, random_below(seed, 5));
		job->submitted = random_below(seed, 4) - 1;
		job->priority = random_below(seed, 3) - 1;
		job->order_run = random_below(seed, 3);
		job->aged_at = random_below(seed, 10);
		job->cache = random_below(seed, 3);
	}
}

/*
 * Chooses random rules: time, policy, tiers, weights and use of accounts.
 */
static void
random_rules(World *world, uint64_t *seed)
{
	bool		used = random_below(seed, 3) > 0;
	int			i;

	world->now = random_below(seed, 3) > 0 ? 0 : random_below(seed, 10);
	world->policy.order = (DecideOrder) random_below(seed, 2);
	world->policy.fair_horizon = random_below(seed, 3);
	for (i = 0; i < world->n_tiers; i++)
	{
		DecideTier *tier = &world->tiers[i];

		tier->rank = random_below(seed, 3);
		tier->max_wait = random_below(seed, 4);
		tier->ages_to = random_below(seed, 4);
		if (random_below(seed, 4) == 0)
			tier->share_ppm = random_below(seed, 400000);
		if (random_below(seed, 2) == 0)
			tier->live = random_below(seed, 3000);
	}
	for (i = 0; i < world->n_accounts; i++)
	{
		DecideAccount *account = &world->accounts[i];

		account->weight = DECIDE_WEIGHT_ONE * (1 + random_below(seed, 3));
		if (used && random_below(seed, 2) == 0)
			account->usage = 1000 * random_below(seed, 4);
		if (used && random_below(seed, 3) == 0)
			account->live = 500 * random_below(seed, 4);
	}
	for (i = 0; i < world->n_types; i++)
		world->weights[i].weight = 500 * random_below(seed, 4);
}

/*
 * Chooses a random packing policy, workload mix (which contains some waiting
 * requests more often) and caches.
 */
static void
random_knowledge(World *world, uint64_t *seed)
{
	int			i;

	world->policy.packing = (DecidePacking) random_below(seed, 3);
	for (i = 0; i < world->n_requests; i++)
	{
		if (random_below(seed, 3) > 0)
			world_workload(world, &world->requests[i],
						   1 + random_below(seed, random_below(seed, 2) == 0 ?
											3 : 40));
	}
	for (i = 0; i < world->n_nodes; i++)
	{
		if (random_below(seed, 3) == 0)
			world_cached(world, 1 + random_below(seed, 2), i);
	}
}

/*
 * Makes a whole random world of at most 5 nodes.
 */
void
random_world(World *world, uint64_t *seed)
{
	bool		nested = random_below(seed, 2) == 0;
	int			n_nodes = random_below(seed, 12) == 0 ? 0 :
		1 + random_below(seed, 5);
	int			n_requests = random_below(seed, 6);
	int			i;

	world_init(world);
	for (i = 0; i < 3; i++)
		world_type(world, type_names[i]);
	for (i = 0; i < n_nodes; i++)
		random_node(world, seed, i, nested);
	for (i = 0; i < n_requests; i++)
		random_jobs(world, seed, i * 10, false);
	random_rules(world, seed);
	random_knowledge(world, seed);
	if (random_below(seed, 8) == 0)
		world->max_starts = random_below(seed, 5);
}

/*
 * Makes a larger world of single-node jobs: many classes, each of which is
 * affected by what others used.
 */
static void
random_large_world(World *world, uint64_t *seed)
{
	int			i;

	world_init(world);
	for (i = 0; i < 3; i++)
		world_type(world, type_names[i]);
	for (i = 0; i < 60; i++)
		random_node(world, seed, i, true);
	for (i = 0; i < 60; i++)
		random_jobs(world, seed, i * 10, true);
	random_rules(world, seed);
	random_knowledge(world, seed);
}

/*
 * Checks that DecideFeasible agrees with trying everything on an empty
 * cluster.
 */
static char *
feasible_error(const World *world, const DecideArena *arena)
{
	DecideNode	nodes[64];
	int			i;
	int			j;

	for (i = 0; i < world->n_nodes; i++)
	{
		nodes[i] = world->nodes[i];
		nodes[i].schedulable = true;
		nodes[i].usable = UINT64_MAX;
		nodes[i].cpu_left = nodes[i].cpu_milli;
		nodes[i].memory_left = nodes[i].memory_mib;
		for (j = 0; j < DECIDE_MAX_DEVICES; j++)
			nodes[i].device_left[j] = DECIDE_WHOLE;
	}
	for (i = 0; i < world->n_requests; i++)
	{
		const DecideRequestClass *request = &world->requests[i];
		bool		expected = false;
		bool		feasible;
		const char *error;

		for (j = 0; j < (request->max_gpus > 0 ? request->n_offers : 1); j++)
			expected |= oracle_largest(nodes, world->n_nodes, request,
									   request->max_gpus > 0 ?
									   &request->offers[j] :
									   NULL) >= 0;
		error = DecideFeasible(world->nodes, world->n_nodes, request, arena,
							   &feasible);
		if (error != NULL)
			return format("%s", error);
		if (feasible != expected)
			return format("ask %d is %s", i,
						  expected ? "feasible" : "impossible");
	}
	return NULL;
}

/*
 * Checks the numbers of the reported reasons.
 */
static char *
reasons_error(const World *world, const DecideResult *result)
{
	int			i;

	for (i = 0; i < world->n_requests; i++)
	{
		const DecideWait *wait = &result->waits[i];
		bool		numbers = wait->reason == DECIDE_NO_SUCH_MEMORY ||
			wait->reason == DECIDE_POOL_TOO_SMALL ||
			(wait->reason >= DECIDE_NOT_ENOUGH_SHARE &&
			 wait->reason <= DECIDE_MEMORY_SHORT);

		if (numbers && wait->available >= wait->wanted)
			return format("ask %d: %s, but wants %" PRId64 " of %" PRId64, i,
						  DecideReasonName(wait->reason), wait->wanted,
						  wait->available);
	}
	return NULL;
}

/*
 * Decides and checks one instance.  Returns NULL, or what is wrong.
 */
static char *
instance_error(uint64_t seed, bool large, long *starts, long *waits,
			   long *leaf_misses)
{
	World		world;
	DecideInput input;
	DecideResult result;
	Pool		pool;
	DecideArena arena;
	const char *error;
	char	   *why = NULL;
	char	   *text = NULL;
	int			i;

	if (large)
		random_large_world(&world, &seed);
	else
		random_world(&world, &seed);
	pool_init(&pool);
	arena = pool_arena(&pool);
	input = world_input(&world);
	error = DecideRun(&input, &arena, &result);
	if (error != NULL)
		why = format("%s", error);
	else
		text = world_render(&world, &result, NULL);
	if (why == NULL)
	{
		error = DecideCheck(&input, &result, &arena, NULL);
		if (error != NULL)
			why = format("DecideCheck: %s", error);
		*starts += result.n_starts;
		for (i = 0; i < world.n_requests; i++)
			*waits += result.waits[i].reason != DECIDE_NOT_WAITING;
	}
	if (why == NULL)
		why = oracle_judge(&world, &result, leaf_misses);
	if (why == NULL)
		why = reasons_error(&world, &result);
	if (why == NULL)
		why = feasible_error(&world, &arena);
	if (why == NULL)
		why = again_permuted(&world, text, &seed);
	if (why == NULL && seed % 16 == 0)
		why = again_starved(&world, text);
	if (why != NULL && text != NULL)
	{
		char	   *full = format("%s\ndecided:\n%s", why, text);

		free(why);
		why = full;
	}
	free(text);
	pool_free(&pool);
	world_free(&world);
	return why;
}

/*
 * Runs a batch of random instances as one test.
 */
static void
batch_test(Tap *tap, int batch, int instances, bool large, long *starts,
		   long *waits, long *leaf_misses)
{
	char	   *name = format("property: %d random %sinstances, batch %d",
							  instances, large ? "large " : "", batch);
	char	   *why = NULL;
	int			i;

	for (i = 0; i < instances && why == NULL; i++)
	{
		uint64_t	seed = (uint64_t) batch * 1000000 + (uint64_t) i;

		why = instance_error(seed, large, starts, waits, leaf_misses);
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

/*
 * Tests random instances against the oracle.
 */
void
property_tests(Tap *tap, int instances)
{
	long		starts = 0;
	long		waits = 0;
	long		leaf_misses = 0;
	int			batch;

	for (batch = 0; batch < 20; batch++)
		batch_test(tap, batch, instances / 20, false, &starts, &waits,
				   &leaf_misses);
	for (; batch < 24; batch++)
		batch_test(tap, batch, instances / 100, true, &starts, &waits,
				   &leaf_misses);
	printf("# %ld starts and %ld waits judged; %ld gangs on more leaves or "
		   "nodes than the fewest\n", starts, waits, leaf_misses);
	tap_ok(tap, starts > instances / 2 && waits > instances / 2,
		   "property: the instances decide something", NULL);
}
