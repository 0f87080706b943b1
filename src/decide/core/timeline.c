/*
 * timeline.c
 *	  What will be given back, and what is promised.
 *
 * Ends are what runs, and what the cycle started: parts of hosts, when they are
 * expected to be free again, and at the latest.  Holds are the parts of
 * reservations, and of claims, which keep what they have from now on.
 */
#include <string.h>

#include "decide/core/core.h"

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
 * Put an item behind those of a sorted list that are not after it.  False: out
 * of memory.
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
 * Put the latest end in its place in order of time.  False: out of memory.
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
 * Note a part of a start about to be taken.  False: out of memory.
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
 * Note all ends there are so far.  False: out of memory.
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

		/* what should be over by now is not: at any moment, then */
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
 * Show a held host as the job whose turn it is sees it.
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
 * Promise part of a host.  False: out of memory.
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
	DecideHostTouch(cycle, host);
	return true;
}

/*
 * Note what a claim keeps from all others: what is free of it now is taken
 * already, the rest is when its devices are given back.  False: out of memory.
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
 * Get ready for reservations, once a cycle.  False: out of memory.
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
		return true;
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
	return ends_load(cycle) && claims_load(cycle);
}

/*
 * Note the claims made since the last call.  False: out of memory.
 */
bool
DecideTimelineClaims(Cycle *cycle)
{
	const DecideResult *result = cycle->result;
	Timeline   *timeline = cycle->timeline;

	DecideAssert(cycle->timeline != NULL);
	DecideAssert(cycle->timeline->n_promises <= cycle->result->n_promises);
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
 * What a job sees of a host: what is free there for as long as it may stay.
 *
 * A job sees a host as of an instant and until its wall limit has passed: the
 * least that the host has left at that instant and at the start of each hold
 * it would live to see.
 *
 * At the start of a hold, what the hold was made over counts as expected.
 * What came later counts by its limit: it was let in on the condition that the
 * hold is none the worse for it.  A later hold that starts at the same instant
 * does not count, as it has its turn after this one.
 *
 * Only hosts with holds look different to different jobs.  They are shown, in
 * cycle->hosts, as the job whose turn it is sees them; what is really free
 * there is kept apart.  So placement knows nothing of holds.
 *
 * What is left beside each hold of a host, and the least of it up to each, is
 * worked out once and kept until the host changes: what a job of another limit
 * sees is then found by looking for the last hold it lives to see.  Jobs
 * between whose limits no hold starts see the same.
 */

/*
 * Give back part of a host, or with a negative sign take it.
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
 * All that is free on a host now, as far below 0 as it was given to us.
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
 * What a host has left at a later instant, as expected.
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
 * A hold is none the worse for who has what it has no part of.
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
 * What a host has left when a hold starts, beside it.
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
 * How many of a host's holds start at an instant or before.
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
 * Work out what is left beside each hold of a host, if it changed since.
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
 * What a host has for a job that starts at an instant and may stay for so
 * long.
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
 * The devices of a host that are reserved too early for the job whose turn it
 * is.  Where they are sought for what is due to it, reservations that yield to
 * that keep none from it.
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
 * How many holds of all hosts a job that starts now and may stay for so long
 * lives to see.
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
 * Do jobs of two wall limits see the same?
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
 * Show the held hosts as a job with this wall limit sees them.
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
 * Take what a start uses off a host.
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
	DecideHostTouch(cycle, index);
}
