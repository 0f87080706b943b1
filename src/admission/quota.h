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

/* What a submission asks of quotas. */
typedef struct QuotaAsk
{
	int32		min_gpus;
	int32		share;			/* thousandths of each */
	int			ntypes;
	const char *const *gpu_types;
} QuotaAsk;

extern const char *QuotaCheck(AccountPath *path, const QuotaAsk *ask,
							  bool look);

#endif							/* GPUCREDIT_QUOTA_H */
