/*-------------------------------------------------------------------------
 *
 * sched_quota.h
 *		Shared by the parts of a cycle that handle quotas.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SCHED_QUOTA_H
#define GPUCREDIT_SCHED_QUOTA_H

#include "sched/sched.h"

/* A quota on what runs, and the use under it. */
struct SchedQuota
{
	const char *org;
	const char *account;
	const char *gpu_type;		/* '': any */
	bool		locked;			/* by this cycle */
	bool		busy;			/* locked elsewhere */
	DecideUse	most;			/* -1: no limit */
	DecideUse	used;			/* by attempts that live, in all pools */
	DecideUse	elsewhere;		/* claimed by other pools */
	DecideUse	claimed;		/* claimed, and not started by this decision */
	DecideUse	starting;		/* by the starts of this decision */
};

/* Quotas on what runs, named q in a statement; others limit what waits. */
#define QUOTA_OF_RUNNING \
	"(q.max_gpus IS NOT NULL OR q.max_running IS NOT NULL" \
	" OR q.max_cpu_milli IS NOT NULL OR q.max_memory_mib IS NOT NULL)"

/* The quotas that count an account. */
typedef struct SchedQuotaList
{
	int			n;
	SchedQuota **quotas;
} SchedQuotaList;

/* An account's quotas. */
typedef struct SchedQuotaEntry
{
	AccountName key;
	int32		first;			/* index of its first own quota; its own are
								 * together */
	int32		n_own;
	SchedQuota **over;			/* its own and those above; NULL: not computed */
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
