/*
 * gangs.h
 *	  Where gangs of one ask go best, kept up to date as hosts change.
 */
#ifndef DECIDE_GANGS_H
#define DECIDE_GANGS_H

#include "decide/core.h"

/* What a plan fills whole, one after the other. */
typedef enum GangPiece
{
	GANG_HOST = 0,
	GANG_DOMAIN,
	GANG_LEAF,
	GANG_PIECES
} GangPiece;

typedef struct Stretch
{
	int32_t		first;
	int32_t		n;
} Stretch;

/* The hosts of a type, each domain of one leaf in one stretch. */
typedef struct GangLayout
{
	bool		made;
	bool		crossed;		/* some domain is below several leaves, or too
								 * large: nothing below is made */
	const int32_t *hosts;		/* leaf, domain, host */
	int32_t		n;
	int32_t    *position;		/* of a host, by its place in its type */

	/* by what is taken */
	int32_t		n_pieces[GANG_PIECES];
	Stretch    *pieces[GANG_PIECES];	/* their hosts */
	int32_t    *piece_of[GANG_PIECES];	/* by position */
	int64_t    *turn[GANG_PIECES];	/* of equals the lower goes first */
} GangLayout;

/* The best of some things, and of each stretch of them. */
typedef bool (*DecideBeforeFn) (const void *context, int32_t a, int32_t b);

typedef struct Tree
{
	int32_t		n;
	int32_t    *winners;
	DecideBeforeFn before;
	const void *context;
} Tree;

#define DECIDE_RESTS	8		/* tournaments for the rest of a gang */

/* Which piece takes the rest of a gang best. */
typedef struct Rest
{
	int32_t		wanted;			/* 0: not yet in use */
	FitKey	   *keys;			/* by piece */
	const int64_t *turn;		/* likewise */
	Tree		best;
} Rest;

/* What a gang may fill whole. */
typedef struct Pieces
{
	GangPiece	piece;
	const GangLayout *layout;
	const int64_t *leaf_room;
	int32_t    *room;			/* by piece; 0 while it is in a plan */
	int32_t    *warm;			/* by piece: hosts that hold the cache; of
								 * hosts what else speaks against it */
	Tree		best;
	Rest		rests[DECIDE_RESTS];
} Pieces;

/* The leaves, or the domains, each as all that there is for a gang. */
typedef struct Scopes
{
	GangPiece	piece;
	DecideTopology prefer;
	const int64_t *turn;
	Plan	   *plans;			/* without hosts; n is 0: it has no room */
	uint64_t   *seen;			/* which look it was planned for */
	Tree		best;
} Scopes;

typedef struct Gangs
{
	const GangLayout *layout;
	int32_t		count;
	int32_t		cache;			/* that its keys are for */
	uint64_t	synced;			/* the last change it has seen */
	uint64_t	looks;
	uint8_t    *room;			/* by host */
	int64_t    *leaf_room;		/* by leaf */
	int64_t		total;
	bool		anywhere;		/* over all hosts, too: */
	Pieces	   *over_all;
	Pieces		pieces;			/* within scopes */
	Pieces		leaves;
	Scopes	   *scopes[2];		/* in the order of trial; NULL: none */
	int32_t    *changed;		/* scratch: hosts */
	int32_t    *taken;			/* scratch: pieces of a plan, */
	int32_t    *taken_room;		/* and what room they had */
	int32_t    *used;			/* scratch: leaves of a plan */
} Gangs;

/* One look for a plan. */
typedef struct Look
{
	Cycle	   *cycle;
	Gangs	   *gangs;
	GangAsk		ask;
} Look;

/* tree.c */
extern bool DecideTreeAlloc(const DecideArena *arena, Tree *tree, int32_t n,
							DecideBeforeFn before, const void *context);
extern void DecideTreeFill(Tree *tree);
extern void DecideTreeReplay(Tree *tree, int32_t item);
extern int32_t DecideTreeBest(const Tree *tree, int32_t first, int32_t end);

/* layout.c */
extern GangLayout *DecideLayoutOf(Cycle *cycle, const TypeRange *range);
extern Stretch DecideLayoutPieces(const GangLayout *layout, GangPiece piece,
								  Stretch hosts);

/* pieces.c */
extern bool DecidePiecesBuild(const Look *look, Pieces *pieces,
							  GangPiece piece);
extern void DecidePiecesUpdate(const Look *look, Pieces *pieces,
							   int32_t position);
extern void DecidePiecesFill(const Look *look, const Pieces *pieces,
							 int32_t piece, int32_t wanted, Plan *plan);
extern int32_t DecidePiecesLeaf(const Pieces *pieces, int32_t piece);
extern int32_t DecidePiecesNext(const Look *look, const Pieces *pieces,
								Stretch among, int32_t *n_used);
extern int32_t DecidePiecesLast(const Look *look, Pieces *pieces,
								int32_t wanted, Stretch among,
								int32_t n_used);
extern void DecidePiecesRoom(Pieces *pieces, int32_t piece, int32_t room);
extern void DecidePiecesTaken(const Look *look, Pieces *pieces, int32_t n,
							  int32_t wanted, bool taken);

/* rest.c */
extern void DecideRestUpdate(const Look *look, Pieces *pieces, Rest *rest,
							 int32_t piece);
extern Rest *DecideRestOf(Pieces *pieces, int32_t wanted);
extern FitKey DecideRestKey(const Look *look, const Pieces *pieces,
							int32_t piece, int32_t wanted);
extern int32_t DecideRestBest(const Look *look, Pieces *pieces,
							  int32_t wanted, Stretch among);

/* gangs.c, gangs_build.c */
extern bool DecideScopeKeep(const Look *look, Scopes *scopes, int32_t scope);
extern uint8_t DecideGangsRoom(const Look *look, const DecideOffer *offer,
							   int32_t index);
extern Gangs *DecideGangsBuild(Cycle *cycle, const DecideAsk *ask,
							   const DecideOffer *offer);
extern bool DecideGangsFind(Cycle *cycle, Gangs *gangs,
							const DecideAsk *ask, const DecideOffer *offer,
							int32_t cache, Plan **plan);

#endif							/* DECIDE_GANGS_H */
