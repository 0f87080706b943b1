/*
 * capacity.h
 *	  Computes how many devices of one type a pool needs, from what was asked
 *	  of it.
 */
#ifndef DECIDE_CAPACITY_H
#define DECIDE_CAPACITY_H

#include "decide/decide.h"

#define CAPACITY_RUNS	20		/* With fewer runs no advice is given. */

/*
 * A job's wait for devices, and the attempt that ended it.  All times are in
 * microseconds.
 */
typedef struct CapacityWork
{
	int32_t		account;		/* a number that identifies the account */
	int64_t		devices;		/* thousandths of a device */
	int64_t		arrived;		/* time at which it began to wait */
	int64_t		started;		/* DECIDE_NEVER if it has not started or was
								 * cancelled */
	int64_t		ended;			/* DECIDE_NEVER if it waits or runs */
	int64_t		limit;			/* its wall limit, or DECIDE_NEVER */
} CapacityWork;

/*
 * The period and the works that arrived in it.  Works that arrived outside of
 * the period do not count.
 */
typedef struct CapacityQuestion
{
	const CapacityWork *works;
	int32_t		n_works;
	int32_t		n_accounts;
	int64_t		since;
	int64_t		until;
	int32_t		utilisation;	/* thousandths of the devices that are to be
								 * in use */
	int64_t		wait;			/* works with 95 of 100 parts of the device
								 * time are to wait no longer; DECIDE_NEVER if
								 * any wait is acceptable */
} CapacityQuestion;

typedef struct CapacityAnswer
{
	int64_t		load;			/* thousandths of a device */
	int64_t		load_low;
	int64_t		load_high;		/* including what is unproven */
	int64_t		unproven;		/* load of waiting works that no past runs of
								 * their accounts support; not part of load */
	int64_t		needed;			/* number of devices */
	int64_t		needed_low;
	int64_t		needed_high;	/* including what is unproven */
	int64_t		wait_p95;		/* wait that 95 of 100 parts of the device
								 * time did not exceed, in microseconds */
	int32_t		runs;			/* number of attempts that have ended */
	bool		enough;			/* there is enough history for advice */
} CapacityAnswer;

/*
 * Computes the answer to a question.  Returns NULL, or a message that says
 * what is wrong.
 */
extern const char *DecideCapacity(const CapacityQuestion *question,
								  const DecideArena *arena,
								  CapacityAnswer *answer);

#endif							/* DECIDE_CAPACITY_H */
