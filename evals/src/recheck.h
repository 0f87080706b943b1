/*-------------------------------------------------------------------------
 *
 * recheck.h
 *		Compares a worker's reported checks with those of the case, and
 *		repeats those that the database can decide.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_EVAL_RECHECK_H
#define GPUCREDIT_EVAL_RECHECK_H

#include "utils/jsonb.h"

typedef enum Decision
{
	CHECK_FAILS,
	CHECK_PASSES,
	CHECK_UNDECIDED				/* the worker's result counts */
} Decision;

typedef struct Recheck
{
	bool		agrees;			/* the report can be stored unchanged */
	int			n;
	Decision   *decisions;		/* the decision on each check */
} Recheck;

extern Recheck RecheckReport(Jsonb *own, Jsonb *reported, bytea *output);

#endif							/* GPUCREDIT_EVAL_RECHECK_H */
