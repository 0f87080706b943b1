/*-------------------------------------------------------------------------
 *
 * explain.h
 *		Declarations shared by the files of explain().
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EXPLAIN_H
#define GPUCREDIT_EXPLAIN_H

#include "util/clock.h"
#include "sched/sched.h"

/* What to leave out of a cycle when it is decided again. */
typedef struct Counterfactual
{
	const bool *running;		/* by running attempt, whether it is left out;
								 * NULL if none is */
	const bool *jobs;			/* by waiting job, whether it is left out;
								 * NULL if none is */
	bool		others;			/* whether all other waiting jobs are left out */
	bool		claims;			/* whether all claims are left out */
	bool		quotas;
	int32		depth;			/* number of reservations to allow instead of
								 * gpucredit.backfill_depth; 0 to leave it
								 * unchanged */
	int64		wall_limit;		/* wall limit to use instead of the job's own;
								 * 0 to leave it unchanged */
} Counterfactual;

/* What a cycle would do for one job. */
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

/* How explain() reports that quotas leave a job nothing. */
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
