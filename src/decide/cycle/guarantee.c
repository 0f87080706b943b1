/*
 * guarantee.c
 *	  Waiting jobs are guaranteed a latest start, and cycles keep it.
 *
 * Reservations of one cycle do not get in each other's way, whatever runs to
 * its limit.  So each job with a reservation can be guaranteed that it starts
 * by then.  What may break that in a later cycle is that jobs come before it
 * in the queue which were not there before, that fair shares change, or that
 * a job ahead of it gets devices earlier which it would have had.
 *
 * A round first decides in the order of the queue alone.  If a guarantee does
 * not hold then, it decides again, and the reservations of the jobs concerned
 * are due: they are made again on the same devices before the jobs that an aged
 * job of their tier would go before.  If that breaks other guarantees, these
 * are due as well; the last time all are.  Then all hold, as the due
 * reservations are made in the order in which they begin: whatever had these
 * devices before is over by its limit, and whatever starts now on them is over
 * before.
 *
 * Jobs of more important tiers than those have their turns before, and may
 * break a guarantee: as installed, jobs of a tier that may preempt it.  Nothing
 * is kept idle from them for a job that they could evict once it runs.
 */
#include <string.h>

#include "decide/cycle/cycle.h"
#include "decide/order/order.h"

#define MOST_TRIES	4			/* in the last one all reservations are due,
								 * in the one before those without a claim */

/* What a result does with each job. */
typedef struct Outcomes
{
	bool	   *served;			/* it starts, or has a claim */
	bool	   *claims;			/* it has a claim */
	const DecideReservation **reserved;
} Outcomes;

/*
 * Find out what a round's result does with each job.  False: out of memory.
 */
static bool
outcomes_find(const DecideInput *input, const DecideResult *result,
			  const DecideArena *arena, Outcomes *outcomes)
{
	int32_t		n = input->n_jobs;
	int32_t		i;

	outcomes->served = DecideAlloc(arena, n, sizeof(bool));
	outcomes->claims = DecideAlloc(arena, n, sizeof(bool));
	outcomes->reserved = DecideAlloc(arena, n, sizeof(DecideReservation *));
	if (outcomes->served == NULL || outcomes->claims == NULL ||
		outcomes->reserved == NULL)
		return false;
	memset(outcomes->claims, 0, (size_t) n * sizeof(bool));
	memset(outcomes->reserved, 0, (size_t) n * sizeof(DecideReservation *));
	for (i = 0; i < input->n_claims; i++)
	{
		if (input->claims[i].job >= 0)
			outcomes->claims[input->claims[i].job] = true;
	}
	for (i = 0; i < result->n_promises; i++)
	{
		if (result->promises[i].job >= 0)
			outcomes->claims[result->promises[i].job] = true;
	}
	memcpy(outcomes->served, outcomes->claims, (size_t) n * sizeof(bool));
	for (i = 0; i < result->n_starts; i++)
		outcomes->served[result->starts[i].job] = true;
	for (i = 0; i < result->n_reservations; i++)
		outcomes->reserved[result->reservations[i].job] =
			&result->reservations[i];
	return true;
}

/*
 * Whether two parts use the same devices, or one of them shares the other's
 * node by its cpu or memory.
 */
static bool
parts_meet(const DecidePart *a, const DecidePart *b)
{
	return a->node == b->node &&
		((a->devices & b->devices) != 0 || a->devices == 0 ||
		 b->devices == 0);
}

/*
 * Whether any of some parts meets a part of a previous reservation.
 */
static bool
meets(const DecideInput *input, const DecidePreviousReservation *previous,
	  const DecidePart *parts, int32_t n)
{
	int32_t		i;
	int32_t		p;

	for (i = 0; i < n; i++)
	{
		for (p = 0; p < previous->n_parts; p++)
		{
			if (parts_meet(&parts[i], &input->previous_parts
						   [previous->first_part + p]))
				return true;
		}
	}
	return false;
}

/*
 * Whether a job has no reservation because a running job is moving onto its
 * devices: until that has started there, nobody knows when it is over.
 * A later cycle reserves them again.  If such a guarantee were due, a tenant
 * could keep all devices: its next job would be in the way of whoever is
 * entitled to some.
 */
static bool
is_behind_move(const DecideInput *input, const DecideResult *result,
			   const Outcomes *outcomes,
			   const DecidePreviousReservation *previous)
{
	int32_t		i;

	/* the later half of what a guarantee leaves is to make it due in time */
	if (outcomes->reserved[previous->job] != NULL ||
		previous->latest <= DecideTimeAdd(input->now,
										  DECIDE_GUARANTEE_SLACK / 2))
		return false;
	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *promise = &result->promises[i];

		if (promise->job < 0 &&
			meets(input, previous, &result->promise_parts[promise->first_part],
				  promise->n_parts))
			return true;
	}
	for (i = 0; i < input->n_claims; i++)
	{
		const DecideClaim *claim = &input->claims[i];

		if (claim->job < 0 && claim->running &&
			meets(input, previous, &input->claim_parts[claim->first_part],
				  claim->n_parts))
			return true;
	}
	return false;
}

/*
 * Whether a result keeps what a job was guaranteed.
 */
static bool
is_kept(const DecideInput *input, const DecideResult *result,
		const Outcomes *outcomes, const DecidePreviousReservation *previous)
{
	const DecideReservation *r = outcomes->reserved[previous->job];

	return previous->latest == 0 || outcomes->served[previous->job] ||
		(r != NULL && r->limit_at <= previous->latest) ||
		is_behind_move(input, result, outcomes, previous);
}

/*
 * Whether a job had no turn, as max_starts was reached.  A later cycle goes on,
 * and its guarantee holds meanwhile.
 */
static bool
is_put_off(const DecideInput *input, const DecideResult *result,
		   const Outcomes *outcomes, const DecidePreviousReservation *previous)
{
	return result->n_starts >= input->max_starts &&
		outcomes->reserved[previous->job] == NULL &&
		previous->latest > input->now;
}

/*
 * Mark as due the reservations whose guarantees a result does not keep, or
 * all that have one: in the last tries, and where many jobs start, so that what
 * had no turn is not given away.  *again: some became due.  False: out of
 * memory.
 */
bool
DecideGuaranteesDue(const DecideInput *input, const DecideResult *result,
					const DecideArena *arena, int32_t tries,
					DecideInput *next, bool *again)
{
	DecidePreviousReservation *previous;
	Outcomes	outcomes;
	bool		all = tries >= MOST_TRIES - 2 ||
		result->n_starts >= input->max_starts;
	int32_t		broken = 0;
	int32_t		i;

	*again = false;
	for (i = 0; i < input->n_previous && input->previous[i].latest == 0; i++)
		;
	if (i == input->n_previous || tries >= MOST_TRIES)
		return true;
	if (!outcomes_find(input, result, arena, &outcomes))
		return false;
	/* one that is due already is broken by what goes before it */
	for (i = 0; i < input->n_previous; i++)
		broken += !next->previous[i].due &&
			!is_kept(input, result, &outcomes, &input->previous[i]);
	if (broken == 0)
		return true;
	previous = DecideAlloc(arena, input->n_previous,
						   sizeof(DecidePreviousReservation));
	if (previous == NULL)
		return false;
	memcpy(previous, next->previous,
		   (size_t) input->n_previous * sizeof(DecidePreviousReservation));
	for (i = 0; i < input->n_previous; i++)
	{
		if (previous[i].due || previous[i].latest == 0 ||
			((!all || (outcomes.claims[previous[i].job] &&
					   tries < MOST_TRIES - 1)) &&
			 is_kept(input, result, &outcomes, &previous[i])))
			continue;
		previous[i].due = true;
		*again = true;
	}
	next->previous = previous;
	return true;
}

/*
 * Remove the guarantees that a result does not keep from the input.  *over
 * becomes false if there are any.  False: out of memory.
 */
bool
DecideGuaranteesDrop(DecideInput *input, const DecideResult *result,
					 const DecideArena *arena, bool *over)
{
	DecidePreviousReservation *previous;
	Outcomes	outcomes;
	int32_t		i;

	for (i = 0; i < input->n_previous && input->previous[i].latest == 0; i++)
		;
	if (i == input->n_previous)
		return true;
	previous = DecideAlloc(arena, input->n_previous,
						   sizeof(DecidePreviousReservation));
	if (previous == NULL || !outcomes_find(input, result, arena, &outcomes))
		return false;
	memcpy(previous, input->previous,
		   (size_t) input->n_previous * sizeof(DecidePreviousReservation));
	for (i = 0; i < input->n_previous; i++)
	{
		if (is_kept(input, result, &outcomes, &previous[i]))
			continue;
		previous[i].latest = 0;
		*over = false;
	}
	input->previous = previous;
	return true;
}

/*
 * The tier of a job that goes before this rank and has, or will have, devices
 * of a previous reservation by this decision; -1: there is none.
 */
static int32_t
tier_before(const DecideInput *input, const DecideResult *result,
			int32_t rank, const DecidePreviousReservation *previous)
{
	int32_t		i;

	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];
		int32_t		tier = input->jobs[start->job].tier;

		if (input->tiers[tier].rank < rank &&
			meets(input, previous, &result->parts[start->first_part],
				  start->n_parts))
			return tier;
	}
	for (i = 0; i < result->n_reservations; i++)
	{
		const DecideReservation *r = &result->reservations[i];
		int32_t		tier = input->jobs[r->job].tier;

		if (input->tiers[tier].rank < rank &&
			meets(input, previous, &result->reserved_parts[r->first_part],
				  r->n_parts))
			return tier;
	}
	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *promise = &result->promises[i];
		int32_t		tier = promise->job >= 0 ?
			input->jobs[promise->job].tier :
			input->running[promise->running].tier;

		if (input->tiers[tier].rank < rank &&
			meets(input, previous, &result->promise_parts[promise->first_part],
				  promise->n_parts))
			return tier;
	}
	for (i = 0; i < input->n_claims; i++)
	{
		const DecideClaim *claim = &input->claims[i];
		int32_t		tier = claim->job >= 0 ? input->jobs[claim->job].tier : -1;

		if (tier >= 0 && input->tiers[tier].rank < rank &&
			meets(input, previous, &input->claim_parts[claim->first_part],
				  claim->n_parts))
			return tier;
	}
	return -1;
}

/*
 * Whether a device of a previous reservation is lost, or takes no new work.
 * *node is the first node concerned, -1 if one is no longer there.
 */
static bool
node_is_lost(const DecideInput *input,
			 const DecidePreviousReservation *previous, int32_t *node)
{
	const DecidePart *parts = &input->previous_parts[previous->first_part];
	int32_t		i;

	*node = previous->n_parts == 0 ? -1 : parts[0].node;
	for (i = 0; i < previous->n_parts; i++)
	{
		const DecideNode *n = &input->nodes[parts[i].node];

		if (n->schedulable && (parts[i].devices & ~n->usable) == 0)
			continue;
		*node = parts[i].node;
		return true;
	}
	return previous->n_parts == 0;
}

/*
 * Whether a running job that has devices of a previous reservation runs past
 * its limit.
 */
static bool
is_overdue(const DecideInput *input, const DecidePreviousReservation *previous)
{
	int32_t		i;

	for (i = 0; i < input->n_running; i++)
	{
		const DecideRunning *running = &input->running[i];

		if (running->limit_end <= DecideTimeAdd(input->now, input->soon) &&
			!running->leaving &&
			meets(input, previous, &input->running_parts[running->first_part],
				  running->n_parts))
			return true;
	}
	return false;
}

/*
 * List the previous reservations that may have moved one: those on the same
 * devices, those on the devices of these, and so on.  *near gets their
 * indexes, the first of which is the one itself.  Returns how many there are.
 */
static int32_t
connected_find(const DecideInput *input, int32_t first, int32_t *near,
			   bool *is_near)
{
	int32_t		n = 0;
	int32_t		done;
	int32_t		i;

	memset(is_near, 0, (size_t) input->n_previous * sizeof(bool));
	is_near[first] = true;
	near[n++] = first;
	for (done = 0; done < n; done++)
	{
		for (i = 0; i < input->n_previous; i++)
		{
			const DecidePreviousReservation *other = &input->previous[i];

			if (is_near[i] ||
				!meets(input, &input->previous[near[done]],
					   &input->previous_parts[other->first_part],
					   other->n_parts))
				continue;
			is_near[i] = true;
			near[n++] = i;
		}
	}
	return n;
}

/*
 * Find what broke a guarantee: what happened to its own devices, or to those
 * of a reservation that was moved by it and moved this one.  near and is_near
 * have room for all previous reservations.
 */
static DecideBroken
breaker_find(const DecideInput *input, const DecideResult *result,
			 int32_t which, int32_t *near, bool *is_near)
{
	const DecidePreviousReservation *previous = &input->previous[which];
	DecideBroken broken = {previous->job, previous->latest,
		DECIDE_BROKEN_BY_NODE, -1, -1};
	int32_t		rank = DecideAgedRank(input, previous->job);
	int32_t		n;
	int32_t		i;

	if (node_is_lost(input, previous, &broken.node))
		return broken;
	n = connected_find(input, which, near, is_near);
	for (i = 0; i < n && broken.tier < 0; i++)
		broken.tier = tier_before(input, result, rank,
								  &input->previous[near[i]]);
	broken.by = DECIDE_BROKEN_BY_CHANGE;
	if (broken.tier >= 0)
		broken.by = DECIDE_BROKEN_BY_TIER;
	else if (result->held != NULL &&
			 (result->held[previous->job] != DECIDE_NOT_HELD ||
			  result->held_beside[previous->job]))
		broken.by = DECIDE_BROKEN_BY_QUOTA;
	for (i = 0; i < n && broken.by == DECIDE_BROKEN_BY_CHANGE; i++)
	{
		if (is_overdue(input, &input->previous[near[i]]))
			broken.by = DECIDE_BROKEN_BY_OVERDUE;
	}
	return broken;
}

/*
 * The latest start to guarantee to a job that would begin at an instant if
 * everything ran to its limit.  Twice that wait, and two days, leave the queue
 * room to change its order: without it each guarantee fixes the order, and
 * large jobs that a more important one put off wait for all that came since.
 * With one day gangs that were evicted for entitlements waited too long.
 */
static int64_t
latest_of(const DecideInput *input, int64_t limit_at)
{
	int64_t		wait = limit_at - input->now;

	return DecideTimeAdd(DecideTimeAdd(limit_at, wait), DECIDE_GUARANTEE_SLACK);
}

/*
 * Note which guarantees a decision keeps, which it breaks, and which it gives
 * anew: as many as the policy has reservations, and one to each aged job with
 * a reservation.  Those that it keeps count.  False: out of memory.
 */
bool
DecideGuaranteesNote(const DecideInput *input, const DecideArena *arena,
					 DecideResult *result)
{
	int32_t    *near = DecideAlloc(arena, input->n_previous, sizeof(int32_t));
	bool	   *is_near = DecideAlloc(arena, input->n_previous, sizeof(bool));
	Outcomes	outcomes;
	int32_t		n = 0;
	int32_t		i;

	result->broken = DecideAlloc(arena, input->n_previous,
								 sizeof(DecideBroken));
	if (near == NULL || is_near == NULL || result->broken == NULL ||
		!outcomes_find(input, result, arena, &outcomes))
		return false;
	for (i = 0; i < result->n_reservations; i++)
		result->reservations[i].latest = 0;
	for (i = 0; i < input->n_previous; i++)
	{
		const DecidePreviousReservation *previous = &input->previous[i];
		int32_t		job = previous->job;

		if (!is_kept(input, result, &outcomes, previous))
		{
			if (!is_put_off(input, result, &outcomes, previous))
				result->broken[result->n_broken++] =
					breaker_find(input, result, i, near, is_near);
		}
		else if (previous->latest > 0 && outcomes.reserved[job] != NULL)
		{
			DecideReservation *kept = &result->reservations
				[outcomes.reserved[job] - result->reservations];

			kept->latest = previous->latest;
			n += !DecideJobAged(input, job);
		}
	}
	for (i = 0; i < result->n_reservations; i++)
	{
		DecideReservation *r = &result->reservations[i];
		bool		aged = DecideJobAged(input, r->job);

		if (r->latest > 0 || latest_of(input, r->limit_at) == DECIDE_NEVER ||
			(!aged && n >= input->policy.backfill_depth))
			continue;
		n += !aged;
		r->latest = latest_of(input, r->limit_at);
	}
	return true;
}

/*
 * The name of what broke a guarantee.
 */
const char *
DecideBreakerName(DecideBreaker by)
{
	switch (by)
	{
		case DECIDE_BROKEN_BY_NODE:
			return "node";
		case DECIDE_BROKEN_BY_TIER:
			return "tier";
		case DECIDE_BROKEN_BY_QUOTA:
			return "quota";
		case DECIDE_BROKEN_BY_OVERDUE:
			return "overdue";
		case DECIDE_BROKEN_BY_CHANGE:
			return "change";
	}
	return "unknown";
}
