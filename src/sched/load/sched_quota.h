/*-------------------------------------------------------------------------
 *
 * sched_quota.h
 *		Declarations shared by the parts of a cycle that handle quotas.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SCHED_QUOTA_H
#define GPUCREDIT_SCHED_QUOTA_H

#include "sched/sched.h"

/* A quota that limits running jobs, and the use that counts under it. */
struct SchedQuota
{
	const char *org;
	const char *account;
	const char *gpu_type;		/* '' if the quota counts all types */
	bool		locked;			/* whether this cycle has locked the quota's
								 * turn */
	bool		busy;			/* whether another transaction has locked the
								 * quota's turn */
	DecideUse	most;			/* limits; -1 where there is none */
	DecideUse	used;			/* by live attempts in all pools */
	DecideUse	elsewhere;		/* by claims of other pools */
	DecideUse	claimed;		/* by claims whose jobs this decision does not
								 * start */
	DecideUse	starting;		/* by jobs that this decision starts */
};

/*
 * SQL condition: the quota q limits what runs. Other quotas limit only how
 * many jobs may be queued.
 */
#define QUOTA_OF_RUNNING \
	"(q.max_gpus IS NOT NULL OR q.max_running IS NOT NULL" \
	" OR q.max_cpu_milli IS NOT NULL OR q.max_memory_mib IS NOT NULL" \
	" OR q.max_nonpreemptible_gpus IS NOT NULL)"

/* The quotas that count an account. */
typedef struct SchedQuotaList
{
	int			n;
	SchedQuota **quotas;
} SchedQuotaList;

/* The quotas that count one account. */
typedef struct SchedQuotaEntry
{
	AccountName key;
	int32		first;			/* index of its first own quota in the cycle's
								 * array, where its own quotas are adjacent */
	int32		n_own;
	SchedQuota **over;			/* its own quotas and those of the accounts
								 * above, or NULL if not computed yet */
	int			n_over;
} SchedQuotaEntry;

/* quota_list.c */
extern SchedQuotaEntry *SchedQuotaEntryOf(const SchedCycle *cycle, const char *org, const char *account);
extern SchedQuotaList SchedQuotasOver(const SchedCycle *cycle, const char *org,
									  const char *account);
extern bool SchedQuotaConcerns(const SchedQuota *limit, const char *gpu_type);
extern DecideUse SchedQuotaLeast(const NodeSet *set, const char *gpu_type,
								 const DecideRequestClass *request);
extern const char *const SchedLimitedNames[DECIDE_LIMITED];
extern void SchedQuotaText(StringInfo text, int limited, const DecideUse *more,
						   const DecideUse *used, const DecideUse *soon,
						   const DecideUse *most);

/* quota_claims.c */
extern void SchedQuotasCountElsewhere(const SchedCycle *cycle, const char *const *orgs, int n);

#endif							/* GPUCREDIT_SCHED_QUOTA_H */
