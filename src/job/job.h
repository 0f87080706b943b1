/*-------------------------------------------------------------------------
 *
 * job.h
 *		The life of a job: holds, attempts, nodes.
 *
 * Locks, in order: job, attempt, hold, buckets.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_JOB_H
#define GPUCREDIT_JOB_H

#include "audit/audit.h"
#include "util/sql.h"
#include "inventory/inventory.h"
#include "job/placement.h"
#include "ledger/ledger.h"
#include "types/gpureq.h"

/* GPU types a job accepts, in order of preference, at fixed prices. */
typedef struct Offers
{
	int			n;
	const char **types;
	int64	   *memory;			/* least memory of each GPU, in bytes */
	Credits    *prices;
	Credits    *spot_prices;
	int32	   *shares;			/* thousandths of a device that a share pays
								 * for on its most expensive node; NULL if not
								 * known */
} Offers;

typedef struct Job
{
	const char *org;
	int64		job;
	char	   *account;
	char	   *pool;
	char	   *tier;
	GpuReq	   *request;
	DecideTopology topology;
	DecideTopology prefer;		/* "any" if there is no preference */
	Preemptible preemptible;
	int32		priority;
	int64		cpu_milli;
	int64		memory_mib;
	int64		wall_limit;		/* -1 if there is no limit */
	int64		hold_window;	/* -1 if the hold covers the whole wall limit */
	int32		max_retries;
	int32		price_factor;	/* price factor of its tier, in thousandths */
	const Placement *placement; /* NULL if it may use all nodes */
	Credits		resources;		/* price of its cpu and memory, per hour */
	Offers		offers;
	/* resources and offers as JobLock() read them */
	Credits		stored_resources;
	Offers		stored_offers;
	/* state of the job */
	char	   *state;
	int64		hold;
	int32		attempt;
	int32		failures;
	bool		cancelled;
	TimestampTz not_before;		/* DT_NOBEGIN if it may start at once */
	TimestampTz waits_from;		/* DT_NOBEGIN if it does not wait */
	int64		waited;			/* time for which it waited before it last
								 * left the queue */
	Trace		trace;			/* trace of its submission */
} Job;

/* The checkpoint members of a spec; -1 where a member is missing. */
typedef struct SaveSpec
{
	int64		every;			/* in microseconds; 0 for never */
	int64		bytes;
} SaveSpec;

extern const char *const TopologyNames[4];

/* offer.c */
extern const char *OffersMake(Job *job, const NodeSet *set, TimestampTz at);
extern void OffersRenew(Job *job, const NodeSet *set, TimestampTz at);
extern void OffersRenewAt(Job *job, const NodeSet *set, const Price *prices,
						  int n);
extern DecideRequestClass OffersRequest(const Job *job, const NodeSet *set);
extern int32 OffersShare(int32 share, int64 floor_mib, int64 gpu_memory_mib);
extern Credits OffersPerHour(Credits per_gpu_hour, int32 gpus, int32 share,
							 Credits resources);
extern Credits OffersDearest(const Job *job);
extern int64 OffersHeldFor(int64 wall_limit, int64 hold_window);
extern Credits OffersHold(const Job *job);
extern bool OffersHoldToday(const Job *job, Credits *amount);

/* job.c */
extern bool JobLock(const char *org, int64 id, bool wait, Job *job);
extern void JobSetState(const Job *job, const char *state, int64 hold,
						int32 failures, TimestampTz not_before,
						TimestampTz ended_at);
extern void JobDropClaim(const Job *job);
extern void JobReadOffers(SqlResult rows, uint64 i, int types, int memory,
						  int prices, int spot_prices, Offers *offers);
extern Purpose JobPurpose(const Job *job);
extern pg_attribute_noreturn() void AttemptRefuseUnknown(int64 job,
														 int32 attempt);

/* spec.c */
extern SaveSpec SpecRead(const Jsonb *spec);

/* job_trace.c */
extern void JobTraces(AuditRow *rows, int n);

/* fund.c */
extern Credits JobNextHold(Job *job);
extern LedgerStatus JobOpenHold(Job *job, const char *operation,
								const LockedBuckets *locked, bool wait,
								TimestampTz *at);

#endif							/* GPUCREDIT_JOB_H */
