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
#include "job/stop_timeout.h"
#include "job/part.h"
#include "job/reboot.h"
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
SQL_STATEMENT(directive_overdue, SPI_OK_SELECT,
			  "text, bigint, int, timestamptz",
			  "SELECT d.reason FROM gpucredit.directive d"
			  " WHERE d.org = $1 AND d.job = $2 AND d.attempt = $3"
			  " AND CASE WHEN d.action = 'stop' THEN d.given_at"
			  "  ELSE d.deadline END <= $4"
			  " ORDER BY d.cause LIMIT 1");

static const char *directive_reason(const Attempt *attempt,
									TimestampTz since);

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
	if (!StopTimeoutSince(&attempt, ClockNow(), SettingStopGrace(),
						  &settlement))
		return SWEEP_IDLE;
	if (job.cancelled)
		settlement.outcome = CANCELLED;
	AttemptSettle(&job, &attempt, &settlement);
	return SWEEP_DONE;
}

/*
 * Had it to stop so long ago, or longer?  What for, in the order in which
 * answer.c looks.
 */
bool
StopTimeoutSince(const Attempt *attempt, TimestampTz now, int64 ago,
				 Settlement *settlement)
{
	TimestampTz told = ClockAdd(now, -ago);
	int64		elapsed = attempt->elapsed - ago;
	TimestampTz stuck_at = AttemptStuckAt(attempt);

	settlement->outcome = PREEMPTED;
	settlement->reason = attempt->directed ?
		directive_reason(attempt, told) : NULL;
	if (settlement->reason != NULL)
	{
		if (strcmp(settlement->reason, "resized") == 0)
			settlement->outcome = RESIZED;
		else if (strcmp(settlement->reason, PART_FAILED) == 0)
			settlement->outcome = FAILED;
		else if (strcmp(settlement->reason, NODE_REBOOTED) == 0)
			settlement->outcome = NODE_LOST;
		return true;
	}
	if (told >= AttemptWallEnd(attempt) ||
		(attempt->wall_limit >= 0 && elapsed >= attempt->wall_limit))
	{
		settlement->outcome = TIMEOUT;
		settlement->reason = "wall_limit";
		return true;
	}
	if (attempt->extension_denied && elapsed >= ExtendFundedFor(attempt))
	{
		settlement->reason = "low_funds";
		return true;
	}
	if (stuck_at == DT_NOEND || attempt->heard_at < stuck_at ||
		told < ClockAdd(stuck_at, SettingStopGrace()))
		return false;			/* who was not heard of since is silent */
	settlement->outcome = FAILED;
	settlement->reason = "stuck";
	settlement->message = psprintf("no progress for %lld s%s%s",
								   (long long) ((now - attempt->progress_at) /
												USECS_PER_SEC),
								   settlement->message ? ": " : "",
								   settlement->message ?
								   settlement->message : "");
	return true;
}

/*
 * Why it was to leave by then; NULL: it was not.
 */
static const char *
directive_reason(const Attempt *attempt, TimestampTz since)
{
	SqlArgs		args = {0};
	SqlResult	row;

	SqlArgText(&args, attempt->org);
	SqlArgInt8(&args, attempt->job);
	SqlArgInt4(&args, attempt->attempt);
	SqlArgTime(&args, since);
	row = SqlRun(&directive_overdue, &args);
	return row.n == 0 ? NULL : SqlText(row, 0, 1);
}
