/*
 * timeline.c
 *	  Future ends, and what is reserved.
 *
 * An end is a part of a running job or of a start of this cycle, with its
 * expected and its latest end.  A hold is a part of a reservation, or of a
 * claim, which keeps its devices from now on.
 */
#include <string.h>

#include "decide/core/fit.h"

/*
 * Compare two ends by time.
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
 * Note the end of a part.  False: out of memory.
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
 * Insert an item into a sorted list, after its equals.  False: out of memory.
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
 * Put the latest end into the order of time.  False: out of memory.
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
 * Note the end of a part of a start of this cycle.  False: out of memory.
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
 * Note a part of a start before its host loses it.  False: out of memory.
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
 * Note all ends so far.  False: out of memory.
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

		/* late: it may end at any moment */
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
 * Compare two holds by when they start.
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
 * Compare two holds by when they are expected to be over.
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
 * Move a host to the head of the list of changed ones.
 */
static void
host_touch(Cycle *cycle, int32_t index)
{
	Host	   *host = &cycle->hosts[index];

	host->changed = ++cycle->changes;
	if (cycle->latest == index)
		return;
	if (host->newer >= 0)
		cycle->hosts[host->newer].older = host->older;
	if (host->older >= 0)
		cycle->hosts[host->older].newer = host->newer;
	host->newer = -1;
	host->older = cycle->latest;
	if (cycle->latest >= 0)
		cycle->hosts[cycle->latest].newer = index;
	cycle->latest = index;
}

/*
 * Show a held host as the job at its turn sees it.
 */
static void
host_show(Cycle *cycle, int32_t index)
{
	Host	   *host = &cycle->hosts[index];
	Host		seen;

	DecideAvailabilityAt(cycle, index, cycle->input->now,
						 cycle->timeline->shown, &seen);
	seen.changed = host->changed;
	seen.newer = host->newer;
	seen.older = host->older;
	*host = seen;
}

/*
 * A held host changed: show it again.
 */
static void
availability_show_host(Cycle *cycle, int32_t index)
{
	cycle->timeline->views[index].fresh = false;
	host_show(cycle, index);
}

/*
 * Reserve part of a host.  False: out of memory.
 */
bool
DecideTimelineHold(Cycle *cycle, const Reservation *hold)
{
	Timeline   *timeline = cycle->timeline;
	const DecideArena *arena = cycle->arena;
	int32_t		index = timeline->n_holds;
	int32_t		host = hold->host;
	HostView   *view = &timeline->views[host];

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
	view->n++;
	availability_show_host(cycle, host);
	host_touch(cycle, host);
	return true;
}

/*
 * Note what a claim keeps from all others.  Its free devices are taken
 * already; the rest is taken when it comes back.  False: out of memory.
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
 * Note the claims of earlier cycles whose jobs have not started.  False: out
 * of memory.
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
 * Note the claims made since the last call.  False: out of memory.
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
 * Get ready for a reservation: note the claims made so far and, the first time,
 * all ends.  False: out of memory.
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

/*
 * What a job sees of a host: what is free there for as long as it may stay.
 *
 * A job sees a host from an instant until its wall limit has passed: the
 * least that the host has left at that instant and at the start of each hold
 * before its limit.
 *
 * At the start of a hold, everything decided before the hold ends as
 * expected.  Later decisions end at their limits, as they were let in only on
 * that condition.  A later hold that starts at the same instant does not
 * count: its turn comes after this one.
 *
 * Only hosts with holds look different to different jobs.  cycle->hosts shows
 * them as the job at its turn sees them; truth keeps what is really free.  So
 * placement knows nothing of holds.
 *
 * What is left beside each hold of a host, and the least up to each, is
 * computed once and kept until the host changes.  For a job with another
 * limit it is looked up at the last hold before that limit.  Jobs see the
 * same if no hold starts between their limits.
 */

/*
 * Give back part of a host, or take it (sign -1).
 */
static void
left_give(const Host *host, Remaining *left, const DecidePart *part,
		  int32_t share,
		  int sign)
{
	uint64_t	rest;

	for (rest = part->devices; rest != 0; rest &= rest - 1)
	{
		int			i = __builtin_ctzll(rest);
		int32_t		amount = left->devices[i] + sign * share;

		left->devices[i] = (uint16_t) (amount < 0 ? 0 :
									   amount > DECIDE_WHOLE ? DECIDE_WHOLE :
									   amount);
		left->gpu_memory_used[i] -= sign * part->gpu_memory_mib;
	}
	if (host->cpu_milli > 0)
		left->cpu += sign * part->cpu_milli;
	if (host->memory_mib > 0)
		left->memory += sign * part->memory_mib;
}

/*
 * The lesser of what is left on a host at two times.
 */
static void
left_lesser(const Host *host, Remaining *left, const Remaining *other)
{
	int			d;

	for (d = 0; d < host->gpus; d++)
	{
		if (other->devices[d] < left->devices[d])
			left->devices[d] = other->devices[d];
		if (other->gpu_memory_used[d] > left->gpu_memory_used[d])
			left->gpu_memory_used[d] = other->gpu_memory_used[d];
	}
	if (other->cpu < left->cpu)
		left->cpu = other->cpu;
	if (other->memory < left->memory)
		left->memory = other->memory;
}

/*
 * All that is free on a host now; below 0 if the node gave more than it has.
 */
static void
left_now(const Host *host, Remaining *left)
{
	int			d;

	for (d = 0; d < host->gpus; d++)
	{
		left->devices[d] = host->left[d];
		left->gpu_memory_used[d] = host->gpu_memory_used[d];
	}
	left->cpu = host->cpu_left - host->cpu_over;
	left->memory = host->memory_left - host->memory_over;
}

/*
 * What a host is expected to have left at a later instant.
 */
static void
left_at(const Cycle *cycle, int32_t index, int64_t at, Remaining *left)
{
	const Timeline *timeline = cycle->timeline;
	const Host *host = DecideAvailabilityNow(cycle, index);
	int32_t		i;

	left_now(host, left);
	for (i = timeline->first_end[index]; i >= 0; i = timeline->ends[i].next)
	{
		const End  *end = &timeline->ends[i];

		if (end->at <= at)
			left_give(host, left, &end->part, end->share, 1);
	}
	for (i = timeline->first_hold[index]; i >= 0;
		 i = timeline->holds[i].next)
	{
		const Reservation *hold = &timeline->holds[i];

		if (hold->from <= at && hold->until > at)
			left_give(host, left, &hold->part, hold->share, -1);
	}
}

/*
 * Ignore what a hold does not use: others may have it.
 */
static void
left_unasked(const Host *host, const Reservation *hold, Remaining *left)
{
	int			d;

	for (d = 0; d < host->gpus; d++)
	{
		if (((hold->part.devices >> d) & 1) == 0)
		{
			left->devices[d] = DECIDE_WHOLE;
			left->gpu_memory_used[d] = 0;
		}
	}
	if (hold->part.cpu_milli == 0)
		left->cpu = INT64_MAX;
	if (hold->part.memory_mib == 0)
		left->memory = INT64_MAX;
}

/*
 * What a host has left beside a hold when that starts.
 */
static void
left_beside(const Cycle *cycle, int32_t index, int32_t beside, Remaining *left)
{
	const Timeline *timeline = cycle->timeline;
	const Reservation *mine = &timeline->holds[beside];
	const Host *host = DecideAvailabilityNow(cycle, index);
	int32_t		i;

	left_now(host, left);
	for (i = timeline->first_end[index]; i >= 0; i = timeline->ends[i].next)
	{
		const End  *end = &timeline->ends[i];

		if ((end->start >= mine->after ? end->limit : end->at) <= mine->from)
			left_give(host, left, &end->part, end->share, 1);
	}
	for (i = timeline->first_hold[index]; i >= 0;
		 i = timeline->holds[i].next)
	{
		const Reservation *hold = &timeline->holds[i];

		if (i == beside ||
			(i < beside && hold->from <= mine->from &&
			 hold->until > mine->from) ||
			(i > beside && hold->from < mine->from &&
			 hold->limit > mine->from))
			left_give(host, left, &hold->part, hold->share, -1);
	}
	left_unasked(host, mine, left);
}

/*
 * How many of a host's holds start by an instant.
 */
static int32_t
besides_until(const HostView *view, int64_t at)
{
	int32_t		low = 0;
	int32_t		high = view->n;

	while (low < high)
	{
		int32_t		middle = low + (high - low) / 2;

		if (view->besides[middle].from <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Compute what is left beside each hold of a host, if the host changed since.
 */
static const HostView *
view_of(const Cycle *cycle, int32_t index)
{
	const Timeline *timeline = cycle->timeline;
	HostView   *view = &timeline->views[index];
	const Host *host = DecideAvailabilityNow(cycle, index);
	Remaining	least;
	int32_t		i;

	if (view->fresh)
		return view;
	left_now(host, &least);
	for (i = 0; i < view->n; i++)
	{
		RemainingAt *beside = &view->besides[i];

		beside->from = timeline->holds[view->order[i]].from;
		left_beside(cycle, index, view->order[i], &beside->left);
		if (beside->from > cycle->input->now)
			left_lesser(host, &least, &beside->left);
		beside->least = least;
	}
	view->fresh = true;
	return view;
}

/*
 * What a host has for a job that starts at an instant and may stay for
 * wall_limit.
 */
void
DecideAvailabilityAt(const Cycle *cycle, int32_t index, int64_t at,
					 int64_t wall_limit, Host *seen)
{
	const Host *host = DecideAvailabilityNow(cycle, index);
	const HostView *view = view_of(cycle, index);
	int64_t		last = DecideTimeAdd(at, wall_limit) - 1;
	int32_t		n = besides_until(view, last);
	const Remaining *left;
	Remaining	least;
	int			d;

	DecideAssert(index >= 0 && index < cycle->n_hosts);
	DecideAssert(at >= cycle->input->now);
	DecideAssert(cycle->timeline != NULL && wall_limit > 0);
	if (at == cycle->input->now && n > 0)
		left = &view->besides[n - 1].least;
	else
	{
		if (at == cycle->input->now)
			left_now(host, &least);
		else
			left_at(cycle, index, at, &least);
		while (n > 0 && view->besides[n - 1].from > at)
			left_lesser(host, &least, &view->besides[--n].left);
		left = &least;
	}
	*seen = *host;
	for (d = 0; d < host->gpus; d++)
	{
		seen->left[d] = left->devices[d];
		seen->gpu_memory_used[d] = left->gpu_memory_used[d];
	}
	seen->cpu_left = seen->cpu_over = 0;
	seen->memory_left = seen->memory_over = 0;
	DecideHostAddCapacity(seen, left->cpu, left->memory);
	DecideHostDerive(seen);
}

/*
 * The devices of a host whose reservations start too early for the job at its
 * turn.  A search for an entitlement passes reservations that yield to it.
 */
uint64_t
DecideAvailabilityReserved(const Cycle *cycle, int32_t host)
{
	const Timeline *timeline = cycle->timeline;
	int32_t		rank = cycle->passes;
	uint64_t	kept = 0;
	int64_t		last;
	int32_t		i;

	DecideAssert(host >= 0 && host < cycle->n_hosts);
	DecideAssert(cycle->claims != NULL);
	if (timeline == NULL)
		return 0;
	last = DecideTimeAdd(cycle->input->now, timeline->shown);
	for (i = timeline->first_hold[host]; i >= 0; i = timeline->holds[i].next)
	{
		const Reservation *hold = &timeline->holds[i];

		if (hold->from > cycle->input->now && hold->from < last &&
			hold->yields < rank)
			kept |= hold->part.devices;
	}
	return kept;
}

/*
 * How many holds of all hosts start before the limit of a job that starts
 * now.
 */
static int32_t
holds_seen(const Cycle *cycle, int64_t wall_limit)
{
	const Timeline *timeline = cycle->timeline;
	int64_t		last = DecideTimeAdd(cycle->input->now, wall_limit);
	int32_t		low = 0;
	int32_t		high = timeline->n_holds;

	while (low < high)
	{
		int32_t		middle = low + (high - low) / 2;

		if (timeline->holds[timeline->by_from[middle]].from < last)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Do jobs with these two wall limits see the same?
 */
bool
DecideAvailabilityAlike(const Cycle *cycle, int64_t a, int64_t b)
{
	DecideAssert(a >= 0);
	DecideAssert(b >= 0);
	return a == b || cycle->timeline == NULL ||
		holds_seen(cycle, a) == holds_seen(cycle, b);
}

/*
 * Show the held hosts as jobs with this wall limit see them.
 */
void
DecideAvailabilityShow(Cycle *cycle, int64_t wall_limit)
{
	Timeline   *timeline = cycle->timeline;
	bool		alike;
	int32_t		i;

	DecideAssert(wall_limit > 0);
	DecideAssert(!cycle->reserving);
	if (timeline == NULL)
		return;
	alike = DecideAvailabilityAlike(cycle, timeline->shown, wall_limit);
	timeline->shown = wall_limit;
	for (i = 0; i < timeline->n_held && !alike; i++)
		host_show(cycle, timeline->held[i]);
}

/*
 * Take a part off a host.
 */
void
DecideHostTake(Cycle *cycle, int32_t index, const DecidePart *part,
			   int32_t share)
{
	Host	   *host = DecideHostTruth(cycle, index);
	uint64_t	rest;

	DecideAssert(index >= 0 && index < cycle->n_hosts);
	DecideAssert(share >= 0 && share <= DECIDE_WHOLE);
	DecideAssert((part->devices & ~cycle->hosts[index].usable) == 0);
	for (rest = part->devices; rest != 0; rest &= rest - 1)
	{
		int			i = __builtin_ctzll(rest);

		if ((host->free >> i) & 1)
			host->n_free--;
		host->left[i] = (uint16_t) (host->left[i] - share);
		host->gpu_memory_used[i] += part->gpu_memory_mib;
		host->free &= ~(UINT64_C(1) << i);
		if (host->left[i] > 0)
			host->partial |= UINT64_C(1) << i;
		else
			host->partial &= ~(UINT64_C(1) << i);
	}
	if (host->cpu_milli > 0)
		host->cpu_left -= part->cpu_milli;
	if (host->memory_mib > 0)
		host->memory_left -= part->memory_mib;
	host->n_usable = DecideFitUsable(host, host->n_free, host->cpu_left,
									 host->memory_left);
	if (host != &cycle->hosts[index])
		availability_show_host(cycle, index);
	host_touch(cycle, index);
}
