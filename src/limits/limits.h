/*-------------------------------------------------------------------------
 *
 * limits.h
 *		What limits an account, in its own row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LIMITS_H
#define GPUCREDIT_LIMITS_H

#include "account/account.h"
#include "nodes/pg_list.h"

/* The copied fields of a budget, and of a quota, in their order. */
typedef enum LimitKind
{
	LIMIT_BUDGETS,				/* period, amount, hard, slices, alert_at */
	LIMIT_QUOTAS				/* gpu_type, max_gpus, is there a max_queued,
								 * max_cpu_milli, max_memory_mib */
} LimitKind;

extern void AccountLimitsLock(const char *org, const char *account);
extern void AccountLimitsKeep(const char *org, const char *account);
extern bool AccountLimitsKnown(const AccountPath *path);
extern List *AccountLimitsOf(const AccountPath *path, int level,
							 LimitKind kind);

#endif							/* GPUCREDIT_LIMITS_H */
