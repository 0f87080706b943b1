/*-------------------------------------------------------------------------
 *
 * retry.h
 *		Is a failed attempt tried again, and when?
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_RETRY_H
#define GPUCREDIT_RETRY_H

#include "job/end/settlement.h"

/* The rule that held; none: transient. */
typedef struct RetryRule
{
	const char *rule;			/* NULL: none matched */
	bool		permanent;
	const char *advice;			/* NULL: none */
} RetryRule;

extern RetryRule RetryMatch(const Settlement *settlement);
extern int32 RetryNotStarted(const Job *job);
extern int64 RetryBackoff(int32 failures);

#endif							/* GPUCREDIT_RETRY_H */
