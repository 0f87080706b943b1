/*-------------------------------------------------------------------------
 *
 * sched.h
 *		One scheduling cycle of a pool: load, decide, apply.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SCHED_H
#define GPUCREDIT_SCHED_H

#include "common/sql.h"
#include "decide/decide.h"
#include "inventory/inventory.h"
#include "job/attempt.h"
#include "job/job.h"
#include "nodes/execnodes.h"

/* Whoever is about to be over is expected to be so within this. */
#define CYCLE_SOON	USECS_PER_SEC

/* What jobs of an ask have alike that only their starts need. */
typedef struct QueuedAsk
{
	int64		wall_limit;		/* -1: none */
	int64		hold_window;	/* -1: none */
	const char *request;
	int32		min_gpus;		/* of the request */
	int32		max_gpus;
	Offers		offers;
} QueuedAsk;

/* What of a queued job the decision does not need, but its start does. */
typedef struct Queued
{
	const char *account;		/* its path */
	int64		hold;
	int32		attempt;		/* the last one */
	TimestampTz waits_from;		/* as if it had waited at one stretch */
	const char *cache;			/* what it wants to find; NULL: nothing */
	const QueuedAsk *asked;
} Queued;

typedef struct QuotaLimit QuotaLimit;

/* What an account is called in the tables. */
typedef struct AccountName
{
	const char *org;
	const char *path;
} AccountName;

/* A reservation as the cycle before told of it. */
typedef struct ToldRow
{
	const char *org;
	int64		job;
	TimestampTz at;
	const char *nodes;
} ToldRow;

/* All that a cycle knows. */
typedef struct Cycle
{
	const char *pool;
	TimestampTz now;			/* input.now until all is locked, then later */
	bool		read_only;		/* plan: change nothing */
	struct Supposed *supposed;	/* plan_with: what is not there; or NULL */
	const Job  *asked;			/* explain: the job asked for; or NULL */
	int32		asked_index;	/* among the jobs; -1: not there */
	NodeSet    *set;
	DecideInput input;
	DecideResult result;
	MemoryContext decided;		/* the result's */
	DecideJob  *jobs;			/* input.jobs, writable */
	Queued	   *queued;			/* alongside */
	DecideAsk  *asks;			/* input.asks, writable */
	int32		max_asks;		/* room for so many */
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
	int			n_told;
	ToldRow    *told;			/* by job, then organisation */
	DecideTold *input_told;		/* input.told, writable */
	DecidePart *told_parts;		/* input.told_parts, writable */
	bool		claims_ended;	/* some were found dead */
	int32	   *ratios;			/* of run to limit, in millionths, by account
								 * and tier; 0: not known */
	int			n_limits;
	QuotaLimit *limits;			/* by organisation and account */
	struct HTAB *limit_ids;
	bool		limits_growing; /* those of jobs that could grow are there */
} Cycle;

/* What a start is billed at. */
typedef struct StartPrice
{
	const char *gpu_type;		/* NULL of a job without GPUs */
	Credits		per_gpu_hour;
} StartPrice;

/* load.c */
extern void CycleLoad(Cycle *cycle);
extern SqlResult CycleRead(const Cycle *cycle, SqlStatement *statement,
						   SqlArgs *args);
extern void CycleDrop(Cycle *cycle, const bool *drop);
extern int32 CycleAddAsk(Cycle *cycle, const DecideAsk *ask);
extern int64 CycleAgedAt(const Cycle *cycle, int32 tier,
						 TimestampTz waits_from);
extern void FencesEnd(const Cycle *cycle);

/* load_queue.c */
extern void QueueLoad(Cycle *cycle);
extern void QueuedAskOf(QueuedAsk *asked, const Job *job);

/* load_accounts.c */
extern void ShareBegin(Cycle *cycle);
extern void ShareLoad(Cycle *cycle);
extern int32 TierIndex(Cycle *cycle, const char *name);
extern int32 AccountIndex(Cycle *cycle, const char *org, const char *path);
extern int32 AccountFind(const Cycle *cycle, const char *org,
						 const char *path);
extern struct HTAB *AccountTable(const char *what, Size entry);
extern int32 TierOfRow(Cycle *cycle, int32 before, Datum tier);
extern int32 AccountOfRow(Cycle *cycle, int32 before, Datum org, Datum path);
extern bool TextIs(Datum value, const char *what);

/* load_running.c */
extern void RunningLoad(Cycle *cycle);
extern int64 RunningExpectEnd(int64 now, int64 started, int64 expected,
							  int64 limit);
extern int32 RunningFind(const Cycle *cycle, const char *org, int64 job,
						 int32 attempt);

/* What a job "j" asks: columns 10 to 21 of a row, for AskRead(). */
#define ASK_COLUMNS \
	" j.request, j.topology, j.preemptible, j.cpu_milli, j.memory_mib," \
	" j.wall_limit, j.hold_window, j.offer_types, j.offer_prices," \
	" j.offer_memory, j.offer_spot_prices, j.prefer"

extern void AskRead(SqlResult rows, uint64 i, Job *job);

/* load_claims.c */
extern void ClaimsLoad(Cycle *cycle);

/* load_elastic.c */
extern void ElasticLoad(Cycle *cycle);

/* claim.c */
extern bool ClaimsLock(Cycle *cycle);
extern void ClaimsApply(Cycle *cycle);

/* claim_tell.c */
typedef struct ClaimOwner
{
	const char *org;
	int64		job;
	int32		attempt;		/* the last one */
	const char *account;
} ClaimOwner;

extern ClaimOwner ClaimOwnerOf(const Cycle *cycle,
							   const DecidePromise *promise);
extern void ClaimsAudit(const Cycle *cycle);
extern void ClaimsPut(const Cycle *cycle, ReturnSetInfo *rsinfo);

/* what is learnt from jobs that start is remembered for so long */
#define LEARN_DAYS	"7"

/* typical.c */
extern void TypicalLoad(Cycle *cycle);
extern void TypicalCount(const Cycle *cycle);

/* caches.c */
extern int32 CacheIndex(Cycle *cycle, const char *org, const char *cache);
extern void CachesLoad(Cycle *cycle);
extern void CachesNote(const Cycle *cycle);

/* usage.c */
extern void UsageLoad(Cycle *cycle);
extern void UsageCharge(const Cycle *cycle);

/* limit_load.c */
extern void LimitsLoad(Cycle *cycle);
extern bool LimitsLock(Cycle *cycle);

/* limit.c */
extern void LimitsGive(Cycle *cycle);
extern bool LimitsCounted(Cycle *cycle);
extern void LimitsCountClaim(const Cycle *cycle, const DecideClaim *claim);
extern bool LimitsAllowClaim(const Cycle *cycle, const DecideClaim *claim);
extern void LimitsCount(const Cycle *cycle);

/* still.c */
extern void StillHoldBack(Cycle *cycle);
extern char *StillRunsOn(const char *org, int64 job, TimestampTz now);

/* apply.c */
extern bool CycleLock(Cycle *cycle);
extern bool CycleLockJobs(Cycle *cycle, const int32 *which, int n);
extern void CycleApply(const Cycle *cycle);
extern StartPrice CyclePrice(const Cycle *cycle, const DecideStart *start);

extern char *CycleNodes(const Cycle *cycle, const DecidePart *parts, int n);

/* expect.c */
extern bool CycleLearn(Cycle *cycle);
extern void CycleLearnOrder(Cycle *cycle);

/* load_told.c */
extern void ToldLoad(Cycle *cycle);

/* reserved.c */
extern bool ReservedTell(const Cycle *cycle);

/* suppose.c */
extern void SupposedOrgs(const Cycle *cycle, SqlArgs *args);
extern void SupposeNodes(Cycle *cycle);
extern void SupposeJobs(Cycle *cycle);
extern void SupposedAreNew(Cycle *cycle);

/* think.c */
extern void CycleDecide(Cycle *cycle);
extern void CycleThink(Cycle *cycle);
extern void CyclePutStarts(ReturnSetInfo *rsinfo, const Cycle *cycle);

/* surplus.c */
extern void SurplusReturn(const char *pool);

/* fund.c */
extern void FundWaiting(const char *pool);
extern void FundForesee(Cycle *cycle);

/* afford.c */
extern struct HTAB *AffordCount(void);
extern bool AffordHold(const Cycle *cycle, const Job *job, Credits amount,
					   struct HTAB *counted);
extern SqlArgs AffordArgs(const Job *job, Credits amount);
extern bool AffordGoingOn(Cycle *cycle);

#endif							/* GPUCREDIT_SCHED_H */
