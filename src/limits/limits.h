/*-------------------------------------------------------------------------
 *
 * limits.h
 *		The limits of an account, which its own row repeats.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LIMITS_H
#define GPUCREDIT_LIMITS_H

#include "account/account.h"
#include "nodes/pg_list.h"

/*
 * The fields of a budget, and those of a quota, that an account's row repeats,
 * in the order in which they are stored.
 */
typedef enum LimitKind
{
	LIMIT_BUDGETS,				/* period, amount, hard, slices, alert_at */
	LIMIT_QUOTAS				/* gpu_type, max_gpus, whether there is a
								 * max_queued, max_cpu_milli, max_memory_mib,
								 * max_nonpreemptible_gpus */
} LimitKind;

extern void AccountLimitsLock(const char *org, const char *account);
extern void AccountLimitsKeep(const char *org, const char *account);
extern bool AccountLimitsKnown(const AccountPath *path);
extern List *AccountLimitsOf(const AccountPath *path, int level,
							 LimitKind kind);

#endif							/* GPUCREDIT_LIMITS_H */
