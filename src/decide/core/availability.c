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
 * until each, is computed once and kept until the host changes; a reservation
 * that is added is subtracted from it.  So is what is expected to be free at
 * each moment at which that changes, which searches ask for often.  For a job
 * with another wall limit the value at the last reservation before that limit
 * is read.  Two jobs may use the same if no reservation begins between their
 * limits.
 */

#include <string.h>

#include "decide/core/fit.h"

#define MOST_STATES		65536	/* most moments of all hosts that are kept */

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
 * Copies what is free on a host.
 */
static void
copy_remaining(const Host *host, Remaining *to, const Remaining *from)
{
	size_t		n = (size_t) host->gpus;

	memcpy(to->devices, from->devices, n * sizeof(to->devices[0]));
	memcpy(to->gpu_memory_used, from->gpu_memory_used,
		   n * sizeof(to->gpu_memory_used[0]));
	to->cpu = from->cpu;
	to->memory = from->memory;
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
 * What is expected to be free on a host at a later instant, by its ends and
 * reservations.
 */
static void
expect_free(const Cycle *cycle, int32_t index, int64_t at, Remaining *left)
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
 * The last of a host's moments by an instant.
 */
static int32_t
moment_by(const HostView *view, int64_t at)
{
	int32_t		low = 0;
	int32_t		high = view->n_moments - 1;

	while (low < high)
	{
		int32_t		middle = high - (high - low) / 2;

		if (view->moments[middle].at <= at)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/*
 * Adds an instant to a host's moments, unless it is one of them or comes
 * before the first.  As much is free as before it.  Returns false, and forgets
 * all moments, if memory runs out.
 */
static bool
moment_add(const Cycle *cycle, int32_t index, int64_t at)
{
	HostView   *view = &cycle->timeline->views[index];
	int32_t		n = view->n_moments;
	int32_t		last = moment_by(view, at);
	Moment	   *moments;
	Remaining  *states;

	if (n > 0 && view->moments[last].at >= at)
		return true;
	view->n_moments = 0;
	moments = DecideGrow(cycle->arena, view->moments, n,
						 &view->moments_capacity, sizeof(Moment));
	if (moments == NULL)
		return false;
	view->moments = moments;
	states = DecideGrow(cycle->arena, view->states, n, &view->states_capacity,
						sizeof(Remaining));
	if (states == NULL)
		return false;
	view->states = states;
	view->n_moments = n + 1;
	if (n == 0)
		last = -1;
	else
		copy_remaining(&cycle->hosts[index], &states[n],
					   &states[moments[last].state]);
	memmove(moments + last + 2, moments + last + 1,
			sizeof(Moment) * (size_t) (n - last - 1));
	moments[last + 1] = (Moment){.at = at, .state = n};
	return true;
}

/*
 * Finds what is expected to be free on a host at each of its moments.
 */
static void
moments_load(const Cycle *cycle, int32_t index)
{
	const Timeline *timeline = cycle->timeline;
	HostView   *view = &timeline->views[index];
	bool		done = moment_add(cycle, index, cycle->input->now);
	int32_t		i;

	for (i = timeline->first_end[index]; i >= 0 && done;
		 i = timeline->ends[i].next)
		done = moment_add(cycle, index, timeline->ends[i].at);
	for (i = timeline->first_hold[index]; i >= 0 && done;
		 i = timeline->holds[i].next)
		done = moment_add(cycle, index, timeline->holds[i].from) &&
			moment_add(cycle, index, timeline->holds[i].until);
	for (i = 0; i < view->n_moments; i++)
		expect_free(cycle, index, view->moments[i].at,
					&view->states[view->moments[i].state]);
}

/*
 * Subtracts a host's newest reservation from what is expected to be free.
 */
static void
moments_reserve(const Cycle *cycle, int32_t index, const Reservation *added)
{
	HostView   *view = &cycle->timeline->views[index];
	int32_t		i;

	if (view->n_moments == 0 || !moment_add(cycle, index, added->from) ||
		!moment_add(cycle, index, added->until))
		return;
	for (i = moment_by(view, added->from);
		 i < view->n_moments && view->moments[i].at < added->until; i++)
		adjust_remaining(&cycle->hosts[index],
						 &view->states[view->moments[i].state], &added->part,
						 added->share, -1);
}

/*
 * Whether it pays to examine all moments of a host: it was asked about as
 * often as it has moments, and there is memory left for them.
 */
static bool
moments_pay(const Cycle *cycle, int32_t index)
{
	Timeline   *timeline = cycle->timeline;
	HostView   *view = &timeline->views[index];
	int32_t		most = 1 + 2 * view->n;
	int32_t		i;

	if (view->n == 0 || ++view->asked <= most)
		return false;
	for (i = timeline->first_end[index]; i >= 0; i = timeline->ends[i].next)
		most++;
	if (view->asked <= most || most > MOST_STATES - timeline->n_states)
		return false;
	if (most > view->states_capacity)
		timeline->n_states += most;
	return true;
}

/*
 * What is expected to be free on a host at a later instant.
 */
static void
free_at(const Cycle *cycle, int32_t index, int64_t at, Remaining *left)
{
	const HostView *view = &cycle->timeline->views[index];

	if (view->n_moments == 0 && moments_pay(cycle, index))
		moments_load(cycle, index);
	if (view->n_moments == 0)
		expect_free(cycle, index, at, left);
	else
		copy_remaining(&cycle->hosts[index], left,
					   &view->states[view->moments[moment_by(view, at)].state]);
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
 * Computes the least that is free until each reservation of a host, from one
 * of its reservations on.
 */
static void
view_least(const Cycle *cycle, int32_t index, int32_t first)
{
	const Host *host = DecideAvailabilityNow(cycle, index);
	HostView   *view = &cycle->timeline->views[index];
	int32_t		i;

	for (i = first; i < view->n; i++)
	{
		RemainingAt *beside = &view->besides[i];

		if (i == 0)
			free_now(host, &beside->least);
		else
			copy_remaining(host, &beside->least, &view->besides[i - 1].least);
		if (beside->from > cycle->input->now)
			free_minimum(host, &beside->least, &beside->left);
	}
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
	int32_t		i;

	if (view->fresh)
		return view;
	for (i = 0; i < view->n; i++)
	{
		view->besides[i].from = timeline->holds[view->order[i]].from;
		free_beside(cycle, index, view->order[i], &view->besides[i].left);
	}
	view_least(cycle, index, 0);
	view->fresh = true;
	return view;
}

/*
 * Adds a host's newest reservation to its view.  It counts beside those that
 * were made before and begin later, and is subtracted from what is free there:
 * reservations only take, so their order does not matter.
 */
static void
view_add(const Cycle *cycle, int32_t index, int32_t place)
{
	const Timeline *timeline = cycle->timeline;
	HostView   *view = &timeline->views[index];
	const Host *host = DecideAvailabilityNow(cycle, index);
	const Reservation *added = &timeline->holds[view->order[place]];
	int32_t		i;

	memmove(view->besides + place + 1, view->besides + place,
			sizeof(RemainingAt) * (size_t) (view->n - 1 - place));
	view->besides[place].from = added->from;
	free_beside(cycle, index, view->order[place], &view->besides[place].left);
	for (i = place + 1; i < view->n; i++)
	{
		const Reservation *mine = &timeline->holds[view->order[i]];

		if (added->from >= mine->from || added->limit <= mine->from)
			continue;
		adjust_remaining(host, &view->besides[i].left, &added->part,
						 added->share, -1);
		free_if_unused(host, mine, &view->besides[i].left);
	}
	view_least(cycle, index, place);
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
	HostView   *view = &cycle->timeline->views[index];

	view->fresh = false;
	view->n_moments = view->asked = 0;
	show_host(cycle, index);
}

/*
 * Does the same after the host's newest reservation was made, which is at this
 * place in the order of its reservations.
 */
void
DecideAvailabilityShowHold(Cycle *cycle, int32_t index, int32_t place)
{
	const Timeline *timeline = cycle->timeline;
	const HostView *view = &timeline->views[index];

	DecideAssert(place >= 0 && place < view->n);
	if (view->fresh)
		view_add(cycle, index, place);
	moments_reserve(cycle, index, &timeline->holds[view->order[place]]);
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
