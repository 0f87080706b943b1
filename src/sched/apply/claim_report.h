/*-------------------------------------------------------------------------
 *
 * claim_report.h
 *		Finds the job of a promise, and writes the audit rows of new
 *		claims.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLAIM_REPORT_H
#define GPUCREDIT_CLAIM_REPORT_H

#include "sched/sched.h"

/* The job that a promise keeps devices for. */
typedef struct ClaimOwner
{
	const char *org;
	int64		job;
	int32		attempt;		/* number of its last attempt */
	const char *account;
} ClaimOwner;

extern ClaimOwner ClaimOwnerOf(const SchedCycle *cycle,
							   const DecidePromise *promise);
extern void ClaimsAudit(const SchedCycle *cycle);

#endif							/* GPUCREDIT_CLAIM_REPORT_H */
