/*
 * search.c
 *	  When could a request start, as things are expected to go?
 *
 * The moments at which a host has more are the ends on it, the expected ends
 * of its holds, and their starts: who starts no sooner than a hold finds gone
 * what is expected to be, though beside the hold it counts by its limit.  From
 * the moment a job that starts there would live to see a hold, it has less for
 * it.  All of them are walked in order of time.  Hosts
 * are added up over scopes: one host, an NVLink domain, a leaf, the type, as
 * the request's topology says; a scope can take the request exactly when the room of
 * its hosts adds up to it.
 *
 * To be quick each host has a bound, its free devices, which counting ends
 * keeps up to date.  Only in a scope whose bounds suffice the hosts that
 * changed since are looked at, with all they have.
 */
#include <string.h>

#include "decide/timeline.h"

/* One search. */
typedef struct Quest
{
	Cycle	   *cycle;
	TimeSearch *search;
	const DecideRequestClass *request;
	const DecideOffer *offer;
	const int32_t *hosts;		/* NULL: all */
	TypeRange	range;
	int32_t		count;			/* room is for a job of so many devices */
	int64_t		wanted;			/* room that a scope must have */
	bool		one_host;
	int32_t		n_touched;

	/* what comes next of each list */
	int32_t		next_end;
	int32_t		next_seen;
	int32_t		next_from;
	int32_t		next_until;
} Quest;

/*
 * Get the scratch of searches, once a cycle.  False: out of memory.
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
 * A host is to be looked at again.
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
 * Set up the hosts as they are now, all of them yet to be looked at.
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
 * What a host can take of the request at an instant, with all it has.
 */
static int32_t
host_capacity(Quest *quest, int32_t host, int64_t at)
{
	const DecideRequestClass *request = quest->request;
	Host		seen;

	DecideAvailabilityAt(quest->cycle, host, at, request->wall_limit, &seen);
	if (quest->one_host)
		return DecideFitTakes(&seen, request, quest->offer, request->min_gpus);
	return DecideFitCapacity(&seen, request->cpu_milli, request->memory_mib,
							 quest->count);
}

/*
 * Can a scope take the request now?
 */
static bool
scope_suffices(Quest *quest, int32_t scope, int64_t at)
{
	TimeSearch *search = quest->search;
	int32_t		host;

	/* a shared device has room without being free */
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
 * A host has more: remember its scope.
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
 * What ends gives its devices back.
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
 * The next of the ends.
 */
static const End *
next_end(const Quest *quest)
{
	const Timeline *timeline = quest->cycle->timeline;

	return quest->next_end < timeline->n_by_time ?
		&timeline->ends[timeline->by_time[quest->next_end]] : NULL;
}

/*
 * The next of the holds to be over, or to start.
 */
static const Reservation *
next_hold(const Quest *quest, const int32_t *order, int32_t next)
{
	const Timeline *timeline = quest->cycle->timeline;

	return next < timeline->n_holds ? &timeline->holds[order[next]] : NULL;
}

/*
 * The first instant at which a job of the request would live to see a hold.
 */
static int64_t
seen_from(const Quest *quest, const Reservation *hold)
{
	return hold->from - quest->request->wall_limit + 1;
}

/*
 * The earlier of two instants.
 */
static int64_t
earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/*
 * The next instant at which any host has more or less, or the one given if
 * that is earlier.
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
		at = earlier(at, seen_from(quest, seen));
	return at;
}

/*
 * Pass over all that happens until an instant.
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
		   seen_from(quest, hold) <= at)
	{
		if (scope[hold->host] >= 0)
			make_stale(quest, hold->host);
		quest->next_seen++;
	}
}

/*
 * Walk through time: the first instant, from floor on and before another, at
 * which some scope can take the request, else DECIDE_NEVER.
 */
static int64_t
quest_walk(Quest *quest, int64_t floor, int64_t before)
{
	TimeSearch *search = quest->search;
	int32_t		steps = 0;
	int32_t		i;

	/* until floor it is only to be known who is there */
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
 * When could the request start with this offer (NULL: without GPUs), from floor on
 * and before another instant?  DECIDE_NEVER: not then, as far as anyone can
 * say; DECIDE_OUT_OF_MEMORY.
 *
 * An elastic request has more room the more devices it has, so that for the
 * largest is what no size of it can exceed: the caller finds out whether it
 * really fits, and requests on.
 */
int64_t
DecideSearch(Cycle *cycle, const DecideRequestClass *request,
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
