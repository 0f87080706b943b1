/*
 * due.c
 *	  Lists the reservations that are due, in the order in which they are made
 *	  again.
 *
 * A job with a due reservation goes before jobs of other ranks like an aged
 * job of its tier, as ages_to tells.  Among those that go before the same
 * ranks, the reservation that is to begin first is made first: at that time
 * all jobs on its devices have ended, if all reservations that begin earlier
 * are made before it.
 */
#include <string.h>

#include "decide/cycle/cycle.h"
#include "decide/order/order.h"

/*
 * Compares two jobs by the lowest rank before which they go, then by the time
 * at which their reservations are to begin, then by number and organisation.
 */
static int
compare_due(const void *context, int32_t a, int32_t b)
{
	const Cycle *cycle = context;
	int32_t		rank_a = DecideAgedRank(cycle->input, a);
	int32_t		rank_b = DecideAgedRank(cycle->input, b);
	int64_t		at_a = cycle->previous[a]->limit_at;
	int64_t		at_b = cycle->previous[b]->limit_at;
	const DecideJob *x = &cycle->input->jobs[a];
	const DecideJob *y = &cycle->input->jobs[b];

	if (rank_a != rank_b)
		return rank_a < rank_b ? -1 : 1;
	if (at_a != at_b)
		return at_a < at_b ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return strcmp(x->org, y->org);
}

/*
 * Lists the due reservations, and counts the jobs with guarantees of each
 * request.  Returns false if memory runs out.
 */
bool
DecideDuePrepare(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	const DecideArena *arena = cycle->arena;
	bool		any = false;
	int32_t		i;

	DecideAssert(cycle->due == NULL);
	for (i = 0; i < input->n_previous; i++)
		any |= input->previous[i].latest > 0;
	if (!any)
		return true;
	cycle->guaranteed = DecideAlloc(arena, input->n_requests, sizeof(int32_t));
	cycle->due = DecideAlloc(arena, input->n_previous, sizeof(int32_t));
	cycle->was_due = DecideAlloc(arena, input->n_jobs, sizeof(bool));
	if (cycle->guaranteed == NULL || cycle->due == NULL ||
		cycle->was_due == NULL)
		return false;
	memset(cycle->guaranteed, 0, (size_t) input->n_requests * sizeof(int32_t));
	memset(cycle->was_due, 0, (size_t) input->n_jobs * sizeof(bool));
	for (i = 0; i < input->n_previous; i++)
	{
		const DecidePreviousReservation *previous = &input->previous[i];

		if (previous->latest > 0)
			cycle->guaranteed[input->jobs[previous->job].request]++;
		if (previous->due)
			cycle->due[cycle->n_due++] = previous->job;
	}
	/* a job with a claim has no turn */
	for (i = 0; i < input->n_claims; i++)
	{
		int32_t		job = input->claims[i].job;

		if (job >= 0 && DecideJobGuaranteed(cycle, job))
			cycle->guaranteed[input->jobs[job].request]--;
	}
	return DecideSort(arena, cycle->due, cycle->n_due, compare_due, cycle);
}
