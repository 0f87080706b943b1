/*-------------------------------------------------------------------------
 *
 * claim_report.h
 *		The job of a promise, and audit rows of new claims.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLAIM_REPORT_H
#define GPUCREDIT_CLAIM_REPORT_H

#include "sched/sched.h"

/* The job of a promise. */
typedef struct ClaimOwner
{
	const char *org;
	int64		job;
	int32		attempt;		/* the last one */
	const char *account;
} ClaimOwner;

extern ClaimOwner ClaimOwnerOf(const SchedCycle *cycle,
							   const DecidePromise *promise);
extern void ClaimsAudit(const SchedCycle *cycle);

#endif							/* GPUCREDIT_CLAIM_REPORT_H */
