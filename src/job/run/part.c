/*-------------------------------------------------------------------------
 *
 * part.c
 *		SQL function part_ended: a node's agent reports how its part of an
 *		attempt ended.
 *
 * Each node of a gang reports on its own processes, because its agent does not
 * know those of other nodes. If a part fails, the others must stop at once.
 * The last report settles the attempt. The attempt is completed if all parts
 * completed; otherwise its outcome is that of the first part that did not
 * complete, which is the cause. A repeated report changes nothing.
 *
 * If a job's spec has "launch": "once", the first node runs the script, and
 * the other nodes run the processes that the script starts on them.  Once the
 * script has completed, the other parts must stop, and count as completed as
 * well.
 *
 * If a node never reports, the attempt ends as any other that nobody settles:
 * when its node is lost, or gpucredit.stop_grace after a directive to stop.
 * Nodes whose parts have ended are not fenced then.
 *
 * A report may say how many joules the part's devices used. The first report
 * that does stands, whether the attempt has ended or not. No agent can be
 * checked, so what no device can use is not stored, and nothing is billed by
 * it.
 *
 * Parts may end after their attempt was ended by its owner or by the server.
 * Their reports are stored as well, and the last one is a late settlement
 * (late_finish.c), which bills the time for which each node kept its devices.
 *
 * Locks: a node that could not start the part, job, attempt, the part's
 * devices; for the last part, as settlement.c says.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/not_found.h"
#include "util/settings.h"
#include "api/count.h"
#include "api/api.h"
#include "job/run/meter.h"
#include "job/end/late_finish.h"
#include "job/run/part.h"
#include "job/end/settlement.h"
#include "job/end/strike.h"
#include "shmem/wake.h"
#include "types/clip.h"
#include "util/log.h"

/* Energy that a report may have, in joules, and power of a device, in watts. */
#define MOST_ENERGY		INT64CONST(1000000000000000)
#define MOST_POWER		2000

API_FUNCTION(gpucredit_part_ended, part_ended);

/* A node's report, and the position of its part among those of the attempt. */
typedef struct Part
{
	char	   *org;
	int64		job;
	int32		number;
	char	   *node;
	Settlement	reported;
	int32		rank;			/* rank of the node among the attempt's, by
								 * name, from 0 */
	int32		nodes;			/* number of nodes of the attempt */
	int32		ended;			/* number of parts with a report, including
								 * this one */
	bool		before;			/* whether this part had a report already */
	int64		energy;			/* joules that its devices used; -1 if not
								 * reported */
} Part;

#define OF_ATTEMPT(alias) \
	alias ".org = $1 AND " alias ".job = $2 AND " alias ".attempt = $3"
SQL_STATEMENT(part_read, SPI_OK_SELECT, "text, bigint, int, text",
			  "SELECT pg_catalog.count(*)::int,"
			  " (pg_catalog.max(n.rank) FILTER (WHERE n.node = $4))::int,"
			  " pg_catalog.count(p.node)::int,"
			  " COALESCE(pg_catalog.bool_or(p.node = $4), false)"
			  " FROM (SELECT g.node, pg_catalog.row_number()"
			  "   OVER (ORDER BY g.node) - 1 AS rank"
			  "  FROM gpucredit.attempt_gpu g WHERE " OF_ATTEMPT("g") ") n"
			  " LEFT JOIN gpucredit.attempt_part p ON " OF_ATTEMPT("p")
			  "  AND p.node = n.node");
SQL_STATEMENT(part_insert, SPI_OK_INSERT,
			  "text, bigint, int, text, int, int, text, int, text, text,"
			  " interval, boolean, timestamptz",
			  "INSERT INTO gpucredit.attempt_part (org, job, attempt, node,"
			  " turn, rank, outcome, exit_code, message, log_uri, elapsed,"
			  " gone, at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,"
			  " $11, $12, $13)");
/*
 * Every report of a part locks and changes the attempt's row. Therefore a call
 * with an older snapshot gets 40001. Otherwise it would miss earlier reports,
 * and that its own report is the last one.
 */
SQL_STATEMENT(part_heard, SPI_OK_UPDATE, "text, bigint, int, timestamptz",
			  "UPDATE gpucredit.attempt a SET heard_at = CASE"
			  "  WHEN a.ended_at IS NULL THEN $4 ELSE a.heard_at END"
			  " WHERE " OF_ATTEMPT("a"));
/* Whether the processes of all parts that have reported are gone. */
SQL_STATEMENT(parts_gone, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT pg_catalog.bool_and(p.gone)"
			  " FROM gpucredit.attempt_part p WHERE " OF_ATTEMPT("p"));
SQL_STATEMENT(parts_waited_for, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT ARRAY(SELECT g.node FROM gpucredit.attempt_gpu g"
			  " WHERE " OF_ATTEMPT("g") " AND g.ended_at IS NULL"
			  " AND NOT EXISTS (SELECT FROM gpucredit.attempt_part p"
			  "  WHERE " OF_ATTEMPT("p") " AND p.node = g.node)"
			  " ORDER BY g.node)");
SQL_STATEMENT(parts_late, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT COALESCE(p.elapsed, '0'), p.at,"
			  " gpucredit.gpu_count(g.gpus)"
			  " FROM gpucredit.attempt_gpu g JOIN gpucredit.attempt_part p"
			  "  ON " OF_ATTEMPT("p") " AND p.node = g.node"
			  " WHERE " OF_ATTEMPT("g"));
SQL_STATEMENT(rest_tell, SPI_OK_INSERT,
			  "text, bigint, int, text, timestamptz",
			  "INSERT INTO gpucredit.directive (org, job, attempt, cause,"
			  " action, reason, given_at)"
			  " VALUES ($1, $2, $3, 'part/' || $4, 'stop', '" PART_FAILED "',"
			  "  $5)"
			  " ON CONFLICT (org, job, attempt, cause) DO NOTHING");
SQL_STATEMENT(rest_release, SPI_OK_INSERT,
			  "text, bigint, int, text, timestamptz",
			  "INSERT INTO gpucredit.directive (org, job, attempt, cause,"
			  " action, reason, given_at)"
			  " SELECT $1, $2, $3, 'part/' || $4, 'stop', '" SCRIPT_ENDED "',"
			  "  $5 FROM gpucredit.job j WHERE j.org = $1 AND j.job = $2"
			  "  AND j.spec ->> 'launch' = 'once'"
			  " ON CONFLICT (org, job, attempt, cause) DO NOTHING");
SQL_STATEMENT(part_gone, SPI_OK_UPDATE,
			  "text, bigint, int, text, timestamptz",
			  "UPDATE gpucredit.attempt_gpu g SET free = true, seen_at = $5"
			  " WHERE " OF_ATTEMPT("g") " AND g.node = $4 AND NOT g.free"
			  " AND g.ended_at IS NOT NULL");

/* Stores a part's energy, if it is not stored yet and is not more than $6. */
SQL_STATEMENT(energy_set, SPI_OK_UPDATE,
			  "text, bigint, int, text, bigint, bigint",
			  "UPDATE gpucredit.attempt_gpu g SET energy_j = $5"
			  " WHERE " OF_ATTEMPT("g") " AND g.node = $4"
			  " AND g.energy_j IS NULL AND $5 <= $6"
			  " * gpucredit.gpu_count(g.gpus) * g.share / 1000");
SQL_STATEMENT(energy_is_set, SPI_OK_SELECT, "text, bigint, int, text",
			  "SELECT g.energy_j IS NOT NULL FROM gpucredit.attempt_gpu g"
			  " WHERE " OF_ATTEMPT("g") " AND g.node = $4");
SQL_STATEMENT(energy_add, SPI_OK_UPDATE_RETURNING, "text, bigint, int, bigint",
			  "UPDATE gpucredit.attempt a"
			  " SET energy_j = COALESCE(a.energy_j, 0) + $4"
			  " WHERE " OF_ATTEMPT("a") " RETURNING a.energy_j");

static void parse_part(FunctionCallInfo fcinfo, Part *part);
static void find_part(Part *part);
static bool store_energy(Part *part, const Job *job,
						 const Attempt *attempt);
static void report_part(Part *part, Job *job, Attempt *attempt);
static bool all_gone(const Part *part);
static bool stops_others(const Part *part, const Attempt *attempt);
static bool report_late(Part *part, Job *job, Attempt *attempt);
static bool report_late_part(Part *part, Job *job, Attempt *attempt);
static int64 late_ran(const Part *part, const Attempt *attempt);
static void write_part(const Part *part, TimestampTz now);
static void audit_part(const Part *part, const Job *job, TimestampTz now);
static Datum put_result(FunctionCallInfo fcinfo, const Part *part,
						bool replayed);

Datum
call_part_ended(PG_FUNCTION_ARGS)
{
	Part		part = {0};
	Attempt		attempt;
	Job			job;
	bool		replayed;
	bool		energy;

	parse_part(fcinfo, &part);
	SqlConnect();
	if (part.reported.outcome == NOT_STARTED)
		StrikeLock(part.node);
	if (!JobLock(part.org, part.job, true, &job))
		NotFoundJob(part.job);
	if (!AttemptLock(part.org, part.job, part.number, &attempt))
		AttemptRefuseUnknown(part.job, part.number);
	find_part(&part);
	energy = store_energy(&part, &job, &attempt);
	replayed = part.before || attempt.ended_at != DT_NOBEGIN;
	if (attempt.ended_at != DT_NOBEGIN)
		replayed = !report_late(&part, &job, &attempt);
	else if (!part.before)
		report_part(&part, &job, &attempt);
	replayed = replayed && !energy;
	if (replayed)
		CountReplay();
	return SqlFinishRow(put_result(fcinfo, &part, replayed));
}

/* Parses the arguments. */
static void
parse_part(FunctionCallInfo fcinfo, Part *part)
{
	part->org = ArgName(fcinfo, 0, "org");
	part->job = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	part->number = ArgInt4(fcinfo, 2, "attempt", PG_INT32_MIN, PG_INT32_MAX);
	part->node = ArgName(fcinfo, 3, "node");
	ParseSettlement(fcinfo, 4, 7, 5, 8, &part->reported);
	part->energy = PG_ARGISNULL(9) ? -1 :
		ArgInt8(fcinfo, 9, "energy_j", 0, MOST_ENERGY);
	if (part->energy >= 0 && SettledByApp(&part->reported))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("only an agent may report the energy of an attempt"),
				 errdetail("\"energy_j\" is measured on the node."),
				 errhint("Leave \"energy_j\" out.")));
}

/* Finds the position of the part among those of the attempt. */
static void
find_part(Part *part)
{
	SqlResult	row;

	row = SqlRun(&part_read,
				 VALUES(TextValue(part->org), Int8Value(part->job),
						Int4Value(part->number), TextValue(part->node)));
	if (SqlIsNull(row, 0, 2))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("node \"%s\" has no part of attempt %d of job %lld",
						ClipForMessage(part->node), part->number,
						(long long) part->job),
				 errdetail("The attempt has no devices there."),
				 errhint("Pass one of the nodes that gpucredit.heartbeat() "
						 "returned for it.")));
	part->nodes = SqlInt4(row, 0, 1);
	part->rank = SqlInt4(row, 0, 2);
	part->ended = SqlInt4(row, 0, 3);
	part->before = SqlBool(row, 0, 4);
}

/*
 * Stores the energy of a part, unless it is stored already, and adds it to the
 * attempt's. Returns whether it did. An implausible report is logged, and the
 * energy stays unknown.
 */
static bool
store_energy(Part *part, const Job *job, const Attempt *attempt)
{
	int64		us = ClockNow() - attempt->started_at + SettingClockSkew();
	StringInfo	line;

	if (part->energy < 0)
		return false;
	if (SqlRun(&energy_set,
			   VALUES(TextValue(part->org), Int8Value(part->job),
					  Int4Value(part->number), TextValue(part->node),
					  Int8Value(part->energy),
					  Int8Value(Max(us, 0) / 1000 * MOST_POWER / 1000))).n > 0)
	{
		part->reported.energy =
			SqlInt8(SqlRun(&energy_add,
						   VALUES(TextValue(part->org), Int8Value(part->job),
								  Int4Value(part->number),
								  Int8Value(part->energy))), 0, 1);
		return true;
	}
	if (SqlBool(SqlRun(&energy_is_set,
					   VALUES(TextValue(part->org), Int8Value(part->job),
							  Int4Value(part->number),
							  TextValue(part->node))), 0, 1))
		return false;
	line = LogBegin("energy_implausible");
	LogText(line, "node", part->node);
	LogText(line, "org", part->org);
	LogNumber(line, "job", part->job);
	LogNumber(line, "attempt", part->number);
	LogNumber(line, "energy_j", part->energy);
	LogTrace(line, &job->trace);
	LogAtCommit(line);
	return false;
}

/*
 * Stores the report of a part of a live attempt. Settles the attempt if all
 * parts have reported; otherwise orders the other parts to stop if they must.
 */
static void
report_part(Part *part, Job *job, Attempt *attempt)
{
	TimestampTz now = ClockNow();

	part->ended++;
	write_part(part, now);
	if (part->nodes > 1)
		audit_part(part, job, now);
	if (part->reported.outcome == NOT_STARTED && !attempt->directed)
		StrikeCount(attempt, part->node, &part->reported, now);
	if (part->ended < part->nodes)
	{
		bool		completed = part->reported.outcome == COMPLETED;

		if (completed ? part->rank > 0 : !stops_others(part, attempt))
			return;
		(void) SqlRun(completed ? &rest_release : &rest_tell,
					  VALUES(TextValue(part->org), Int8Value(part->job),
							 Int4Value(part->number), TextValue(part->node),
							 TimeValue(now)));
		return;
	}
	(void) PartsOutcome(attempt, true, &part->reported);
	part->reported.by_agent = all_gone(part);
	AttemptSettle(job, attempt, &part->reported);
}

/* Whether agents have reported that the processes of all parts are gone. */
static bool
all_gone(const Part *part)
{
	return SqlBool(SqlRun(&parts_gone,
						  VALUES(TextValue(part->org), Int8Value(part->job),
								 Int4Value(part->number))), 0, 1);
}

/*
 * Whether the other parts must stop. They must stop at once after a failure.
 * If the part ended because a directive ordered it, the others may use the
 * time that the directive allows.
 */
static bool
stops_others(const Part *part, const Attempt *attempt)
{
	MeterAnswer answer;

	switch (part->reported.outcome)
	{
		case COMPLETED:
			return false;
		case PREEMPTED:
		case CANCELLED:
		case TIMEOUT:
		case RESIZED:
		case REQUEUED:
			answer = AnswerLive(attempt, ClockNow());
			return answer.reason == NULL ||
				strcmp(answer.reason, "periodic") == 0;
		default:
			return true;
	}
}

/*
 * Handles a report for an attempt that has ended.  The report still frees the
 * part's devices and shows how long they were kept.  Returns false if the
 * report repeats an earlier one or changes nothing.
 */
static bool
report_late(Part *part, Job *job, Attempt *attempt)
{
	Settlement	stored = {0};

	if (!part->reported.by_agent)
		return false;
	if (PartGone(part->org, part->job, part->number, part->node, ClockNow()))
		WakePool(job->pool);
	if (part->nodes == 1 ?
		LateFinish(job, attempt, &part->reported, &stored) :
		!part->before && report_late_part(part, job, attempt))
		return true;
	AttemptLateReport(attempt, "part_ended",
					  OutcomeNames[part->reported.outcome],
					  part->reported.elapsed, true);
	return false;
}

/*
 * Stores the report of a gang's part after the attempt has ended.  If it is
 * the last one, it is billed as a late finish.
 */
static bool
report_late_part(Part *part, Job *job, Attempt *attempt)
{
	Settlement	stored = {0};
	TimestampTz now = ClockNow();

	part->ended++;
	write_part(part, now);
	audit_part(part, job, now);
	if (part->ended < part->nodes || !all_gone(part))
		return true;
	(void) PartsOutcome(attempt, true, &part->reported);
	part->reported.elapsed = late_ran(part, attempt);
	(void) LateFinish(job, attempt, &part->reported, &stored);
	return true;
}

/*
 * Returns how long an attempt ran whose parts ended after its settlement. It
 * is the settled time, and the time after the settlement of each node,
 * weighted by the node's devices. While a part kept the devices of its node,
 * nobody else could use them, but others could use those of nodes whose parts
 * had ended.
 */
static int64
late_ran(const Part *part, const Attempt *attempt)
{
	SqlResult	rows = SqlRun(&parts_late, VALUES(ATTEMPT_KEY(attempt)));
	int128		kept = 0;

	for (uint64 i = 0; i < rows.n; i++)
	{
		int64		most = SqlTime(rows, i, 2) - attempt->started_at +
			SettingClockSkew();
		int64		had = Min(AttemptHad(attempt, SqlDuration(rows, i, 1)),
							  most);

		kept += (int128) Max(had - attempt->elapsed, 0) * SqlInt4(rows, i, 3);
	}
	return AttemptRan(attempt) +
		(int64) ((kept + attempt->gpus - 1) / Max(attempt->gpus, 1));
}

/*
 * Marks the processes of an ended attempt as gone from a node, which frees its
 * devices there. Returns whether they were not free before.
 */
bool
PartGone(const char *org, int64 job, int32 attempt, const char *node,
		 TimestampTz now)
{
	return SqlRun(&part_gone,
				  VALUES(TextValue(org), Int8Value(job), Int4Value(attempt),
						 TextValue(node), TimeValue(now))).n > 0;
}

/* Stores a part's report. */
static void
write_part(const Part *part, TimestampTz now)
{
	(void) SqlRun(&part_insert,
				  VALUES(TextValue(part->org), Int8Value(part->job),
						 Int4Value(part->number), TextValue(part->node),
						 Int4Value(part->ended), Int4Value(part->rank),
						 TextValue(OutcomeNames[part->reported.outcome]),
						 part->reported.has_exit_code ?
						 Int4Value(part->reported.exit_code) : NullValue(),
						 TextValue(part->reported.message),
						 TextValue(part->reported.log_uri),
						 part->reported.elapsed >= 0 ?
						 DurationValue(part->reported.elapsed) : NullValue(),
						 BoolValue(part->reported.by_agent), TimeValue(now)));
	(void) SqlRun(&part_heard,
				  VALUES(TextValue(part->org), Int8Value(part->job),
						 Int4Value(part->number), TimeValue(now)));
}

/* Writes the audit row of a part's report. */
static void
audit_part(const Part *part, const Job *job, TimestampTz now)
{
	AuditRow	audit = {.org = part->org, .account = job->account,
		.operation = "part_ended",
		.decision = OutcomeNames[part->reported.outcome], .job = part->job,
		.attempt = part->number, .at = now, .trace = job->trace};

	AuditText(&audit, "node", part->node);
	AuditInt8(&audit, "rank", part->rank);
	if (part->reported.has_exit_code)
		AuditInt8(&audit, "exit_code", part->reported.exit_code);
	AuditText(&audit, "message", part->reported.message);
	AuditText(&audit, "log_uri", part->reported.log_uri);
	if (part->reported.elapsed >= 0)
		AuditInt8(&audit, "elapsed_us", part->reported.elapsed);
	if (part->reported.by_agent)
		AuditNumber(&audit, "gone", "true");
	if (part->energy >= 0)
		AuditInt8(&audit, "energy_j", part->energy);
	AuditWrite(&audit);
}

/* Returns the present state of the attempt. */
static Datum
put_result(FunctionCallInfo fcinfo, const Part *part, bool replayed)
{
	Datum		waits_for;
	Settlement	settled = {0};
	Attempt		attempt;
	bool		over;
	bool		isnull;
	Values	   *args = VALUES(TextValue(part->org), Int8Value(part->job),
							  Int4Value(part->number));

	if (!AttemptRead(part->org, part->job, part->number, &attempt))
		Ensure(false, "An attempt is missing.");
	over = attempt.ended_at != DT_NOBEGIN;
	if (over)
		AttemptSettled(&attempt, &settled);
	waits_for = SqlDatum(SqlRun(&parts_waited_for, args), 0, 1, &isnull);
	return RowReturn(fcinfo,
					 VALUES(BoolValue(over),
							TextValue(over ? OutcomeNames[settled.outcome] :
									  NULL),
							over ? NumericValue(settled.billed) : NullValue(),
							TextValue(over ? settled.job_state : NULL),
							TimeValueOrNull(over ? settled.retry_at :
											DT_NOBEGIN), DatumValue(waits_for),
							BoolValue(replayed)));
}
