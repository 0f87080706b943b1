/*
 * decide.h
 *	  The decision core of the scheduler: which queued jobs start, and where.
 *
 * Pure C over plain structs: no PostgreSQL, no clock, no locale, no floating
 * point, no state between calls.  The same input gives the same output, in
 * whatever order the arrays come.  Everything in the input is read only and
 * must stay put during the call; everything in the output, and all scratch
 * memory, comes from the caller's arena and is freed with it.
 *
 * README.md in this directory and those of the rooms describe the algorithm.
 */
#ifndef DECIDE_H
#define DECIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DECIDE_MAX_DEVICES	64	/* devices of one node */
#define DECIDE_WHOLE		1000	/* thousandths of a whole device */
#define DECIDE_NO_TYPE		(-1)	/* node without GPUs, job without GPUs */
#define DECIDE_ANY_TYPE		(-2)	/* a quota counts all, and jobs without
									 * GPUs */
#define DECIDE_OWN_GROUP	(-1)	/* domain or leaf of its own */
#define DECIDE_NOT_HELD		(-1)	/* no quota keeps the job from starting */
#define DECIDE_NEVER		INT64_MAX	/* an instant that does not come */
#define DECIDE_WEIGHT_ONE	1000000 /* an account's weight of 1 */
#define DECIDE_MOST_RECLAIMED	3	/* evictions of a job for entitlements */
#define DECIDE_MOST_REDONE	INT64_C(3600000000) /* lost work that spares a
												 * job, in microseconds */
#define DECIDE_MOST_AGED	256 /* aged jobs that have reservations */
#define DECIDE_GUARANTEE_SLACK INT64_C(172800000000)	/* microseconds by which
														 * a guaranteed start is
														 * later than twice the
														 * wait by all limits */

/*
 * Where memory comes from.  alloc returns aligned memory, or does not return,
 * or returns NULL: then the call fails with an error.  poll may be NULL.
 * Loops whose length comes from the data call it now and then; it need not
 * return (interrupts).
 */
typedef struct DecideArena
{
	void	   *(*alloc) (void *context, size_t size);
	void		(*poll) (void *context);
	void	   *context;
} DecideArena;

/*
 * One node as it is now.  device_left, cpu_left and memory_left lack what
 * live attempts, unfenced attempts and promises have.  gpu_memory_used counts
 * what their shares take; it may pass gpu_memory_mib.  Devices are numbered
 * from 0.
 */
typedef struct DecideNode
{
	const char *name;			/* unique; the last tie-breaker, bytewise */
	int32_t		type;			/* GPU type, >= 0, or DECIDE_NO_TYPE */
	int32_t		gpus;			/* number of devices, 0 to 64 */
	int64_t		gpu_memory_mib; /* of each device */
	int64_t		cpu_milli;		/* capacity; 0: not limited */
	int64_t		memory_mib;		/* capacity; 0: not limited */
	int64_t		cpu_left;		/* of cpu_milli; below 0 counts as 0 */
	int64_t		memory_left;	/* of memory_mib; below 0 counts as 0 */
	int32_t		domain;			/* NVLink domain, >= 0, or DECIDE_OWN_GROUP */
	int32_t		leaf;			/* leaf switch, >= 0, or DECIDE_OWN_GROUP */
	bool		spot;			/* may be reclaimed by its provider */
	bool		schedulable;	/* takes new work (alive, not draining) */
	uint64_t	usable;			/* healthy devices, bit i is device i */
	uint64_t	idle;			/* free devices that elastic jobs may grow
								 * into */
	uint16_t	device_left[DECIDE_MAX_DEVICES];	/* thousandths, 0 to 1000 */
	int64_t		gpu_memory_used[DECIDE_MAX_DEVICES];	/* MiB, by shares */
} DecideNode;

typedef enum DecideTopology
{
	DECIDE_TOPOLOGY_ANY = 0,
	DECIDE_TOPOLOGY_NODE,		/* all on one node */
	DECIDE_TOPOLOGY_NVLINK,		/* all in one NVLink domain */
	DECIDE_TOPOLOGY_LEAF		/* all below one leaf */
} DecideTopology;

/*
 * An acceptable GPU type, with the least memory of each device in bytes.  A
 * tied offer competes with the one before it under the policy fgd; the other
 * policies try it after that one.
 */
typedef struct DecideOffer
{
	int32_t		type;
	int64_t		min_memory;		/* bytes; 0: any */
	bool		tied;			/* it costs the same as the offer before it */
	int32_t		counted;		/* thousandths that a device of the type
								 * counts in use, where its memory floor keeps
								 * more than its share; 0: the share */
} DecideOffer;

/*
 * What a class of jobs asks for.  Jobs that ask the same share one request.
 * After a request fails to start a job, the cycle does not try it again.  Two
 * requests may be equal; that costs time only.
 */
typedef struct DecideRequestClass
{
	int32_t		min_gpus;		/* 0 to INT32_MAX; 0: CPU only */
	int32_t		max_gpus;		/* as min_gpus, or more: elastic */
	int32_t		share;			/* thousandths of a device; below 1000 only
								 * with one GPU */
	int32_t		n_offers;
	const DecideOffer *offers;	/* in order of preference */
	DecideTopology topology;	/* required */
	DecideTopology prefer;		/* preferred: a gang first uses as few of
								 * these as it can.  any: domains, leaves,
								 * nodes */
	int64_t		cpu_milli;		/* of the whole job, 0: none */
	int64_t		memory_mib;		/* of the whole job, 0: none */
	bool		spot_ok;		/* may be preempted, so may use spot nodes */
	int64_t		wall_limit;		/* microseconds, > 0; DECIDE_NEVER: none */
	bool		unpaid;			/* holds no credit: nothing is reserved for
								 * its jobs, and nobody leaves for them */
	bool		apart;			/* does not share findings with equal
								 * requests: its reason is found at its own
								 * turn */
} DecideRequestClass;

/* How urgent jobs are.  Tiers of one rank are equal in the queue's order. */
typedef struct DecideTier
{
	int32_t		rank;			/* low first */
	bool		can_preempt;
	int64_t		grace;			/* microseconds to leave in */
	int64_t		min_run;		/* microseconds before which nobody is evicted */
	int64_t		max_wait;		/* microseconds until a job is aged, or
								 * DECIDE_NEVER */
	int32_t		ages_to;		/* aged jobs go before tiers of this rank and
								 * higher; at most its own rank counts */
	int32_t		share_ppm;		/* millionths of the pool's devices up to
								 * which its jobs go first; 0: none */
	int64_t		live;			/* device-thousandths running now */
} DecideTier;

/*
 * An account of an organisation.  usage and live count its own jobs; the
 * cycle adds up its descendants.
 */
typedef struct DecideAccount
{
	int32_t		parent;			/* index of the one above; -1: this is the
								 * organisation */
	const char *name;			/* "org", or "org/path" */
	int64_t		weight;			/* among its siblings, in millionths, > 0 */
	int64_t		usage;			/* decayed past use: device-thousandth-seconds
								 * x type weight / 1000 */
	int64_t		live;			/* running now: device-thousandths x type
								 * weight / 1000 */
} DecideAccount;

/* What a quota limits. */
typedef enum DecideLimited
{
	DECIDE_LIMITED_DEVICES = 0, /* thousandths, as DecideOffer.counted */
	DECIDE_LIMITED_JOBS,
	DECIDE_LIMITED_CPU,			/* thousandths of a core */
	DECIDE_LIMITED_MEMORY		/* MiB of the host's memory */
} DecideLimited;

#define DECIDE_LIMITED		4	/* so many of them */

/* How much of each a job, or several, use. */
typedef struct DecideUse
{
	int64_t		of[DECIDE_LIMITED];
} DecideUse;

/*
 * The most that an account with all below it may have, in all pools.  used
 * counts neither claims nor waiting jobs.
 */
typedef struct DecideQuota
{
	int32_t		account;		/* index of the account */
	int32_t		type;			/* it counts jobs with devices of this type,
								 * or DECIDE_ANY_TYPE */
	DecideUse	most;			/* -1: no limit */
	DecideUse	used;
} DecideQuota;

/* The weight of a GPU type in usage; types beyond the list weigh 1000. */
typedef struct DecideType
{
	int64_t		weight;			/* thousandths: list price over the pool's
								 * cheapest */
} DecideType;

/*
 * A queued job.  (org, id) is unique.  priority orders jobs of one account
 * and rank only, high first.
 */
typedef struct DecideJob
{
	int32_t		request;		/* index of its request */
	int32_t		tier;			/* index of its tier */
	int32_t		account;		/* index of its account */
	int32_t		priority;
	int64_t		submitted;		/* microseconds */
	int64_t		aged_at;		/* when it becomes aged, or DECIDE_NEVER */
	int64_t		order_run;		/* learnt run time in microseconds, for
								 * DECIDE_ORDER_SHORTEST */
	int64_t		expected_run;	/* microseconds to plan for; 0: its limit */
	int64_t		likely_run;		/* learnt, in microseconds; 0: its limit.  It
								 * is reported, and decides nothing */
	int64_t		waits_from;		/* since when it waits */
	int32_t		cache;			/* key of the cache it wants on a node, > 0;
								 * 0: none */
	int64_t		id;
	const char *org;
} DecideJob;

typedef enum DecideOrder
{
	DECIDE_ORDER_FAIR = 0,		/* inside an account by submit time */
	DECIDE_ORDER_SHORTEST		/* inside an account by learnt run time */
} DecideOrder;

/* How a node is chosen among those that serve the job equally. */
typedef enum DecidePacking
{
	DECIDE_PACKING_PACK = 0,	/* the fullest */
	DECIDE_PACKING_SPREAD,		/* the emptiest */
	DECIDE_PACKING_FGD			/* where typical jobs lose least */
} DecidePacking;

/* The pool's policy. */
typedef struct DecidePolicy
{
	DecideOrder order;
	DecidePacking packing;
	int64_t		fair_horizon;	/* seconds for which running devices count */
	bool		reclaim;		/* accounts take what they are entitled to
								 * from accounts with more; victims' jobs are
								 * as important or less */
	bool		consolidate;	/* running jobs move to make room for a gang */
	int64_t		restart_cost;	/* microseconds of each device that an
								 * eviction for an entitlement costs beside
								 * what it loses; 0: evictions cost nothing */
	int64_t		elastic_idle_delay; /* microseconds until an elastic job grows
									 * into idle devices, or DECIDE_NEVER */
	int32_t		backfill_depth; /* reservations beside those of aged jobs */
} DecidePolicy;

/* For which reason a running job may be evicted. */
typedef enum DecidePreemptible
{
	DECIDE_PREEMPT_NEVER = 0,
	DECIDE_PREEMPT_RECLAIM,
	DECIDE_PREEMPT_CAPACITY
} DecidePreemptible;

/*
 * An attempt that has devices now.  The nodes' device_left, cpu_left and
 * memory_left lack what its parts have.  (org, id, attempt) is unique.
 */
typedef struct DecideRunning
{
	const char *org;
	int64_t		id;				/* of its job */
	int32_t		attempt;
	int32_t		account;		/* index of its account */
	int32_t		tier;			/* index of its tier */
	int32_t		type;			/* or DECIDE_NO_TYPE */
	int32_t		gpus;			/* in all */
	int32_t		share;			/* thousandths of each device */
	int32_t		counted;		/* as in DecideOffer */
	int32_t		min_gpus;		/* of its request */
	int32_t		max_gpus;
	int32_t		first_part;		/* index into the input's running_parts */
	int32_t		n_parts;
	DecidePreemptible preemptible;
	bool		leaving;		/* told to leave */
	bool		over;			/* it ended, but is not fenced yet */
	int64_t		started;		/* microseconds */
	int64_t		saved_at;		/* last checkpoint, else the start */
	int32_t		evictions;		/* how often its job was evicted before */
	int64_t		redone;			/* microseconds of work that these evictions
								 * threw away */
	bool		aged;			/* its job was aged when it started */
	int64_t		expected_end;	/* to plan for; at most limit_end */
	int64_t		likely_end;		/* as learnt.  It is reported, and decides
								 * nothing */
	int64_t		limit_end;		/* at the latest, or DECIDE_NEVER */
	int32_t		request;		/* index of its request; -1: not loaded, as it
								 * neither grows nor moves */
	int32_t		priority;		/* as its job's, like the next */
	int64_t		submitted;
	const char *for_org;		/* organisation of the claim it leaves for;
								 * NULL: none */
	int64_t		for_job;
} DecideRunning;

/* The part of a start, a claim or a running job on one node. */
typedef struct DecidePart
{
	int32_t		node;			/* index into the input's nodes */
	int32_t		gpus;			/* devices used here (bits in devices) */
	uint64_t	devices;		/* which ones; empty for CPU-only jobs */
	int64_t		cpu_milli;
	int64_t		memory_mib;
	int64_t		gpu_memory_mib; /* taken of its device by a share; 0: whole
								 * devices */
} DecidePart;

/*
 * Typical jobs of the pool, for DECIDE_PACKING_FGD: this many of them ask for
 * this.  Only GPUs, share, offers, cpu and memory count.
 */
typedef struct DecideWorkload
{
	DecideRequestClass request;
	int64_t		jobs;			/* > 0 */
} DecideWorkload;

/* A node that holds a cache. */
typedef struct DecideCached
{
	int32_t		cache;			/* > 0 */
	int32_t		node;			/* index into the input's nodes */
} DecideCached;

/*
 * Exact devices that an earlier cycle promised to a job.  A waiting job gets
 * them once their holders have left; a running one that leaves goes on there.
 * The nodes' device_left, cpu_left and memory_left do not lack them.
 */
typedef struct DecideClaim
{
	const char *org;
	int64_t		id;				/* of its job */
	int32_t		job;			/* index into jobs; -1: it runs, or takes no
								 * part in this cycle */
	bool		running;		/* it still runs */
	int64_t		made;			/* microseconds */
	int32_t		turn;			/* order among claims made at that instant */
	int32_t		account;		/* index of its account */
	int32_t		type;			/* GPU type, or DECIDE_NO_TYPE */
	int32_t		gpus;			/* in all */
	int32_t		share;
	int32_t		counted;		/* as in DecideOffer */
	int32_t		first_part;		/* index into the input's claim_parts */
	int32_t		n_parts;
} DecideClaim;

/*
 * A waiting job's reservation in the previous cycle.  Only node and devices
 * of its parts count; the parts are in order of the nodes' names.  A job that
 * was guaranteed a latest start keeps a reservation that begins by then,
 * whatever comes later, unless a node is lost or a more important job needs
 * the devices.  It has no parts if one of its nodes is no longer there; what is
 * guaranteed holds all the same.
 */
typedef struct DecidePreviousReservation
{
	int32_t		job;			/* index into jobs; each once */
	int32_t		type;			/* GPU type, or DECIDE_NO_TYPE */
	int32_t		gpus;			/* in all */
	int32_t		first_part;		/* index into the input's previous_parts */
	int32_t		n_parts;
	int64_t		limit_at;		/* when it was to begin by all limits */
	int64_t		latest;			/* the latest start that its job was
								 * guaranteed; 0: none, or it is broken */
	bool		due;			/* set by DecideRun alone: it is made again
								 * before the jobs have their turns that an
								 * aged job of its tier goes before */
} DecidePreviousReservation;

typedef struct DecideInput
{
	int64_t		now;			/* microseconds */
	int64_t		soon;			/* microseconds until anything is expected to
								 * end, at least */
	DecidePolicy policy;
	const DecideType *types;
	int32_t		n_types;
	const DecideTier *tiers;
	int32_t		n_tiers;
	const DecideAccount *accounts;
	int32_t		n_accounts;
	const DecideQuota *quotas;	/* in any order */
	int32_t		n_quotas;
	const DecideNode *nodes;
	int32_t		n_nodes;
	const DecideRequestClass *requests;
	int32_t		n_requests;
	const DecideJob *jobs;
	int32_t		n_jobs;
	const DecideWorkload *workloads;	/* in any order */
	int32_t		n_workloads;
	const DecideCached *cached; /* in any order */
	int32_t		n_cached;
	int32_t		max_starts;		/* at most so many starts, >= 0 */
	const DecideRunning *running;
	int32_t		n_running;
	const DecidePart *running_parts;
	int32_t		n_running_parts;
	const DecideClaim *claims;
	int32_t		n_claims;
	const DecidePart *claim_parts;
	int32_t		n_claim_parts;
	const DecidePreviousReservation *previous;
	int32_t		n_previous;
	const DecidePart *previous_parts;
	int32_t		n_previous_parts;
} DecideInput;

/* A job that starts.  Its parts are in order of the nodes' names. */
typedef struct DecideStart
{
	int32_t		job;			/* index into the input's jobs */
	int32_t		type;			/* GPU type, or DECIDE_NO_TYPE */
	int32_t		gpus;			/* in all */
	int32_t		share;			/* thousandths of each device */
	int32_t		first_part;		/* index into the result's parts */
	int32_t		n_parts;
	int64_t		fit;			/* score under the pool's policy, the lower
								 * the better; 0 for shares and claims */
	bool		let_in;			/* starts before a reservation of the same
								 * devices: it must not pass its limit */
} DecideStart;

/*
 * When and where a waiting job is expected to start.  Its parts are in order
 * of the nodes' names.
 */
typedef struct DecideReservation
{
	int32_t		job;			/* index into the input's jobs */
	int32_t		type;			/* GPU type, or DECIDE_NO_TYPE */
	int32_t		gpus;			/* in all */
	int64_t		at;				/* if running jobs end as planned for */
	int64_t		limit_at;		/* if all holders of its devices run up to
								 * their limits, or DECIDE_NEVER */
	int32_t		after;			/* number of starts decided before it */
	int32_t		first_part;		/* index into the result's reserved_parts */
	int32_t		n_parts;
	int64_t		latest;			/* the latest start that is guaranteed from
								 * now on; 0: none */
} DecideReservation;

/* What broke a guarantee. */
typedef enum DecideBreaker
{
	DECIDE_BROKEN_BY_NODE = 0,	/* a node or device of it is lost or drains */
	DECIDE_BROKEN_BY_TIER,		/* a job of a more important tier */
	DECIDE_BROKEN_BY_QUOTA,		/* quotas leave it nothing beside what is in
								 * use or reserved */
	DECIDE_BROKEN_BY_OVERDUE,	/* what has its devices runs past its limit */
	DECIDE_BROKEN_BY_CHANGE		/* nodes, limits or settings were changed, or
								 * another scheduler placed a job there */
} DecideBreaker;

/* A guaranteed latest start that can no longer be kept. */
typedef struct DecideBroken
{
	int32_t		job;			/* index into the input's jobs */
	int64_t		latest;			/* the latest start that was guaranteed */
	DecideBreaker by;
	int32_t		node;			/* of the input: the first one that is
								 * concerned; -1: it is no longer there */
	int32_t		tier;			/* of the input: that of the more important
								 * job; -1: none */
} DecideBroken;

/*
 * Why the first unstarted job of a request waits, ordered by how near it came
 * to starting.  Of several acceptable types the nearest is reported.
 */
typedef enum DecideReason
{
	DECIDE_NOT_WAITING = 0,		/* every job of the request started */
	DECIDE_NO_SUCH_TYPE,		/* no node has an acceptable type (or: the
								 * pool has no node) */
	DECIDE_NO_SUCH_MEMORY,		/* of the type, but with too little memory:
								 * wanted, available MiB per device */
	DECIDE_SPOT_ONLY,			/* only spot nodes would do */
	DECIDE_POOL_TOO_SMALL,		/* wanted, available: devices of the type,
								 * free or not, that the topology allows */
	DECIDE_NODES_UNAVAILABLE,	/* no node of the type takes new work */
	DECIDE_NOT_ENOUGH_SHARE,	/* wanted, available: thousandths of one
								 * device */
	DECIDE_GPU_MEMORY_SHORT,	/* for a share: wanted, available:  MiB of a
								 * device with enough of the share left */
	DECIDE_NOT_ENOUGH_GPUS,		/* wanted, available: free devices */
	DECIDE_NOT_TOGETHER,		/* wanted, available: free devices within the
								 * best place that the topology allows */
	DECIDE_CPU_SHORT,			/* wanted, available: free devices that have
								 * the cpu beside them; for shares and
								 * CPU-only jobs thousandths of a cpu on one
								 * node */
	DECIDE_MEMORY_SHORT,		/* the same for memory; MiB on one node */
	DECIDE_CPU_AND_MEMORY_SHORT,	/* each suffices, but not on the same
									 * nodes */
	DECIDE_PROMISED,			/* it has a claim, and the holders of its
								 * devices are leaving */
	DECIDE_RESERVED,			/* free devices are reserved for jobs ahead of
								 * it, within its wall limit */
	DECIDE_ENOUGH_STARTED		/* max_starts was reached before its turn */
} DecideReason;

typedef struct DecideWait
{
	DecideReason reason;
	int32_t		job;			/* index of the job, -1: none waits */
	int32_t		type;			/* the type reported, or DECIDE_NO_TYPE */
	int64_t		wanted;
	int64_t		available;
} DecideWait;

/* Why a running job is evicted, or devices are promised. */
typedef enum DecideWhy
{
	DECIDE_WHY_TIER = 0,		/* for a more important tier */
	DECIDE_WHY_ENTITLEMENT,		/* for an account below its entitlement */
	DECIDE_WHY_MOVE,			/* to go on elsewhere: consolidation */
	DECIDE_WHY_SHRINK,			/* to go on with fewer devices */
	DECIDE_WHY_GROW				/* to go on with more */
} DecideWhy;

/* An eviction of a running job. */
typedef struct DecideEviction
{
	int32_t		running;		/* index into the input's running jobs */
	DecideWhy	why;
} DecideEviction;

/*
 * A new claim: exact devices for a job, once their holders have left.
 * Promises of one leader, and all its evictions, stand or fall together.  Its
 * parts are in order of the nodes' names.
 */
typedef struct DecidePromise
{
	int32_t		job;			/* index into the input's jobs, or -1 */
	int32_t		running;		/* else the running job that goes on here */
	DecideWhy	why;
	int32_t		leader;			/* index of the promise it belongs to */
	int32_t		type;			/* GPU type, or DECIDE_NO_TYPE */
	int32_t		gpus;			/* in all */
	int32_t		share;			/* thousandths of each device */
	int32_t		first_part;		/* index into the result's promise_parts */
	int32_t		n_parts;
	int32_t		first_eviction; /* index into the result's evictions */
	int32_t		n_evictions;	/* only a leader has some */
	int32_t		after;			/* number of starts counted with what they got
								 * when entitlements were computed; later
								 * starts count with what they request */
} DecidePromise;

typedef struct DecideResult
{
	DecideStart *starts;		/* in the order decided */
	int32_t		n_starts;
	DecidePart *parts;
	int32_t		n_parts;
	DecideWait *waits;			/* one per request */
	DecideReservation *reservations;	/* due ones first, then in the order
										 * of the queue */
	int32_t		n_reservations;
	DecidePart *reserved_parts;
	int32_t		n_reserved_parts;
	DecidePromise *promises;	/* in the order decided, each leader before
								 * those made for it */
	int32_t		n_promises;
	DecidePart *promise_parts;
	int32_t		n_promise_parts;
	DecideEviction *evictions;
	int32_t		n_evictions;
	int32_t    *held;			/* by job, if there are quotas: the number of
								 * promises after which quotas held it back;
								 * INT32_MAX: since its turn; or
								 * DECIDE_NOT_HELD */
	bool	   *held_beside;	/* by job, if there are quotas: in some round
								 * nothing was reserved for it, as they left
								 * it nothing beside what was in use or
								 * reserved */
	DecideBroken *broken;		/* guarantees that this cycle cannot keep */
	int32_t		n_broken;
	int32_t    *timed;			/* jobs whose expected run affected this, some
								 * more than once */
	int32_t		n_timed;
} DecideResult;

/*
 * Decide one cycle.  Returns NULL and fills result.  Otherwise it returns
 * what is wrong with the input, or "out of memory", and result is empty.
 * After a result is applied, another cycle at the same instant decides
 * nothing, unless this one reached max_starts.
 */
extern const char *DecideRun(const DecideInput *input,
							 const DecideArena *arena, DecideResult *result);

/*
 * When each reservation of a result is expected to begin, by what is likely of
 * the jobs before it: from now on, and not after its at.  Sets *at to an
 * instant for each and returns NULL, or says what is wrong.
 */
extern const char *DecideExpectedStarts(const DecideInput *input,
										const DecideResult *result,
										const DecideArena *arena,
										int64_t **at);

/*
 * When each waiting job is expected to start: by its reservation, as
 * DecideExpectedStarts found, else by counting devices in the order of the
 * queue.  Sets *at to an instant for each job, DECIDE_NEVER where it is not
 * known: it starts now, is promised something, is held back, needs no devices,
 * or the pool has too few.  Returns NULL, or says what is wrong.
 */
extern const char *DecideExpectedQueue(const DecideInput *input,
									   const DecideResult *result,
									   const DecideArena *arena,
									   const int64_t *reserved_at,
									   int64_t **at);

/*
 * A tier's ages_to where nothing else is set: no tier that may preempt it is
 * passed.
 */
extern int32_t DecideAgesTo(const DecideTier *tiers, int32_t n_tiers,
							int32_t tier);

/*
 * Find a job's turn in the queue, from 1, and the number of turns.  Nothing
 * is assumed to start before it.  Jobs in held, as a result reports it, are
 * not in the queue.  Returns NULL, or what is wrong with the input.
 */
extern const char *DecideTurn(const DecideInput *input,
							  const DecideArena *arena, const int32_t *held,
							  int32_t job, int32_t *turn, int32_t *turns);

/*
 * Could these nodes ever run the request, if all were empty, healthy and
 * schedulable?  Then, and only then, DecideRun would start it.  Sets
 * *feasible and returns NULL, or says what is wrong with the input.
 */
extern const char *DecideFeasible(const DecideNode *nodes, int32_t n_nodes,
								  const DecideRequestClass *request,
								  const DecideArena *arena, bool *feasible);

/* What jobs use of that which quotas limit (core/use.c). */
extern DecideUse DecideJobUse(const DecideRequestClass *request, int32_t type,
							  int32_t gpus);
extern DecideUse DecideGrowthUse(int64_t gpus, int32_t counted);
extern DecideUse DecideClaimUse(const DecidePart *parts,
								const DecideClaim *claim, int32_t has);
extern void DecideUseAdd(DecideUse *sum, const DecideUse *more);
extern int	DecideUseOver(const DecideUse *most, const DecideUse *used,
						  const DecideUse *more);

/*
 * Shares take memory of their device.  DecideShareFloor: the floor in MiB of
 * a request's share on a device of a type; 0: none.  DecideShareMemory: the
 * MiB taken of a device with this memory: the floor, else share x memory; 0
 * for whole devices.
 */
extern int64_t DecideShareFloor(const DecideRequestClass *request,
								int32_t type);
extern int64_t DecideShareMemory(int64_t gpu_memory_mib, int32_t share,
								 int64_t floor);

/*
 * Rank accounts by the fair-share tree, from 1: the order of their own jobs
 * among equally urgent ones.  Equals share a rank.  Sets *ranks to n_accounts
 * ranks and returns NULL, or says what is wrong.
 */
extern const char *DecideFairRank(const DecideInput *input,
								  const DecideArena *arena, int32_t **ranks);

/*
 * Use decays by half in each half-life (microseconds, > 0, below 2^51).
 * DecideDecayed: the rest of a use after some time.  DecidePastUsage: the
 * rest of a constant use that began and ended this long ago.
 */
extern int64_t DecideDecayed(int64_t usage, int64_t time, int64_t halflife);
extern int64_t DecidePastUsage(int64_t rate, int64_t began, int64_t ended,
							   int64_t halflife);

/*
 * Verify a result against its input with independent code.  Devices, cpu and
 * memory are not over-given.  Gangs are whole; types, memory floors,
 * topology, the spot rule and quotas hold.  Reservations, claims and
 * entitlements are correct; no job starts before an equal one ahead of it.
 * Each guaranteed latest start is kept, or what broke it is named.
 *
 * The time depends on the result's size; if anything starts, each job is
 * looked at once.  Returns NULL, or what is wrong.  *where (may be NULL) is
 * then the index of the wrong start, or -1.
 */
extern const char *DecideCheck(const DecideInput *input,
							   const DecideResult *result,
							   const DecideArena *arena, int32_t *where);

/* "node" for DECIDE_BROKEN_BY_NODE, and so on. */
extern const char *DecideBreakerName(DecideBreaker by);

/* "not_enough_gpus" for DECIDE_NOT_ENOUGH_GPUS, and so on. */
extern const char *DecideReasonName(DecideReason reason);

/* "tier" for DECIDE_WHY_TIER, and so on. */
extern const char *DecideWhyName(DecideWhy why);

#endif							/* DECIDE_H */
