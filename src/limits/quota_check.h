/*-------------------------------------------------------------------------
 *
 * quota_check.h
 *		Limits on what an account may have at once.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_QUOTA_CHECK_H
#define GPUCREDIT_QUOTA_CHECK_H

#include "ledger/ledger.h"

/* The data of a submission that quotas check. */
typedef struct QuotaRequest
{
	int32		min_gpus;
	int32		share;			/* thousandths of each */
	int			ntypes;
	const char *const *gpu_types;
} QuotaRequest;

extern const char *QuotaCheck(const AccountPath *path,
							  const QuotaRequest *request,
							  bool supposed);

#endif							/* GPUCREDIT_QUOTA_CHECK_H */
