/*-------------------------------------------------------------------------
 *
 * late.c
 *		What is claimed of an attempt after it was settled.
 *
 * The settlement stands, and the claim is never billed; it is evidence, and
 * goes to the trail.  An agent that repeats itself says nothing new: a finish
 * is entered once for what it claims, heartbeats once in each
 * gpucredit.usage_interval.  That it completed is news whatever a heartbeat
 * claimed before.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "common/clock.h"
#include "common/settings.h"
#include "common/sql.h"
#include "job/attempt.h"
#include "job/job.h"

SQL_STATEMENT(late_known, SPI_OK_SELECT, "text, bigint, int, bigint, boolean",
			  "SELECT 1 FROM gpucredit.audit u"
			  " WHERE u.org = $1 AND u.job = $2 AND u.attempt = $3"
			  " AND u.decision = 'late'"
			  " AND (u.detail ->> 'claimed_us')::bigint > $4"
			  " AND (NOT $5 OR u.detail ->> 'outcome' = 'completed') LIMIT 1");

/*
 * Enter what a call claims of an attempt that is over, if it is more than
 * was billed, or that it completed after all.  outcome NULL: a heartbeat.
 */
void
AttemptLate(const Attempt *attempt, const char *operation,
			const char *outcome, int64 claimed)
{
	SqlArgs		args = {0};
	AuditRow	audit = {.org = attempt->org, .operation = operation,
		.decision = "late", .job = attempt->job,
		.attempt = attempt->attempt, .hold = attempt->hold};
	bool		completed = outcome != NULL &&
		strcmp(outcome, "completed") == 0 &&
		strcmp(attempt->outcome, "completed") != 0;

	claimed = Max(claimed, 0);
	/* billed for all the time there was: what was cut then, was said then */
	if (claimed > attempt->elapsed &&
		attempt->elapsed >= attempt->ended_at - attempt->started_at)
		claimed = attempt->elapsed;
	if (claimed <= attempt->elapsed && !completed)
		return;

	SqlArgText(&args, attempt->org);
	SqlArgInt8(&args, attempt->job);
	SqlArgInt4(&args, attempt->attempt);
	SqlArgInt8(&args, outcome != NULL ? claimed - 1 :
			   claimed - SettingUsageInterval());
	SqlArgBool(&args, completed);
	if (SqlRun(&late_known, &args).n > 0)
		return;

	audit.reason = attempt->outcome;
	audit.at = ClockNow();
	AuditText(&audit, "outcome", outcome);
	AuditInt8(&audit, "claimed_us", claimed);
	AuditInt8(&audit, "elapsed_us", attempt->elapsed);
	AuditCredits(&audit, "claimed",
				 CreditsBillWithin(attempt->per_gpu_hour, attempt->gpus,
								   attempt->share, claimed, PG_INT64_MAX));
	AuditCredits(&audit, "billed", attempt->billed);
	JobTraces(&audit, 1);
	AuditWrite(&audit);
}
