/*-------------------------------------------------------------------------
 *
 * sweep.h
 *		Upkeep, one item after the other; a failed item stops no other.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SWEEP_H
#define GPUCREDIT_SWEEP_H

#include "util/sql.h"

/* Result of one step of a sweep. */
typedef enum SweepResult
{
	SWEEP_DONE,
	SWEEP_IDLE,					/* the item needed nothing any more */
	SWEEP_BUSY					/* another transaction has locked a row that
								 * the item needs */
} SweepResult;

/* Handles one item, given by organisation, number and attempt. */
typedef SweepResult (*SweepStep) (const char *org, int64 id, int32 number,
								  const void *context);

typedef struct Sweep
{
	TimestampTz begun;			/* by ClockSteady() */
	TimestampTz until;			/* when to stop; 0 before the first item */
	int			wait_ms;		/* how long an item waits for one lock */
	MemoryContext memory;		/* memory for data that outlives one item */
	int64		skipped;
	int			nstuck;
	const char **stuck;			/* organisations of which a row was locked */
} Sweep;

/* Orders rows by organisation in turn, so that each organisation is served. */
#define SWEEP_IN_TURN(org, id) \
	" ORDER BY pg_catalog.row_number() OVER (PARTITION BY " org \
	" ORDER BY " id "), " org " LIMIT 10000"

extern void SweepLocksFor(int ms);
extern Sweep SweepBegin(void);
extern SweepResult SweepOnce(SweepStep step, const char *org, int64 id,
							 int32 number, const void *context);
extern bool SweepGoesOn(const Sweep *sweep);
extern int64 SweepRun(Sweep *sweep, SqlResult rows, SweepStep step,
					  const void *context);
extern int64 SweepRunFor(Sweep *sweep, int ms, SqlResult rows, SweepStep step,
						 const void *context);

#endif							/* GPUCREDIT_SWEEP_H */
