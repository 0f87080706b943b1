/*
 * check.c
 *	  Checks that a result is right, without sharing code with what made it.
 *
 * Each start is compared with its request; then the parts are sorted by node,
 * and the parts on each node are compared with what the node has.  Only what
 * the result names is examined, so the time depends on the size of the result.
 */

#include "decide/check/check.h"

typedef unsigned __int128 Wide;

/*
 * Returns total * gpus / count, rounded up.
 */
static int64_t
split(int64_t total, int32_t gpus, int32_t count)
{
	Wide		product = (Wide) total * (Wide) gpus;
	Wide		whole = product / (Wide) count;

	return (int64_t) (whole + (whole * (Wide) count < product ? 1 : 0));
}

/*
 * The MiB of a device that a start of the request uses: 0 for whole devices;
 * for a share its memory floor for the type, or without a floor the same part
 * of the memory as of the device.
 */
static int64_t
memory_of_device(const DecideRequestClass *request, const DecideNode *node)
{
	Wide		least = (Wide) INT64_MAX;
	int32_t		i;

	if (request->share == DECIDE_WHOLE)
		return 0;
	for (i = 0; i < request->n_offers; i++)
	{
		Wide		floor = ((Wide) request->offers[i].min_memory + 1048575) /
			1048576;

		if (request->offers[i].type == node->type && floor < least)
			least = floor;
	}
	return least > 0 ? (int64_t) least : (int64_t)
		((Wide) node->gpu_memory_mib * (Wide) request->share / DECIDE_WHOLE);
}

/*
 * Whether one of the request's offers allows the start's type on all of its
 * nodes.
 */
static bool
offer_allows(const DecideInput *input, const DecideResult *result,
			 const DecideStart *start, const DecideRequestClass *request)
{
	int32_t		i;
	int32_t		j;

	for (i = 0; i < request->n_offers; i++)
	{
		const DecideOffer *offer = &request->offers[i];

		if (offer->type != start->type)
			continue;
		for (j = 0; j < start->n_parts; j++)
		{
			const DecidePart *part = &result->parts[start->first_part + j];
			Wide		has = (Wide) input->nodes[part->node].gpu_memory_mib;

			if (has * 1048576 < (Wide) offer->min_memory)
				break;
		}
		if (j == start->n_parts)
			return true;
	}
	return false;
}

/*
 * Whether the nodes of a start are as close together as its topology requires.
 */
static bool
topology_holds(const DecideInput *input, const DecideResult *result,
			   const DecideStart *start, DecideTopology topology)
{
	const DecidePart *parts = &result->parts[start->first_part];
	const DecideNode *first = &input->nodes[parts[0].node];
	int32_t		i;

	for (i = 1; i < start->n_parts; i++)
	{
		const DecideNode *node = &input->nodes[parts[i].node];

		if (topology == DECIDE_TOPOLOGY_NODE)
			return false;
		if (topology == DECIDE_TOPOLOGY_NVLINK &&
			(node->domain < 0 || node->domain != first->domain))
			return false;
		if (topology == DECIDE_TOPOLOGY_LEAF &&
			(node->leaf < 0 || node->leaf != first->leaf))
			return false;
	}
	return true;
}

/*
 * Returns a message that says what is wrong with one part of a start by
 * itself, or NULL if nothing is wrong.
 */
static const char *
part_error(const DecideInput *input, const DecideStart *start,
		   const DecideRequestClass *request, const DecidePart *part)
{
	const DecideNode *node;
	uint64_t	rest;
	int32_t		devices = 0;
	int32_t		count = start->gpus > 0 ? start->gpus : 1;
	int32_t		gpus = start->gpus > 0 ? part->gpus : 1;

	if (part->node < 0 || part->node >= input->n_nodes)
		return "a start is on a node that is not there";
	node = &input->nodes[part->node];
	if (!node->schedulable)
		return "a start is on a node that takes no new work";
	if (node->spot && !request->spot_ok)
		return "a start that must not be preempted is on a spot node";
	if (request->filter != NULL &&
		((request->filter[part->node / 64] >> (part->node % 64)) & 1) == 0)
		return "a start is on a node that its ask's filter does not allow";
	if (start->gpus > 0 && node->type != start->type)
		return "a start is on a node of another type";
	for (rest = part->devices; rest != 0; rest &= rest - 1)
	{
		int			i = __builtin_ctzll(rest);

		if (i >= node->gpus || ((node->usable >> i) & 1) == 0)
			return "a start has a device that is not usable";
		devices++;
	}
	if (devices != part->gpus)
		return "a part's devices are not as many as it says";
	if (start->gpus > 0 && devices == 0)
		return "a start has a part without devices";
	if (part->cpu_milli != split(request->cpu_milli, gpus, count) ||
		part->memory_mib != split(request->memory_mib, gpus, count))
		return "a part's cpu or memory is not its share of the job's";
	if (part->gpu_memory_mib != memory_of_device(request, node))
		return "a part takes another memory of its device than its ask";
	return NULL;
}

/*
 * Returns a message that says what is wrong with one start by its request, or
 * NULL if nothing is wrong.
 */
static const char *
start_error(const DecideInput *input, const DecideResult *result,
			const DecideStart *start)
{
	const DecideRequestClass *request;
	const char *error;
	int64_t		gpus = 0;
	int32_t		i;

	if (start->job < 0 || start->job >= input->n_jobs)
		return "a start is of a job that is not there";
	request = &input->requests[input->jobs[start->job].request];
	if (start->n_parts < 1 || start->first_part < 0 ||
		start->n_parts > result->n_parts - start->first_part)
		return "a start has no parts, or parts that are not there";
	if (start->gpus < request->min_gpus || start->gpus > request->max_gpus)
		return "a start has fewer or more devices than its ask";
	if (start->share != request->share)
		return "a start has another share than its ask";
	for (i = 0; i < start->n_parts; i++)
	{
		const DecidePart *part = &result->parts[start->first_part + i];

		error = part_error(input, start, request, part);
		if (error != NULL)
			return error;
		if (request->per_node > 0 && part->gpus != request->per_node)
			return "a start has another number of devices on a node than its ask";
		gpus += part->gpus;
	}
	if (gpus != start->gpus)
		return "a gang is not whole";
	if (start->gpus == 0 && (start->n_parts != 1 ||
							 start->type != DECIDE_NO_TYPE))
		return "a start without devices is not on one node";
	if (start->gpus > 0 && !offer_allows(input, result, start, request))
		return "a start has a type or memory that its ask does not accept";
	if (!topology_holds(input, result, start, request->topology))
		return "a start is not together as its topology asks";
	return NULL;
}

/*----------
 * The order that puts the parts of one node side by side:
 *
 * 1. node;
 * 2. place in the array.
 *----------
 */
static int
compare_node(const void *context, int32_t a, int32_t b)
{
	const DecidePart *parts = context;

	if (parts[a].node != parts[b].node)
		return parts[a].node < parts[b].node ? -1 : 1;
	return a < b ? -1 : 1;
}

/*
 * Compares two starts by job.
 */
static int
compare_job(const void *context, int32_t a, int32_t b)
{
	const DecideStart *starts = context;

	return starts[a].job < starts[b].job ? -1 : starts[a].job > starts[b].job;
}

/*
 * Returns a message that says what is wrong with the n listed parts on one
 * node, or NULL.  *bad is set to the wrong part.
 */
static const char *
node_error(const DecideInput *input, const DecideResult *result,
		   const int32_t *owner, const int32_t *list, int32_t n, int32_t *bad)
{
	const DecideNode *node = &input->nodes[result->parts[list[0]].node];
	Wide		cpu = 0;
	Wide		memory = 0;
	int32_t		given[DECIDE_MAX_DEVICES] = {0};
	Wide		gpu_memory[DECIDE_MAX_DEVICES] = {0};
	uint64_t	rest;
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		const DecidePart *part = &result->parts[list[i]];
		int32_t		share = result->starts[owner[list[i]]].share;

		*bad = list[i];
		if (i > 0 && owner[list[i]] == owner[list[i - 1]])
			return "a start is on one node twice";
		for (rest = part->devices; rest != 0; rest &= rest - 1)
		{
			int			d = __builtin_ctzll(rest);

			given[d] += share;
			if (given[d] > node->device_left[d])
				return "a device is given out twice or over what it has left";
			gpu_memory[d] += (Wide) part->gpu_memory_mib;
			if (part->gpu_memory_mib > 0 &&
				gpu_memory[d] + (Wide) node->gpu_memory_used[d] >
				(Wide) node->gpu_memory_mib)
				return "a device's memory is given out over what it has left";
		}
		cpu += (Wide) part->cpu_milli;
		memory += (Wide) part->memory_mib;
		if (node->cpu_milli > 0 && part->cpu_milli > 0 &&
			(node->cpu_left < 0 || cpu > (Wide) node->cpu_left))
			return "a node's cpu is given out over what it has left";
		if (node->memory_mib > 0 && part->memory_mib > 0 &&
			(node->memory_left < 0 || memory > (Wide) node->memory_left))
			return "a node's memory is given out over what it has left";
	}
	return NULL;
}

/*
 * Verifies that the nodes have what the parts use.
 */
static const char *
nodes_error(const DecideInput *input, const DecideResult *result,
			const DecideArena *arena, int32_t *where)
{
	int32_t		n = result->n_parts;
	int32_t    *owner = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t    *list = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t		first;
	int32_t		last;
	int32_t		i;

	if (owner == NULL || list == NULL)
		return "out of memory";
	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];

		for (first = 0; first < start->n_parts; first++)
			owner[start->first_part + first] = i;
	}
	for (i = 0; i < n; i++)
		list[i] = i;
	if (!DecideSort(arena, list, n, compare_node, result->parts))
		return "out of memory";
	for (first = 0; first < n; first = last)
	{
		int32_t		bad = 0;
		const char *error;

		for (last = first + 1; last < n; last++)
		{
			if (result->parts[list[last]].node !=
				result->parts[list[first]].node)
				break;
		}
		error = node_error(input, result, owner, list + first, last - first,
						   &bad);
		if (error != NULL)
		{
			*where = owner[bad];
			return error;
		}
	}
	return NULL;
}

/*
 * Verifies that no job starts twice.
 */
static const char *
jobs_error(const DecideResult *result, const DecideArena *arena,
		   int32_t *where)
{
	int32_t		n = result->n_starts;
	int32_t    *list = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t		i;

	if (list == NULL)
		return "out of memory";
	for (i = 0; i < n; i++)
		list[i] = i;
	if (!DecideSort(arena, list, n, compare_job, result->starts))
		return "out of memory";
	for (i = 1; i < n; i++)
	{
		if (result->starts[list[i - 1]].job == result->starts[list[i]].job)
		{
			*where = list[i];
			return "a job starts twice";
		}
	}
	return NULL;
}

/*
 * Verifies that promises to waiting jobs are what they request.
 */
static const char *
promises_error(const DecideInput *input, const DecideResult *result)
{
	DecideResult as_parts = {
		.parts = result->promise_parts, .n_parts = result->n_promise_parts
	};
	int32_t		i;

	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *promise = &result->promises[i];
		DecideStart start = {promise->job, promise->type, promise->gpus,
			promise->share, promise->first_part, promise->n_parts, 0, false};
		const char *error = promise->job < 0 ? NULL :
			start_error(input, &as_parts, &start);

		if (error != NULL)
			return error;
	}
	return NULL;
}

/*
 * Verifies that reservations are what the jobs request.
 */
static const char *
reserved_error(const DecideInput *input, const DecideResult *result)
{
	DecideResult as_parts = {
		.parts = result->reserved_parts, .n_parts = result->n_reserved_parts
	};
	const char *error = NULL;
	int32_t		i;

	if (result->n_reservations < 0 || result->n_reserved_parts < 0)
		return "a number of reservations is negative";
	for (i = 0; i < result->n_reservations && error == NULL; i++)
	{
		const DecideReservation *r = &result->reservations[i];
		DecideStart start = {r->job, r->type, r->gpus, 0, r->first_part,
			r->n_parts, 0, false};

		if (r->job < 0 || r->job >= input->n_jobs)
			return "a reservation is of a job that is not there";
		start.share = input->requests[input->jobs[r->job].request].share;
		error = start_error(input, &as_parts, &start);
	}
	return error;
}

/*
 * Verifies a result against its input.
 */
const char *
DecideCheck(const DecideInput *input, const DecideResult *result,
			const DecideArena *arena, int32_t *where)
{
	int32_t		nowhere;
	int32_t		next_part = 0;
	const char *error;
	int32_t		i;

	if (where == NULL)
		where = &nowhere;
	*where = -1;
	if (result->n_starts < 0 || result->n_parts < 0)
		return "a number of starts or parts is negative";
	if (result->n_starts > input->max_starts)
		return "more jobs start than may";
	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];

		*where = i;
		error = start_error(input, result, start);
		if (error != NULL)
			return error;
		if (start->first_part != next_part)
			return "the starts' parts overlap or leave a gap";
		next_part += start->n_parts;
	}
	*where = -1;
	if (next_part != result->n_parts)
		return "the starts' parts overlap or leave a gap";
	error = jobs_error(result, arena, where);
	if (error != NULL)
		return error;
	error = nodes_error(input, result, arena, where);
	if (error != NULL)
		return error;
	*where = -1;
	error = promises_error(input, result);
	if (error == NULL)
		error = reserved_error(input, result);
	if (error == NULL)
		error = DecideCheckQuotas(input, result, arena);
	if (error == NULL)
		error = DecideCheckReserved(input, result, arena);
	if (error == NULL)
		error = DecideCheckGuarantees(input, result, arena);
	if (error == NULL)
		error = DecideCheckClaims(input, result, arena);
	if (error == NULL)
		error = DecideCheckEntitled(input, result, arena);
	return error != NULL ? error :
		DecideCheckOrder(input, result, arena, where);
}
