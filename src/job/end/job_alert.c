/*-------------------------------------------------------------------------
 *
 * job_alert.c
 *		Alerts about jobs that ended badly or that leave their devices
 *		idle.
 *
 * The call that settles an attempt raises the alert in its own transaction.
 * Neither a repeated settle nor a late report of the end raises one. The
 * heartbeat that finds an attempt idle for gpucredit.progress_timeout raises
 * that alert, and the idle time then counts from zero. Where the tier has an
 * idle limit, another alert comes before the attempt ends by it. An account gets at most
 * gpucredit.job_alerts alerts an hour. To enforce this, each alert claims one
 * of the numbers of the hour (gpucredit_internal.raise_job_alert()).
 *
 * Locks: none that a call waits for.  The caller of AlertIdle() has locked the
 * attempt.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/settings.h"
#include "util/sql.h"
#include "job/idle.h"
#include "job/end/job_alert.h"

/* The advice is cut, because a notification has room for only 8,000 bytes. */
#define ADVICE_CHARS	"1000"

SQL_STATEMENT(ended_alert, SPI_OK_SELECT,
			  "text, timestamptz, text, int, bigint, int, text, text, int,"
			  " text",
			  "SELECT gpucredit_internal.raise_job_alert($1, $2, $3, $4,"
			  " pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object("
			  "  'kind', 'job', 'org', $1, 'account', $3, 'job', $5,"
			  "  'attempt', $6, 'reason', $7, 'job_state', $8,"
			  "  'exit_code', $9,"
			  "  'advice', pg_catalog.left($10, " ADVICE_CHARS "))))");
SQL_STATEMENT(idle_alert, SPI_OK_SELECT,
			  "text, timestamptz, int, bigint, int, interval, real",
			  "SELECT gpucredit_internal.raise_job_alert($1, $2, a.account, $3,"
			  " pg_catalog.jsonb_build_object("
			  "  'kind', 'job', 'org', $1, 'account', a.account, 'job', $4,"
			  "  'attempt', $5, 'reason', 'idle', 'idle_s',"
			  "  pg_catalog.trunc(EXTRACT(epoch FROM $6)),"
			  "  'utilization', $7))"
			  " FROM gpucredit.attempt a"
			  " WHERE a.org = $1 AND a.job = $4 AND a.attempt = $5");
SQL_STATEMENT(idle_end_alert, SPI_OK_SELECT,
			  "text, timestamptz, int, bigint, int, interval, timestamptz",
			  "SELECT gpucredit_internal.raise_job_alert($1, $2, a.account, $3,"
			  " pg_catalog.jsonb_build_object("
			  "  'kind', 'job', 'org', $1, 'account', a.account, 'job', $4,"
			  "  'attempt', $5, 'reason', 'idle_warning', 'idle_s',"
			  "  pg_catalog.trunc(EXTRACT(epoch FROM $6)), 'ends_at', $7))"
			  " FROM gpucredit.attempt a"
			  " WHERE a.org = $1 AND a.job = $4 AND a.attempt = $5");
SQL_STATEMENT(idle_anew, SPI_OK_UPDATE, "text, bigint, int, timestamptz",
			  "UPDATE gpucredit.attempt a SET idle_since = $4"
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3");

static const char *what_happened(const Attempt *attempt,
								 const Settlement *settlement);

/*
 * Alert a job's owner that an attempt ended badly.
 */
void
AlertEnded(const Job *job, const Attempt *attempt,
		   const Settlement *settlement)
{
	const char *reason = what_happened(attempt, settlement);

	if (reason == NULL || SettingJobAlerts() == 0)
		return;
	(void) SqlRun(&ended_alert,
				  VALUES(TextValue(job->org), TimeValue(settlement->at),
						 TextValue(job->account),
						 Int4Value(SettingJobAlerts()),
						 Int8Value(attempt->job), Int4Value(attempt->attempt),
						 TextValue(reason), TextValue(settlement->job_state),
						 settlement->has_exit_code ?
						 Int4Value(settlement->exit_code) : NullValue(),
						 TextValue(settlement->advice)));
}

/*
 * Returns the reason that the alert states, or NULL if there is nothing to
 * alert about.  A failure that is retried needs no alert, and whoever cancels
 * a job knows of its end.
 */
static const char *
what_happened(const Attempt *attempt, const Settlement *settlement)
{
	if (strcmp(settlement->job_state, "cancelled") == 0)
		return NULL;
	switch (settlement->outcome)
	{
		case TIMEOUT:
			return settlement->reason != NULL &&
				strcmp(settlement->reason, IDLE_REASON) == 0 ? "idle_limit" :
				OutcomeNames[TIMEOUT];
		case OUT_OF_MEMORY:
		case NODE_LOST:
			return OutcomeNames[settlement->outcome];
		case FAILED:
			if (attempt->heard_at >= AttemptStuckAt(attempt))
				return "stuck";
			return settlement->requeue ? NULL : OutcomeNames[FAILED];
		default:
			return NULL;
	}
}

/*
 * Alerts a job's owner if the agent has reported devices that are almost idle
 * for gpucredit.progress_timeout, even if the job reports progress.
 */
void
AlertIdle(Attempt *attempt, TimestampTz now)
{
	if (attempt->idle_since == DT_NOBEGIN || SettingProgressTimeout() == 0 ||
		attempt->gpus == 0 ||
		now < ClockAdd(attempt->idle_since, SettingProgressTimeout()))
		return;
	(void) SqlRun(&idle_alert,
				  VALUES(TextValue(attempt->org), TimeValue(now),
						 Int4Value(SettingJobAlerts()),
						 Int8Value(attempt->job), Int4Value(attempt->attempt),
						 DurationValue(now - attempt->idle_since),
						 DatumValue(Float4GetDatum(attempt->utilization))));

	attempt->idle_since = now;
	(void) SqlRun(&idle_anew, VALUES(ATTEMPT_KEY(attempt), TimeValue(now)));
}

/*
 * Alerts a job's owner that an attempt ends soon because its GPUs are idle, once
 * each time that they become idle.
 */
void
AlertIdleEnd(Attempt *attempt, TimestampTz now)
{
	int64		left;

	if (!IdleWarns(attempt, now) || !IdleRemaining(attempt, now, &left))
		return;
	if (left > 0 && SettingJobAlerts() > 0)
		(void) SqlRun(&idle_end_alert,
					  VALUES(TextValue(attempt->org), TimeValue(now),
							 Int4Value(SettingJobAlerts()),
							 Int8Value(attempt->job),
							 Int4Value(attempt->attempt),
							 DurationValue(attempt->idle_for),
							 TimeValue(ClockAdd(now, left))));
	IdleNoteWarned(attempt, now);
}
