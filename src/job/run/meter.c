/*-------------------------------------------------------------------------
 *
 * meter.c
 *		SQL function meter: the heartbeat of an attempt.
 *
 * One statement changes one row, the attempt's own. The elapsed time is
 * cumulative: the greatest value stands, and a repeated heartbeat changes
 * nothing. The answer (answer.c) tells the agent whether the attempt may go
 * on. An extension is drawn before the hold is used up.
 *
 * Locks: attempt; for an extension the hold, then buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/async_commit.h"
#include "util/clock.h"
#include "util/definer.h"
#include "util/errors.h"
#include "util/settings.h"
#include "util/not_found.h"
#include "api/api.h"
#include "job/hold_extension.h"
#include "job/job.h"
#include "job/end/job_alert.h"
#include "job/run/meter.h"
#include "types/duration.h"

API_FUNCTION(gpucredit_meter, meter);

/* the arguments of one heartbeat */
typedef struct Heartbeat
{
	char	   *org;
	int64		job;
	int32		attempt;
	int64		elapsed;
	NullableDatum progress;
	NullableDatum utilization;
	TimestampTz now;
} Heartbeat;

/*
 * where to store the row that a statement returns, and how many rows it has
 * returned
 */
typedef struct Beaten
{
	Attempt    *attempt;
	int			n;
} Beaten;

SQL_STATEMENT(attempt_meter, SPI_OK_UPDATE_RETURNING,
			  "text, bigint, int, interval, timestamptz, interval, bigint,"
			  " real, interval",
			  "UPDATE gpucredit.attempt a SET"
			  METER_SET("$4", "$7", "$8", "$9")
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3 AND"
			  METER_MATCH("$4", "$9") " RETURNING" ATTEMPT_COLUMNS);
/*
 * Applies an ordinary heartbeat; most heartbeats match this statement. It
 * reads and writes few columns, because each one takes a hundredth of the
 * call's time.
 */
#define BEAT_TYPES \
	"text, bigint, int, interval, timestamptz, timestamptz, interval"
#define BEAT(reported) \
	"UPDATE gpucredit.attempt a SET elapsed = $4 + a.overhead," \
	" heard_at = $5," reported \
	" logged = CASE WHEN a.logged <= $7 + a.overhead" \
	"  THEN $4 + a.overhead ELSE a.logged END" \
	" WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3" \
	" AND a.ended_at IS NULL AND a.running_at IS NOT NULL" \
	" AND a.elapsed < $4 + a.overhead AND a.started_at <= $6 - a.overhead" \
	" RETURNING a, " ATTEMPT_DIRECTED("$1", "$2", "$3")
SQL_STATEMENT(attempt_beat, SPI_OK_UPDATE_RETURNING, BEAT_TYPES, BEAT(""));
SQL_STATEMENT(attempt_beat_reported, SPI_OK_UPDATE_RETURNING,
			  BEAT_TYPES ", bigint, real",
			  BEAT(" progress_at = " METER_PROGRESS("$8") ","
				   " progress = COALESCE($8, a.progress),"
				   " utilization = COALESCE($9, a.utilization),"
				   METER_IDLE_SET("$9") ","));
SQL_STATEMENT(attempt_note, SPI_OK_UPDATE,
			  "text, bigint, int, interval, timestamptz",
			  "UPDATE gpucredit.attempt a SET logged = $4, skewed_at = $5"
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3");
SQL_STATEMENT(job_exists, SPI_OK_SELECT, "text, bigint",
			  "SELECT 1 FROM gpucredit.job j"
			  " WHERE j.org = $1 AND j.job = $2");
static void parse_heartbeat(FunctionCallInfo fcinfo, Heartbeat *heartbeat);
static Values heartbeat_args(const Heartbeat *heartbeat);
static void add_figures(Values *args, const Heartbeat *heartbeat);
static bool beat_ordinary(const Heartbeat *heartbeat, Attempt *attempt);
static bool read_beaten(void *context, const Datum *values,
						const bool *nulls);
static bool beat_any(const Heartbeat *heartbeat, Attempt *attempt);
static pg_attribute_noreturn() void refuse_unknown(const Heartbeat *heartbeat);
static void note(const Attempt *attempt);
static void audit_skew(const Attempt *attempt, TimestampTz now);

Datum
call_meter(PG_FUNCTION_ARGS)
{
	Heartbeat	heartbeat;
	Attempt		attempt = {0};
	MeterAnswer answer;
	Definer		definer;
	Datum		result;
	bool		may;

	parse_heartbeat(fcinfo, &heartbeat);
	definer = DefinerEnter(fcinfo);
	SqlConnect();
	heartbeat.now = ClockNow();
	may = AsyncCommitMay(fcinfo);
	if (beat_ordinary(&heartbeat, &attempt))
	{
		AsyncCommitAllow(may);
		answer = MeterGoOn(&attempt, heartbeat.now, true);
		may = AsyncCommitMay(fcinfo);
		if (attempt.logged == attempt.elapsed)
			AttemptLogUsage(&attempt, AttemptBill(&attempt), heartbeat.now);
		AsyncCommitAllow(may);
	}
	else if (beat_any(&heartbeat, &attempt))
		answer = MeterAccepted(&attempt, heartbeat.elapsed, heartbeat.now,
							   true);
	else if (AttemptRead(heartbeat.org, heartbeat.job, heartbeat.attempt,
						 &attempt))
	{
		if (!MeterTryAgain(&attempt, heartbeat.elapsed, heartbeat.now, true,
						   &answer))
			answer = MeterUnchanged(&attempt, heartbeat.elapsed,
									heartbeat.now, true);
	}
	else
		refuse_unknown(&heartbeat);

	result = SqlFinishRow(RowReturn(fcinfo,
									VALUES(TextValue(answer.action),
										   TextValue(answer.reason),
										   NumericValue(answer.billed),
										   NumericValue(answer.held),
										   TimeValueOrNull(answer.deadline),
										   DurationValueOrNull(answer.time_left),
										   BoolValue(answer.save))));
	DefinerLeave(definer);
	return result;
}

/* Parses the arguments. */
static void
parse_heartbeat(FunctionCallInfo fcinfo, Heartbeat *heartbeat)
{
	heartbeat->org = ArgName(fcinfo, 0, "org");
	heartbeat->job = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	heartbeat->attempt = ArgInt4(fcinfo, 2, "attempt", PG_INT32_MIN,
								 PG_INT32_MAX);
	heartbeat->elapsed = ArgDuration(fcinfo, 3, "elapsed", true);
	heartbeat->progress = fcinfo->args[4];
	heartbeat->utilization = fcinfo->args[5];
	if (!PG_ARGISNULL(5))
		heartbeat->utilization.value =
			Float4GetDatum(MeterUtilization(PG_GETARG_FLOAT8(5)));
}

/*
 * Returns the parameters that both statements share: the key, elapsed and now.
 * Further parameters follow.
 */
static Values
heartbeat_args(const Heartbeat *heartbeat)
{
	return *VALUES(ATTEMPT_KEY(heartbeat), DurationValue(heartbeat->elapsed),
				   TimeValue(heartbeat->now));
}

static void
add_figures(Values *args, const Heartbeat *heartbeat)
{
	ValuesAdd(args, heartbeat->progress, heartbeat->utilization);
}

/*
 * Applies an ordinary heartbeat: one that advances a running attempt and whose
 * elapsed time need not be cut. Returns false if the heartbeat is of another
 * kind.
 */
static bool
beat_ordinary(const Heartbeat *heartbeat, Attempt *attempt)
{
	Values		args = heartbeat_args(heartbeat);
	Beaten		beaten = {attempt, 0};
	bool		reported = !heartbeat->progress.isnull ||
		!heartbeat->utilization.isnull;

	ValuesAdd(&args,
			  TimeValue(ClockAdd(heartbeat->now,
								 SettingClockSkew() - heartbeat->elapsed)),
			  DurationValue(heartbeat->elapsed - SettingUsageInterval()));
	if (reported)
		add_figures(&args, heartbeat);
	SqlEach(reported ? &attempt_beat_reported : &attempt_beat, &args, false,
			read_beaten, &beaten);
	return beaten.n == 1;
}

/* Reads the attempt from the changed row. */
static bool
read_beaten(void *context, const Datum *values, const bool *nulls)
{
	Beaten	   *beaten = context;

	beaten->n++;
	AttemptParse(values, beaten->attempt);
	return true;
}

/*
 * Applies any heartbeat that changes something.  Returns false if the
 * heartbeat changes nothing or the attempt does not exist.
 */
static bool
beat_any(const Heartbeat *heartbeat, Attempt *attempt)
{
	Values		args = heartbeat_args(heartbeat);
	SqlResult	row;

	ValuesAdd(&args, DurationValue(SettingClockSkew()));
	add_figures(&args, heartbeat);
	ValuesAdd(&args, DurationValue(SettingStartupMax()));
	row = SqlRun(&attempt_meter, &args);
	if (row.n == 0)
		return false;
	AttemptFrom(row, 0, attempt);
	return true;
}

static void
refuse_unknown(const Heartbeat *heartbeat)
{
	if (SqlRun(&job_exists,
			   VALUES(TextValue(heartbeat->org),
					  Int8Value(heartbeat->job))).n == 0)
		NotFoundJob(heartbeat->job);
	AttemptRefuseUnknown(heartbeat->job, heartbeat->attempt);
}

/*
 * Checks that utilization is between 0 and 1, and converts it to the stored
 * type.
 */
float4
MeterUtilization(float8 utilization)
{
	if (utilization >= 0 && utilization <= 1)
		return (float4) utilization;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("\"utilization\" is out of range"),
			 errdetail("It is %g.", utilization),
			 errhint("Pass 0 to 1, or NULL.")));
}

/*
 * Answers a heartbeat that was accepted. Logs usage and a cut if they are due,
 * and extends the hold if necessary.
 */
MeterAnswer
MeterAccepted(Attempt *attempt, int64 claimed, TimestampTz now, bool wait)
{
	bool		cut = AttemptHad(attempt, claimed) > attempt->elapsed &&
		attempt->skewed_at == DT_NOBEGIN;
	bool		log = attempt->elapsed > attempt->logged &&
		attempt->elapsed - attempt->logged >= SettingUsageInterval();
	MeterAnswer answer;

	if (cut)
	{
		attempt->skewed_at = now;
		audit_skew(attempt, now);
	}
	if (log)
		attempt->logged = attempt->elapsed;
	if (cut || log)
		note(attempt);
	answer = MeterGoOn(attempt, now, wait);
	if (log)
		AttemptLogUsage(attempt, AttemptBill(attempt), now);
	return answer;
}

/*
 * Extends a running attempt's hold if necessary, and answers. Afterwards the
 * bill is within the hold.
 */
MeterAnswer
MeterGoOn(Attempt *attempt, TimestampTz now, bool wait)
{
	if (ExtendIsDue(attempt))
		ExtendHold(attempt, wait);
	AlertIdle(attempt, now);
	AlertIdleEnd(attempt, now);
	return AnswerLive(attempt, now);
}

/*
 * Stores when an attempt's usage was last logged, and when its elapsed time
 * was first cut.
 */
static void
note(const Attempt *attempt)
{
	Ensure(SqlRun(&attempt_note,
				  VALUES(ATTEMPT_KEY(attempt), DurationValue(attempt->logged),
						 TimeValueOrNull(attempt->skewed_at))).n == 1,
		   "An attempt is missing.");
}

/*
 * Handles a repeated heartbeat of an attempt whose extension was denied: tries
 * to extend the hold again, as there may be credit by now. Returns false if
 * there is nothing to try.
 */
bool
MeterTryAgain(Attempt *attempt, int64 elapsed, TimestampTz now, bool wait,
			  MeterAnswer *answer)
{
	if (attempt->ended_at != DT_NOBEGIN || !attempt->extension_denied ||
		AttemptHad(attempt, elapsed) < attempt->elapsed ||
		!ExtendIsDue(attempt))
		return false;
	if (!(wait ? AttemptLock : AttemptLockLive) (attempt->org, attempt->job,
												 attempt->attempt, attempt) ||
		attempt->ended_at != DT_NOBEGIN)
		return false;
	if (attempt->extension_denied)
		*answer = MeterGoOn(attempt, now, wait);
	else
		*answer = AnswerLive(attempt, now);
	return true;
}

/*
 * Answers a heartbeat that changed nothing: it is late, repeated or out of
 * order, or its attempt has ended.
 */
MeterAnswer
MeterUnchanged(Attempt *attempt, int64 elapsed, TimestampTz now, bool wait)
{
	MeterAnswer answer = {"stop", attempt->outcome, attempt->billed, 0,
		now,
		0, false};

	if (attempt->ended_at != DT_NOBEGIN)
	{
		AttemptLateReport(attempt, "meter", NULL, elapsed, wait);
		return answer;
	}
	return AnswerLive(attempt, now);
}

/*
 * Audits that an attempt claims a longer run than the server has seen. This is
 * audited once for each attempt, and again at the settlement.
 */
static void
audit_skew(const Attempt *attempt, TimestampTz now)
{
	AuditRow	audit = {.org = attempt->org, .operation = "meter",
		.decision = "cut", .reason = "clock_skew", .job = attempt->job,
		.attempt = attempt->attempt, .hold = attempt->hold, .at = now};

	AuditInt8(&audit, "elapsed_us", attempt->elapsed);
	JobTraces(&audit, 1);
	AuditWrite(&audit);
}
