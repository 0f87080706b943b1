/*-------------------------------------------------------------------------
 *
 * quota.h
 *		Limits on what an account may have at once.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_QUOTA_H
#define GPUCREDIT_QUOTA_H

#include "ledger/ledger.h"
#include "nodes/pg_list.h"

/* What a submission asks of quotas. */
typedef struct QuotaAsk
{
	int32		min_gpus;
	int32		share;			/* thousandths of each */
	int			ntypes;
	const char *const *gpu_types;
} QuotaAsk;

/* A quota on a path, as its account's row says. */
typedef struct Quota
{
	const char *account;
	const char *gpu_type;		/* "": any */
	int32		max_gpus;		/* -1: no limit */
	bool		limited;		/* it has a max_queued */
} Quota;

/* quota.c */
extern const char *QuotaCheck(const AccountPath *path, const QuotaAsk *ask,
							  bool supposed);

/* queued.c */
extern bool QuotaQueueFull(const AccountPath *path, const List *quotas,
						   const QuotaAsk *ask, bool supposed);

#endif							/* GPUCREDIT_QUOTA_H */
