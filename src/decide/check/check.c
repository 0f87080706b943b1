/*
 * check.c
 *	  Is a result right?  By code that shares nothing with what made it.
 *
 * Each start is held against its request, then the parts are sorted by node and
 * each node's against what the node has.  Only what the result names is looked
 * at, so the time depends on the result's size.
 */
#include <string.h>

#include "decide/check/check.h"

typedef unsigned __int128 Wide;

/*
 * Compare two parts by node.
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
 * Compare two starts by job.
 */
static int
compare_job(const void *context, int32_t a, int32_t b)
{
	const DecideStart *starts = context;

	return starts[a].job < starts[b].job ? -1 : starts[a].job > starts[b].job;
}

/*
 * What is wrong with what one node gives, to n parts listed by number, or NULL;
 * *bad is the part at which it went wrong.
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
 * Verify that the nodes have what the parts take.
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
 * Verify that no job starts twice.
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
 * Verify that what is promised to waiting jobs is what they request.
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
			DecideCheckStart(input, &as_parts, &start);

		if (error != NULL)
			return error;
	}
	return NULL;
}

/*
 * Does nobody start before his like that was ahead?  By code that shares
 * nothing with what made it.
 *
 * Of the jobs of one account and tier that request the same, one that starts has
 * none ahead of it that waits: whatever one of them can have, the first of them
 * can have.  Ahead are the aged, by when they were submitted; then by priority,
 * by run time where the pool's policy says so, and by when they were submitted;
 * then by number.  Jobs with promised devices start on these alone, whenever
 * they are free, and are neither ahead of anybody nor behind.
 *
 * The time is that of looking at each job once, and only where something
 * starts.
 */

/* Starts of one account, tier and request are sorted together. */
typedef struct Starts
{
	const DecideInput *input;
	const DecideResult *result;
	int32_t    *order;
	int32_t		n;
} Starts;

/*
 * Compare two jobs by account, tier and request.
 */
static int
compare_kind(const DecideJob *x, const DecideJob *y)
{
	if (x->account != y->account)
		return x->account < y->account ? -1 : 1;
	if (x->tier != y->tier)
		return x->tier < y->tier ? -1 : 1;
	return x->request < y->request ? -1 : x->request > y->request;
}

/*
 * Does one job go before another of its kind?
 */
static bool
goes_before(const DecideInput *input, const DecideJob *x, const DecideJob *y)
{
	bool		x_aged = x->aged_at < input->now;
	bool		y_aged = y->aged_at < input->now;

	if (x_aged != y_aged)
		return x_aged;
	if (!x_aged && x->priority != y->priority)
		return x->priority > y->priority;
	if (!x_aged && input->policy.order == DECIDE_ORDER_SHORTEST &&
		x->order_run != y->order_run)
		return x->order_run < y->order_run;
	if (x->submitted != y->submitted)
		return x->submitted < y->submitted;
	return x->id < y->id;
}

/*
 * Compare two starts by kind, the last of each kind first.
 */
static int
compare_starts(const void *context, int32_t a, int32_t b)
{
	const Starts *starts = context;
	const DecideJob *x =
	&starts->input->jobs[starts->result->starts[a].job];
	const DecideJob *y =
	&starts->input->jobs[starts->result->starts[b].job];
	int			order = compare_kind(x, y);

	if (order != 0)
		return order;
	if (goes_before(starts->input, y, x))
		return -1;
	return goes_before(starts->input, x, y) ? 1 : a < b ? -1 : a > b;
}

/*
 * The start that comes last of a job's kind, -1 where there is none.
 */
static int32_t
last_start(const Starts *starts, const DecideJob *job)
{
	int32_t		low = 0;
	int32_t		high = starts->n;

	while (low < high)
	{
		int32_t		middle = low + (high - low) / 2;
		const DecideStart *start =
		&starts->result->starts[starts->order[middle]];

		if (compare_kind(&starts->input->jobs[start->job], job) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == starts->n ||
		compare_kind(&starts->input->jobs
					 [starts->result->starts[starts->order[low]].job],
					 job) != 0)
		return -1;
	return starts->order[low];
}

/*
 * Verify that nobody starts before his like.  *where is the start that does.
 */
static const char *
check_order(const DecideInput *input, const DecideResult *result,
			const DecideArena *arena, int32_t *where)
{
	Starts		starts = {input, result, NULL, 0};
	bool	   *apart = DecideAlloc(arena, input->n_jobs, sizeof(bool));
	bool	   *asked = DecideAlloc(arena, input->n_requests, sizeof(bool));
	int32_t		i;

	if (result->n_starts == 0)
		return NULL;
	starts.order = DecideAlloc(arena, result->n_starts, sizeof(int32_t));
	if (apart == NULL || asked == NULL || starts.order == NULL)
		return "out of memory";
	memset(apart, 0, (size_t) input->n_jobs * sizeof(bool));
	memset(asked, 0, (size_t) input->n_requests * sizeof(bool));
	for (i = 0; i < input->n_claims; i++)
	{
		if (input->claims[i].job >= 0)
			apart[input->claims[i].job] = true;
	}
	for (i = 0; i < result->n_promises; i++)
	{
		if (result->promises[i].job >= 0)
			apart[result->promises[i].job] = true;
	}
	for (i = 0; i < result->n_starts; i++)
	{
		int32_t		job = result->starts[i].job;

		if (!apart[job])
			starts.order[starts.n++] = i;
		apart[job] = true;
		asked[input->jobs[job].request] = true;
	}
	if (!DecideSort(arena, starts.order, starts.n, compare_starts, &starts))
		return "out of memory";
	for (i = 0; i < input->n_jobs; i++)
	{
		const DecideJob *job = &input->jobs[i];
		int32_t		start;

		if (apart[i] || !asked[job->request])
			continue;
		start = last_start(&starts, job);
		if (start < 0 ||
			!goes_before(input, job, &input->jobs[result->starts[start].job]))
			continue;
		*where = start;
		return "a job starts, and one like it that is ahead of it waits";
	}
	return NULL;
}

/*
 * Verify a result against its input.
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
		error = DecideCheckStart(input, result, start);
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
		error = DecideCheckQuotas(input, result, arena);
	if (error == NULL)
		error = DecideCheckReserved(input, result, arena);
	if (error == NULL)
		error = DecideCheckClaims(input, result, arena);
	if (error == NULL)
		error = DecideCheckEntitled(input, result, arena);
	return error != NULL ? error :
		check_order(input, result, arena, where);
}
