/*
 * oracle_packing.c
 *	  Scores of a single node by the policies spread and fgd, computed from
 *	  scratch with independent formulas.
 */
#include <stdlib.h>
#include <string.h>

#include "world.h"

typedef __int128 Wide;

/*
 * The thousandths that are left of a device after a trial.
 */
static int
device_free(const Trial *trial, int device)
{
	const DecideNode *node = trial->node;

	if (((node->usable >> device) & 1) == 0)
		return 0;
	return node->device_left[device] -
		(((trial->devices >> device) & 1) ? trial->share : 0);
}

/*
 * Whether a device could then be used by a typical share, or by a typical job
 * of whole devices.
 */
static bool
device_serves(const Trial *trial, const DecideRequestClass *request,
			  int device)
{
	const DecideNode *node = trial->node;
	Wide		has = node->gpu_memory_mib - node->gpu_memory_used[device] -
		(((trial->devices >> device) & 1) ? trial->gpu_memory : 0);
	int64_t		floor = INT64_MAX;
	int			i;

	if (device_free(trial, device) < request->share)
		return false;
	if (device_free(trial, device) == DECIDE_WHOLE)
		return true;
	for (i = 0; i < request->n_offers; i++)
	{
		int64_t		asked = (request->offers[i].min_memory + 1048575) >> 20;

		if (request->offers[i].type == node->type && asked < floor)
			floor = asked;
	}
	return floor > 0 ? has >= floor :
		has * DECIDE_WHOLE / node->gpu_memory_mib >= request->share;
}

static int64_t
total_free(const Trial *trial)
{
	int64_t		sum = 0;
	int			i;

	for (i = 0; i < trial->node->gpus; i++)
		sum += device_free(trial, i);
	return sum;
}

/*
 * Whether a typical job could run on this node, empty or as it is.
 */
static bool
could_run(const Trial *trial, const DecideRequestClass *request, bool empty)
{
	const DecideNode *node = trial->node;
	int			here = request->min_gpus;
	int			fitting = 0;
	int64_t		cpu;
	int64_t		memory;
	bool		accepted = false;
	int			i;

	if (here > node->gpus && request->topology != DECIDE_TOPOLOGY_NODE)
		here = node->gpus;
	if (here == 0)
		return false;
	cpu = (request->cpu_milli * here + request->min_gpus -
		   1) / request->min_gpus;
	memory = (request->memory_mib * here + request->min_gpus -
			  1) / request->min_gpus;
	for (i = 0; i < request->n_offers; i++)
		accepted |= request->offers[i].type == node->type &&
			(Wide) node->gpu_memory_mib * 1048576 >= request->offers[i].min_memory;
	for (i = 0; i < node->gpus; i++)
		fitting += empty || device_serves(trial, request, i);
	return accepted && fitting >= here &&
		(node->cpu_milli == 0 ||
		 (empty ? node->cpu_milli : node->cpu_left - trial->cpu) >= cpu) &&
		(node->memory_mib == 0 ||
		 (empty ? node->memory_mib : node->memory_left - trial->memory) >=
		 memory);
}

/*
 * How much of what is left a typical job cannot use.
 */
static int64_t
unusable(const Trial *trial, const DecideRequestClass *request)
{
	int64_t		sum = 0;
	int			i;

	if (!could_run(trial, request, false))
		return total_free(trial);
	for (i = 0; i < trial->node->gpus; i++)
	{
		if (!device_serves(trial, request, i))
			sum += device_free(trial, i);
	}
	return sum;
}

/*
 * Whether a typical request is among the most frequent ones that cover 95 % of
 * the jobs.
 */
static bool
counts(const World *world, int index, int64_t all)
{
	Wide		before = 0;
	int			i;

	if (world->workloads[index].request.min_gpus == 0)
		return false;
	for (i = 0; i < world->n_workloads; i++)
	{
		if (world->workloads[i].request.min_gpus > 0 &&
			world->workloads[i].jobs > world->workloads[index].jobs)
			before += world->workloads[i].jobs;
	}
	return before * 100 < (Wide) all * 95;
}

/*
 * The weight of a typical request.
 */
static int64_t
weight_of(const World *world, const DecideWorkload *workloads, int64_t covered)
{
	Wide		size = (Wide) workloads->request.min_gpus * workloads->request.share;
	Wide		weight = (Wide) workloads->jobs * 1000000 / covered;
	int64_t		devices = 0;
	int64_t		supply = 0;
	int			i;

	for (i = 0; i < world->n_nodes; i++)
	{
		Trial		trial = {.node = &world->nodes[i]};

		devices += trial.node->gpus;
		if (could_run(&trial, &workloads->request, true))
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
 * The fragmentation of what is left on a node: the weighted sum of what
 * typical jobs cannot use, in millionths of a thousandth of a device.
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

	for (i = 0; i < world->n_workloads; i++)
		all += world->workloads[i].request.min_gpus > 0 ?
			world->workloads[i].jobs : 0;
	for (i = 0; i < world->n_workloads; i++)
		covered += counts(world, i, all) ? world->workloads[i].jobs : 0;
	for (i = 0; i < world->n_workloads; i++)
	{
		const DecideWorkload *workloads = &world->workloads[i];
		int64_t		jobs = workloads->jobs;

		if (!counts(world, i, all))
			continue;
		bad += weight_of(world, workloads, covered) *
			unusable(trial, &workloads->request);
		size += (Wide) workloads->request.min_gpus * workloads->request.share * jobs;
		cpu += (Wide) workloads->request.cpu_milli * jobs;
		memory += (Wide) workloads->request.memory_mib * jobs;
	}
	if (size > 0 && node->cpu_milli > 0 && cpu * 1000 / size > 0)
	{
		lack = total_free(trial) - (Wide) (node->cpu_left - trial->cpu) * 1000 /
			(cpu * 1000 / size);
		if (lack > stranded)
			stranded = (int64_t) lack;
	}
	if (size > 0 && node->memory_mib > 0 && memory * 1000 / size > 0)
	{
		lack = total_free(trial) -
			(Wide) (node->memory_left - trial->memory) * 1000 /
			(memory * 1000 / size);
		if (lack > stranded)
			stranded = (int64_t) lack;
	}
	return bad + stranded * 1000000;
}

/*
 * How well a trial suits by the policy fgd; a lower number is better, and none
 * is negative.
 */
int64_t
oracle_fgd(const World *world, const Trial *trial)
{
	Trial		nothing = {.node = trial->node};
	int64_t		cost = badness(world, trial) - badness(world, &nothing);
	int64_t		steps = cost / 60000000 - (cost % 60000000 < 0);
	int64_t		rest = trial->share < DECIDE_WHOLE ?
		device_free(trial, __builtin_ctzll(trial->devices)) : 0;

	return (steps + INT64_C(2000000000)) * 1000000000 +
		total_free(trial) * 1000 + rest;
}

/*
 * How well a trial suits by the policy spread.
 */
int64_t
oracle_spread(const Trial *trial, int64_t loss)
{
	const DecideNode *node = trial->node;
	int64_t		used = 0;

	if (trial->devices != 0)
		used = 1000 - total_free(trial) / node->gpus;
	else if (node->cpu_milli > 0)
		used = 1000 - (node->cpu_left - trial->cpu) * 1000 / node->cpu_milli;
	return (used * 100000 + 64000 - total_free(trial)) * 1000 + loss;
}

/*
 * The number of whole devices of a node that are free.
 */
static int
devices_free(const DecideNode *node)
{
	int			n = 0;
	int			i;

	for (i = 0; i < node->gpus; i++)
		n += ((node->usable >> i) & 1) && node->device_left[i] == 1000;
	return n;
}

/*
 * Whether two nodes of one type are below one leaf, or, if they have no leaf,
 * in one domain.
 */
static bool
same_leaf(const DecideNode *a, const DecideNode *b)
{
	bool		leaf = a->leaf == b->leaf && a->leaf != DECIDE_OWN_GROUP;
	bool		domain = a->leaf == b->leaf && a->domain == b->domain &&
		a->domain != DECIDE_OWN_GROUP;

	return (a->gpus > 0) == (b->gpus > 0) &&
		(a->gpus == 0 || a->type == b->type) && (leaf || domain);
}

/*
 * The free devices near a node: below its leaf, then in the part of its domain
 * below its leaf.  For a node that is alone there are none.
 */
int64_t
oracle_near(const DecideNode *nodes, int n_nodes, int node)
{
	const DecideNode *mine = &nodes[node];
	int64_t		sums[2] = {0, 0};
	int			others[2] = {0, 0};
	int			i;

	for (i = 0; i < n_nodes; i++)
	{
		const DecideNode *its = &nodes[i];
		int			devices = its->schedulable ? devices_free(its) : 0;

		if (i != node && !same_leaf(mine, its))
			continue;
		sums[0] += devices;
		others[0] += i != node;
		if (i != node && (mine->domain != its->domain ||
						  mine->domain == DECIDE_OWN_GROUP))
			continue;
		sums[1] += devices;
		others[1] += i != node;
	}
	return (others[0] > 0 ? sums[0] : 0) * 1000000 +
		(others[1] > 0 ? sums[1] : 0);
}
