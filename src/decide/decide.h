/*
 * decide.h
 *	  The decision core of the scheduler: which queued jobs start, and where.
 *
 * The decision core is plain C over plain structs.  It uses no PostgreSQL
 * function, no clock, no locale and no floating point, and keeps no state
 * between calls.  The same input gives the same output, whatever the order of
 * its arrays.  The input is only read, and must not change during a call.  The
 * output and all scratch memory come from the caller's arena and are freed
 * with it.
 *
 * README.md in this directory and in its subdirectories describes the
 * algorithm.
 */
#ifndef DECIDE_H
#define DECIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DECIDE_MAX_DEVICES	64	/* most devices of one node */
#define DECIDE_WHOLE		1000	/* thousandths of a whole device */
#define DECIDE_NO_TYPE		(-1)	/* type of a node without GPUs, or of a
									 * job without GPUs */
#define DECIDE_ANY_TYPE		(-2)	/* type of a quota that counts jobs of all
									 * types, and jobs without GPUs */
#define DECIDE_NO_SPINE		(-1)	/* unknown; nodes without one count as
									 * below one spine */
#define DECIDE_OWN_GROUP	(-1)	/* the node is alone in its domain or leaf */
#define DECIDE_NOT_HELD		(-1)	/* no quota keeps the job from starting */
#define DECIDE_NEVER		INT64_MAX	/* an instant that never comes */
#define DECIDE_WEIGHT_ONE	1000000 /* an account's weight of 1 */
#define DECIDE_MOST_RECLAIMED	3	/* after so many evictions for
									 * entitlements a running job is protected
									 * for its tier's max_wait */
#define DECIDE_MOST_REDONE	INT64_C(3600000000) /* most lost work that
												 * prolongs a job's
												 * protection, microseconds */
#define DECIDE_MOST_AGED	256 /* most aged jobs for which a cycle makes
								 * reservations */
#define DECIDE_MOST_FILTERED	4	/* most jobs with a filter of one
									 * organisation for which a cycle makes
									 * new reservations */
/*
 * A guaranteed start is so many microseconds later than twice the wait that
 * follows if all jobs run up to their limits.
 */
#define DECIDE_GUARANTEE_SLACK INT64_C(172800000000)

/*
 * The source of all memory that the decision core uses.  alloc returns aligned
 * memory, or does not return because it raises an error, or returns NULL.  If
 * it returns NULL, the function that the caller called fails with the message
 * "out of memory".  poll may be NULL.  Loops whose length depends on the data
 * call it regularly, so that the caller can process interrupts; poll need not
 * return.
 */
typedef struct DecideArena
{
	void	   *(*alloc) (void *context, size_t size);
	void		(*poll) (void *context);
	void	   *context;
} DecideArena;

/*
 * One node as it is now.  device_left, cpu_left and memory_left are what is
 * free after the live attempts, the ended attempts that are not fenced yet,
 * and the promised devices are subtracted.  gpu_memory_used is the sum of the
 * memory that the shares on a device use; it may exceed gpu_memory_mib.
 * Devices are numbered from 0.
 */
/* The levels of the topology, the closest first. */
typedef enum DecideLevel
{
	DECIDE_LEVEL_NVLINK, DECIDE_LEVEL_LEAF, DECIDE_LEVEL_SPINE
} DecideLevel;

#define DECIDE_LEVELS		(DECIDE_LEVEL_SPINE + 1)

typedef struct DecideNode
{
	const char *name;			/* unique; bytewise comparison of names breaks
								 * the last ties */
	int32_t		type;			/* GPU type, >= 0, or DECIDE_NO_TYPE */
	int32_t		gpus;			/* number of devices, 0 to 64 */
	int64_t		gpu_memory_mib; /* MiB of each device */
	int64_t		cpu_milli;		/* capacity in thousandths of a core, or 0 if
								 * it is not limited */
	int64_t		memory_mib;		/* capacity in MiB, or 0 if it is not limited */
	int64_t		cpu_left;		/* what is free of cpu_milli; a negative value
								 * counts as 0 */
	int64_t		memory_left;	/* what is free of memory_mib; a negative
								 * value counts as 0 */
	int32_t		domain;			/* NVLink domain, >= 0, or DECIDE_OWN_GROUP */
	int32_t		leaf;			/* leaf switch, >= 0, or DECIDE_OWN_GROUP */
	int32_t		spine;			/* spine, >= 0, or DECIDE_NO_SPINE */
	int64_t		mbps[DECIDE_LEVELS];	/* Mb/s at each level, or 0 if it is
										 * not known */
	bool		spot;			/* the provider may reclaim the node */
	bool		schedulable;	/* new work may start here: the node is alive
								 * and not draining */
	uint64_t	usable;			/* mask of the healthy devices; bit i is
								 * device i */
	uint64_t	idle;			/* mask of the free devices that elastic jobs
								 * may grow into */
	/* thousandths that are free of each device, 0 to 1000 */
	uint16_t	device_left[DECIDE_MAX_DEVICES];
	int64_t		gpu_memory_used[DECIDE_MAX_DEVICES];	/* MiB used by shares,
														 * of each device */
} DecideNode;

typedef enum DecideTopology
{
	DECIDE_TOPOLOGY_ANY = 0,
	DECIDE_TOPOLOGY_NODE,		/* all devices are on one node */
	DECIDE_TOPOLOGY_NVLINK,		/* all devices are in one NVLink domain */
	DECIDE_TOPOLOGY_LEAF		/* all devices are below one leaf switch */
} DecideTopology;

/*
 * A GPU type that a request accepts, with the least memory that each device
 * must have, in bytes.  A tied offer competes with the offer before it under
 * the policy fgd; the other policies try it only after the offer before it did
 * not fit.
 */
typedef struct DecideOffer
{
	int32_t		type;
	int64_t		min_memory;		/* bytes, or 0 if any memory suffices */
	bool		tied;			/* it costs the same as the offer before it */
	int32_t		counted;		/* thousandths of a device of this type that
								 * the job counts as using, where its memory
								 * floor blocks a larger part of the device
								 * than its share; 0 if the share counts */
} DecideOffer;

/*
 * What a class of jobs asks for.  Jobs that ask for the same share one
 * request.  After a request failed to start one job, the cycle does not try it
 * again for the others.  Two requests may be equal; the cycle is then only
 * slower.
 */
typedef struct DecideRequestClass
{
	int32_t		min_gpus;		/* 0 to INT32_MAX; 0 for a job that needs CPUs
								 * only */
	int32_t		max_gpus;		/* equal to min_gpus, or more for an elastic
								 * job */
	int32_t		share;			/* thousandths of a device; below 1000 only
								 * for jobs with one GPU */
	int32_t		n_offers;
	const DecideOffer *offers;	/* in order of preference */
	DecideTopology topology;	/* required */
	DecideTopology prefer;		/* preferred topology: a gang uses as few of
								 * these as possible.  DECIDE_TOPOLOGY_ANY
								 * minimises domains, then leaves, then nodes */
	int64_t		cpu_milli;		/* thousandths of a core for the whole job, or
								 * 0 */
	int64_t		memory_mib;		/* MiB for the whole job, or 0 */
	bool		spot_ok;		/* its jobs may be preempted and so may use
								 * spot nodes */
	bool		stays;			/* its jobs are not evicted for others, so
								 * quotas may limit their devices
								 * (DECIDE_LIMITED_STAYING) */
	const uint64_t *filter;		/* mask of the nodes that its jobs may use:
								 * bit i % 64 of word i / 64 is the input's
								 * node i; NULL if they may use all */
	int32_t		per_node;		/* devices that a job of a fixed size has on
								 * each of its nodes; 0 if the scheduler
								 * chooses */
	int64_t		wall_limit;		/* microseconds, > 0; DECIDE_NEVER if there is
								 * no limit */
	bool		unpaid;			/* its jobs hold no credit: nothing is
								 * reserved for them, and no running job is
								 * evicted for them */
	bool		apart;			/* Equal requests are not assumed to fail
								 * because this one failed: the reason why its
								 * jobs wait is found when their own turn
								 * comes. */
} DecideRequestClass;

/*
 * Whether a request's filter allows a node, which is an index into the input's
 * nodes.
 */
static inline bool
DecideFilterAllows(const DecideRequestClass *request, int32_t node)
{
	return request->filter == NULL ||
		((request->filter[node / 64] >> (node % 64)) & 1) != 0;
}

/*
 * How urgent jobs are.  The queue treats tiers of one rank as equals.
 */
typedef struct DecideTier
{
	int32_t		rank;			/* the lowest rank goes first */
	bool		can_preempt;
	int64_t		grace;			/* microseconds that an evicted job has before
								 * it must have ended */
	int64_t		min_run;		/* microseconds that a job must have run
								 * before it may be evicted */
	int64_t		max_wait;		/* microseconds of waiting after which a job
								 * is aged, or DECIDE_NEVER */
	int32_t		ages_to;		/* Aged jobs go before the jobs of tiers with
								 * this rank and higher ranks.  A value above
								 * the tier's own rank counts as its own rank. */
	int32_t		share_ppm;		/* millionths of the pool's devices up to
								 * which the tier's jobs go first; 0 if the
								 * tier has no share */
	int64_t		live;			/* thousandths of devices on which its jobs
								 * run now */
} DecideTier;

/*
 * An account of an organisation.  usage and live count only the account's own
 * jobs; the cycle adds those of its descendants.
 */
typedef struct DecideAccount
{
	int32_t		parent;			/* index of the account above, or -1 for the
								 * organisation itself */
	const char *name;			/* "org" for an organisation, "org/path" for
								 * an account below it */
	int64_t		weight;			/* weight among its siblings, in millionths, >
								 * 0 */
	int64_t		usage;			/* decayed past use: device-thousandth-seconds
								 * x type weight / 1000 */
	int64_t		live;			/* use by jobs that run now:
								 * device-thousandths x type weight / 1000 */
} DecideAccount;

/*
 * The resources that a quota can limit.
 */
typedef enum DecideLimited
{
	DECIDE_LIMITED_DEVICES = 0, /* thousandths of devices, counted as
								 * DecideOffer.counted tells */
	DECIDE_LIMITED_JOBS,
	DECIDE_LIMITED_CPU,			/* thousandths of a core */
	DECIDE_LIMITED_MEMORY,		/* MiB of the host's memory */
	DECIDE_LIMITED_STAYING		/* the devices of jobs that are not evicted
								 * for others, which count among all devices,
								 * too */
} DecideLimited;

#define DECIDE_LIMITED		5	/* number of values of DecideLimited */

/*
 * How much of each limited resource one or several jobs use.
 */
typedef struct DecideUse
{
	int64_t		of[DECIDE_LIMITED];
} DecideUse;

/*
 * The most that an account and all accounts below it may use in all pools
 * together.  used includes neither claims nor waiting jobs.
 */
typedef struct DecideQuota
{
	int32_t		account;		/* index of the account */
	int32_t		type;			/* GPU type of the jobs that the quota counts,
								 * or DECIDE_ANY_TYPE */
	DecideUse	most;			/* -1 where there is no limit */
	DecideUse	used;
} DecideQuota;

/*
 * The weight of a GPU type in usage; types without an entry weigh 1000.
 */
typedef struct DecideType
{
	int64_t		weight;			/* thousandths: the type's list price divided
								 * by that of the pool's cheapest type */
} DecideType;

/*
 * A queued job.  The pair (org, id) is unique.  priority orders only jobs of
 * the same account and rank; the highest goes first.
 */
typedef struct DecideJob
{
	int32_t		request;		/* index of its request */
	int32_t		tier;			/* index of its tier */
	int32_t		account;		/* index of its account */
	int32_t		priority;
	int64_t		submitted;		/* time of submission in microseconds */
	int64_t		aged_at;		/* time at which the job becomes aged, or
								 * DECIDE_NEVER */
	int64_t		order_run;		/* run time learnt from earlier jobs, in
								 * microseconds, for DECIDE_ORDER_SHORTEST */
	int64_t		expected_run;	/* microseconds that the planning assumes it
								 * to run; 0 if its wall limit is assumed */
	int64_t		likely_run;		/* run time learnt from earlier jobs, in
								 * microseconds; 0 if its wall limit is
								 * assumed.  It is reported only and does not
								 * influence a decision */
	int64_t		waits_from;		/* time since which the job waits, in
								 * microseconds */
	int32_t		cache;			/* key of the cache that it would like to find
								 * on a node, > 0; 0 if it uses none */
	int64_t		id;
	const char *org;
} DecideJob;

typedef enum DecideOrder
{
	DECIDE_ORDER_FAIR = 0,		/* jobs of one account go in order of
								 * submission */
	DECIDE_ORDER_SHORTEST		/* jobs of one account go in order of their
								 * learnt run times */
} DecideOrder;

/*
 * How a node is chosen among those that suit the job equally well.
 */
typedef enum DecidePacking
{
	DECIDE_PACKING_PACK = 0,	/* the fullest node */
	DECIDE_PACKING_SPREAD,		/* the emptiest node */
	DECIDE_PACKING_FGD			/* the node where the fewest devices become
								 * unusable for typical jobs */
} DecidePacking;

/* The pool's policy. */
typedef struct DecidePolicy
{
	DecideOrder order;
	DecidePacking packing;
	int64_t		fair_horizon;	/* seconds for which the devices of running
								 * jobs count as use */
	bool		reclaim;		/* Accounts below their entitlement may
								 * preempt jobs of accounts above theirs, if
								 * those jobs are not more important. */
	bool		consolidate;	/* Running jobs may be moved to make room for
								 * a gang. */
	int64_t		restart_cost;	/* microseconds of each device that an
								 * eviction for an entitlement is counted as
								 * costing; 0 if evictions cost nothing */
	int64_t		elastic_idle_delay; /* microseconds that devices must be idle
									 * before an elastic job grows into them,
									 * or DECIDE_NEVER */
	int32_t		backfill_depth; /* most reservations, not counting those of
								 * aged jobs */
} DecidePolicy;

/*
 * For which purposes a running job may be evicted.
 */
typedef enum DecidePreemptible
{
	DECIDE_PREEMPT_NEVER = 0,
	DECIDE_PREEMPT_RECLAIM,
	DECIDE_PREEMPT_CAPACITY
} DecidePreemptible;

/*
 * An attempt that has devices now.  What its parts use is subtracted from the
 * nodes' device_left, cpu_left and memory_left.  The triple (org, id, attempt)
 * is unique.
 */
typedef struct DecideRunning
{
	const char *org;
	int64_t		id;				/* id of its job */
	int32_t		attempt;
	int32_t		account;		/* index of its account */
	int32_t		tier;			/* index of its tier */
	int32_t		type;			/* GPU type, or DECIDE_NO_TYPE */
	int32_t		gpus;			/* number of devices on all nodes */
	int32_t		share;			/* thousandths of each device */
	int32_t		counted;		/* see DecideOffer.counted */
	int32_t		min_gpus;		/* range of its request */
	int32_t		max_gpus;
	int32_t		first_part;		/* index into the input's running_parts */
	int32_t		n_parts;
	DecidePreemptible preemptible;
	bool		stays;			/* see DecideRequestClass.stays; never true if
								 * it is preemptible for capacity */
	bool		leaving;		/* the attempt has been told to stop */
	bool		over;			/* the attempt has ended, but its devices are
								 * fenced until it is known to be gone */
	int64_t		started;		/* microseconds */
	int64_t		saved_at;		/* time of the last checkpoint, or of the
								 * start if there is none */
	int32_t		evictions;		/* how many earlier attempts of its job were
								 * evicted */
	int64_t		redone;			/* microseconds of work that these evictions
								 * threw away */
	bool		aged;			/* its job was aged when the attempt started */
	int64_t		expected_end;	/* the end that the planning assumes, at most
								 * limit_end */
	int64_t		likely_end;		/* the end that follows from learnt run times.
								 * It is reported only and does not influence
								 * a decision */
	int64_t		limit_end;		/* the latest possible end, or DECIDE_NEVER */
	int32_t		request;		/* index of its request, or -1 if the request
								 * was not loaded because the attempt can
								 * neither grow nor move */
	int32_t		priority;		/* priority and time of submission of its job */
	int64_t		submitted;
	const char *for_org;		/* organisation of the job whose claim it was
								 * told to leave for, or NULL if there is no
								 * such claim */
	int64_t		for_job;
} DecideRunning;

/*
 * The part of a start, a claim or a running job that is on one node.
 */
typedef struct DecidePart
{
	int32_t		node;			/* index into the input's nodes */
	int32_t		gpus;			/* number of devices on this node (bits in
								 * devices) */
	uint64_t	devices;		/* mask of the devices; 0 for CPU-only jobs */
	int64_t		cpu_milli;
	int64_t		memory_mib;
	int64_t		gpu_memory_mib; /* MiB that a share uses of its device; 0 for
								 * whole devices */
} DecidePart;

/*
 * A request of typical jobs of the pool, with the number of such jobs, for
 * DECIDE_PACKING_FGD.  Only the GPUs, the share, the offers, the cpu and the
 * memory of the request count.
 */
typedef struct DecideWorkload
{
	DecideRequestClass request;
	int64_t		jobs;			/* > 0 */
} DecideWorkload;

/*
 * A node that holds a cache.
 */
typedef struct DecideCached
{
	int32_t		cache;			/* key of the cache, > 0 */
	int32_t		node;			/* index into the input's nodes */
} DecideCached;

/*
 * Exact devices that an earlier cycle promised to a job.  A waiting job starts
 * on them once their holders have left; a running job that was told to leave
 * its devices continues on them.  The claimed devices are not subtracted from
 * the nodes' device_left, cpu_left and memory_left.
 */
typedef struct DecideClaim
{
	const char *org;
	int64_t		id;				/* id of its job */
	int32_t		job;			/* index into jobs, or -1 if the job runs or
								 * takes no part in this cycle */
	bool		running;		/* the job still runs on other devices */
	int64_t		made;			/* time at which the claim was made, in
								 * microseconds */
	int32_t		turn;			/* order among the claims that were made at
								 * the same instant */
	int32_t		account;		/* index of its account */
	int32_t		type;			/* GPU type, or DECIDE_NO_TYPE */
	int32_t		gpus;			/* number of devices on all nodes */
	int32_t		share;
	int32_t		counted;		/* see DecideOffer.counted */
	bool		stays;			/* see DecideRequestClass.stays */
	int32_t		first_part;		/* index into the input's claim_parts */
	int32_t		n_parts;
} DecideClaim;

/*
 * A waiting job's reservation in the previous cycle.  Of its parts only node
 * and devices are used; the parts are in order of the nodes' names.  A job
 * with a guaranteed latest start keeps a reservation that begins by that time,
 * whatever jobs are submitted later, unless a node is lost or a more important
 * job needs the devices.  The reservation has no parts if one of its nodes no
 * longer exists; the guarantee remains valid even then.
 */
typedef struct DecidePreviousReservation
{
	int32_t		job;			/* index into jobs; no job has two */
	int32_t		type;			/* GPU type, or DECIDE_NO_TYPE */
	int32_t		gpus;			/* number of devices on all nodes */
	int32_t		first_part;		/* index into the input's previous_parts */
	int32_t		n_parts;
	int64_t		limit_at;		/* time at which it was to begin if all jobs
								 * run up to their limits */
	int64_t		latest;			/* the latest start that its job was
								 * guaranteed; 0 if no guarantee was given or
								 * it was broken */
	bool		due;			/* Only DecideRun sets this.  The reservation
								 * is made again before those jobs have their
								 * turns that an aged job of its tier goes
								 * before. */
} DecidePreviousReservation;

typedef struct DecideInput
{
	int64_t		now;			/* microseconds */
	int64_t		soon;			/* Nothing is expected to end earlier than so
								 * many microseconds from now. */
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
	int32_t		max_starts;		/* the most jobs that may start, >= 0 */
	int32_t		max_evictions;	/* Once so many jobs have been told to leave,
								 * no further claim is made that needs others
								 * to leave, >= 0. The victims of the last
								 * claim may exceed this number. */
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

/*
 * A job that starts.  Its parts are in order of the nodes' names.
 */
typedef struct DecideStart
{
	int32_t		job;			/* index into the input's jobs */
	int32_t		type;			/* GPU type, or DECIDE_NO_TYPE */
	int32_t		gpus;			/* number of devices on all nodes */
	int32_t		share;			/* thousandths of each device */
	int32_t		first_part;		/* index into the result's parts */
	int32_t		n_parts;
	int64_t		fit;			/* score under the pool's policy, the lower
								 * the better; 0 for shares and for starts on
								 * claims */
	bool		let_in;			/* The job starts on devices that are reserved
								 * for a later time, so it must not run past
								 * its wall limit. */
} DecideStart;

/*
 * When and where a waiting job is expected to start.  Its parts are in order
 * of the nodes' names.
 */
typedef struct DecideReservation
{
	int32_t		job;			/* index into the input's jobs */
	int32_t		type;			/* GPU type, or DECIDE_NO_TYPE */
	int32_t		gpus;			/* number of devices on all nodes */
	int64_t		at;				/* its start if running jobs end as the
								 * planning assumes */
	int64_t		limit_at;		/* its start if all jobs that hold its devices
								 * run up to their limits, or DECIDE_NEVER */
	int32_t		after;			/* number of starts that were decided before
								 * it */
	int32_t		first_part;		/* index into the result's reserved_parts */
	int32_t		n_parts;
	int64_t		latest;			/* the latest start that is guaranteed from
								 * now on, or 0 if there is no guarantee */
} DecideReservation;

/*
 * What made it impossible to keep a guaranteed latest start.
 */
typedef enum DecideBreaker
{
	DECIDE_BROKEN_BY_NODE = 0,	/* one of its nodes or devices is lost or
								 * drains */
	DECIDE_BROKEN_BY_TIER,		/* a job of a more important tier */
	DECIDE_BROKEN_BY_QUOTA,		/* the quotas allow it nothing beside what is
								 * in use or reserved */
	DECIDE_BROKEN_BY_OVERDUE,	/* a job on its devices runs past its wall
								 * limit */
	DECIDE_BROKEN_BY_CHANGE		/* nodes, limits or settings were changed, or
								 * another scheduler placed a job there */
} DecideBreaker;

/* A guaranteed latest start that can no longer be kept. */
typedef struct DecideBroken
{
	int32_t		job;			/* index into the input's jobs */
	int64_t		latest;			/* the latest start that was guaranteed */
	DecideBreaker by;
	int32_t		node;			/* index into the input's nodes of the first
								 * node concerned, or -1 if the node no longer
								 * exists */
	int32_t		tier;			/* index into the input's tiers of the more
								 * important job's tier, or -1 if there is no
								 * such job */
} DecideBroken;

/*
 * Why the first job of a request that did not start waits, ordered by how near
 * it came to starting.  If several types are acceptable, the reason of the
 * nearest one is reported.  "wanted" and "available" are the members of
 * DecideWait.
 */
typedef enum DecideReason
{
	DECIDE_NOT_WAITING = 0,		/* every job of the request started */
	DECIDE_NO_SUCH_TYPE,		/* no node has an acceptable type, or the pool
								 * has no node */
	DECIDE_NO_SUCH_MEMORY,		/* nodes have the type, but their devices have
								 * too little memory; wanted and available are
								 * MiB per device */
	DECIDE_FILTERED,			/* nodes have the type and the memory, but the
								 * job's filter allows none of them; available
								 * is the number of these nodes */
	DECIDE_SPOT_ONLY,			/* only spot nodes would suit, and the job
								 * must not use them */
	DECIDE_POOL_TOO_SMALL,		/* wanted and available are devices of the
								 * type, free or not, that the topology allows */
	DECIDE_NODES_UNAVAILABLE,	/* no node of the type accepts new work */
	DECIDE_NOT_ENOUGH_SHARE,	/* wanted and available are thousandths of one
								 * device */
	DECIDE_GPU_MEMORY_SHORT,	/* a device with enough of the share free has
								 * too little memory free; wanted and
								 * available are MiB */
	DECIDE_NOT_ENOUGH_GPUS,		/* wanted and available are free devices */
	DECIDE_NOT_TOGETHER,		/* wanted and available are free devices
								 * within the best place that the topology
								 * allows */
	DECIDE_CPU_SHORT,			/* wanted and available are free devices that
								 * also have the cpu; for shares and CPU-only
								 * jobs thousandths of a core on one node */
	DECIDE_MEMORY_SHORT,		/* the same for memory, with MiB instead of
								 * thousandths of a core */
	DECIDE_CPU_AND_MEMORY_SHORT,	/* cpu suffices and memory suffices, but
									 * not on the same nodes */
	DECIDE_PROMISED,			/* it has a claim, and the jobs that hold its
								 * devices are leaving */
	DECIDE_RESERVED,			/* free devices are reserved for jobs ahead of
								 * it from a time within its wall limit */
	DECIDE_ENOUGH_STARTED		/* max_starts was reached before its turn */
} DecideReason;

typedef struct DecideWait
{
	DecideReason reason;
	int32_t		job;			/* index of the job, or -1 if no job of the
								 * request waits */
	int32_t		type;			/* the type that the numbers are about, or
								 * DECIDE_NO_TYPE */
	int64_t		wanted;
	int64_t		available;
} DecideWait;

/*
 * Why a running job is evicted, or why devices are promised to a job.
 */
typedef enum DecideWhy
{
	DECIDE_WHY_TIER = 0,		/* a more important tier needs the devices */
	DECIDE_WHY_ENTITLEMENT,		/* an account below its entitlement needs the
								 * devices */
	DECIDE_WHY_MOVE,			/* the job moves to other devices to make room
								 * (consolidation) */
	DECIDE_WHY_SHRINK,			/* the job continues with fewer devices */
	DECIDE_WHY_GROW				/* the job continues with more devices */
} DecideWhy;

/* An eviction of a running job. */
typedef struct DecideEviction
{
	int32_t		running;		/* index into the input's running jobs */
	DecideWhy	why;
} DecideEviction;

/*
 * A new claim: exact devices for a job, once their holders have left.  The
 * promises of one leader and all its evictions are carried out together or not
 * at all.  The parts of a promise are in order of the nodes' names.
 */
typedef struct DecidePromise
{
	int32_t		job;			/* index into the input's jobs, or -1 for a
								 * running job */
	int32_t		running;		/* if job is -1, index of the running job that
								 * continues on the devices */
	DecideWhy	why;
	int32_t		leader;			/* index of the promise together with which
								 * this one is carried out; a leader names
								 * itself */
	int32_t		type;			/* GPU type, or DECIDE_NO_TYPE */
	int32_t		gpus;			/* number of devices on all nodes */
	int32_t		share;			/* thousandths of each device */
	int32_t		first_part;		/* index into the result's promise_parts */
	int32_t		n_parts;
	int32_t		first_eviction; /* index into the result's evictions */
	int32_t		n_evictions;	/* 0 for a promise that is not a leader */
	int32_t		after;			/* When entitlements were computed, so many
								 * starts counted with the devices that they
								 * got; later starts counted with the devices
								 * that they request. */
} DecidePromise;

typedef struct DecideResult
{
	DecideStart *starts;		/* in the order in which they were decided */
	int32_t		n_starts;
	DecidePart *parts;
	int32_t		n_parts;
	DecideWait *waits;			/* one for each request */
	DecideReservation *reservations;	/* reservations that are due come
										 * first, the others follow in the
										 * order of the queue */
	int32_t		n_reservations;
	DecidePart *reserved_parts;
	int32_t		n_reserved_parts;
	DecidePromise *promises;	/* in the order in which they were decided;
								 * each leader comes before the promises that
								 * belong to it */
	int32_t		n_promises;
	DecidePart *promise_parts;
	int32_t		n_promise_parts;
	DecideEviction *evictions;
	int32_t		n_evictions;

	/*
	 * One number for each job, if there are quotas: how many promises had
	 * been made when quotas held the job back; INT32_MAX if they held it back
	 * at its turn; or DECIDE_NOT_HELD.
	 */
	int32_t    *held;
	bool	   *held_beside;	/* One flag for each job, if there are quotas:
								 * in some round nothing was reserved for it,
								 * because the quotas allowed it nothing
								 * beside what was in use or reserved. */
	DecideBroken *broken;		/* guarantees that this cycle cannot keep */
	int32_t		n_broken;
	int32_t    *timed;			/* jobs whose expected run time influenced
								 * this result; a job may occur more than once */
	int32_t		n_timed;
} DecideResult;

/*
 * Decides one cycle.  Returns NULL and fills result.  If the input is wrong or
 * memory runs out, it returns a message that says so, and result is empty.
 * After a result is applied, another cycle at the same instant decides
 * nothing, unless this one reached max_starts or max_evictions.
 */
extern const char *DecideRun(const DecideInput *input,
							 const DecideArena *arena, DecideResult *result);

/*
 * Computes when each reservation of a result is likely to begin, from the
 * likely run times of the jobs before it.  The time is never before now and
 * never after the reservation's at.  Sets *at to an array with one instant for
 * each reservation and returns NULL, or returns a message that says what is
 * wrong.
 */
extern const char *DecideExpectedStarts(const DecideInput *input,
										const DecideResult *result,
										const DecideArena *arena,
										int64_t **at);

/*
 * Computes when each waiting job is expected to start.  For a job with a
 * reservation it is the instant that DecideExpectedStarts computed
 * (reserved_at), for the others the result of a replay that counts devices in
 * the order of the queue.  Sets *at to an array with one instant for each job,
 * and returns NULL, or returns a message that says what is wrong.  The instant
 * is DECIDE_NEVER if no time can be computed: the job starts now, has a
 * promise, is held back by a quota, needs no devices, has a filter but no
 * reservation, or the pool has too few devices.
 */
extern const char *DecideExpectedQueue(const DecideInput *input,
									   const DecideResult *result,
									   const DecideArena *arena,
									   const int64_t *reserved_at,
									   int64_t **at);

/*
 * Returns a tier's ages_to where an operator has set none: its aged jobs go
 * before those of tiers that cannot preempt it, and never before those of a
 * tier that may preempt it.
 */
extern int32_t DecideAgesTo(const DecideTier *tiers, int32_t n_tiers,
							int32_t tier);

/*
 * Finds a job's turn in the queue, counted from 1, and the number of turns.
 * It is computed as if no job started before it.  Jobs that quotas hold back
 * are not in the queue; held lists them as DecideResult.held does.  Returns
 * NULL, or a message that says what is wrong with the input.
 */
extern const char *DecideTurn(const DecideInput *input,
							  const DecideArena *arena, const int32_t *held,
							  int32_t job, int32_t *turn, int32_t *turns);

/*
 * Finds whether these nodes could ever run the request, if all of them were
 * empty, healthy and schedulable.  This is so exactly if DecideRun would start
 * the request then.  Sets *feasible and returns NULL, or returns a message
 * that says what is wrong with the input.
 */
extern const char *DecideFeasible(const DecideNode *nodes, int32_t n_nodes,
								  const DecideRequestClass *request,
								  const DecideArena *arena, bool *feasible);

/*
 * How much of the resources that quotas limit a job uses (core/use.c).
 */
extern DecideUse DecideJobUse(const DecideRequestClass *request, int32_t type,
							  int32_t gpus);
extern DecideUse DecideGrowthUse(int64_t gpus, int32_t counted, bool stays);
extern DecideUse DecideClaimUse(const DecidePart *parts,
								const DecideClaim *claim, int32_t has);
extern DecideUse DecideRunningUse(const DecideRunning *running,
								  const DecidePart *parts);
extern bool DecideLeavesFor(const DecideInput *input,
							const DecideRunning *running,
							const DecideClaim *claim);
extern DecideUse DecideUseBeyond(const DecideUse *use,
								 const DecideUse *returned);
extern void DecideUseAdd(DecideUse *sum, const DecideUse *more);
extern int	DecideUseOver(const DecideUse *most, const DecideUse *used,
						  const DecideUse *more);

/*
 * The memory that shares use of their device.  DecideShareFloor returns the
 * memory floor in MiB of a request's share on a device of a type, or 0 if
 * there is none.  DecideShareMemory returns the MiB that a share uses of a
 * device with gpu_memory_mib: the floor, or without a floor share x memory; 0
 * for whole devices.
 */
extern int64_t DecideShareFloor(const DecideRequestClass *request,
								int32_t type);
extern int64_t DecideShareMemory(int64_t gpu_memory_mib, int32_t share,
								 int64_t floor);

/*
 * Ranks the accounts by the fair-share tree, from 1: the order in which their
 * own jobs go among equally urgent ones.  Equal accounts share a rank.  Sets
 * *ranks to n_accounts ranks and returns NULL, or returns a message that says
 * what is wrong.
 */
extern const char *DecideFairRank(const DecideInput *input,
								  const DecideArena *arena, int32_t **ranks);

/*
 * Past use decays by half in each half-life (microseconds, > 0, below 2^51).
 * DecideDecayed returns what remains of a use after some time.
 * DecidePastUsage returns what remains of a constant use that began and ended
 * so many microseconds ago.
 */
extern int64_t DecideDecayed(int64_t usage, int64_t time, int64_t halflife);
extern int64_t DecidePastUsage(int64_t rate, int64_t began, int64_t ended,
							   int64_t halflife);

/*
 * Verifies a result against its input with code that is independent of the
 * code that decides.  It checks that no devices, cpu or memory are allocated
 * twice; that gangs are complete; that types, memory floors, topology, the
 * rule for spot nodes and quotas are respected; that reservations, claims and
 * entitlements are correct; that no job starts before an equal one ahead of
 * it; and that each guaranteed latest start is kept or the result names what
 * broke it.
 *
 * The time depends on the size of the result; if any job starts, each job is
 * examined once.  Returns NULL, or a message that says what is wrong.  where
 * may be NULL; otherwise *where is set to the index of the wrong start, or to
 * -1.
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
