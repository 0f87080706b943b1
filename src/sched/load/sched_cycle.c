/*-------------------------------------------------------------------------
 *
 * sched_cycle.c
 *		Helpers that all loading code of a cycle shares: reading rows,
 *		adding a request class, removing jobs, and computing when a job is
 *		aged.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "sched/sched.h"

/*
 * Runs a reading statement. A read-only cycle uses the caller's snapshot, any
 * other cycle a new snapshot.
 */
SqlResult
CycleRead(const SchedCycle *cycle, SqlStatement *statement, Values *args)
{
	return cycle->read_only ? SqlRead(statement, args) :
		SqlRun(statement, args);
}

/*
 * Returns when a job of a tier becomes aged if it has waited since waits_from.
 */
int64
CycleAgedAt(const SchedCycle *cycle, int32 tier, TimestampTz waits_from)
{
	int64		max_wait = cycle->tiers[tier].max_wait;

	if (max_wait > END_TIMESTAMP - waits_from)
		return DECIDE_NEVER;
	return waits_from + max_wait;
}

/*
 * Removes the jobs whose entry in drop is true from the cycle, and renumbers
 * the other jobs and the previous reservations.
 */
void
CycleDrop(SchedCycle *cycle, const bool *drop)
{
	int32	   *moved = MemoryContextAllocHuge(CurrentMemoryContext,
											   sizeof(int32) *
											   (cycle->input.n_jobs + 1));
	int32		kept = 0;
	int32		n_previous = 0;

	for (int32 i = 0; i < cycle->input.n_jobs; i++)
	{
		moved[i] = drop[i] ? -1 : kept;
		if (drop[i])
		{
			PreviousPutOff(cycle, &cycle->jobs[i]);
			continue;
		}
		cycle->jobs[kept] = cycle->jobs[i];
		cycle->queued[kept++] = cycle->queued[i];
	}
	cycle->input.n_jobs = kept;
	for (int c = 0; c < cycle->input.n_claims; c++)
	{
		DecideClaim *claim = &cycle->claims[c];

		if (claim->job >= 0)
			claim->job = moved[claim->job];
	}
	for (int t = 0; t < cycle->input.n_previous; t++)
	{
		DecidePreviousReservation previous = cycle->input_previous[t];

		previous.job = moved[previous.job];
		if (previous.job >= 0)
			cycle->input_previous[n_previous++] = previous;
	}
	cycle->input.n_previous = n_previous;
	pfree(moved);
}

/*
 * Adds a request class that comes from no row of the queue, and returns its
 * index. The argument may point into the cycle's own array, because it is
 * copied before the array is reallocated.
 */
int32
CycleAddRequest(SchedCycle *cycle, const DecideRequestClass *request)
{
	DecideRequestClass copy = *request;

	if (cycle->input.n_requests == cycle->max_requests)
	{
		cycle->max_requests *= 2;
		cycle->requests = repalloc(cycle->requests,
								   sizeof(DecideRequestClass) * cycle->max_requests);
		cycle->input.requests = cycle->requests;
	}
	cycle->requests[cycle->input.n_requests] = copy;
	return cycle->input.n_requests++;
}
