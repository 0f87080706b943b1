/*
 * timeline.c
 *	  The future ends of jobs, and what is reserved.
 *
 * An end belongs to a part of a running job or of a start of this cycle, and
 * has an expected and a latest time.  A hold is a part of a reservation, or a
 * part of a claim, which keeps its devices from now on.
 */
#include <string.h>

#include "decide/core/fit.h"

/*
 * Compares two ends by time.
 */
static int
compare_end(const void *context, int32_t a, int32_t b)
{
	const End  *ends = context;

	if (ends[a].at != ends[b].at)
		return ends[a].at < ends[b].at ? -1 : 1;
	return 0;
}

/*
 * Adds the end of a part.  Returns false if memory runs out.
 */
static bool
end_add(Cycle *cycle, const DecidePart *part, int32_t share, int32_t start,
		int64_t at, int64_t limit)
{
	Timeline   *timeline = cycle->timeline;
	End		   *end;

	timeline->ends = DecideGrow(cycle->arena, timeline->ends,
								timeline->n_ends, &timeline->ends_capacity,
								sizeof(End));
	if (timeline->ends == NULL)
		return false;
	end = &timeline->ends[timeline->n_ends];
	end->at = at;
	end->limit = limit;
	end->start = start;
	end->host = timeline->node_host[part->node];
	end->share = share;
	end->part = *part;
	end->part.devices &= cycle->input->nodes[part->node].usable;
	end->next = timeline->first_end[end->host];
	timeline->first_end[end->host] = timeline->n_ends++;
	return true;
}

/*
 * Inserts an item into a sorted list, behind the items that are equal to it.
 * Returns false if memory runs out.
 */
static bool
list_insert(const DecideArena *arena, int32_t **list, int32_t n,
			int32_t *capacity,
			int32_t item, DecideCompareFn compare, const void *context)
{
	int32_t		low = 0;
	int32_t		high = n;

	*list = DecideGrow(arena, *list, n, capacity, sizeof(int32_t));
	if (*list == NULL)
		return false;
	while (low < high)
	{
		int32_t		middle = low + (high - low) / 2;

		if (compare(context, (*list)[middle], item) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	memmove(*list + low + 1, *list + low,
			(size_t) (n - low) * sizeof(int32_t));
	(*list)[low] = item;
	return true;
}

/*
 * Inserts the end that was added last into the list by time, unless it never
 * comes.  Returns false if memory runs out.
 */
static bool
end_order(Cycle *cycle)
{
	Timeline   *timeline = cycle->timeline;
	int32_t		index = timeline->n_ends - 1;

	if (timeline->ends[index].at == DECIDE_NEVER)
		return true;
	return list_insert(cycle->arena, &timeline->by_time, timeline->n_by_time++,
					   &timeline->by_time_capacity, index, compare_end,
					   timeline->ends);
}

/*
 * Adds the end of a part of a start of this cycle.  Returns false if memory
 * runs out.
 */
static bool
start_end_add(Cycle *cycle, int32_t index, const DecidePart *part)
{
	const DecideInput *input = cycle->input;
	const DecideStart *start = &cycle->result->starts[index];

	return end_add(cycle, part, start->share, index,
				   DecideStartEnd(input, start->job, true),
				   DecideStartEnd(input, start->job, false));
}

/*
 * Adds the end of a part of a start, before the part is allocated on its host.
 * Returns false if memory runs out.
 */
bool
DecideTimelineStart(Cycle *cycle, int32_t start, const DecidePart *part)
{
	DecideAssert(start >= 0 && start < cycle->result->n_starts);
	DecideAssert(!cycle->reserving);
	return cycle->timeline == NULL ||
		(start_end_add(cycle, start, part) && end_order(cycle));
}

/*
 * Adds the ends of all running jobs and of the starts so far.  Returns false
 * if memory runs out.
 */
static bool
ends_load(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	const DecideResult *result = cycle->result;
	Timeline   *timeline = cycle->timeline;
	int32_t		i;
	int32_t		p;

	for (i = 0; i < input->n_running; i++)
	{
		const DecideRunning *running = &input->running[i];
		int64_t		at = running->expected_end;

		/* the job runs longer than expected, and may end at any moment */
		if (at <= input->now)
			at = DecideTimeAdd(input->now, 1);
		for (p = 0; p < running->n_parts; p++)
		{
			if (!end_add(cycle,
						 &input->running_parts[running->first_part + p],
						 running->share, -1, at,
						 running->limit_end > at ? running->limit_end : at))
				return false;
		}
	}
	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];

		for (p = 0; p < start->n_parts; p++)
		{
			if (!start_end_add(cycle, i,
							   &result->parts[start->first_part + p]))
				return false;
		}
	}
	timeline->by_time = DecideAlloc(cycle->arena, timeline->n_ends,
									sizeof(int32_t));
	timeline->by_time_capacity = timeline->n_ends;
	if (timeline->by_time == NULL)
		return false;
	for (i = 0; i < timeline->n_ends; i++)
	{
		if (timeline->ends[i].at != DECIDE_NEVER)
			timeline->by_time[timeline->n_by_time++] = i;
	}
	return DecideSort(cycle->arena, timeline->by_time, timeline->n_by_time,
					  compare_end, timeline->ends);
}

/*
 * Compares two holds by the time at which they begin.
 */
static int
compare_from(const void *context, int32_t a, int32_t b)
{
	const Reservation *holds = context;

	if (holds[a].from != holds[b].from)
		return holds[a].from < holds[b].from ? -1 : 1;
	return 0;
}

/*
 * Compares two holds by their expected end.
 */
static int
compare_until(const void *context, int32_t a, int32_t b)
{
	const Reservation *holds = context;

	if (holds[a].until != holds[b].until)
		return holds[a].until < holds[b].until ? -1 : 1;
	return 0;
}

/*
 * Reserves part of a host.  Returns false if memory runs out.
 */
bool
DecideTimelineHold(Cycle *cycle, const Reservation *hold)
{
	Timeline   *timeline = cycle->timeline;
	const DecideArena *arena = cycle->arena;
	int32_t		index = timeline->n_holds;
	int32_t		host = hold->host;
	HostView   *view = &timeline->views[host];
	int32_t		place;

	DecideAssert(cycle->timeline != NULL);
	DecideAssert(hold->host >= 0 && hold->host < cycle->n_hosts);
	DecideAssert(hold->from <= hold->until);
	timeline->holds = DecideGrow(arena, timeline->holds, index,
								 &timeline->holds_capacity,
								 sizeof(Reservation));
	view->besides = DecideGrow(arena, view->besides, view->n, &view->capacity,
							   sizeof(RemainingAt));
	if (timeline->holds == NULL || view->besides == NULL)
		return false;
	if (timeline->first_hold[host] < 0)
	{
		timeline->truth[host] = cycle->hosts[host];
		timeline->held[timeline->n_held++] = host;
	}
	timeline->holds[index] = *hold;
	timeline->holds[index].next = timeline->first_hold[host];
	timeline->first_hold[host] = index;
	if (!list_insert(arena, &timeline->by_from, index,
					 &timeline->by_from_capacity, index, compare_from,
					 timeline->holds) ||
		!list_insert(arena, &timeline->by_until, index,
					 &timeline->by_until_capacity, index, compare_until,
					 timeline->holds) ||
		!list_insert(arena, &view->order, view->n, &view->order_capacity,
					 index,
					 compare_from, timeline->holds))
		return false;
	timeline->n_holds++;
	place = view->n++;
	while (view->order[place] != index)
		place--;
	DecideAvailabilityShowHold(cycle, host, place);
	DecideHostTouch(cycle, host);
	return true;
}

/*
 * Adds holds for what a claim keeps from all other jobs.  Its free devices are
 * subtracted from what is free already; its other devices follow when they are
 * returned.  Returns false if memory runs out.
 */
static bool
claim_add(Cycle *cycle, int32_t job, int32_t share, const DecidePart *parts,
		  int32_t n)
{
	const DecideInput *input = cycle->input;
	int64_t		limit = DECIDE_NEVER;
	int64_t		until = DECIDE_NEVER;
	int32_t		i;

	if (job >= 0)
	{
		limit = DecideTimeAdd(input->now,
							  input->requests[input->jobs[job].request].wall_limit);
		until = DecideTimeAdd(input->now, DecideJobRun(input, job));
	}
	for (i = 0; i < n; i++)
	{
		Reservation hold = {
			.from = input->now,
			.until = until,
			.limit = limit,
			.limit_until = limit,
			.after = cycle->result->n_starts,
			.host = cycle->timeline->node_host[parts[i].node],
			.share = share,
			.yields = INT32_MIN,
			.part = parts[i]
		};

		if (!DecideTimelineHold(cycle, &hold))
			return false;
	}
	return true;
}

/*
 * Adds the claims of earlier cycles whose jobs have not started.  Returns
 * false if memory runs out.
 */
static bool
claims_load(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	int32_t		i;

	for (i = 0; i < input->n_claims; i++)
	{
		const DecideClaim *claim = &input->claims[i];

		if (claim->job >= 0 && cycle->on_claim[claim->job])
			continue;
		if (!claim_add(cycle, claim->job, claim->share,
					   &input->claim_parts[claim->first_part],
					   claim->n_parts))
			return false;
	}
	return true;
}

/*
 * Adds the claims that this cycle has made since the last call.  Returns false
 * if memory runs out.
 */
static bool
promises_load(Cycle *cycle)
{
	const DecideResult *result = cycle->result;
	Timeline   *timeline = cycle->timeline;

	for (; timeline->n_promises < result->n_promises; timeline->n_promises++)
	{
		const DecidePromise *promise =
		&result->promises[timeline->n_promises];

		if (!claim_add(cycle, promise->job, promise->share,
					   &result->promise_parts[promise->first_part],
					   promise->n_parts))
			return false;
	}
	return true;
}

/*
 * Prepares the timeline for a reservation: adds the claims made so far and, at
 * the first call, all ends.  Returns false if memory runs out.
 */
bool
DecideTimelineOpen(Cycle *cycle, int64_t wall_limit)
{
	const DecideArena *arena = cycle->arena;
	int32_t		n = cycle->n_hosts;
	Timeline   *timeline;
	int32_t		i;

	DecideAssert(wall_limit > 0);
	DecideAssert(!cycle->reserving);
	if (cycle->timeline != NULL)
		return promises_load(cycle);
	timeline = DecideAlloc(arena, 1, sizeof(Timeline));
	if (timeline == NULL)
		return false;
	memset(timeline, 0, sizeof(*timeline));
	timeline->first_end = DecideAlloc(arena, n, sizeof(int32_t));
	timeline->first_hold = DecideAlloc(arena, n, sizeof(int32_t));
	timeline->held = DecideAlloc(arena, n, sizeof(int32_t));
	timeline->node_host = DecideAlloc(arena, n, sizeof(int32_t));
	timeline->truth = DecideAlloc(arena, n, sizeof(Host));
	timeline->future = DecideAlloc(arena, n, sizeof(Host));
	timeline->views = DecideAlloc(arena, n, sizeof(HostView));
	if (timeline->first_end == NULL || timeline->first_hold == NULL ||
		timeline->held == NULL || timeline->node_host == NULL ||
		timeline->truth == NULL || timeline->future == NULL ||
		timeline->views == NULL)
		return false;
	memset(timeline->views, 0, (size_t) n * sizeof(HostView));
	for (i = 0; i < n; i++)
	{
		timeline->first_end[i] = timeline->first_hold[i] = -1;
		timeline->node_host[cycle->hosts[i].node] = i;
	}
	timeline->shown = wall_limit;
	cycle->timeline = timeline;
	return ends_load(cycle) && claims_load(cycle) && promises_load(cycle);
}
