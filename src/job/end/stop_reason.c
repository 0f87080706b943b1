/*-------------------------------------------------------------------------
 *
 * stop_reason.c
 *		Computes why an attempt must stop, and since when.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/settings.h"
#include "util/sql.h"
#include "job/hold_extension.h"
#include "job/idle.h"
#include "job/end/settlement.h"
#include "job/run/reboot.h"
#include "job/end/stop_reason.h"

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
 * Whether the attempt has had to stop for at least the time `ago`. If so, sets
 * the outcome and the reason. If several reasons apply, the first in the order
 * of answer.c counts.
 */
bool
StopReasonSince(const Attempt *attempt, TimestampTz now, int64 ago,
				Settlement *settlement)
{
	TimestampTz ordered_at = ClockAdd(now, -ago);
	int64		ran = AttemptRan(attempt) - ago;
	TimestampTz stuck_at = AttemptStuckAt(attempt);

	settlement->outcome = PREEMPTED;
	settlement->reason = attempt->directed ?
		directive_reason(attempt, ordered_at) : NULL;
	if (settlement->reason != NULL)
	{
		if (strcmp(settlement->reason, "resized") == 0)
			settlement->outcome = RESIZED;
		else if (strcmp(settlement->reason, REQUEUE_REASON) == 0)
			settlement->outcome = REQUEUED;
		else if (strcmp(settlement->reason, PART_FAILED) == 0)
			settlement->outcome = FAILED;
		else if (strcmp(settlement->reason, SCRIPT_ENDED) == 0)
			settlement->outcome = COMPLETED;
		else if (strcmp(settlement->reason, NODE_REBOOTED) == 0)
			settlement->outcome = NODE_LOST;
		return true;
	}
	if (ordered_at >= AttemptWallEnd(attempt) ||
		(attempt->wall_limit >= 0 && ran >= attempt->wall_limit))
	{
		settlement->outcome = TIMEOUT;
		settlement->reason = "wall_limit";
		return true;
	}
	if (attempt->extension_denied && ran >= ExtendFundedFor(attempt))
	{
		settlement->reason = "low_funds";
		return true;
	}
	if (IdleIsOver(attempt, ago))
	{
		settlement->outcome = TIMEOUT;
		settlement->reason = IDLE_REASON;
		return true;
	}
	if (stuck_at == DT_NOEND || attempt->heard_at < stuck_at ||
		ordered_at < ClockAdd(stuck_at, SettingStopGrace()))
		return false;			/* An attempt without a heartbeat after that
								 * instant is silent rather than stuck. */
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
 * Returns the reason of a directive that ordered the attempt to stop by the
 * given instant, or NULL if there is none.
 */
static const char *
directive_reason(const Attempt *attempt, TimestampTz since)
{
	SqlResult	row = SqlRun(&directive_overdue,
							 VALUES(ATTEMPT_KEY(attempt), TimeValue(since)));

	return row.n == 0 ? NULL : SqlText(row, 0, 1);
}
