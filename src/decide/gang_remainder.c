/*
 * gang_remainder.c
 *	  Which host, domain or leaf takes the rest of a gang best.
 *
 * The rest is what is wanted once nothing more is filled whole.  There is a
 * tournament for each that came up lately, as how well a piece suits it depends
 * on how much it is.  Where it is not there and only few pieces are asked
 * about, they are looked at instead.
 */
#include "decide/gangs.h"

#define FEW	8					/* one in so many */

/*
 * Does a piece suit the rest of a gang better than another?
 */
static bool
remainder_before(const void *context, int32_t a, int32_t b)
{
	const GangRemainder *remainder = context;

	if (DecideFitLess(remainder->keys[a], remainder->keys[b]))
		return true;
	return !DecideFitLess(remainder->keys[b], remainder->keys[a]) &&
		remainder->turn[a] < remainder->turn[b];
}

/*
 * How well a piece suits the rest of a gang, whatever leaves are in use: as
 * plans compare, and hosts by what ranks them and their number.
 */
FitKey
DecideGangRemainderKey(const Look *look, const GangUnits *units, int32_t unit,
					   int32_t wanted)
{
	Plan	   *part = &look->cycle->gang->part;
	FitKey		key = FIT_NONE;

	if (units->capacity[unit] < wanted)
		return key;
	if (units->unit == GANG_HOST)
	{
		int32_t		host = units->layout->hosts[unit];

		key.high = DecidePartRank(look->cycle, &look->request, host, wanted);
		key.low = (uint64_t) host;
		return key;
	}
	DecidePlanClear(part);
	DecideGangUnitsFill(look, units, unit, wanted, part);
	key.high = (uint64_t) part->n << 32 |
		(uint64_t) (part->loss - INT32_MIN);
	key.low = (uint64_t) part->free_left << 38 |
		(uint64_t) (units->capacity[unit] - wanted) << 16 |
		(uint64_t) part->cache_misses;
	return key;
}

/*
 * The tournament for a rest, or where it would be.
 */
GangRemainder *
DecideGangRemainderOf(GangUnits *units, int32_t wanted)
{
	return &units->remainders[wanted % GANG_REMAINDERS];
}

/*
 * Have a tournament for a rest.  False: out of memory.
 */
static bool
remainder_build(const Look *look, GangUnits *units, int32_t wanted)
{
	const DecideArena *arena = look->cycle->arena;
	GangRemainder *remainder = DecideGangRemainderOf(units, wanted);
	int32_t		n = units->best.n;
	int32_t		i;

	if (remainder->keys == NULL)
	{
		remainder->turn = units->layout->turn[units->unit];
		remainder->keys = DecideAlloc(arena, n, sizeof(FitKey));
		if (remainder->keys == NULL ||
			!TournamentAlloc(arena, &remainder->best, n, remainder_before,
							 remainder))
			return false;
	}
	remainder->wanted = wanted;
	for (i = 0; i < n; i++)
		remainder->keys[i] = DecideGangRemainderKey(look, units, i, wanted);
	TournamentFill(&remainder->best);
	DecidePoll(arena);
	return true;
}

/*
 * A piece may suit a rest better or worse now.
 */
void
DecideGangRemainderUpdate(const Look *look, GangUnits *units,
						  GangRemainder *remainder, int32_t unit)
{
	FitKey		key = DecideGangRemainderKey(look, units, unit,
											 remainder->wanted);

	if (key.high == remainder->keys[unit].high &&
		key.low == remainder->keys[unit].low)
		return;
	remainder->keys[unit] = key;
	TournamentReplay(&remainder->best, unit);
}

/*
 * The piece of a stretch that takes the rest of a gang best, by looking at
 * each; -1: none has room.
 */
static int32_t
remainder_scan(const Look *look, const GangUnits *units, int32_t wanted,
			   Stretch among)
{
	const int64_t *turn = units->layout->turn[units->unit];
	FitKey		best = FIT_NONE;
	int32_t		found = -1;
	int32_t		i;

	for (i = among.first; i < among.first + among.n; i++)
	{
		FitKey		key = DecideGangRemainderKey(look, units, i, wanted);

		if (DecideFitLess(key, best) ||
			(found >= 0 && !DecideFitLess(best, key) && turn[i] < turn[found]))
		{
			best = key;
			found = i;
		}
	}
	return found;
}

/*
 * The piece of a stretch that takes the rest of a gang best; -1: none has
 * room, -2: out of memory.
 */
int32_t
DecideGangRemainderBest(const Look *look, GangUnits *units, int32_t wanted,
						Stretch among)
{
	GangRemainder *remainder = DecideGangRemainderOf(units, wanted);
	int32_t		found;

	if (remainder->wanted != wanted)
	{
		if (among.n < units->best.n / FEW)
			return remainder_scan(look, units, wanted, among);
		if (!remainder_build(look, units, wanted))
			return -2;
	}
	found = TournamentBest(&remainder->best, among.first, among.first +
						   among.n);
	return remainder->keys[found].high == UINT64_MAX ? -1 : found;
}
