/*
 * mutate.c
 *	  Tests that DecideCheck reports wrong results.
 *
 * Right results of random instances are damaged in one way at a time: in the
 * result, or in the input on which it relies.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

typedef struct Broken
{
	World	   *world;
	DecideResult *result;
	DecideStart *start;			/* a random start */
	DecidePart *part;			/* its first part */
	DecideNode *node;			/* that part's node */
	DecideRequestClass *request;	/* its request */
	uint64_t   *seed;
} Broken;

/* Damages a result; returns false if this way is not possible. */
typedef bool (*BreakFn) (Broken *b);

/*
 * Assigns the devices of this part to another part, too.
 */
static bool
break_device_twice(Broken *b)
{
	int			i;

	for (i = 0; i < b->result->n_parts; i++)
	{
		DecidePart *other = &b->result->parts[i];

		if (other != b->part && other->node == b->part->node &&
			b->start->share == DECIDE_WHOLE && other->gpus > 0 &&
			other->gpus == b->part->gpus)
		{
			other->devices = b->part->devices;
			return true;
		}
	}
	return false;
}

static bool
break_free_device(Broken *b)
{
	if (b->part->gpus == 0)
		return false;
	b->node->device_left[__builtin_ctzll(b->part->devices)] =
		(uint16_t) (b->start->share - 1);
	return true;
}

/*
 * Lets other shares use all of a device's memory except what this one uses.
 */
static bool
break_free_gpu_memory(Broken *b)
{
	if (b->part->gpu_memory_mib == 0)
		return false;
	b->node->gpu_memory_used[__builtin_ctzll(b->part->devices)] =
		b->node->gpu_memory_mib - b->part->gpu_memory_mib + 1;
	return true;
}

static bool
break_used_memory(Broken *b)
{
	if (b->part->gpu_memory_mib == 0)
		return false;
	b->part->gpu_memory_mib--;
	return true;
}

static bool
break_unusable(Broken *b)
{
	if (b->part->gpus == 0)
		return false;
	b->node->usable &= ~(b->part->devices & -b->part->devices);
	return true;
}

static bool
break_beyond(Broken *b)
{
	if (b->part->gpus == 0)
		return false;
	b->part->devices &= b->part->devices - 1;
	b->part->devices |= UINT64_C(1) << b->node->gpus;
	return true;
}

static bool
break_missing_member(Broken *b)
{
	if (b->start->n_parts < 2 ||
		b->start->first_part + b->start->n_parts != b->result->n_parts)
		return false;
	b->start->n_parts--;
	b->result->n_parts--;
	return true;
}

static bool
break_missing_device(Broken *b)
{
	if (b->part->gpus < 1)
		return false;
	b->part->devices &= b->part->devices - 1;
	return true;
}

static bool
break_smaller_gang(Broken *b)
{
	if (b->part->gpus < 2)
		return false;
	b->part->devices &= b->part->devices - 1;
	b->part->gpus--;
	return true;
}

static bool
break_count(Broken *b)
{
	b->start->gpus = b->request->max_gpus + 1;
	return true;
}

static bool
break_type(Broken *b)
{
	b->start->type = b->start->type == 2 ? 0 : 2;
	return true;
}

static bool
break_node_type(Broken *b)
{
	if (b->part->gpus == 0)
		return false;
	b->node->type = b->node->type == 2 ? 0 : 2;
	return true;
}

static bool
break_memory_floor(Broken *b)
{
	int			i;

	if (b->start->gpus == 0)
		return false;
	for (i = 0; i < b->request->n_offers; i++)
		((DecideOffer *) b->request->offers)[i].min_memory =
			b->node->gpu_memory_mib * 1048576 + 1;
	return true;
}

static bool
break_share(Broken *b)
{
	b->start->share = b->start->share == 500 ? 400 : 500;
	return true;
}

static bool
break_cpu_part(Broken *b)
{
	b->part->cpu_milli++;
	return true;
}

static bool
break_memory_part(Broken *b)
{
	if (b->part->memory_mib == 0)
		return false;
	b->part->memory_mib--;
	return true;
}

static bool
break_free_cpu(Broken *b)
{
	if (b->part->cpu_milli == 0)
		return false;
	b->node->cpu_milli = 100;
	b->node->cpu_left = b->part->cpu_milli - 1;
	return true;
}

static bool
break_free_memory(Broken *b)
{
	if (b->part->memory_mib == 0)
		return false;
	b->node->memory_mib = 100;
	b->node->memory_left = b->part->memory_mib - 1;
	return true;
}

static bool
break_spot(Broken *b)
{
	if (b->request->spot_ok)
		return false;
	b->node->spot = true;
	return true;
}

static bool
break_filter(Broken *b)
{
	free((uint64_t *) b->request->filter);
	b->request->filter = calloc(WORLD_FILTER_WORDS, sizeof(uint64_t));
	return b->request->filter != NULL;
}

static bool
break_per_node(Broken *b)
{
	b->request->per_node = b->part->gpus + 1;
	return true;
}

static bool
break_closed(Broken *b)
{
	b->node->schedulable = false;
	return true;
}

static bool
break_topology_node(Broken *b)
{
	if (b->start->n_parts < 2)
		return false;
	b->request->topology = DECIDE_TOPOLOGY_NODE;
	return true;
}

static bool
break_topology_nvlink(Broken *b)
{
	if (b->start->n_parts < 2)
		return false;
	b->request->topology = DECIDE_TOPOLOGY_NVLINK;
	b->node->domain = random_below(b->seed, 2) == 0 ? 99 : DECIDE_OWN_GROUP;
	return true;
}

static bool
break_topology_leaf(Broken *b)
{
	if (b->start->n_parts < 2)
		return false;
	b->request->topology = DECIDE_TOPOLOGY_LEAF;
	b->node->leaf = random_below(b->seed, 2) == 0 ? 99 : DECIDE_OWN_GROUP;
	return true;
}

static bool
break_own_domains(Broken *b)
{
	int			i;

	if (b->start->n_parts < 2)
		return false;
	b->request->topology = DECIDE_TOPOLOGY_NVLINK;
	for (i = 0; i < b->world->n_nodes; i++)
		b->world->nodes[i].domain = DECIDE_OWN_GROUP;
	return true;
}

static bool
break_job_twice(Broken *b)
{
	DecideStart *other = &b->result->starts[random_below(b->seed,
														 b->result->n_starts)];

	if (other == b->start ||
		b->world->jobs[other->job].request != b->world->jobs[b->start->job].request)
		return false;
	other->job = b->start->job;
	return true;
}

static bool
break_no_job(Broken *b)
{
	b->start->job = random_below(b->seed, 2) == 0 ? -1 : b->world->n_jobs;
	return true;
}

static bool
break_no_node(Broken *b)
{
	b->part->node = random_below(b->seed, 2) == 0 ? -1 : b->world->n_nodes;
	return true;
}

static bool
break_node_twice(Broken *b)
{
	DecidePart *other = b->part + 1;

	if (b->start->n_parts < 2 || other->gpus != b->part->gpus)
		return false;
	other->node = b->part->node;
	other->devices = 0;
	return true;
}

static bool
break_overlap(Broken *b)
{
	if (b->start->first_part == 0)
		return false;
	b->start->first_part--;
	return true;
}

static bool
break_beyond_parts(Broken *b)
{
	b->start->n_parts = b->result->n_parts + 1;
	return true;
}

static bool
break_left_over(Broken *b)
{
	if (b->start != &b->result->starts[b->result->n_starts - 1])
		return false;
	b->result->n_starts--;
	return true;
}

/*
 * Moves a waiting job of the same kind ahead of a start.
 */
static bool
break_order(Broken *b)
{
	DecideJob  *job = &b->world->jobs[b->start->job];
	int			i;
	int			k;

	for (i = 0; i < b->world->n_jobs; i++)
	{
		DecideJob  *other = &b->world->jobs[i];

		for (k = 0; k < b->result->n_starts; k++)
		{
			if (b->result->starts[k].job == i)
				break;
		}
		if (k < b->result->n_starts || other->request != job->request ||
			other->tier != job->tier || other->account != job->account)
			continue;
		other->aged_at = job->aged_at;
		other->priority = job->priority;
		other->order_run = job->order_run;
		other->submitted = job->submitted - 1;
		return true;
	}
	return false;
}

static bool
break_too_many(Broken *b)
{
	b->world->max_starts = b->result->n_starts - 1;
	return true;
}

static const struct
{
	const char *name;
	BreakFn		fn;
}			mutations[] =

{
	{"a device given twice", break_device_twice},
	{"a device that has too little left", break_free_device},
	{"a device whose memory is taken", break_free_gpu_memory},
	{"a share that takes too little memory", break_used_memory},
	{"a device that is not healthy", break_unusable},
	{"a device that the node does not have", break_beyond},
	{"a gang without one of its members", break_missing_member},
	{"a part with fewer devices than it says", break_missing_device},
	{"a gang with a smaller part", break_smaller_gang},
	{"more devices than asked", break_count},
	{"a start of another type", break_type},
	{"a node of another type", break_node_type},
	{"too little memory on the device", break_memory_floor},
	{"another share than asked", break_share},
	{"more cpu than its part", break_cpu_part},
	{"less memory than its part", break_memory_part},
	{"more cpu than the node has left", break_free_cpu},
	{"more memory than the node has left", break_free_memory},
	{"a spot node for a job that may not use one", break_spot},
	{"a node that the job's filter does not allow", break_filter},
	{"another number of devices on a node than the job wants", break_per_node},
	{"a node that takes no new work", break_closed},
	{"two nodes for topology node", break_topology_node},
	{"two domains for topology nvlink", break_topology_nvlink},
	{"two leaves for topology leaf", break_topology_leaf},
	{"nodes that are domains of their own", break_own_domains},
	{"a job that starts twice", break_job_twice},
	{"a job that is not there", break_no_job},
	{"a node that is not there", break_no_node},
	{"a node twice in one start", break_node_twice},
	{"starts that share their parts", break_overlap},
	{"parts that are not there", break_beyond_parts},
	{"parts of no start", break_left_over},
	{"more starts than may be", break_too_many},
	{"a start before one like it that is ahead", break_order},
};

/*
 * Decides one instance and damages it in one way.  Returns 0 if that is not
 * possible, 1 if the damage was reported, -1 if it was not, -2 if an error was
 * reported before the damage.
 */
static int
mutate_once(uint64_t seed, BreakFn fn)
{
	World		world;
	DecideInput input;
	DecideResult result;
	Pool		pool;
	DecideArena arena;
	int			outcome = 0;

	random_world(&world, &seed);
	pool_init(&pool);
	arena = pool_arena(&pool);
	input = world_input(&world);
	if (DecideRun(&input, &arena, &result) == NULL && result.n_starts > 0)
	{
		Broken		b = {&world, &result, NULL, NULL, NULL, NULL, &seed};

		b.start = &result.starts[random_below(&seed, result.n_starts)];
		b.part = &result.parts[b.start->first_part];
		b.node = &world.nodes[b.part->node];
		b.request = &world.requests[world.jobs[b.start->job].request];
		if (DecideCheck(&input, &result, &arena, NULL) != NULL)
			outcome = -2;
		else if (fn(&b))
		{
			int32_t		where = -3;

			input = world_input(&world);
			outcome = DecideCheck(&input, &result, &arena, &where) != NULL &&
				where >= -1 && where < result.n_starts ? 1 : -1;
		}
	}
	pool_free(&pool);
	world_free(&world);
	return outcome;
}

/*
 * Tests all ways of damage on many instances.
 */
void
mutation_tests(Tap *tap)
{
	const int	instances = 100000;
	size_t		m;

	for (m = 0; m < sizeof(mutations) / sizeof(mutations[0]); m++)
	{
		char	   *name = format("mutation: %s", mutations[m].name);
		char	   *why = NULL;
		int			reported = 0;
		int			i;

		for (i = 0; i < instances && why == NULL && reported < 25; i++)
		{
			int			outcome = mutate_once((uint64_t) i * 77 + m,
											  mutations[m].fn);

			if (outcome < 0)
				why = format("seed %d: %s", i * 77 + (int) m, outcome == -1 ?
							 "not reported" : "reported unbroken");
			else
				reported += outcome;
		}
		if (why == NULL && reported < 10)
			why = format("only %d instances could be broken so", reported);
		tap_ok(tap, why == NULL, name, why);
		free(why);
		free(name);
	}
}
