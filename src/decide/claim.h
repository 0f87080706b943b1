/*
 * claim.h
 *	  What the files about claims share: who could go, and what would fit then.
 */
#ifndef DECIDE_CLAIM_H
#define DECIDE_CLAIM_H

#include "decide/timeline.h"

/* A running job that may be made to leave so that another has room. */
typedef struct Candidate
{
	int32_t		running;		/* index into the input's running jobs */
	int32_t		rank;			/* of its tier */
	int64_t		lost;			/* device-thousandth-seconds of work since its
								 * last checkpoint */
	int64_t		amount;			/* what it counts in usage */
	bool		given;			/* given back, in the search at hand */
	bool		gone;			/* told to leave, in this cycle */
} Candidate;

/* A part of a candidate on a host. */
typedef struct Holder
{
	int32_t		candidate;
	int32_t		part;			/* index into the input's running parts */
} Holder;

/* A running job that can do with fewer devices, and those it would give. */
typedef struct Elastic
{
	int32_t		running;
	int32_t		candidate;		/* the same job among those; -1: it is not */
	int32_t		spare;			/* devices above its least, not yet given */
	bool		resized;		/* in this cycle */
} Elastic;

/* Devices that an elastic job gives in the search at hand. */
typedef struct Given
{
	int32_t		elastic;
	int32_t		part;			/* index into the input's running parts */
	uint64_t	devices;
} Given;

/* How much a set of victims is worth: the worst first. */
typedef struct Cost
{
	int32_t		rank;			/* of the most important tier: the higher the
								 * better */
	int64_t		lost;			/* the lower the better, as the next */
	int32_t		n;
	int64_t		oldest;			/* earliest start: the later the better */
	int32_t		shrunk;			/* devices that elastic jobs give */
	int32_t		gpus;			/* devices that victims have */
} Cost;

/* What entitles accounts, in usage's unit: device-thousandths x weight. */
typedef struct Entitle
{
	int32_t    *depth;			/* of each account */
	int64_t    *due;			/* of an account with all below it */
	int64_t    *due_own;		/* of an account's own jobs */
	int64_t    *used;			/* likewise */
	int64_t    *used_own;
	int64_t    *giving;			/* likewise: of that, what elastic jobs give
								 * in the search at hand */
	int64_t    *giving_own;
	uint64_t	changes;		/* of what is used */
	int32_t    *deepest;		/* accounts, the deepest first; NULL: not yet */
	struct PreemptableBound **preemptable;	/* two by tier, the second for
											 * searches that are under; NULL:
											 * not yet */
} Entitle;

/* For whom devices are sought, and what there is for it as things are given. */
typedef struct Search
{
	int32_t		job;			/* -1: for a running job that grows */
	int32_t		account;		/* that will use what is found */
	int32_t		rank;			/* of the tier */
	bool		preempts;		/* less important tiers leave for it */
	const DecideRequestClass *request;
	const DecideOffer *offer;
	TypeRange	range;
	const int32_t *hosts;		/* of the offer; NULL: all */
	int32_t		count;			/* devices, or 1 where a host is to fit */
	bool		whole;			/* whole devices */
	bool		moving;			/* victims are to go on elsewhere */
	bool		no_victims;		/* only elastic jobs give */
	bool		no_shrinks;		/* elastic jobs give all or nothing */
	bool		shrinking;		/* it is asked what an elastic job may give */
	bool		under;			/* the largest of an account's victims may
								 * leave it less than it is due */
	int32_t		above;			/* victims' ranks must be above it */
	int64_t		amount;			/* what it will count in usage, beside what it
								 * does */
} Search;

/* What those who leave for a claim give back on one host. */
typedef struct Leaving
{
	int32_t		devices[DECIDE_MAX_DEVICES];	/* thousandths */
	int64_t		gpu_memory[DECIDE_MAX_DEVICES];
	int64_t		cpu_milli;
	int64_t		memory_mib;
} Leaving;

typedef struct Leavers Leavers;

typedef struct ClaimState
{
	int32_t    *host_of;		/* by node */
	int32_t    *in_turn;		/* claims of earlier cycles, as they were made */
	Candidate  *candidates;		/* cheapest first */
	int32_t		n_candidates;
	int32_t    *ranks;			/* of candidates, the least important first */
	int32_t		n_ranks;
	int32_t    *by_running;		/* candidate of a running job, or -1 */
	Elastic    *elastics;		/* least important first */
	int32_t		n_elastics;
	int32_t    *in_order;		/* by running part: those of an elastic job,
								 * by host */
	uint64_t   *shrunk;			/* by running part: devices given in this
								 * cycle or search */
	Holder	   *holders;		/* by host, cheapest first */
	int32_t    *first_holder;	/* n_hosts + 1 */
	Entitle		entitle;
	int32_t    *tried;			/* hash: jobs that were tried in vain */
	uint64_t	tried_size;
	int32_t    *waiting;		/* those, and who stands like them, in the
								 * order of their turns */
	int32_t		n_waiting;
	bool		again;			/* the queue is through */
	bool		loaded;			/* all of the above */
	bool		elastic;		/* some running job can do with less */
	int32_t		least;			/* the least important rank that may be
								 * evicted; INT32_MIN: none */
	bool	   *may;			/* by request: a job of it has some right */
	bool	   *promised;		/* by job: it has a claim */

	/* the search at hand */
	Search		search;
	int32_t    *chosen;			/* candidates given back */
	int32_t		n_chosen;
	int32_t    *best;			/* the best set so far */
	int32_t		n_best;
	Given	   *given;			/* devices of elastic jobs given back */
	int32_t		n_given;
	int32_t    *capacity;		/* by host: devices it could take */
	int32_t    *scope_of;		/* by host */
	int64_t    *scope_capacity; /* by scope */
	int32_t		n_ready;		/* scopes with room enough */
	uint64_t   *keys;			/* one per host */
	uint64_t   *keys_spare;
	Host	   *saved;			/* the hosts, before something was tried */
	int32_t		saved_latest;
	uint64_t	saved_changes;
	int32_t		trials;			/* of moves, in this search */
	int32_t    *movers;			/* the chosen, the largest first */
	DecidePart *parts;			/* of the job they move for */

	int32_t		promises_capacity;
	int32_t		promise_parts_capacity;
	int32_t		evictions_capacity;
} ClaimState;

/* trial_release.c */
extern void DecideHostRelease(Cycle *cycle, int32_t index,
							  const DecidePart *part, uint64_t keep,
							  int32_t share, bool give);
extern void DecideHostReleaseDevices(Cycle *cycle, int32_t index,
									 uint64_t devices, bool give);
extern bool DecideHostHas(const Host *host, const DecidePart *part,
						  int32_t share);
extern void DecideHostPromise(Cycle *cycle, int32_t index,
							  const DecidePart *part, int32_t share,
							  const Leaving *leaving);

/* claim_leavers.c */
extern Leavers *DecideLeaversLoad(Cycle *cycle);
extern const Leaving *DecideLeaversOf(Cycle *cycle, Leavers *leavers,
									  int32_t claim, int32_t host);

/* entitle.c */
extern int64_t DecideUsage(const DecideInput *input, int32_t type,
						   int64_t gpus, int32_t share);
extern bool DecideEntitleLoad(Cycle *cycle);
extern void DecideEntitleUse(Cycle *cycle, int32_t account, int64_t amount);
extern void DecideEntitleShrink(Cycle *cycle, const DecideRunning *running,
								int32_t gpus);
extern bool DecideEntitleMay(const Cycle *cycle, int32_t taker,
							 int64_t taken, int32_t giver, int64_t given);
extern bool DecideEntitleBeyond(const Cycle *cycle, int32_t taker,
								int32_t giver, int64_t given);
extern bool DecideEntitleWithin(const Cycle *cycle, int32_t taker,
								int64_t taken, int32_t giver);

/* preemptable_bound.c */
extern bool DecidePreemptableMight(Cycle *cycle, bool *might);

/* victims.c */
extern bool DecideRunningSettled(const DecideInput *input,
								 const DecideRunning *running);
extern bool DecideVictimMay(const Cycle *cycle, const Candidate *candidate,
							DecideWhy *why);
extern DecideWhy DecideVictimWhy(const Cycle *cycle,
								 const Candidate *candidate);
extern bool DecideVictimsEntitled(const Cycle *cycle, int32_t spared);
extern void DecideVictimsFillBack(Cycle *cycle);
extern Cost DecideVictimsCost(const Cycle *cycle, const int32_t *chosen,
							  int32_t n);
extern int	DecideCostCompare(const Cost *a, const Cost *b);

/* victims_room.c */
extern void DecideVictimRelease(Cycle *cycle, int32_t candidate, bool give);
extern void DecideVictimCapacity(Cycle *cycle, int32_t candidate);
extern void DecideSearchBegin(Cycle *cycle, DecideTopology topology,
							  bool single);
extern void DecideSearchUpdate(Cycle *cycle, int32_t host);

/* victims_host.c, victims_gang.c */
extern bool DecideVictimsOnHost(Cycle *cycle);
extern bool DecideVictimsAllEntitled(const Cycle *cycle);

/* shrink.c */
extern bool DecideElasticStays(const Cycle *cycle,
							   const DecideRunning *running);
extern bool DecideElasticMayShrink(const DecideInput *input,
								   const DecideRunning *running);
extern int32_t DecideShrinkRelease(Cycle *cycle, int32_t host);
extern void DecideShrinkTake(Cycle *cycle);
extern void DecideShrinkFillBack(Cycle *cycle);
extern bool DecideShrinksTell(Cycle *cycle, int32_t leader);

/* defragment.c */
extern bool DecideDefragmentFit(Cycle *cycle);
extern bool DecideDefragmentAdd(Cycle *cycle, int32_t leader);

/* claim_add.c */
extern Plan *DecideClaimPlan(Cycle *cycle, const DecideRequestClass *request,
							 const DecideOffer *offer, int32_t count);
extern DecidePromise *DecidePromiseAdd(Cycle *cycle);
extern bool DecidePromisePart(Cycle *cycle, const DecidePart *part);
extern bool DecidePromisePlan(Cycle *cycle, const DecideRequestClass *request,
							  int32_t count, Plan *plan);
extern bool DecideEvictionAdd(Cycle *cycle, int32_t running, DecideWhy why);
extern bool DecideVictimsTell(Cycle *cycle, DecideWhy *why);

/* claim.c */
extern bool DecideClaimsLoad(Cycle *cycle);
extern void DecideSearchFor(Cycle *cycle, const DecideRequestClass *request,
							const DecideOffer *offer);
extern bool DecideVictimsFind(Cycle *cycle);
extern void DecideVictimsGiveUp(Cycle *cycle);

/* claims_load.c */
extern bool DecideClaimsRestore(Cycle *cycle);

/* grow.c */
extern bool DecideElasticsGrow(Cycle *cycle);


#endif							/* DECIDE_CLAIM_H */
