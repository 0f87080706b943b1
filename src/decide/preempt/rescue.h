/*
 * rescue.h
 *	  Which jobs are promised time to save a checkpoint, and when each of them
 *	  has its turn, if many jobs must leave at once and share the bandwidth
 *	  for writing.
 *
 * Like the rest of this directory this uses integers only and no clock; the
 * same jobs in any order give the same plan.
 */
#ifndef RESCUE_H
#define RESCUE_H

#include "decide/decide.h"

#define RESCUE_PER_JOB	INT64_C(1000000000) /* bytes per second that one job
											 * can write */

/*
 * An attempt that must leave.  Times are in microseconds.  The members
 * promised, starts and ends contain the previous promise at the call of
 * RescuePlan, and the new one afterwards.
 */
typedef struct RescueJob
{
	const char *org;
	int64_t		id;
	int32_t		attempt;
	int64_t		deadline;		/* time at which its node is gone */
	int64_t		size;			/* bytes to write, or a negative number if the
								 * size is not known */
	int64_t		at_risk;		/* device time since its last checkpoint */
	bool		saved;			/* it has saved a checkpoint since it was told
								 * to leave */
	bool		notified;		/* it was told that its turn has come */
	bool		promised;
	int64_t		starts;			/* time of its turn, promised or not */
	int64_t		ends;			/* time by which it has saved, if it is
								 * promised */
} RescueJob;

/*
 * Makes a new plan at the time now.  bandwidth is the number of bytes per
 * second that all jobs can write together, or 0 if it is not limited.
 * Promises of jobs that were told of their turn, and jobs that have saved,
 * remain as they are; all other jobs are planned greedily.  Returns false if
 * memory runs out.
 */
extern bool RescuePlan(RescueJob *jobs, int32_t n, int64_t now,
					   int64_t bandwidth, const DecideArena *arena);

#endif							/* RESCUE_H */
