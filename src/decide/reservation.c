/*
 * reservation.c
 *	  Devices promised to a job that cannot start now.
 *
 * A reservation is of one type and for the earliest time at which a search
 * finds room; of equals, the preferred one.  Placement chooses the devices: it
 * runs on the hosts in their state at that time, and what it would start is
 * reserved.
 *
 * A later job may use reserved devices if its wall limit ends before the
 * reservation, else only other devices (timeline.c).  So a later job never
 * moves a reservation.
 *
 * A job of the queue has one if fewer than the policy's depth do; an aged one
 * always, up to DECIDE_MOST_AGED.  The jobs behind it keep their order, and
 * others may pass them.  An aged job is promised to wait no longer than the
 * jobs ahead of it may run, one after the other.  For that, a firm reservation
 * of the first of them is enough.
 */
#include <string.h>

#include "decide/quota.h"

#define MOST_TRIES	64			/* of an elastic request */

/*
 * Make the hosts as they will be for a request that starts at an instant.
 */
static void
future_show(Cycle *cycle, const DecideRequestClass *request,
			const DecideOffer *offer,
			int64_t at)
{
	Timeline   *timeline = cycle->timeline;
	int32_t		i;

	memcpy(timeline->future, cycle->hosts,
		   (size_t) cycle->n_hosts * sizeof(Host));
	for (i = 0; i < cycle->n_hosts; i++)
	{
		if (timeline->first_end[i] < 0 && timeline->first_hold[i] < 0)
			continue;
		if (DecideFitAllowed(&cycle->hosts[i], request, offer))
			DecideAvailabilityAt(cycle, i, at, request->wall_limit,
								 &timeline->future[i]);
	}
}

/*
 * Let placement find devices for a job among the hosts of another time.
 */
static PlaceOutcome
future_try(Cycle *cycle, int32_t job, const DecideRequestClass *request,
		   const DecideOffer *offer, int64_t at)
{
	Cycle		future;
	RequestState state;
	PlaceOutcome outcome;

	if (request->max_gpus > 1 && !DecideGangPrepare(cycle))
		return OUTCOME_OUT_OF_MEMORY;
	future = *cycle;
	future.hosts = cycle->timeline->future;
	future.reserving = true;
	future.at = at;
	memset(&state, 0, sizeof(state));
	outcome = DecidePreviousTry(&future, job, request, offer, 1);
	if (outcome == OUTCOME_NO_FIT)
		outcome = DecideTryOffers(&future, &state, job, request, offer, 1);
	cycle->reservations_capacity = future.reservations_capacity;
	cycle->reserved_capacity = future.reserved_capacity;
	return outcome;
}

/*
 * The offer with which the request can start earliest from floor on, with the first
 * n_tried of its offers only after that; *at is when.  False: out of memory.
 */
static bool
earliest_offer(Cycle *cycle, const DecideRequestClass *request, int64_t floor,
			   int32_t n_tried, int32_t *best, int64_t *at)
{
	bool		cpu_only = request->max_gpus == 0;
	int32_t		n_offers = cpu_only ? 1 : request->n_offers;
	int32_t		i;

	*at = DECIDE_NEVER;
	*best = -1;
	for (i = 0; i < n_offers; i++)
	{
		int64_t		found = DecideSearch(cycle, request,
										 cpu_only ? NULL : &request->offers[i],
										 i < n_tried ? floor + 1 : floor,
										 *at);

		if (found == DECIDE_OUT_OF_MEMORY)
			return false;
		if (found < *at)
		{
			*at = found;
			*best = i;
		}
	}
	return true;
}

/*
 * When a part is free if all that has it runs as long as it may.
 */
static int64_t
part_limit(const Timeline *timeline, const DecidePart *part, int64_t at)
{
	int32_t		host = timeline->node_host[part->node];
	bool		shares = part->cpu_milli > 0 || part->memory_mib > 0;
	int64_t		limit = at;
	int32_t		i;

	for (i = timeline->first_end[host]; i >= 0; i = timeline->ends[i].next)
	{
		const End  *end = &timeline->ends[i];

		if (end->at <= at && end->limit > limit &&
			(shares || (end->part.devices & part->devices) != 0))
			limit = end->limit;
	}
	for (i = timeline->first_hold[host]; i >= 0; i = timeline->holds[i].next)
	{
		const Reservation *hold = &timeline->holds[i];

		if (hold->until <= at && hold->limit_until > limit &&
			(shares || (hold->part.devices & part->devices) != 0))
			limit = hold->limit_until;
	}
	return limit;
}

/*
 * Promise what was just reserved.  False: out of memory.
 */
static bool
reservation_hold(Cycle *cycle, const DecideRequestClass *request)
{
	const DecideResult *result = cycle->result;
	DecideReservation *made =
	&result->reservations[result->n_reservations - 1];
	const DecidePart *parts = &result->reserved_parts[made->first_part];
	int32_t		yields = DecideReservationYields(cycle, made->job, made);
	int32_t		i;

	for (i = 0; i < made->n_parts; i++)
	{
		int64_t		limit = part_limit(cycle->timeline, &parts[i], made->at);

		if (limit > made->limit_at)
			made->limit_at = limit;
	}
	for (i = 0; i < made->n_parts; i++)
	{
		Reservation hold = {
			.from = made->at,
			.until = DecideTimeAdd(made->at,
								   DecideJobRun(cycle->input, made->job)),
			.limit = DecideTimeAdd(made->at, request->wall_limit),
			.limit_until = DecideTimeAdd(made->limit_at, request->wall_limit),
			.after = made->after,
			.host = cycle->timeline->node_host[parts[i].node],
			.share = request->share,
			.yields = yields,
			.part = parts[i]
		};

		if (!DecideTimelineHold(cycle, &hold))
			return false;
	}
	return true;
}

/*
 * Make a reservation, if there is a time for it.  A search may say that an
 * elastic request could start when it cannot: then the other offers are to be
 * asked of that instant, too.
 */
static PlaceOutcome
reservation_make(Cycle *cycle, int32_t job)
{
	const DecideRequestClass *request = DecideJobRequest(cycle, job);
	EquivalenceClass *class = DecideClassOf(cycle, job);
	int64_t		floor = DecideClassFloor(cycle, class, request->wall_limit);
	int32_t		n_tried = 0;
	int32_t		tries;

	for (tries = 0; tries < MOST_TRIES && floor < DECIDE_NEVER; tries++)
	{
		const DecideOffer *given;
		PlaceOutcome outcome;
		int32_t		offer;

		if (!earliest_offer(cycle, request, floor, n_tried, &offer, &floor) ||
			!DecideClassReserved(cycle, class, request->wall_limit, floor))
			return OUTCOME_OUT_OF_MEMORY;
		if (offer < 0)
			break;
		given = request->max_gpus == 0 ? NULL : &request->offers[offer];
		future_show(cycle, request, given, floor);
		outcome = future_try(cycle, job, request, given, floor);
		if (outcome == OUTCOME_STARTED)
			return reservation_hold(cycle, request) ? OUTCOME_STARTED :
				OUTCOME_OUT_OF_MEMORY;
		if (outcome == OUTCOME_OUT_OF_MEMORY)
			return outcome;
		n_tried = offer + 1;
	}
	return OUTCOME_NO_FIT;
}

/*
 * May a job that cannot start have a reservation, as far as is known?
 */
bool
DecideMayReserve(const Cycle *cycle, int32_t job)
{
	int64_t		limit = cycle->input->requests
		[cycle->input->jobs[job].request].wall_limit;

	if (DecideClassFloor(cycle, DecideClassOf(cycle, job), limit) ==
		DECIDE_NEVER)
		return false;
	return DecideJobAged(cycle->input, job) ?
		cycle->n_aged < DECIDE_MOST_AGED :
		cycle->n_deep < cycle->input->policy.backfill_depth;
}

/*
 * What was just reserved for a job counts in quotas, among reservations.
 */
static void
reservation_count(Cycle *cycle, int32_t job)
{
	const DecideResult *result = cycle->result;
	const DecideReservation *made =
	&result->reservations[result->n_reservations - 1];
	const DecideJob *j = &cycle->input->jobs[job];

	DecideQuotaTake(cycle, j->account, made->type, (int64_t) made->gpus *
					cycle->input->requests[j->request].share, 1, true);
	if (DecideJobAged(cycle->input, job))
		cycle->n_aged++;
	else
		cycle->n_deep++;
}

/*
 * Reserve devices for a job that cannot start now, if it may have a
 * reservation, and quotas would let it start beside those who have some.
 * False: out of memory.
 */
bool
DecideReserve(Cycle *cycle, int32_t job)
{
	struct QuotaFilter *filter = cycle->filter;
	PlaceOutcome outcome = OUTCOME_NO_FIT;
	bool		held;

	if (!DecideMayReserve(cycle, job))
		return true;
	if (!DecideTimelineOpen(cycle, cycle->input->requests
							[cycle->input->jobs[job].request].wall_limit) ||
		!DecideTimelineClaims(cycle))
		return false;
	if (!DecideQuotaFilter(cycle, job, true, &held))
		return false;
	if (!held)
		outcome = reservation_make(cycle, job);
	if (outcome == OUTCOME_STARTED)
		reservation_count(cycle, job);
	cycle->filter = filter;
	return outcome != OUTCOME_OUT_OF_MEMORY;
}

/*
 * Is something free kept from the job whose turn it is?
 */
static bool
is_withheld(const Cycle *cycle)
{
	const Timeline *timeline = cycle->timeline;
	int32_t		i;

	for (i = 0; i < timeline->n_held; i++)
	{
		const Host *truth = &timeline->truth[timeline->held[i]];
		const Host *shown = &cycle->hosts[timeline->held[i]];

		if (memcmp(truth->left, shown->left,
				   (size_t) truth->gpus * sizeof(truth->left[0])) != 0 ||
			memcmp(truth->gpu_memory_used, shown->gpu_memory_used,
				   (size_t) truth->gpus *
				   sizeof(truth->gpu_memory_used[0])) != 0 ||
			truth->cpu_left > shown->cpu_left ||
			truth->memory_left > shown->memory_left)
			return true;
	}
	return false;
}

/*
 * Would a job start now if nothing were reserved?  *type is the one it would
 * get.
 */
PlaceOutcome
DecideFreeButReserved(Cycle *cycle, int32_t job, int32_t *type)
{
	const DecideRequestClass *request = DecideJobRequest(cycle, job);
	int32_t		n_offers = request->max_gpus == 0 ? 1 : request->n_offers;
	DecideResult *result = cycle->result;
	int32_t		n = result->n_reservations;
	int32_t		n_parts = result->n_reserved_parts;
	Timeline   *timeline = cycle->timeline;
	PlaceOutcome outcome = OUTCOME_NO_FIT;
	int32_t		i;

	if (timeline == NULL || !is_withheld(cycle))
		return OUTCOME_NO_FIT;
	memcpy(timeline->future, cycle->hosts,
		   (size_t) cycle->n_hosts * sizeof(Host));
	for (i = 0; i < timeline->n_held; i++)
		timeline->future[timeline->held[i]] =
			timeline->truth[timeline->held[i]];
	for (i = 0; i < n_offers && outcome == OUTCOME_NO_FIT; i++)
	{
		const DecideOffer *offer = request->max_gpus == 0 ? NULL :
			&request->offers[i];

		outcome = future_try(cycle, job, request, offer, cycle->input->now);
		if (outcome == OUTCOME_STARTED && offer != NULL)
			*type = offer->type;
	}
	result->n_reservations = n;
	result->n_reserved_parts = n_parts;
	return outcome;
}
