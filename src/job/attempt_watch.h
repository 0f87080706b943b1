/*-------------------------------------------------------------------------
 *
 * attempt_watch.h
 *		Decides when sweeps check an attempt again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ATTEMPT_WATCH_H
#define GPUCREDIT_ATTEMPT_WATCH_H

#include "job/attempt.h"

/* The instants by which a sweep decides whether an attempt is overdue. */
typedef struct WatchRule
{
	TimestampTz now;
	TimestampTz up;				/* when the server came up, or DT_NOBEGIN if
								 * the clock is frozen */
	TimestampTz silent;			/* an attempt without a heartbeat since then
								 * is silent; DT_NOBEGIN if no attempt counts
								 * as silent */
	bool		reachable;		/* whether attempts that had to stop have had
								 * time to report their end */
} WatchRule;

extern SqlResult WatchOverdue(const WatchRule *rule, bool first,
							  int64 *checked);
extern SqlResult WatchDirected(const WatchRule *rule);
extern void WatchSoon(const Attempt *attempt);

/*
 * How many attempts one query checks. One call has the time to settle about as
 * many overdue attempts. More would be useless, as each check of an overdue
 * attempt writes its row.
 */
#define WATCH_MOST	100

#endif							/* GPUCREDIT_ATTEMPT_WATCH_H */
