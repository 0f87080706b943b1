/*-------------------------------------------------------------------------
 *
 * late_report.c
 *		Logs what agents claim about an attempt after its settlement.
 *
 * The settlement stands, and the claim is never billed. The audit log keeps it
 * as evidence. Repeats are not logged: the end of a run is logged only if it
 * claims more than was logged before, and heartbeats once in each
 * gpucredit.usage_interval. A claim that the attempt completed is logged even
 * if heartbeats have claimed as much time before. Calls that make the same
 * claim at the same time lock the attempt's row one after the other, so the
 * later one sees the audit row of the earlier one.
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
static bool lock_attempt(const Attempt *attempt, bool wait);

/*
 * Logs a claim about an attempt that has ended, if it claims more time than
 * was billed, or that the attempt completed. outcome is NULL for a heartbeat.
 * If wait is false and another transaction has locked the attempt, nothing is
 * logged, as an agent repeats its claim while the processes run.
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

	/*
	 * The settlement had cut the bill to the time that passed, and audited
	 * that.
	 */
	if (claimed > attempt->elapsed &&
		attempt->elapsed >= attempt->ended_at - attempt->started_at)
		claimed = attempt->elapsed;
	if (claimed <= attempt->elapsed && !completed)
		return;

	above = outcome != NULL ? claimed - 1 : claimed - SettingUsageInterval();
	if (!is_news(attempt, above, completed) || !lock_attempt(attempt, wait) ||
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
 * Whether the claim is new: it claims more time than any claim before, or is
 * the first one of completion.
 */
static bool
is_news(const Attempt *attempt, int64 above, bool completed)
{
	return SqlRun(&late_report_known,
				  VALUES(ATTEMPT_KEY(attempt), Int8Value(above),
						 BoolValue(completed))).n == 0;
}

/*
 * Locks the attempt.  Returns false if wait is false and another transaction
 * has locked it.
 */
static bool
lock_attempt(const Attempt *attempt, bool wait)
{
	return SqlRun(wait ? &late_report_turn : &late_report_turn_free,
				  VALUES(ATTEMPT_KEY(attempt))).n > 0;
}
