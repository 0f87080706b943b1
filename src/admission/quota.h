/*-------------------------------------------------------------------------
 *
 * quota.h
 *		Limits on what an account may have at once.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_QUOTA_H
#define GPUCREDIT_QUOTA_H

#include "ledger/account.h"
#include "nodes/pg_list.h"

/* What a submission asks of quotas. */
typedef struct QuotaAsk
{
	int32		min_gpus;
	int32		share;			/* thousandths of each */
	int			ntypes;
	const char *const *gpu_types;
} QuotaAsk;

/* The quotas on a path, as an unlocked look says. */
typedef struct QuotaLook
{
	AccountLook account;		/* first */
	List	   *quotas;
} QuotaLook;

extern void QuotaRead(QuotaLook *look);
extern const char *QuotaCheck(const QuotaLook *look, const QuotaAsk *ask,
							  bool supposed);

#endif							/* GPUCREDIT_QUOTA_H */
