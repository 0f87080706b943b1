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

/* A leaving attempt should be over within this. */
#define CYCLE_SOON	USECS_PER_SEC

/* days for which statistics of started jobs count */
#define LEARN_DAYS	"7"

/* What jobs of one request share, needed only for starts. */
typedef struct QueuedRequest
{
	int64		wall_limit;		/* -1: none */
	int64		hold_window;	/* -1: none */
	const char *request;
	int32		min_gpus;		/* of the request */
	int32		max_gpus;
	Credits		resources;		/* price of its cpu and memory, per hour */
	Offers		offers;
} QueuedRequest;

/* What a start needs of a queued job, beside the decision's input. */
typedef struct Queued
{
	const char *account;		/* its path */
	int64		hold;
	int32		attempt;		/* the last one */
	TimestampTz waits_from;		/* its submission, moved so that it waited
								 * without a break */
	const char *cache;			/* the cache it wants; NULL: none */
	const char *array;			/* the array whose at_most counts, or NULL */
	int32		at_most;
	TimestampTz deadline;		/* DT_NOEND: none */
	bool		released;		/* it is eligible since this cycle */
	const QueuedRequest *asked;
} Queued;

/* Whether what a job waits for holds. */
typedef enum DependencyState
{
	DEPENDENCY_WAITS,
	DEPENDENCY_HOLDS,
	DEPENDENCY_NEVER			/* it can never hold */
} DependencyState;

/* A job that is not eligible (load/load_dependents.c). */
typedef struct DependentJob
{
	const char *org;
	const char *account;
	const char *name;			/* NULL: none */
	int64		job;
	const char *after;			/* as job.after; NULL: it waits for no job */
	bool		kills;			/* it is cancelled if that can never hold */
	TimestampTz deadline;		/* DT_NOEND: none */
	bool		left_out;		/* a later cycle judges it */
	DependencyState state;		/* the result */
} DependentJob;

/* Why a job that is eligible otherwise takes no part in a cycle. */
typedef enum SetAsideReason
{
	SET_ASIDE_ARRAY,			/* as many of its array run as may */
	SET_ASIDE_DEADLINE,			/* its limit reaches beyond its deadline */
	SET_ASIDE_NEVER,			/* what it waits for can never hold */
	SET_ASIDE_PRICE,			/* it gets another hold first (apply/rehold.c) */
	/* hypothetical jobs: */
	SET_ASIDE_DEPENDENCY,		/* what it waits for does not hold yet */
	SET_ASIDE_BEGIN,			/* it asks to begin later */
	SET_ASIDE_HELD				/* it asks to be held */
} SetAsideReason;

typedef struct SetAside
{
	const char *org;
	int64		job;
	SetAsideReason reason;
	bool		ends;			/* the cycle cancels it */
} SetAside;

typedef struct SchedQuota SchedQuota;

/* An account as the tables name it. */
typedef struct AccountName
{
	const char *org;
	const char *path;
} AccountName;

/* A previous reservation. */
typedef struct PreviousRow
{
	const char *org;
	int64		job;
	TimestampTz at;
	const char *nodes;
	int64		limit_at;		/* by all limits; DECIDE_NEVER: not known */
	int64		latest;			/* guaranteed start; 0: none */
	bool		put_off;		/* its job is queued, but not in this cycle */
} PreviousRow;

/* The state of a cycle. */
typedef struct SchedCycle
{
	const char *pool;
	TimestampTz now;			/* input.now; after all locks, a later instant */
	bool		read_only;		/* plan: change nothing */
	bool		foreign;		/* another scheduler places in the pool */
	int64		ran;			/* how long the starts have run already */
	struct Hypothetical *hypothetical;	/* of plan_with, or NULL */
	const Job  *asked;			/* explain: the job asked for; or NULL */
	int32		asked_index;	/* among the jobs; -1: not there */
	NodeSet    *set;
	DecideInput input;
	DecideResult result;
	MemoryContext decided;		/* the result's */
	int64	   *expected_at;	/* by reservation: when it is expected to
								 * begin */
	DecideJob  *jobs;			/* input.jobs, writable */
	Queued	   *queued;			/* by job */
	DecideRequestClass *requests;	/* input.requests, writable */
	int32		max_requests;	/* allocated requests */
	DecideTier *tiers;			/* input.tiers, writable */
	const char **tier_names;
	bool	   *tier_closed;	/* by tier: only for those it is granted to */
	int			max_tiers;
	DecideAccount *accounts;	/* input.accounts, writable */
	AccountName *account_names;
	int			max_accounts;
	struct HTAB *account_ids;
	struct HTAB *cache_ids;		/* NULL: no job wants a cache */
	DecideRunning *running;		/* input.running, writable */
	DecidePart *running_parts;	/* input.running_parts, writable */
	DecideClaim *claims;		/* input.claims, writable */
	int32	   *claimants;		/* by claim: index into running, or -1 */
	int			n_previous;
	PreviousRow *previous;		/* by job, then organisation */
	DecidePreviousReservation *input_previous;	/* input.previous, writable */
	DecidePart *previous_parts; /* input.previous_parts, writable */
	bool		claims_ended;	/* some claims ended */
	int32	   *ratios;			/* of run to limit, in millionths, by account
								 * and tier; 0: not known */
	int			n_quotas;
	SchedQuota *quotas;			/* by organisation and account */
	struct HTAB *quota_ids;
	bool		quotas_growing; /* quotas of jobs that could grow are loaded */
	int			n_dependents;	/* jobs that are not eligible */
	DependentJob *dependents;	/* by organisation and number */
	int			n_set_aside;
	int			max_set_aside;
	SetAside   *set_aside;
} SchedCycle;

/* The price of a start. */
typedef struct StartPrice
{
	const char *gpu_type;		/* NULL: a job without GPUs */
	Credits		per_gpu_hour;
	int32		share;			/* thousandths of each device that are billed */
	Credits		per_hour;		/* of all: devices, cpu and memory */
} StartPrice;

/* What a job "j" requests: columns 10 to 23 of a row, for RequestRead(). */
#define REQUEST_COLUMNS \
	" j.request, j.topology, j.preemptible, j.cpu_milli, j.memory_mib," \
	" j.wall_limit, j.hold_window, j.offer_types, j.offer_prices," \
	" j.offer_memory, j.offer_spot_prices, j.prefer, j.price_factor," \
	" j.resources"

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
extern void SchedQuotasGive(SchedCycle *cycle);
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
