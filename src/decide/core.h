/*
 * core.h
 *	  What the files of the decision core share with each other.
 *
 * A cycle works on hosts: copies of the input's nodes in order of their names,
 * so that a host's number is its rank and the lower number wins every tie.
 * Domains and leaves are renamed to their lowest host's number, which frees
 * all later order from the labels the caller happened to give.
 */
#ifndef DECIDE_CORE_H
#define DECIDE_CORE_H

#include "decide/decide.h"

typedef struct Host
{
	/* as given */
	int32_t		node;			/* index into the input's nodes */
	int32_t		type;			/* DECIDE_NO_TYPE when it has no device */
	int32_t		gpus;
	int32_t		domain;			/* lowest host of its NVLink domain */
	int32_t		leaf;			/* lowest host of its leaf */
	int32_t		kind;			/* index of its type's stretch */
	int32_t		near;			/* position in by_near */
	int64_t		gpu_memory_mib;
	int64_t		cpu_milli;
	int64_t		memory_mib;
	bool		spot;
	bool		open;			/* takes new work */
	uint64_t	usable;			/* healthy devices */

	/* as jobs start */
	int32_t		n_free;			/* whole devices free */
	int32_t		n_usable;		/* of them, those its cpu and memory feed */
	uint64_t	free;			/* whole devices free */
	uint64_t	partial;		/* devices shared, with something left */
	int64_t		cpu_left;
	int64_t		memory_left;
	int64_t		cpu_over;		/* taken beyond what there is; given back
								 * before anything is left */
	int64_t		memory_over;
	uint16_t	left[DECIDE_MAX_DEVICES];

	/* the list of hosts, latest changed first */
	uint64_t	changed;		/* which change of the cycle was its last */
	int32_t		newer;
	int32_t		older;

	int64_t		gpu_memory_used[DECIDE_MAX_DEVICES];	/* MiB, by shares */
} Host;

/* The hosts of one type: a stretch of by_type, by_domain and by_leaf. */
typedef struct TypeRange
{
	int32_t		type;
	int32_t		first;
	int32_t		n;
} TypeRange;

/* Hosts among which a gang may spread, each domain's in one stretch. */
typedef struct Scope
{
	const int32_t *hosts;
	int32_t		n;
	int32_t		next;			/* where the scope after it starts */
} Scope;

/* Which hosts take how many devices of a start, and what speaks for it. */
typedef struct Plan
{
	int32_t    *hosts;
	int32_t    *gpus;
	int32_t		n;
	int32_t		domains;
	int32_t		leaves;
	int64_t		loss;			/* free devices no longer fed, over the pool */
	int64_t		free_left;		/* free devices left on the hosts used */
	int64_t		cache_misses;	/* hosts that do not hold the job's cache */
	int64_t		spare;			/* devices the scope could still take */
} Plan;

/* How well a host suits a request: the lower the better. */
typedef struct FitKey
{
	uint64_t	high;
	uint64_t	low;
} FitKey;

#define FIT_NONE	((FitKey) {UINT64_MAX, UINT64_MAX})

/* A single host for a request, and what speaks for it. */
typedef struct Choice
{
	int32_t		host;			/* -1: none can take the request */
	FitKey		key;
	uint64_t	near;			/* devices free near it, see near.c */
} Choice;

#define CHOICE_NONE	((Choice) {-1, FIT_NONE, 0})

/* Of near.h. */
typedef struct Near Near;
typedef struct NearTree NearTree;
typedef struct Best Best;

/* What typical jobs are like, for the policy fgd. */
typedef struct Mix Mix;

/* One request's progress in the cycle. */
typedef struct RequestState
{
	int32_t		offer;			/* those before it can start nothing more */

	/* with this offer and those tied to it */
	bool		spread;			/* no single host can take it any more */
	bool		started;		/* a job, on a single host */
	Best	  **best;			/* of each offer; NULL: not yet built */
} RequestState;

/* What came of an attempt to place a job. */
typedef enum PlaceOutcome
{
	OUTCOME_STARTED,
	OUTCOME_NO_FIT,
	OUTCOME_OUT_OF_MEMORY
} PlaceOutcome;

/* Of gang.c. */
typedef struct GangScratch GangScratch;

/* memory.c */
extern void *DecideAlloc(const DecideArena *arena, int64_t n, size_t size);
extern void *DecideGrow(const DecideArena *arena, void *items, int32_t n,
						int32_t *capacity, size_t size);
extern void DecidePoll(const DecideArena *arena);

/* sort.c */
typedef int (*DecideCompareFn) (const void *context, int32_t a, int32_t b);
extern bool DecideSort(const DecideArena *arena, int32_t *items, int32_t n,
					   DecideCompareFn compare, const void *context);
extern void DecideSortKeys(uint64_t *keys, uint64_t *spare, int32_t n);

/* input.c */
extern const char *DecideInputError(const DecideInput *input);

/* heap.c */
typedef struct HeapKind
{
	bool		(*before) (void *context, int32_t a, int32_t b);
	void		(*moved) (void *context, int32_t item, int32_t at);
} HeapKind;

extern void DecideHeapBuild(const HeapKind *kind, void *context,
							int32_t *items, int32_t n);
extern void DecideHeapFix(const HeapKind *kind, void *context,
						  int32_t *items, int32_t n, int32_t at);
extern void DecideHeapRemove(const HeapKind *kind, void *context,
							 int32_t *items, int32_t n, int32_t at);

/* fair.c */

/* What places a sibling among others: more use for its weight, later. */
typedef struct FairShare
{
	int64_t		weight;
	int64_t		usage;
} FairShare;

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

extern const char *DecideFairBegin(const DecideInput *input,
								   const DecideArena *arena, FairUse *use);
extern void DecideFairAdd(FairUse *use, int32_t account, int64_t amount);
extern int64_t DecideFairAmount(const DecideInput *input, int32_t type,
								int64_t milli);
extern int	DecideFairCompare(FairShare a, FairShare b);
extern FairShare DecideFairOf(const FairUse *use, int32_t account);
extern FairShare DecideFairOwn(const FairUse *use, int32_t account);

/* fairshare_tree.c */

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

extern const char *DecideFairshareTreeBegin(const DecideInput *input,
											const DecideArena *arena,
											int32_t n_items, FairshareTree *tree);
extern int32_t DecideFairshareTreeAdd(FairshareTree *tree,
									  const DecideArena *arena,
									  int which, int32_t first, int32_t end);
extern bool DecideFairshareTreeReady(FairshareTree *tree,
									 const DecideArena *arena);
extern int32_t DecideFairshareTreeFirst(const FairshareTree *tree,
										int32_t root);
extern bool DecideFairshareTreeBefore(FairshareTree *tree, int32_t root_a,
									  int32_t root_b);
extern void DecideFairshareTreeTake(FairshareTree *tree, int32_t job);
extern void DecideFairshareTreeBlock(FairshareTree *tree, int32_t request);
extern void DecideFairshareTreeCharge(FairshareTree *tree, int32_t account,
									  int64_t amount);

/* queue.c */

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

extern const char *DecideQueueOpen(const DecideInput *input,
								   const DecideArena *arena,
								   const int32_t *held, Queue *queue);
extern int32_t DecideQueueNext(Queue *queue);
extern void DecideQueueCharge(Queue *queue, int32_t job, int32_t type,
							  int32_t gpus);
extern void DecideQueueBlock(Queue *queue, int32_t request);
extern bool DecideJobAged(const DecideInput *input, int32_t job);

typedef struct Cycle
{
	const DecideInput *input;
	const DecideArena *arena;

	Host	   *hosts;
	int32_t		n_hosts;
	TypeRange  *types;
	int32_t		n_types;
	int32_t    *by_type;		/* type, host */
	int32_t    *by_domain;		/* type, domain, leaf, host; NULL: not yet */
	int32_t    *by_leaf;		/* type, leaf, domain, host; NULL: not yet */
	int32_t    *by_near;		/* the same order of the labels as given */
	Near	   *near;			/* by place in it */
	NearTree  **near_trees;		/* by kind, then of all; NULL: not yet */

	int32_t		latest;			/* host that changed last, -1: none */
	uint64_t	changes;

	int32_t    *class_of;		/* class of each request */
	struct EquivalenceClass *classes;
	GangScratch *gang;			/* NULL: not yet needed */
	Plan		single;			/* room for one host */

	Queue	   *queue;
	struct ClaimState *claims;
	struct Quotas *quotas;		/* NULL: there are none */
	struct QuotaFilter *filter; /* what they leave the job whose turn it is;
								 * NULL: all it requests */

	Mix		   *mix;			/* NULL: the policy is not fgd */
	DecideCached *cached;		/* by cache and host; node is the host */
	bool	   *holds;			/* by host: the cache of the job whose turn it
								 * is; NULL: there are no caches */

	const DecidePreviousReservation **previous; /* by job; NULL: nobody was
												 * told anything */
	int32_t    *previous_host;	/* host of each node */

	DecideResult *result;
	int32_t		starts_capacity;
	int32_t		parts_capacity;

	struct Timeline *timeline;	/* NULL: nothing is reserved */
	bool		reserving;		/* what starts is a reservation, at: */
	int64_t		at;
	int32_t		reservations_capacity;
	int32_t		reserved_capacity;
	int32_t		n_deep;			/* reservations that count for the depth */
	int32_t		n_aged;			/* of aged jobs */
	bool		trying;			/* the hosts will be as before */
	int32_t		passes;			/* whoever of this rank seeks what is due to
								 * him passes holds that yield to it;
								 * INT32_MAX: none does */
	bool	   *on_claim;		/* by job: it started on its claim; NULL:
								 * there are no claims */
	int32_t		n_before;		/* starts before the first turn in vain; -1:
								 * there was none */
} Cycle;

/* cycle.c */
extern const char *DecideRound(const DecideInput *input,
							   const DecideArena *arena, DecideResult *result,
							   bool *over);

/* result_apply.c */
extern int64_t DecideEndAfter(const DecideInput *input, int64_t run);
extern int64_t DecideStartEnd(const DecideInput *input, int32_t job,
							  bool expected);
extern bool DecideResultApply(const DecideInput *input,
							  const DecideResult *result,
							  const DecideArena *arena, int32_t made_before,
							  int32_t *job_now, DecideInput *next);

/* previous_reservation.c */
extern bool DecidePreviousPrepare(Cycle *cycle);
extern PlaceOutcome DecidePreviousTry(Cycle *cycle, int32_t job,
									  const DecideRequestClass *request,
									  const DecideOffer *offers, int32_t n_offers);

/* reservation.c */
extern bool DecideMayReserve(const Cycle *cycle, int32_t job);
extern bool DecideReserve(Cycle *cycle, int32_t job);
extern PlaceOutcome DecideFreeButReserved(Cycle *cycle, int32_t job,
										  int32_t *type);

/* hosts.c */
extern const char *DecideHostsLoad(Cycle *cycle);
extern bool DecideHostsGroup(Cycle *cycle);
extern TypeRange DecideHostsOfType(const Cycle *cycle, int32_t type);
extern void DecideHostAddCapacity(Host *host, int64_t cpu_milli,
								  int64_t memory_mib);
extern void DecideHostDerive(Host *host);
extern void DecideHostTouch(Cycle *cycle, int32_t index);

/* timeline.c */
extern Host *DecideHostTruth(Cycle *cycle, int32_t index);
extern void DecideHostTake(Cycle *cycle, int32_t host, const DecidePart *part,
						   int32_t share);

/* scope.c */
extern bool DecideScopeNext(const Cycle *cycle, const TypeRange *range,
							DecideTopology topology, Scope *scope);
extern bool DecideScopeLeaf(const Cycle *cycle, const Scope *outer,
							Scope *inner);

/* fit.c */
extern bool DecideFitAllowed(const Host *host,
							 const DecideRequestClass *request,
							 const DecideOffer *offer);
extern bool DecideFitMemory(const Host *host, const DecideOffer *offer);
extern int64_t DecideFitSplit(int64_t total, int32_t gpus, int32_t count);
extern int32_t DecideFitCapacity(const Host *host, int64_t cpu_milli,
								 int64_t memory_mib, int32_t count);
extern int32_t DecideFitUsable(const Host *host, int32_t n_free,
							   int64_t cpu_left, int64_t memory_left);
extern int32_t DecideFitLoss(const Host *host,
							 const DecideRequestClass *request,
							 int32_t gpus, int32_t count);
extern bool DecideFitTakes(const Host *host, const DecideRequestClass *request,
						   const DecideOffer *offer, int32_t count);
extern int64_t DecideFitFloor(const DecideOffer *offer);
extern int64_t DecideFitLeft(const Host *host);
extern bool DecideFitLess(FitKey a, FitKey b);

extern int64_t DecideShareTakes(const Host *host,
								const DecideRequestClass *request);
extern bool DecideShareFits(const Host *host, int32_t device, int32_t share,
							int64_t memory);
extern int32_t DecideShareDevice(const Host *host,
								 const DecideRequestClass *request);

/* packing.c */
extern FitKey DecideFitKey(const Cycle *cycle, const Host *host,
						   const DecideRequestClass *request,
						   const DecideOffer *offer,
						   int32_t count);
extern int64_t DecideFitPart(const Cycle *cycle, const Host *host,
							 const DecideRequestClass *request, int32_t gpus,
							 int32_t count);
extern int32_t DecideShareChoose(const Cycle *cycle, const Host *host,
								 const DecideRequestClass *request);
extern bool DecideMixPrepare(Cycle *cycle);

/* cache_index.c */
extern bool DecideCachedPrepare(Cycle *cycle);
extern void DecideCachedMark(Cycle *cycle, int32_t cache, bool holds);
extern int32_t DecideCachedHost(const Cycle *cycle,
								const DecideRequestClass *request,
								const DecideOffer *offers, int32_t n_offers,
								int32_t count, int32_t cache, int32_t host);

/* single.c */
extern int32_t DecideSingleOffers(const Cycle *cycle,
								  const DecideRequestClass *request,
								  int32_t first);
extern bool DecideSingleFind(Cycle *cycle, RequestState *state,
							 const DecideRequestClass *request,
							 const DecideOffer *offers,
							 int32_t n_offers, int32_t cache, int32_t *host);

/* near.c */
extern bool DecideNearPrepare(Cycle *cycle);

/* best.c */
extern Choice DecideBestScan(const Cycle *cycle,
							 const DecideRequestClass *request,
							 const DecideOffer *offer, int32_t count);
extern Best *DecideBestBuild(Cycle *cycle, const DecideRequestClass *request,
							 const DecideOffer *offer);
extern Choice DecideBestFind(Cycle *cycle, Best *best,
							 const DecideRequestClass *request,
							 const DecideOffer *offer);
extern bool DecideChoiceBetter(const Choice *a, const Choice *b);

/* range.c */
extern int32_t DecideRangeLargest(Cycle *cycle,
								  const DecideRequestClass *request,
								  const DecideOffer *offer);

/* gang.c */
extern bool DecideGangPrepare(Cycle *cycle);
extern Plan *DecideGangFind(Cycle *cycle, const DecideRequestClass *request,
							const DecideOffer *offer, int32_t count);

/* start.c */
extern PlaceOutcome DecideTryOffers(Cycle *cycle, RequestState *state,
									int32_t job,
									const DecideRequestClass *request,
									const DecideOffer *offers,
									int32_t n_offers);
extern bool DecideStartOn(Cycle *cycle, int32_t job, int32_t type,
						  int32_t gpus, const int32_t *hosts,
						  const DecidePart *parts, int32_t n_parts);

extern void DecideStartPart(const Cycle *cycle,
							const DecideRequestClass *request,
							int32_t host, int32_t gpus, int32_t count,
							DecidePart *part);
extern int32_t *DecideStartOrder(Cycle *cycle, const Plan *plan);

/* claim.c */
extern bool DecideClaimsBegin(Cycle *cycle);
extern bool DecideClaimsMay(const Cycle *cycle, int32_t request);
extern bool DecideClaimed(const Cycle *cycle, int32_t job);
extern int32_t DecideReservationYields(const Cycle *cycle, int32_t job,
									   const DecideReservation *made);
extern bool DecideClaimTry(Cycle *cycle, int32_t job, bool *made);
extern bool DecideClaimsUnsettled(const Cycle *cycle);
extern void DecideClaimsStarted(Cycle *cycle, const DecideStart *start);
extern bool DecideClaimsEnd(Cycle *cycle);

/* check_claims.c */
extern const char *DecideCheckClaims(const DecideInput *input,
									 const DecideResult *result,
									 const DecideArena *arena);

/* check.c, check_reserve.c */
extern const char *DecideCheckStart(const DecideInput *input,
									const DecideResult *result,
									const DecideStart *start);
extern const char *DecideCheckReserved(const DecideInput *input,
									   const DecideResult *result,
									   const DecideArena *arena);

/* check_start.c */
extern const char *DecideCheckQuotas(const DecideInput *input,
									 const DecideResult *result,
									 const DecideArena *arena);

/* check_entitle.c */
extern const char *DecideCheckEntitled(const DecideInput *input,
									   const DecideResult *result,
									   const DecideArena *arena);

/* reason.c */
extern void DecideReasonFind(Cycle *cycle, const DecideRequestClass *request,
							 DecideWait *wait);

#endif							/* DECIDE_CORE_H */
