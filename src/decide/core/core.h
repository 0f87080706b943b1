/*
 * core.h
 *	  What the rooms of the decision core share with each other.
 *
 * A cycle works on hosts: copies of the nodes in order of their names.  A
 * host's number is its rank, and the lower number wins every tie.  Domains
 * and leaves are renamed to their lowest host's number, so no order depends
 * on the caller's labels.
 */
#ifndef DECIDE_CORE_H
#define DECIDE_CORE_H

#include "decide/decide.h"

/*
 * Checks of what callers must keep, in the tests and where the server has
 * assertions.
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
	int32_t		kind;			/* index of its type's range */
	int32_t		near;			/* position in by_near */
	int64_t		gpu_memory_mib;
	int64_t		cpu_milli;
	int64_t		memory_mib;
	bool		spot;
	bool		open;			/* takes new work */
	uint64_t	usable;			/* healthy devices */

	/* as jobs start */
	int32_t		n_free;			/* whole devices free */
	int32_t		n_usable;		/* free devices with cpu and memory left for
								 * them */
	uint64_t	free;			/* whole devices free */
	uint64_t	partial;		/* devices shared, with something left */
	int64_t		cpu_left;
	int64_t		memory_left;
	int64_t		cpu_over;		/* taken beyond the capacity; returned cpu and
								 * memory reduce this first */
	int64_t		memory_over;
	uint16_t	left[DECIDE_MAX_DEVICES];

	/* the list of hosts, latest changed first */
	uint64_t	changed;		/* number of its last change in the cycle */
	int32_t		newer;
	int32_t		older;

	int64_t		gpu_memory_used[DECIDE_MAX_DEVICES];	/* MiB, by shares */
} Host;

/* The hosts of one type: a range of by_type, by_domain and by_leaf. */
typedef struct TypeRange
{
	int32_t		type;
	int32_t		first;
	int32_t		n;
} TypeRange;

/* Hosts that a gang may use, grouped by domain. */
typedef struct Scope
{
	const int32_t *hosts;
	int32_t		n;
	int32_t		next;			/* where the scope after it starts */
} Scope;

/* How many devices a start takes of each host, and how plans compare. */
typedef struct Plan
{
	int32_t    *hosts;
	int32_t    *gpus;
	int32_t		n;
	int32_t		domains;
	int32_t		leaves;
	int64_t		loss;			/* usable devices lost in the pool */
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

/* What the leaving jobs of a claim give back on one host. */
typedef struct Leaving
{
	int32_t		devices[DECIDE_MAX_DEVICES];	/* thousandths */
	int64_t		gpu_memory[DECIDE_MAX_DEVICES];
	int64_t		cpu_milli;
	int64_t		memory_mib;
} Leaving;

/* Only the room place knows these. */
typedef struct Best Best;
typedef struct Mix Mix;
typedef struct Near Near;
typedef struct NearTree NearTree;

/* One request's progress in the cycle. */
typedef struct RequestState
{
	int32_t		offer;			/* earlier offers can start nothing more */

	/* with this offer and those tied to it */
	bool		spread;			/* no single host can take it any more */
	bool		started;		/* started a job on a single host */
	Best	  **best;			/* of each offer; NULL: not yet built */
} RequestState;

/* Result of an attempt to place a job. */
typedef enum PlaceOutcome
{
	OUTCOME_STARTED,
	OUTCOME_NO_FIT,
	OUTCOME_OUT_OF_MEMORY
} PlaceOutcome;

/* A part of a host that is given back at some time. */
typedef struct End
{
	int64_t		at;				/* as expected */
	int64_t		limit;			/* at its limit */
	int32_t		start;			/* its start in this cycle; -1: it runs */
	int32_t		host;
	int32_t		share;
	int32_t		next;			/* of the same host, -1: none */
	DecidePart	part;			/* its usable part */
} End;

/* Part of a host promised to a waiting job. */
typedef struct Reservation
{
	int64_t		from;
	int64_t		until;			/* expected end */
	int64_t		limit;			/* its end if it uses its wall limit */
	int64_t		limit_until;	/* its end if everything runs to its limit */
	int32_t		after;			/* number of starts decided before it */
	int32_t		host;
	int32_t		share;
	int32_t		yields;			/* it yields to jobs of ranks up to this that
								 * seek their entitlement; INT32_MIN: to none */
	int32_t		next;			/* of the same host, -1: none */
	DecidePart	part;
} Reservation;

/* What is left on a host. */
typedef struct Remaining
{
	int64_t		cpu;
	int64_t		memory;
	uint16_t	devices[DECIDE_MAX_DEVICES];
	int64_t		gpu_memory_used[DECIDE_MAX_DEVICES];
} Remaining;

/* What a host has left beside one of its reservations, when that starts. */
typedef struct RemainingAt
{
	int64_t		from;
	Remaining	left;
	Remaining	least;			/* from now until then */
} RemainingAt;

/* Computed views of a host with reservations, valid until the host changes. */
typedef struct HostView
{
	RemainingAt *besides;		/* beside each of its reservations, by time */
	int32_t    *order;			/* its reservations by time */
	int32_t		n;
	int32_t		capacity;
	int32_t		order_capacity;
	bool		fresh;
} HostView;

/* Scratch of a search, by host; scopes go by their lowest host. */
typedef struct TimeSearch
{
	int32_t    *scope;			/* -1: no host of this search */
	int32_t    *bound;			/* upper bound of free devices */
	int32_t    *capacity;		/* when last computed */
	int32_t    *stale;			/* the next host of the scope to compute again */
	bool	   *is_stale;
	int64_t    *scope_bound;
	int64_t    *scope_capacity;
	int32_t    *scope_stale;	/* first to compute again, -1: none */
	int32_t    *touched;		/* scopes that may have grown */
	bool	   *is_touched;
} TimeSearch;

/* Future ends and reservations. */
typedef struct Timeline
{
	End		   *ends;
	int32_t		n_ends;
	int32_t		ends_capacity;
	int32_t    *by_time;		/* ends that ever come */
	int32_t		n_by_time;
	int32_t		by_time_capacity;
	int32_t    *first_end;		/* by host, -1: none */
	Reservation *holds;			/* in the order they were made */
	int32_t		n_holds;
	int32_t		holds_capacity;
	int32_t    *by_from;		/* all by start */
	int32_t		by_from_capacity;
	int32_t    *by_until;		/* all by expected end */
	int32_t		by_until_capacity;
	int32_t    *first_hold;		/* by host, -1: none */
	int32_t    *held;			/* hosts with reservations */
	int32_t		n_held;
	HostView   *views;			/* by host */
	Host	   *truth;			/* by host: all that is free on a reserved one */
	Host	   *future;			/* the hosts at a later time */
	int64_t		shown;			/* hosts are shown as jobs with this limit see
								 * them */
	int32_t    *node_host;		/* host of each node */
	TimeSearch	search;
	int32_t		n_promises;		/* number of promises already entered here */
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
	int32_t    *by_near;		/* the same order by the given labels */
	Near	   *near;			/* by position in by_near */
	NearTree  **near_trees;		/* by kind, then of all; NULL: not yet */

	int32_t		latest;			/* last changed host, -1: none */
	uint64_t	changes;

	int32_t    *class_of;		/* class of each request */
	struct EquivalenceClass *classes;
	struct GangScratch *gang;	/* NULL: not yet needed */
	Plan		single;			/* room for one host */

	struct Queue *queue;
	struct ClaimState *claims;
	struct Quotas *quotas;		/* NULL: there are none */
	struct QuotaFilter *filter; /* what quotas leave the job at its turn;
								 * NULL: all it requests */

	Mix		   *mix;			/* NULL: the policy is not fgd */
	DecideCached *cached;		/* by cache and host; node is the host */
	bool	   *holds;			/* by host: it holds the cache of the job at
								 * its turn; NULL: there are no caches */

	const DecidePreviousReservation **previous; /* by job; NULL: there are no
												 * previous reservations */
	int32_t    *previous_host;	/* host of each node */
	int32_t    *guaranteed;		/* by request: jobs with a guarantee that have
								 * not had their turn; NULL: none was given */
	int32_t    *due;			/* jobs whose reservations are due, in order */
	int32_t		n_due;
	int32_t		next_due;
	bool	   *was_due;		/* by job: it has had its turn as one of
								 * these; NULL: there are none */

	DecideResult *result;
	int32_t		starts_capacity;
	int32_t		parts_capacity;

	struct Timeline *timeline;	/* NULL: nothing is reserved */
	bool		reserving;		/* starts become reservations at this time: */
	int64_t		at;
	int32_t		reservations_capacity;
	int32_t		reserved_capacity;
	int32_t		n_deep;			/* reservations within the policy's depth */
	int32_t		n_aged;			/* of aged jobs */
	bool		trying;			/* the hosts are restored later */
	bool	   *may_claim;		/* by request: a job of it may take devices
								 * from others; NULL: none may */
	bool	   *promised;		/* by job: it has a claim; NULL: none has */
	bool		unsettled;		/* entitlements were looked at */
	int32_t		passes;			/* a search of this rank for an entitlement
								 * passes reservations that yield to it;
								 * INT32_MAX: none does */
	int32_t    *postponed;		/* jobs beyond their entitlements, in turn */
	int32_t		n_postponed;
	bool	   *on_claim;		/* by job: it started on its claim; NULL:
								 * there are no claims */
	int32_t		n_before;		/* starts before the first failed turn; -1:
								 * none failed */
} Cycle;

typedef int (*DecideCompareFn) (const void *context, int32_t a, int32_t b);

/* memory.c */
extern void *DecideAlloc(const DecideArena *arena, int64_t n, size_t size);
extern void *DecideGrow(const DecideArena *arena, void *items, int32_t n,
						int32_t *capacity, size_t size);

/* sort.c */
extern bool DecideSort(const DecideArena *arena, int32_t *items, int32_t n,
					   DecideCompareFn compare, const void *context);
extern void DecideSortKeys(uint64_t *keys, uint64_t *spare, int32_t n);

/* input.c */
extern const char *DecideInputError(const DecideInput *input);

/* hosts.c */
extern const char *DecideHostsLoad(Cycle *cycle);
extern bool DecideHostsGroup(Cycle *cycle);
extern TypeRange DecideHostsOfType(const Cycle *cycle, int32_t type);

/* timeline.c */
extern bool DecideTimelineStart(Cycle *cycle, int32_t start,
								const DecidePart *part);
extern bool DecideTimelineHold(Cycle *cycle, const Reservation *hold);
extern bool DecideTimelineOpen(Cycle *cycle, int64_t wall_limit);

/* availability.c */
extern void DecideHostTouch(Cycle *cycle, int32_t index);
extern void DecideAvailabilityShowHost(Cycle *cycle, int32_t index);
extern void DecideAvailabilityAt(const Cycle *cycle, int32_t host, int64_t at,
								 int64_t wall_limit, Host *seen);
extern uint64_t DecideAvailabilityReserved(const Cycle *cycle, int32_t host);
extern bool DecideAvailabilityAlike(const Cycle *cycle, int64_t a, int64_t b);
extern void DecideAvailabilityShow(Cycle *cycle, int64_t wall_limit);
extern void DecideHostAllocate(Cycle *cycle, int32_t host, const DecidePart *part,
							   int32_t share);

/* trial_release.c */
extern void DecideHostRelease(Cycle *cycle, int32_t index,
							  const DecidePart *part, uint64_t keep,
							  int32_t share, bool give);
extern bool DecideHostHas(const Host *host, const DecidePart *part,
						  int32_t share);
extern void DecideHostPromise(Cycle *cycle, int32_t index,
							  const DecidePart *part, int32_t share,
							  const Leaving *leaving);

/*
 * The memory in MiB of a device that an offer asks for.  Rounding up changes
 * nothing, as hosts have whole MiB.
 */
static inline int64_t
DecideFitFloor(const DecideOffer *offer)
{
	return offer->min_memory / (1 << 20) +
		(offer->min_memory % (1 << 20) != 0);
}

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
 * The part of a total for some of a job's devices, rounded up.
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
 * Does a share that takes this much memory fit on a device?
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
 * Add to the cpu and memory left on a host, or take from it.  A node may have
 * given more than it has; what comes back covers that first.
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
 * The host with everything that is free on it, even if it is shown with less
 * because of reservations.
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
 * The host with everything that is free on it now, to read.
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
 * When something that ends after this time is over: not before soon.
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
 * When a job that starts now is over, as expected or at its limit.
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

/*
 * The thousandths of each device that a job of this request counts in use, with
 * a type.  Who keeps a device's memory from others keeps the device, and counts
 * so for entitlements.
 */
static inline int32_t
DecideCounted(const DecideRequestClass *request, int32_t type)
{
	int32_t		i;

	for (i = 0; i < request->n_offers && request->share < DECIDE_WHOLE; i++)
	{
		if (request->offers[i].type == type && request->offers[i].counted > 0)
			return request->offers[i].counted;
	}
	return request->share;
}

static inline int32_t
DecideRunningCounted(const DecideRunning *running)
{
	return running->counted > 0 ? running->counted : running->share;
}

static inline int32_t
DecideClaimCounted(const DecideClaim *claim)
{
	return claim->counted > 0 ? claim->counted : claim->share;
}

#endif							/* DECIDE_CORE_H */
