/*-------------------------------------------------------------------------
 *
 * retry.h
 *		Decides whether and when a failed attempt is tried again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_RETRY_H
#define GPUCREDIT_RETRY_H

#include "job/end/settlement.h"

/*
 * The retry rule that matched. If none matched, the failure counts as
 * transient.
 */
typedef struct RetryRule
{
	const char *rule;			/* name of the rule, or NULL if none matched */
	bool		permanent;
	const char *advice;			/* advice for the job's owner, or NULL if the
								 * rule has none */
} RetryRule;

extern RetryRule RetryMatch(const Settlement *settlement);
extern int32 RetryNotStarted(const Job *job);
extern int64 RetryBackoff(int32 failures);

#endif							/* GPUCREDIT_RETRY_H */
