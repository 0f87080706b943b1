/*
 * gangs.c
 *	  Tests that many gangs of one request are placed where each would be
 *	  placed alone.
 *
 * A class that failed is not tried again, and from its second job on the core
 * keeps the best single host.  So a world is decided twice: as it is, and with
 * each job in a class of its own.  For that, each job requests a few bytes
 * more of device memory, which changes nothing because nodes have whole MiB.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define MOST_NODES	64

/* The properties of a world's nodes. */
typedef struct Shape
{
	int			types;
	int			most_gpus;
	int			leaves;			/* number of leaves; 0 if each node has its
								 * own */
	int			domains;		/* number of domains below each leaf; 0 if
								 * each node has its own */
	int			spines;			/* number of spines; 0 if none is known */
	bool		crossed;		/* a domain may be below any leaf */
	bool		limited;		/* nodes have limits of cpu and memory */
	bool		busy;			/* some devices are in use */
} Shape;

/*
 * Places a node in a random leaf, domain and spine.
 */
static void
random_place(const Shape *shape, uint64_t *seed, DecideNode *node)
{
	uint64_t	side = *seed ^ 0x5eed;

	if (shape->leaves > 0 && random_below(seed, 20) > 0)
		node->leaf = random_below(seed, shape->leaves);
	if (shape->spines > 0)
		node->spine = random_below(&side, 8) == 0 ? DECIDE_NO_SPINE :
			(node->leaf < 0 ? random_below(&side, 8) : node->leaf) %
			shape->spines;
	node->mbps[DECIDE_LEVEL_SPINE] = random_below(&side, 3) * 100000;
	node->mbps[DECIDE_LEVEL_LEAF] = random_below(&side, 2) * 400000;
	if (shape->domains == 0 || random_below(seed, 20) == 0)
		return;
	if (shape->crossed)
		node->domain = random_below(seed, shape->domains * 4);
	else if (node->leaf >= 0)
		node->domain = node->leaf * 8 + random_below(seed, shape->domains);
}

/*
 * Adds a random node.
 */
static void
random_node(World *world, const Shape *shape, uint64_t *seed, int index)
{
	char	   *name = format("n%03d", (index * 37 + 11) % 1000);
	DecideNode *node = world_node(world, name,
								  random_below(seed, shape->types),
								  random_below(seed, 8) > 0 ?
								  shape->most_gpus :
								  random_below(seed, shape->most_gpus + 1));
	int			i;

	free(name);
	node->gpu_memory_mib = 80000;
	random_place(shape, seed, node);
	if (shape->limited && random_below(seed, 3) > 0)
	{
		node->cpu_milli = 10 + random_below(seed, 60);
		node->cpu_left = random_below(seed, (int) node->cpu_milli + 1);
		node->memory_mib = random_below(seed, 2) * 50;
		node->memory_left = node->memory_mib;
	}
	node->spot = random_below(seed, 12) == 0;
	node->schedulable = random_below(seed, 16) > 0;
	for (i = 0; i < node->gpus && shape->busy; i++)
	{
		if (random_below(seed, 4) == 0)
			node->device_left[i] = (uint16_t)
				(random_below(seed, 3) == 0 ? 400 : 0);
	}
}

/*
 * Adds a running job on a node's free devices.
 */
static void
random_running(World *world, uint64_t *seed, int64_t id)
{
	int			index = random_below(seed, world->n_nodes);
	DecideNode *node = &world->nodes[index];
	uint64_t	devices = 0;
	DecideRunning *running;
	DecidePart *part;
	int			d;

	for (d = 0; d < node->gpus; d++)
	{
		if (node->device_left[d] < DECIDE_WHOLE || random_below(seed, 2) == 0)
			continue;
		devices |= UINT64_C(1) << d;
		node->device_left[d] = 0;
	}
	if (devices == 0)
		return;
	running = world_running(world, "runs", id);
	running->account = world_account(world, "runs");
	running->type = node->type;
	running->gpus = running->min_gpus = running->max_gpus =
		__builtin_popcountll(devices);
	running->expected_end = 1 + random_below(seed, 20) * 10;
	running->limit_end = running->expected_end + random_below(seed, 100);
	part = world_part(world, running);
	part->node = index;
	part->devices = devices;
	part->gpus = running->gpus;
}

/*
 * Adds a class of gangs; some end sooner than others.
 */
static void
random_class(World *world, uint64_t *seed, int class, bool ends)
{
	DecideOffer offers[2] = {{0}};
	DecideRequestClass request = {0};
	int			n = 1 + random_below(seed, 24);
	int			index[2];
	int			i;

	request.offers = offers;
	request.n_offers = 1 + random_below(seed, world->n_types);
	for (i = 0; i < request.n_offers; i++)
	{
		offers[i].type = i;
		offers[i].min_memory = INT64_C(1048576) * 1000;
		offers[i].tied = i > 0 && random_below(seed, 2) == 0;
	}
	request.share = DECIDE_WHOLE;
	request.wall_limit = ends ? 1 + random_below(seed, 150) : DECIDE_NEVER;
	request.min_gpus = request.max_gpus = random_below(seed, 6) == 0 ?
		1 + random_below(seed, 4) : 2 + random_below(seed, 28);
	request.topology = random_below(seed, 2) == 0 ? DECIDE_TOPOLOGY_ANY :
		(DecideTopology) random_below(seed, 4);
	request.prefer = random_below(seed, 2) == 0 ? DECIDE_TOPOLOGY_ANY :
		(DecideTopology) random_below(seed, 4);
	request.cpu_milli = random_below(seed, 3) > 0 ? 0 : random_below(seed, 60);
	request.memory_mib = random_below(seed, 3) > 0 ? 0 : random_below(seed,
																	  60);
	request.spot_ok = random_below(seed, 2) == 0;
	index[0] = index[1] = world_request(world, &request);
	if (ends && random_below(seed, 2) == 0)
	{
		request.wall_limit = 1 + random_below(seed, 150);
		index[1] = world_request_again(world, &request);
	}
	for (i = 0; i < n; i++)
	{
		DecideJob  *job = world_job(world, index[random_below(seed, 2)],
									"acme", "",
									class * 100 + i);

		job->tier = world_rank(world, 0);
		job->submitted = random_below(seed, 100);
		job->cache = random_below(seed, 2) * random_below(seed, 4);
	}
}

/*
 * Makes a world with waiting gangs of a few classes.
 */
void
random_gangs(World *world, uint64_t *seed)
{
	static const char *const type_names[] = {"A100", "H100"};
	static const int gpus[] = {8, 4, 8, 2, 1, 16};
	Shape		shape;
	int			n_nodes = 4 + random_below(seed, MOST_NODES - 3);
	bool		ends = random_below(seed, 3) == 0;
	uint64_t	side;
	int			i;

	shape.types = 1 + random_below(seed, 2);
	shape.most_gpus = gpus[random_below(seed, 6)];
	shape.leaves = random_below(seed, 4) == 0 ? 0 : 1 + random_below(seed, 6);
	shape.domains = random_below(seed, 4) == 0 ? 0 : 1 + random_below(seed, 4);
	side = *seed ^ 0x5eed;
	shape.spines = random_below(&side, 2) * (1 + random_below(&side, 4));
	shape.crossed = random_below(seed, 8) == 0;
	shape.limited = random_below(seed, 3) == 0;
	shape.busy = random_below(seed, 2) == 0;
	world_init(world);
	for (i = 0; i < shape.types; i++)
		world_type(world, type_names[i]);
	for (i = 0; i < n_nodes; i++)
		random_node(world, &shape, seed, i);
	for (i = 0; i < n_nodes; i++)
	{
		while (random_below(seed, 4) == 0)
			world_cached(world, 1 + random_below(seed, 3), i);
	}
	for (i = 0; i < 1 + random_below(seed, 4); i++)
		random_class(world, seed, i, ends);
	for (i = 0; i < n_nodes && ends; i++)
		random_running(world, seed, 10000 + i);
	world->policy.packing = (DecidePacking) random_below(seed, 3);
	world->policy.backfill_depth = random_below(seed, 4);
	for (i = 0; i < world->n_requests; i++)
		world_workload(world, &world->requests[i], 1 + random_below(seed, 40));
}

/*
 * Makes a class of its own for each job of a world.
 */
static void
classes_split(World *world)
{
	int			i;
	int			j;

	for (i = 0; i < world->n_jobs; i++)
	{
		DecideRequestClass request = world->requests[world->jobs[i].request];
		DecideOffer offers[WORLD_MAX_OFFERS] = {{0}};

		for (j = 0; j < request.n_offers; j++)
		{
			offers[j] = request.offers[j];
			offers[j].min_memory -= i;
		}
		request.offers = offers;
		world->jobs[i].request = world_request_again(world, &request);
	}
}

/*
 * Returns a world's starts and reservations as text, or NULL with an error in
 * *why.  With starve, also tries too little memory.
 */
static char *
decided(const World *world, bool starve, long *gangs, char **why)
{
	DecideInput input = world_input(world);
	DecideResult result;
	Pool		pool;
	DecideArena arena;
	const char *error;
	char	   *text = NULL;
	char	   *waits;
	int			i;

	pool_init(&pool);
	arena = pool_arena(&pool);
	error = DecideRun(&input, &arena, &result);
	if (error == NULL)
		error = DecideCheck(&input, &result, &arena, NULL);
	if (error != NULL)
		*why = format("%s", error);
	else
	{
		text = world_render(world, &result, NULL);
		if (starve)
			*why = again_starved(world, text);
		waits = strncmp(text, "wait ", 5) == 0 ? text :
			strstr(text, "\nwait ");
		if (waits != NULL)
			*waits = '\0';
		for (i = 0; i < result.n_starts; i++)
			*gangs += result.starts[i].n_parts > 1;
	}
	pool_free(&pool);
	return text;
}

/*
 * Decides a world both ways.  Returns NULL, or what is wrong.
 */
static char *
instance_error(uint64_t seed, long *gangs)
{
	World		world;
	char	   *why = NULL;
	char	   *together;
	char	   *alone = NULL;
	long		ignored = 0;

	random_gangs(&world, &seed);
	together = decided(&world, seed % 16 == 0, gangs, &why);
	if (why == NULL)
	{
		classes_split(&world);
		alone = decided(&world, false, &ignored, &why);
	}
	if (why == NULL && strcmp(together, alone) != 0)
		why = format("decided:\n%s\neach by itself:\n%s", together, alone);
	free(together);
	free(alone);
	world_free(&world);
	return why;
}

/*
 * Tests random worlds of gangs.
 */
void
gangs_tests(Tap *tap, int instances)
{
	char	   *name = format("gangs: %d pools, each gang goes where it would "
							  "by itself", instances);
	char	   *why = NULL;
	long		gangs = 0;
	int			i;

	for (i = 0; i < instances && why == NULL; i++)
	{
		why = instance_error((uint64_t) i, &gangs);
		if (why != NULL)
		{
			char	   *full = format("seed %d: %s", i, why);

			free(why);
			why = full;
		}
	}
	tap_ok(tap, why == NULL, name, why);
	free(why);
	free(name);
	printf("# %ld gangs over several nodes\n", gangs);
	tap_ok(tap, gangs > instances, "gangs: there are enough of them", NULL);
}
