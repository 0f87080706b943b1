/*-------------------------------------------------------------------------
 *
 * attempt_watch.h
 *		When sweeps check an attempt again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ATTEMPT_WATCH_H
#define GPUCREDIT_ATTEMPT_WATCH_H

#include "job/attempt.h"

/* What makes an attempt overdue at an instant. */
typedef struct WatchRule
{
	TimestampTz now;
	TimestampTz up;				/* when the server came up; DT_NOBEGIN: the
								 * clock is frozen */
	TimestampTz silent;			/* not heard of since then; DT_NOBEGIN: none
								 * is silent */
	bool		reachable;		/* attempts that had to stop had time to
								 * report it */
} WatchRule;

extern SqlResult WatchOverdue(const WatchRule *rule, bool first,
							  int64 *checked);
extern SqlResult WatchDirected(const WatchRule *rule);
extern void WatchSoon(const Attempt *attempt);

#define WATCH_MOST	1000		/* attempts that one query checks */

#endif							/* GPUCREDIT_ATTEMPT_WATCH_H */
