/*-------------------------------------------------------------------------
 *
 * quota_check.h
 *		Checks quotas, which limit what an account may have at once.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_QUOTA_CHECK_H
#define GPUCREDIT_QUOTA_CHECK_H

#include "account/account.h"

/* The data of a submission that quotas check. */
typedef struct QuotaRequest
{
	int			ntypes;
	const char *const *gpu_types;	/* the types that it accepts; there are
									 * none if it needs no devices */
	const int64 *milli;			/* for each type, how many thousandths of
								 * devices it uses at least */
	bool		stays;			/* whether it is not preemptible for capacity */
	int64		cpu_milli;
	int64		memory_mib;
} QuotaRequest;

extern const char *QuotaCheck(const AccountPath *path,
							  const QuotaRequest *request,
							  bool supposed);

#endif							/* GPUCREDIT_QUOTA_CHECK_H */
