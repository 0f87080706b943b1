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
	int64		elsewhere_milli;	/* claimed by other pools */
	int64		elsewhere;
	int64		claimed_milli;	/* claimed, and not started by this decision */
	int64		claimed;
	int64		new_milli;		/* by the starts of this decision */
	int64		new_running;
};

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

extern SchedQuotaList SchedQuotasOver(const SchedCycle *cycle, const char *org,
									  const char *account);
extern bool SchedQuotaConcerns(const SchedQuota *limit, const char *gpu_type);



#endif							/* GPUCREDIT_SCHED_QUOTA_H */
