/*
 * claim_state.h
 *	  What the files of this directory share: which running jobs could leave,
 *	  and which jobs would fit then.
 */
#ifndef DECIDE_CLAIM_STATE_H
#define DECIDE_CLAIM_STATE_H

#include "decide/preempt/preempt.h"

/* A running job that could leave to make room. */
typedef struct Candidate
{
	int32_t		running;		/* index into the input's running jobs */
	int32_t		rank;			/* rank of its tier */
	int64_t		lost;			/* device-thousandth-seconds of work since its
								 * last checkpoint */
	int64_t		amount;			/* what it counts in usage */
	int64_t		price;			/* device-thousandth-seconds that its eviction
								 * for an entitlement costs */
	bool		given;			/* its devices are released in the current
								 * search */
	bool		gone;			/* it was told to leave in this cycle */
} Candidate;

/* A part of a candidate on a host. */
typedef struct Holder
{
	int32_t		candidate;
	int32_t		part;			/* index into the input's running parts */
} Holder;

/* A running job that could continue with fewer devices. */
typedef struct Elastic
{
	int32_t		running;
	int32_t		candidate;		/* the candidate that is the same job, or -1
								 * if it is no candidate */
	int32_t		spare;			/* devices above its minimum that it has not
								 * given yet */
	bool		resized;		/* it was resized in this cycle */
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
	int32_t		rank;			/* rank of the most important tier; a higher
								 * rank is better */
	int64_t		lost;			/* work lost; less is better, and so are fewer
								 * victims (n) */
	int32_t		n;
	int64_t		oldest;			/* earliest start; a later one is better */
	int32_t		shrunk;			/* devices that elastic jobs give */
	int32_t		gpus;			/* devices of all victims */
} Cost;

typedef struct Sharer Sharer;

/* What accounts are entitled to. */
typedef struct EntitleDue
{
	int64_t    *all;			/* for each account and all accounts below it */
	int64_t    *own;			/* for each account's own jobs */
} EntitleDue;

/* Entitlements and use, in device-thousandths times the type's weight. */
typedef struct Entitle
{
	int32_t    *depth;			/* depth of each account below its
								 * organisation */
	int64_t		capacity;		/* capacity of the pool */
	Sharer	   *sharers;		/* the accounts by number, then the own jobs
								 * of accounts that have accounts below them */
	int32_t		n_sharers;
	int32_t    *order;			/* sharers in the order in which amounts are
								 * divided */
	int32_t    *own_sharer;		/* for each account the sharer of its own
								 * jobs, or -1 if it has no accounts below it */
	EntitleDue	asked;			/* entitlements if accounts demand what they
								 * ask for */
	EntitleDue	raised;			/* entitlements if one account is assumed to
								 * demand the whole pool */
	int32_t		raised_for;		/* the account for which raised was computed,
								 * or -1 */
	const int64_t *due;			/* entitlement of each account and all
								 * accounts below it that the search uses now:
								 * asked or raised */
	const int64_t *due_own;		/* the same for each account's own jobs */
	int64_t    *used;			/* what each account and all accounts below it
								 * use */
	int64_t    *used_own;
	int64_t    *giving;			/* part of used that elastic jobs give in the
								 * current search */
	int64_t    *giving_own;
	uint64_t	changes;		/* number of changes of used */
	int32_t    *deepest;		/* accounts, the deepest first; NULL until
								 * they are needed */
	struct PreemptableBound **preemptable;	/* PREEMPTABLE_BOUNDS for each
											 * tier; NULL until one is needed */
} Entitle;

/*
 * One for each kind of search: exact, under or rounding, with entitlements as
 * asked or raised.
 */
#define PREEMPTABLE_BOUNDS	6

/* A search for devices, and what it may use. */
typedef struct Search
{
	int32_t		job;			/* the waiting job, or -1 if a running job
								 * grows */
	int32_t		account;		/* the account that will use the devices */
	int32_t		rank;			/* rank of the job's tier */
	bool		preempts;		/* less important tiers must leave for the job */
	const DecideRequestClass *request;
	const DecideOffer *offer;
	TypeRange	range;
	const int32_t *hosts;		/* hosts of the offer's type; NULL for all
								 * hosts */
	int32_t		count;			/* number of devices, or 1 if the whole
								 * request must fit on one host */
	bool		whole;			/* the request is for whole devices */
	bool		moving;			/* victims move to other devices instead of
								 * being evicted */
	bool		no_victims;		/* only elastic jobs may give devices */
	bool		no_shrinks;		/* elastic jobs are evicted as a whole or not
								 * at all */
	bool		shrinking;		/* entitlements are checked for what elastic
								 * jobs give */
	bool		under;			/* the largest victim may leave its account
								 * less than its entitlement */
	bool		rounding;		/* the entitlement of the job's account is
								 * rounded up to a whole device */
	int32_t		within;			/* victims must be jobs of this account or of
								 * accounts below it; -1 if they may be of any
								 * account */
	bool		tier_only;		/* victims leave for the tier alone */
	int32_t		above;			/* victims must be of ranks higher than this
								 * one */
	int64_t		amount;			/* what the job will add to usage */
	int64_t		budget;			/* device-thousandth-seconds that evictions
								 * for the entitlement may cost */
} Search;

typedef struct ClaimState
{
	int32_t    *host_of;		/* host of each node */
	int32_t    *in_turn;		/* claims of earlier cycles, in order */
	Candidate  *candidates;		/* cheapest first */
	int32_t		n_candidates;
	int32_t    *ranks;			/* ranks of the candidates, least important
								 * first */
	int32_t		n_ranks;
	int64_t		least_price;	/* lowest price of the candidates that may
								 * leave for an entitlement; INT64_MAX if none
								 * may */
	int64_t		least_amount;	/* smallest amount that a candidate counts in
								 * usage; INT64_MAX if there are no candidates */
	int32_t    *by_running;		/* the candidate that each running job is, or
								 * -1 */
	Elastic    *elastics;		/* least important tiers first */
	int32_t		n_elastics;
	int32_t    *in_order;		/* running parts of each elastic job, in order
								 * of their hosts */
	uint64_t   *shrunk;			/* for each running part, the devices given in
								 * this cycle or search */
	Holder	   *holders;		/* for each host, cheapest first */
	int32_t    *first_holder;	/* first holder of each host, n_hosts + 1
								 * entries */
	Entitle		entitle;
	int32_t    *tried;			/* hash table of jobs for which a search
								 * failed */
	uint64_t	tried_size;
	int32_t    *waiting;		/* jobs for which a search failed, and jobs
								 * like them, in the order of their turns */
	int32_t		n_waiting;
	bool		again;			/* the queue is finished; failed jobs have
								 * another turn */
	bool		loaded;			/* everything above is loaded */
	bool		elastic;		/* at least one running job could shrink */
	int32_t		least;			/* the least important rank that may be
								 * evicted, or INT32_MIN if no job may */

	/* members that belong to the current search */
	Search		search;
	int32_t    *chosen;			/* candidates whose devices are released */
	int32_t		n_chosen;
	int32_t    *best;			/* the best set of victims so far */
	int32_t		n_best;
	Given	   *given;			/* devices that elastic jobs give */
	int32_t		n_given;
	int32_t    *capacity;		/* devices of the request that each host has
								 * room for */
	int32_t    *scope_of;		/* scope of each host */
	int64_t    *scope_capacity; /* capacity of each scope */
	int32_t		n_ready;		/* number of scopes with enough room */
	uint64_t   *keys;			/* one for each host */
	uint64_t   *keys_spare;
	Host	   *saved;			/* the hosts as they were before a trial */
	int32_t		saved_latest;
	uint64_t	saved_changes;
	int32_t		trials;			/* number of trials of moves in this search */
	int32_t    *movers;			/* the chosen candidates, the largest first */
	DecidePart *parts;			/* parts of the next promise */

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
extern bool DecideEntitleRaise(Cycle *cycle, int32_t account);
extern void DecideEntitleRestore(Cycle *cycle);
extern bool DecideEntitleRound(Cycle *cycle);
extern int64_t DecideEntitleSlack(const Cycle *cycle);
extern bool DecideVictimsAllEntitled(const Cycle *cycle);

/* earlier_claims.c */
extern bool DecideClaimsRestore(Cycle *cycle);

/* preemptable_bound.c */
extern bool DecidePreemptableMight(Cycle *cycle, bool *might);

/* victims.c */
extern void DecideVictimRelease(Cycle *cycle, int32_t candidate, bool give);
extern void DecideSearchUpdate(Cycle *cycle, int32_t host);
extern bool DecideElasticMayShrink(const DecideInput *input,
								   const DecideRunning *running);
extern bool DecideElasticStays(const Cycle *cycle,
							   const DecideRunning *running);

/* victims_search.c */
extern void DecideSearchFor(Cycle *cycle, const DecideRequestClass *request,
							const DecideOffer *offer);
extern bool DecideSearchRoom(Cycle *cycle);
extern bool DecideVictimMay(const Cycle *cycle, const Candidate *candidate,
							DecideWhy *why);
extern void DecideVictimsGiveUp(Cycle *cycle);
extern bool DecideVictimsFind(Cycle *cycle);

/* claim.c */
extern void DecideClaimSearch(Cycle *cycle, int32_t job,
							  const DecideOffer *offer);
extern bool DecideClaimTried(Cycle *cycle, int32_t job, int32_t **tried);
extern bool DecideClaimMake(Cycle *cycle, bool *made);

/* promise.c, shrink.c, defragment.c */
extern DecidePromise *DecidePromiseAdd(Cycle *cycle,
									   const DecideRequestClass *request,
									   int32_t count, Plan *plan);
extern bool DecideEvictionsAdd(Cycle *cycle, int32_t leader, int32_t grows,
							   DecideWhy *why);
extern Plan *DecideClaimPlan(Cycle *cycle, const DecideRequestClass *request,
							 const DecideOffer *offer, int32_t count);
extern int32_t DecideShrinkRelease(Cycle *cycle, int32_t host);
extern void DecideShrinkUndo(Cycle *cycle);
extern void DecideShrinkFillBack(Cycle *cycle);
extern bool DecideDefragmentFit(Cycle *cycle);
extern bool DecideDefragmentAdd(Cycle *cycle, int32_t leader);

/* grow.c */
extern bool DecideElasticsGrow(Cycle *cycle);

/*
 * The right by which the search's job makes a candidate leave.
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
 * Whether a job has run for at least its tier's min_run and was not told to
 * leave.
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
 * Whether a running job may be evicted for another account's entitlement.  A
 * job is protected for its tier's min_run after its start.  This time is four
 * times as long for each earlier eviction, and grows by four times the work
 * that evictions have thrown away, of which at most an hour counts, because a
 * job that saves no checkpoints loses more by its own choice.  After
 * DECIDE_MOST_RECLAIMED evictions, or if the job was aged when it started, it
 * is protected for its tier's max_wait.  This is long enough to prevent that
 * it is evicted again and again, and not longer, because otherwise three
 * evictions would give it the right to keep for good what other accounts are
 * entitled to.  An aged job went before jobs within their entitlements, and
 * would go before them again.
 */
static inline bool
DecideReclaimable(const DecideInput *input, const DecideRunning *running)
{
	const DecideTier *tier = &input->tiers[running->tier];
	int64_t		keeps = tier->min_run;
	int32_t		i;

	DecideAssert(running->evictions >= 0 && running->redone >= 0);
	for (i = 0; i < running->evictions && i < DECIDE_MOST_RECLAIMED &&
		 keeps < DECIDE_NEVER / 8; i++)
		keeps *= 4;
	keeps = DecideTimeAdd(keeps, 4 * (running->redone < DECIDE_MOST_REDONE ?
									  running->redone : DECIDE_MOST_REDONE));
	if ((running->aged || running->evictions >= DECIDE_MOST_RECLAIMED) &&
		keeps < tier->max_wait)
		keeps = tier->max_wait;
	return input->now - running->started >= keeps;
}

#endif							/* DECIDE_CLAIM_STATE_H */
