/*
 * start_on.c
 *	  Starts a job on parts that were chosen for it, or reserves them: adds
 *	  the rows of the result and the timeline, and allocates the parts on
 *	  their hosts.
 */
#include "decide/place/place.h"

/*
 * Adds a reservation of these parts to the result.  Returns false if memory
 * runs out.
 */
static bool
reservation_add(Cycle *cycle, int32_t job, int32_t type, int32_t gpus,
				const DecidePart *parts, int32_t n_parts)
{
	DecideResult *result = cycle->result;
	DecideReservation *reservation;
	int32_t		i;

	result->reservations = DecideGrow(cycle->arena, result->reservations,
									  result->n_reservations,
									  &cycle->reservations_capacity,
									  sizeof(DecideReservation));
	if (result->reservations == NULL)
		return false;
	reservation = &result->reservations[result->n_reservations++];
	reservation->job = job;
	reservation->type = type;
	reservation->gpus = gpus;
	reservation->at = reservation->limit_at = cycle->at;
	reservation->after = result->n_starts;
	reservation->first_part = result->n_reserved_parts;
	reservation->n_parts = n_parts;
	for (i = 0; i < n_parts; i++)
	{
		result->reserved_parts = DecideGrow(cycle->arena,
											result->reserved_parts,
											result->n_reserved_parts,
											&cycle->reserved_capacity,
											sizeof(DecidePart));
		if (result->reserved_parts == NULL)
			return false;
		result->reserved_parts[result->n_reserved_parts++] = parts[i];
	}
	return true;
}

/*
 * How well these hosts suit a job of whole devices, for DecideStart.fit.
 */
static int64_t
parts_fit(const Cycle *cycle, const DecideRequestClass *request, int32_t gpus,
		  const int32_t *hosts, const DecidePart *parts, int32_t n_parts)
{
	int64_t		fit = 0;
	int32_t		i;

	if (request->share < DECIDE_WHOLE || gpus == 0)
		return 0;
	for (i = 0; i < n_parts; i++)
		fit += DecideFitPart(cycle, &cycle->hosts[hosts[i]], request,
							 parts[i].gpus, gpus);
	return fit;
}

/*
 * Starts a job on these free parts of these hosts, or reserves them.  Returns
 * false if memory runs out.
 */
bool
DecideStartOn(Cycle *cycle, int32_t job, int32_t type, int32_t gpus,
			  const int32_t *hosts, const DecidePart *parts, int32_t n_parts)
{
	const DecideRequestClass *request = &cycle->input->requests[cycle->input->jobs[job].request];
	DecideResult *result = cycle->result;
	DecideStart *start;
	int32_t		i;

	DecideAssert(cycle->reserving || cycle->result->n_starts < cycle->input->max_starts);
	if (cycle->reserving)
		return reservation_add(cycle, job, type, gpus, parts, n_parts);
	result->starts = DecideGrow(cycle->arena, result->starts,
								result->n_starts, &cycle->starts_capacity,
								sizeof(DecideStart));
	if (result->starts == NULL)
		return false;
	start = &result->starts[result->n_starts++];
	start->job = job;
	start->type = type;
	start->gpus = gpus;
	start->share = request->share;
	start->first_part = result->n_parts;
	start->n_parts = n_parts;
	start->fit = parts_fit(cycle, request, gpus, hosts, parts, n_parts);
	for (i = 0; i < n_parts; i++)
	{
		result->parts = DecideGrow(cycle->arena, result->parts,
								   result->n_parts, &cycle->parts_capacity,
								   sizeof(DecidePart));
		if (result->parts == NULL)
			return false;
		result->parts[result->n_parts++] = parts[i];
		if (!DecideTimelineStart(cycle, result->n_starts - 1, &parts[i]))
			return false;
		DecideHostAllocate(cycle, hosts[i], &parts[i], start->share);
	}
	return true;
}
