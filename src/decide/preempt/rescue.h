/*
 * rescue.h
 *	  Whose checkpoint is promised, and when each job has its turn, when
 *	  many must leave at once and share a write bandwidth.
 *
 * Pure like the rest of this directory: integers only, no clock; the same
 * jobs in any order give the same plan.
 */
#ifndef RESCUE_H
#define RESCUE_H

#include "decide/decide.h"

#define RESCUE_PER_JOB	INT64_C(1000000000) /* bytes a second that one job can
											 * write */

/*
 * An attempt that must leave.  Instants are microseconds.  The three fields
 * at the end are the previous promise, and the new one.
 */
typedef struct RescueJob
{
	const char *org;
	int64_t		id;
	int32_t		attempt;
	int64_t		deadline;		/* it is gone then */
	int64_t		size;			/* bytes to write; below 0: not known */
	int64_t		at_risk;		/* device-time since its last checkpoint */
	bool		saved;			/* it has saved since it was told to leave */
	bool		notified;		/* it was told that its turn came */
	bool		promised;
	int64_t		starts;			/* its turn, promised or not */
	int64_t		ends;			/* promised: it has saved by then */
} RescueJob;

/*
 * Make a new plan at an instant.  bandwidth is what all write together, in
 * bytes a second; 0: unlimited.  Promises that were told, and finished jobs,
 * stay; all others are promised greedily.  False: out of memory.
 */
extern bool RescuePlan(RescueJob *jobs, int32_t n, int64_t now,
					   int64_t bandwidth, const DecideArena *arena);

#endif							/* RESCUE_H */
