/*
 * claim_state.h
 *	  What the files of the room share: which jobs could leave, and what
 *	  would fit then.
 */
#ifndef DECIDE_CLAIM_STATE_H
#define DECIDE_CLAIM_STATE_H

#include "decide/preempt/preempt.h"

/* A running job that could leave to make room. */
typedef struct Candidate
{
	int32_t		running;		/* index into the input's running jobs */
	int32_t		rank;			/* of its tier */
	int64_t		lost;			/* device-thousandth-seconds of work since its
								 * last checkpoint */
	int64_t		amount;			/* what it counts in usage */
	int64_t		price;			/* what its eviction for an entitlement costs:
								 * device-thousandth-seconds */
	bool		given;			/* released, in the current search */
	bool		gone;			/* told to leave, in this cycle */
} Candidate;

/* A part of a candidate on a host. */
typedef struct Holder
{
	int32_t		candidate;
	int32_t		part;			/* index into the input's running parts */
} Holder;

/* A running job that can run on fewer devices, and how many it would give. */
typedef struct Elastic
{
	int32_t		running;
	int32_t		candidate;		/* the same job as a candidate; -1: it is none */
	int32_t		spare;			/* devices above its least, not yet given */
	bool		resized;		/* in this cycle */
} Elastic;

/* Devices that an elastic job gives in the current search. */
typedef struct Given
{
	int32_t		elastic;
	int32_t		part;			/* index into the input's running parts */
	uint64_t	devices;
} Given;

/* The cost of a set of victims. */
typedef struct Cost
{
	int32_t		rank;			/* most important tier; higher is better */
	int64_t		lost;			/* lower is better, as the next */
	int32_t		n;
	int64_t		oldest;			/* earliest start; later is better */
	int32_t		shrunk;			/* devices that elastic jobs give */
	int32_t		gpus;			/* devices that victims have */
} Cost;

/* Entitlements, in usage's unit: device-thousandths x weight. */
typedef struct Entitle
{
	int32_t    *depth;			/* of each account */
	int64_t    *due;			/* of an account with all below it */
	int64_t    *due_own;		/* of the account's own jobs */
	int64_t    *used;			/* likewise */
	int64_t    *used_own;
	int64_t    *giving;			/* part of used that elastic jobs give in the
								 * current search */
	int64_t    *giving_own;
	uint64_t	changes;		/* number of changes of used */
	int32_t    *deepest;		/* accounts, the deepest first; NULL: not yet */
	struct PreemptableBound **preemptable;	/* two by tier; the second for
											 * searches with under; NULL: not
											 * yet */
} Entitle;

/* A search for devices, and what it may use. */
typedef struct Search
{
	int32_t		job;			/* -1: a running job grows */
	int32_t		account;		/* the account that will use the devices */
	int32_t		rank;			/* of the tier */
	bool		preempts;		/* less important tiers leave for it */
	const DecideRequestClass *request;
	const DecideOffer *offer;
	TypeRange	range;
	const int32_t *hosts;		/* of the offer; NULL: all */
	int32_t		count;			/* devices; 1 if a host must fit */
	bool		whole;			/* whole devices */
	bool		moving;			/* victims go on elsewhere */
	bool		no_victims;		/* only elastic jobs give */
	bool		no_shrinks;		/* elastic jobs give all or nothing */
	bool		shrinking;		/* asks what an elastic job may give */
	bool		under;			/* an account's largest victim may leave it
								 * less than its entitlement */
	int32_t		above;			/* victims' ranks must be above it */
	int64_t		amount;			/* what it will add to usage */
	int64_t		budget;			/* what evictions for the entitlement may
								 * cost, in device-thousandth-seconds */
} Search;

typedef struct ClaimState
{
	int32_t    *host_of;		/* by node */
	int32_t    *in_turn;		/* claims of earlier cycles, in order */
	Candidate  *candidates;		/* cheapest first */
	int32_t		n_candidates;
	int32_t    *ranks;			/* of candidates, the least important first */
	int32_t		n_ranks;
	int32_t    *by_running;		/* candidate of a running job, or -1 */
	Elastic    *elastics;		/* least important first */
	int32_t		n_elastics;
	int32_t    *in_order;		/* by running part: parts of an elastic job,
								 * by host */
	uint64_t   *shrunk;			/* by running part: devices given in this
								 * cycle or search */
	Holder	   *holders;		/* by host, cheapest first */
	int32_t    *first_holder;	/* n_hosts + 1 */
	Entitle		entitle;
	int32_t    *tried;			/* hash: jobs that failed */
	uint64_t	tried_size;
	int32_t    *waiting;		/* jobs that failed, and jobs like them, in
								 * the order of their turns */
	int32_t		n_waiting;
	bool		again;			/* the queue is done */
	bool		loaded;			/* all above is loaded */
	bool		elastic;		/* some running job could shrink */
	int32_t		least;			/* the least important rank that may be
								 * evicted; INT32_MIN: none */

	/* the current search */
	Search		search;
	int32_t    *chosen;			/* released candidates */
	int32_t		n_chosen;
	int32_t    *best;			/* the best set so far */
	int32_t		n_best;
	Given	   *given;			/* released devices of elastic jobs */
	int32_t		n_given;
	int32_t    *capacity;		/* by host: devices it could take */
	int32_t    *scope_of;		/* by host */
	int64_t    *scope_capacity; /* by scope */
	int32_t		n_ready;		/* scopes with enough room */
	uint64_t   *keys;			/* one per host */
	uint64_t   *keys_spare;
	Host	   *saved;			/* the hosts before a trial */
	int32_t		saved_latest;
	uint64_t	saved_changes;
	int32_t		trials;			/* trials of moves in this search */
	int32_t    *movers;			/* the chosen, the largest first */
	DecidePart *parts;			/* of the next promise */

	int32_t		promises_capacity;
	int32_t		promise_parts_capacity;
	int32_t		evictions_capacity;
} ClaimState;

/* entitle.c */
extern bool DecideEntitleLoad(Cycle *cycle);
extern void DecideEntitleUse(Cycle *cycle, int32_t account, int64_t amount);
extern void DecideEntitleShrink(Cycle *cycle, const DecideRunning *running,
								int32_t gpus);
extern bool DecideEntitleMay(const Cycle *cycle, int32_t taker,
							 int64_t taken, int32_t giver, int64_t given);
extern bool DecideEntitleWithin(const Cycle *cycle, int32_t taker,
								int64_t taken, int32_t giver);
extern bool DecideVictimsAllEntitled(const Cycle *cycle);

/* preemptable_bound.c */
extern bool DecidePreemptableMight(Cycle *cycle, bool *might);

/* victims.c */
extern void DecideVictimRelease(Cycle *cycle, int32_t candidate, bool give);
extern void DecideSearchUpdate(Cycle *cycle, int32_t host);
extern bool DecideElasticMayShrink(const DecideInput *input,
								   const DecideRunning *running);
extern bool DecideElasticStays(const Cycle *cycle,
							   const DecideRunning *running);
extern bool DecideClaimsLoad(Cycle *cycle);

/* victims_search.c */
extern void DecideSearchFor(Cycle *cycle, const DecideRequestClass *request,
							const DecideOffer *offer);
extern void DecideVictimsGiveUp(Cycle *cycle);
extern bool DecideVictimsFind(Cycle *cycle);

/* promise.c, shrink.c, defragment.c */
extern DecidePromise *DecidePromiseAdd(Cycle *cycle,
									   const DecideRequestClass *request,
									   int32_t count, Plan *plan);
extern bool DecideLeaversTell(Cycle *cycle, int32_t leader, int32_t grows,
							  DecideWhy *why);
extern Plan *DecideClaimPlan(Cycle *cycle, const DecideRequestClass *request,
							 const DecideOffer *offer, int32_t count);
extern int32_t DecideShrinkRelease(Cycle *cycle, int32_t host);
extern void DecideShrinkTake(Cycle *cycle);
extern void DecideShrinkFillBack(Cycle *cycle);
extern bool DecideDefragmentFit(Cycle *cycle);
extern bool DecideDefragmentAdd(Cycle *cycle, int32_t leader);

/* grow.c */
extern bool DecideElasticsGrow(Cycle *cycle);

/*
 * By what right the search's job makes a candidate leave.
 */
static inline DecideWhy
DecideVictimWhy(const Cycle *cycle, const Candidate *candidate)
{
	const Search *search = &cycle->claims->search;

	DecideAssert(cycle->claims != NULL && candidate != NULL);
	if (search->moving)
		return DECIDE_WHY_MOVE;
	return search->preempts && search->rank < candidate->rank ?
		DECIDE_WHY_TIER : DECIDE_WHY_ENTITLEMENT;
}

/*
 * Does a job run for at least its tier's min_run, without being told to
 * leave?
 */
static inline bool
DecideRunningSettled(const DecideInput *input, const DecideRunning *running)
{
	DecideAssert(running != NULL);
	return !running->leaving && !running->over && running->account >= 0 &&
		input->now > running->started &&
		input->now - running->started >= input->tiers[running->tier].min_run;
}

/*
 * Whether a running job may be made to leave for an account's entitlement.  A
 * job that was evicted before keeps what it has for its tier's min_run, four
 * times as long for each eviction, and four times what it lost, of which an hour
 * counts at most, as who does not save loses more by choice; and it leaves at most
 * DECIDE_MOST_RECLAIMED times.  One that was aged when it started keeps
 * what it has for its tier's max_wait: it went before jobs within their
 * entitlements, and would go before them again.
 */
static inline bool
DecideReclaimable(const DecideInput *input, const DecideRunning *running)
{
	const DecideTier *tier = &input->tiers[running->tier];
	int64_t		keeps = tier->min_run;
	int32_t		i;

	DecideAssert(running->evictions >= 0 && running->redone >= 0);
	if (running->evictions >= DECIDE_MOST_RECLAIMED)
		return false;
	for (i = 0; i < running->evictions && keeps < DECIDE_NEVER / 8; i++)
		keeps *= 4;
	keeps = DecideTimeAdd(keeps, 4 * (running->redone < DECIDE_MOST_REDONE ?
									  running->redone : DECIDE_MOST_REDONE));
	if (running->aged && keeps < tier->max_wait)
		keeps = tier->max_wait;
	return input->now - running->started >= keeps;
}

#endif							/* DECIDE_CLAIM_STATE_H */
