/*
 * oracle.c
 *	  Finds what should have been decided by trying everything.
 *
 * This is for clusters of a few nodes, or for jobs that stay on one node.  It
 * replays a result job by job in its own order, and at each turn enumerates
 * every assignment of devices.  The job must have started exactly if there is
 * one: with the first possible type, the most devices, and the fewest spines,
 * domains, leaves and nodes.  A single node must be the best one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

typedef struct OracleSearch
{
	const DecideNode *nodes;
	int			n_nodes;
	const DecideRequestClass *request;
	const DecideOffer *offer;
	int			count;
	int			given[16];
	bool		found;
	int			domains;
	int			leaves;
	int			used;
	int			spines;
} OracleSearch;

static int
free_devices(const DecideNode *node)
{
	int			n = 0;
	int			i;

	for (i = 0; i < node->gpus; i++)
		n += ((node->usable >> i) & 1) && node->device_left[i] == 1000;
	return n;
}

static bool
allowed(const DecideNode *node, int number, const DecideRequestClass *request,
		const DecideOffer *offer)
{
	if (!node->schedulable || (node->spot && !request->spot_ok))
		return false;
	if (request->filter != NULL &&
		(request->filter[number / 64] & (UINT64_C(1) << number % 64)) == 0)
		return false;
	return offer == NULL ||
		(node->gpus > 0 && node->type == offer->type &&
		 node->gpu_memory_mib * 1048576 >= offer->min_memory);
}

static int64_t
part_of(int64_t total, int gpus, int count)
{
	return count == 0 ? total : (total * gpus + count - 1) / count;
}

/*
 * Whether a node has room for gpus of a job's devices, with their cpu and
 * memory.
 */
static bool
node_fits(const OracleSearch *search, const DecideNode *node, int gpus)
{
	int64_t		cpu = part_of(search->request->cpu_milli, gpus, search->count);
	int64_t		memory = part_of(search->request->memory_mib, gpus,
								 search->count);

	return gpus <= free_devices(node) &&
		(search->request->per_node == 0 ||
		 search->request->per_node == gpus) &&
		(node->cpu_milli == 0 || cpu == 0 || cpu <= node->cpu_left) &&
		(node->memory_mib == 0 || memory == 0 ||
		 memory <= node->memory_left);
}

/*
 * The number of groups to which the used nodes belong; a node without a group
 * counts by itself.
 */
static int
groups_used(const OracleSearch *search, bool leaf)
{
	int			n = 0;
	int			i;
	int			j;

	for (i = 0; i < search->n_nodes; i++)
	{
		int			mine = leaf ? search->nodes[i].leaf :
			search->nodes[i].domain;

		if (search->given[i] == 0)
			continue;
		for (j = 0; j < i; j++)
		{
			int			other = leaf ? search->nodes[j].leaf :
				search->nodes[j].domain;

			if (search->given[j] > 0 && mine >= 0 && other == mine)
				break;
		}
		n += j == i;
	}
	return n;
}

/*
 * The number of spines above the used nodes; nodes whose spine is not known
 * count as below one.
 */
static int
spines_used(const OracleSearch *search)
{
	int			n = 0;
	int			i;
	int			j;

	for (i = 0; i < search->n_nodes; i++)
	{
		if (search->given[i] == 0)
			continue;
		for (j = 0; j < i; j++)
		{
			if (search->given[j] > 0 &&
				search->nodes[j].spine == search->nodes[i].spine)
				break;
		}
		n += j == i;
	}
	return n;
}

/*
 * Whether an assignment is better than the best so far.  The preferred
 * topology is compared first.
 */
static bool
search_better(const OracleSearch *search, int domains, int leaves, int used,
			  int spines)
{
	DecideTopology prefer = search->request->prefer;

	if (prefer == DECIDE_TOPOLOGY_LEAF && leaves != search->leaves)
		return leaves < search->leaves;
	if (prefer == DECIDE_TOPOLOGY_NODE && used != search->used)
		return used < search->used;
	if (spines != search->spines)
		return spines < search->spines;
	if (domains != search->domains)
		return domains < search->domains;
	if (leaves != search->leaves)
		return leaves < search->leaves;
	return used < search->used;
}

/*
 * Judges a complete assignment: whether the topology allows it, and whether it
 * is better.
 */
static void
search_judge(OracleSearch *search)
{
	int			domains = groups_used(search, false);
	int			leaves = groups_used(search, true);
	int			spines = spines_used(search);
	int			used = 0;
	int			i;

	for (i = 0; i < search->n_nodes; i++)
		used += search->given[i] > 0;
	if ((search->request->topology == DECIDE_TOPOLOGY_NODE && used > 1) ||
		(search->request->topology == DECIDE_TOPOLOGY_NVLINK && domains > 1) ||
		(search->request->topology == DECIDE_TOPOLOGY_LEAF && leaves > 1))
		return;
	if (!search->found || search_better(search, domains, leaves, used,
										spines))
	{
		search->spines = spines;
		search->domains = domains;
		search->leaves = leaves;
		search->used = used;
	}
	search->found = true;
}

/*
 * Tries all assignments from one node on.
 */
static void
search_from(OracleSearch *search, int at, int wanted)
{
	const DecideNode *node = &search->nodes[at];
	int			gpus;

	if (at == search->n_nodes)
	{
		if (wanted == 0)
			search_judge(search);
		return;
	}
	search->given[at] = 0;
	search_from(search, at + 1, wanted);
	if (!allowed(node, at, search->request, search->offer))
		return;
	for (gpus = 1; gpus <= wanted; gpus++)
	{
		if (!node_fits(search, node, gpus))
			continue;
		search->given[at] = gpus;
		search_from(search, at + 1, wanted - gpus);
	}
	search->given[at] = 0;
}

/*
 * The memory of a device that a share uses on a node: the lowest floor for its
 * type, or without a floor the same part as of the device.
 */
int64_t
oracle_memory(const DecideNode *node, const DecideRequestClass *request)
{
	int64_t		least = INT64_MAX;
	int			i;

	if (request->share == DECIDE_WHOLE)
		return 0;
	for (i = 0; i < request->n_offers; i++)
	{
		int64_t		floor = (request->offers[i].min_memory + 1048575) >> 20;

		if (request->offers[i].type == node->type && floor < least)
			least = floor;
	}
	return least > 0 ? least : share_memory(node, request->share);
}

/*
 * Whether a share fits on a device.
 */
bool
oracle_device(const DecideNode *node, const DecideRequestClass *request,
			  int device)
{
	return ((node->usable >> device) & 1) &&
		node->device_left[device] >= request->share &&
		node->gpu_memory_used[device] + oracle_memory(node, request) <=
		node->gpu_memory_mib;
}

/*
 * Whether a single node has room for a share, or for a job without devices.
 */
static bool
single_fits(const DecideNode *node, int number,
			const DecideRequestClass *request, const DecideOffer *offer)
{
	OracleSearch search = {node, 1, request, offer, 0, {0}, false, 0,
		0, 0, 0};
	int			i;

	if (!allowed(node, number, request, offer) ||
		!node_fits(&search, node, 0))
		return false;
	if (offer == NULL)
		return true;
	for (i = 0; i < node->gpus; i++)
	{
		if (oracle_device(node, request, i))
			return true;
	}
	return false;
}

/*
 * The most devices that fit now with one offer, or -1 if none fit.
 */
int
oracle_largest(const DecideNode *nodes, int n_nodes,
			   const DecideRequestClass *request,
			   const DecideOffer *offer)
{
	OracleSearch search = {nodes, n_nodes, request, offer, 0, {0},
		false, 0, 0, 0, 0};
	int			devices = 0;
	int			i;

	for (i = 0; i < n_nodes; i++)
		devices += free_devices(&nodes[i]);
	if (offer == NULL || request->share < DECIDE_WHOLE)
	{
		for (i = 0; i < n_nodes; i++)
		{
			if (single_fits(&nodes[i], i, request, offer))
				return request->min_gpus;
		}
		return -1;
	}
	search.count = request->max_gpus < devices ? request->max_gpus : devices;
	for (; search.count >= request->min_gpus; search.count--)
	{
		for (i = 0; i < n_nodes &&
			 request->topology == DECIDE_TOPOLOGY_NODE; i++)
		{
			if (allowed(&nodes[i], i, request, offer) &&
				node_fits(&search, &nodes[i], search.count))
				return search.count;
		}
		if (request->topology != DECIDE_TOPOLOGY_NODE)
			search_from(&search, 0, search.count);
		if (search.found)
			return search.count;
	}
	return -1;
}

/*
 * Finds the fewest spines, then domains, then leaves, then nodes that count
 * devices need.
 */
void
oracle_fewest(const DecideNode *nodes, int n_nodes,
			  const DecideRequestClass *request,
			  const DecideOffer *offer, int count, int *domains, int *leaves,
			  int *used, int *spines)
{
	OracleSearch search = {nodes, n_nodes, request, offer, count, {0},
		false, 0, 0,
		0, 0};

	search_from(&search, 0, count);
	*domains = search.domains;
	*leaves = search.leaves;
	*used = search.used;
	*spines = search.spines;
}

/*
 * The number of free devices for which a node still has the cpu and memory.
 */
static int64_t
usable(const DecideNode *node, int devices, int64_t cpu, int64_t memory)
{
	int64_t		n = devices;

	if (node->cpu_milli > 0 && cpu * node->gpus / node->cpu_milli < n)
		n = cpu * node->gpus / node->cpu_milli;
	if (node->memory_mib > 0 && memory * node->gpus / node->memory_mib < n)
		n = memory * node->gpus / node->memory_mib;
	return n;
}

/*
 * How well a node suits by the policies spread and fgd, with the best choice
 * of devices (whole devices are equal).
 */
static int64_t
policy_key(const World *world, const DecideNode *node,
		   const DecideRequestClass *request,
		   int count, int64_t loss)
{
	Trial		trial = {node, 0, request->share, request->cpu_milli,
		request->memory_mib,
		oracle_memory(node, request)};
	bool		spread = world->policy.packing == DECIDE_PACKING_SPREAD;
	int64_t		best = INT64_MAX;
	int64_t		key;
	int			most = 0;
	int			i;

	for (i = 0; i < node->gpus && request->share == DECIDE_WHOLE; i++)
	{
		if (((node->usable >> i) & 1) && node->device_left[i] == 1000 &&
			__builtin_popcountll(trial.devices) < count)
			trial.devices |= UINT64_C(1) << i;
	}
	if (request->share == DECIDE_WHOLE)
		return spread ? oracle_spread(&trial, loss) :
			oracle_fgd(world, &trial);
	for (i = 0; i < node->gpus; i++)
	{
		if (oracle_device(node, request, i) && node->device_left[i] > most)
			most = node->device_left[i];
	}
	for (i = 0; i < node->gpus; i++)
	{
		if (!oracle_device(node, request, i) ||
			(spread && node->device_left[i] < most))
			continue;
		trial.devices = UINT64_C(1) << i;
		key = spread ? oracle_spread(&trial, loss) :
			oracle_fgd(world, &trial);
		if (key < best)
			best = key;
	}
	return best;
}

/*
 * How well a single node suits, as one number of which a lower one is better;
 * -1 if the node has no room.
 */
static int64_t
single_key(const World *world, const DecideNode *node, int number,
		   const DecideRequestClass *request,
		   const DecideOffer *offer, int count)
{
	OracleSearch search = {node, 1, request, offer, count, {0}, false,
		0, 0, 0, 0};
	int			devices = free_devices(node);
	int			taken = count;
	int64_t		left = 0;
	int			most = 0;
	int			fragments = 0;
	int64_t		loss;
	int			i;

	if (request->share < DECIDE_WHOLE || offer == NULL)
	{
		if (!single_fits(node, number, request, offer))
			return -1;
	}
	else if (!allowed(node, number, request, offer) ||
			 !node_fits(&search, node, count))
		return -1;
	if (request->share < DECIDE_WHOLE)
	{
		left = 1000;
		for (i = 0; i < node->gpus; i++)
		{
			int			has = node->device_left[i];

			if (((node->usable >> i) & 1) == 0)
				continue;
			if (oracle_device(node, request, i))
			{
				left = has < left ? has : left;
				most = has > most ? has : most;
			}
			fragments += has > 0 && has < 1000;
		}
		taken = world->policy.packing == DECIDE_PACKING_SPREAD ?
			most == 1000 : left == 1000;
	}
	loss = usable(node, devices, node->cpu_left, node->memory_left) -
		usable(node, devices - taken, node->cpu_left - request->cpu_milli,
			   node->memory_left - request->memory_mib);
	if (world->policy.packing != DECIDE_PACKING_PACK)
		return policy_key(world, node, request, count, loss);
	if (offer == NULL)
		return (loss * 100 + devices) * 1000000000 +
			(node->cpu_milli > 0 ? node->cpu_left : 999999999);
	return ((loss * 10000 + left) * 10 +
			(request->share < DECIDE_WHOLE && fragments == 0)) * 100 +
		(devices - taken);
}

/*
 * Whether a node holds the job's cache.
 */
static bool
holds(const World *world, int cache, int node)
{
	int			i;

	for (i = 0; i < world->n_cached && cache > 0; i++)
	{
		if (world->cached[i].cache == cache && world->cached[i].node == node)
			return true;
	}
	return false;
}

/*
 * Returns an error if another single node would have been better for a start:
 * it suits better; or it suits equally and holds the cache; or it also has
 * fewer free devices near it; or it also has the lower name.
 */
static char *
single_error(const World *world, const DecideNode *nodes,
			 const DecideJob *job, const DecideOffer *offer, int count,
			 int chosen)
{
	const DecideRequestClass *request = &world->requests[job->request];
	int64_t		key = single_key(world, &nodes[chosen], chosen, request, offer, count);
	int64_t		near = oracle_near(nodes, world->n_nodes, chosen);
	bool		cache_hits = holds(world, job->cache, chosen);
	int			i;

	for (i = 0; i < world->n_nodes; i++)
	{
		int64_t		other = single_key(world, &nodes[i], i, request, offer,
									   count);
		int64_t		around = oracle_near(nodes, world->n_nodes, i);
		bool		its = holds(world, job->cache, i);

		if (i == chosen || other < 0 || other > key ||
			(other == key && its != cache_hits && !its) ||
			(other == key && its == cache_hits &&
			 (around > near || (around == near &&
								strcmp(nodes[i].name,
									   nodes[chosen].name) > 0))))
			continue;
		return format("%s would have suited better than %s (%" PRId64
					  " <= %" PRId64 ", near it %" PRId64 " and %" PRId64
					  ")", nodes[i].name, nodes[chosen].name, other, key,
					  around, near);
	}
	return NULL;
}

/*
 * Subtracts a start from the nodes.
 */
static void
nodes_allocate(DecideNode *nodes, const DecideResult *result,
			   const DecideStart *start)
{
	int			i;

	for (i = 0; i < start->n_parts; i++)
	{
		const DecidePart *part = &result->parts[start->first_part + i];
		DecideNode *node = &nodes[part->node];

		devices_allocate(node, part, start->share, 1);
		node->cpu_left -= part->cpu_milli;
		node->memory_left -= part->memory_mib;
	}
}

/*
 * Whether all nodes are below one spine.
 */
static bool
one_spine(const World *world)
{
	int			i;

	for (i = 1; i < world->n_nodes; i++)
	{
		if (world->nodes[i].spine != world->nodes[0].spine)
			return false;
	}
	return true;
}

/*
 * Checks that trying everything would have chosen this start.  Returns NULL,
 * or what is wrong.
 */
static char *
start_error(const World *world, const DecideNode *nodes,
			const DecideResult *result, const DecideStart *start,
			const DecideOffer *offer, int count, long *leaf_misses)
{
	const DecideRequestClass *request = &world->requests[world->jobs[start->job].request];
	const DecidePart *parts = &result->parts[start->first_part];
	OracleSearch search = {nodes, world->n_nodes, request, offer,
		count, {0}, false,
		0, 0, 0, 0};
	int			domains;
	int			leaves;
	int			used;
	int			spines;
	bool		any;
	int			i;

	if (start->type != (offer != NULL ? offer->type : DECIDE_NO_TYPE))
		return format("not the first type that fits");
	if (start->gpus != count)
		return format("%d devices where %d fit", start->gpus, count);
	if (start->n_parts == 1)
		return single_error(world, nodes, &world->jobs[start->job], offer,
							count, parts[0].node);
	oracle_fewest(nodes, world->n_nodes, request, offer, count, &domains,
				  &leaves,
				  &used, &spines);
	any = request->topology == DECIDE_TOPOLOGY_ANY;
	for (i = 0; i < start->n_parts; i++)
		search.given[parts[i].node] = parts[i].gpus;
	if (request->prefer == DECIDE_TOPOLOGY_LEAF &&
		groups_used(&search, true) != leaves)
		return format("%d leaves where %d do", groups_used(&search, true),
					  leaves);
	if (request->prefer == DECIDE_TOPOLOGY_NODE && start->n_parts != used)
		return format("%d nodes where %d do", start->n_parts, used);
	if (request->prefer != DECIDE_TOPOLOGY_LEAF &&
		request->prefer != DECIDE_TOPOLOGY_NODE && any &&
		spines_used(&search) != spines)
		return format("%d spines where %d do", spines_used(&search), spines);
	/* Of several sets of spines, and within a leaf, domains are greedy. */
	if (request->prefer != DECIDE_TOPOLOGY_LEAF &&
		request->prefer != DECIDE_TOPOLOGY_NODE &&
		(one_spine(world) || (any && spines == 1)) &&
		groups_used(&search, false) != domains)
		return format("%d domains where %d do", groups_used(&search, false),
					  domains);
	if (groups_used(&search, false) != domains ||
		groups_used(&search, true) != leaves || start->n_parts != used)
		++* leaf_misses;
	return NULL;
}

/*
 * Checks a whole result.  Returns NULL, or what is wrong.  Gangs on more
 * leaves or nodes than necessary are only counted.
 */
char *
oracle_judge(const World *world, const DecideResult *result,
			 long *leaf_misses)
{
	int			n_nodes = world->n_nodes;
	DecideNode *nodes = malloc(sizeof(DecideNode) * (size_t) (n_nodes + 1));
	OracleQueue *queue = oracle_queue(world);
	int			next = 0;
	char	   *why = NULL;
	int			turn;

	if (n_nodes > 0)
		memcpy(nodes, world->nodes, sizeof(DecideNode) * (size_t) n_nodes);
	while (why == NULL && (turn = oracle_next(queue)) >= 0)
	{
		const DecideJob *job = &world->jobs[turn];
		const DecideRequestClass *request = &world->requests[job->request];
		const DecideStart *start = next < result->n_starts &&
			result->starts[next].job == turn ?
			&result->starts[next] : NULL;
		const DecideOffer *offer = NULL;
		int			count = -1;
		int			i;

		if (next >= world->max_starts)
			break;
		for (i = 0; i < (request->max_gpus > 0 ? request->n_offers : 1) &&
			 count < 0;
			 i++)
		{
			offer = request->max_gpus > 0 ? &request->offers[i] : NULL;
			count = oracle_largest(nodes, n_nodes, request, offer);
		}
		if (start == NULL && count >= 0)
			why = format("%s/%" PRId64 " did not start though it fits "
						 "(start %d is of job %d)", job->org, job->id, next,
						 next < result->n_starts ?
						 (int) result->starts[next].job : -1);
		if (start != NULL && count < 0)
			why = format("%s/%" PRId64 " started though it does not fit",
						 job->org, job->id);
		if (start != NULL && why == NULL)
			why = start_error(world, nodes, result, start, offer, count,
							  leaf_misses);
		if (start != NULL)
		{
			nodes_allocate(nodes, result, start);
			oracle_started(queue, turn, start->type, start->gpus);
			next++;
		}
		else
			oracle_failed(queue, turn);
	}
	if (why == NULL && next != result->n_starts)
		why = format("start %d was not of the job whose turn it was", next);
	oracle_queue_free(queue);
	free(nodes);
	return why;
}
