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

/* What is to be away. */
typedef struct Without
{
	const bool *running;		/* of what has devices, these; NULL: none */
	const bool *jobs;			/* of those that wait, these; NULL: none */
	bool		others;			/* all others that wait */
	bool		claims;			/* all that is promised */
	bool		quotas;
	bool		deeper;			/* not, but one more reservation is allowed */
	int64		wall_limit;		/* instead of the job's; 0: not */
} Without;

/* What a cycle would do with a job. */
typedef struct WouldBe
{
	bool		starts;
	bool		promised;
	bool		reserved;
} WouldBe;

/* without.c */
extern WouldBe ExplainWithout(const Cycle *cycle, int32 index,
							  const Without *without);
extern int64 ExplainShorter(const Cycle *cycle, int32 index);

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
extern bool ExplainBeside(ReturnSetInfo *rsinfo, const Cycle *cycle,
						  const Job *job);

/* explain_leave.c */
extern void ExplainLeaving(ReturnSetInfo *rsinfo, const char *org, int64 job,
						   int32 attempt);
extern void ExplainKept(ReturnSetInfo *rsinfo, const Cycle *cycle,
						int32 index);
extern void ExplainPreemption(ReturnSetInfo *rsinfo, const Cycle *cycle,
							  int32 index);

#endif							/* GPUCREDIT_EXPLAIN_H */
