/*
 * core.h
 *	  What the rooms of the decision core share with each other.
 *
 * A cycle works on hosts: copies of the input's nodes in order of their names,
 * so that a host's number is its rank and the lower number wins every tie.
 * Domains and leaves are renamed to their lowest host's number, which frees
 * all later order from the labels the caller happened to give.
 */
#ifndef DECIDE_CORE_H
#define DECIDE_CORE_H

#include "decide/decide.h"

/*
 * What callers owe.  Checked where the server's assertions are, and in the tests.
 */
#ifdef USE_ASSERT_CHECKING
#include <assert.h>
#define DecideAssert(condition)	assert(condition)
#else
#define DecideAssert(condition)	((void) 0)
#endif

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

/* What those who leave for a claim give back on one host. */
typedef struct Leaving
{
	int32_t		devices[DECIDE_MAX_DEVICES];	/* thousandths */
	int64_t		gpu_memory[DECIDE_MAX_DEVICES];
	int64_t		cpu_milli;
	int64_t		memory_mib;
} Leaving;

/* What only the room place knows. */
typedef struct Best Best;
typedef struct Mix Mix;
typedef struct Near Near;
typedef struct NearTree NearTree;

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

/* Something that has part of a host now gives it back. */
typedef struct End
{
	int64_t		at;				/* as expected */
	int64_t		limit;			/* at the latest */
	int32_t		start;			/* the cycle's start it is of, -1: it runs */
	int32_t		host;
	int32_t		share;
	int32_t		next;			/* of the same host, -1: none */
	DecidePart	part;			/* of it, what is usable */
} End;

/* Part of a host is promised to a job that waits. */
typedef struct Reservation
{
	int64_t		from;
	int64_t		until;			/* as expected */
	int64_t		limit;			/* if it starts at from */
	int64_t		limit_until;	/* if all runs as long as it may */
	int32_t		after;			/* so many starts came before it */
	int32_t		host;
	int32_t		share;
	int32_t		yields;			/* to what is due to jobs of ranks up to this;
								 * INT32_MIN: to nobody */
	int32_t		next;			/* of the same host, -1: none */
	DecidePart	part;
} Reservation;

/* So much is left on a host. */
typedef struct Remaining
{
	int64_t		cpu;
	int64_t		memory;
	uint16_t	devices[DECIDE_MAX_DEVICES];
	int64_t		gpu_memory_used[DECIDE_MAX_DEVICES];
} Remaining;

/* What a host has left beside one of its holds, when that starts. */
typedef struct RemainingAt
{
	int64_t		from;
	Remaining	left;
	Remaining	least;			/* from now until then */
} RemainingAt;

/* What is worked out of a host with holds until it changes. */
typedef struct HostView
{
	RemainingAt *besides;		/* of its holds, by time */
	int32_t    *order;			/* its holds by time */
	int32_t		n;
	int32_t		capacity;
	int32_t		order_capacity;
	bool		fresh;
} HostView;

/* Scratch of a search, by host; scopes go by their lowest host. */
typedef struct TimeSearch
{
	int32_t    *scope;			/* -1: no host of this search */
	int32_t    *bound;			/* no more than so many devices */
	int32_t    *capacity;		/* of the last look */
	int32_t    *stale;			/* next of the scope to look at again */
	bool	   *is_stale;
	int64_t    *scope_bound;
	int64_t    *scope_capacity;
	int32_t    *scope_stale;	/* first to look at again, -1: none */
	int32_t    *touched;		/* scopes that may have grown */
	bool	   *is_touched;
} TimeSearch;

/* What will be given back and what is promised. */
typedef struct Timeline
{
	End		   *ends;
	int32_t		n_ends;
	int32_t		ends_capacity;
	int32_t    *by_time;		/* those that end at all */
	int32_t		n_by_time;
	int32_t		by_time_capacity;
	int32_t    *first_end;		/* by host, -1: none */
	Reservation *holds;			/* in the order they were made */
	int32_t		n_holds;
	int32_t		holds_capacity;
	int32_t    *by_from;		/* all holds by when they start */
	int32_t		by_from_capacity;
	int32_t    *by_until;		/* and by when they are over */
	int32_t		by_until_capacity;
	int32_t    *first_hold;		/* by host, -1: none */
	int32_t    *held;			/* hosts with holds */
	int32_t		n_held;
	HostView   *views;			/* by host */
	Host	   *truth;			/* by host: all that is free on a held one */
	Host	   *future;			/* the hosts at another time */
	int64_t		shown;			/* hosts are as a job of this limit sees them */
	int32_t    *node_host;		/* host of each node */
	TimeSearch	search;
	int32_t		n_promises;		/* so many of the promises are among the holds */
} Timeline;

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
	struct GangScratch *gang;	/* NULL: not yet needed */
	Plan		single;			/* room for one host */

	struct Queue *queue;
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

typedef int (*DecideCompareFn) (const void *context, int32_t a, int32_t b);

/* memory.c */
extern void *DecideAlloc(const DecideArena *arena, int64_t n, size_t size);
extern void *DecideGrow(const DecideArena *arena, void *items, int32_t n,
						int32_t *capacity, size_t size);
extern bool DecideSort(const DecideArena *arena, int32_t *items, int32_t n,
					   DecideCompareFn compare, const void *context);
extern void DecideSortKeys(uint64_t *keys, uint64_t *spare, int32_t n);

/* input.c */
extern const char *DecideInputError(const DecideInput *input);

/* hosts.c */
extern const char *DecideHostsLoad(Cycle *cycle);
extern bool DecideHostsGroup(Cycle *cycle);
extern TypeRange DecideHostsOfType(const Cycle *cycle, int32_t type);

/* fit.c */
extern bool DecideFitAllowed(const Host *host,
							 const DecideRequestClass *request,
							 const DecideOffer *offer);
extern int32_t DecideFitCapacity(const Host *host, int64_t cpu_milli,
								 int64_t memory_mib, int32_t count);
extern int32_t DecideFitUsable(const Host *host, int32_t n_free,
							   int64_t cpu_left, int64_t memory_left);
extern int32_t DecideFitLoss(const Host *host,
							 const DecideRequestClass *request,
							 int32_t gpus, int32_t count);
extern int64_t DecideShareTakes(const Host *host,
								const DecideRequestClass *request);
extern int32_t DecideShareDevice(const Host *host,
								 const DecideRequestClass *request);
extern bool DecideFitTakes(const Host *host, const DecideRequestClass *request,
						   const DecideOffer *offer, int32_t count);

/* timeline.c */
extern bool DecideTimelineStart(Cycle *cycle, int32_t start,
								const DecidePart *part);
extern bool DecideTimelineHold(Cycle *cycle, const Reservation *hold);
extern bool DecideTimelineOpen(Cycle *cycle, int64_t wall_limit);
extern bool DecideTimelineClaims(Cycle *cycle);
extern void DecideAvailabilityAt(const Cycle *cycle, int32_t host, int64_t at,
								 int64_t wall_limit, Host *seen);
extern uint64_t DecideAvailabilityReserved(const Cycle *cycle, int32_t host);
extern bool DecideAvailabilityAlike(const Cycle *cycle, int64_t a, int64_t b);
extern void DecideAvailabilityShow(Cycle *cycle, int64_t wall_limit);
extern void DecideHostTake(Cycle *cycle, int32_t host, const DecidePart *part,
						   int32_t share);

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

/* Within the room. */

/* hosts.c */
extern void DecideHostDerive(Host *host);
extern void DecideHostTouch(Cycle *cycle, int32_t index);

/*
 * The memory of a device that an offer asks for, in MiB.  Rounding it up
 * changes nothing, as hosts have whole MiB.
 */
static inline int64_t
DecideFitFloor(const DecideOffer *offer)
{
	return offer->min_memory / (1 << 20) +
		(offer->min_memory % (1 << 20) != 0);
}

/*
 * Do the host's devices have the memory that an offer asks for?
 */
static inline bool
DecideFitMemory(const Host *host, const DecideOffer *offer)
{
	return host->gpu_memory_mib >= DecideFitFloor(offer);
}

/*
 * Is one key better than the other?
 */
static inline bool
DecideFitLess(FitKey a, FitKey b)
{
	if (a.high != b.high)
		return a.high < b.high;
	return a.low < b.low;
}

/*
 * The part of a total that belongs to some of a job's devices, rounded up.
 */
static inline int64_t
DecideFitSplit(int64_t total, int32_t gpus, int32_t count)
{
	DecideAssert(total >= 0);
	DecideAssert(gpus == count || (gpus > 0 && gpus < count));
	if (total == 0 || gpus == count)
		return total;
	return (int64_t) (((unsigned __int128) total * (unsigned __int128) gpus + (unsigned __int128) count - 1) /
					  (unsigned __int128) count);
}

/*
 * Does a share that takes so much memory fit on a device?
 */
static inline bool
DecideShareFits(const Host *host, int32_t device, int32_t share,
				int64_t memory)
{
	DecideAssert(device >= 0 && device < host->gpus);
	DecideAssert(share > 0 && memory >= 0);
	return host->left[device] >= share &&
		memory <= host->gpu_memory_mib - host->gpu_memory_used[device];
}

/*
 * Give the caller a chance to be interrupted.
 */
static inline void
DecidePoll(const DecideArena *arena)
{
	DecideAssert(arena != NULL);
	if (arena->poll != NULL)
		arena->poll(arena->context);
}

/*
 * Let a host have so much more cpu and memory left, or less.  A node may have
 * given more than it has: what comes back makes up for that first.
 */
static inline void
DecideHostAddCapacity(Host *host, int64_t cpu_milli, int64_t memory_mib)
{
	int64_t		cpu = host->cpu_left - host->cpu_over + cpu_milli;
	int64_t		memory = host->memory_left - host->memory_over + memory_mib;

	DecideAssert(host->cpu_over >= 0 && host->memory_over >= 0);
	host->cpu_left = cpu > 0 ? cpu : 0;
	host->cpu_over = cpu > 0 ? 0 : -cpu;
	host->memory_left = memory > 0 ? memory : 0;
	host->memory_over = memory > 0 ? 0 : -memory;
}

/*
 * The host with all that is really free on it, if part of it is promised and
 * it is shown with less.
 */
static inline Host *
DecideHostTruth(Cycle *cycle, int32_t index)
{
	DecideAssert(index >= 0 && index < cycle->n_hosts);
	if (cycle->timeline != NULL && !cycle->trying &&
		cycle->timeline->first_hold[index] >= 0)
		return &cycle->timeline->truth[index];
	return &cycle->hosts[index];
}

/*
 * The host with all that is free on it now.
 */
static inline const Host *
DecideAvailabilityNow(const Cycle *cycle, int32_t index)
{
	const Timeline *timeline = cycle->timeline;

	DecideAssert(index >= 0 && index < cycle->n_hosts);
	return timeline != NULL && timeline->first_hold[index] >= 0 ?
		&timeline->truth[index] : &cycle->hosts[index];
}

/*
 * The end of a run, which may be never.
 */
static inline int64_t
DecideTimeAdd(int64_t at, int64_t run)
{
	if (at == DECIDE_NEVER || (at > 0 && run > DECIDE_NEVER - at))
		return DECIDE_NEVER;
	return at + run;
}

/*
 * How long a job is expected to run.
 */
static inline int64_t
DecideJobRun(const DecideInput *input, int32_t job)
{
	int64_t		limit = input->requests[input->jobs[job].request].wall_limit;
	int64_t		run = input->jobs[job].expected_run;

	DecideAssert(job >= 0 && job < input->n_jobs);
	return run > 0 && run < limit ? run : limit;
}

/*
 * When what begins to end now and takes so long is over: not before soon.
 */
static inline int64_t
DecideEndAfter(const DecideInput *input, int64_t run)
{
	DecideAssert(run >= 0);
	if (run < input->soon)
		run = input->soon;
	return run > DECIDE_NEVER - input->now ? DECIDE_NEVER : input->now + run;
}

/*
 * When a job is over that starts now: as expected, or at the latest.
 */
static inline int64_t
DecideStartEnd(const DecideInput *input, int32_t job, bool expected)
{
	int64_t		limit = input->requests[input->jobs[job].request].wall_limit;
	int64_t		run = input->jobs[job].expected_run;

	DecideAssert(job >= 0 && job < input->n_jobs);
	return DecideEndAfter(input, expected && run > 0 && run < limit ? run : limit);
}

/*
 * What devices count in usage.
 */
static inline int64_t
DecideUsage(const DecideInput *input, int32_t type, int64_t gpus,
			int32_t share)
{
	int64_t		weight = type >= 0 && type < input->n_types ?
		input->types[type].weight : DECIDE_WHOLE;

	DecideAssert(gpus >= 0 || share == DECIDE_WHOLE);
	DecideAssert(share >= 0 && share <= DECIDE_WHOLE);
	return (int64_t) ((__int128) gpus * share * weight / DECIDE_WHOLE);
}

#endif							/* DECIDE_CORE_H */
