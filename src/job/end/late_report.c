/*-------------------------------------------------------------------------
 *
 * late_report.c
 *		Claims about an attempt after its settlement.
 *
 * The settlement stands, and the claim is never billed; the audit log keeps it
 * as evidence. Repeats add nothing: a finish is logged once for what it
 * claims, heartbeats once in each gpucredit.usage_interval. A claim of
 * completion is news whatever heartbeats claimed before. Twins at the same
 * time take turns by the attempt's row, so one sees the other's row.
 *
 * Locks: attempt.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/clock.h"
#include "util/settings.h"
#include "util/sql.h"
#include "job/attempt.h"
#include "job/job.h"

SQL_STATEMENT(late_report_known, SPI_OK_SELECT,
			  "text, bigint, int, bigint, boolean",
			  "SELECT 1 FROM gpucredit.audit u"
			  " WHERE u.org = $1 AND u.job = $2 AND u.attempt = $3"
			  " AND u.decision = 'late'"
			  " AND (u.detail ->> 'claimed_us')::bigint > $4"
			  " AND (NOT $5 OR u.detail ->> 'outcome' = 'completed') LIMIT 1");

#define TURN \
	"SELECT 1 FROM gpucredit.attempt a" \
	" WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3" \
	" FOR NO KEY UPDATE"
SQL_STATEMENT(late_report_turn, SPI_OK_SELECT, "text, bigint, int", TURN);
SQL_STATEMENT(late_report_turn_free, SPI_OK_SELECT, "text, bigint, int",
			  TURN " SKIP LOCKED");

static bool is_news(const Attempt *attempt, int64 above, bool completed);
static bool take_turn(const Attempt *attempt, bool wait);

/*
 * Log a claim about an attempt that is over, if it is more than was billed, or
 * says that it completed. outcome NULL: a heartbeat. wait = false: if another
 * transaction has the attempt, log nothing; a running agent repeats its claim.
 */
void
AttemptLateReport(const Attempt *attempt, const char *operation,
				  const char *outcome, int64 claimed, bool wait)
{
	int64		above;
	AuditRow	audit = {.org = attempt->org, .operation = operation,
		.decision = "late", .job = attempt->job,
		.attempt = attempt->attempt, .hold = attempt->hold};
	bool		completed = outcome != NULL &&
		strcmp(outcome, "completed") == 0 &&
		strcmp(attempt->outcome, "completed") != 0;

	claimed = AttemptHad(attempt, Max(claimed, 0));
	/* the bill was cut to the time that passed, and that was audited then */
	if (claimed > attempt->elapsed &&
		attempt->elapsed >= attempt->ended_at - attempt->started_at)
		claimed = attempt->elapsed;
	if (claimed <= attempt->elapsed && !completed)
		return;

	above = outcome != NULL ? claimed - 1 : claimed - SettingUsageInterval();
	if (!is_news(attempt, above, completed) || !take_turn(attempt, wait) ||
		!is_news(attempt, above, completed))
		return;

	audit.reason = attempt->outcome;
	audit.at = ClockNow();
	AuditText(&audit, "outcome", outcome);
	AuditInt8(&audit, "claimed_us", claimed);
	AuditInt8(&audit, "elapsed_us", attempt->elapsed);
	AuditCredits(&audit, "claimed",
				 AttemptCost(attempt, claimed));
	AuditCredits(&audit, "billed", attempt->billed);
	JobTraces(&audit, 1);
	AuditWrite(&audit);
}

/*
 * Is the claim new: more than was claimed before, or the first of completion?
 */
static bool
is_news(const Attempt *attempt, int64 above, bool completed)
{
	return SqlRun(&late_report_known,
				  VALUES(ATTEMPT_KEY(attempt), Int8Value(above),
						 BoolValue(completed))).n == 0;
}

/*
 * Lock the attempt.  False: another transaction has it, and wait was false.
 */
static bool
take_turn(const Attempt *attempt, bool wait)
{
	return SqlRun(wait ? &late_report_turn : &late_report_turn_free,
				  VALUES(ATTEMPT_KEY(attempt))).n > 0;
}
