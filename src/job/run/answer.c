/*-------------------------------------------------------------------------
 *
 * answer.c
 *		Computes the answer to a live attempt: continue, checkpoint or
 *		stop.
 *
 * heartbeat and meter give the same answer. It depends on the attempt's row
 * and its directives, which are read only if there are any. Missing progress
 * and time limits are recognised by the clock alone, so no sweep need have run
 * before. One thing is written: that the agent received a directive that the
 * scheduler could otherwise withdraw or plan again (for a claim, or a turn to
 * save that is due).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/settings.h"
#include "job/hold_extension.h"
#include "job/run/meter.h"

/*
 * Reads the directive to obey: stop goes before checkpoint, a due turn before
 * a later one, and then the nearest deadline first. The nearest deadline of
 * all directives limits the attempt's time.
 */
SQL_STATEMENT(directive_read, SPI_OK_SELECT,
			  "text, bigint, int, timestamptz",
			  "SELECT d.action, d.reason,"
			  " pg_catalog.min(d.deadline) OVER (),"
			  " d.cause = 'reclaim' AND d.told_at IS NULL"
			  " FROM gpucredit.directive d"
			  " WHERE d.org = $1 AND d.job = $2 AND d.attempt = $3"
			  " AND (d.cause <> 'claim' OR d.told_at IS NOT NULL)"
			  " ORDER BY d.action = 'stop' DESC,"
			  " d.cause = 'reclaim' AND d.told_at IS NULL, d.deadline, d.cause"
			  " LIMIT 1");

/*
 * Notes that the agent receives the attempt's directives. Skips a directive
 * that a cycle is withdrawing or planning again at this moment.
 */
SQL_STATEMENT(directive_tell, SPI_OK_UPDATE,
			  "text, bigint, int, timestamptz",
			  "UPDATE gpucredit.directive d SET told_at = $4"
			  " FROM (SELECT f.ctid AS tid FROM gpucredit.directive f"
			  "  WHERE f.org = $1 AND f.job = $2 AND f.attempt = $3"
			  "  AND (f.cause = 'claim' OR f.cause = 'reclaim'"
			  "   AND f.starts_at <= $4) AND f.told_at IS NULL"
			  "  FOR UPDATE SKIP LOCKED) s WHERE d.ctid = s.tid");

static void obey_directive(const Attempt *attempt, TimestampTz now,
						   MeterAnswer *answer);
static void note_save(const Attempt *attempt, TimestampTz now,
					  MeterAnswer *answer);
static void note_stuck(const Attempt *attempt, TimestampTz now,
					   MeterAnswer *answer);
static void note_idle(const Attempt *attempt, TimestampTz now,
					  MeterAnswer *answer);
static void stop_now(MeterAnswer *answer, const char *reason, TimestampTz now);
static void limit_time(MeterAnswer *answer, TimestampTz now, int64 left);
static bool save_is_due(const Attempt *attempt, TimestampTz now);
static bool limit_is_near(const Attempt *attempt, TimestampTz now);

/* Returns whether a live attempt may go on, and until when. */
MeterAnswer
AnswerLive(const Attempt *attempt, TimestampTz now)
{
	MeterAnswer answer = {"continue", NULL, AttemptBill(attempt),
		attempt->held, DT_NOEND, -1, false};
	int64		funded = ExtendFundedFor(attempt);
	bool		wall_first = attempt->wall_limit >= 0 &&
		attempt->wall_limit <= funded;
	int64		most = wall_first ? attempt->wall_limit : funded;
	TimestampTz wall_end = AttemptWallEnd(attempt);

	if (attempt->directed)
		obey_directive(attempt, now, &answer);
	if (strcmp(answer.action, "stop") == 0)
		return answer;
	if (AttemptRan(attempt) >= most)
	{
		stop_now(&answer, wall_first ? "wall_limit" : "low_funds", now);
		return answer;
	}
	if (now >= wall_end)
	{
		stop_now(&answer, "wall_limit", now);
		return answer;
	}
	note_stuck(attempt, now, &answer);
	if (strcmp(answer.action, "stop") == 0)
		return answer;
	if (strcmp(answer.action, "continue") == 0 && !wall_first &&
		attempt->extension_denied && ExtendIsDue(attempt))
	{
		answer.action = "checkpoint";
		answer.reason = "low_funds";
	}
	if (most < PG_INT64_MAX)
		limit_time(&answer, now, most - AttemptRan(attempt));
	if (attempt->ends_by != DT_NOEND)
		limit_time(&answer, now, attempt->ends_by - now);
	note_idle(attempt, now, &answer);
	if (strcmp(answer.action, "stop") == 0)
		return answer;
	answer.save = strcmp(answer.action, "checkpoint") == 0;
	if (strcmp(answer.action, "continue") == 0)
		note_save(attempt, now, &answer);
	return answer;
}

/* Sets whether the attempt must save now and go on. */
static void
note_save(const Attempt *attempt, TimestampTz now, MeterAnswer *answer)
{
	bool		near = limit_is_near(attempt, now);

	answer->save = near || save_is_due(attempt, now);
	if (!answer->save ||
		!(attempt->save_asked || (near && attempt->saved_at != DT_NOBEGIN)))
		return;
	answer->action = "checkpoint";
	answer->reason = near ? "wall_limit" : "periodic";
}

/*
 * Whether the wall limit is at most gpucredit.save_ahead away and nothing has
 * been saved since it came that near. Only attempts that save checkpoints, and
 * that may run longer than gpucredit.save_ahead, are ordered to save then. The
 * time since the last heartbeat counts as run time.
 */
static bool
limit_is_near(const Attempt *attempt, TimestampTz now)
{
	int64		ahead = SettingSaveAhead();
	TimestampTz end = attempt->ends_by;

	if (ahead == 0 || !attempt->running ||
		(attempt->save_every <= 0 && attempt->saved_at == DT_NOBEGIN))
		return false;
	if (attempt->wall_limit > ahead)
		end = Min(end, ClockAdd(attempt->heard_at, attempt->wall_limit -
								AttemptRan(attempt)));
	return end != DT_NOEND && now >= ClockAdd(end, -ahead) &&
		(attempt->saved_at == DT_NOBEGIN ||
		 attempt->saved_at < ClockAdd(end, -ahead));
}

/*
 * Applies the directive. A checkpoint whose deadline has passed becomes a
 * stop. A checkpoint whose turn comes later lets the attempt run on until
 * then.
 */
static void
obey_directive(const Attempt *attempt, TimestampTz now, MeterAnswer *answer)
{
	SqlResult	row;
	TimestampTz deadline;
	Values	   *args = VALUES(ATTEMPT_KEY(attempt), TimeValue(now));

	(void) SqlRun(&directive_tell, args);
	row = SqlRun(&directive_read, args);
	if (row.n == 0)
		return;
	deadline = SqlTimeOr(row, 0, 3, DT_NOEND);
	answer->reason = SqlText(row, 0, 2);
	if (deadline <= now || strcmp(SqlText(row, 0, 1), "stop") == 0)
	{
		stop_now(answer, answer->reason, now);
		return;
	}
	if (!SqlBool(row, 0, 4))
		answer->action = SqlText(row, 0, 1);
	if (deadline != DT_NOEND)
		limit_time(answer, now, deadline - now);
}

/*
 * Applies the progress timeout: an attempt without progress for
 * gpucredit.progress_timeout must save, and must stop gpucredit.stop_grace
 * later.
 */
static void
note_stuck(const Attempt *attempt, TimestampTz now, MeterAnswer *answer)
{
	TimestampTz stuck_at = AttemptStuckAt(attempt);
	TimestampTz stop_at = ClockAdd(stuck_at, SettingStopGrace());

	if (now < stuck_at)
		return;
	if (now >= stop_at)
	{
		stop_now(answer, "stuck", now);
		return;
	}
	if (strcmp(answer->action, "checkpoint") != 0 ||
		stop_at < answer->deadline)
		answer->reason = "stuck";
	answer->action = "checkpoint";
	limit_time(answer, now, stop_at - now);
}

/*
 * Applies the idle limit: an attempt that has been idle for that time must
 * stop. Before, its agent tells those who sit at its terminals. The deadline is
 * for that notice alone and leaves time_left as it is, because an agent keeps to
 * time_left even if it cannot report that the attempt is used again.
 */
static void
note_idle(const Attempt *attempt, TimestampTz now, MeterAnswer *answer)
{
	int64		left;

	if (!IdleRemaining(attempt, now, &left))
		return;
	if (left <= 0)
		stop_now(answer, IDLE_REASON, now);
	else if (left <= attempt->idle_warning &&
			 strcmp(answer->action, "continue") == 0)
	{
		answer->reason = IDLE_REASON;
		answer->deadline = ClockAdd(now, left);
	}
}

static void
stop_now(MeterAnswer *answer, const char *reason, TimestampTz now)
{
	answer->action = "stop";
	answer->reason = reason;
	answer->deadline = now;
	answer->time_left = 0;
}

/* Reduces the time left to the given time. */
static void
limit_time(MeterAnswer *answer, TimestampTz now, int64 left)
{
	if (answer->time_left >= 0 && answer->time_left <= left)
		return;
	answer->time_left = left;
	answer->deadline = ClockAdd(now, left);
}

/*
 * Whether the attempt has run for the time that it should run between two
 * checkpoints.
 */
static bool
save_is_due(const Attempt *attempt, TimestampTz now)
{
	TimestampTz since = attempt->saved_at != DT_NOBEGIN ?
		attempt->saved_at : attempt->running_at;

	return attempt->save_every > 0 && since != DT_NOBEGIN &&
		now >= ClockAdd(since, attempt->save_every);
}
