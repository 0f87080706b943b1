/*-------------------------------------------------------------------------
 *
 * sched.h
 *		One scheduling cycle of a pool: load, decide, apply.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SCHED_H
#define GPUCREDIT_SCHED_H

#include "util/sql.h"
#include "decide/decide.h"
#include "inventory/inventory.h"
#include "job/attempt.h"
#include "job/job.h"
#include "nodes/execnodes.h"

/*
 * A leaving attempt past its deadline is expected to be gone within this time.
 */
#define CYCLE_SOON	USECS_PER_SEC

/*
 * number of days for which statistics of started jobs are used, as text for
 * SQL statements
 */
#define LEARN_DAYS	"7"

/* What the jobs of one request class have in common and only a start needs. */
typedef struct QueuedRequest
{
	int64		wall_limit;		/* -1 if there is no limit */
	int64		hold_window;	/* -1 if the hold covers the whole wall limit */
	const char *request;
	int32		min_gpus;		/* smallest and largest number of devices that
								 * the request accepts */
	int32		max_gpus;
	Credits		resources;		/* price of the requested cpu and memory, per
								 * hour */
	Offers		offers;
} QueuedRequest;

/* What a start needs to know of a queued job, beside the decision's input. */
typedef struct Queued
{
	const char *account;		/* path of its account */
	int64		hold;
	int32		attempt;		/* number of its last attempt */
	TimestampTz waits_from;		/* instant of its submission, moved forward by
								 * the time in which it was not waiting */
	const char *cache;			/* key of the cache that it prefers, or NULL */
	const char *array;			/* key of its array if an at_most applies, or
								 * NULL */
	int32		at_most;
	TimestampTz deadline;		/* DT_NOEND if there is no deadline */
	bool		released;		/* whether it became eligible in this cycle */
	const QueuedRequest *asked;
} Queued;

/* Whether the condition that a job waits for holds. */
typedef enum DependencyState
{
	DEPENDENCY_WAITS,
	DEPENDENCY_HOLDS,
	DEPENDENCY_NEVER			/* the condition can never hold */
} DependencyState;

/* A job that is not eligible, as load/load_dependents.c reads it. */
typedef struct DependentJob
{
	const char *org;
	const char *account;
	const char *name;			/* NULL if it has no name */
	int64		job;
	const char *after;			/* its dependency as in column job.after, or
								 * NULL if it waits for no job */
	bool		kills;			/* whether it is cancelled once its dependency
								 * can never hold */
	TimestampTz deadline;		/* DT_NOEND if there is no deadline */
	bool		left_out;		/* whether its dependency is not judged now,
								 * but in a later cycle */
	DependencyState state;		/* result of DependencyJudge() */
} DependentJob;

/* Why a job that is otherwise eligible takes no part in a cycle. */
typedef enum SetAsideReason
{
	SET_ASIDE_ARRAY,			/* as many jobs of its array run as at_most
								 * allows */
	SET_ASIDE_DEADLINE,			/* its wall limit reaches beyond its deadline */
	SET_ASIDE_NEVER,			/* its dependency can never hold */
	SET_ASIDE_PRICE,			/* it gets a new hold first (apply/rehold.c) */
	/* The remaining reasons apply to hypothetical jobs only. */
	SET_ASIDE_DEPENDENCY,		/* its dependency does not hold yet */
	SET_ASIDE_BEGIN,			/* it asks to begin later */
	SET_ASIDE_HELD				/* it asks to be held */
} SetAsideReason;

typedef struct SetAside
{
	const char *org;
	int64		job;
	SetAsideReason reason;
	bool		ends;			/* whether the cycle cancels it */
} SetAside;

typedef struct SchedQuota SchedQuota;

/* An account, identified as in the tables. */
typedef struct AccountName
{
	const char *org;
	const char *path;
} AccountName;

/* A reservation of the previous cycle, as stored in its row. */
typedef struct PreviousRow
{
	const char *org;
	int64		job;
	TimestampTz at;
	const char *nodes;
	int64		limit_at;		/* when it ends if all jobs run to their
								 * limits; DECIDE_NEVER if not known */
	int64		latest;			/* guaranteed latest start; 0 if there is no
								 * guarantee */
	bool		put_off;		/* whether its job is queued but takes no part
								 * in this cycle */
} PreviousRow;

/* The state of a cycle, from loading to applying. */
typedef struct SchedCycle
{
	const char *pool;
	TimestampTz now;			/* input.now while loading and deciding; a
								 * later instant once all locks are acquired */
	bool		read_only;		/* whether the cycle only reports its decision
								 * and changes nothing */
	bool		foreign;		/* whether another scheduler places in the
								 * pool */
	int64		ran;			/* how long the jobs that start now have been
								 * running already (placed()) */
	struct Hypothetical *hypothetical;	/* hypothetical nodes and jobs of
										 * plan_with(), or NULL */
	const Job  *asked;			/* the job that explain() reports on, or NULL */
	int32		asked_index;	/* index of that job in the queue, or -1 if it
								 * is not there */
	NodeSet    *set;
	DecideInput input;
	DecideResult result;
	MemoryContext decided;		/* memory of the result */
	int64	   *expected_at;	/* by reservation, when it is expected to
								 * begin */
	DecideJob  *jobs;			/* the same array as input.jobs, writable */
	Queued	   *queued;			/* by job */
	DecideRequestClass *requests;	/* the same array as input.requests,
									 * writable */
	int32		max_requests;	/* number of request classes allocated */
	DecideTier *tiers;			/* the same array as input.tiers, writable */
	const char **tier_names;
	bool	   *tier_closed;	/* by tier, whether only accounts to which it
								 * is granted may use it */
	int			max_tiers;
	DecideAccount *accounts;	/* the same array as input.accounts, writable */
	AccountName *account_names;
	int			max_accounts;
	struct HTAB *account_ids;
	struct HTAB *cache_ids;		/* NULL if no job prefers a cache */
	DecideRunning *running;		/* the same array as input.running, writable */
	DecidePart *running_parts;	/* the same array as input.running_parts,
								 * writable */
	DecideClaim *claims;		/* the same array as input.claims, writable */
	int32	   *claimants;		/* by claim, index of its job among the
								 * running jobs, or -1 */
	int			n_previous;
	PreviousRow *previous;		/* sorted by job, then organisation */
	DecidePreviousReservation *input_previous;	/* the same array as
												 * input.previous, writable */
	DecidePart *previous_parts; /* the same array as input.previous_parts,
								 * writable */
	bool		claims_ended;	/* whether this cycle ended claims */
	int32	   *ratios;			/* by account and tier, ratio of run time to
								 * wall limit in millionths; 0 if not read yet */
	int			n_quotas;
	SchedQuota *quotas;			/* sorted by organisation and account */
	struct HTAB *quota_ids;
	bool		quotas_growing; /* whether the quotas of jobs that could grow
								 * are loaded */
	int			n_dependents;	/* number of jobs that are not eligible */
	DependentJob *dependents;	/* sorted by organisation and number */
	int			n_set_aside;
	int			max_set_aside;
	SetAside   *set_aside;
} SchedCycle;

/* The price of a started job. */
typedef struct StartPrice
{
	const char *gpu_type;		/* NULL for a job without GPUs */
	Credits		per_gpu_hour;
	int32		share;			/* how many thousandths of each device are
								 * billed */
	Credits		per_hour;		/* for all devices, cpu and memory together */
} StartPrice;

/*
 * Columns that describe the request of a job "j". RequestRead() expects them
 * as columns 10 to 24 of a row.
 */
#define REQUEST_COLUMNS \
	" j.request, j.topology, j.preemptible, j.cpu_milli, j.memory_mib," \
	" j.wall_limit, j.hold_window, j.offer_types, j.offer_prices," \
	" j.offer_memory, j.offer_spot_prices, j.prefer, j.price_factor," \
	" j.resources, j.options -> 'placement'"

/* sched_cycle.c */
extern SqlResult CycleRead(const SchedCycle *cycle, SqlStatement *statement,
						   Values *args);
extern int64 CycleAgedAt(const SchedCycle *cycle, int32 tier,
						 TimestampTz waits_from);
extern void CycleDrop(SchedCycle *cycle, const bool *drop);
extern int32 CycleAddRequest(SchedCycle *cycle,
							 const DecideRequestClass *request);

/* request_row.c */
extern void RequestRead(SqlResult rows, uint64 i, Job *job);
extern void QueuedRequestOf(QueuedRequest *asked, const Job *job);

/* account_index.c */
extern void ShareBegin(SchedCycle *cycle);
extern struct HTAB *AccountTable(const char *what, Size entry);
extern void ShareLoad(SchedCycle *cycle);
extern int32 TierIndex(SchedCycle *cycle, const char *name);
extern int32 AccountIndex(SchedCycle *cycle, const char *org,
						  const char *path);
extern int32 AccountFind(const SchedCycle *cycle, const char *org,
						 const char *path);
extern int32 AccountOfRow(SchedCycle *cycle, int32 before, Datum org,
						  Datum path);
extern int32 TierOfRow(SchedCycle *cycle, int32 before, Datum tier);
extern bool TextIs(Datum value, const char *what);

/* load_running.c */
extern void RunningLoad(SchedCycle *cycle);
extern int32 RunningFind(const SchedCycle *cycle, const char *org, int64 job,
						 int32 attempt);
extern int32 RunningFindAny(const SchedCycle *cycle, const char *org,
							int64 job, int32 attempt);
extern int64 RunningExpectEnd(int64 now, int64 started, int64 expected,
							  int64 limit);

/* load_claims.c */
extern void ClaimsLoad(SchedCycle *cycle);

/* load_queue.c */
extern void QueueLoad(SchedCycle *cycle);

/* dependency_state.c */
extern void DependencyJudge(const SchedCycle *cycle, DependentJob *jobs,
							int n);

/* load_dependents.c */
extern void DependentsLoad(SchedCycle *cycle);
extern uint64 DependentsRelease(const SchedCycle *cycle);

/* set_aside.c */
extern void SetAsideAdd(SchedCycle *cycle, const char *org, int64 job,
						SetAsideReason reason, bool ends);
extern const SetAside *SetAsideFind(const SchedCycle *cycle, const char *org,
									int64 job);
extern const SetAside *SetAsideLast(const SchedCycle *cycle, int64 job);
extern void SetAsideLoad(SchedCycle *cycle);
extern uint64 SetAsideEnd(const SchedCycle *cycle);
extern void SetAsidePut(ReturnSetInfo *rsinfo, const SchedCycle *cycle);
extern const char *SetAsideName(SetAsideReason reason);

/* rehold.c */
extern void ReholdFind(SchedCycle *cycle, bool *drop);
extern uint64 ReholdApply(const SchedCycle *cycle);

/* load_elastic.c */
extern void ElasticLoad(SchedCycle *cycle);

/* run_estimate.c */
extern void RuntimeEstimateLoad(SchedCycle *cycle);
extern void RuntimeEstimateOrder(SchedCycle *cycle);

/* cache_affinity.c */
extern int32 CacheIndex(SchedCycle *cycle, const char *org, const char *cache);
extern void CacheAffinityLoad(SchedCycle *cycle);
extern void CacheAffinityNote(const SchedCycle *cycle);

/* workload_mix.c */
extern void WorkloadMixLoad(SchedCycle *cycle);
extern void WorkloadMixCount(const SchedCycle *cycle);

/* usage.c */
extern void UsageLoad(SchedCycle *cycle);
extern void UsageCharge(const SchedCycle *cycle);

/* hypothetical.c */
extern void HypotheticalOrgs(const SchedCycle *cycle, Values *args);
extern void HypotheticalNodes(SchedCycle *cycle);
extern void HypotheticalJobs(SchedCycle *cycle);
extern void HypotheticalAreNew(SchedCycle *cycle);

/* sched_quota.c */
extern void SchedQuotasLoad(SchedCycle *cycle);
extern bool SchedQuotasLock(SchedCycle *cycle);
extern void SchedQuotasStore(SchedCycle *cycle);
extern bool SchedQuotasCounted(SchedCycle *cycle);
extern void SchedQuotasCountClaim(const SchedCycle *cycle,
								  const DecidePart *parts,
								  const DecideClaim *claim);
extern bool SchedQuotasAllowClaim(const SchedCycle *cycle,
								  const DecidePart *parts,
								  const DecideClaim *claim);
extern void SchedQuotasCount(const SchedCycle *cycle);

/* fund_waiting.c */
extern void FundWaiting(const char *pool);

/* fund_foresee.c */
extern void FundForesee(SchedCycle *cycle);

/* credit_moves.c */
extern bool CreditCheckMoves(SchedCycle *cycle);

/* fence_wait.c */
extern uint64 FencesEnd(const SchedCycle *cycle);
extern void FenceWaitHoldBack(SchedCycle *cycle);
extern char *FenceWaitNodes(const char *org, int64 job, TimestampTz now);

/* load_cycle.c */
extern void CycleLoad(SchedCycle *cycle);

/* pool_cycle.c */
extern void CyclePlan(SchedCycle *cycle);
extern void CycleBegin(SchedCycle *cycle, int32 max_starts);
extern void CycleDecideAll(SchedCycle *cycle);
extern int64 *CycleExpectQueue(const SchedCycle *cycle);
extern void CyclePutStarts(ReturnSetInfo *rsinfo, const SchedCycle *cycle);
extern const char *CycleWaitReason(const SchedCycle *cycle, int32 index);

/* apply.c */
extern bool CycleLock(SchedCycle *cycle);
extern bool CycleLockJobs(SchedCycle *cycle, const int32 *which, int n);
extern void CycleApply(const SchedCycle *cycle);
extern StartPrice CyclePrice(const SchedCycle *cycle,
							 const DecideStart *start);
extern Credits CycleHeldFor(const SchedCycle *cycle,
							const DecideStart *start, Credits price);
extern char *CycleNodes(const SchedCycle *cycle, const DecidePart *parts,
						int n);

/* hold_excess.c */
extern void HoldExcessReturn(const char *pool);

/* apply_claims.c */
extern bool ClaimsLock(SchedCycle *cycle);
extern void ClaimsApply(SchedCycle *cycle);

/* claim_report.c */
extern void ClaimsPut(const SchedCycle *cycle, ReturnSetInfo *rsinfo);

/* reservation_report.c */
extern bool ReservationsReport(const SchedCycle *cycle);

/* previous_reservations.c */
extern void PreviousLoad(SchedCycle *cycle);
extern void PreviousPutOff(SchedCycle *cycle, const DecideJob *job);

/* guarantee_report.c */
extern void GuaranteesReport(const SchedCycle *cycle);

#endif							/* GPUCREDIT_SCHED_H */
