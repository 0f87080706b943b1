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
#include "nodes/pg_list.h"

/* The data of a submission that quotas check. */
typedef struct QuotaRequest
{
	int32		min_gpus;
	int32		share;			/* thousandths of each */
	int			ntypes;
	const char *const *gpu_types;
} QuotaRequest;

/* A quota on a path, from its account's row. */
typedef struct Quota
{
	const char *account;
	const char *gpu_type;		/* "": any */
	int32		max_gpus;		/* -1: no limit */
	bool		limited;		/* it has a max_queued */
} Quota;

/* quota_check.c */
extern const char *QuotaCheck(const AccountPath *path,
							  const QuotaRequest *request,
							  bool supposed);

/* queued.c */
extern bool QuotaQueueFull(const AccountPath *path, const List *quotas,
						   const QuotaRequest *request, bool supposed);

#endif							/* GPUCREDIT_QUOTA_CHECK_H */
