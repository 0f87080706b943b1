/*
 * single.h
 *	  Finding one host for a request: the hosts near it, and which of two
 *	  hosts is better.
 */
#ifndef GPUCREDIT_DECIDE_SINGLE_H
#define GPUCREDIT_DECIDE_SINGLE_H

#include "decide/place/place.h"

#define DECIDE_NEAR_LEAF	32	/* In a key, the count of the leaf begins at
								 * this bit. */

/* A single host for a request, and the values by which it is compared. */
typedef struct Choice
{
	int32_t		host;			/* -1 if no host has room for the request */
	FitKey		key;
	uint64_t	near;			/* number of free devices near the host, as
								 * DecideNearKey returns it */
} Choice;

#define CHOICE_NONE	((Choice) {-1, FIT_NONE, 0})

/*
 * Whether a is a better choice than b.
 */
static inline bool
DecideChoiceBetter(const Choice *a, const Choice *b)
{
	if (DecideFitLess(a->key, b->key) || DecideFitLess(b->key, a->key))
		return DecideFitLess(a->key, b->key);
	return a->near != b->near ? a->near < b->near : a->host < b->host;
}

/*
 * The ranges of by_near that contain the hosts of one GPU type below one leaf
 * switch, and among them those of one NVLink domain.
 */
struct Near
{
	int32_t		leaf;			/* first position of the range */
	int32_t		leaf_end;
	int32_t		domain;
	int32_t		domain_end;
};

/*
 * The number of free devices in the ranges that were counted last; all members
 * are 0 before the first count.
 */
typedef struct NearCount
{
	Near		of;
	uint64_t	leaf_free;
	uint64_t	domain_free;
} NearCount;

struct NearTree
{
	int32_t		n;				/* number of hosts, which are entries 0 to n -
								 * 1 */
	int32_t		n_entries;		/* number of entries; the last entry is the
								 * winner of all */
	int32_t    *above;			/* for each entry the one above it, or -1 */
	int32_t    *below;			/* for each entry from n on the two entries
								 * below it */
	int32_t    *domain_top;		/* for each host the entry above all hosts of
								 * its domain */
	int32_t    *leaf_top;		/* for each host the entry above all hosts of
								 * its leaf */
};


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
