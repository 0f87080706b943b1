/*
 * bench.c
 *	  Measures how long cycles take.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "world.h"

/* The shapes of a production cluster's nodes: 1,213 nodes, 6,212 GPUs. */
static const struct
{
	int			nodes;
	int			gpus;
	int			cpu_milli;
	int			memory_mib;
	const char *type;
}			shapes[] =

{
	{549, 8, 96000, 393216, "G2"}, {387, 2, 96000, 524288, "T4"},
	{107, 2, 64000, 122880, "P100"}, {39, 8, 128000, 786432, "G3"},
	{28, 4, 32000, 131072, "V100M16"}, {22, 2, 64000, 262144, "P100"},
	{21, 8, 96000, 786432, "V100M32"}, {19, 1, 8000, 32768, "V100M16"},
	{17, 4, 96000, 393216, "T4"}, {9, 4, 48000, 376832, "V100M32"},
	{8, 8, 96000, 262144, "V100M16"}, {5, 1, 32000, 61440, "P100"},
	{2, 1, 128000, 1048576, "A10"},
};

static double
seconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/*
 * Adds nodes of these shapes, times times, in leaves of 32 nodes.
 */
static void
shaped_nodes(World *world, int times)
{
	size_t		i;
	int			j;

	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
	{
		int			type = world_type(world, shapes[i].type);

		for (j = 0; j < shapes[i].nodes * times; j++)
		{
			char	   *name = format("node-%06d", world->n_nodes);
			DecideNode *node = world_node(world, name, type, shapes[i].gpus);

			free(name);
			node->cpu_milli = node->cpu_left = shapes[i].cpu_milli;
			node->memory_mib = node->memory_left = shapes[i].memory_mib;
			node->leaf = world->n_nodes / 32;
		}
	}
}

/*
 * Adds n jobs of one class that accepts any type.
 */
static void
class_jobs(World *world, int n, int gpus, int share, int64_t cpu,
		   DecideTopology topology)
{
	DecideOffer offers[WORLD_MAX_OFFERS] = {{0}};
	DecideRequestClass request = {0};
	int			index;
	int			i;

	request.offers = offers;
	request.n_offers = world->n_types;
	for (i = 0; i < world->n_types; i++)
	{
		offers[i].type = i;
		offers[i].min_memory = 0;
	}
	request.min_gpus = request.max_gpus = gpus;
	request.share = share;
	request.wall_limit = DECIDE_NEVER;
	request.cpu_milli = cpu;
	request.topology = topology;
	index = world_request(world, &request);
	for (i = 0; i < n; i++)
		world_job(world, index, "acme", "", world->n_jobs)->submitted =
			(int64_t) world->n_jobs * 7919 % 100003;
}

/*
 * Decides a world several times, checks the result and prints the shortest
 * time.
 */
static void
timed(const char *name, World *world)
{
	DecideInput input = world_input(world);
	double		best = 1e9;
	double		checked = 0;
	int			starts = 0;
	size_t		bytes = 0;
	int			i;

	for (i = 0; i < 3; i++)
	{
		DecideResult result;
		Pool		pool;
		DecideArena arena;
		double		start;
		double		end;
		const char *error;

		pool_init(&pool);
		arena = pool_arena(&pool);
		start = seconds_now();
		error = DecideRun(&input, &arena, &result);
		end = seconds_now();
		if (error == NULL)
			error = DecideCheck(&input, &result, &arena, NULL);
		checked = seconds_now() - end;
		if (error != NULL)
		{
			printf("%s: %s\n", name, error);
			exit(1);
		}
		if (end - start < best)
			best = end - start;
		starts = result.n_starts + result.n_evictions;
		bytes = pool.bytes;
		pool_free(&pool);
	}
	printf("%-54s %9.2f ms  check %7.2f ms  %6d decided  %7.1f MB\n", name,
		   best * 1e3, checked * 1e3, starts, (double) bytes / 1e6);
	world_free(world);
}

/*
 * Allocates all devices of a world.
 */
static void
nodes_fill(World *world)
{
	int			i;
	int			j;

	for (i = 0; i < world->n_nodes; i++)
	{
		for (j = 0; j < DECIDE_MAX_DEVICES; j++)
			world->nodes[i].device_left[j] = 0;
	}
}

/*
 * Makes the cluster: that of a trace if one is given, otherwise one of the
 * same shapes.
 */
static void
cluster(World *world, const char *trace)
{
	world_init(world);
	if (trace == NULL || !trace_nodes(world, trace))
		shaped_nodes(world, 1);
}

/*
 * Adds pods: those of a trace if one is given, repeated up to n, otherwise a
 * similar mix.
 */
static void
mixed_jobs(World *world, const char *trace, const char *file, int n)
{
	uint64_t	seed = 42;
	int			i;

	if (trace != NULL)
	{
		char	   *error = trace_pods(world, trace, file);
		int			have = world->n_jobs;

		if (error != NULL)
		{
			fprintf(stderr, "%s\n", error);
			exit(2);
		}

		for (i = 0; world->n_jobs < n; i++)
		{
			DecideJob	like = world->jobs[i % have];

			world_job(world, like.request, "again", "", i)->submitted =
				like.submitted + 1;
		}
		return;
	}
	while (world->n_jobs < n)
	{
		int			kind = random_below(&seed, 100);
		int			cpu = 1000 * (1 + random_below(&seed, 32));

		if (kind < 50)
			class_jobs(world, 1, 1, 10 * (1 + random_below(&seed, 99)), cpu,
					   DECIDE_TOPOLOGY_NODE);
		else if (kind < 85)
			class_jobs(world, 1, 1, 1000, cpu, DECIDE_TOPOLOGY_NODE);
		else if (kind < 95)
			class_jobs(world, 1, 0, 1000, cpu, DECIDE_TOPOLOGY_ANY);
		else
			class_jobs(world, 1, 1 << random_below(&seed, 4), 1000, cpu,
					   DECIDE_TOPOLOGY_NODE);
	}
}

/*
 * Times cycles of growing size, to show how the time grows.
 */
static void
growth(void)
{
	int			times;

	for (times = 1; times <= 8; times *= 2)
	{
		World		world;
		char	   *name = format("%d one-GPU jobs, %d nodes", times * 10000,
								  times * 1213);

		world_init(&world);
		shaped_nodes(&world, times);
		class_jobs(&world, times * 10000, 1, 1000, 0, DECIDE_TOPOLOGY_ANY);
		timed(name, &world);
		free(name);
	}
}

/*
 * Times ten thousand jobs in a hundred classes that cannot start.
 */
static void
blocked(const char *trace)
{
	World		world;
	int			i;

	cluster(&world, trace);
	nodes_fill(&world);
	for (i = 0; i < 100; i++)
		class_jobs(&world, 100, 1 + i % 16, 1000, 1000 + i,
				   DECIDE_TOPOLOGY_ANY);
	timed("10000 blocked jobs in 100 classes, full pool", &world);
}

/*
 * Distributes the jobs over this many accounts of 50 organisations.
 */
static void
queue_spread(World *world, int accounts)
{
	int		   *ids = malloc(sizeof(int) * (size_t) (accounts + 1));
	int			i;

	for (i = 0; i < accounts; i++)
	{
		char	   *name = format("org%d/team%d/user%d", i % 50, i % 7, i);

		ids[i] = world_account(world, name);
		world->accounts[ids[i]].usage = i % 11 * 1000000;
		free(name);
	}
	for (i = 0; i < world->n_jobs && accounts > 0; i++)
	{
		DecideJob  *job = &world->jobs[i];

		job->account = ids[i * 31 % accounts];
		free((char *) job->org);
		job->org = format("org%d", i * 31 % accounts % 50);
	}
	free(ids);
}

/*
 * Sets a different wall limit for each job.
 */
static void
own_limits(World *world)
{
	int			i;

	for (i = 0; i < world->n_jobs; i++)
	{
		DecideRequestClass request = world->requests[world->jobs[i].request];

		request.wall_limit = 1000000 * (INT64_C(60) +
										(int64_t) i * 7919 % 100003);
		world->jobs[i].request = world_request_again(world, &request);
	}
}

/*
 * Times the largest queue: 320,000 jobs in 200 classes on 1,000 nodes of 8
 * devices.  The jobs are distributed over accounts of 50 organisations (or all
 * belong to one account if accounts is 0), with different limits and with
 * reservations, or without both.
 */
static void
large_queue(int accounts, bool limits)
{
	World		world;
	char	   *name;
	int			i;

	world_init(&world);
	for (i = 0; i < 1000; i++)
	{
		DecideNode *node;

		name = format("node-%04d", i);
		node = world_node(&world, name, world_type(&world, "H100"), 8);
		free(name);
		node->cpu_milli = node->cpu_left = 128000;
		node->leaf = i / 32;
		node->domain = i / 4;
	}
	for (i = 0; i < 200; i++)
		class_jobs(&world, 1600, i % 4 == 3 ? 8 * (1 + i % 8) : 1 + i % 8,
				   1000, 1000 + i, i % 5 == 0 ? DECIDE_TOPOLOGY_NVLINK :
				   DECIDE_TOPOLOGY_ANY);
	for (i = 0; i < world.n_jobs; i++)
	{
		world.jobs[i].priority = i % 3;
		world.jobs[i].tier = world_rank(&world, i % 5);
	}
	queue_spread(&world, accounts);
	if (limits)
	{
		own_limits(&world);
		world.policy.backfill_depth = 32;
	}
	name = format("320000 jobs in 200 classes, %d accounts, 1000 nodes%s",
				  accounts > 0 ? accounts : 1,
				  limits ? ", own limits" : "");
	timed(name, &world);
	free(name);
}

/*
 * Times gangs that fill the pool, and one class that never fits.
 */
static void
gangs(const char *trace, int gpus, DecideTopology topology, const char *name)
{
	World		world;

	cluster(&world, trace);
	class_jobs(&world, 10000, gpus, 1000, 0, topology);
	timed(name, &world);
}

/*
 * Times a reclaim: nodes are full of one-GPU jobs of a tenant above its share,
 * and a gang of a tenth of the nodes waits for a tenant without jobs.
 */
static void
reclaim(int nodes)
{
	World		world;
	DecideRequestClass request = {
		.min_gpus = nodes / 10 * 8, .max_gpus = nodes / 10 * 8,
		.share = DECIDE_WHOLE, .n_offers = 1, .wall_limit = DECIDE_NEVER
	};
	DecideOffer offer = {0};
	char	   *name;
	int			i;
	int			d;

	world_init(&world);
	world.now = 1000000;
	world.policy.reclaim = true;
	(void) world_rank(&world, 0);
	offer.type = world_type(&world, "H100");
	request.offers = &offer;
	for (i = 0; i < nodes; i++)
	{
		name = format("node-%06d", i);
		world_node(&world, name, offer.type, 8);
		free(name);
		for (d = 0; d < 8; d++)
		{
			DecideRunning *running = world_running(&world, "over",
												   (int64_t) i * 8 + d);
			DecidePart *part = world_part(&world, running);

			running->account = world_account(&world, "over");
			running->type = offer.type;
			running->gpus = running->min_gpus = running->max_gpus = 1;
			running->preemptible = DECIDE_PREEMPT_CAPACITY;
			part->node = i;
			part->gpus = 1;
			part->devices = UINT64_C(1) << d;
			world.nodes[i].device_left[d] = 0;
		}
	}
	(void) world_job(&world, world_request(&world, &request), "under", "", 1);
	name = format("%d nodes full, a gang of %d reclaims", nodes,
				  request.min_gpus);
	timed(name, &world);
	free(name);
}

/*
 * Times raised entitlements: each node has five one-GPU jobs of another
 * organisation and three free devices.  So no account has more than its
 * entitlement, and jobs of four GPUs on one node find victims only as if their
 * account asked for everything.
 */
static void
raises(int nodes, int jobs)
{
	World		world;
	DecideRequestClass request = {
		.min_gpus = 4, .max_gpus = 4, .share = DECIDE_WHOLE, .n_offers = 1,
		.wall_limit = DECIDE_NEVER, .topology = DECIDE_TOPOLOGY_NODE
	};
	DecideOffer offer = {0};
	int			index;
	char	   *name;
	int			i;
	int			d;

	world_init(&world);
	world.now = 1000000;
	world.policy.reclaim = true;
	(void) world_rank(&world, 0);
	offer.type = world_type(&world, "H100");
	request.offers = &offer;
	for (i = 0; i < nodes; i++)
	{
		name = format("node-%06d", i);
		world_node(&world, name, offer.type, 8);
		free(name);
		for (d = 0; d < 5; d++)
		{
			DecideRunning *running;
			DecidePart *part;

			name = format("over/user%d", (i * 5 + d) % 100);
			running = world_running(&world, "over", (int64_t) i * 8 + d);
			part = world_part(&world, running);
			running->account = world_account(&world, name);
			free(name);
			running->type = offer.type;
			running->gpus = running->min_gpus = running->max_gpus = 1;
			running->preemptible = DECIDE_PREEMPT_CAPACITY;
			part->node = i;
			part->gpus = 1;
			part->devices = UINT64_C(1) << d;
			world.nodes[i].device_left[d] = 0;
		}
	}
	index = world_request(&world, &request);
	for (i = 0; i < jobs; i++)
		(void) world_job(&world, index, "under", "", i + 1);
	name = format("%d nodes, %d jobs raise an entitlement", nodes, jobs);
	timed(name, &world);
	free(name);
}

/*
 * Runs all benchmarks.
 */
int
bench_all(const char *trace)
{
	static const char *const files[] = {"openb_pod_list_default.csv",
	"openb_pod_list_gpushare100.csv", "openb_pod_list_gpuspec33.csv"};
	World		world;
	size_t		i;

	cluster(&world, trace);
	class_jobs(&world, 10000, 1, 1000, 0, DECIDE_TOPOLOGY_ANY);
	timed("10000 one-GPU jobs of one class", &world);
	blocked(trace);
	for (i = 0; i < (trace != NULL ? 3 : 1); i++)
	{
		char	   *name;

		cluster(&world, trace);
		mixed_jobs(&world, trace, files[i], 10000);
		name = format("10000 mixed jobs in %d classes", world.n_requests);
		timed(name, &world);
		free(name);
	}
	gangs(trace, 16, DECIDE_TOPOLOGY_ANY, "10000 gangs of 16");
	gangs(trace, 16, DECIDE_TOPOLOGY_LEAF, "10000 gangs of 16 below one leaf");
	gangs(trace, 512, DECIDE_TOPOLOGY_ANY, "10000 gangs of 512");
	large_queue(0, false);
	large_queue(100, false);
	large_queue(2000, false);
	large_queue(2000, true);
	growth();
	reclaim(250);
	reclaim(500);
	reclaim(1000);
	raises(2500, 100);
	return 0;
}
