/*
 * near.h
 *	  Which hosts are near each other, and the tournaments over them.
 */
#ifndef DECIDE_NEAR_H
#define DECIDE_NEAR_H

#include "decide/core.h"

/* Stretches of by_near: hosts of one type below one leaf; of a domain there. */
struct Near
{
	int32_t		leaf;			/* where it begins */
	int32_t		leaf_end;
	int32_t		domain;
	int32_t		domain_end;
};

/* The devices free in the stretches that were last asked for; all 0: none. */
typedef struct NearCount
{
	Near		of;
	uint64_t	leaf_free;
	uint64_t	domain_free;
} NearCount;

/* Who plays whom in a tournament over hosts of by_near; see near.c. */
struct NearTree
{
	int32_t		n;				/* hosts, entries 0 to n - 1 */
	int32_t		n_entries;		/* the last one is of all */
	int32_t    *above;			/* by entry; -1: none */
	int32_t    *below;			/* two each, of entries from n on */
	int32_t    *domain_top;		/* by host: the entry of its whole domain */
	int32_t    *leaf_top;		/* and leaf */
};

/* The best host for one request and offer, kept up to date as hosts change. */
struct Best
{
	const int32_t *hosts;		/* those that compete, as in by_near */
	const Near *places;			/* of each */
	int32_t		first;			/* where in by_near they begin */
	const NearTree *tree;
	FitKey	   *keys;			/* per competitor */
	uint8_t    *free;			/* of each; by where a leaf or domain begins: */
	uint32_t   *leaf_free;
	uint32_t   *domain_free;
	uint64_t   *near;			/* of those who stand at the top of theirs */
	int32_t    *winners;		/* by entry */
	uint64_t	synced;			/* the last change it has seen */
};

/* near.c */
#define DECIDE_NEAR_LEAF	32	/* the bit that its part begins at */

extern NearTree *DecideNearTree(Cycle *cycle, const TypeRange *range);
extern int32_t DecideNearFree(const Host *host);
extern uint64_t DecideNearKey(const Cycle *cycle, int32_t host,
							  NearCount *last);

#endif							/* DECIDE_NEAR_H */
