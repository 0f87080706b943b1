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

/* What jobs of a request have alike that only their starts need. */
typedef struct QueuedRequest
{
	int64		wall_limit;		/* -1: none */
	int64		hold_window;	/* -1: none */
	const char *request;
	int32		min_gpus;		/* of the request */
	int32		max_gpus;
	Offers		offers;
} QueuedRequest;

/* What of a queued job the decision does not need, but its start does. */
typedef struct Queued
{
	const char *account;		/* its path */
	int64		hold;
	int32		attempt;		/* the last one */
	TimestampTz waits_from;		/* as if it had waited at one stretch */
	const char *cache;			/* what it wants to find; NULL: nothing */
	const QueuedRequest *asked;
} Queued;

typedef struct SchedQuota SchedQuota;

/* What an account is called in the tables. */
typedef struct AccountName
{
	const char *org;
	const char *path;
} AccountName;

/* A reservation of the cycle before. */
typedef struct PreviousRow
{
	const char *org;
	int64		job;
	TimestampTz at;
	const char *nodes;
} PreviousRow;

/* All that a cycle knows. */
typedef struct SchedCycle
{
	const char *pool;
	TimestampTz now;			/* input.now until all is locked, then later */
	bool		read_only;		/* plan: change nothing */
	bool		foreign;		/* another scheduler places in the pool */
	int64		ran;			/* for how long what starts has run */
	struct Hypothetical *hypothetical;	/* plan_with: the suppositions; or
										 * NULL */
	const Job  *asked;			/* explain: the job asked for; or NULL */
	int32		asked_index;	/* among the jobs; -1: not there */
	NodeSet    *set;
	DecideInput input;
	DecideResult result;
	MemoryContext decided;		/* the result's */
	DecideJob  *jobs;			/* input.jobs, writable */
	Queued	   *queued;			/* alongside */
	DecideRequestClass *requests;	/* input.requests, writable */
	int32		max_requests;	/* room for so many */
	DecideTier *tiers;			/* input.tiers, writable */
	const char **tier_names;
	int			max_tiers;
	DecideAccount *accounts;	/* input.accounts, writable */
	AccountName *account_names;
	int			max_accounts;
	struct HTAB *account_ids;
	struct HTAB *cache_ids;		/* NULL: no job wants to find any */
	DecideRunning *running;		/* input.running, writable */
	DecidePart *running_parts;	/* input.running_parts, writable */
	DecideClaim *claims;		/* input.claims, writable */
	int32	   *claimants;		/* index into running, of each claim; or -1 */
	int			n_previous;
	PreviousRow *previous;		/* by job, then organisation */
	DecidePreviousReservation *input_previous;	/* input.told, writable */
	DecidePart *previous_parts; /* input.previous_parts, writable */
	bool		claims_ended;	/* some were found dead */
	int32	   *ratios;			/* of run to limit, in millionths, by account
								 * and tier; 0: not known */
	int			n_quotas;
	SchedQuota *quotas;			/* by organisation and account */
	struct HTAB *quota_ids;
	bool		quotas_growing; /* those of jobs that could grow are there */
} SchedCycle;

/* What a start is billed at. */
typedef struct StartPrice
{
	const char *gpu_type;		/* NULL of a job without GPUs */
	Credits		per_gpu_hour;
} StartPrice;

/* load.c */
extern void CycleLoad(SchedCycle *cycle);

/* sched_cycle.c */
extern SqlResult CycleRead(const SchedCycle *cycle, SqlStatement *statement,
						   SqlArgs *args);
extern int64 CycleAgedAt(const SchedCycle *cycle, int32 tier,
						 TimestampTz waits_from);
extern void CycleDrop(SchedCycle *cycle, const bool *drop);
extern int32 CycleAddRequest(SchedCycle *cycle,
							 const DecideRequestClass *request);

/* load_queue.c */
extern void QueueLoad(SchedCycle *cycle);

/* load_accounts.c */
extern void ShareBegin(SchedCycle *cycle);
extern void ShareLoad(SchedCycle *cycle);
extern int32 TierIndex(SchedCycle *cycle, const char *name);
extern int32 AccountIndex(SchedCycle *cycle, const char *org,
						  const char *path);
extern int32 AccountFind(const SchedCycle *cycle, const char *org,
						 const char *path);
extern struct HTAB *AccountTable(const char *what, Size entry);
extern int32 TierOfRow(SchedCycle *cycle, int32 before, Datum tier);
extern int32 AccountOfRow(SchedCycle *cycle, int32 before, Datum org,
						  Datum path);
extern bool TextIs(Datum value, const char *what);

/* load_running.c */
extern void RunningLoad(SchedCycle *cycle);
extern int64 RunningExpectEnd(int64 now, int64 started, int64 expected,
							  int64 limit);
extern void RunningLoadEvictions(SchedCycle *cycle);
extern int32 RunningFind(const SchedCycle *cycle, const char *org, int64 job,
						 int32 attempt);

/* What a job "j" requests: columns 10 to 21 of a row, for RequestRead(). */
#define REQUEST_COLUMNS \
	" j.request, j.topology, j.preemptible, j.cpu_milli, j.memory_mib," \
	" j.wall_limit, j.hold_window, j.offer_types, j.offer_prices," \
	" j.offer_memory, j.offer_spot_prices, j.prefer"

/* job_request.c */
extern void RequestRead(SqlResult rows, uint64 i, Job *job);
extern void QueuedRequestOf(QueuedRequest *asked, const Job *job);

/* load_claims.c */
extern void ClaimsLoad(SchedCycle *cycle);

/* load_elastic.c */
extern void ElasticLoad(SchedCycle *cycle);

/* apply_claims.c */
extern bool ClaimsLock(SchedCycle *cycle);
extern void ClaimsApply(SchedCycle *cycle);

/* claim_report.c */
typedef struct ClaimOwner
{
	const char *org;
	int64		job;
	int32		attempt;		/* the last one */
	const char *account;
} ClaimOwner;

extern ClaimOwner ClaimOwnerOf(const SchedCycle *cycle,
							   const DecidePromise *promise);
extern void ClaimsAudit(const SchedCycle *cycle);
extern void ClaimsPut(const SchedCycle *cycle, ReturnSetInfo *rsinfo);

/* statistics of started jobs last so long */
#define LEARN_DAYS	"7"

/* workload_mix.c */
extern void WorkloadMixLoad(SchedCycle *cycle);
extern void WorkloadMixCount(const SchedCycle *cycle);

/* cache_affinity.c */
extern int32 CacheIndex(SchedCycle *cycle, const char *org, const char *cache);
extern void CacheAffinityLoad(SchedCycle *cycle);
extern void CacheAffinityNote(const SchedCycle *cycle);

/* usage.c */
extern void UsageLoad(SchedCycle *cycle);
extern void UsageCharge(const SchedCycle *cycle);

/* quota_load.c */
extern void SchedQuotasLoad(SchedCycle *cycle);
extern bool SchedQuotasLock(SchedCycle *cycle);

/* sched_quota.c */
extern void SchedQuotasGive(SchedCycle *cycle);
extern bool SchedQuotasCounted(SchedCycle *cycle);
extern void SchedQuotasCountClaim(const SchedCycle *cycle,
								  const DecideClaim *claim);
extern bool SchedQuotasAllowClaim(const SchedCycle *cycle,
								  const DecideClaim *claim);
extern void SchedQuotasCount(const SchedCycle *cycle);

/* fence_wait.c */
extern void FencesEnd(const SchedCycle *cycle);
extern void FenceWaitHoldBack(SchedCycle *cycle);
extern char *FenceWaitNodes(const char *org, int64 job, TimestampTz now);

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

/* runtime_estimate.c */
extern bool RuntimeEstimateLoad(SchedCycle *cycle);
extern void RuntimeEstimateOrder(SchedCycle *cycle);

/* load_previous.c */
extern void PreviousLoad(SchedCycle *cycle);

/* reservation_report.c */
extern bool ReservationsReport(const SchedCycle *cycle);

/* hypothetical.c */
extern void HypotheticalOrgs(const SchedCycle *cycle, SqlArgs *args);
extern void HypotheticalNodes(SchedCycle *cycle);
extern void HypotheticalJobs(SchedCycle *cycle);
extern void HypotheticalAreNew(SchedCycle *cycle);

/* plan.c */
extern void CycleBegin(SchedCycle *cycle, int32 max_starts);
extern void CycleDecideAll(SchedCycle *cycle);
extern void CycleDecide(SchedCycle *cycle);
extern void CyclePlan(SchedCycle *cycle);
extern void CyclePutStarts(ReturnSetInfo *rsinfo, const SchedCycle *cycle);

/* hold_excess.c */
extern void HoldExcessReturn(const char *pool);

/* fund_waiting.c */
extern void FundWaiting(const char *pool);
extern void FundForesee(SchedCycle *cycle);

/* move_credit.c */
extern bool CreditCheckMoves(SchedCycle *cycle);

/* credit_check.c */

/* What may pay: a bucket, or a hard budget that must allow it. */
typedef struct Payer
{
	const char *name;			/* within its organisation */
	Credits		left;
	Credits		most;			/* a bucket gives, by its policy */
} Payer;

typedef struct Payers
{
	int			n;
	Payer	   *all;
} Payers;

/* A job's next hold, and what may pay for it. */
typedef struct NextHold
{
	const Job  *job;
	Credits		amount;
	Payers		budgets;		/* of the account's path */
	Payers		buckets;		/* in burn order */
} NextHold;

extern struct HTAB *CreditCheckBegin(void);
extern void CreditCheckLoad(const SchedCycle *cycle, NextHold *holds, int n);
extern bool CreditCheckHold(const NextHold *hold, struct HTAB *counted);

#endif							/* GPUCREDIT_SCHED_H */
