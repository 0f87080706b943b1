/*-------------------------------------------------------------------------
 *
 * attempt_watch.c
 *		Decides when sweeps check an attempt again.
 *
 * A heartbeat changes what decides whether an attempt is overdue. It must stay
 * cheap, so it updates the attempt's row in place (HOT), and therefore no
 * index can contain the instant of the last heartbeat.  Instead each attempt
 * has a row in attempt_watch from its start on, with the instant at which a
 * sweep checks the attempt next, and an index on that instant.  A sweep reads
 * the rows that are due, the oldest first over all organisations, and checks
 * their attempts.  If an attempt is not overdue, the sweep moves its instant
 * to the earliest instant at which the attempt can be overdue, but at most
 * WATCH_AHEAD_MS ahead.
 *
 * If a setting that decides which attempts are overdue has changed since the
 * last sweep, all attempts are due.  If a row's instant is more than
 * WATCH_AHEAD_MS ahead, the clock has been set back, and the attempt is due as
 * well.  A sweep deletes the rows of attempts that have ended.  An attempt
 * that is overdue stays due, but behind all other attempts that are due now:
 * if its locks are not free, it does not keep other attempts waiting.
 *
 * Directives also decide when an attempt must stop.  They have an index of
 * their own on that instant (WatchDirected()).
 *
 * Locks: rows of attempt_watch, SKIP LOCKED.  After an attempt's start only
 * sweeps and WatchSoon() lock its row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/settings.h"
#include "job/attempt_watch.h"

#define WATCH_AHEAD_MS	60000
#define WATCH_SOON_MS	5000

/*
 * The instant at which a directive orders its attempt to stop. The index
 * directive_due has the same expression.
 */
#define DIRECTIVE_STOPS_AT \
	"(CASE WHEN d.action = 'stop' THEN d.given_at ELSE d.deadline END)"

/*
 * An instant at which to check an attempt. If the instant has passed and the
 * attempt was not overdue then, the attempt is checked again soon.
 */
#define AHEAD(instant) \
	"CASE WHEN " instant " <= $1 THEN $12 ELSE " instant " END"

/*
 * Finds overdue attempts among those that are due, and sets when each one is
 * checked again. Parameters: $1 is now; $2 is when the server came up; $3 is
 * gpucredit.heartbeat_timeout; $4 is gpucredit.stop_grace; $5 is
 * gpucredit.clock_skew; $6 is gpucredit.progress_timeout; $7 is whether
 * attempts that had to stop have had time to report their end; an attempt is
 * silent if its last heartbeat is not later than $8; $9 is whether rows with
 * the instant $1 itself are due, which an earlier query of this call may have
 * written; at most $10 attempts are checked; an attempt is checked again at
 * $11 at the latest, and at $12 if it has to be checked soon; an attempt whose
 * fixed end is not later than $13 had to stop; $14 is the same instant less
 * gpucredit.clock_skew, for wall limits by the server's clock; an attempt that
 * has made no progress since $15 is stuck.  The result has one row for each
 * overdue attempt, with the number of attempts that were checked in its last
 * column. If none is overdue, the result is one row that has only that number.
 */
SQL_STATEMENT(watch_due, SPI_OK_SELECT,
			  "timestamptz, timestamptz, interval, interval, interval,"
			  " interval, boolean, timestamptz, boolean, bigint, timestamptz,"
			  " timestamptz, timestamptz, timestamptz, timestamptz",
			  "WITH due AS MATERIALIZED ("
			  "  SELECT w.ctid AS place, w.org, w.job, w.attempt, w.check_at,"
			  "   w.overdue_since FROM gpucredit.attempt_watch w"
			  "  WHERE w.check_at <= $1 AND (w.check_at < $1 OR $9)"
			  "  ORDER BY w.check_at LIMIT $10 FOR UPDATE SKIP LOCKED),"
			  " seen AS MATERIALIZED ("
			  "  SELECT d.*, a.started_at IS NOT NULL AS lives,"
			  "   COALESCE(COALESCE(a.heard_at, a.started_at) <= $8, false)"
			  "    OR ($7 AND COALESCE(a.running_at + a.wall_limit <= $14"
			  "     OR a.ends_by <= $13"
			  "     OR a.elapsed - a.overhead - $4 >= a.wall_limit"
			  "     OR (a.progress_at <= $15"
			  "      AND a.heard_at >= a.progress_at + $6)"
			  "     OR a.idle_for - $4 >= a.idle_limit"
			  "     OR (a.extension_denied AND gpucredit_internal.bill("
			  "      a.per_hour, 1, 1000, GREATEST(a.elapsed - $4, '0'),"
			  "      a.held) OPERATOR(gpucredit.=) a.held), false)) AS overdue,"
			  "   CASE WHEN $1 > '290000-01-01' THEN $11 ELSE LEAST($11, "
			  AHEAD("GREATEST(COALESCE(a.heard_at, a.started_at), $2) + $3")
			  ", " AHEAD("a.running_at + a.wall_limit + $4 + $5")
			  ", " AHEAD("a.ends_by + $4")
			  ", " AHEAD("COALESCE(a.heard_at, a.started_at) + a.wall_limit"
						 " + $4 + a.overhead - a.elapsed")
			  ", " AHEAD("a.progress_at + $6 + $4 + $4")
			  ", CASE WHEN a.extension_denied THEN $12 END) END AS next"
			  "  FROM due d LEFT JOIN LATERAL (SELECT t.*"
			  "   FROM gpucredit.attempt t WHERE t.org = d.org"
			  "   AND t.job = d.job AND t.attempt = d.attempt"
			  "   AND t.ended_at IS NULL OFFSET 0) a ON true),"
			  " gone AS (DELETE FROM gpucredit.attempt_watch w"
			  "  WHERE w.ctid = ANY (ARRAY(SELECT s.place FROM seen s"
			  "   WHERE NOT s.lives))),"
			  " later AS (UPDATE gpucredit.attempt_watch w"
			  "  SET check_at = CASE WHEN s.overdue THEN $1 ELSE s.next END,"
			  "  overdue_since = CASE WHEN s.overdue"
			  "   THEN COALESCE(s.overdue_since, s.check_at) END"
			  "  FROM seen s WHERE s.lives AND w.ctid = s.place)"
			  " SELECT o.org, o.job, o.attempt, n.n"
			  " FROM (SELECT pg_catalog.count(*) AS n FROM seen s) n"
			  " LEFT JOIN (SELECT s.* FROM seen s WHERE s.lives AND s.overdue) o"
			  "  ON true ORDER BY COALESCE(o.overdue_since, o.check_at),"
			  " o.org, o.job");

/*
 * Reads the live attempts whose directive is overdue, the oldest directive
 * first.
 */
SQL_STATEMENT(directive_due, SPI_OK_SELECT, "timestamptz",
			  "SELECT d.org, d.job, d.attempt FROM gpucredit.directive d"
			  " CROSS JOIN LATERAL (SELECT t.ended_at"
			  "  FROM gpucredit.attempt t WHERE t.org = d.org"
			  "  AND t.job = d.job AND t.attempt = d.attempt OFFSET 0) a"
			  " WHERE " DIRECTIVE_STOPS_AT " <= $1 AND a.ended_at IS NULL"
			  " ORDER BY " DIRECTIVE_STOPS_AT " LIMIT 10000");

SQL_STATEMENT(watch_rule_is, SPI_OK_SELECT, "text[]",
			  "SELECT COALESCE(gpucredit_internal.upkeep_position("
			  "  'overdue_attempts') = $1, false)");
SQL_STATEMENT(watch_rule_set, SPI_OK_SELECT, "text[]",
			  "SELECT gpucredit_internal.set_upkeep_position("
			  " 'overdue_attempts', $1)");
SQL_STATEMENT(watch_now, SPI_OK_UPDATE,
			  "timestamptz, timestamptz, boolean",
			  "UPDATE gpucredit.attempt_watch w SET check_at = $1"
			  " WHERE w.ctid = ANY (ARRAY(SELECT o.ctid"
			  "  FROM gpucredit.attempt_watch o"
			  "  WHERE o.check_at > CASE WHEN $3 THEN $1 ELSE $2 END"
			  "  FOR UPDATE SKIP LOCKED))");

SQL_STATEMENT(watch_soon, SPI_OK_UPDATE,
			  "text, bigint, int, timestamptz",
			  "UPDATE gpucredit.attempt_watch w SET check_at = $4"
			  " WHERE w.ctid = ANY (ARRAY(SELECT o.ctid"
			  "  FROM gpucredit.attempt_watch o WHERE o.org = $1"
			  "  AND o.job = $2 AND o.attempt = $3 AND o.check_at > $4"
			  "  FOR UPDATE SKIP LOCKED))");

static void all_are_due(const WatchRule *rule);

/*
 * Checks up to WATCH_MOST attempts that are due. Returns the organisation, job
 * and attempt of those that may be overdue. The caller checks each of these
 * again under its locks.  first is true for the first such query of a call.
 */
SqlResult
WatchOverdue(const WatchRule *rule, bool first, int64 *checked)
{
	TimestampTz now = rule->now;
	int64		grace = SettingStopGrace();
	int64		stuck = SettingProgressTimeout();
	int64		silent = SettingHeartbeatTimeout();
	TimestampTz ordered_at = ClockAdd(now, -grace);
	SqlResult	rows;
	bool		isnull;

	if (first)
		all_are_due(rule);
	rows = SqlRun(&watch_due,
				  VALUES(TimeValue(now), TimeValueOrNull(rule->up),
						 DurationValueOrNull(silent == 0 ? -1 : silent),
						 DurationValue(grace),
						 DurationValue(SettingClockSkew()),
						 DurationValueOrNull(stuck == 0 ? -1 : stuck),
						 BoolValue(rule->reachable),
						 TimeValueOrNull(rule->silent), BoolValue(first),
						 Int8Value(WATCH_MOST),
						 TimeValue(ClockAdd(now, WATCH_AHEAD_MS * INT64CONST(1000))),
						 TimeValue(ClockAdd(now, WATCH_SOON_MS * INT64CONST(1000))),
						 TimeValue(ordered_at),
						 TimeValue(ClockAdd(ordered_at, -SettingClockSkew())),
						 stuck == 0 ? NullValue() :
						 TimeValue(ClockAdd(ClockAdd(ordered_at, -grace),
											-stuck))));
	*checked = SqlInt8(rows, 0, 4);
	(void) SqlDatum(rows, 0, 1, &isnull);
	if (isnull)
		rows.n = 0;
	return rows;
}

/*
 * Makes all attempts due if a setting has changed, and otherwise those whose
 * instant is so late that the clock must have been set back.
 */
static void
all_are_due(const WatchRule *rule)
{
	const char *settings[] = {
		psprintf(INT64_FORMAT, SettingHeartbeatTimeout()),
		psprintf(INT64_FORMAT, SettingStopGrace()),
		psprintf(INT64_FORMAT, SettingClockSkew()),
		psprintf(INT64_FORMAT, SettingProgressTimeout())
	};
	Values	   *args = VALUES(TextArrayValue(settings, lengthof(settings)));
	bool		changed = !SqlBool(SqlRun(&watch_rule_is, args), 0, 1);

	(void) SqlRun(&watch_now,
				  VALUES(TimeValue(rule->now),
						 TimeValue(ClockAdd(rule->now,
											WATCH_AHEAD_MS * INT64CONST(1000))),
						 BoolValue(changed)));
	if (changed)
		(void) SqlRun(&watch_rule_set, args);
}

/*
 * Returns the attempts whose directive ordered them to stop at least
 * gpucredit.stop_grace ago.
 */
SqlResult
WatchDirected(const WatchRule *rule)
{
	return SqlRun(&directive_due,
				  VALUES(TimeValue(ClockAdd(rule->now,
											-SettingStopGrace()))));
}

/*
 * Lets a sweep check an attempt soon, because its credit does not suffice.  If
 * a sweep has locked the attempt's row at this moment, that sweep decides when
 * to check the attempt.
 */
void
WatchSoon(const Attempt *attempt)
{
	(void) SqlRun(&watch_soon,
				  VALUES(ATTEMPT_KEY(attempt),
						 TimeValue(ClockAdd(ClockNow(),
											WATCH_SOON_MS * INT64CONST(1000)))));
}
