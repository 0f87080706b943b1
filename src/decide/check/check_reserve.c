/*
 * check_reserve.c
 *	  Checks the reservations of a result, without sharing code with what made
 *	  them.
 *
 * At the time of a reservation its devices must be free.  Besides what is free
 * now, running jobs return their devices as expected, and evicted jobs within
 * their grace.  Jobs that started or were reserved before have ended as
 * expected, later ones by their limits.  A later reservation for the same
 * instant has its turn after this one.  This is what backfill promises.
 */
#include <string.h>

#include "decide/check/check.h"

typedef __int128 Wide;

/* A part of a node that a job has, gets or will get. */
typedef struct ReservedItem
{
	int32_t		node;
	int32_t		share;
	bool		runs;			/* the node's free amounts lack it already */
	int32_t		reservation;	/* -1 if the job runs or starts */
	int64_t		order;			/* its position among the decisions */
	int64_t		from;
	int64_t		expected;		/* the expected end */
	int64_t		limit;
	const DecidePart *part;
} ReservedItem;

/*
 * The sum of an instant and a duration, at most DECIDE_NEVER.
 */
static int64_t
later(int64_t at, int64_t by)
{
	Wide		sum = (Wide) at + (Wide) by;

	return sum > DECIDE_NEVER ? DECIDE_NEVER : (int64_t) sum;
}

/*
 * How long a job may run, or is expected to run.
 */
static int64_t
run_of(const DecideInput *input, int32_t job, bool expected)
{
	int64_t		limit = input->requests[input->jobs[job].request].wall_limit;
	int64_t		run = input->jobs[job].expected_run;

	return expected && run > 0 && run < limit ? run : limit;
}

/*
 * The expected end of a job that would end at an instant: not earlier than
 * soon.
 */
static int64_t
not_before(const DecideInput *input, int64_t at)
{
	int64_t		soonest = later(input->now, input->soon);

	return at > soonest ? at : soonest;
}

/*
 * The times at which running jobs are expected to have ended.  Returns NULL if
 * memory runs out.
 */
static int64_t *
ends_expected(const DecideInput *input, const DecideResult *result,
			  const DecideArena *arena)
{
	int64_t    *ends = DecideAlloc(arena, input->n_running, sizeof(int64_t));
	int32_t		i;

	for (i = 0; i < input->n_running && ends != NULL; i++)
		ends[i] = input->running[i].expected_end;
	for (i = 0; i < result->n_evictions && ends != NULL; i++)
	{
		int32_t		r = result->evictions[i].running;
		int64_t		gone;

		if (r < 0 || r >= input->n_running)
			continue;
		gone = not_before(input, later(input->now, input->tiers
									   [input->running[r].tier].grace));
		if (gone < ends[r])
			ends[r] = gone;
	}
	for (i = 0; i < input->n_running && ends != NULL; i++)
	{
		if (ends[i] <= input->now)
			ends[i] = later(input->now, 1);
	}
	return ends;
}

/*
 * Compares two items by node.
 */
static int
compare_item(const void *context, int32_t a, int32_t b)
{
	const ReservedItem *items = context;

	return items[a].node < items[b].node ? -1 : items[a].node > items[b].node;
}

/*
 * Returns a message that says what is wrong with the reservations by
 * themselves, or NULL if nothing is wrong.
 */
static const char *
each_error(const DecideInput *input, const DecideResult *result,
		   bool *decided, const bool *guaranteed)
{
	int32_t		next_part = 0;
	int32_t		after = 0;
	int32_t		deep = 0;
	int32_t		i;

	for (i = 0; i < result->n_reservations; i++)
	{
		const DecideReservation *r = &result->reservations[i];

		if (r->first_part != next_part)
			return "the reservations' parts overlap or leave a gap";
		next_part += r->n_parts;
		if (r->after < after || r->after > result->n_starts)
			return "a reservation is out of order";
		after = r->after;
		if (r->at <= input->now || r->limit_at < r->at)
			return "a reservation is not for a later time";
		if (decided[r->job])
			return "a job has a reservation and starts, or has two";
		decided[r->job] = true;
		deep += input->jobs[r->job].aged_at >= input->now &&
			!guaranteed[r->job];
	}
	if (deep > input->policy.backfill_depth)
		return "more jobs have reservations than may";
	return next_part == result->n_reserved_parts ? NULL :
		"the reservations' parts overlap or leave a gap";
}

/*
 * Lists all parts on the nodes with reservations.  Returns their number.
 */
static int32_t
items_list(const DecideInput *input, const DecideResult *result,
		   const int64_t *ends, const bool *marked, ReservedItem *items)
{
	int32_t		n = 0;
	int32_t		i;
	int32_t		p;

	for (i = 0; i < input->n_running; i++)
	{
		const DecideRunning *run = &input->running[i];

		for (p = run->first_part; p < run->first_part + run->n_parts; p++)
		{
			const DecidePart *part = &input->running_parts[p];

			if (marked[part->node])
				items[n++] = (ReservedItem)
			{
				part->node, run->share, true, -1, INT64_MIN, input->now,
					ends[i], run->limit_end, part
			};
		}
	}
	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *s = &result->starts[i];

		for (p = s->first_part; p < s->first_part + s->n_parts; p++)
		{
			const DecidePart *part = &result->parts[p];

			if (marked[part->node])
				items[n++] = (ReservedItem)
			{
				part->node, s->share, false, -1, (int64_t) i << 32,
					input->now,
					not_before(input, later(input->now,
											run_of(input, s->job, true))),
					later(input->now, run_of(input, s->job, false)), part
			};
		}
	}
	for (i = 0; i < result->n_reservations; i++)
	{
		const DecideReservation *r = &result->reservations[i];

		for (p = r->first_part; p < r->first_part + r->n_parts; p++)
			items[n++] = (ReservedItem)
		{
			result->reserved_parts[p].node,
				input->requests[input->jobs[r->job].request].share, false, i,
				((int64_t) r->after << 32) - result->n_reservations + i,
				r->at, later(r->at, run_of(input, r->job, true)),
				later(r->at, run_of(input, r->job, false)),
				&result->reserved_parts[p]
		};
	}
	return n;
}

/*
 * Whether a reserved part will be free at its time.  list contains all items
 * on its node.
 */
static bool
will_be_there(const DecideInput *input, const ReservedItem *items,
			  const int32_t *list, int32_t n, const ReservedItem *mine)
{
	const DecideNode *node = &input->nodes[mine->node];
	int32_t		left[DECIDE_MAX_DEVICES];
	Wide		gpu_memory[DECIDE_MAX_DEVICES];
	Wide		cpu = node->cpu_left;
	Wide		memory = node->memory_left;
	int32_t		i;
	int			d;

	for (d = 0; d < node->gpus; d++)
	{
		left[d] = node->device_left[d];
		gpu_memory[d] = (Wide) node->gpu_memory_mib -
			node->gpu_memory_used[d];
	}
	for (i = 0; i < n; i++)
	{
		const ReservedItem *other = &items[list[i]];
		int64_t		until = other->order > mine->order ? other->limit :
			other->expected;
		bool		came = other->from < mine->from ||
			(other->from == mine->from && other->order < mine->order);
		bool		there = came && until > mine->from;
		int			sign = other->runs ? !there : -there;

		if (other == mine)
			sign = -1;
		for (d = 0; d < node->gpus; d++)
		{
			if (((other->part->devices >> d) & 1) == 0)
				continue;
			left[d] += sign * other->share;
			gpu_memory[d] += sign * (Wide) other->part->gpu_memory_mib;
		}
		cpu += sign * (Wide) other->part->cpu_milli;
		memory += sign * (Wide) other->part->memory_mib;
	}
	for (d = 0; d < node->gpus; d++)
	{
		if (((mine->part->devices >> d) & 1) &&
			(left[d] < 0 || (mine->part->gpu_memory_mib > 0 &&
							 gpu_memory[d] < 0)))
			return false;
	}
	return (node->cpu_milli == 0 || mine->part->cpu_milli == 0 || cpu >= 0) &&
		(node->memory_mib == 0 || mine->part->memory_mib == 0 || memory >= 0);
}

/*
 * Returns a message that says what is wrong with what will be on the nodes, or
 * NULL if nothing is wrong.
 */
static const char *
nodes_error(const DecideInput *input, const DecideResult *result,
			const DecideArena *arena, const bool *marked)
{
	int64_t		capacity = (int64_t) input->n_running_parts + result->n_parts +
		result->n_reserved_parts;
	ReservedItem *items = DecideAlloc(arena, capacity,
									  sizeof(ReservedItem));
	int32_t    *list = DecideAlloc(arena, capacity, sizeof(int32_t));
	int64_t    *ends = ends_expected(input, result, arena);
	int32_t		n;
	int32_t		first;
	int32_t		last;
	int32_t		i;

	if (items == NULL || list == NULL || ends == NULL)
		return "out of memory";
	n = items_list(input, result, ends, marked, items);
	for (i = 0; i < n; i++)
		list[i] = i;
	if (!DecideSort(arena, list, n, compare_item, items))
		return "out of memory";
	for (first = 0; first < n; first = last)
	{
		for (last = first + 1; last < n; last++)
		{
			if (items[list[last]].node != items[list[first]].node)
				break;
		}
		for (i = first; i < last; i++)
		{
			const ReservedItem *mine = &items[list[i]];

			if (mine->reservation >= 0 &&
				!will_be_there(input, items, list + first, last - first, mine))
				return "what is reserved will not be there at its time";
		}
		DecidePoll(arena);
	}
	return NULL;
}

/*
 * Verifies the reservations of a result; its starts and reservations have been
 * checked by themselves already.
 */
const char *
DecideCheckReserved(const DecideInput *input, const DecideResult *result,
					const DecideArena *arena)
{
	bool	   *decided;
	bool	   *guaranteed;
	bool	   *marked;
	const char *error;
	int32_t		i;

	DecideAssert(input != NULL && result != NULL);
	DecideAssert(arena != NULL);
	if (result->n_reservations == 0)
		return result->n_reserved_parts == 0 ? NULL :
			"the reservations' parts overlap or leave a gap";
	decided = DecideAlloc(arena, input->n_jobs, sizeof(bool));
	guaranteed = DecideAlloc(arena, input->n_jobs, sizeof(bool));
	marked = DecideAlloc(arena, input->n_nodes, sizeof(bool));
	if (decided == NULL || guaranteed == NULL || marked == NULL)
		return "out of memory";
	memset(decided, 0, (size_t) input->n_jobs * sizeof(bool));
	memset(marked, 0, (size_t) input->n_nodes * sizeof(bool));
	memset(guaranteed, 0, (size_t) input->n_jobs * sizeof(bool));
	for (i = 0; i < input->n_previous; i++)
		guaranteed[input->previous[i].job] = input->previous[i].latest > 0;
	for (i = 0; i < result->n_starts; i++)
		decided[result->starts[i].job] = true;
	error = each_error(input, result, decided, guaranteed);
	if (error != NULL)
		return error;
	for (i = 0; i < result->n_reserved_parts; i++)
		marked[result->reserved_parts[i].node] = true;
	return nodes_error(input, result, arena, marked);
}
