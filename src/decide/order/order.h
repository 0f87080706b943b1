/*
 * order.h
 *	  Whose turn it is, and what quotas leave a job.
 */
#ifndef DECIDE_ORDER_H
#define DECIDE_ORDER_H

#include "decide/core/fit.h"

/* What accounts have used, by account. */
typedef struct FairUse
{
	const DecideInput *input;
	int64_t    *own;			/* its own jobs */
	int64_t    *total;			/* all at or below it */
	bool	   *inner;			/* it has accounts below it */
	int32_t    *root;			/* account of its organisation */
	int32_t    *org;			/* position of the organisation by name */
} FairUse;

/* The place of a sibling: more use for its weight is later. */
typedef struct FairShare
{
	int64_t		weight;
	int64_t		usage;
} FairShare;

/* An account with waiting jobs, in one tree. */
typedef struct FairshareNode
{
	int32_t		account;		/* -1: the root */
	int32_t		parent;			/* -1: the root */
	int32_t		at;				/* in the parent's heap, -1: removed */
	int32_t		next_of_account;
	int32_t		n;
	int32_t    *heap;			/* of children, or of a leaf's lines */
	bool		leaf;
	bool		own;			/* an inner account's own jobs */
} FairshareNode;

/* An account's jobs of one request, in one tree. */
typedef struct FairshareLine
{
	int32_t		leaf;
	int32_t		at;				/* in the leaf's heap, -1: removed */
	int32_t		next;			/* of items */
	int32_t		end;
	int32_t		next_of_request;
} FairshareLine;

typedef struct FairshareTree
{
	const DecideInput *input;
	FairUse		use;
	int32_t    *items;			/* jobs, line by line */
	FairshareNode *nodes;
	int32_t		n_nodes;
	int32_t		nodes_capacity;
	FairshareLine *lines;
	int32_t		n_lines;
	int32_t		lines_capacity;
	int32_t    *account_nodes;	/* an account's nodes, chained; -1: none */
	int32_t    *account_inner;	/* the latest inner node of an account */
	int32_t    *request_lines;	/* a request's lines, chained; -1: none */
	int32_t    *job_lines[2];	/* a job's lines; -1: none */
	bool	   *taken;			/* by job */
} FairshareTree;

/* A tier with a share of the pool, and the tree of its jobs. */
typedef struct TierQueue
{
	int32_t		tier;
	int32_t		root;
} TierQueue;

typedef struct Queue
{
	const DecideInput *input;
	FairshareTree tree;
	int32_t    *aged;			/* aged jobs in order */
	int32_t		n_aged;
	int32_t		next_aged;
	int32_t    *ranks;			/* the tree of each rank, low first */
	int32_t		n_ranks;
	int32_t		first_rank;		/* ranks before it have no jobs left */
	TierQueue  *shares;			/* low rank first */
	int32_t		n_shares;
	int64_t    *tier_used;		/* device-thousandths, by tier */
	int64_t    *tier_share;		/* device-thousandths, by tier */
	bool	   *blocked;		/* by request */
} Queue;

/* Jobs that may run this long have no reservation before this time. */
typedef struct ClassFloor
{
	int64_t		wall_limit;
	int64_t		at;
} ClassFloor;

typedef struct EquivalenceClass
{
	RequestState state;
	int64_t		limit;			/* the wall limit that state is for */
	bool		failed;			/* a job of the class could not start */
	int64_t		shortest;		/* wall limit of such jobs; longer ones fail,
								 * too */
	bool		full;			/* none can start, whatever its wall limit */
	DecideWait	wait;			/* the reason */
	ClassFloor *floors;
	int32_t		n_floors;
	int32_t		floors_capacity;
} EquivalenceClass;

/*
 * What some quotas leave of a class: fewer offers, or fewer devices.  It is a
 * class of its own.
 */
typedef struct QuotaFilter
{
	DecideRequestClass request; /* of the job at its turn */
	int32_t    *most;			/* devices by each of its offers */
	EquivalenceClass class;
	EquivalenceClass *whole;	/* the class it is part of */
	int32_t    *key;			/* the most by each offer of the whole */
	struct QuotaFilter *next;	/* of the same class */
} QuotaFilter;

/* Chains of each account's own quotas, -1 at the end. */
typedef struct QuotaChains
{
	int32_t    *first;			/* by account */
	int32_t    *next;			/* by quota */
} QuotaChains;

typedef struct Quotas
{
	QuotaChains chains;
	bool	   *any;			/* by account: some quota counts it */
	DecideUse  *used;			/* by quota: in use, claimed, and started */
	DecideUse  *reserved;		/* beside these, reserved */
	int32_t    *most;			/* scratch: by each offer of a request */
	QuotaFilter **filters;		/* by class; NULL: not yet */
	DecideWait *waits;			/* by request: why the rest that quotas left
								 * could not start */
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
extern bool DecideQuotaKept(const Cycle *cycle, const DecideClaim *claim);
extern int32_t DecideQuotaMore(const Cycle *cycle,
							   const DecideRunning *running);
extern int32_t DecideQuotaEver(const Cycle *cycle, int32_t account,
							   int32_t type, int32_t least, int32_t most);
extern bool DecideQuotasBegin(Cycle *cycle);
extern bool DecideQuotaFilter(Cycle *cycle, int32_t job, bool reserving,
							  bool *held);
extern bool DecideQuotasApply(const DecideInput *input,
							  const DecideResult *result,
							  const DecideArena *arena, DecideInput *next);

/* Within the room. */

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
 * The place of an inner account's own jobs among its children.
 */
static inline FairShare
DecideFairOwn(const FairUse *use, int32_t account)
{
	FairShare	share = {DECIDE_WEIGHT_ONE, use->own[account]};

	return share;
}

/*
 * Which of two siblings has less for its weight: below 0, the first.
 */
static inline int
DecideFairCompare(FairShare a, FairShare b)
{
	__int128	left = (__int128) a.weight * b.usage;
	__int128	right = (__int128) b.weight * a.usage;

	return left > right ? -1 : left < right;
}

/*
 * Has a job waited longer than its tier's max_wait?
 */
static inline bool
DecideJobAged(const DecideInput *input, int32_t job)
{
	DecideAssert(job >= 0 && job < input->n_jobs);
	return input->jobs[job].aged_at < input->now;
}

/*
 * Was a waiting job guaranteed a latest start that still holds?
 */
static inline bool
DecideJobGuaranteed(const Cycle *cycle, int32_t job)
{
	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	return cycle->previous != NULL && cycle->previous[job] != NULL &&
		cycle->previous[job]->latest > 0;
}

/*
 * The lowest rank whose jobs an aged job goes before: its own, or less.
 */
static inline int32_t
DecideAgedRank(const DecideInput *input, int32_t job)
{
	const DecideTier *tier = &input->tiers[input->jobs[job].tier];

	DecideAssert(job >= 0 && job < input->n_jobs);
	return tier->ages_to < tier->rank ? tier->ages_to : tier->rank;
}

/*
 * The rank in whose place a job has its turn.
 */
static inline int32_t
DecideTurnRank(const DecideInput *input, int32_t job)
{
	return DecideJobAged(input, job) ? DecideAgedRank(input, job) :
		input->tiers[input->jobs[job].tier].rank;
}

/*
 * The class of a job; for the job at its turn, what quotas leave of it.
 */
static inline EquivalenceClass *
DecideClassOf(const Cycle *cycle, int32_t job)
{
	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	return cycle->filter != NULL ? &cycle->filter->class :
		&cycle->classes[cycle->class_of[cycle->input->jobs[job].request]];
}

/*
 * Is it known that no job of a class with this limit can start?
 */
static inline bool
DecideClassFailed(const EquivalenceClass *class, int64_t wall_limit)
{
	DecideAssert(class != NULL);
	DecideAssert(wall_limit > 0);
	return class->full || (class->failed && wall_limit >= class->shortest);
}

/*
 * Note that a job with this limit could not start.
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
 * What the job at its turn requests, as far as quotas leave it.
 */
static inline const DecideRequestClass *
DecideJobRequest(const Cycle *cycle, int32_t job)
{
	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	return cycle->filter != NULL ? &cycle->filter->request :
		&cycle->input->requests[cycle->input->jobs[job].request];
}

/*
 * The most devices of an offer that quotas leave the job at its turn.
 */
static inline int32_t
DecideQuotaFilterMost(const Cycle *cycle, const DecideRequestClass *request,
					  const DecideOffer *offer)
{
	return cycle->filter != NULL && request == &cycle->filter->request ?
		cycle->filter->most[offer - request->offers] : request->max_gpus;
}

#endif							/* DECIDE_ORDER_H */
