/*-------------------------------------------------------------------------
 *
 * limit.h
 *		What the parts of a cycle that see to quotas share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LIMIT_H
#define GPUCREDIT_LIMIT_H

#include "sched/sched.h"

/* A quota on devices or running jobs, and what is in use under it. */
struct QuotaLimit
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
typedef struct LimitList
{
	int			n;
	QuotaLimit **limits;
} LimitList;

/* limit_load.c */
extern bool LimitsLoadGrowing(Cycle *cycle);
extern LimitList LimitsOver(const Cycle *cycle, const char *org,
							const char *account);
extern bool LimitConcerns(const QuotaLimit *limit, const char *gpu_type);

/* limit_elsewhere.c */
extern void LimitsElsewhere(const Cycle *cycle, const char *const *orgs,
							int n);

#endif							/* GPUCREDIT_LIMIT_H */
