/*-------------------------------------------------------------------------
 *
 * settle.c
 *		settle: an agent, or the job's owner, says how an attempt ended.
 *
 * Who settles again gets the stored row, whatever the call says; what an
 * agent then claims more is evidence for the trail.
 *
 * Locks: of an attempt that was not started its node; job, attempt, then as
 * settlement.c says.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/args.h"
#include "common/clock.h"
#include "common/errors.h"
#include "common/sql.h"
#include "common/unknown.h"
#include "entry/count.h"
#include "entry/entry.h"
#include "job/settlement.h"
#include "job/strike.h"

ENTRY_POINT(settle);

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
	bool		replayed;
	Row			row = {0};

	SettlementTake(fcinfo, 3, 4, 5, 7, &settlement);
	SqlConnect();
	if (settlement.outcome == NOT_STARTED && settlement.by_agent)
		node = StrikeLockOnly(org, id, number);
	if (!JobLock(org, id, true, &job))
		RefuseUnknownJob(id);
	if (!AttemptLock(org, id, number, &attempt))
		AttemptRefuseUnknown(id, number);
	replayed = attempt.ended_at != DT_NOBEGIN;
	if (replayed)
	{
		CountReplay();
		if (settlement.by_agent)
			AttemptLate(&attempt, "settle", OutcomeNames[settlement.outcome],
						settlement.elapsed, true);
		AttemptSettled(&attempt, &settlement);
	}
	else
	{
		if (node != NULL)
			StrikeCount(&attempt, node, ClockNow());
		AttemptSettle(&job, &attempt, &settlement);
	}

	RowText(&row, OutcomeNames[settlement.outcome]);
	RowCredits(&row, settlement.billed);
	RowCredits(&row, settlement.returned.released);
	RowCredits(&row, settlement.returned.lapsed);
	RowCredits(&row, settlement.refunded);
	RowText(&row, settlement.job_state);
	RowTime(&row, settlement.retry_at);
	RowAdd(&row, BoolGetDatum(replayed));
	return SqlFinishRow(RowReturn(fcinfo, &row));
}

/*
 * How an attempt ended, by arguments that have these places; the message stands
 * behind the exit code.  Who may meter says elapsed; only an agent's word is
 * that the attempt is gone.
 */
void
SettlementTake(FunctionCallInfo fcinfo, int outcome, int elapsed,
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
	settlement->by_agent = CallerHasRole("gpucredit_agent");
	if (settlement->elapsed >= 0 && !settlement->by_agent &&
		!CallerHasRole("gpucredit_admin"))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("only an agent may say how long an attempt ran"),
				 errdetail("\"elapsed\" is what the bill is made from."),
				 errhint("Leave \"elapsed\" out: what was metered stands.")));
}
