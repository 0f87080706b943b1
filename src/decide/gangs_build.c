/*
 * gangs_build.c
 *	  What is known of where gangs of one request go, worked out for all hosts.
 */
#include <string.h>

#include "decide/gangs.h"

/*
 * Is the plan within a scope better than that within another?
 */
static bool
scope_before(const void *context, int32_t a, int32_t b)
{
	const Scopes *scopes = context;
	const Plan *x = &scopes->plans[a];
	const Plan *y = &scopes->plans[b];
	int			order = 0;

	if (x->n == 0 || y->n == 0)
	{
		if (x->n != y->n)
			return x->n > 0;
	}
	else
		order = DecidePlanCompare(x, y, scopes->prefer);
	return order != 0 ? order < 0 : scopes->turn[a] < scopes->turn[b];
}

/*
 * Plan within all scopes of a kind.  NULL: out of memory.
 */
static Scopes *
scopes_build(const Look *look, GangUnit unit)
{
	const DecideArena *arena = look->cycle->arena;
	const GangLayout *layout = look->gangs->layout;
	int32_t		n = layout->n_units[unit];
	Scopes	   *scopes = DecideAlloc(arena, 1, sizeof(Scopes));
	int32_t		i;

	if (scopes == NULL)
		return NULL;
	scopes->unit = unit;
	scopes->prefer = look->request.request->prefer;
	scopes->turn = layout->turn[unit];
	scopes->plans = DecideAlloc(arena, n, sizeof(Plan));
	scopes->seen = DecideAlloc(arena, n, sizeof(uint64_t));
	if (scopes->plans == NULL || scopes->seen == NULL ||
		!TournamentAlloc(arena, &scopes->best, n, scope_before, scopes))
		return NULL;
	memset(scopes->seen, 0, (size_t) n * sizeof(uint64_t));
	for (i = 0; i < n; i++)
	{
		if (i % 1024 == 0)
			DecidePoll(arena);
		if (!DecideScopeKeep(look, scopes, i))
			return NULL;
	}
	TournamentFill(&scopes->best);
	return scopes;
}

/*
 * Get the scratch, and what each host and each leaf can take.  False: out of
 * memory.
 */
static bool
rooms_build(const Look *look, const DecideOffer *offer)
{
	const DecideArena *arena = look->cycle->arena;
	Gangs	   *gangs = look->gangs;
	const GangLayout *layout = gangs->layout;
	int32_t		n = layout->n;
	int32_t		i;

	gangs->capacity = DecideAlloc(arena, look->cycle->n_hosts,
								  sizeof(uint8_t));
	gangs->leaf_capacity = DecideAlloc(arena, layout->n_units[GANG_LEAF],
									   sizeof(int64_t));
	gangs->changed = DecideAlloc(arena, (int64_t) n +
								 look->cycle->input->n_cached,
								 sizeof(int32_t));
	gangs->taken = DecideAlloc(arena, n, sizeof(int32_t));
	gangs->taken_capacity = DecideAlloc(arena, n, sizeof(int32_t));
	gangs->used = DecideAlloc(arena, n, sizeof(int32_t));
	if (gangs->capacity == NULL || gangs->leaf_capacity == NULL ||
		gangs->changed == NULL || gangs->taken == NULL ||
		gangs->taken_capacity == NULL || gangs->used == NULL)
		return false;
	memset(gangs->leaf_capacity, 0,
		   (size_t) layout->n_units[GANG_LEAF] * sizeof(int64_t));
	for (i = 0; i < n; i++)
	{
		int32_t		host = layout->hosts[i];

		gangs->capacity[host] = DecideGangsCapacity(look, offer, host);
		gangs->total += gangs->capacity[host];
		gangs->leaf_capacity[layout->unit_of[GANG_LEAF][i]] += gangs->capacity[host];
	}
	return true;
}

/*
 * Set up what the request's topology and preference need.  False: out of memory.
 */
static bool
parts_build(const Look *look)
{
	Gangs	   *gangs = look->gangs;
	DecideTopology topology = look->request.request->topology;
	DecideTopology prefer = look->request.request->prefer;
	bool		by_host = prefer == DECIDE_TOPOLOGY_NODE;

	gangs->anywhere = topology == DECIDE_TOPOLOGY_ANY;
	gangs->over_all = &gangs->units;
	if (!DecideGangUnitsBuild(look, &gangs->units,
							  by_host ? GANG_HOST : GANG_DOMAIN))
		return false;
	if (gangs->anywhere && prefer == DECIDE_TOPOLOGY_LEAF)
	{
		gangs->over_all = &gangs->leaves;
		if (!DecideGangUnitsBuild(look, &gangs->leaves, GANG_LEAF))
			return false;
	}
	if (topology != DECIDE_TOPOLOGY_NVLINK)
	{
		gangs->scopes[0] = scopes_build(look, GANG_LEAF);
		if (gangs->scopes[0] == NULL)
			return false;
	}
	if (topology == DECIDE_TOPOLOGY_NVLINK || (gangs->anywhere && by_host))
	{
		gangs->scopes[1] = scopes_build(look, GANG_DOMAIN);
		if (gangs->scopes[1] == NULL)
			return false;
	}
	return true;
}

/*
 * Set up for a request of a fixed size and the hosts of an offer, while no job has
 * its turn to want a cache.  NULL: out of memory.
 */
Gangs *
DecideGangsBuild(Cycle *cycle, const DecideRequestClass *request,
				 const DecideOffer *offer)
{
	TypeRange	range = DecideHostsOfType(cycle, offer->type);
	Gangs	   *gangs = DecideAlloc(cycle->arena, 1, sizeof(Gangs));
	Look		look = {cycle, gangs, {request, request->min_gpus}};
	uint8_t    *capacity = cycle->gang->capacity;
	bool		built = true;

	if (gangs == NULL)
		return NULL;
	memset(gangs, 0, sizeof(*gangs));
	gangs->count = request->min_gpus;
	gangs->synced = cycle->changes;
	if (range.n == 0)
		return gangs;
	gangs->layout = DecideGangLayoutOf(cycle, &range);
	if (gangs->layout == NULL)
		return NULL;
	if (gangs->layout->crossed)
		return gangs;
	if (!rooms_build(&look, offer))
		return NULL;
	cycle->gang->capacity = gangs->capacity;
	built = parts_build(&look);
	cycle->gang->capacity = capacity;
	return built ? gangs : NULL;
}
