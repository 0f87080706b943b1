/*
 * due.c
 *	  The reservations that are due, and in which order they are made again.
 *
 * Like an aged job, one with a guarantee goes before other ranks as far as its
 * tier's ages_to says.  Of those that go equally far, the reservation that is
 * to begin first is made first: at that time whatever had its devices is over,
 * if all reservations that begin before are made before.
 */
#include <string.h>

#include "decide/cycle/cycle.h"
#include "decide/order/order.h"

/*
 * Compare two jobs by the lowest rank that they go before, then by when their
 * reservations are to begin, then by number and organisation.
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
 * List the due reservations, and count the jobs with guarantees.  False: out
 * of memory.
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
