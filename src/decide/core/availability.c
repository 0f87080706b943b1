/*
 * availability.c
 *	  What a job may use of a host: what is free for as long as the job
 *	  may run.
 *
 * A job may use of a host what is free from the job's start until its wall
 * limit has passed: the least that is free at its start and at the beginning
 * of each reservation before its limit.  Reservations here include claims.
 *
 * What is free at the beginning of a reservation is computed so: everything
 * that was decided before the reservation ends as expected.  What was decided
 * later ends at its wall limit, because it was allowed to start only on that
 * condition.  A reservation that was made later and begins at the same instant
 * does not count, because its turn comes later.
 *
 * Only hosts with reservations look different to different jobs.  cycle->hosts
 * shows what the job whose turn it is may use of them; truth keeps what is
 * really free.  So the code that places jobs need not know of reservations.
 *
 * What is free beside each reservation of a host, and the least that is free
 * until each, is computed once and kept until the host changes.  For a job
 * with another wall limit the value at the last reservation before that limit
 * is read.  Two jobs may use the same if no reservation begins between their
 * limits.
 */

#include "decide/core/fit.h"

/*
 * Adds what a part uses to what is free on its host (sign 1), or subtracts it
 * (sign -1).
 */
static void
adjust_remaining(const Host *host, Remaining *left, const DecidePart *part,
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
 * Reduces left to the lesser of left and other, for each resource of a host.
 */
static void
free_minimum(const Host *host, Remaining *left, const Remaining *other)
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
 * All that is free on a host now; cpu and memory are negative if the node has
 * allocated more than its capacity.
 */
static void
free_now(const Host *host, Remaining *left)
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
 * What is expected to be free on a host at a later instant.
 */
static void
free_at(const Cycle *cycle, int32_t index, int64_t at, Remaining *left)
{
	const Timeline *timeline = cycle->timeline;
	const Host *host = DecideAvailabilityNow(cycle, index);
	int32_t		i;

	free_now(host, left);
	for (i = timeline->first_end[index]; i >= 0; i = timeline->ends[i].next)
	{
		const End  *end = &timeline->ends[i];

		if (end->at <= at)
			adjust_remaining(host, left, &end->part, end->share, 1);
	}
	for (i = timeline->first_hold[index]; i >= 0;
		 i = timeline->holds[i].next)
	{
		const Reservation *hold = &timeline->holds[i];

		if (hold->from <= at && hold->until > at)
			adjust_remaining(host, left, &hold->part, hold->share, -1);
	}
}

/*
 * Sets to the maximum what a reservation does not use: the job that may run
 * beside it does not compete with it there.
 */
static void
free_if_unused(const Host *host, const Reservation *hold, Remaining *left)
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
 * What is free on a host beside a reservation, at the time at which the
 * reservation begins.
 */
static void
free_beside(const Cycle *cycle, int32_t index, int32_t beside, Remaining *left)
{
	const Timeline *timeline = cycle->timeline;
	const Reservation *mine = &timeline->holds[beside];
	const Host *host = DecideAvailabilityNow(cycle, index);
	int32_t		i;

	free_now(host, left);
	for (i = timeline->first_end[index]; i >= 0; i = timeline->ends[i].next)
	{
		const End  *end = &timeline->ends[i];

		if ((end->start >= mine->after ? end->limit : end->at) <= mine->from)
			adjust_remaining(host, left, &end->part, end->share, 1);
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
			adjust_remaining(host, left, &hold->part, hold->share, -1);
	}
	free_if_unused(host, mine, left);
}

/*
 * The number of a host's reservations that begin by an instant.
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
 * Returns the view of a host.  What is free beside each of its reservations is
 * computed again if the host has changed.
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
	free_now(host, &least);
	for (i = 0; i < view->n; i++)
	{
		RemainingAt *beside = &view->besides[i];

		beside->from = timeline->holds[view->order[i]].from;
		free_beside(cycle, index, view->order[i], &beside->left);
		if (beside->from > cycle->input->now)
			free_minimum(host, &least, &beside->left);
		beside->least = least;
	}
	view->fresh = true;
	return view;
}

/*
 * Computes what a job may use of a host if it starts at an instant and may run
 * for wall_limit.
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
			free_now(host, &least);
		else
			free_at(cycle, index, at, &least);
		while (n > 0 && view->besides[n - 1].from > at)
			free_minimum(host, &least, &view->besides[--n].left);
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
 * The devices of a host that the job whose turn it is may not use, because
 * reservations for them begin too early.  A search for an entitlement ignores
 * reservations that yield to its rank.
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
 * The number of reservations, on all hosts, that begin before the wall limit
 * of a job that starts now has passed.
 */
static int32_t
count_holds_before_limit(const Cycle *cycle, int64_t wall_limit)
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
 * Whether jobs with these two wall limits may use the same of all hosts.
 */
bool
DecideAvailabilityAlike(const Cycle *cycle, int64_t a, int64_t b)
{
	DecideAssert(a >= 0);
	DecideAssert(b >= 0);
	return a == b || cycle->timeline == NULL ||
		count_holds_before_limit(cycle, a) == count_holds_before_limit(cycle, b);
}

/*
 * Moves a host to the head of the list of changed hosts.
 */
void
DecideHostTouch(Cycle *cycle, int32_t index)
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
 * Shows in cycle->hosts what the job whose turn it is may use of a host with
 * reservations.
 */
static void
show_host(Cycle *cycle, int32_t index)
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
 * Does the same after the host has changed, and discards its view.
 */
void
DecideAvailabilityShowHost(Cycle *cycle, int32_t index)
{
	cycle->timeline->views[index].fresh = false;
	show_host(cycle, index);
}

/*
 * Shows in cycle->hosts what jobs with this wall limit may use of all hosts
 * with reservations.
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
		show_host(cycle, timeline->held[i]);
}

/*
 * Subtracts a part that is allocated to a job from what is free on its host.
 */
void
DecideHostAllocate(Cycle *cycle, int32_t index, const DecidePart *part,
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
		DecideAvailabilityShowHost(cycle, index);
	DecideHostTouch(cycle, index);
}
