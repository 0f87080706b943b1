/*-------------------------------------------------------------------------
 *
 * idle.c
 *		Attempts that leave their GPUs idle: how long they may go on.
 *
 * meter adds up in idle_for how long an attempt has been idle (meter.h): the
 * time between two reports of a utilization near 0. A report of use sets it to
 * 0, and so does a key press in a terminal of the attempt, which the node
 * report names. A report without utilization changes nothing. After IDLE_GAP
 * without a report the time starts again, so an outage of the agent, of the
 * database or of the driver's figures ends no attempt.
 *
 * All else is derived from the attempt's row and the clock. Only a recent
 * report counts: one that is older than IDLE_GAP says nothing about the
 * present.
 *
 * Locks: for key presses the attempts of the node, SKIP LOCKED. The agent names
 * a key press in several reports, so one that is skipped is not lost.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/sql.h"
#include "job/idle.h"

SQL_STATEMENT(idle_warned, SPI_OK_UPDATE, "text, bigint, int, timestamptz",
			  "UPDATE gpucredit.attempt a SET idle_warned_at = $4"
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3");

/*
 * Restarts the idle time of attempts in whose terminals somebody typed. An
 * agent names attempts as org/job/attempt; of those only the ones on its own
 * node count.
 */
SQL_STATEMENT(typed_note, SPI_OK_UPDATE, "text, jsonb, timestamptz",
			  "UPDATE gpucredit.attempt a SET idle_for = '0', idle_at = $3"
			  " FROM (SELECT t.ctid AS tid FROM gpucredit.attempt_gpu g"
			  "  CROSS JOIN LATERAL (SELECT t.ctid FROM gpucredit.attempt t"
			  "   WHERE t.org = g.org AND t.job = g.job"
			  "   AND t.attempt = g.attempt AND t.ended_at IS NULL"
			  "   AND t.idle_limit IS NOT NULL"
			  "   FOR NO KEY UPDATE OF t SKIP LOCKED) t"
			  "  WHERE g.node = $1 AND g.ended_at IS NULL"
			  "  AND $2 -> 'typed' ? (g.org || '/' || g.job || '/'"
			  "   || g.attempt) OFFSET 0) s WHERE a.ctid = s.tid");

/*
 * Whether an attempt has an idle limit and a recent report; `left` is then how
 * long it may yet be idle, below 0 once it must stop.
 */
bool
IdleRemaining(const Attempt *attempt, TimestampTz now, int64 *left)
{
	if (attempt->idle_limit < 0 || attempt->idle_at == DT_NOBEGIN ||
		now > ClockAdd(attempt->idle_at, IDLE_GAP_US))
		return false;
	*left = attempt->idle_limit - attempt->idle_for;
	return true;
}

/*
 * Whether an attempt has been idle for its limit and the time `ago`, according
 * to its last reports.
 */
bool
IdleIsOver(const Attempt *attempt, int64 ago)
{
	return attempt->idle_limit >= 0 &&
		attempt->idle_for - attempt->idle_limit >= ago;
}

/*
 * Whether the owner of an attempt must now be warned that it is about to end:
 * once each time that the attempt becomes idle.
 */
bool
IdleWarns(const Attempt *attempt, TimestampTz now)
{
	int64		left;

	return IdleRemaining(attempt, now, &left) &&
		left <= attempt->idle_warning && attempt->idle_warning > 0 &&
		(attempt->idle_warned_at == DT_NOBEGIN ||
		 attempt->idle_warned_at < ClockAdd(attempt->idle_at,
											-attempt->idle_for));
}

/* Notes that the owner was warned. The attempt is locked. */
void
IdleNoteWarned(Attempt *attempt, TimestampTz now)
{
	attempt->idle_warned_at = now;
	(void) SqlRun(&idle_warned, VALUES(ATTEMPT_KEY(attempt), TimeValue(now)));
}

/* Notes in the terminals of which attempts somebody typed, by a node report. */
void
IdleNoteTyped(const char *node, Jsonb *about, TimestampTz now)
{
	if (about != NULL)
		(void) SqlRun(&typed_note, VALUES(TextValue(node), JsonValue(about),
										  TimeValue(now)));
}
