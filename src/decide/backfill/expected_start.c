/*
 * expected_start.c
 *	  Estimates when jobs with a reservation will start.
 *
 * Reservations are made as if all jobs used their whole wall limits, so that
 * what is promised can be kept.  Most jobs end earlier.  A reservation is
 * expected to begin when the last job on its devices is likely to have ended,
 * and never later than promised.  The reservations made before a reservation
 * count like running jobs.
 */
#include <string.h>

#include "decide/core/fit.h"

/* A part of a node that a job uses, and when the job ends. */
typedef struct LikelyEnd
{
	int64_t		limit;			/* time at which the job ends, as reservations
								 * assume */
	int64_t		likely;			/* time at which the job is likely to have
								 * ended */
	const DecidePart *part;
	int32_t		next;			/* index of the next end on the same node, or
								 * -1 */
} LikelyEnd;

typedef struct LikelyEnds
{
	const DecideInput *input;
	int32_t    *first;			/* first end on each node, or -1 */
	bool	   *reserved;		/* whether anything is reserved on each node */
	LikelyEnd  *items;
	int32_t		n;
} LikelyEnds;

/*
 * Adds ends for the parts of a job that are on nodes with reservations.
 */
static void
ends_note(LikelyEnds *ends, const DecidePart *parts, int32_t n,
		  int64_t limit, int64_t likely)
{
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		LikelyEnd  *end = &ends->items[ends->n];

		if (!ends->reserved[parts[i].node])
			continue;
		end->limit = limit;
		end->likely = likely < limit ? likely : limit;
		end->part = &parts[i];
		end->next = ends->first[parts[i].node];
		ends->first[parts[i].node] = ends->n++;
	}
}

/*
 * How long a job is likely to run, in microseconds.
 */
static int64_t
likely_run(const DecideInput *input, int32_t job)
{
	int64_t		limit = DecideJobRun(input, job);
	int64_t		run = input->jobs[job].likely_run;

	return run > 0 && run < limit ? run : limit;
}

/*
 * Adds the ends of a job that begins now, or that is promised devices.
 */
static void
job_add(LikelyEnds *ends, int32_t job, const DecidePart *parts, int32_t n)
{
	const DecideInput *input = ends->input;

	ends_note(ends, parts, n, DecideStartEnd(input, job, true),
			  DecideEndAfter(input, likely_run(input, job)));
}

/*
 * Adds the ends of all running jobs.  An evicted job leaves within its tier's
 * grace.  Returns false if memory runs out.
 */
static bool
running_add(LikelyEnds *ends, const DecideResult *result,
			const DecideArena *arena)
{
	const DecideInput *input = ends->input;
	bool	   *leaves = DecideAlloc(arena, input->n_running, sizeof(bool));
	int32_t		i;

	if (leaves == NULL)
		return false;
	memset(leaves, 0, (size_t) input->n_running * sizeof(bool));
	for (i = 0; i < result->n_evictions; i++)
		leaves[result->evictions[i].running] = true;
	for (i = 0; i < input->n_running; i++)
	{
		const DecideRunning *running = &input->running[i];
		int64_t		limit = running->expected_end;
		int64_t		gone = DecideEndAfter(input,
										  input->tiers[running->tier].grace);

		if (limit <= input->now)
			limit = DecideTimeAdd(input->now, 1);
		if (leaves[i] && gone < limit)
			limit = gone;
		ends_note(ends, &input->running_parts[running->first_part],
				  running->n_parts, limit, running->likely_end);
	}
	return true;
}

/*
 * The time at which a reserved part is likely to be free.
 */
static int64_t
part_likely(const LikelyEnds *ends, const DecideReservation *reservation,
			const DecidePart *part)
{
	bool		beside = part->devices == 0 || part->cpu_milli > 0 ||
		part->memory_mib > 0;
	int64_t		at = ends->input->now;
	int32_t		i;

	for (i = ends->first[part->node]; i >= 0; i = ends->items[i].next)
	{
		const LikelyEnd *end = &ends->items[i];

		if (end->limit <= reservation->at && end->likely > at &&
			(beside || (end->part->devices & part->devices) != 0))
			at = end->likely;
	}
	return at;
}

/*
 * Adds the ends of all jobs that begin now or are promised devices.
 */
static void
decided_add(LikelyEnds *ends, const DecideResult *result)
{
	const DecideInput *input = ends->input;
	int32_t		i;

	for (i = 0; i < result->n_starts; i++)
		job_add(ends, result->starts[i].job,
				&result->parts[result->starts[i].first_part],
				result->starts[i].n_parts);
	for (i = 0; i < input->n_claims; i++)
	{
		if (input->claims[i].job >= 0)
			job_add(ends, input->claims[i].job,
					&input->claim_parts[input->claims[i].first_part],
					input->claims[i].n_parts);
	}
	for (i = 0; i < result->n_promises; i++)
	{
		if (result->promises[i].job >= 0)
			job_add(ends, result->promises[i].job,
					&result->promise_parts[result->promises[i].first_part],
					result->promises[i].n_parts);
	}
}

/*
 * Computes when each reservation of a result is expected to begin.
 */
const char *
DecideExpectedStarts(const DecideInput *input, const DecideResult *result,
					 const DecideArena *arena, int64_t **at)
{
	LikelyEnds	ends = {.input = input};
	int64_t		room;
	int32_t		i;
	int32_t		p;

	DecideAssert(input != NULL && result != NULL);
	DecideAssert(arena != NULL && at != NULL);
	room = (int64_t) input->n_running_parts + result->n_parts +
		input->n_claim_parts + result->n_promise_parts +
		result->n_reserved_parts;
	*at = DecideAlloc(arena, result->n_reservations, sizeof(int64_t));
	if (*at == NULL)
		return "out of memory";
	if (result->n_reservations == 0)
		return NULL;
	ends.first = DecideAlloc(arena, input->n_nodes, sizeof(int32_t));
	ends.reserved = DecideAlloc(arena, input->n_nodes, sizeof(bool));
	ends.items = DecideAlloc(arena, room, sizeof(LikelyEnd));
	if (ends.first == NULL || ends.reserved == NULL ||
		ends.items == NULL)
		return "out of memory";
	memset(ends.first, 0xFF, (size_t) input->n_nodes * sizeof(int32_t));
	memset(ends.reserved, 0, (size_t) input->n_nodes * sizeof(bool));
	for (p = 0; p < result->n_reserved_parts; p++)
		ends.reserved[result->reserved_parts[p].node] = true;
	if (!running_add(&ends, result, arena))
		return "out of memory";
	decided_add(&ends, result);
	for (i = 0; i < result->n_reservations; i++)
	{
		const DecideReservation *r = &result->reservations[i];
		const DecidePart *parts = &result->reserved_parts[r->first_part];
		int64_t		begins = input->now;

		for (p = 0; p < r->n_parts; p++)
		{
			int64_t		free = part_likely(&ends, r, &parts[p]);

			begins = free > begins ? free : begins;
		}
		(*at)[i] = begins < r->at ? begins : r->at;
		ends_note(&ends, parts, r->n_parts,
				  DecideTimeAdd(r->at, DecideJobRun(input, r->job)),
				  DecideTimeAdd((*at)[i], likely_run(input, r->job)));
	}
	return NULL;
}
