/*
 * equivalence.h
 *	  Asks that are equal in all but their wall limit, and what a cycle found
 *	  out about them.
 */
#ifndef DECIDE_CLASS_H
#define DECIDE_CLASS_H

#include "decide/timeline.h"

/* No sooner can a job that may run for so long have a reservation. */
typedef struct ClassFloor
{
	int64_t		wall_limit;
	int64_t		at;
} ClassFloor;

typedef struct EquivalenceClass
{
	RequestState state;
	int64_t		limit;			/* of the job that it is of */
	bool		failed;			/* a job could not start, */
	int64_t		shortest;		/* and of all that could not, the shortest
								 * limit */
	bool		full;			/* none can, whatever its limit */
	DecideWait	wait;			/* why */
	ClassFloor *floors;
	int32_t		n_floors;
	int32_t		floors_capacity;
} EquivalenceClass;

extern bool DecideClassesFind(Cycle *cycle);
extern EquivalenceClass *DecideClassOf(const Cycle *cycle, int32_t job);
extern bool DecideClassFailed(const EquivalenceClass *class,
							  int64_t wall_limit);
extern RequestState *DecideClassState(const Cycle *cycle,
									  EquivalenceClass *class,
									  int64_t wall_limit);
extern void DecideClassFail(EquivalenceClass *class, int64_t wall_limit,
							bool full);
extern int64_t DecideClassFloor(const Cycle *cycle,
								const EquivalenceClass *class,
								int64_t wall_limit);
extern bool DecideClassReserved(const Cycle *cycle, EquivalenceClass *class,
								int64_t wall_limit, int64_t at);

#endif							/* DECIDE_CLASS_H */
