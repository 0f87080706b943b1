/*
 * check_guarantee.c
 *	  Checks that each guaranteed latest start is kept, or what broke it is
 *	  named.
 *
 * A guarantee is kept if the job starts, has a claim or gets one, or has a
 * reservation that begins in time by all limits and that carries the guarantee
 * on.  It is also kept if nothing is reserved because max_starts was reached,
 * until its time comes, or because a running job moves onto its devices, for
 * half of the slack.  Otherwise it must be named among the broken ones, once,
 * with a reason that the input confirms.  Nothing else may be named there, and
 * no new guarantee may be earlier than the reservation by which it is given.
 */
#include <string.h>

#include "decide/check/check.h"

/* What happens to a job's guarantee. */
typedef struct Fate
{
	bool		served;			/* the job starts, or has a claim */
	const DecideReservation *reserved;
	const DecideBroken *broken;
	bool		before;			/* it had a guarantee before this cycle */
} Fate;

/*
 * Records what the result decides about each job, and which guarantees it
 * names as broken.
 */
static const char *
fates_note(const DecideInput *input, const DecideResult *result, Fate *fates)
{
	int32_t		i;

	for (i = 0; i < result->n_starts; i++)
		fates[result->starts[i].job].served = true;
	for (i = 0; i < input->n_claims; i++)
	{
		if (input->claims[i].job >= 0)
			fates[input->claims[i].job].served = true;
	}
	for (i = 0; i < result->n_promises; i++)
	{
		if (result->promises[i].job >= 0)
			fates[result->promises[i].job].served = true;
	}
	for (i = 0; i < result->n_reservations; i++)
		fates[result->reservations[i].job].reserved = &result->reservations[i];
	for (i = 0; i < result->n_broken; i++)
	{
		const DecideBroken *broken = &result->broken[i];

		if (broken->job < 0 || broken->job >= input->n_jobs)
			return "a broken guarantee is of a job that is not there";
		if (fates[broken->job].broken != NULL)
			return "a guarantee is broken twice";
		fates[broken->job].broken = broken;
	}
	return NULL;
}

/*
 * Whether a node of the reservation is lost or accepts no new work.
 */
static bool
node_is_lost(const DecideInput *input,
			 const DecidePreviousReservation *previous)
{
	int32_t		p;

	for (p = 0; p < previous->n_parts; p++)
	{
		const DecidePart *part =
		&input->previous_parts[previous->first_part + p];
		const DecideNode *node = &input->nodes[part->node];

		if (!node->schedulable || (part->devices & ~node->usable) != 0)
			return true;
	}
	return previous->n_parts == 0;
}

/*
 * Whether a part meets a part of the previous reservation.
 */
static bool
is_met(const DecideInput *input, const DecidePreviousReservation *previous,
	   const DecidePart *part)
{
	int32_t		p;

	for (p = 0; p < previous->n_parts; p++)
	{
		const DecidePart *own =
		&input->previous_parts[previous->first_part + p];

		if (own->node == part->node &&
			((own->devices & part->devices) != 0 || own->devices == 0 ||
			 part->devices == 0))
			return true;
	}
	return false;
}

/*
 * Whether a running job moves onto devices of the previous reservation.
 */
static bool
is_moved_onto(const DecideInput *input, const DecideResult *result,
			  const DecidePreviousReservation *previous)
{
	bool		met = false;
	int32_t		i;
	int32_t		p;

	for (i = 0; i < input->n_claims; i++)
	{
		const DecideClaim *claim = &input->claims[i];

		for (p = 0; p < claim->n_parts && claim->job < 0 && claim->running; p++)
			met |= is_met(input, previous,
						  &input->claim_parts[claim->first_part + p]);
	}
	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *promise = &result->promises[i];

		for (p = 0; p < promise->n_parts && promise->job < 0; p++)
			met |= is_met(input, previous,
						  &result->promise_parts[promise->first_part + p]);
	}
	return met;
}

/*
 * Whether the input confirms what is named as having broken a guarantee.
 */
static bool
is_reason(const DecideInput *input, const DecideResult *result,
		  const DecidePreviousReservation *previous,
		  const DecideBroken *broken)
{
	const DecideTier *tier = &input->tiers[input->jobs[previous->job].tier];
	int32_t		passes = tier->ages_to < tier->rank ? tier->ages_to :
		tier->rank;
	bool		overdue = false;
	int32_t		i;

	if ((broken->by == DECIDE_BROKEN_BY_NODE) !=
		node_is_lost(input, previous))
		return false;
	switch (broken->by)
	{
		case DECIDE_BROKEN_BY_TIER:
			return broken->tier >= 0 && broken->tier < input->n_tiers &&
				input->tiers[broken->tier].rank < passes;
		case DECIDE_BROKEN_BY_QUOTA:
			return result->held != NULL &&
				(result->held[previous->job] != DECIDE_NOT_HELD ||
				 result->held_beside[previous->job]);
		case DECIDE_BROKEN_BY_OVERDUE:
			for (i = 0; i < input->n_running; i++)
				overdue |= input->running[i].limit_end <=
					DecideTimeAdd(input->now, input->soon);
			return overdue;
		case DECIDE_BROKEN_BY_NODE:
		case DECIDE_BROKEN_BY_CHANGE:
			return true;
	}
	return false;
}

/*
 * Verifies one guarantee.
 */
static const char *
guarantee_error(const DecideInput *input, const DecideResult *result,
				const DecidePreviousReservation *previous, const Fate *fate)
{
	bool		kept = fate->served ||
		(fate->reserved != NULL &&
		 fate->reserved->limit_at <= previous->latest) ||
		(fate->reserved == NULL && result->n_starts >= input->max_starts &&
		 previous->latest > input->now) ||
		(fate->reserved == NULL &&
		 previous->latest > input->now + DECIDE_GUARANTEE_SLACK / 2 &&
		 is_moved_onto(input, result, previous));

	if (!kept && fate->broken == NULL)
		return "a guaranteed latest start is neither kept nor named as broken";
	if (!kept)
		return fate->broken->latest != previous->latest ?
			"a broken guarantee is not the one that was given" :
			is_reason(input, result, previous, fate->broken) ? NULL :
			"a guarantee is broken by what did not happen";
	if (fate->broken != NULL)
		return "a guarantee that is kept is named as broken";
	if (fate->reserved != NULL && fate->reserved->latest != previous->latest)
		return "a guaranteed latest start is kept and not carried on";
	return NULL;
}

/*
 * Verifies the guaranteed latest starts of a result.
 */
const char *
DecideCheckGuarantees(const DecideInput *input, const DecideResult *result,
					  const DecideArena *arena)
{
	Fate	   *fates = DecideAlloc(arena, input->n_jobs, sizeof(Fate));
	const char *error;
	int32_t		i;

	if (fates == NULL)
		return "out of memory";
	memset(fates, 0, (size_t) input->n_jobs * sizeof(Fate));
	error = fates_note(input, result, fates);
	for (i = 0; i < input->n_previous && error == NULL; i++)
	{
		const DecidePreviousReservation *previous = &input->previous[i];

		if (previous->latest == 0)
			continue;
		fates[previous->job].before = true;
		error = guarantee_error(input, result, previous,
								&fates[previous->job]);
	}
	for (i = 0; i < result->n_broken && error == NULL; i++)
	{
		if (!fates[result->broken[i].job].before)
			error = "a guarantee is broken that was not given";
	}
	for (i = 0; i < result->n_reservations && error == NULL; i++)
	{
		const DecideReservation *r = &result->reservations[i];

		if (r->latest != 0 && r->latest < r->limit_at)
			error = "a latest start is guaranteed that is too early";
	}
	return error;
}
