/*
 * guarantee.c
 *	  Guarantees waiting jobs a latest start, and keeps it in later cycles.
 *
 * The reservations of one cycle do not conflict with each other, even if all
 * jobs run up to their limits.  So each job with a reservation can be
 * guaranteed that it starts by that time.  What may break a guarantee in a
 * later cycle is that new jobs come before it in the queue, that fair shares
 * change, or that a job ahead of it gets devices earlier that it would have
 * had.
 *
 * A round first decides in the order of the queue alone.  If a guarantee would
 * not be kept, the round is decided again, and the reservations of the jobs
 * concerned are due: they are made again on the same devices before those jobs
 * have their turns that an aged job of their tier would go before.  If that
 * breaks other guarantees, those reservations are due as well; in the last try
 * all are.  Then all guarantees are kept, because the due reservations are
 * made in the order in which they begin: the jobs that had these devices
 * before have ended by their limits, and a job that starts on them now ends
 * before.
 *
 * A claim by an entitlement may use devices of a reservation that was made
 * before it in the same round.  If that could break a guarantee, the
 * reservation is due, too, and a due reservation yields to no entitlement.
 *
 * Jobs of more important tiers have their turns before the due reservations,
 * and may break a guarantee: with the settings as installed, these are jobs of
 * a tier that may preempt the job.  Nothing is kept idle for a job that they
 * could evict once it runs.
 */
#include <string.h>

#include "decide/cycle/cycle.h"
#include "decide/order/order.h"

#define MOST_TRIES	4			/* in the last try all reservations are due,
								 * in the one before it those of jobs without
								 * a claim */

/* What a result decides about each job. */
typedef struct Outcomes
{
	bool	   *served;			/* whether each job starts or has a claim */
	bool	   *claims;			/* whether each job has a claim */
	const DecideReservation **reserved;
} Outcomes;

/*
 * Finds what a round's result decides about each job.  Returns false if memory
 * runs out.
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
 * Whether two parts are on the same node and use the same devices, or one of
 * them uses cpu and memory only.
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
 * devices: until that job has started there, its end is not known.  A later
 * cycle reserves the devices again.  If such a guarantee were due, a tenant
 * could keep all devices, because its next job would always be ahead of those
 * that are entitled to some.
 */
static bool
is_behind_move(const DecideInput *input, const DecideResult *result,
			   const Outcomes *outcomes,
			   const DecidePreviousReservation *previous)
{
	int32_t		i;

	/* in the later half of the slack the reservation becomes due in time */
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
 * Whether a claim that is made now has devices of a job's reservation for so
 * long that the job could no longer start there by what it was guaranteed.
 * The reservation was made before the claim, and yielded to it.
 */
static bool
is_passed(const DecideInput *input, const DecideResult *result,
		  const Outcomes *outcomes, const DecidePreviousReservation *previous)
{
	const DecideReservation *r = outcomes->reserved[previous->job];
	int32_t		i;
	int32_t		p;
	int32_t		q;

	if (r == NULL || previous->latest == 0)
		return false;
	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *promise = &result->promises[i];
		int64_t		limit = promise->job < 0 ? input->now :
			DecideTimeAdd(input->now, input->requests
						  [input->jobs[promise->job].request].wall_limit);

		if (limit <= r->at || limit <= previous->latest)
			continue;
		for (p = 0; p < promise->n_parts; p++)
		{
			for (q = 0; q < r->n_parts; q++)
			{
				if (parts_meet(&result->promise_parts[promise->first_part + p],
							   &result->reserved_parts[r->first_part + q]))
					return true;
			}
		}
	}
	return false;
}

/*
 * Whether a job had no turn because max_starts was reached.  A later cycle
 * continues, and the job's guarantee remains valid.
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
 * Marks those reservations as due whose guarantees a result does not keep, or
 * all that have a guarantee.  It marks all in the last tries, and if so many
 * jobs start that max_starts is reached, so that devices of jobs without a
 * turn are not given away.  *again becomes true if some reservation became
 * due.  Returns false if memory runs out.
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
	/* a reservation that is due already is broken by jobs that go before it */
	for (i = 0; i < input->n_previous; i++)
		broken += !next->previous[i].due &&
			(!is_kept(input, result, &outcomes, &input->previous[i]) ||
			 is_passed(input, result, &outcomes, &input->previous[i]));
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
			 is_kept(input, result, &outcomes, &previous[i]) &&
			 !is_passed(input, result, &outcomes, &previous[i])))
			continue;
		previous[i].due = true;
		*again = true;
	}
	next->previous = previous;
	return true;
}

/*
 * Removes from the input the guarantees that a result does not keep.  *over
 * becomes false if there are any.  Returns false if memory runs out.
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
 * Returns the tier of a job that goes before this rank and has, or will have,
 * devices of a previous reservation by this decision, or -1 if there is none.
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
 * Whether a device of a previous reservation is lost, or its node accepts no
 * new work.  *node is the first node concerned, or -1 if it no longer exists.
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
 * Whether a running job on the devices of a previous reservation runs past its
 * wall limit.
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
 * Lists the previous reservations that may have moved the given one: those on
 * the same devices, those on the devices of these, and so on.  near gets their
 * indexes; the first is the given one.  Returns their number.
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
 * Finds what broke a guarantee: what happened to its own devices, or to those
 * of another reservation that was moved for that reason and moved this one.
 * near and is_near must have room for all previous reservations.
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
 * The latest start that is guaranteed to a job that would begin at limit_at if
 * all jobs ran up to their limits.  Twice that wait, plus two days, leaves
 * room for the order of the queue to change: otherwise each guarantee would
 * fix the order, and large jobs that a more important job delayed would wait
 * for all jobs submitted since.  With one day, gangs that were evicted for
 * entitlements waited too long.
 */
static int64_t
latest_of(const DecideInput *input, int64_t limit_at)
{
	int64_t		wait = limit_at - input->now;

	return DecideTimeAdd(DecideTimeAdd(limit_at, wait), DECIDE_GUARANTEE_SLACK);
}

/*
 * Records which guarantees a decision keeps, which it breaks, and which it
 * gives newly: as many as the policy allows reservations, including those that
 * are kept, and one to each aged job with a reservation.  A job with a filter
 * gets none: a tenant could collect guarantees on busy nodes by ever new jobs
 * that go ahead of his others.  Returns false if memory runs out.
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
			input->requests[input->jobs[r->job].request].filter != NULL ||
			(!aged && n >= input->policy.backfill_depth))
			continue;
		n += !aged;
		r->latest = latest_of(input, r->limit_at);
	}
	return true;
}

/*
 * The name of what broke a guarantee, as it appears in SQL.
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
