/*
 * core.h
 *	  What the subdirectories of the decision core share with each other.
 *
 * A cycle works on hosts: copies of the nodes in order of their names.  A
 * host's number is its position in this order, and the lower number wins every
 * tie.  A domain or a leaf is identified by the number of its lowest host, so
 * no order depends on the labels that the caller gave it.
 */
#ifndef DECIDE_CORE_H
#define DECIDE_CORE_H

#include "decide/decide.h"

/*
 * Checks what callers must guarantee, in the tests and in servers that are
 * built with assertions.
 */
#ifdef USE_ASSERT_CHECKING
#include <assert.h>
#define DecideAssert(condition)	assert(condition)
#else
#define DecideAssert(condition)	((void) 0)
#endif

typedef struct Host
{
	/* copied from the node */
	int32_t		node;			/* index into the input's nodes */
	int32_t		type;			/* DECIDE_NO_TYPE if it has no device */
	int32_t		gpus;
	int32_t		domain;			/* lowest host of its NVLink domain */
	int32_t		leaf;			/* lowest host of its leaf */
	int32_t		spine;			/* label of its spine, from 0; hosts whose
								 * spine is not known have one label */
	int64_t		mbps[DECIDE_LEVELS];	/* Mb/s at each level; 0 if not known */
	int32_t		kind;			/* index of the entry of its type in
								 * Cycle.types */
	int32_t		near;			/* its position in by_near */
	int64_t		gpu_memory_mib;
	int64_t		cpu_milli;
	int64_t		memory_mib;
	bool		spot;
	bool		open;			/* accepts new work */
	uint64_t	usable;			/* mask of the healthy devices */

	/* changed whenever a job starts */
	int32_t		n_free;			/* number of whole devices that are free */
	int32_t		n_usable;		/* number of free devices for which the host
								 * has enough cpu and memory left */
	uint64_t	free;			/* mask of the whole devices that are free */
	uint64_t	partial;		/* mask of the shared devices that have
								 * something left */
	int64_t		cpu_left;
	int64_t		memory_left;
	int64_t		cpu_over;		/* cpu that is allocated beyond the capacity;
								 * cpu that jobs return reduces this first */
	int64_t		memory_over;
	uint16_t	left[DECIDE_MAX_DEVICES];

	/*
	 * its place in the list of changed hosts, which begins with the one
	 * changed last
	 */
	uint64_t	changed;		/* the number that Cycle.changes had after its
								 * last change */
	int32_t		newer;
	int32_t		older;

	int64_t		gpu_memory_used[DECIDE_MAX_DEVICES];	/* MiB used by shares,
														 * of each device */
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
	int32_t		next;			/* position at which the next scope starts */
} Scope;

/*
 * How many devices a start uses of each host, and the values by which plans
 * are compared.
 */
typedef struct Plan
{
	int32_t    *hosts;
	int32_t    *gpus;
	int32_t		n;
	int32_t		domains;
	int32_t		leaves;
	int32_t		spines;
	int64_t		mbps;			/* lowest bandwidth of its hosts at the widest
								 * level that it crosses; 0 if not known */
	int64_t		loss;			/* usable devices that the pool loses */
	int64_t		free_left;		/* devices that stay free on the hosts used */
	int64_t		cache_misses;	/* number of hosts that do not hold the job's
								 * cache */
	int64_t		spare;			/* devices that the scope has room for beyond
								 * the plan */
} Plan;

/* How well a host suits a request: the lower the better. */
typedef struct FitKey
{
	uint64_t	high;
	uint64_t	low;
} FitKey;

#define FIT_NONE	((FitKey) {UINT64_MAX, UINT64_MAX})

/* What the jobs that leave for a claim return on one host. */
typedef struct Leaving
{
	int32_t		devices[DECIDE_MAX_DEVICES];	/* thousandths of each device */
	int64_t		gpu_memory[DECIDE_MAX_DEVICES];
	int64_t		cpu_milli;
	int64_t		memory_mib;
} Leaving;

/* Types whose members only the subdirectory place knows. */
typedef struct Best Best;
typedef struct Mix Mix;
typedef struct Near Near;
typedef struct NearTree NearTree;

/* How far the cycle has come with one request. */
typedef struct RequestState
{
	int32_t		offer;			/* earlier offers can start nothing more */

	/* about this offer and the offers tied to it */
	bool		spread;			/* no single host has room for a job any more */
	bool		started;		/* a job was started on a single host */
	Best	  **best;			/* one for each offer, NULL until it is built */
} RequestState;

/* Result of an attempt to place a job. */
typedef enum PlaceOutcome
{
	OUTCOME_STARTED,
	OUTCOME_NO_FIT,
	OUTCOME_OUT_OF_MEMORY
} PlaceOutcome;

/*
 * A part of a running job or of a start, which its host gets back at some
 * time.
 */
typedef struct End
{
	int64_t		at;				/* time at which the part is expected to end */
	int64_t		limit;			/* time at which the part ends if its job uses
								 * its whole wall limit */
	int32_t		start;			/* index of its start in this cycle, or -1 if
								 * the job runs already */
	int32_t		host;
	int32_t		share;
	int32_t		next;			/* index of the next end on the same host, or
								 * -1 */
	DecidePart	part;			/* the part without broken devices */
} End;

/*
 * A part of a host that is kept for a waiting job, by a reservation or by a
 * claim.
 */
typedef struct Reservation
{
	int64_t		from;
	int64_t		until;			/* time at which the job is expected to end */
	int64_t		limit;			/* time at which the job ends if it starts at
								 * from and uses its wall limit */
	int64_t		limit_until;	/* time at which the job ends if all jobs run
								 * up to their limits */
	int32_t		after;			/* number of starts that were decided before
								 * it */
	int32_t		host;
	int32_t		share;
	int32_t		yields;			/* jobs that seek their entitlement, of tiers
								 * with a rank of at most this, may use the
								 * devices; INT32_MIN if no job may */
	int32_t		next;			/* index of the next reservation on the same
								 * host, or -1 */
	DecidePart	part;
} Reservation;

/* What is free on a host. */
typedef struct Remaining
{
	int64_t		cpu;
	int64_t		memory;
	uint16_t	devices[DECIDE_MAX_DEVICES];
	int64_t		gpu_memory_used[DECIDE_MAX_DEVICES];
} Remaining;

/*
 * What is free on a host beside one of its reservations, at the time at which
 * the reservation begins.
 */
typedef struct RemainingAt
{
	int64_t		from;
	Remaining	left;
	Remaining	least;			/* the least that is free from now until then */
} RemainingAt;

/* From when on so much is free on a host. */
typedef struct Moment
{
	int64_t		at;
	int32_t		state;			/* index into the view's states */
} Moment;

/*
 * Values that are computed for a host with reservations and remain valid until
 * the host changes.
 */
typedef struct HostView
{
	RemainingAt *besides;		/* what is free beside each of its
								 * reservations, in order of time */
	int32_t    *order;			/* its reservations in order of time */
	int32_t		n;
	int32_t		capacity;
	int32_t		order_capacity;
	bool		fresh;
	Moment	   *moments;		/* what is expected to be free at each instant
								 * at which that changes, in order of time,
								 * from now on */
	Remaining  *states;			/* one for each moment */
	int32_t		n_moments;		/* 0 if they are not known */
	int32_t		moments_capacity;
	int32_t		states_capacity;
	int32_t		asked;			/* how often they would have been of use */
} HostView;

/*
 * Working memory of a search for the earliest time, indexed by host.  A scope
 * is identified by its lowest host.
 */
typedef struct TimeSearch
{
	int32_t    *scope;			/* scope of the host, or -1 if the search does
								 * not use the host */
	int32_t    *bound;			/* upper bound of the number of free devices */
	int32_t    *capacity;		/* capacity at the time at which it was last
								 * computed */
	int32_t    *stale;			/* next host of the scope whose capacity must
								 * be computed again */
	bool	   *is_stale;
	int64_t    *scope_bound;
	int64_t    *scope_capacity;
	int32_t    *scope_stale;	/* first host of the scope whose capacity must
								 * be computed again, or -1 */
	int32_t    *touched;		/* scopes whose capacity may have grown */
	bool	   *is_touched;
} TimeSearch;

/* The future ends of jobs, and the reservations. */
typedef struct Timeline
{
	End		   *ends;
	int32_t		n_ends;
	int32_t		ends_capacity;
	int32_t    *by_time;		/* ends by their expected time, without those
								 * that never come */
	int32_t		n_by_time;
	int32_t		by_time_capacity;
	int32_t    *first_end;		/* first end on each host, or -1 */
	Reservation *holds;			/* in the order in which they were made */
	int32_t		n_holds;
	int32_t		holds_capacity;
	int32_t    *by_from;		/* all reservations by the time at which they
								 * begin */
	int32_t		by_from_capacity;
	int32_t    *by_until;		/* all reservations by their expected end */
	int32_t		by_until_capacity;
	int32_t    *first_hold;		/* first reservation on each host, or -1 */
	int32_t    *held;			/* hosts with reservations */
	int32_t		n_held;
	HostView   *views;			/* one for each host */
	int32_t		n_states;		/* number of states in all views, about */
	Host	   *truth;			/* one for each host with reservations: all
								 * that is free on it now */
	Host	   *future;			/* the hosts as they will be at a later time */
	int64_t		shown;			/* Cycle.hosts shows what is available to jobs
								 * with this wall limit. */
	int32_t    *node_host;		/* index of each node's host */
	TimeSearch	search;
	int32_t		n_promises;		/* number of the result's promises that are
								 * entered here already */
} Timeline;

typedef struct Cycle
{
	const DecideInput *input;
	const DecideArena *arena;

	Host	   *hosts;
	int32_t		n_hosts;
	TypeRange  *types;
	int32_t		n_types;
	int32_t    *by_type;		/* in order of type, host */
	int32_t    *by_domain;		/* in order of type, domain, leaf, host; NULL
								 * until a gang needs it */
	int32_t    *by_leaf;		/* in order of type, leaf, domain, host; NULL
								 * until a gang needs it */
	int32_t    *by_spine;		/* in order of type, spine, then as by_domain;
								 * NULL if all hosts are below one spine */
	int32_t    *by_spine_leaf;	/* in order of type, spine, then as by_leaf;
								 * NULL as by_spine */
	int32_t		n_spines;		/* labels of spines are below this */
	int32_t    *by_near;		/* in order of type, leaf, domain, host, by
								 * the labels that the caller gave domains and
								 * leaves */
	Near	   *near;			/* the ranges near each position of by_near */
	NearTree  **near_trees;		/* one for each type, then one for all hosts;
								 * NULL until they are built */

	int32_t		latest;			/* host that was changed last, or -1 */
	uint64_t	changes;

	int32_t    *class_of;		/* equivalence class of each request */
	struct EquivalenceClass *classes;
	struct GangScratch *gang;	/* NULL until a gang is placed */
	Plan		single;			/* plan with room for one host */

	struct Queue *queue;
	struct ClaimState *claims;
	struct Quotas *quotas;		/* NULL if there are no quotas */
	struct QuotaFilter *filter; /* what quotas allow the job whose turn it is;
								 * NULL if they allow all that it requests */

	Mix		   *mix;			/* NULL if the policy is not fgd */
	DecideCached *cached;		/* in order of cache and host; the member node
								 * is the number of a host */
	bool	   *holds;			/* whether each host holds the cache of the
								 * job whose turn it is; NULL if there are no
								 * caches */

	const DecidePreviousReservation **previous; /* the previous reservation of
												 * each job; NULL if there are
												 * none */
	int32_t    *previous_host;	/* index of each node's host */
	int32_t    *guaranteed;		/* for each request, the number of its jobs
								 * with a guarantee that have not had their
								 * turn; NULL if no job has a guarantee */
	int32_t    *due;			/* jobs whose reservations are due, in the
								 * order of their turns */
	int32_t		n_due;
	int32_t		next_due;
	bool	   *was_due;		/* whether each job has had its turn as one
								 * with a due reservation; NULL if no
								 * reservation is due */

	DecideResult *result;
	int32_t		starts_capacity;
	int32_t		parts_capacity;

	struct Timeline *timeline;	/* NULL until something is reserved */
	bool		reserving;		/* The jobs that are placed now get
								 * reservations at the time at, instead of
								 * starting. */
	int64_t		at;
	int32_t		reservations_capacity;
	int32_t		reserved_capacity;
	int32_t		n_deep;			/* number of reservations that the policy's
								 * depth counts */
	int32_t		n_aged;			/* number of reservations of aged jobs */
	int32_t    *n_filtered;		/* for each organisation's account the number
								 * of reservations of its jobs with a filter;
								 * NULL until there is one */
	bool		trying;			/* The hosts are changed on trial and will be
								 * restored. */
	bool	   *may_claim;		/* for each request, whether its jobs may get
								 * devices that running jobs leave; NULL if no
								 * job may */
	bool	   *promised;		/* whether each job has a claim; NULL if no
								 * job has one */
	bool		unsettled;		/* entitlements were examined */
	int32_t		passes;			/* rank of the tier for whose job devices are
								 * sought by entitlement: the search ignores
								 * reservations that yield to this rank;
								 * INT32_MAX if no reservation yields */
	int32_t    *postponed;		/* jobs whose accounts have their
								 * entitlements, in the order of their turns */
	int32_t		n_postponed;
	bool	   *on_claim;		/* whether each job started on its claim; NULL
								 * if there are no claims */
	int32_t		n_before;		/* number of starts before the first turn that
								 * failed, or -1 if none failed */
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

/* replay.c */

/* A job that arrives during a replay. */
typedef struct DecideArrival
{
	int64_t		at;
	int64_t		run;
	int64_t		devices;		/* thousandths */
} DecideArrival;

typedef struct DecideReplay
{
	const DecideArrival *arrivals;	/* in the order of their arrival */
	int32_t		n;
	int64_t		wait;			/* a job that waits longer is late */
	const DecideArena *arena;
	DecideArrival *running;		/* the jobs that run at the beginning, in
								 * order of their ends (at), with room for all
								 * arrivals behind them */
	int32_t    *queue;			/* room for one entry for each arrival */
	int64_t    *starts;			/* the start of each arrival, filled in by the
								 * replay; NULL if the caller does not need it */
} DecideReplay;

/* Device time: thousandths of a device times milliseconds. */
typedef unsigned __int128 DeviceTime;

extern bool DecideReplayRun(const DecideReplay *replay, int64_t devices,
							int32_t n_running, DeviceTime most_late);

static inline DeviceTime
DecideDeviceTime(int64_t devices, int64_t run)
{
	DecideAssert(devices >= 0 && run >= 0);
	return (DeviceTime) devices * (DeviceTime) (run / 1000);
}

/* timeline.c */
extern bool DecideTimelineStart(Cycle *cycle, int32_t start,
								const DecidePart *part);
extern bool DecideTimelineHold(Cycle *cycle, const Reservation *hold);
extern bool DecideTimelineOpen(Cycle *cycle, int64_t wall_limit);

/* availability.c */
extern void DecideHostTouch(Cycle *cycle, int32_t index);
extern void DecideAvailabilityShowHost(Cycle *cycle, int32_t index);
extern void DecideAvailabilityShowHold(Cycle *cycle, int32_t index,
									   int32_t place);
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
 * Returns the memory in MiB that an offer requires of a device.  The number is
 * rounded up, which changes nothing because hosts have whole MiB.
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
 * Whether key a is better than key b.
 */
static inline bool
DecideFitLess(FitKey a, FitKey b)
{
	if (a.high != b.high)
		return a.high < b.high;
	return a.low < b.low;
}

/*
 * The part of a job's total cpu or memory that belongs to gpus of its count
 * devices, rounded up.
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
 * Whether a share that uses this much memory in MiB fits on a device.
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
 * Calls the arena's poll function, if there is one, so that the caller can
 * process interrupts.
 */
static inline void
DecidePoll(const DecideArena *arena)
{
	DecideAssert(arena != NULL);
	if (arena->poll != NULL)
		arena->poll(arena->context);
}

/*
 * Adds to the cpu and memory that are free on a host; negative amounts are
 * subtracted.  If a node has allocated more than its capacity, returned cpu
 * and memory first reduce the excess.
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
 * The host with all that is free on it now, for a change.  Cycle.hosts may
 * show less because of reservations.
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
 * The host with all that is free on it now, for reading.
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
 * The time at which a run that begins at the time at ends; DECIDE_NEVER if it
 * never ends.
 */
static inline int64_t
DecideTimeAdd(int64_t at, int64_t run)
{
	if (at == DECIDE_NEVER || (at > 0 && run > DECIDE_NEVER - at))
		return DECIDE_NEVER;
	return at + run;
}

/*
 * How long a job is expected to run, in microseconds: what the input expects,
 * at most its wall limit.
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
 * The time at which something ends that runs for this time from now.  Nothing
 * ends earlier than the input's soon.
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
 * The time at which a job that starts now ends: as expected, or at its wall
 * limit.
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
 * How much a number of devices of a type counts in usage: device-thousandths x
 * the type's weight / 1000.
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
 * The thousandths of each device that a job of this request counts as using on
 * devices of a type.  A job whose memory floor keeps other jobs from the
 * device counts as using more than its share, for entitlements, too.
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
