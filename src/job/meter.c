/*-------------------------------------------------------------------------
 *
 * meter.c
 *		An attempt's heartbeat.
 *
 * One statement touches one row, the attempt's own: elapsed is cumulative, so
 * the greatest ever told stands and nothing else is needed to tell a repeat
 * from news.  The answer then says whether the attempt may go on, and an
 * extension is taken ahead of need.
 *
 * Locks: attempt; for an extension hold, then buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "common/clock.h"
#include "common/compat.h"
#include "common/errors.h"
#include "common/settings.h"
#include "job/extend.h"
#include "job/job.h"
#include "job/meter.h"

PG_FUNCTION_INFO_V1(gpucredit_meter);

SQL_STATEMENT(attempt_meter, SPI_OK_UPDATE_RETURNING,
			  "text, bigint, int, interval, timestamptz, interval, bigint,"
			  " real",
			  "UPDATE gpucredit.attempt a SET" METER_SET("$4", "$7", "$8")
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3 AND"
			  METER_MATCH("$4") " RETURNING" ATTEMPT_COLUMNS);
SQL_STATEMENT(attempt_note, SPI_OK_UPDATE,
			  "text, bigint, int, interval, timestamptz",
			  "UPDATE gpucredit.attempt a SET logged = $4, skewed_at = $5"
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3");
SQL_STATEMENT(job_exists, SPI_OK_SELECT, "text, bigint",
			  "SELECT 1 FROM gpucredit.job j"
			  " WHERE j.org = $1 AND j.job = $2");
/* the one to obey: stop before checkpoint, then the nearest deadline */
SQL_STATEMENT(directive_read, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT d.action, d.reason, d.deadline"
			  " FROM gpucredit.directive d"
			  " WHERE d.org = $1 AND d.job = $2 AND d.attempt = $3"
			  " ORDER BY d.action = 'stop' DESC, d.deadline, d.cause"
			  " LIMIT 1");

static void note(const Attempt *attempt);
static Answer answer_live(Attempt *attempt, TimestampTz now);
static bool answer_directive(const Attempt *attempt, TimestampTz now,
							 Answer *answer);
static void audit_skew(const Attempt *attempt, TimestampTz now);

Datum
gpucredit_meter(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		job = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	int32		number = ArgInt4(fcinfo, 2, "attempt", PG_INT32_MIN,
								 PG_INT32_MAX);
	int64		elapsed = ArgDuration(fcinfo, 3, "elapsed", true);
	TimestampTz now;
	Attempt		attempt;
	Answer		answer;
	SqlArgs		args = {0};
	SqlResult	row;
	Row			out = {0};

	SqlConnect();
	now = ClockNow();
	SqlArgText(&args, org);
	SqlArgInt8(&args, job);
	SqlArgInt4(&args, number);
	SqlArgDuration(&args, elapsed);
	SqlArgTime(&args, now);
	SqlArgDuration(&args, SettingClockSkew());
	if (PG_ARGISNULL(4))
		SqlArgNull(&args);
	else
		SqlArgInt8(&args, PG_GETARG_INT64(4));
	if (PG_ARGISNULL(5))
		SqlArgNull(&args);
	else
	{
		MeterCheckUtilization(PG_GETARG_FLOAT4(5));
		SqlArg(&args, PG_GETARG_DATUM(5));
	}
	row = SqlRun(&attempt_meter, &args);
	if (row.n > 0)
	{
		AttemptFrom(row, 0, &attempt);
		answer = MeterAccepted(&attempt, elapsed, now, true);
	}
	else if (AttemptRead(org, job, number, &attempt))
		answer = MeterUnchanged(&attempt, elapsed, now);
	else
	{
		args.n = 2;
		if (SqlRun(&job_exists, &args).n == 0)
			JobRefuseUnknown(job);
		AttemptRefuseUnknown(job, number);
	}

	RowText(&out, answer.action);
	RowText(&out, answer.reason);
	RowCredits(&out, answer.billed);
	RowCredits(&out, answer.held);
	RowTime(&out, answer.deadline);
	RowDuration(&out, answer.time_left);
	return SqlFinishRow(RowReturn(fcinfo, &out));
}

/*
 * What share of its devices an attempt uses: no more than all, and a number.
 */
void
MeterCheckUtilization(float4 utilization)
{
	if (utilization >= 0 && utilization <= 1)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("\"utilization\" is out of range"),
			 errdetail("It is %g.", utilization),
			 errhint("Pass 0 to 1, or NULL.")));
}

/*
 * Answer a heartbeat that was accepted: log it, extend the hold if need be.
 */
Answer
MeterAccepted(Attempt *attempt, int64 claimed, TimestampTz now, bool wait)
{
	bool		cut = claimed > attempt->elapsed &&
	attempt->skewed_at == DT_NOBEGIN;
	bool		log = attempt->elapsed > attempt->logged &&
	attempt->elapsed - attempt->logged >= SettingUsageInterval();

	if (cut)
	{
		attempt->skewed_at = now;
		audit_skew(attempt, now);
	}
	if (log)
	{
		attempt->logged = attempt->elapsed;
		AttemptLogUsage(attempt, AttemptBill(attempt), now);
	}
	if (cut || log)
		note(attempt);
	if (ExtendIsDue(attempt))
		ExtendHold(attempt, wait);
	return answer_live(attempt, now);
}

/*
 * Note that an attempt was logged, or cut.
 */
static void
note(const Attempt *attempt)
{
	SqlArgs		args = {0};

	SqlArgText(&args, attempt->org);
	SqlArgInt8(&args, attempt->job);
	SqlArgInt4(&args, attempt->attempt);
	SqlArgDuration(&args, attempt->logged);
	if (attempt->skewed_at == DT_NOBEGIN)
		SqlArgNull(&args);
	else
		SqlArgTime(&args, attempt->skewed_at);
	Ensure(SqlRun(&attempt_note, &args).n == 1, "An attempt is missing.");
}

/*
 * Answer one that changed nothing: late, repeated, out of order, or of an
 * attempt that is over.
 */
Answer
MeterUnchanged(Attempt *attempt, int64 elapsed, TimestampTz now)
{
	Answer		answer = {"stop", attempt->outcome, attempt->billed,
		attempt->held, now, 0};

	if (attempt->ended_at != DT_NOBEGIN)
	{
		AttemptLate(attempt, "meter", NULL, elapsed);
		return answer;
	}
	return answer_live(attempt, now);
}

/*
 * May a live attempt go on, and for how long as things are?
 */
static Answer
answer_live(Attempt *attempt, TimestampTz now)
{
	Answer		answer = {"continue", NULL, AttemptBill(attempt),
		attempt->held, DT_NOEND, -1};
	int64		funded = ExtendFundedFor(attempt);
	bool		wall_first = attempt->wall_limit >= 0 &&
		attempt->wall_limit <= funded;
	int64		most = wall_first ? attempt->wall_limit : funded;

	if (attempt->directed && answer_directive(attempt, now, &answer) &&
		strcmp(answer.action, "stop") == 0)
		return answer;
	if (attempt->elapsed >= most)
	{
		answer.action = "stop";
		answer.reason = wall_first ? "wall_limit" : "low_funds";
		answer.deadline = now;
		answer.time_left = 0;
		return answer;
	}
	if (strcmp(answer.action, "continue") == 0 && !wall_first &&
		attempt->starved && ExtendIsDue(attempt))
	{
		answer.action = "checkpoint";
		answer.reason = "low_funds";
	}
	if (most < PG_INT64_MAX &&
		(answer.time_left < 0 || most - attempt->elapsed < answer.time_left))
	{
		answer.time_left = most - attempt->elapsed;
		answer.deadline = ClockAdd(now, answer.time_left);
	}
	return answer;
}

/*
 * What the attempt was told; a checkpoint past its deadline is a stop.
 */
static bool
answer_directive(const Attempt *attempt, TimestampTz now, Answer *answer)
{
	SqlArgs		args = {0};
	SqlResult	row;
	TimestampTz deadline;

	SqlArgText(&args, attempt->org);
	SqlArgInt8(&args, attempt->job);
	SqlArgInt4(&args, attempt->attempt);
	row = SqlRun(&directive_read, &args);
	if (row.n == 0)
		return false;
	answer->action = SqlText(row, 0, 1);
	answer->reason = SqlText(row, 0, 2);
	deadline = SqlTimeOr(row, 0, 3, DT_NOEND);
	if (deadline <= now)
		answer->action = "stop";
	answer->deadline = strcmp(answer->action, "stop") == 0 ? now : deadline;
	answer->time_left = answer->deadline == DT_NOEND ? -1 :
		answer->deadline - now;
	return true;
}

/*
 * The attempt claims to have run longer than the server saw pass: said once
 * per attempt, and again at settlement if it stays so.
 */
static void
audit_skew(const Attempt *attempt, TimestampTz now)
{
	AuditRow	audit = {.org = attempt->org, .operation = "meter",
		.decision = "cut", .reason = "clock_skew", .job = attempt->job,
		.attempt = attempt->attempt, .hold = attempt->hold, .at = now};

	AuditInt8(&audit, "elapsed_us", attempt->elapsed);
	AuditWrite(&audit);
}
