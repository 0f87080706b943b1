/*
 * single.h
 *	  Finding one host for a request: what is near it, and which is better.
 */
#ifndef GPUCREDIT_DECIDE_SINGLE_H
#define GPUCREDIT_DECIDE_SINGLE_H

#include "decide/place/place.h"

#define DECIDE_NEAR_LEAF	32	/* the bit where the leaf's count begins */

/* A single host for a request, and how it compares. */
typedef struct Choice
{
	int32_t		host;			/* -1: none can take the request */
	FitKey		key;
	uint64_t	near;			/* devices free near it */
} Choice;

#define CHOICE_NONE	((Choice) {-1, FIT_NONE, 0})

/*
 * Is one host a better choice than the other?
 */
static inline bool
DecideChoiceBetter(const Choice *a, const Choice *b)
{
	if (DecideFitLess(a->key, b->key) || DecideFitLess(b->key, a->key))
		return DecideFitLess(a->key, b->key);
	return a->near != b->near ? a->near < b->near : a->host < b->host;
}

/*
 * Where in by_near the hosts of one GPU type below one leaf switch are, and
 * those of one NVLink domain below it.
 */
struct Near
{
	int32_t		leaf;			/* where the range begins */
	int32_t		leaf_end;
	int32_t		domain;
	int32_t		domain_end;
};

/* The free devices of the last ranges asked for; all 0: none. */
typedef struct NearCount
{
	Near		of;
	uint64_t	leaf_free;
	uint64_t	domain_free;
} NearCount;

struct NearTree
{
	int32_t		n;				/* hosts, entries 0 to n - 1 */
	int32_t		n_entries;		/* the last entry is the winner of all */
	int32_t    *above;			/* by entry; -1: none */
	int32_t    *below;			/* two each, for entries from n on */
	int32_t    *domain_top;		/* by host: the entry of its whole domain */
	int32_t    *leaf_top;		/* and leaf */
};

/* single.c */

/* near.c */
extern bool DecideNearPrepare(Cycle *cycle);
extern NearTree *DecideNearTree(Cycle *cycle, const TypeRange *range);
extern int32_t DecideNearFree(const Host *host);
extern uint64_t DecideNearKey(const Cycle *cycle, int32_t index,
							  NearCount *last);

/* cached_host.c */
extern bool DecideCachedPrepare(Cycle *cycle);
extern int32_t DecideCachedHost(const Cycle *cycle,
								const DecideRequestClass *request,
								const DecideOffer *offers, int32_t n_offers,
								int32_t count, int32_t cache, int32_t host);

#endif							/* GPUCREDIT_DECIDE_SINGLE_H */
