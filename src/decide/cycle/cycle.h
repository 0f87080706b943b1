/*
 * cycle.h
 *	  One round of turns; a cycle consists of as many rounds as it needs.
 */
#ifndef DECIDE_CYCLE_H
#define DECIDE_CYCLE_H

#include "decide/core/core.h"

/* cycle.c */
extern const char *DecideRound(const DecideInput *input,
							   const DecideArena *arena, DecideResult *result,
							   bool *over);

/* guarantee.c */
extern bool DecideGuaranteesDue(const DecideInput *input,
								const DecideResult *result,
								const DecideArena *arena, int32_t tries,
								DecideInput *next, bool *again);
extern bool DecideGuaranteesDrop(DecideInput *input,
								 const DecideResult *result,
								 const DecideArena *arena, bool *over);
extern bool DecideGuaranteesNote(const DecideInput *input,
								 const DecideArena *arena,
								 DecideResult *result);

/* due.c */
extern bool DecideDuePrepare(Cycle *cycle);

/* apply_result.c */
extern bool DecideResultApply(const DecideInput *input,
							  const DecideResult *result,
							  const DecideArena *arena, int32_t made_before,
							  int32_t *job_now, DecideInput *next);

#endif							/* DECIDE_CYCLE_H */
