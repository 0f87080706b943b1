/*
 * rest.c
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
rest_before(const void *context, int32_t a, int32_t b)
{
	const Rest *rest = context;

	if (DecideFitLess(rest->keys[a], rest->keys[b]))
		return true;
	return !DecideFitLess(rest->keys[b], rest->keys[a]) &&
		rest->turn[a] < rest->turn[b];
}

/*
 * How well a piece suits the rest of a gang, whatever leaves are in use: as
 * plans compare, and hosts by what ranks them and their number.
 */
FitKey
DecideRestKey(const Look *look, const Pieces *pieces, int32_t piece,
			  int32_t wanted)
{
	Plan	   *part = &look->cycle->gang->part;
	FitKey		key = FIT_NONE;

	if (pieces->room[piece] < wanted)
		return key;
	if (pieces->piece == GANG_HOST)
	{
		int32_t		host = pieces->layout->hosts[piece];

		key.high = DecidePartRank(look->cycle, &look->ask, host, wanted);
		key.low = (uint64_t) host;
		return key;
	}
	DecidePlanClear(part);
	DecidePiecesFill(look, pieces, piece, wanted, part);
	key.high = (uint64_t) part->n << 32 |
		(uint64_t) (part->loss - INT32_MIN);
	key.low = (uint64_t) part->free_left << 38 |
		(uint64_t) (pieces->room[piece] - wanted) << 16 |
		(uint64_t) part->cold;
	return key;
}

/*
 * The tournament for a rest, or where it would be.
 */
Rest *
DecideRestOf(Pieces *pieces, int32_t wanted)
{
	return &pieces->rests[wanted % DECIDE_RESTS];
}

/*
 * Have a tournament for a rest.  False: out of memory.
 */
static bool
rest_build(const Look *look, Pieces *pieces, int32_t wanted)
{
	const DecideArena *arena = look->cycle->arena;
	Rest	   *rest = DecideRestOf(pieces, wanted);
	int32_t		n = pieces->best.n;
	int32_t		i;

	if (rest->keys == NULL)
	{
		rest->turn = pieces->layout->turn[pieces->piece];
		rest->keys = DecideAlloc(arena, n, sizeof(FitKey));
		if (rest->keys == NULL ||
			!DecideTreeAlloc(arena, &rest->best, n, rest_before, rest))
			return false;
	}
	rest->wanted = wanted;
	for (i = 0; i < n; i++)
		rest->keys[i] = DecideRestKey(look, pieces, i, wanted);
	DecideTreeFill(&rest->best);
	DecidePoll(arena);
	return true;
}

/*
 * A piece may suit a rest better or worse now.
 */
void
DecideRestUpdate(const Look *look, Pieces *pieces, Rest *rest, int32_t piece)
{
	FitKey		key = DecideRestKey(look, pieces, piece, rest->wanted);

	if (key.high == rest->keys[piece].high && key.low == rest->keys[piece].low)
		return;
	rest->keys[piece] = key;
	DecideTreeReplay(&rest->best, piece);
}

/*
 * The piece of a stretch that takes the rest of a gang best, by looking at
 * each; -1: none has room.
 */
static int32_t
rest_scan(const Look *look, const Pieces *pieces, int32_t wanted,
		  Stretch among)
{
	const int64_t *turn = pieces->layout->turn[pieces->piece];
	FitKey		best = FIT_NONE;
	int32_t		found = -1;
	int32_t		i;

	for (i = among.first; i < among.first + among.n; i++)
	{
		FitKey		key = DecideRestKey(look, pieces, i, wanted);

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
DecideRestBest(const Look *look, Pieces *pieces, int32_t wanted, Stretch among)
{
	Rest	   *rest = DecideRestOf(pieces, wanted);
	int32_t		found;

	if (rest->wanted != wanted)
	{
		if (among.n < pieces->best.n / FEW)
			return rest_scan(look, pieces, wanted, among);
		if (!rest_build(look, pieces, wanted))
			return -2;
	}
	found = DecideTreeBest(&rest->best, among.first, among.first + among.n);
	return rest->keys[found].high == UINT64_MAX ? -1 : found;
}
