/*
 * pieces.c
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
piece_before(const void *context, int32_t a, int32_t b)
{
	const Pieces *pieces = context;
	const GangLayout *layout = pieces->layout;

	if (pieces->room[a] != pieces->room[b])
		return pieces->room[a] > pieces->room[b];
	if (pieces->piece == GANG_HOST)
	{
		if (pieces->warm[a] != pieces->warm[b])
			return pieces->warm[a] < pieces->warm[b];
	}
	else
	{
		const int32_t *leaf_of = layout->piece_of[GANG_LEAF];
		const Stretch *hosts = layout->pieces[pieces->piece];
		int64_t		room_a = pieces->leaf_room[leaf_of[hosts[a].first]];
		int64_t		room_b = pieces->leaf_room[leaf_of[hosts[b].first]];

		if (room_a != room_b)
			return room_a > room_b;
		if (pieces->warm[a] != pieces->warm[b])
			return pieces->warm[a] > pieces->warm[b];
	}
	return layout->turn[pieces->piece][a] < layout->turn[pieces->piece][b];
}

/*
 * Fill devices of a piece.
 */
void
DecidePiecesFill(const Look *look, const Pieces *pieces, int32_t piece,
				 int32_t wanted, Plan *plan)
{
	const Stretch *hosts = &pieces->layout->pieces[pieces->piece][piece];
	GangGroup	group = {
		.hosts = pieces->layout->hosts + hosts->first,
		.n = hosts->n
	};

	if (group.n == 1)
		DecidePlanAdd(look->cycle, &look->ask, plan, group.hosts[0], wanted);
	else
		DecideGroupFill(look->cycle, &look->ask, &group, wanted, plan);
}

/*
 * The leaf of a piece.
 */
int32_t
DecidePiecesLeaf(const Pieces *pieces, int32_t piece)
{
	const GangLayout *layout = pieces->layout;

	return layout->piece_of[GANG_LEAF]
		[layout->pieces[pieces->piece][piece].first];
}

/*
 * The pieces below a leaf.
 */
static Stretch
below(const Pieces *pieces, int32_t leaf)
{
	return DecideLayoutPieces(pieces->layout, pieces->piece,
							  pieces->layout->pieces[GANG_LEAF][leaf]);
}

/*
 * The piece to fill whole next.  Of equally roomy ones it is one below a leaf
 * in use; leaves that have nothing left are no longer kept among those.
 */
int32_t
DecidePiecesNext(const Look *look, const Pieces *pieces, Stretch among,
				 int32_t *n_used)
{
	int32_t    *used = look->gangs->used;
	int32_t		best = DecideTreeBest(&pieces->best, among.first,
									  among.first + among.n);
	int32_t		most = pieces->room[best];
	int32_t		found = -1;
	int32_t		i = 0;

	while (i < *n_used)
	{
		Stretch		stretch = below(pieces, used[i]);
		int32_t		piece = DecideTreeBest(&pieces->best, stretch.first,
										   stretch.first + stretch.n);

		if (pieces->room[piece] == 0)
		{
			used[i] = used[--*n_used];
			continue;
		}
		if (pieces->room[piece] == most &&
			(found < 0 || piece_before(pieces, piece, found)))
			found = piece;
		i++;
	}
	return found >= 0 ? found : best;
}

/*
 * The piece that takes the rest of a gang: one below a leaf in use, if there
 * is one that can.  -2: out of memory.
 */
int32_t
DecidePiecesLast(const Look *look, Pieces *pieces, int32_t wanted, Stretch among,
				 int32_t n_used)
{
	int32_t		best = -1;
	FitKey		best_key = FIT_NONE;
	int32_t		i;

	for (i = 0; i < n_used; i++)
	{
		int32_t		piece = DecideRestBest(look, pieces, wanted,
										   below(pieces, look->gangs->used[i]));
		FitKey		key;

		if (piece == -1)
			continue;
		if (piece == -2)
			return piece;
		key = DecideRestKey(look, pieces, piece, wanted);
		if (best < 0 || DecideFitLess(key, best_key) ||
			(!DecideFitLess(best_key, key) &&
			 pieces->layout->turn[pieces->piece][piece] <
			 pieces->layout->turn[pieces->piece][best]))
		{
			best = piece;
			best_key = key;
		}
	}
	return best >= 0 ? best : DecideRestBest(look, pieces, wanted, among);
}

/*
 * A piece has so much room for the plan at hand.
 */
void
DecidePiecesRoom(Pieces *pieces, int32_t piece, int32_t room)
{
	pieces->room[piece] = room;
	DecideTreeReplay(&pieces->best, piece);
}

/*
 * What is in a plan can take none of the rest, or can again.
 */
void
DecidePiecesTaken(const Look *look, Pieces *pieces, int32_t n, int32_t wanted,
				  bool taken)
{
	const Gangs *gangs = look->gangs;
	Rest	   *rest = DecideRestOf(pieces, wanted);
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		if (!taken)
			DecidePiecesRoom(pieces, gangs->taken[i], gangs->taken_room[i]);
		if (gangs->taken_room[i] >= wanted && rest->wanted == wanted)
			DecideRestUpdate(look, pieces, rest, gangs->taken[i]);
	}
}

/*
 * What speaks for a piece beside its room: how many of its hosts hold the
 * cache; and against a host, what ranks it when it is filled.
 */
static int32_t
warm_of(const Look *look, const Pieces *pieces, int32_t piece)
{
	const Cycle *cycle = look->cycle;
	const GangLayout *layout = pieces->layout;
	Stretch		hosts = layout->pieces[pieces->piece][piece];
	int32_t		warm = 0;
	int32_t		i;

	if (pieces->piece == GANG_HOST)
		return pieces->room[piece] > 0 &&
			pieces->room[piece] < look->ask.count ?
			(int32_t) DecidePartRank(cycle, &look->ask, layout->hosts[piece],
									 pieces->room[piece]) : 0;
	for (i = hosts.first; i < hosts.first + hosts.n && cycle->holds != NULL;
		 i++)
		warm += cycle->holds[layout->hosts[i]];
	return warm;
}

/*
 * A host of a piece changed.
 */
void
DecidePiecesUpdate(const Look *look, Pieces *pieces, int32_t position)
{
	int32_t		piece;
	Stretch		all;
	int32_t		i;

	if (pieces->best.n == 0)
		return;
	piece = pieces->layout->piece_of[pieces->piece][position];
	pieces->warm[piece] = warm_of(look, pieces, piece);
	DecideTreeReplay(&pieces->best, piece);
	if (pieces->piece == GANG_DOMAIN)
	{
		/* to others below the leaf it is nothing new, but at both ends */
		all = below(pieces, DecidePiecesLeaf(pieces, piece));
		DecideTreeReplay(&pieces->best, all.first);
		DecideTreeReplay(&pieces->best, all.first + all.n - 1);
	}
	for (i = 0; i < DECIDE_RESTS; i++)
	{
		if (pieces->rests[i].wanted > 0)
			DecideRestUpdate(look, pieces, &pieces->rests[i], piece);
	}
}

/*
 * Get what there is to know of the pieces.  False: out of memory.
 */
bool
DecidePiecesBuild(const Look *look, Pieces *pieces, GangPiece piece)
{
	const DecideArena *arena = look->cycle->arena;
	const Gangs *gangs = look->gangs;
	const GangLayout *layout = gangs->layout;
	int32_t		n = layout->n_pieces[piece];
	int32_t		i;

	pieces->piece = piece;
	pieces->layout = layout;
	pieces->leaf_room = gangs->leaf_room;
	pieces->room = DecideAlloc(arena, n, sizeof(int32_t));
	pieces->warm = DecideAlloc(arena, n, sizeof(int32_t));
	if (pieces->room == NULL || pieces->warm == NULL ||
		!DecideTreeAlloc(arena, &pieces->best, n, piece_before, pieces))
		return false;
	memset(pieces->room, 0, (size_t) n * sizeof(int32_t));
	for (i = 0; i < layout->n; i++)
		pieces->room[layout->piece_of[piece][i]] +=
			gangs->room[layout->hosts[i]];
	for (i = 0; i < n; i++)
		pieces->warm[i] = warm_of(look, pieces, i);
	DecideTreeFill(&pieces->best);
	return true;
}
