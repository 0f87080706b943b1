/*
 * oracle_packing.c
 *	  What spread and fgd should find of a single node, by formulas written
 *	  down once more and computed from scratch.
 */
#include <stdlib.h>
#include <string.h>

#include "world.h"

typedef __int128 Wide;

/*
 * What is left of a device once a part is taken, as the trial says.
 */
static int
device_left(const Trial *trial, int device)
{
	const DecideNode *node = trial->node;

	if (((node->usable >> device) & 1) == 0)
		return 0;
	return node->device_left[device] -
		(((trial->devices >> device) & 1) ? trial->share : 0);
}

static int64_t
all_left(const Trial *trial)
{
	int64_t		sum = 0;
	int			i;

	for (i = 0; i < trial->node->gpus; i++)
		sum += device_left(trial, i);
	return sum;
}

/*
 * Could a typical job run on this node, empty (empty) or as it is?
 */
static bool
could_run(const Trial *trial, const DecideAsk *ask, bool empty)
{
	const DecideNode *node = trial->node;
	int			here = ask->min_gpus;
	int			fitting = 0;
	int64_t		cpu;
	int64_t		memory;
	bool		accepted = false;
	int			i;

	if (here > node->gpus && ask->topology != DECIDE_TOPOLOGY_NODE)
		here = node->gpus;
	if (here == 0)
		return false;
	cpu = (ask->cpu_milli * here + ask->min_gpus - 1) / ask->min_gpus;
	memory = (ask->memory_mib * here + ask->min_gpus - 1) / ask->min_gpus;
	for (i = 0; i < ask->n_offers; i++)
		accepted |= ask->offers[i].type == node->type &&
			(Wide) node->gpu_memory_mib * 1048576 >= ask->offers[i].min_memory;
	for (i = 0; i < node->gpus; i++)
		fitting += empty || device_left(trial, i) >= ask->share;
	return accepted && fitting >= here &&
		(node->cpu_milli == 0 ||
		 (empty ? node->cpu_milli : node->cpu_left - trial->cpu) >= cpu) &&
		(node->memory_mib == 0 ||
		 (empty ? node->memory_mib : node->memory_left - trial->memory) >=
		 memory);
}

/*
 * What a typical job cannot use of what is left.
 */
static int64_t
unusable(const Trial *trial, const DecideAsk *ask)
{
	int64_t		sum = 0;
	int			i;

	if (!could_run(trial, ask, false))
		return all_left(trial);
	for (i = 0; i < trial->node->gpus; i++)
	{
		if (device_left(trial, i) < ask->share)
			sum += device_left(trial, i);
	}
	return sum;
}

/*
 * Is a typical ask among the most frequent that cover 95 % of the jobs?
 */
static bool
counts(const World *world, int index, int64_t all)
{
	Wide		before = 0;
	int			i;

	if (world->typical[index].ask.min_gpus == 0)
		return false;
	for (i = 0; i < world->n_typical; i++)
	{
		if (world->typical[i].ask.min_gpus > 0 &&
			world->typical[i].jobs > world->typical[index].jobs)
			before += world->typical[i].jobs;
	}
	return before * 100 < (Wide) all * 95;
}

/*
 * What a typical ask weighs.
 */
static int64_t
weight_of(const World *world, const DecideTypical *typical, int64_t covered)
{
	Wide		size = (Wide) typical->ask.min_gpus * typical->ask.share;
	Wide		weight = (Wide) typical->jobs * 1000000 / covered;
	int64_t		devices = 0;
	int64_t		supply = 0;
	int			i;

	for (i = 0; i < world->n_nodes; i++)
	{
		Trial		trial = {.node = &world->nodes[i]};

		devices += trial.node->gpus;
		if (could_run(&trial, &typical->ask, true))
			supply += trial.node->gpus;
	}
	if (supply == 0)
		return 0;
	if (size < 250)
		size = 250;
	weight = weight * 1000000000 / (size * size * size);
	weight = weight * devices / supply * devices / supply;
	return weight > 1000000000 ? 1000000000 : (int64_t) weight;
}

/*
 * How bad what is left is, in millionths of thousandths of a device.
 */
static int64_t
badness(const World *world, const Trial *trial)
{
	const DecideNode *node = trial->node;
	int64_t		all = 0;
	int64_t		covered = 0;
	int64_t		bad = 0;
	int64_t		stranded = 0;
	Wide		size = 0;
	Wide		cpu = 0;
	Wide		memory = 0;
	Wide		lack;
	int			i;

	for (i = 0; i < world->n_typical; i++)
		all += world->typical[i].ask.min_gpus > 0 ? world->typical[i].jobs : 0;
	for (i = 0; i < world->n_typical; i++)
		covered += counts(world, i, all) ? world->typical[i].jobs : 0;
	for (i = 0; i < world->n_typical; i++)
	{
		const DecideTypical *typical = &world->typical[i];
		int64_t		jobs = typical->jobs;

		if (!counts(world, i, all))
			continue;
		bad += weight_of(world, typical, covered) *
			unusable(trial, &typical->ask);
		size += (Wide) typical->ask.min_gpus * typical->ask.share * jobs;
		cpu += (Wide) typical->ask.cpu_milli * jobs;
		memory += (Wide) typical->ask.memory_mib * jobs;
	}
	if (size > 0 && node->cpu_milli > 0 && cpu * 1000 / size > 0)
	{
		lack = all_left(trial) - (Wide) (node->cpu_left - trial->cpu) * 1000 /
			(cpu * 1000 / size);
		if (lack > stranded)
			stranded = (int64_t) lack;
	}
	if (size > 0 && node->memory_mib > 0 && memory * 1000 / size > 0)
	{
		lack = all_left(trial) -
			(Wide) (node->memory_left - trial->memory) * 1000 /
			(memory * 1000 / size);
		if (lack > stranded)
			stranded = (int64_t) lack;
	}
	return bad + stranded * 1000000;
}

/*
 * How well a trial suits by fgd, the lower the better, not below 0.
 */
int64_t
oracle_fgd(const World *world, const Trial *trial)
{
	Trial		nothing = {.node = trial->node};
	int64_t		cost = badness(world, trial) - badness(world, &nothing);
	int64_t		steps = cost / 60000000 - (cost % 60000000 < 0);
	int64_t		rest = trial->share < DECIDE_WHOLE ?
		device_left(trial, __builtin_ctzll(trial->devices)) : 0;

	return (steps + INT64_C(2000000000)) * 1000000000 +
		all_left(trial) * 1000 + rest;
}

/*
 * The same by spread.
 */
int64_t
oracle_spread(const Trial *trial, int64_t loss)
{
	const DecideNode *node = trial->node;
	int64_t		used = 0;

	if (trial->devices != 0)
		used = 1000 - all_left(trial) / node->gpus;
	else if (node->cpu_milli > 0)
		used = 1000 - (node->cpu_left - trial->cpu) * 1000 / node->cpu_milli;
	return (used * 100000 + 64000 - all_left(trial)) * 1000 + loss;
}
