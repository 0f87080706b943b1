/*-------------------------------------------------------------------------
 *
 * settle.c
 *		SQL function settle: an agent, or the job's owner, reports how an
 *		attempt ended.
 *
 * A repeated settle returns the stored row. If a repeated report of an agent
 * claims more time, the audit log keeps the claim as evidence, except for the
 * agent's first report, which may change the settlement (late_finish.c).
 *
 * An owner may not report the elapsed time. The attempt ends now, and its
 * elapsed time is what the server can see. Its devices stay fenced until their
 * node reports that the processes are gone, and the owner pays for the fenced
 * time as well: for gpucredit.node_suspect at once, and for more when the
 * agent reports it.
 *
 * Locks: the node of an attempt that was not started; job, attempt, then as
 * settlement.c says.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/settings.h"
#include "util/sql.h"
#include "util/not_found.h"
#include "api/count.h"
#include "api/api.h"
#include "job/end/late_finish.h"
#include "job/end/settlement.h"
#include "job/end/strike.h"

API_FUNCTION(gpucredit_settle, settle);

/* Last sign of life of the node that has been silent for longest. */
SQL_STATEMENT(nodes_heard, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT pg_catalog.min(n.heard_at)"
			  " FROM gpucredit.attempt_gpu g JOIN gpucredit.node n"
			  "  ON n.pool = g.pool AND n.node = g.node"
			  " WHERE g.org = $1 AND g.job = $2 AND g.attempt = $3");

static bool settle_again(Job *job, Attempt *attempt,
						 Settlement *settlement);
static void estimate_owner_end(const Attempt *attempt, Settlement *settlement);

Datum
call_settle(PG_FUNCTION_ARGS)
{
	Settlement	settlement = {0};
	char	   *org = ArgName(fcinfo, 0, "org");
	int64		id = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	int32		number = ArgInt4(fcinfo, 2, "attempt", PG_INT32_MIN,
								 PG_INT32_MAX);
	Job			job;
	Attempt		attempt;
	char	   *node = NULL;
	bool		replayed = false;

	ParseSettlement(fcinfo, 3, 4, 5, 7, &settlement);
	SqlConnect();
	if (settlement.outcome == NOT_STARTED && settlement.by_agent)
		node = StrikeLockOnly(org, id, number);
	if (!JobLock(org, id, true, &job))
		NotFoundJob(id);
	if (!AttemptLock(org, id, number, &attempt))
		AttemptRefuseUnknown(id, number);
	if (attempt.ended_at != DT_NOBEGIN)
		replayed = settle_again(&job, &attempt, &settlement);
	else
	{
		if (node != NULL)
			StrikeCount(&attempt, node, &settlement, ClockNow());
		if (SettledByApp(&settlement))
			estimate_owner_end(&attempt, &settlement);
		AttemptSettle(&job, &attempt, &settlement);
	}

	return SqlFinishRow(RowReturn(fcinfo,
								  VALUES(TextValue(OutcomeNames[settlement.outcome]),
										 NumericValue(settlement.billed),
										 NumericValue(settlement.returned.released),
										 NumericValue(settlement.returned.lapsed),
										 NumericValue(settlement.refunded),
										 TextValue(settlement.job_state),
										 TimeValueOrNull(settlement.retry_at),
										 BoolValue(replayed),
										 NumericValue(settlement.uncollected))));
}

/*
 * Parses how an attempt ended from the arguments at these positions. The
 * message is the argument after the exit code. Only an agent or an
 * administrator may pass elapsed, and only an agent's report means that the
 * processes are gone.
 */
void
ParseSettlement(FunctionCallInfo fcinfo, int outcome, int elapsed,
				int exit_code, int log_uri, Settlement *settlement)
{
	settlement->outcome = (Outcome) ArgWord(ArgName(fcinfo, outcome,
													"outcome"),
											"outcome", OutcomeNames,
											OUTCOMES);
	settlement->elapsed = ArgDurationOr(fcinfo, elapsed, "elapsed", true, -1);
	settlement->has_exit_code = !PG_ARGISNULL(exit_code);
	settlement->exit_code = PG_ARGISNULL(exit_code) ? 0 :
		PG_GETARG_INT32(exit_code);
	settlement->message = ArgTextOrNull(fcinfo, exit_code + 1, "message");
	settlement->log_uri = ArgTextOrNull(fcinfo, log_uri, "log_uri");
	settlement->begun = ClockNow();
	settlement->by_agent = CallerHasRole("gpucredit_agent");
	settlement->ended_by = settlement->by_agent ? ENDED_BY_AGENT :
		CallerHasRole("gpucredit_admin") ? ENDED_BY_ADMIN : ENDED_BY_APP;
	if (settlement->elapsed >= 0 && SettledByApp(settlement))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("only an agent may report how long an attempt ran"),
				 errdetail("\"elapsed\" determines the bill."),
				 errhint("Leave \"elapsed\" out; then the attempt ends now.")));
}

/*
 * Handles a report about an attempt that has ended. Returns true if its
 * settlement stands and the report is only logged.
 */
static bool
settle_again(Job *job, Attempt *attempt, Settlement *settlement)
{
	Settlement	reported = *settlement;

	if (reported.by_agent && LateFinish(job, attempt, &reported, settlement))
		return false;
	CountReplay();
	if (reported.by_agent)
		AttemptLateReport(attempt, "settle", OutcomeNames[reported.outcome],
						  reported.elapsed, true);
	AttemptSettled(attempt, settlement);
	return true;
}

/*
 * Estimates how long an attempt ran whose owner ends it without its agent: the
 * metered time, and the time since then while its nodes live. Time on a silent
 * node counts until the node's last sign of life. Devices of living nodes are
 * fenced, and the owner pays for the fenced time as well.
 */
static void
estimate_owner_end(const Attempt *attempt, Settlement *settlement)
{
	TimestampTz now = ClockNow();
	int64		silent = SettingNodeSuspect() > 0 ? SettingNodeSuspect() :
		SettingNodeLost();
	TimestampTz heard;

	heard = SqlTimeOr(SqlRun(&nodes_heard, VALUES(ATTEMPT_KEY(attempt))), 0, 1,
					  attempt->heard_at);
	settlement->seen_until = Min(heard, now);
	if (silent == 0 || heard > ClockAdd(now, -silent))
	{
		settlement->seen_until = now;
		settlement->fence = SettingNodeSuspect();
	}
	settlement->elapsed = !attempt->running ? 0 : AttemptRan(attempt) +
		Max(settlement->seen_until - attempt->heard_at, 0);
}
