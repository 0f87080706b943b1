/*
 * availability.c
 *	  What a job sees of a host: what is free there for as long as it may stay.
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
#include "decide/timeline.h"

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
 * The host with all that is free on it now.
 */
const Host *
DecideAvailabilityNow(const Cycle *cycle, int32_t index)
{
	const Timeline *timeline = cycle->timeline;

	return timeline != NULL && timeline->first_hold[index] >= 0 ?
		&timeline->truth[index] : &cycle->hosts[index];
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
	int32_t		rank = DecideClaimPasses(cycle);
	uint64_t	kept = 0;
	int64_t		last;
	int32_t		i;

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
void
DecideAvailabilityShowHost(Cycle *cycle, int32_t index)
{
	cycle->timeline->views[index].fresh = false;
	host_show(cycle, index);
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

	if (timeline == NULL)
		return;
	alike = DecideAvailabilityAlike(cycle, timeline->shown, wall_limit);
	timeline->shown = wall_limit;
	for (i = 0; i < timeline->n_held && !alike; i++)
		host_show(cycle, timeline->held[i]);
}
