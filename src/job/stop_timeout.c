/*-------------------------------------------------------------------------
 *
 * stop_timeout.c
 *		Attempts that had to stop, and did not.
 *
 * An agent has gpucredit.stop_grace to stop an attempt, for any reason, and to
 * report it.  Then the server ends the attempt at its last metered time.  The
 * outcome is timeout past the wall limit by the server's own clock, failed if
 * stuck, and a lost part's own.  It is preempted or resized after a directive
 * to leave, cancelled if cancelled, and preempted without funds, to wait for
 * credit.  So an agent that is silent, broken or lying keeps a job no longer
 * than another; its devices are fenced.
 *
 * Locks: job and attempt, without waiting; then as settlement.c says, for
 * 10 ms each at most.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/settings.h"
#include "job/hold_extension.h"
#include "job/stop_reason.h"
#include "job/stop_timeout.h"
#include "job/settlement.h"

/*
 * Candidates; what they are is looked at again under their locks.  $1: told
 * to stop by then; $2: the same by the server's clock; $3: no progress since;
 * $4: gpucredit.stop_grace; $5: gpucredit.progress_timeout.
 */
SQL_STATEMENT(stop_timeout_attempts, SPI_OK_SELECT,
			  "timestamptz, timestamptz, timestamptz, interval, interval",
			  "SELECT a.org, a.job, a.attempt" LIVE_ATTEMPTS
			  " AND (a.running_at + a.wall_limit <= $2"
			  "  OR a.ends_by <= $1"
			  "  OR a.elapsed - $4 >= a.wall_limit"
			  "  OR (a.progress_at <= $3"
			  "   AND a.heard_at >= a.progress_at + $5)"
			  "  OR (a.extension_denied AND gpucredit_internal.bill(a.per_gpu_hour, a.gpus,"
			  "   a.share, GREATEST(a.elapsed - $4, '0'), a.held)"
			  "   OPERATOR(gpucredit.=) a.held)"
			  "  OR EXISTS (SELECT FROM gpucredit.directive d"
			  "   WHERE d.org = a.org AND d.job = a.job"
			  "   AND d.attempt = a.attempt AND CASE WHEN d.action = 'stop'"
			  "    THEN d.given_at ELSE d.deadline END <= $1))"
			  SWEEP_IN_TURN("a.org", "a.job"));

/*
 * Attempts that may be overdue.
 */
SqlResult
StopTimeoutAttempts(TimestampTz now)
{
	SqlArgs		args = {0};
	TimestampTz told = ClockAdd(now, -SettingStopGrace());

	SqlArgTime(&args, told);
	SqlArgTime(&args, ClockAdd(told, -SettingClockSkew()));
	if (SettingProgressTimeout() == 0)
		SqlArgNull(&args);
	else
		SqlArgTime(&args, ClockAdd(ClockAdd(told, -SettingStopGrace()),
								   -SettingProgressTimeout()));
	SqlArgDuration(&args, SettingStopGrace());
	SqlArgDuration(&args, SettingProgressTimeout());
	return SqlRun(&stop_timeout_attempts, &args);
}

/*
 * Settle one attempt, if it is overdue.
 */
SweepResult
StopTimeoutSettle(const char *org, int64 id, int32 number, const void *context)
{
	Settlement	settlement = {.elapsed = -1};
	Attempt		attempt;
	Job			job;

	if (!JobLock(org, id, false, &job))
		return SWEEP_BUSY;
	if (!AttemptLockLive(org, id, number, &attempt))
		return SWEEP_BUSY;
	if (!StopReasonSince(&attempt, ClockNow(), SettingStopGrace(),
						 &settlement))
		return SWEEP_IDLE;
	if (job.cancelled)
		settlement.outcome = CANCELLED;
	AttemptSettle(&job, &attempt, &settlement);
	return SWEEP_DONE;
}
