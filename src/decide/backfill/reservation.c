/*
 * reservation.c
 *	  Reserves devices for a job that cannot start now.
 *
 * A reservation uses one type, at the earliest time that a search finds; if
 * several types allow the same time, the preferred one.  Placement chooses the
 * devices: it runs on the hosts as they will be at that time, and its start
 * becomes the reservation.
 *
 * A later job may use reserved devices if its wall limit ends before the
 * reservation begins; otherwise it may use other devices only (timeline.c).
 * So a later job never delays a reservation.
 *
 * A waiting job gets a reservation if fewer jobs than the policy's depth have
 * one; an aged job always gets one, up to DECIDE_MOST_AGED.  Of one
 * organisation's jobs with a filter no more than DECIDE_MOST_FILTERED get one.
 * Jobs behind those keep their order, but may be passed.  An aged job waits at
 * most as long as the jobs ahead of it may run, one after the other.  A
 * reservation for the first of them is enough to guarantee that.
 *
 * The search finds the earliest time at which a request is expected to be able
 * to start.  A host gains capacity at its ends, and at the expected ends and
 * the beginnings of its holds.  The beginning of a hold counts because a job
 * that starts later assumes that the hold ends as expected, while beside the
 * hold earlier starts count up to their limits.  A host loses capacity at the
 * moment from which a job's wall limit would reach into a hold.  The search
 * examines all these moments in order of time.
 *
 * Capacities of hosts are added up over scopes: one host, an NVLink domain, a
 * leaf, or all hosts of the type, depending on the request's topology.  A
 * scope has room for the request exactly if the capacities of its hosts add up
 * to it.
 *
 * To save time each host has an upper bound, the number of its free devices,
 * which is updated at each end.  The exact capacity of changed hosts is
 * computed only in scopes with a sufficient bound.
 */
#include <string.h>

#include "decide/backfill/backfill.h"

#define DECIDE_OUT_OF_MEMORY	INT64_MIN

/* The state of one search. */
typedef struct Quest
{
	Cycle	   *cycle;
	TimeSearch *search;
	const DecideRequestClass *request;
	const DecideOffer *offer;
	const int32_t *hosts;		/* hosts of the offer's type; NULL for all
								 * hosts */
	TypeRange	range;
	int32_t		count;			/* number of devices of the job for which
								 * capacities are computed */
	int64_t		wanted;			/* capacity that a scope must have */
	bool		one_host;
	int32_t		n_touched;

	/* position in each list of moments */
	int32_t		next_end;
	int32_t		next_seen;
	int32_t		next_from;
	int32_t		next_until;
} Quest;

/*
 * Allocates the working memory of searches, once a cycle.  Returns false if
 * memory runs out.
 */
static bool
search_open(Cycle *cycle)
{
	TimeSearch *search = &cycle->timeline->search;
	const DecideArena *arena = cycle->arena;
	int64_t		n = cycle->n_hosts;

	if (search->scope != NULL)
		return true;
	search->bound = DecideAlloc(arena, n, sizeof(int32_t));
	search->capacity = DecideAlloc(arena, n, sizeof(int32_t));
	search->stale = DecideAlloc(arena, n, sizeof(int32_t));
	search->is_stale = DecideAlloc(arena, n, sizeof(bool));
	search->scope_bound = DecideAlloc(arena, n, sizeof(int64_t));
	search->scope_capacity = DecideAlloc(arena, n, sizeof(int64_t));
	search->scope_stale = DecideAlloc(arena, n, sizeof(int32_t));
	search->touched = DecideAlloc(arena, n, sizeof(int32_t));
	search->is_touched = DecideAlloc(arena, n, sizeof(bool));
	search->scope = DecideAlloc(arena, n, sizeof(int32_t));
	return search->bound != NULL && search->capacity != NULL &&
		search->stale != NULL && search->is_stale != NULL &&
		search->scope_bound != NULL && search->scope_capacity != NULL &&
		search->scope_stale != NULL && search->touched != NULL &&
		search->is_touched != NULL && search->scope != NULL;
}

/*
 * The scope of a host.
 */
static int32_t
scope_of(const Quest *quest, int32_t host)
{
	const Host *h = &quest->cycle->hosts[host];

	if (quest->one_host)
		return host;
	switch (quest->request->topology)
	{
		case DECIDE_TOPOLOGY_NODE:
			return host;
		case DECIDE_TOPOLOGY_NVLINK:
			return h->domain;
		case DECIDE_TOPOLOGY_LEAF:
			return h->leaf;
		case DECIDE_TOPOLOGY_ANY:
			break;
	}
	return quest->hosts != NULL ? quest->hosts[0] : 0;
}

/*
 * Marks a host that has changed, so that its capacity is computed again when
 * it is needed.
 */
static void
make_stale(Quest *quest, int32_t host)
{
	TimeSearch *search = quest->search;
	int32_t		scope = search->scope[host];

	if (search->is_stale[host])
		return;
	search->is_stale[host] = true;
	search->stale[host] = search->scope_stale[scope];
	search->scope_stale[scope] = host;
}

/*
 * Initialises the search with the hosts as they are now, all of them marked.
 */
static void
quest_begin(Quest *quest)
{
	TimeSearch *search = quest->search;
	const Timeline *timeline = quest->cycle->timeline;
	int32_t		i;

	memset(search->scope, 0xFF,
		   (size_t) quest->cycle->n_hosts * sizeof(int32_t));
	for (i = 0; i < quest->range.n; i++)
	{
		int32_t		host = quest->hosts ? quest->hosts[i] : i;
		const Host *h = &quest->cycle->hosts[host];
		int32_t		scope;

		if (!DecideFitAllowed(h, quest->request, quest->offer))
			continue;
		scope = search->scope[host] = scope_of(quest, host);
		search->scope_bound[scope] = search->scope_capacity[scope] = 0;
		search->scope_stale[scope] = -1;
		search->is_touched[scope] = false;
		search->is_stale[host] = false;
	}
	for (i = 0; i < quest->range.n; i++)
	{
		int32_t		host = quest->hosts ? quest->hosts[i] : i;
		const Host *h = timeline->first_hold[host] >= 0 ?
			&timeline->truth[host] : &quest->cycle->hosts[host];

		if (search->scope[host] < 0)
			continue;
		search->capacity[host] = 0;
		search->bound[host] = h->n_free;
		search->scope_bound[search->scope[host]] += h->n_free;
		make_stale(quest, host);
	}
}

/*
 * A host's capacity for the request at an instant.
 */
static int32_t
host_capacity(Quest *quest, int32_t host, int64_t at)
{
	const DecideRequestClass *request = quest->request;
	Host		seen;

	DecideAvailabilityAt(quest->cycle, host, at, request->wall_limit, &seen);
	if (quest->one_host)
		return DecideFitRequest(&seen, request, quest->offer, request->min_gpus);
	return DecideFitGang(&seen, request, quest->count);
}

/*
 * Whether a scope has room for the request at an instant.
 */
static bool
scope_suffices(Quest *quest, int32_t scope, int64_t at)
{
	TimeSearch *search = quest->search;
	int32_t		host;

	/* a shared device can have room without being free */
	if (quest->request->share == DECIDE_WHOLE &&
		search->scope_bound[scope] < quest->request->min_gpus)
		return false;
	while ((host = search->scope_stale[scope]) >= 0)
	{
		int32_t		capacity = host_capacity(quest, host, at);

		search->scope_stale[scope] = search->stale[host];
		search->is_stale[host] = false;
		search->scope_capacity[scope] += capacity - search->capacity[host];
		search->capacity[host] = capacity;
	}
	return search->scope_capacity[scope] >= quest->wanted;
}

/*
 * Records the scope of a host that has gained capacity.
 */
static void
host_grew(Quest *quest, int32_t host)
{
	TimeSearch *search = quest->search;
	int32_t		scope = search->scope[host];

	make_stale(quest, host);
	if (search->is_touched[scope])
		return;
	search->is_touched[scope] = true;
	search->touched[quest->n_touched++] = scope;
}

/*
 * Processes the end of a job: its devices are free from then on.
 */
static void
end_pass(Quest *quest, const End *end)
{
	TimeSearch *search = quest->search;
	const Host *h = &quest->cycle->hosts[end->host];
	int32_t		gpus = __builtin_popcountll(end->part.devices);

	if (gpus > h->gpus - search->bound[end->host])
		gpus = h->gpus - search->bound[end->host];
	search->bound[end->host] += gpus;
	search->scope_bound[search->scope[end->host]] += gpus;
	host_grew(quest, end->host);
}

/*
 * The next end, or NULL.
 */
static const End *
next_end(const Quest *quest)
{
	const Timeline *timeline = quest->cycle->timeline;

	return quest->next_end < timeline->n_by_time ?
		&timeline->ends[timeline->by_time[quest->next_end]] : NULL;
}

/*
 * The next hold in an order by beginning or by end, or NULL.
 */
static const Reservation *
next_hold(const Quest *quest, const int32_t *order, int32_t next)
{
	const Timeline *timeline = quest->cycle->timeline;

	return next < timeline->n_holds ? &timeline->holds[order[next]] : NULL;
}

/*
 * The first instant at which a job of the request would reach into a hold.
 */
static int64_t
first_conflict(const Quest *quest, const Reservation *hold)
{
	return hold->from - quest->request->wall_limit + 1;
}

static int64_t
earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/*
 * The next instant at which any host changes, or before if that is earlier.
 */
static int64_t
quest_next(const Quest *quest, int64_t before)
{
	const Timeline *timeline = quest->cycle->timeline;
	const End  *end = next_end(quest);
	const Reservation *until = next_hold(quest, timeline->by_until,
										 quest->next_until);
	const Reservation *from = next_hold(quest, timeline->by_from,
										quest->next_from);
	const Reservation *seen = next_hold(quest, timeline->by_from,
										quest->next_seen);
	int64_t		at = before;

	if (end != NULL)
		at = earlier(at, end->at);
	if (until != NULL)
		at = earlier(at, until->until);
	if (from != NULL)
		at = earlier(at, from->from);
	if (seen != NULL && quest->request->wall_limit < DECIDE_NEVER)
		at = earlier(at, first_conflict(quest, seen));
	return at;
}

/*
 * Processes all changes up to an instant.
 */
static void
quest_pass(Quest *quest, int64_t at)
{
	const Timeline *timeline = quest->cycle->timeline;
	const int32_t *scope = quest->search->scope;
	const End  *end;
	const Reservation *hold;

	while ((end = next_end(quest)) != NULL && end->at <= at)
	{
		if (scope[end->host] >= 0)
			end_pass(quest, end);
		quest->next_end++;
	}
	while ((hold = next_hold(quest, timeline->by_until,
							 quest->next_until)) != NULL && hold->until <= at)
	{
		if (scope[hold->host] >= 0)
			host_grew(quest, hold->host);
		quest->next_until++;
	}
	while ((hold = next_hold(quest, timeline->by_from,
							 quest->next_from)) != NULL && hold->from <= at)
	{
		if (scope[hold->host] >= 0)
			host_grew(quest, hold->host);
		quest->next_from++;
	}
	while (quest->request->wall_limit < DECIDE_NEVER &&
		   (hold = next_hold(quest, timeline->by_from,
							 quest->next_seen)) != NULL &&
		   first_conflict(quest, hold) <= at)
	{
		if (scope[hold->host] >= 0)
			make_stale(quest, hold->host);
		quest->next_seen++;
	}
}

/*
 * Examines the moments in order of time.  Returns the first instant in [floor,
 * before) at which some scope has room for the request, or DECIDE_NEVER.
 */
static int64_t
quest_walk(Quest *quest, int64_t floor, int64_t before)
{
	TimeSearch *search = quest->search;
	int32_t		steps = 0;
	int32_t		i;

	/*
	 * what ends before floor frees devices, but the result is not earlier
	 * than floor
	 */
	quest_pass(quest, earlier(floor, before) - 1);
	for (;;)
	{
		int64_t		at = quest_next(quest, before);

		if (at >= before)
			return DECIDE_NEVER;
		if (++steps % 1024 == 0)
			DecidePoll(quest->cycle->arena);
		while (quest->n_touched > 0)
			search->is_touched[search->touched[--quest->n_touched]] = false;
		quest_pass(quest, at);
		for (i = 0; i < quest->n_touched; i++)
		{
			if (scope_suffices(quest, search->touched[i], at))
				return at;
		}
	}
}

/*
 * Returns the first instant in [floor, before) at which the request could
 * start with this offer (NULL for a request without GPUs), DECIDE_NEVER if
 * none is known, or DECIDE_OUT_OF_MEMORY.
 *
 * For an elastic request the capacity is computed for its largest size, which
 * gives an upper bound for all sizes.  The caller finds out whether the
 * request really fits, and continues the search if it does not.
 */
static int64_t
search_earliest(Cycle *cycle, const DecideRequestClass *request,
				const DecideOffer *offer,
				int64_t floor, int64_t before)
{
	Quest		quest = {.cycle = cycle, .search = &cycle->timeline->search,
		.request = request, .offer = offer};

	if (!search_open(cycle) || !DecideHostsGroup(cycle))
		return DECIDE_OUT_OF_MEMORY;
	quest.range.type = DECIDE_NO_TYPE;
	quest.range.n = cycle->n_hosts;
	if (offer != NULL)
	{
		quest.range = DecideHostsOfType(cycle, offer->type);
		quest.hosts = cycle->by_type + quest.range.first;
	}
	quest.one_host = request->max_gpus < 2;
	quest.count = request->max_gpus;
	quest.wanted = quest.one_host ? 1 : request->min_gpus;
	quest_begin(&quest);
	return quest_walk(&quest, floor, before);
}

#define MOST_TRIES	64			/* most instants that are tried for an elastic
								 * request */

/*
 * Computes the hosts as they will be for a request that starts at an instant.
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
 * Lets placement find devices for a job on the hosts as they will be at a
 * later time, and reserves them.
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
	outcome = DecideTryOffers(&future, &state, job, request, offer, 1);
	cycle->reservations_capacity = future.reservations_capacity;
	cycle->reserved_capacity = future.reserved_capacity;
	return outcome;
}

/*
 * Finds the offer with the earliest time from floor on; for the first n_tried
 * offers the time must be later than floor.  *at is the time, *best the offer
 * or -1.  Returns false if memory runs out.
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
		int64_t		found = search_earliest(cycle, request,
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
 * The time at which a part is free if all jobs that hold it run up to their
 * limits.
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
 * Adds holds to the timeline for the reservation that was just made.  Returns
 * false if memory runs out.
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
 * The earliest time at which a job of a class with this wall limit can have a
 * reservation, by what earlier searches found.
 */
static int64_t
class_floor(const Cycle *cycle, const EquivalenceClass *class,
			int64_t wall_limit)
{
	int64_t		floor = cycle->input->now;
	int32_t		i;

	DecideAssert(class != NULL);
	DecideAssert(wall_limit > 0);
	for (i = 0; i < class->n_floors; i++)
	{
		if (class->floors[i].wall_limit <= wall_limit &&
			class->floors[i].at > floor)
			floor = class->floors[i].at;
	}
	return floor;
}

/*
 * Records the earliest time found for a job with this wall limit.  Returns
 * false if memory runs out.
 */
static bool
class_reserved(const Cycle *cycle, EquivalenceClass *class,
			   int64_t wall_limit,
			   int64_t at)
{
	ClassFloor *kept = class->floors;
	int32_t		n = 0;
	int32_t		i;

	DecideAssert(wall_limit > 0);
	DecideAssert(at >= cycle->input->now);
	for (i = 0; i < class->n_floors; i++)
	{
		if (kept[i].wall_limit < wall_limit || kept[i].at > at)
			kept[n++] = kept[i];
	}
	class->floors = DecideGrow(cycle->arena, class->floors, n,
							   &class->floors_capacity, sizeof(ClassFloor));
	if (class->floors == NULL)
		return false;
	class->floors[n].wall_limit = wall_limit;
	class->floors[n].at = at;
	class->n_floors = n + 1;
	return true;
}

/*
 * Makes a reservation, if there is a time for it.  A search may find a time at
 * which an elastic request does not fit after all; then the other offers are
 * tried for that time, too.
 */
static PlaceOutcome
reservation_make(Cycle *cycle, int32_t job)
{
	const DecideRequestClass *request = DecideJobRequest(cycle, job);
	EquivalenceClass *class = DecideClassOf(cycle, job);
	int64_t		floor = class_floor(cycle, class, request->wall_limit);
	int32_t		n_tried = 0;
	int32_t		tries;

	for (tries = 0; tries < MOST_TRIES && floor < DECIDE_NEVER; tries++)
	{
		const DecideOffer *given;
		PlaceOutcome outcome;
		int32_t		offer;

		if (!earliest_offer(cycle, request, floor, n_tried, &offer, &floor) ||
			!class_reserved(cycle, class, request->wall_limit, floor))
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
 * The number of an organisation's account, of which a job's account is one.
 */
static int32_t
organisation_of(const DecideInput *input, int32_t job)
{
	int32_t		account = input->jobs[job].account;

	DecideAssert(account >= 0 && account < input->n_accounts);
	while (input->accounts[account].parent >= 0)
		account = input->accounts[account].parent;
	return account;
}

/*
 * Whether as many jobs with a filter of a job's organisation have reservations
 * as may.  A tenant who chooses busy nodes makes his jobs wait while others
 * start, which costs him nothing.  Without this limit he could use up all
 * reservations so.
 */
static bool
filtered_enough(const Cycle *cycle, int32_t job)
{
	return DecideJobRequest(cycle, job)->filter != NULL &&
		cycle->n_filtered != NULL &&
		cycle->n_filtered[organisation_of(cycle->input, job)] >=
		DECIDE_MOST_FILTERED;
}

/*
 * Whether jobs of a job's request that cannot start may have reservations, as
 * far as is known.  Guarantees are not considered here.
 */
static bool
may_reserve(const Cycle *cycle, int32_t job)
{
	const DecideRequestClass *request = DecideJobRequest(cycle, job);
	int64_t		limit = request->wall_limit;

	if (request->unpaid)
		return false;
	if (class_floor(cycle, DecideClassOf(cycle, job), limit) ==
		DECIDE_NEVER)
		return false;
	return DecideJobAged(cycle->input, job) ?
		cycle->n_aged < DECIDE_MOST_AGED :
		cycle->n_deep < cycle->input->policy.backfill_depth;
}

/*
 * Adds a new reservation to what quotas count as reserved, and to the numbers
 * of reservations.  Returns false if memory runs out.
 */
static bool
reservation_count(Cycle *cycle, int32_t job)
{
	const DecideResult *result = cycle->result;
	const DecideReservation *made =
	&result->reservations[result->n_reservations - 1];
	const DecideJob *j = &cycle->input->jobs[job];
	DecideUse	use = DecideJobUse(&cycle->input->requests[j->request],
								   made->type, made->gpus);

	DecideQuotaAdd(cycle, j->account, made->type, &use, true);
	if (DecideJobAged(cycle->input, job))
		cycle->n_aged++;
	else
		cycle->n_deep++;
	if (cycle->input->requests[j->request].filter == NULL)
		return true;
	if (cycle->n_filtered == NULL)
	{
		size_t		size = (size_t) cycle->input->n_accounts *
			sizeof(int32_t);

		cycle->n_filtered = DecideAlloc(cycle->arena,
										cycle->input->n_accounts,
										sizeof(int32_t));
		if (cycle->n_filtered == NULL)
			return false;
		memset(cycle->n_filtered, 0, size);
	}
	cycle->n_filtered[organisation_of(cycle->input, job)]++;
	return true;
}

/*
 * Reserves devices for a job that cannot start now, if it may have a
 * reservation and quotas allow it in addition to what else is reserved.  *more
 * tells whether other jobs of its request may get a reservation, too.  Returns
 * false if memory runs out.
 */
bool
DecideReserve(Cycle *cycle, int32_t job, bool *more)
{
	const DecideRequestClass *request =
	&cycle->input->requests[cycle->input->jobs[job].request];
	struct QuotaFilter *filter = cycle->filter;
	PlaceOutcome outcome = OUTCOME_NO_FIT;
	bool		held;

	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	DecideAssert(!cycle->reserving);
	*more = may_reserve(cycle, job);
	if ((!*more || filtered_enough(cycle, job)) &&
		(request->unpaid || !DecideJobGuaranteed(cycle, job)))
		return true;
	if (!DecideTimelineOpen(cycle, request->wall_limit))
		return false;
	if (!DecideQuotaFilter(cycle, job, true, &held))
		return false;
	if (held)
		cycle->result->held_beside[job] = true;
	else
		outcome = reservation_make(cycle, job);
	if (outcome == OUTCOME_STARTED && !reservation_count(cycle, job))
		return false;
	cycle->filter = filter;
	*more = may_reserve(cycle, job);
	return outcome != OUTCOME_OUT_OF_MEMORY;
}

/*
 * The first instant after this one at which anything changes on the hosts of a
 * previous reservation.
 */
static int64_t
next_change(const Cycle *cycle, const DecidePreviousReservation *previous,
			int64_t after)
{
	const Timeline *timeline = cycle->timeline;
	int64_t		next = DECIDE_NEVER;
	int32_t		p;
	int32_t		i;

	for (p = previous->first_part;
		 p < previous->first_part + previous->n_parts; p++)
	{
		int32_t		host = timeline->node_host
			[cycle->input->previous_parts[p].node];

		for (i = timeline->first_end[host]; i >= 0; i = timeline->ends[i].next)
		{
			if (timeline->ends[i].at > after && timeline->ends[i].at < next)
				next = timeline->ends[i].at;
		}
		for (i = timeline->first_hold[host]; i >= 0;
			 i = timeline->holds[i].next)
		{
			if (timeline->holds[i].until > after &&
				timeline->holds[i].until < next)
				next = timeline->holds[i].until;
		}
	}
	return next;
}

/*
 * Whether a previous reservation that is made again at an instant begins by
 * the guaranteed time, even if the jobs on its devices run up to their limits.
 */
static bool
is_in_time(const Cycle *cycle, const DecidePreviousReservation *previous,
		   const DecideRequestClass *request, int64_t at)
{
	int32_t		p;

	for (p = previous->first_part;
		 p < previous->first_part + previous->n_parts; p++)
	{
		DecidePart	part = cycle->input->previous_parts[p];

		part.cpu_milli = request->cpu_milli;
		part.memory_mib = request->memory_mib;
		if (part_limit(cycle->timeline, &part, at) > previous->latest)
			return false;
	}
	return true;
}

/*
 * Tries to reserve the devices of a previous reservation again, from an
 * instant on.
 */
static PlaceOutcome
again_try(Cycle *cycle, int32_t job, const DecideRequestClass *request,
		  int64_t at)
{
	const DecidePreviousReservation *previous = cycle->previous[job];
	Timeline   *timeline = cycle->timeline;
	Cycle		future;
	PlaceOutcome outcome;
	int32_t		p;

	for (p = previous->first_part;
		 p < previous->first_part + previous->n_parts; p++)
	{
		int32_t		host =
		timeline->node_host[cycle->input->previous_parts[p].node];

		DecideAvailabilityAt(cycle, host, at, request->wall_limit,
							 &timeline->future[host]);
	}
	future = *cycle;
	future.hosts = timeline->future;
	future.reserving = true;
	future.at = at;
	outcome = DecidePreviousTry(&future, job, request,
								request->max_gpus == 0 ? NULL :
								request->offers, request->n_offers);
	cycle->reservations_capacity = future.reservations_capacity;
	cycle->reserved_capacity = future.reserved_capacity;
	return outcome;
}

/*
 * Reserves the devices of a due reservation again, at the earliest time at
 * which exactly these are free.  *reserved becomes true if that is by the
 * guaranteed time and quotas allow it in addition to what else is reserved.
 * Returns false if memory runs out.
 */
bool
DecideReserveAgain(Cycle *cycle, int32_t job, bool *reserved)
{
	const DecidePreviousReservation *previous = cycle->previous[job];
	const DecideRequestClass *request =
	&cycle->input->requests[cycle->input->jobs[job].request];
	PlaceOutcome outcome = OUTCOME_NO_FIT;
	bool		held;
	int64_t		at;

	*reserved = false;
	if (request->unpaid)
		return true;
	if (!DecideTimelineOpen(cycle, request->wall_limit) ||
		!DecideQuotaFilter(cycle, job, true, &held))
		return false;
	if (held)
	{
		cycle->result->held_beside[job] = true;
		return true;
	}
	request = DecideJobRequest(cycle, job);
	for (at = next_change(cycle, previous, cycle->input->now);
		 at <= previous->latest && outcome == OUTCOME_NO_FIT &&
		 is_in_time(cycle, previous, request, at);
		 at = next_change(cycle, previous, at))
		outcome = again_try(cycle, job, request, at);
	if (outcome == OUTCOME_STARTED && !reservation_hold(cycle, request))
		outcome = OUTCOME_OUT_OF_MEMORY;
	if (outcome == OUTCOME_STARTED && !reservation_count(cycle, job))
		return false;
	*reserved = outcome == OUTCOME_STARTED;
	return outcome != OUTCOME_OUT_OF_MEMORY;
}

/*
 * Whether anything that is free is withheld from the job whose turn it is
 * because of reservations.
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
 * Finds whether a job would start now if nothing were reserved.  *type is set
 * to the type that it would get.
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

	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	DecideAssert(type != NULL);
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
