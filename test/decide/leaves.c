/*
 * leaves.c
 *	  Gangs that want one leaf, or one NVLink domain, in a cluster with a
 *	  stream of single-node jobs.
 *
 * A cluster of 16 leaves, each with four NVLink domains of two nodes of 8.
 * In each step some jobs end and small ones come.  Every third step brings a
 * gang: of 16 devices in one domain, or of 32 or 64 below one leaf.  A gang
 * that cannot start at once goes away and is counted.
 *
 * Each stream of jobs is played twice: as it is, and with the labels of leaves
 * and domains hidden from the cycles that place single-node jobs, which then go
 * by the node's name among equals.  Of the gangs start at once, with so many
 * small jobs a step, in percent (in brackets by name):
 *
 *	  small jobs			2.0			2.5			3.0			3.5
 *	  names mixed			100 (69)	95 (56)		76 (29)		51 (13)
 *	  names follow leaves	100 (100)	96 (98)		76 (81)		51 (54)
 *
 * Names that follow leaves are a fixed order of them already, which is as good,
 * and better by up to four points in a full cluster.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define LEAVES			16
#define LEAF_NODES		8
#define DOMAIN_NODES	2
#define NODES			(LEAVES * LEAF_NODES)
#define GPUS			8
#define MOST_LIVE		4096

/* A job that runs. */
typedef struct Live
{
	int64_t		ends;
	int			n_parts;
	DecidePart	parts[LEAF_NODES];
} Live;

/* A stream of jobs, how it is played, and its result. */
typedef struct Play
{
	DecidePacking packing;
	bool		shuffled;		/* node names do not follow the leaves */
	bool		hidden;			/* labels are hidden while single-node jobs
								 * are placed */
	int			load;			/* number of small jobs in ten steps */
	uint64_t	seed;
	World		world;
	int			runs[64];		/* how long the waiting jobs will run */
	Live	   *live;
	int			n_live;
	long		busy;			/* sum over the steps of the devices in use */
	long		gangs;
	long		started;
} Play;

/*
 * Makes the empty cluster.
 */
static void
cluster_make(Play *play)
{
	World	   *world = &play->world;
	int			type;
	int			i;

	world_init(world);
	world->policy.packing = play->packing;
	type = world_type(world, "H100");
	for (i = 0; i < NODES; i++)
	{
		char	   *name = format("n%03d", play->shuffled ?
								  i * 37 % NODES : i);
		DecideNode *node = world_node(world, name, type, GPUS);

		free(name);
		node->cpu_milli = node->cpu_left = 128000;
		node->memory_mib = node->memory_left = 1048576;
	}
}

/*
 * Shows the labels of leaves and domains to the core, or hides them.
 */
static void
labels_show(World *world, bool show)
{
	int			i;

	for (i = 0; i < NODES; i++)
	{
		world->nodes[i].leaf = show ? i / LEAF_NODES : DECIDE_OWN_GROUP;
		world->nodes[i].domain = show ? i / DOMAIN_NODES : DECIDE_OWN_GROUP;
	}
}

/*
 * Allocates devices to a job, or releases them.
 */
static void
live_allocate(World *world, const Live *live, int sign)
{
	int			i;

	for (i = 0; i < live->n_parts; i++)
	{
		DecideNode *node = &world->nodes[live->parts[i].node];

		devices_allocate(node, &live->parts[i], DECIDE_WHOLE, sign);
		node->cpu_left -= sign * live->parts[i].cpu_milli;
		node->memory_left -= sign * live->parts[i].memory_mib;
	}
}

/*
 * Adds a waiting job of this many devices.
 */
static void
job_comes(Play *play, int gpus, DecideTopology topology, int longest)
{
	World	   *world = &play->world;
	DecideOffer offer = {0};
	DecideRequestClass request = {
		.min_gpus = gpus, .max_gpus = gpus, .share = DECIDE_WHOLE,
		.n_offers = 1, .offers = &offer, .topology = topology,
		.cpu_milli = gpus * 8000, .memory_mib = gpus * 65536,
		.wall_limit = DECIDE_NEVER
	};

	play->runs[world->n_jobs] = 1 + random_below(&play->seed, longest);
	(void) world_job(world, world_request(world, &request), "o", "",
					 world->n_jobs);
}

/*
 * Lets a cycle place the waiting jobs; those that do not start are removed.
 * Returns the number of starts.
 */
static int
cycle_run(Play *play, int64_t now)
{
	World	   *world = &play->world;
	DecideInput input = world_input(world);
	DecideResult result;
	Pool		pool;
	DecideArena arena;
	int			started;
	int			i;

	pool_init(&pool);
	arena = pool_arena(&pool);
	if (DecideRun(&input, &arena, &result) != NULL)
		abort();
	for (i = 0; i < result.n_starts; i++)
	{
		const DecideStart *start = &result.starts[i];
		Live	   *live = &play->live[play->n_live++];

		live->ends = now + play->runs[start->job];
		live->n_parts = start->n_parts;
		memcpy(live->parts, &result.parts[start->first_part],
			   sizeof(DecidePart) * (size_t) start->n_parts);
		live_allocate(world, live, 1);
	}
	started = result.n_starts;
	pool_free(&pool);
	for (i = 0; i < world->n_jobs; i++)
		free((char *) world->jobs[i].org);
	world->n_jobs = 0;
	return started;
}

/*
 * Lets the small jobs of a step arrive.
 */
static void
small_come(Play *play, int64_t now)
{
	static const int sizes[] = {1, 1, 1, 1, 2, 2, 4, 8};
	int			n = random_below(&play->seed, 2 * play->load + 1);
	int			i;

	n = n / 10 + (random_below(&play->seed, 10) < n % 10);
	for (i = 0; i < n; i++)
		job_comes(play, sizes[random_below(&play->seed, 8)],
				  DECIDE_TOPOLOGY_NODE, 200);
	labels_show(&play->world, !play->hidden);
	(void) cycle_run(play, now);
}

/*
 * Lets a gang arrive.
 */
static void
gang_comes(Play *play, int64_t now)
{
	static const int sizes[] = {16, 32, 64};
	int			size = sizes[random_below(&play->seed, 3)];

	job_comes(play, size, size == 16 ? DECIDE_TOPOLOGY_NVLINK :
			  DECIDE_TOPOLOGY_LEAF, 20);
	labels_show(&play->world, true);
	play->gangs++;
	play->started += cycle_run(play, now);
}

/*
 * Plays a stream of this many steps.
 */
static void
stream_play(Play *play, int steps)
{
	int64_t		now;
	int			i;
	int			j;

	cluster_make(play);
	play->live = malloc(sizeof(Live) * MOST_LIVE);
	for (now = 0; now < steps; now++)
	{
		for (i = j = 0; i < play->n_live; i++)
		{
			if (play->live[i].ends <= now)
				live_allocate(&play->world, &play->live[i], -1);
			else
				play->live[j++] = play->live[i];
		}
		play->n_live = j;
		small_come(play, now);
		if (now % 3 == 0)
			gang_comes(play, now);
		for (i = 0; i < play->n_live; i++)
		{
			for (j = 0; j < play->live[i].n_parts; j++)
				play->busy += play->live[i].parts[j].gpus;
		}
	}
	free(play->live);
	world_free(&play->world);
}

/*
 * Returns the part of the gangs that start immediately, in percent.
 */
static double
gangs_started(DecidePacking packing, bool shuffled, bool hidden, int load,
			  int steps, double *busy)
{
	Play		play = {
		.packing = packing, .shuffled = shuffled, .hidden = hidden,
		.load = load, .seed = 1
	};

	stream_play(&play, steps);
	*busy = 100.0 * (double) play.busy / ((double) steps * NODES * GPUS);
	return 100.0 * (double) play.started / (double) play.gangs;
}

/*
 * Prints what hiding the labels costs.
 */
int
leaves_all(void)
{
	int			shuffled;
	int			load;

	for (shuffled = 1; shuffled >= 0; shuffled--)
	{
		for (load = 20; load <= 35; load += 5)
		{
			double		busy[2];
			double		blind = gangs_started(DECIDE_PACKING_PACK, shuffled,
											  true, load, 3000, &busy[0]);
			double		sees = gangs_started(DECIDE_PACKING_PACK, shuffled,
											 false, load, 3000, &busy[1]);

			printf("names %s, %.1f small jobs a step: %.1f %% of gangs start "
				   "at once, by name %.1f %%; %.1f %% busy, by name %.1f %%\n",
				   shuffled ? "mixed" : "by leaf", load / 10.0, sees, blind,
				   busy[1], busy[0]);
		}
	}
	return 0;
}

/*
 * Tests that single-node jobs leave leaves and domains whole for gangs.
 */
void
leaves_tests(Tap *tap)
{
	double		busy;
	double		blind = gangs_started(DECIDE_PACKING_PACK, true, true, 25, 600,
									  &busy);
	double		sees = gangs_started(DECIDE_PACKING_PACK, true, false, 25, 600,
									 &busy);
	char	   *why = format("%.1f %%, and %.1f %% by name", sees, blind);

	tap_ok(tap, sees > 90 && sees > blind + 20,
		   "leaves: nine gangs in ten start at once where small jobs pass",
		   why);
	free(why);
}
