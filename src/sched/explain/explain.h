/*-------------------------------------------------------------------------
 *
 * explain.h
 *		Shared by the parts of explain.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EXPLAIN_H
#define GPUCREDIT_EXPLAIN_H

#include "util/clock.h"
#include "sched/sched.h"

/* What to leave out of a cycle. */
typedef struct Counterfactual
{
	const bool *running;		/* these running attempts; NULL: none */
	const bool *jobs;			/* these waiting jobs; NULL: none */
	bool		others;			/* all other waiting jobs */
	bool		claims;			/* all claims */
	bool		quotas;
	int32		depth;			/* allow so many reservations instead; 0: as
								 * many as the setting says */
	int64		wall_limit;		/* use this instead of the job's; 0: do not */
} Counterfactual;

/* What a cycle would do for a job. */
typedef struct WouldBe
{
	bool		starts;
	bool		promised;
	bool		reserved;
} WouldBe;

/* explain_row.c */
extern void ExplainPut(ReturnSetInfo *rsinfo, const char *check, bool passes,
					   const char *detail);
extern const char *ExplainTime(TimestampTz at);

/* explain_cycle.c */
extern void ExplainCycle(ReturnSetInfo *rsinfo, const Job *job);

/* explain_end.c */
extern void ExplainEnd(ReturnSetInfo *rsinfo, const char *org, int64 job,
					   int32 attempt);

/* why quotas leave a job nothing, as explain reports it */
#define EXPLAIN_QUOTAS_LEAVE_NOTHING \
	"its tenant's quotas leave it nothing beside what is in use, starts or is " \
	"reserved for others"

/* explain_guarantee.c */
extern void ExplainBroken(ReturnSetInfo *rsinfo, const Job *job);

/* explain_leave.c */
extern void ExplainLeaving(ReturnSetInfo *rsinfo, const char *org, int64 job,
						   int32 attempt);
extern void ExplainKept(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
						int32 index);
extern void ExplainPreemption(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
							  int32 index);

/* counterfactual.c */
extern WouldBe ExplainCounterfactual(const SchedCycle *cycle, int32 index,
									 const Counterfactual *change);
extern int64 ExplainShorter(const SchedCycle *cycle, int32 index);

/* explain_quota.c */
extern bool ExplainQuotasBeside(ReturnSetInfo *rsinfo,
								const SchedCycle *cycle, const Job *job);

/* explain_credit.c */
extern void ExplainCredit(ReturnSetInfo *rsinfo, Job *job,
						  const Credits *held);

/* explain_after.c */
extern bool ExplainHeld(ReturnSetInfo *rsinfo, const char *held_by);
extern bool ExplainAfter(ReturnSetInfo *rsinfo, const Job *job,
						 const char *after, const char *name);
extern bool ExplainSetAside(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
							const Job *job);

#endif							/* GPUCREDIT_EXPLAIN_H */
