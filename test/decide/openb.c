/*
 * openb.c
 *	  How much of a full pool stays unused: the benchmark of "Beware of
 *	  Fragmentation" (Weng et al., USENIX ATC 2023), with the decision
 *	  core.
 *
 * The trace's pods arrive at the empty cluster in random order, then random
 * ones again; none leaves.  The policy places each pod, or it does not fit.
 * Reported is the part of devices that stays unallocated when as many were
 * requested as exist: the mean over the arrivals in [99.5, 100.5) % of the
 * capacity, and over the seeds.
 *
 * The trace's own mix of pods is the workload mix.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "world.h"

/*
 * The lists of pods: openb_pod_list_NAME.csv.  A folder may lack those after
 * the first three.
 */
static const struct
{
	const char *name;
	const char *target;			/* target of the policy fgd */
	const char *published;		/* value that the paper's authors published
								 * for their policy */
}			traces[] =

{
	{"default", "4.3", "4.77"},
	{"gpushare100", "12.4", "13.36"},
	{"gpuspec33", "7.0", "12.16"},
	{"cpu250", "6.80", "6.80"},
	{"cpu300", "14.2", "-"},
	{"multigpu20", "3.6", "-"},
	{"multigpu50", "2.6", "-"}
};

#define FIRST_OTHER	3

static int64_t
job_size(const World *world, const DecideJob *job)
{
	const DecideRequestClass *request = &world->requests[job->request];

	return (int64_t) request->min_gpus * request->share;
}

static int64_t
capacity_of(const World *world)
{
	int64_t		capacity = 0;
	int			i;

	for (i = 0; i < world->n_nodes; i++)
		capacity += (int64_t) world->nodes[i].gpus * DECIDE_WHOLE;
	return capacity;
}

/*
 * Computes the workload mix of the pods.
 */
static void
workload_find(World *world)
{
	int64_t    *jobs = calloc((size_t) world->n_requests, sizeof(int64_t));
	int			i;

	for (i = 0; i < world->n_jobs; i++)
		jobs[world->jobs[i].request]++;
	for (i = 0; i < world->n_requests; i++)
		world_workload(world, &world->requests[i], jobs[i]);
	free(jobs);
}

/*
 * Put the pods in random order, and add random ones until 100.5 % of the
 * capacity is requested.
 */
static void
arrivals_make(World *world, uint64_t seed)
{
	int			n = world->n_jobs;
	int64_t		capacity = capacity_of(world);
	int64_t		asked = 0;
	int			i;

	for (i = n - 1; i > 0; i--)
	{
		int			j = random_below(&seed, i + 1);
		DecideJob	swap = world->jobs[i];

		world->jobs[i] = world->jobs[j];
		world->jobs[j] = swap;
	}
	for (i = 0; i < world->n_jobs; i++)
	{
		world->jobs[i].submitted = i;
		world->jobs[i].id = i;
		asked += job_size(world, &world->jobs[i]);
		if (i >= n - 1 && asked * 1000 < capacity * 1005)
			world_job(world, world->jobs[random_below(&seed, n)].request,
					  "openb",
					  "", i + 1);
	}
}

/*
 * The unallocated part of the capacity, in percent.
 */
static double
unallocated(const World *world, const DecideResult *result)
{
	bool	   *started = calloc((size_t) world->n_jobs, sizeof(bool));
	int64_t		capacity = capacity_of(world);
	int64_t		asked = 0;
	int64_t		given = 0;
	double		sum = 0;
	int			n = 0;
	int			i;

	for (i = 0; i < result->n_starts; i++)
		started[result->starts[i].job] = true;
	for (i = 0; i < world->n_jobs; i++)
	{
		int64_t		size = job_size(world, &world->jobs[i]);

		asked += size;
		if (started[i])
			given += size;
		if (asked * 1000 >= capacity * 1005)
			break;
		if (asked * 1000 >= capacity * 995)
		{
			sum += 100.0 * (double) (capacity - given) / (double) capacity;
			n++;
		}
	}
	free(started);
	return sum / n;
}

/*
 * Fills the cluster once.  Returns a negative number on an error.
 */
static double
fill(const char *folder, const char *file, DecidePacking packing,
	 uint64_t seed)
{
	World		world;
	Pool		pool;
	DecideArena arena;
	DecideInput input;
	DecideResult result;
	char	   *refused;
	const char *error = NULL;
	double		left = -1;

	world_init(&world);
	pool_init(&pool);
	arena = pool_arena(&pool);
	refused = trace_nodes(&world, folder) ?
		trace_pods(&world, folder, file) : format("no such nodes");
	if (refused != NULL)
		error = refused;
	else
	{
		workload_find(&world);
		arrivals_make(&world, seed);
		world.policy.packing = packing;
		input = world_input(&world);
		error = DecideRun(&input, &arena, &result);
		if (error == NULL)
			error = DecideCheck(&input, &result, &arena, NULL);
		if (error == NULL)
			left = unallocated(&world, &result);
	}
	if (error != NULL)
		fprintf(stderr, "%s: %s\n", file, error);
	free(refused);
	pool_free(&pool);
	world_free(&world);
	return left;
}

/*
 * Fills the cluster with all traces and policies.  Fails if fgd leaves too
 * much unallocated.
 */
int
openb_all(const char *folder, int seeds)
{
	bool		failed = false;
	size_t		i;

	printf("%-12s %8s %8s %8s %8s %10s\n", "unallocated", "pack", "spread",
		   "fgd", "target", "published");
	for (i = 0; i < sizeof(traces) / sizeof(traces[0]); i++)
	{
		double		mean[3] = {0, 0, 0};
		char	   *file = format("openb_pod_list_%s.csv", traces[i].name);
		char	   *path = format("%s/%s", folder, file);
		bool		there = i < FIRST_OTHER || access(path, F_OK) == 0;
		int			packing;
		int			seed;

		free(path);
		if (!there)
			printf("# %s: no such file\n", file);

		for (packing = 0; packing < 3 && there; packing++)
		{
			for (seed = 1; seed <= seeds; seed++)
			{
				double		left = fill(folder, file, (DecidePacking) packing,
										(uint64_t) seed);

				if (left < 0)
					return 2;
				mean[packing] += left / seeds;
			}
		}
		free(file);
		if (!there)
			continue;
		printf("%-12s %6.2f %% %6.2f %% %6.2f %% %6s %% %8s %%\n",
			   traces[i].name, mean[0], mean[1], mean[2], traces[i].target,
			   traces[i].published);
		failed |= mean[DECIDE_PACKING_FGD] > atof(traces[i].target);
	}
	return failed;
}
