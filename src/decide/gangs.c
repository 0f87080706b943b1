/*
 * gangs.c
 *	  Where gangs of one request go best, kept up to date as hosts change.
 *
 * What gang.c finds by looking at every host is found here by tournaments, the
 * same plan to the last host.  The first gang of a request is looked for there,
 * as many classes have one job only, and so are those of ranges, and all where a
 * domain is below several leaves.
 *
 * Three things are asked again and again.  What to fill whole next is one
 * tournament over hosts, domains or leaves, whatever the gang is to have few
 * of; those below a leaf are a stretch of it.  Which of them takes the rest
 * best is another, one for each rest that came up lately.  Which leaf or domain
 * takes a gang best as a whole is the third: the plan for each is kept until a
 * host of it changes.  So a start costs what the hosts it uses, and those that
 * changed since the last, cost in walks to the root.
 *
 * What holds the cache of a job counts as changed when the next one wants
 * another.
 */
#include "decide/gangs.h"

/*
 * Plan the gang within a stretch of pieces that has room for it.  False: out
 * of memory.
 */
static bool
gang_plan(const Look *look, GangUnits *units, Stretch among, int64_t capacity,
		  Plan *plan)
{
	Gangs	   *gangs = look->gangs;
	GangScratch *gang = look->cycle->gang;
	uint64_t	stamp = ++gang->stamp;
	int32_t		wanted = look->request.count;
	int32_t		n_used = 0;
	int32_t		n = 0;
	int32_t		unit;

	DecidePlanClear(plan);
	plan->spare = capacity - wanted;
	for (;;)
	{
		int32_t		leaf;

		unit = DecideGangUnitsNext(look, units, among, &n_used);
		if (units->capacity[unit] >= wanted)
			break;
		DecideGangUnitsFill(look, units, unit, units->capacity[unit], plan);
		wanted -= units->capacity[unit];
		gangs->taken[n] = unit;
		gangs->taken_capacity[n++] = units->capacity[unit];
		DecideGangUnitsCapacity(units, unit, 0);
		plan->domains++;
		leaf = DecideGangUnitsLeaf(units, unit);
		if (units->unit == GANG_HOST || gang->leaf_seen[leaf] == stamp)
			continue;
		gang->leaf_seen[leaf] = stamp;
		gangs->used[n_used++] = leaf;
		plan->leaves++;
	}
	DecideGangUnitsTaken(look, units, n, wanted, true);
	unit = DecideGangUnitsLast(look, units, wanted, among, n_used);
	if (unit < 0)
		return false;
	DecideGangUnitsFill(look, units, unit, wanted, plan);
	plan->domains++;
	plan->leaves += gang->leaf_seen[DecideGangUnitsLeaf(units, unit)] != stamp;
	DecideGangUnitsTaken(look, units, n, wanted, false);
	if (units->unit != GANG_DOMAIN)
		DecidePlanCount(look->cycle, plan);
	return true;
}

/*
 * Plan the gang within one scope, if it has room.  False: out of memory.
 */
static bool
scope_plan(const Look *look, const Scopes *scopes, int32_t scope, Plan *plan)
{
	Gangs	   *gangs = look->gangs;
	const GangLayout *layout = gangs->layout;
	Stretch		hosts = layout->units[scopes->unit][scope];
	int64_t		capacity = 0;
	int32_t		i;

	DecidePlanClear(plan);
	if (scopes->unit == GANG_LEAF)
		capacity = gangs->leaf_capacity[scope];
	else
	{
		for (i = hosts.first; i < hosts.first + hosts.n; i++)
			capacity += gangs->capacity[layout->hosts[i]];
	}
	return capacity < gangs->count ||
		gang_plan(look, &gangs->units,
				  DecideGangLayoutUnits(layout, gangs->units.unit, hosts),
				  capacity, plan);
}

/*
 * Plan the gang within a scope and keep what there is to say about it.  False:
 * out of memory.
 */
bool
DecideScopeKeep(const Look *look, Scopes *scopes, int32_t scope)
{
	Plan	   *trial = &look->cycle->gang->trial;

	if (!scope_plan(look, scopes, scope, trial))
		return false;
	scopes->plans[scope] = *trial;
	scopes->plans[scope].hosts = scopes->plans[scope].gpus = NULL;
	return true;
}

/*
 * What a host can take of a gang.
 */
uint8_t
DecideGangsCapacity(const Look *look, const DecideOffer *offer, int32_t index)
{
	const Host *host = &look->cycle->hosts[index];
	const DecideRequestClass *request = look->request.request;

	return (uint8_t) (!DecideFitAllowed(host, request, offer) ? 0 :
					  DecideFitCapacity(host, request->cpu_milli,
										request->memory_mib,
										look->request.count));
}

/*
 * The position of a host of the type.
 */
static int32_t
position_of(const Look *look, int32_t host)
{
	return look->gangs->layout->position[look->cycle->hosts[host].place];
}

/*
 * List the hosts of the type that changed since the last look, and those for
 * which that was for another cache.
 */
static int32_t
changed_list(const Look *look, int32_t type, int32_t cache)
{
	Cycle	   *cycle = look->cycle;
	Gangs	   *gangs = look->gangs;
	int32_t		caches[2] = {gangs->cache, cache};
	int32_t		n = 0;
	int32_t		i;
	int32_t		c;

	for (i = cycle->latest; i >= 0 && cycle->hosts[i].changed > gangs->synced;
		 i = cycle->hosts[i].older)
	{
		if (cycle->hosts[i].type == type)
			gangs->changed[n++] = i;
	}
	gangs->synced = cycle->changes;
	gangs->cache = cache;
	for (c = 0; c < 2 && caches[0] != caches[1]; c++)
	{
		int32_t		n_holders;
		const DecideCached *holders = DecideCachedHolders(cycle, caches[c],
														  &n_holders);

		for (i = 0; i < n_holders; i++)
		{
			if (cycle->hosts[holders[i].node].type == type)
				gangs->changed[n++] = holders[i].node;
		}
	}
	return n;
}

/*
 * Plan again within the scopes that have hosts that changed.  False: out of
 * memory.
 */
static bool
scopes_update(const Look *look, Scopes *scopes, int32_t n)
{
	const Gangs *gangs = look->gangs;
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		int32_t		scope = gangs->layout->unit_of[scopes->unit]
			[position_of(look, gangs->changed[i])];

		if (scopes->seen[scope] == gangs->looks)
			continue;
		scopes->seen[scope] = gangs->looks;
		if (!DecideScopeKeep(look, scopes, scope))
			return false;
		TournamentReplay(&scopes->best, scope);
	}
	return true;
}

/*
 * See what changed since the last look.  False: out of memory.
 */
static bool
gangs_sync(const Look *look, const DecideOffer *offer, int32_t cache)
{
	Gangs	   *gangs = look->gangs;
	const GangLayout *layout = gangs->layout;
	int32_t		n = changed_list(look, offer->type, cache);
	int32_t		i;
	int			s;

	gangs->looks++;
	for (i = 0; i < n; i++)
	{
		int32_t		host = gangs->changed[i];
		int32_t		position = position_of(look, host);
		int32_t		leaf = layout->unit_of[GANG_LEAF][position];
		int32_t		capacity = DecideGangsCapacity(look, offer, host);
		int32_t		more = capacity - gangs->capacity[host];

		gangs->capacity[host] = (uint8_t) capacity;
		gangs->total += more;
		gangs->leaf_capacity[leaf] += more;
		gangs->units.capacity[layout->unit_of[gangs->units.unit]
							  [position]] += more;
		if (gangs->leaves.best.n > 0)
			gangs->leaves.capacity[leaf] += more;
	}
	for (i = 0; i < n; i++)
	{
		DecideGangUnitsUpdate(look, &gangs->units,
							  position_of(look, gangs->changed[i]));
		DecideGangUnitsUpdate(look, &gangs->leaves,
							  position_of(look, gangs->changed[i]));
	}
	for (s = 0; s < 2; s++)
	{
		if (gangs->scopes[s] != NULL &&
			!scopes_update(look, gangs->scopes[s], n))
			return false;
	}
	return true;
}

/*
 * Keep the best plan of what was looked at: of the scopes, and over all hosts.
 * False: out of memory.
 */
static bool
choose(const Look *look)
{
	Gangs	   *gangs = look->gangs;
	GangScratch *gang = look->cycle->gang;
	DecideTopology prefer = look->request.request->prefer;
	const Scopes *best_of = NULL;
	const Plan *best = NULL;
	int32_t		best_scope = -1;
	int			s;

	for (s = 0; s < 2; s++)
	{
		const Scopes *scopes = gangs->scopes[s];
		int32_t		scope;

		if (scopes == NULL)
			continue;
		scope = TournamentBest(&scopes->best, 0, scopes->best.n);
		if (scopes->plans[scope].n == 0 ||
			(best != NULL &&
			 DecidePlanCompare(&scopes->plans[scope], best, prefer) >= 0))
			continue;
		best_of = scopes;
		best_scope = scope;
		best = &scopes->plans[scope];
	}
	if (gangs->anywhere)
	{
		Stretch		all = {0, gangs->over_all->best.n};

		if (!gang_plan(look, gangs->over_all, all, gangs->total, &gang->best))
			return false;
		if (best == NULL || DecidePlanCompare(&gang->best, best, prefer) < 0)
			return true;
	}
	DecidePlanClear(&gang->best);
	return best == NULL ||
		scope_plan(look, best_of, best_scope, &gang->best);
}

/*
 * Find hosts for a gang of a job that wants to find this cache, whose hosts are
 * marked: *plan, valid until the next call, or NULL.  False: out of memory.
 */
bool
DecideGangsFind(Cycle *cycle, Gangs *gangs, const DecideRequestClass *request,
				const DecideOffer *offer, int32_t cache, Plan **plan)
{
	Look		look = {cycle, gangs, {request, gangs->count}};
	uint8_t    *capacity = cycle->gang->capacity;
	bool		found = true;

	*plan = NULL;
	if (gangs->layout == NULL)
		return true;
	if (gangs->layout->crossed)
	{
		*plan = DecideGangFind(cycle, request, offer, gangs->count);
		return true;
	}
	cycle->gang->capacity = gangs->capacity;
	found = gangs_sync(&look, offer, cache);
	if (found && gangs->total >= gangs->count)
	{
		found = choose(&look);
		if (found && cycle->gang->best.n > 0)
			*plan = &cycle->gang->best;
	}
	cycle->gang->capacity = capacity;
	DecidePoll(cycle->arena);
	return found;
}
