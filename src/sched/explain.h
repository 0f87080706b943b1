/*-------------------------------------------------------------------------
 *
 * explain.h
 *		What the parts of explain share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EXPLAIN_H
#define GPUCREDIT_EXPLAIN_H

#include "util/clock.h"
#include "sched/sched.h"

/* What to suppose away. */
typedef struct Counterfactual
{
	const bool *running;		/* of what has devices, these; NULL: none */
	const bool *jobs;			/* of those that wait, these; NULL: none */
	bool		others;			/* all others that wait */
	bool		claims;			/* all that is promised */
	bool		quotas;
	bool		deeper;			/* not, but one more reservation is allowed */
	int64		wall_limit;		/* instead of the job's; 0: not */
} Counterfactual;

/* What a cycle would do with a job. */
typedef struct WouldBe
{
	bool		starts;
	bool		promised;
	bool		reserved;
} WouldBe;

/* counterfactual.c */
extern WouldBe ExplainCounterfactual(const SchedCycle *cycle, int32 index,
									 const Counterfactual *change);
extern int64 ExplainShorter(const SchedCycle *cycle, int32 index);

/* explain_row.c */
extern void ExplainPut(ReturnSetInfo *rsinfo, const char *check, bool passes,
					   const char *detail);
extern const char *ExplainTime(TimestampTz at);

/* explain_credit.c */
extern void ExplainCredit(ReturnSetInfo *rsinfo, Job *job,
						  const Credits *held);

/* explain_cycle.c */
extern void ExplainCycle(ReturnSetInfo *rsinfo, const Job *job);

/* explain_quota.c */
extern bool ExplainBeside(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
						  const Job *job);

/* explain_leave.c */
extern void ExplainLeaving(ReturnSetInfo *rsinfo, const char *org, int64 job,
						   int32 attempt);
extern void ExplainKept(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
						int32 index);
extern void ExplainPreemption(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
							  int32 index);

#endif							/* GPUCREDIT_EXPLAIN_H */
