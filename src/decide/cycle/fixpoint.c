/*
 * fixpoint.c
 *	  A cycle repeats rounds until nothing is left to decide.
 *
 * The decisions of a round may make others possible.  Evicted jobs are
 * expected to be gone soon, so reservations may move to earlier times.
 * Started jobs move their accounts behind others, so other jobs reserve first.
 * So a round's result is applied in memory, as the next cycle at the same
 * instant would load it, and that cycle runs immediately.  The decision
 * consists of what all rounds decide, with the reservations and reasons of the
 * last round: another cycle at the same instant decides nothing.
 *
 * A round is followed by another only if it starts a job, makes a claim,
 * evicts a running job, or breaks a guarantee.  Each job starts once, gets a
 * claim once, is evicted once, and loses a guarantee once, and jobs started at
 * this instant are not evicted.  So there are at most 3 x jobs + running
 * rounds, usually two.  The last round decides nothing, or nothing that
 * concerns jobs that had turns before.  After max_starts the remaining jobs
 * wait for the next cycle.  Claims that evict jobs are limited likewise: after
 * max_evictions a round makes none.
 */
#include <string.h>

#include "decide/cycle/cycle.h"

/*
 * Returns a new array with the items of a followed by those of b, or NULL if
 * memory runs out.
 */
static void *
joined(const DecideArena *arena, const void *a, int32_t n_a, const void *b,
	   int32_t n_b, size_t size)
{
	char	   *both = DecideAlloc(arena, (int64_t) n_a + n_b, size);

	if (both != NULL && n_a > 0)
		memcpy(both, a, (size_t) n_a * size);
	if (both != NULL && n_b > 0)
		memcpy(both + (size_t) n_a * size, b, (size_t) n_b * size);
	return both;
}

/*
 * Adds a round's starts to the cycle's.  job_of maps the round's jobs to the
 * cycle's.  Returns false if memory runs out.
 */
static bool
starts_join(const DecideArena *arena, const int32_t *job_of,
			const DecideResult *round, DecideResult *all)
{
	int32_t		i;

	if (round->n_starts == 0)
		return true;
	all->starts = joined(arena, all->starts, all->n_starts, round->starts,
						 round->n_starts, sizeof(DecideStart));
	all->parts = joined(arena, all->parts, all->n_parts, round->parts,
						round->n_parts, sizeof(DecidePart));
	if (all->starts == NULL || all->parts == NULL)
		return false;
	for (i = 0; i < round->n_starts; i++)
	{
		DecideStart *start = &all->starts[all->n_starts + i];

		start->job = job_of[start->job];
		start->first_part += all->n_parts;
	}
	all->n_starts += round->n_starts;
	all->n_parts += round->n_parts;
	return true;
}

/*
 * Adds a round's promises and evictions, which were made after this many
 * starts.  Returns false if memory runs out.
 */
static bool
promises_join(const DecideArena *arena, const int32_t *job_of, int32_t after,
			  const DecideResult *round, DecideResult *all)
{
	int32_t		i;

	if (round->n_promises == 0)
		return true;
	all->promises = joined(arena, all->promises, all->n_promises,
						   round->promises, round->n_promises,
						   sizeof(DecidePromise));
	all->promise_parts = joined(arena, all->promise_parts,
								all->n_promise_parts, round->promise_parts,
								round->n_promise_parts, sizeof(DecidePart));
	all->evictions = joined(arena, all->evictions, all->n_evictions,
							round->evictions, round->n_evictions,
							sizeof(DecideEviction));
	if (all->promises == NULL || all->promise_parts == NULL ||
		all->evictions == NULL)
		return false;
	for (i = 0; i < round->n_promises; i++)
	{
		DecidePromise *promise = &all->promises[all->n_promises + i];

		if (promise->job >= 0)
			promise->job = job_of[promise->job];
		promise->leader += all->n_promises;
		promise->after = after;
		promise->first_part += all->n_promise_parts;
		promise->first_eviction += all->n_evictions;
	}
	all->n_promises += round->n_promises;
	all->n_promise_parts += round->n_promise_parts;
	all->n_evictions += round->n_evictions;
	return true;
}

/*
 * Replaces reservations and reasons by those of a round, which were made after
 * this many starts.  The round keeps a copy of its reservations, because the
 * next round loads them.  Returns false if memory runs out.
 */
static bool
waits_replace(const DecideInput *input, const DecideArena *arena,
			  const int32_t *job_of, int32_t after, const DecideResult *round,
			  DecideResult *all)
{
	int32_t		i;

	all->waits = round->waits;
	all->reservations = joined(arena, round->reservations,
							   round->n_reservations, NULL, 0,
							   sizeof(DecideReservation));
	if (all->reservations == NULL)
		return false;
	all->n_reservations = round->n_reservations;
	all->reserved_parts = round->reserved_parts;
	all->n_reserved_parts = round->n_reserved_parts;
	for (i = 0; i < input->n_requests; i++)
	{
		if (all->waits[i].job >= 0)
			all->waits[i].job = job_of[all->waits[i].job];
	}
	for (i = 0; i < all->n_reservations; i++)
	{
		all->reservations[i].job = job_of[all->reservations[i].job];
		all->reservations[i].after += after;
	}
	return true;
}

/*
 * Records the jobs that quotas held back: before a round, after this many
 * promises, or at their turn in the last round.  Also records the jobs for
 * which quotas allowed nothing beside what was reserved, because that may have
 * broken a guarantee.
 */
static void
held_join(const DecideInput *input, const int32_t *job_of, int32_t made,
		  const DecideResult *round, DecideResult *all)
{
	int32_t		i;

	for (i = 0; i < input->n_jobs && all->held != NULL; i++)
	{
		int32_t    *held = &all->held[job_of[i]];

		all->held_beside[job_of[i]] |= round->held_beside[i];
		if (round->held[i] != 0)
			*held = round->held[i];
		else if (*held == DECIDE_NOT_HELD || *held == INT32_MAX)
			*held = made;
	}
}

/*
 * Whether a part of a start is reserved for another job for a later time.
 */
static bool
is_reserved(const DecideResult *round, const DecideReservation *reservation,
			const DecidePart *part)
{
	int32_t		i;

	for (i = reservation->first_part;
		 i < reservation->first_part + reservation->n_parts; i++)
	{
		const DecidePart *other = &round->reserved_parts[i];

		if (other->node == part->node &&
			((other->devices & part->devices) != 0 || part->cpu_milli > 0 ||
			 part->memory_mib > 0))
			return true;
	}
	return false;
}

/*
 * Marks a round's starts that came before a reservation of the same devices.
 */
static void
let_in_note(DecideResult *round)
{
	int32_t		i;
	int32_t		r;
	int32_t		p;

	for (i = 0; i < round->n_starts; i++)
	{
		DecideStart *start = &round->starts[i];

		start->let_in = false;
		for (r = 0; r < round->n_reservations && !start->let_in &&
			 round->reservations[r].after <= i; r++)
		{
			for (p = start->first_part; p < start->first_part +
				 start->n_parts && !start->let_in; p++)
				start->let_in = is_reserved(round, &round->reservations[r],
											&round->parts[p]);
		}
	}
}

/*
 * Records the jobs whose expected run time influenced a round.  Returns false
 * if memory runs out.
 */
static bool
timed_note(const DecideArena *arena, const DecideInput *input,
		   const int32_t *job_of, const DecideResult *round, DecideResult *all)
{
	int32_t    *timed = DecideAlloc(arena, (int64_t) all->n_timed +
									round->n_starts + round->n_reservations +
									input->n_claims + round->n_promises,
									sizeof(int32_t));
	int32_t		n = all->n_timed;
	int32_t		i;

	if (timed == NULL)
		return false;
	if (n > 0)
		memcpy(timed, all->timed, (size_t) n * sizeof(int32_t));
	for (i = 0; i < round->n_starts; i++)
		timed[n++] = round->starts[i].job;
	for (i = 0; i < round->n_reservations; i++)
		timed[n++] = round->reservations[i].job;
	for (i = 0; i < input->n_claims; i++)
	{
		if (input->claims[i].job >= 0)
			timed[n++] = input->claims[i].job;
	}
	for (i = 0; i < round->n_promises; i++)
	{
		if (round->promises[i].job >= 0)
			timed[n++] = round->promises[i].job;
	}
	for (i = all->n_timed; i < n && job_of != NULL; i++)
		timed[i] = job_of[timed[i]];
	all->timed = timed;
	all->n_timed = n;
	return true;
}

/*
 * Decides one round, and decides it again if guaranteed latest starts would be
 * missed.  If that happened, starts may concern other jobs, so another round
 * follows.  A guarantee that even the last try cannot keep no longer
 * influences the order, so another round follows, too, for which *input no
 * longer contains it.
 */
static const char *
round_decide(DecideInput *input, const DecideArena *arena,
			 DecideResult *round, bool *over)
{
	DecideInput next = *input;
	const char *error = DecideRound(input, arena, round, over);
	bool		again = true;
	int32_t		tries;

	for (tries = 0; error == NULL && again; tries++)
	{
		if (!DecideGuaranteesDue(input, round, arena, tries, &next, &again))
			error = "out of memory";
		else if (again)
			error = DecideRound(&next, arena, round, over);
	}
	if (error != NULL || round->n_starts >= input->max_starts)
		return error;
	*over = *over && (next.previous == input->previous || round->n_starts == 0);
	if (*over && !DecideGuaranteesDrop(input, round, arena, over))
		error = "out of memory";
	return error;
}

/*
 * Decides rounds until nothing is left to decide.  *all is the decision so
 * far, which is that of the first round, and *first is the input of that
 * round.
 */
static const char *
rounds_go(const DecideInput *first, const DecideArena *arena,
		  DecideResult *all)
{
	DecideInput input = *first;
	DecideResult round = *all;
	int32_t    *job_of = DecideAlloc(arena, first->n_jobs, sizeof(int32_t));
	int32_t    *job_now = DecideAlloc(arena, first->n_jobs, sizeof(int32_t));
	bool		over = false;
	int32_t		i;

	if (job_of == NULL || job_now == NULL)
		return "out of memory";
	for (i = 0; i < first->n_jobs; i++)
		job_of[i] = i;
	while (!over)
	{
		DecideInput next;
		int32_t		after = all->n_starts;
		const char *error;

		if (!DecideResultApply(&input, &round, arena,
							   all->n_promises - round.n_promises, job_now,
							   &next))
			return "out of memory";
		for (i = 0; i < input.n_jobs; i++)
		{
			if (job_now[i] >= 0)
				job_of[job_now[i]] = job_of[i];
		}
		input = next;
		DecidePoll(arena);
		error = round_decide(&input, arena, &round, &over);
		if (error != NULL)
			return error;
		let_in_note(&round);
		held_join(&input, job_of, all->n_promises, &round, all);
		if (!timed_note(arena, &input, job_of, &round, all) ||
			!starts_join(arena, job_of, &round, all) ||
			!promises_join(arena, job_of, after, &round, all) ||
			!waits_replace(&input, arena, job_of, after, &round, all))
			return "out of memory";
	}
	return NULL;
}

/*
 * Decide one cycle.
 */
const char *
DecideRun(const DecideInput *input, const DecideArena *arena,
		  DecideResult *result)
{
	DecideInput first = *input;
	bool		over = true;
	const char *error = round_decide(&first, arena, result, &over);

	if (error == NULL)
	{
		let_in_note(result);
		if (!timed_note(arena, input, NULL, result, result))
			error = "out of memory";
	}
	if (error == NULL && !over)
		error = rounds_go(&first, arena, result);
	if (error == NULL && !DecideGuaranteesNote(input, arena, result))
		error = "out of memory";
	if (error != NULL)
		memset(result, 0, sizeof(*result));
	return error;
}
