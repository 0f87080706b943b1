/*-------------------------------------------------------------------------
 *
 * part_outcome.h
 *		How an attempt ended, by what its parts told.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_PART_OUTCOME_H
#define GPUCREDIT_PART_OUTCOME_H

#include "job/settlement.h"

/* Why the other parts must stop after one has failed. */
#define PART_FAILED		"part_failed"

extern bool PartsOutcome(const Attempt *attempt, bool all,
						 Settlement *settlement);

#endif							/* GPUCREDIT_PART_OUTCOME_H */
