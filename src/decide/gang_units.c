/*
 * gang_units.c
 *	  What a gang fills: hosts, domains or leaves, and which of them next.
 *
 * The order is that of gang.c and group.c: roomiest first; of equals domains
 * and leaves below a leaf in use, then below the roomiest leaf, then those where
 * most hosts hold the cache, and hosts as they are ranked.  Those below a leaf
 * are a stretch of the tournament, so that leaves in use are asked one by one.
 */
#include <string.h>

#include "decide/gangs.h"

/*
 * Is a piece to be filled before another?
 */
static bool
unit_before(const void *context, int32_t a, int32_t b)
{
	const GangUnits *units = context;
	const GangLayout *layout = units->layout;

	if (units->capacity[a] != units->capacity[b])
		return units->capacity[a] > units->capacity[b];
	if (units->unit == GANG_HOST)
	{
		if (units->cache_hits[a] != units->cache_hits[b])
			return units->cache_hits[a] < units->cache_hits[b];
	}
	else
	{
		const int32_t *leaf_of = layout->unit_of[GANG_LEAF];
		const Stretch *hosts = layout->units[units->unit];
		int64_t		capacity_a = units->leaf_capacity[leaf_of[hosts[a].first]];
		int64_t		capacity_b = units->leaf_capacity[leaf_of[hosts[b].first]];

		if (capacity_a != capacity_b)
			return capacity_a > capacity_b;
		if (units->cache_hits[a] != units->cache_hits[b])
			return units->cache_hits[a] > units->cache_hits[b];
	}
	return layout->turn[units->unit][a] < layout->turn[units->unit][b];
}

/*
 * Fill devices of a piece.
 */
void
DecideGangUnitsFill(const Look *look, const GangUnits *units, int32_t unit,
					int32_t wanted, Plan *plan)
{
	const Stretch *hosts = &units->layout->units[units->unit][unit];
	GangGroup	group = {
		.hosts = units->layout->hosts + hosts->first,
		.n = hosts->n
	};

	if (group.n == 1)
		DecidePlanAdd(look->cycle, &look->request, plan, group.hosts[0],
					  wanted);
	else
		DecideGroupFill(look->cycle, &look->request, &group, wanted, plan);
}

/*
 * The leaf of a piece.
 */
int32_t
DecideGangUnitsLeaf(const GangUnits *units, int32_t unit)
{
	const GangLayout *layout = units->layout;

	return layout->unit_of[GANG_LEAF]
		[layout->units[units->unit][unit].first];
}

/*
 * The pieces below a leaf.
 */
static Stretch
below(const GangUnits *units, int32_t leaf)
{
	return DecideGangLayoutUnits(units->layout, units->unit,
								 units->layout->units[GANG_LEAF][leaf]);
}

/*
 * The piece to fill whole next.  Of equally roomy ones it is one below a leaf
 * in use; leaves that have nothing left are no longer kept among those.
 */
int32_t
DecideGangUnitsNext(const Look *look, const GangUnits *units, Stretch among,
					int32_t *n_used)
{
	int32_t    *used = look->gangs->used;
	int32_t		best = TournamentBest(&units->best, among.first,
									  among.first + among.n);
	int32_t		most = units->capacity[best];
	int32_t		found = -1;
	int32_t		i = 0;

	while (i < *n_used)
	{
		Stretch		stretch = below(units, used[i]);
		int32_t		unit = TournamentBest(&units->best, stretch.first,
										  stretch.first + stretch.n);

		if (units->capacity[unit] == 0)
		{
			used[i] = used[--*n_used];
			continue;
		}
		if (units->capacity[unit] == most &&
			(found < 0 || unit_before(units, unit, found)))
			found = unit;
		i++;
	}
	return found >= 0 ? found : best;
}

/*
 * The piece that takes the rest of a gang: one below a leaf in use, if there
 * is one that can.  -2: out of memory.
 */
int32_t
DecideGangUnitsLast(const Look *look, GangUnits *units, int32_t wanted,
					Stretch among,
					int32_t n_used)
{
	int32_t		best = -1;
	FitKey		best_key = FIT_NONE;
	int32_t		i;

	for (i = 0; i < n_used; i++)
	{
		int32_t		unit = DecideGangRemainderBest(look, units, wanted,
												   below(units, look->gangs->used[i]));
		FitKey		key;

		if (unit == -1)
			continue;
		if (unit == -2)
			return unit;
		key = DecideGangRemainderKey(look, units, unit, wanted);
		if (best < 0 || DecideFitLess(key, best_key) ||
			(!DecideFitLess(best_key, key) &&
			 units->layout->turn[units->unit][unit] <
			 units->layout->turn[units->unit][best]))
		{
			best = unit;
			best_key = key;
		}
	}
	return best >= 0 ? best : DecideGangRemainderBest(look, units, wanted,
													  among);
}

/*
 * A piece has so much room for the plan at hand.
 */
void
DecideGangUnitsCapacity(GangUnits *units, int32_t unit, int32_t capacity)
{
	units->capacity[unit] = capacity;
	TournamentReplay(&units->best, unit);
}

/*
 * What is in a plan can take none of the rest, or can again.
 */
void
DecideGangUnitsTaken(const Look *look, GangUnits *units, int32_t n,
					 int32_t wanted,
					 bool taken)
{
	const Gangs *gangs = look->gangs;
	GangRemainder *remainder = DecideGangRemainderOf(units, wanted);
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		if (!taken)
			DecideGangUnitsCapacity(units, gangs->taken[i],
									gangs->taken_capacity[i]);
		if (gangs->taken_capacity[i] >= wanted && remainder->wanted == wanted)
			DecideGangRemainderUpdate(look, units, remainder, gangs->taken[i]);
	}
}

/*
 * What speaks for a piece beside its room: how many of its hosts hold the
 * cache; and against a host, what ranks it when it is filled.
 */
static int32_t
cache_hits_of(const Look *look, const GangUnits *units, int32_t unit)
{
	const Cycle *cycle = look->cycle;
	const GangLayout *layout = units->layout;
	Stretch		hosts = layout->units[units->unit][unit];
	int32_t		cache_hits = 0;
	int32_t		i;

	if (units->unit == GANG_HOST)
		return units->capacity[unit] > 0 &&
			units->capacity[unit] < look->request.count ?
			(int32_t) DecidePartRank(cycle, &look->request,
									 layout->hosts[unit],
									 units->capacity[unit]) : 0;
	for (i = hosts.first; i < hosts.first + hosts.n && cycle->holds != NULL;
		 i++)
		cache_hits += cycle->holds[layout->hosts[i]];
	return cache_hits;
}

/*
 * A host of a piece changed.
 */
void
DecideGangUnitsUpdate(const Look *look, GangUnits *units, int32_t position)
{
	int32_t		unit;
	Stretch		all;
	int32_t		i;

	if (units->best.n == 0)
		return;
	unit = units->layout->unit_of[units->unit][position];
	units->cache_hits[unit] = cache_hits_of(look, units, unit);
	TournamentReplay(&units->best, unit);
	if (units->unit == GANG_DOMAIN)
	{
		/* to others below the leaf it is nothing new, but at both ends */
		all = below(units, DecideGangUnitsLeaf(units, unit));
		TournamentReplay(&units->best, all.first);
		TournamentReplay(&units->best, all.first + all.n - 1);
	}
	for (i = 0; i < GANG_REMAINDERS; i++)
	{
		if (units->remainders[i].wanted > 0)
			DecideGangRemainderUpdate(look, units, &units->remainders[i],
									  unit);
	}
}

/*
 * Get what there is to know of the pieces.  False: out of memory.
 */
bool
DecideGangUnitsBuild(const Look *look, GangUnits *units, GangUnit unit)
{
	const DecideArena *arena = look->cycle->arena;
	const Gangs *gangs = look->gangs;
	const GangLayout *layout = gangs->layout;
	int32_t		n = layout->n_units[unit];
	int32_t		i;

	units->unit = unit;
	units->layout = layout;
	units->leaf_capacity = gangs->leaf_capacity;
	units->capacity = DecideAlloc(arena, n, sizeof(int32_t));
	units->cache_hits = DecideAlloc(arena, n, sizeof(int32_t));
	if (units->capacity == NULL || units->cache_hits == NULL ||
		!TournamentAlloc(arena, &units->best, n, unit_before, units))
		return false;
	memset(units->capacity, 0, (size_t) n * sizeof(int32_t));
	for (i = 0; i < layout->n; i++)
		units->capacity[layout->unit_of[unit][i]] +=
			gangs->capacity[layout->hosts[i]];
	for (i = 0; i < n; i++)
		units->cache_hits[i] = cache_hits_of(look, units, i);
	TournamentFill(&units->best);
	return true;
}
