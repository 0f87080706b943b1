/*
 * gangs.h
 *	  Where gangs of one request go best, kept up to date as hosts change.
 */
#ifndef DECIDE_GANGS_H
#define DECIDE_GANGS_H

#include "decide/core.h"

/* What a plan fills whole, one after the other. */
typedef enum GangUnit
{
	GANG_HOST = 0,
	GANG_DOMAIN,
	GANG_LEAF,
	GANG_UNITS
} GangUnit;

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
	int32_t		n_units[GANG_UNITS];
	Stretch    *units[GANG_UNITS];	/* their hosts */
	int32_t    *unit_of[GANG_UNITS];	/* by position */
	int64_t    *turn[GANG_UNITS];	/* of equals the lower goes first */
} GangLayout;

/* The best of some things, and of each stretch of them. */
typedef bool (*DecideBeforeFn) (const void *context, int32_t a, int32_t b);

typedef struct Tournament
{
	int32_t		n;
	int32_t    *winners;
	DecideBeforeFn before;
	const void *context;
} Tournament;

#define GANG_REMAINDERS	8		/* tournaments for the rest of a gang */

/* Which piece takes the rest of a gang best. */
typedef struct GangRemainder
{
	int32_t		wanted;			/* 0: not yet in use */
	FitKey	   *keys;			/* by piece */
	const int64_t *turn;		/* likewise */
	Tournament	best;
} GangRemainder;

/* What a gang may fill whole. */
typedef struct GangUnits
{
	GangUnit	unit;
	const GangLayout *layout;
	const int64_t *leaf_capacity;
	int32_t    *capacity;		/* by piece; 0 while it is in a plan */
	int32_t    *cache_hits;		/* by piece: hosts that hold the cache; of
								 * hosts what else speaks against it */
	Tournament	best;
	GangRemainder remainders[GANG_REMAINDERS];
} GangUnits;

/* The leaves, or the domains, each as all that there is for a gang. */
typedef struct Scopes
{
	GangUnit	unit;
	DecideTopology prefer;
	const int64_t *turn;
	Plan	   *plans;			/* without hosts; n is 0: it has no room */
	uint64_t   *seen;			/* which look it was planned for */
	Tournament	best;
} Scopes;

typedef struct Gangs
{
	const GangLayout *layout;
	int32_t		count;
	int32_t		cache;			/* that its keys are for */
	uint64_t	synced;			/* the last change it has seen */
	uint64_t	looks;
	uint8_t    *capacity;		/* by host */
	int64_t    *leaf_capacity;	/* by leaf */
	int64_t		total;
	bool		anywhere;		/* over all hosts, too: */
	GangUnits  *over_all;
	GangUnits	units;			/* within scopes */
	GangUnits	leaves;
	Scopes	   *scopes[2];		/* in the order of trial; NULL: none */
	int32_t    *changed;		/* scratch: hosts */
	int32_t    *taken;			/* scratch: pieces of a plan, */
	int32_t    *taken_capacity; /* and what room they had */
	int32_t    *used;			/* scratch: leaves of a plan */
} Gangs;

/* One look for a plan. */
typedef struct Look
{
	Cycle	   *cycle;
	Gangs	   *gangs;
	GangRequest request;
} Look;

/* tournament.c */
extern bool TournamentAlloc(const DecideArena *arena, Tournament *tree,
							int32_t n,
							DecideBeforeFn before, const void *context);
extern void TournamentFill(Tournament *tree);
extern void TournamentReplay(Tournament *tree, int32_t item);
extern int32_t TournamentBest(const Tournament *tree, int32_t first,
							  int32_t end);

/* gang_layout.c */
extern GangLayout *DecideGangLayoutOf(Cycle *cycle, const TypeRange *range);
extern Stretch DecideGangLayoutUnits(const GangLayout *layout, GangUnit unit,
									 Stretch hosts);

/* gang_units.c */
extern bool DecideGangUnitsBuild(const Look *look, GangUnits *units,
								 GangUnit unit);
extern void DecideGangUnitsUpdate(const Look *look, GangUnits *units,
								  int32_t position);
extern void DecideGangUnitsFill(const Look *look, const GangUnits *units,
								int32_t unit, int32_t wanted, Plan *plan);
extern int32_t DecideGangUnitsLeaf(const GangUnits *units, int32_t unit);
extern int32_t DecideGangUnitsNext(const Look *look, const GangUnits *units,
								   Stretch among, int32_t *n_used);
extern int32_t DecideGangUnitsLast(const Look *look, GangUnits *units,
								   int32_t wanted, Stretch among,
								   int32_t n_used);
extern void DecideGangUnitsCapacity(GangUnits *units, int32_t unit,
									int32_t capacity);
extern void DecideGangUnitsTaken(const Look *look, GangUnits *units, int32_t n,
								 int32_t wanted, bool taken);

/* gang_remainder.c */
extern void DecideGangRemainderUpdate(const Look *look, GangUnits *units,
									  GangRemainder *remainder,
									  int32_t unit);
extern GangRemainder *DecideGangRemainderOf(GangUnits *units, int32_t wanted);
extern FitKey DecideGangRemainderKey(const Look *look, const GangUnits *units,
									 int32_t unit, int32_t wanted);
extern int32_t DecideGangRemainderBest(const Look *look, GangUnits *units,
									   int32_t wanted, Stretch among);

/* gangs.c, gangs_build.c */
extern bool DecideScopeKeep(const Look *look, Scopes *scopes, int32_t scope);
extern uint8_t DecideGangsCapacity(const Look *look, const DecideOffer *offer,
								   int32_t index);
extern Gangs *DecideGangsBuild(Cycle *cycle, const DecideRequestClass *request,
							   const DecideOffer *offer);
extern bool DecideGangsFind(Cycle *cycle, Gangs *gangs,
							const DecideRequestClass *request,
							const DecideOffer *offer,
							int32_t cache, Plan **plan);

#endif							/* DECIDE_GANGS_H */
