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

/* What became of one thing. */
typedef enum SweepResult
{
	SWEEP_DONE,
	SWEEP_IDLE,					/* there was nothing to do after all */
	SWEEP_BUSY					/* another transaction has it */
} SweepResult;

/* Does one thing: a row of organisation, number, attempt. */
typedef SweepResult (*SweepStep) (const char *org, int64 id, int32 number,
								  const void *context);

typedef struct Sweep
{
	TimestampTz begun;			/* of ClockSteady() */
	TimestampTz until;			/* 0 before the first thing */
	MemoryContext memory;		/* for what outlives a thing */
	int64		skipped;
	int			nstuck;
	const char **stuck;			/* organisations of which a lock was not free */
} Sweep;

/* Rows of the organisations in turn, so that each is served. */
#define SWEEP_IN_TURN(org, id) \
	" ORDER BY pg_catalog.row_number() OVER (PARTITION BY " org \
	" ORDER BY " id "), " org " LIMIT 10000"

extern Sweep SweepBegin(void);
extern void SweepWait(int ms);
extern SweepResult SweepOnce(SweepStep step, const char *org, int64 id,
							 int32 number, const void *context);
extern bool SweepGoesOn(const Sweep *sweep);
extern int64 SweepRun(Sweep *sweep, SqlResult rows, SweepStep step,
					  const void *context);
extern int64 SweepRunFor(Sweep *sweep, int ms, SqlResult rows, SweepStep step,
						 const void *context);

#endif							/* GPUCREDIT_SWEEP_H */
