/*-------------------------------------------------------------------------
 *
 * sched_quota.h
 *		What the parts of a cycle that see to quotas share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LIMIT_H
#define GPUCREDIT_LIMIT_H

#include "sched/sched.h"

/* A quota on devices or running jobs, and the use under it. */
struct SchedQuota
{
	const char *org;
	const char *account;
	const char *gpu_type;		/* '': any */
	bool		locked;			/* by this cycle */
	bool		busy;			/* locked elsewhere */
	int64		max_milli;		/* thousandths of devices; -1: no limit */
	int64		max_running;	/* -1: no limit */
	int64		used_milli;
	int64		running;
	int64		elsewhere_milli;	/* promised by other pools */
	int64		elsewhere;
	int64		claimed_milli;	/* promised, and not started by this decision */
	int64		claimed;
	int64		new_milli;		/* by the starts of this decision */
	int64		new_running;
};

/* The quotas that an account stands under. */
typedef struct SchedQuotaList
{
	int			n;
	SchedQuota **quotas;
} SchedQuotaList;

/* An account's quotas. */
typedef struct SchedQuotaEntry
{
	AccountName key;
	int32		first;			/* index of its own, which follow each other */
	int32		n_own;
	SchedQuota **over;			/* its own and those above; NULL: not yet
								 * known */
	int			n_over;
} SchedQuotaEntry;

/* quota_of_account.c */
extern SchedQuotaEntry *SchedQuotaEntryOf(const SchedCycle *cycle,
										  const char *org,
										  const char *account);
extern SchedQuotaList SchedQuotasOver(const SchedCycle *cycle, const char *org,
									  const char *account);
extern bool SchedQuotaConcerns(const SchedQuota *limit, const char *gpu_type);

/* quota_load.c */
extern bool SchedQuotasLoadGrowing(SchedCycle *cycle);

/* quota_elsewhere.c */
extern void SchedQuotasElsewhere(const SchedCycle *cycle,
								 const char *const *orgs,
								 int n);

#endif							/* GPUCREDIT_LIMIT_H */
