/*
 * rescue.h
 *	  Whose checkpoint is promised, and when each has its turn, where many must
 *	  leave at once and can write only so much together.
 *
 * As pure as the rest of this directory: integers only, no clock, the same
 * jobs in any order give the same plan.
 */
#ifndef RESCUE_H
#define RESCUE_H

#include "decide/decide.h"

#define RESCUE_PER_JOB	INT64_C(1000000000) /* bytes a second one can write */

/*
 * An attempt that must leave.  Instants are microseconds.  The three fields
 * at the end say what was promised before, and are where the plan is put.
 */
typedef struct RescueJob
{
	const char *org;
	int64_t		id;
	int32_t		attempt;
	int64_t		deadline;		/* it is gone then */
	int64_t		size;			/* bytes to write; below 0: not known */
	int64_t		at_risk;		/* device-time since its last checkpoint */
	bool		saved;			/* it has saved since it was told */
	bool		told;			/* it was told that its turn has come */
	bool		promised;
	int64_t		starts;			/* its turn; of one not promised, too */
	int64_t		ends;			/* promised: it has saved by then */
} RescueJob;

/*
 * Plan again at an instant.  bandwidth is what all write together, in bytes a
 * second, 0 for not limited.  What was promised and told, or is through, stays
 * as it is; all others are promised greedily, whatever was planned for them
 * before.  False: out of memory.
 */
extern bool RescuePlan(RescueJob *jobs, int32_t n, int64_t now,
					   int64_t bandwidth, const DecideArena *arena);

/* How long one takes to write so much, at the rate its lane has. */
extern int64_t RescueTime(int64_t size, int64_t bandwidth);

#endif							/* RESCUE_H */
