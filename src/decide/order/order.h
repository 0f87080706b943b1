/*
 * order.h
 *	  Whose turn it is, and how much of its request quotas allow a job.
 */
#ifndef DECIDE_ORDER_H
#define DECIDE_ORDER_H

#include "decide/core/fit.h"

/* How much accounts have used. Each array has one entry for each account. */
typedef struct FairUse
{
	const DecideInput *input;
	int64_t    *own;			/* use of the account's own jobs */
	int64_t    *total;			/* use of the account and all accounts below
								 * it */
	bool	   *inner;			/* whether the account has accounts below it */
	int32_t    *root;			/* account of its organisation */
	int32_t    *org;			/* position of its organisation, sorted by
								 * name */
} FairUse;

/*
 * What decides the place of an account among its siblings: the one with more
 * use for its weight goes later.
 */
typedef struct FairShare
{
	int64_t		weight;
	int64_t		usage;
} FairShare;

/* An account with waiting jobs, in one tree. */
typedef struct FairshareNode
{
	int32_t		account;		/* -1 for the root */
	int32_t		parent;			/* -1 for the root */
	int32_t		at;				/* position in the parent's heap, or -1 if it
								 * was removed */
	int32_t		next_of_account;
	int32_t		n;
	int32_t    *heap;			/* children, or the lines if it is a leaf */
	bool		leaf;
	bool		own;			/* it stands for the own jobs of an account
								 * that has accounts below it */
} FairshareNode;

/* An account's waiting jobs of one request, in one tree. */
typedef struct FairshareLine
{
	int32_t		leaf;
	int32_t		at;				/* position in the leaf's heap, or -1 if it
								 * was removed */
	int32_t		next;			/* range of the tree's items */
	int32_t		end;
	int32_t		next_of_request;
} FairshareLine;

typedef struct FairshareTree
{
	const DecideInput *input;
	FairUse		use;
	int32_t    *items;			/* jobs, in the order of the lines */
	FairshareNode *nodes;
	int32_t		n_nodes;
	int32_t		nodes_capacity;
	FairshareLine *lines;
	int32_t		n_lines;
	int32_t		lines_capacity;
	int32_t    *account_nodes;	/* first node of each account; next_of_account
								 * leads to its others; -1 if it has none */
	int32_t    *account_inner;	/* the inner node that was added last for each
								 * account */
	int32_t    *request_lines;	/* first line of each request; next_of_request
								 * leads to its others; -1 if it has none */
	int32_t    *job_lines[2];	/* for each job its line in the tree of its
								 * rank and in that of its tier; -1 if it is
								 * not there */
	bool	   *taken;			/* whether each job has had its turn */
} FairshareTree;

/* A tier with a share of the pool, and the root of the tree of its jobs. */
typedef struct TierQueue
{
	int32_t		tier;
	int32_t		root;
} TierQueue;

typedef struct Queue
{
	const DecideInput *input;
	FairshareTree tree;
	int32_t    *aged;			/* aged jobs in the order of their turns */
	int32_t		n_aged;
	int32_t		next_aged;
	int32_t    *ranks;			/* root of the tree of each rank, lowest rank
								 * first */
	int32_t		n_ranks;
	int32_t		first_rank;		/* ranks before this one have no jobs left */
	TierQueue  *shares;			/* lowest rank first */
	int32_t		n_shares;
	int64_t    *tier_used;		/* thousandths of devices that each tier uses */
	int64_t    *tier_share;		/* thousandths of devices that each tier's
								 * share is */
	bool	   *blocked;		/* whether each request is blocked */
} Queue;

/*
 * Jobs with this wall limit, or a longer one, cannot have a reservation that
 * begins before the time at.
 */
typedef struct ClassFloor
{
	int64_t		wall_limit;
	int64_t		at;
} ClassFloor;

typedef struct EquivalenceClass
{
	RequestState state;
	int64_t		limit;			/* the wall limit for which state is valid */
	bool		failed;			/* a job of the class could not start */
	int64_t		shortest;		/* shortest wall limit of a job that could not
								 * start; jobs with longer limits cannot start
								 * either */
	bool		full;			/* no job can start, whatever its wall limit */
	DecideWait	wait;			/* why jobs of the class wait */
	ClassFloor *floors;
	int32_t		n_floors;
	int32_t		floors_capacity;
} EquivalenceClass;

/*
 * What quotas allow some jobs of a class: fewer offers, or fewer devices than
 * the class requests.  These jobs are treated as a class of their own.
 */
typedef struct QuotaFilter
{
	DecideRequestClass request; /* request of the job whose turn it is */
	int32_t    *most;			/* most devices for each of its offers */
	EquivalenceClass class;
	EquivalenceClass *whole;	/* the class that it is derived from */
	int32_t    *key;			/* most devices for each offer of that class,
								 * -1 for those that are not allowed */
	struct QuotaFilter *next;	/* next filter of the same class */
} QuotaFilter;

/* The quotas of each account as linked lists, which end with -1. */
typedef struct QuotaChains
{
	int32_t    *first;			/* first quota of each account */
	int32_t    *next;			/* next quota after each quota */
} QuotaChains;

typedef struct Quotas
{
	QuotaChains chains;
	bool	   *any;			/* whether some quota counts each account */
	DecideUse  *used;			/* for each quota, what is in use, claimed and
								 * started */
	DecideUse  *reserved;		/* for each quota, what is reserved in
								 * addition */
	int32_t    *most;			/* working memory: most devices for each offer
								 * of a request */
	int32_t    *evictable;		/* for each account the rank of the least
								 * important running job of it and of all
								 * accounts below it that may be evicted;
								 * INT32_MIN if there is none */
	int32_t    *leaving;		/* running jobs that leave for claims */
	int32_t		n_leaving;
	int32_t    *leavers;		/* working memory: those of one claim */
	QuotaFilter **filters;		/* for each class; NULL until a filter is
								 * needed */
	DecideWait *waits;			/* for each request, why the part that quotas
								 * allowed could not start */
	bool		binds;			/* quotas held back a job at its turn */
} Quotas;

/* queue.c */
extern const char *DecideQueueOpen(const DecideInput *input,
								   const DecideArena *arena,
								   const int32_t *held, Queue *queue);
extern int32_t DecideQueueNext(Queue *queue);
extern void DecideQueueCharge(Queue *queue, int32_t account, int32_t tier,
							  int32_t type, int64_t milli);
extern void DecideQueueBlock(Queue *queue, int32_t request);

/* aged.c */
extern bool DecideAgedSort(Queue *queue, const DecideArena *arena);
extern int32_t DecideAgedNext(Queue *queue, int32_t rank);

/* quota.c */
extern void DecideQuotaAdd(Cycle *cycle, int32_t account, int32_t type,
						   const DecideUse *use, bool reserved);
extern void DecideQuotaPromise(Cycle *cycle, int32_t account, int32_t type,
							   const DecideUse *use, const int32_t *leavers,
							   int32_t n);
extern bool DecideQuotaSuffices(const Cycle *cycle, int32_t account,
								int32_t type, const DecideUse *use,
								const int32_t *leavers, int32_t n,
								int32_t *lacking, int *resource);
extern bool DecideQuotaCounts(const Cycle *cycle, int32_t quota,
							  const DecideRunning *running);
extern bool DecideQuotaKept(const Cycle *cycle, const DecideClaim *claim);
extern int32_t DecideQuotaMore(const Cycle *cycle,
							   const DecideRunning *running);
extern int32_t DecideQuotaEver(const Cycle *cycle, int32_t account,
							   int32_t type, bool stays, int32_t least,
							   int32_t most);
extern bool DecideQuotasBegin(Cycle *cycle);
extern bool DecideQuotaFilter(Cycle *cycle, int32_t job, bool reserving,
							  bool *held);
extern bool DecideQuotasApply(const DecideInput *input,
							  const DecideResult *result,
							  const DecideArena *arena, DecideInput *next);

/* Functions that only the files of this directory call. */

/* fair_use.c */
extern const char *DecideFairBegin(const DecideInput *input,
								   const DecideArena *arena, FairUse *use);
extern void DecideFairCharge(FairUse *use, int32_t account, int32_t type,
							 int64_t milli);

/*
 * An account's place among its siblings.
 */
static inline FairShare
DecideFairOf(const FairUse *use, int32_t account)
{
	FairShare	share = {use->input->accounts[account].weight,
		use->total[account]};

	return share;
}

/*
 * The place of the own jobs of an account among its children.
 */
static inline FairShare
DecideFairOwn(const FairUse *use, int32_t account)
{
	FairShare	share = {DECIDE_WEIGHT_ONE, use->own[account]};

	return share;
}

/*
 * Compares two siblings by use for their weight.  Returns -1 if the first has
 * used less, 1 if the second has, or 0.
 */
static inline int
DecideFairCompare(FairShare a, FairShare b)
{
	__int128	left = (__int128) a.weight * b.usage;
	__int128	right = (__int128) b.weight * a.usage;

	return left > right ? -1 : left < right;
}

/*
 * Whether a job has waited longer than its tier's max_wait.
 */
static inline bool
DecideJobAged(const DecideInput *input, int32_t job)
{
	DecideAssert(job >= 0 && job < input->n_jobs);
	return input->jobs[job].aged_at < input->now;
}

/*
 * Whether a waiting job has a guaranteed latest start that was not broken.
 */
static inline bool
DecideJobGuaranteed(const Cycle *cycle, int32_t job)
{
	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	return cycle->previous != NULL && cycle->previous[job] != NULL &&
		cycle->previous[job]->latest > 0;
}

/*
 * The lowest rank before whose jobs an aged job goes: that of its tier, or
 * ages_to if that is lower.
 */
static inline int32_t
DecideAgedRank(const DecideInput *input, int32_t job)
{
	const DecideTier *tier = &input->tiers[input->jobs[job].tier];

	DecideAssert(job >= 0 && job < input->n_jobs);
	return tier->ages_to < tier->rank ? tier->ages_to : tier->rank;
}

/*
 * The rank of the jobs among which a job has its turn.
 */
static inline int32_t
DecideTurnRank(const DecideInput *input, int32_t job)
{
	return DecideJobAged(input, job) ? DecideAgedRank(input, job) :
		input->tiers[input->jobs[job].tier].rank;
}

/*
 * The class of a job; for a job whose turn it is, the class of what quotas
 * allow it.
 */
static inline EquivalenceClass *
DecideClassOf(const Cycle *cycle, int32_t job)
{
	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	return cycle->filter != NULL ? &cycle->filter->class :
		&cycle->classes[cycle->class_of[cycle->input->jobs[job].request]];
}

/*
 * Whether it is known that no job of a class with this wall limit can start.
 */
static inline bool
DecideClassFailed(const EquivalenceClass *class, int64_t wall_limit)
{
	DecideAssert(class != NULL);
	DecideAssert(wall_limit > 0);
	return class->full || (class->failed && wall_limit >= class->shortest);
}

/*
 * Records that a job of a class with this wall limit could not start.
 */
static inline void
DecideClassFail(EquivalenceClass *class, int64_t wall_limit, bool full)
{
	DecideAssert(class != NULL);
	DecideAssert(wall_limit > 0);
	if (!class->failed || wall_limit < class->shortest)
		class->shortest = wall_limit;
	class->failed = true;
	class->full |= full;
}

/*
 * What the job whose turn it is requests, as far as quotas allow it.
 */
static inline const DecideRequestClass *
DecideJobRequest(const Cycle *cycle, int32_t job)
{
	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	return cycle->filter != NULL ? &cycle->filter->request :
		&cycle->input->requests[cycle->input->jobs[job].request];
}

/*
 * The most devices of an offer that quotas allow the job whose turn it is.
 */
static inline int32_t
DecideQuotaFilterMost(const Cycle *cycle, const DecideRequestClass *request,
					  const DecideOffer *offer)
{
	return cycle->filter != NULL && request == &cycle->filter->request ?
		cycle->filter->most[offer - request->offers] : request->max_gpus;
}

#endif							/* DECIDE_ORDER_H */
