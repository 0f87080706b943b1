/*-------------------------------------------------------------------------
 *
 * explain.h
 *		What the parts of explain share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EXPLAIN_H
#define GPUCREDIT_EXPLAIN_H

#include "common/clock.h"
#include "sched/sched.h"

/* explain.c */
extern void ExplainPut(ReturnSetInfo *rsinfo, const char *check, bool passes,
					   const char *detail);
extern const char *ExplainTime(TimestampTz at);

/* explain_credit.c */
extern void ExplainCredit(ReturnSetInfo *rsinfo, Job *job,
						  const Credits *held);

/* explain_cycle.c */
extern void ExplainCycle(ReturnSetInfo *rsinfo, const Job *job);

/* explain_quota.c */
extern void ExplainBeside(ReturnSetInfo *rsinfo, const Cycle *cycle,
						  const Job *job);

/* explain_leave.c */
extern void ExplainLeaving(ReturnSetInfo *rsinfo, const char *org, int64 job,
						   int32 attempt);
extern void ExplainKept(ReturnSetInfo *rsinfo, const Cycle *cycle,
						int32 index);
extern void ExplainPreemption(ReturnSetInfo *rsinfo, const Cycle *cycle,
							  int32 index);

#endif							/* GPUCREDIT_EXPLAIN_H */
