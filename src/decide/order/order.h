/*
 * order.h
 *	  Whose turn it is, and what quotas let a job have.
 */
#ifndef DECIDE_ORDER_H
#define DECIDE_ORDER_H

#include "decide/core/core.h"

/* What accounts have used, by account. */
typedef struct FairUse
{
	const DecideInput *input;
	int64_t    *own;			/* its own jobs */
	int64_t    *total;			/* all at or below it */
	bool	   *inner;			/* it has accounts below it */
	int32_t    *root;			/* its organisation's account */
	int32_t    *org;			/* that one's place by name */
} FairUse;

/* An account with waiting jobs, in one tree. */
typedef struct FairshareNode
{
	int32_t		account;		/* -1: the root */
	int32_t		parent;			/* -1: the root */
	int32_t		at;				/* in the parent's heap, -1: taken out */
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
	int32_t		at;				/* in the leaf's heap, -1: taken out */
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
	int32_t    *account_inner;	/* the last inner one of them */
	int32_t    *request_lines;	/* a request's lines, chained; -1: none */
	int32_t    *job_lines[2];	/* a job's lines; -1: none */
	bool	   *taken;			/* by job */
} FairshareTree;

/* A tier that is guaranteed a share, and the tree of its jobs. */
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
	int32_t		first_rank;		/* those before it are empty */
	TierQueue  *shares;			/* low rank first */
	int32_t		n_shares;
	int64_t    *tier_used;		/* device-thousandths, by tier */
	int64_t    *tier_share;		/* as many are guaranteed to it */
	bool	   *blocked;		/* by request */
} Queue;

/* No sooner can a job that may run for so long have a reservation. */
typedef struct ClassFloor
{
	int64_t		wall_limit;
	int64_t		at;
} ClassFloor;

typedef struct EquivalenceClass
{
	RequestState state;
	int64_t		limit;			/* of the job that it is of */
	bool		failed;			/* a job could not start, */
	int64_t		shortest;		/* and of all that could not, the shortest
								 * limit */
	bool		full;			/* none can, whatever its limit */
	DecideWait	wait;			/* why */
	ClassFloor *floors;
	int32_t		n_floors;
	int32_t		floors_capacity;
} EquivalenceClass;

/*
 * What is left of a class under some quotas: fewer offers, or not as many
 * devices.  It is a class of its own.
 */
typedef struct QuotaFilter
{
	DecideRequestClass request; /* of the job whose turn it is */
	int32_t    *most;			/* devices by each of its offers */
	EquivalenceClass class;
	EquivalenceClass *whole;	/* what it is a part of */
	int32_t    *key;			/* the most by each offer of the whole */
	struct QuotaFilter *next;	/* of the same class */
} QuotaFilter;

/* The quotas an account has of its own are chained, -1 ends that. */
typedef struct QuotaChains
{
	int32_t    *first;			/* by account */
	int32_t    *next;			/* by quota */
} QuotaChains;

typedef struct Quotas
{
	QuotaChains chains;
	bool	   *any;			/* by account: it stands under some */
	int64_t    *milli;			/* by quota: in use, promised, and started */
	int64_t    *running;
	int64_t    *reserved_milli; /* and reserved */
	int64_t    *reserved_running;
	int32_t    *most;			/* scratch: by each offer of a request */
	QuotaFilter **filters;		/* by class; NULL: not yet */
	DecideWait *waits;			/* by request: why what was left could not
								 * start */
	bool		binds;			/* a job was held back at its turn */
} Quotas;

/* queue.c */
extern const char *DecideQueueOpen(const DecideInput *input,
								   const DecideArena *arena,
								   const int32_t *held, Queue *queue);
extern int32_t DecideQueueNext(Queue *queue);
extern void DecideQueueCharge(Queue *queue, int32_t job, int32_t type,
							  int32_t gpus);
extern void DecideQueueBlock(Queue *queue, int32_t request);

/* fairshare_tree.c */
extern int64_t DecideFairAmount(const DecideInput *input, int32_t type,
								int64_t milli);
extern void DecideFairshareTreeCharge(FairshareTree *tree, int32_t account,
									  int64_t amount);

/* quota.c */
extern bool DecideClassesFind(Cycle *cycle);
extern RequestState *DecideClassState(const Cycle *cycle,
									  EquivalenceClass *class,
									  int64_t wall_limit);
extern int64_t DecideClassFloor(const Cycle *cycle,
								const EquivalenceClass *class,
								int64_t wall_limit);
extern bool DecideClassReserved(const Cycle *cycle, EquivalenceClass *class,
								int64_t wall_limit, int64_t at);
extern void DecideQuotaTake(Cycle *cycle, int32_t account, int32_t type,
							int64_t milli, int32_t jobs, bool reserved);
extern bool DecideQuotaKept(const Cycle *cycle, int32_t account,
							int32_t type);
extern int32_t DecideQuotaMore(const Cycle *cycle,
							   const DecideRunning *running);
extern int32_t DecideQuotaEver(const Cycle *cycle, int32_t account,
							   int32_t type, int32_t least, int32_t most);
extern bool DecideQuotasBegin(Cycle *cycle);
extern bool DecideQuotaFilter(Cycle *cycle, int32_t job, bool reserving,
							  bool *held);
extern bool DecideQuotaFilterExplain(Cycle *cycle, int32_t job);
extern void DecideQuotaFilterEnd(Cycle *cycle);
extern bool DecideQuotasApply(const DecideInput *input,
							  const DecideResult *result,
							  const DecideArena *arena, DecideInput *next);

/* Within the room. */

/* fairshare_tree.c */
extern int32_t DecideFairshareTreeFirst(const FairshareTree *tree,
										int32_t root);
extern bool DecideFairshareTreeBefore(FairshareTree *tree, int32_t root_a,
									  int32_t root_b);
extern void DecideFairshareTreeTake(FairshareTree *tree, int32_t job);
extern void DecideFairshareTreeBlock(FairshareTree *tree, int32_t request);
extern int32_t DecideFairshareTreeAdd(FairshareTree *tree,
									  const DecideArena *arena,
									  int which, int32_t first, int32_t end);
extern bool DecideFairshareTreeReady(FairshareTree *tree,
									 const DecideArena *arena);
extern const char *DecideFairshareTreeBegin(const DecideInput *input,
											const DecideArena *arena,
											int32_t n_items, FairshareTree *tree);

/*
 * Has a job waited longer than its tier lets it?
 */
static inline bool
DecideJobAged(const DecideInput *input, int32_t job)
{
	DecideAssert(job >= 0 && job < input->n_jobs);
	return input->jobs[job].aged_at < input->now;
}

/*
 * The class of a job; of the one whose turn it is, as far as quotas let it.
 */
static inline EquivalenceClass *
DecideClassOf(const Cycle *cycle, int32_t job)
{
	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	return cycle->filter != NULL ? &cycle->filter->class :
		&cycle->classes[cycle->class_of[cycle->input->jobs[job].request]];
}

/*
 * Is it known that no job of a class can start that may run for so long?
 */
static inline bool
DecideClassFailed(const EquivalenceClass *class, int64_t wall_limit)
{
	DecideAssert(class != NULL);
	DecideAssert(wall_limit > 0);
	return class->full || (class->failed && wall_limit >= class->shortest);
}

/*
 * A job of this limit could not start.
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
 * What the job whose turn it is requests, as far as quotas let it.
 */
static inline const DecideRequestClass *
DecideJobRequest(const Cycle *cycle, int32_t job)
{
	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	return cycle->filter != NULL ? &cycle->filter->request :
		&cycle->input->requests[cycle->input->jobs[job].request];
}

/*
 * The most devices of an offer that the job whose turn it is may have.
 */
static inline int32_t
DecideQuotaFilterMost(const Cycle *cycle, const DecideRequestClass *request,
					  const DecideOffer *offer)
{
	return cycle->filter != NULL && request == &cycle->filter->request ?
		cycle->filter->most[offer - request->offers] : request->max_gpus;
}

#endif							/* DECIDE_ORDER_H */
