/*-------------------------------------------------------------------------
 *
 * job_alert.h
 *		Alerts the owner of a job.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_JOB_ALERT_H
#define GPUCREDIT_JOB_ALERT_H

#include "job/end/settlement.h"

extern void AlertEnded(const Job *job, const Attempt *attempt,
					   const Settlement *settlement);
extern void AlertIdle(Attempt *attempt, TimestampTz now);
extern void AlertIdleEnd(Attempt *attempt, TimestampTz now);

#endif							/* GPUCREDIT_JOB_ALERT_H */
