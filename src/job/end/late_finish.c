/*-------------------------------------------------------------------------
 *
 * late_finish.c
 *		Bills an attempt for time after its end, and completes a job whose
 *		attempt turns out to have completed.
 *
 * The server may have ended a silent attempt and requeued its job. If the
 * agent then reports that the attempt completed, and no other attempt of the
 * job has begun, the job ends as completed: it leaves the queue, its new hold
 * is released, and the attempt is billed for the time that it ran. If another
 * attempt has begun, the settlement is not changed.
 *
 * An owner may have ended an attempt whose process ran on until its agent
 * noticed, or the server may have ended one that its agent could not stop.
 * Then the settlement's outcome stands, and the time after it is billed,
 * because nobody else could use the devices. If a silent agent or a lost node
 * kept the devices, that time is not billed.
 *
 * All these bills are paid from the attempt's old hold: it is opened again,
 * the difference is drawn and spent, and the hold is closed. This happens once
 * for an attempt, at the agent's first report.
 *
 * Locks: the caller has locked the job and the attempt. Then the attempt's
 * hold, the job's new hold, budgets, buckets in burn order, and the job's
 * claim.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/settings.h"
#include "job/end/settlement.h"
#include "job/end/late_finish.h"
#include "shmem/wake.h"

SQL_STATEMENT(ended_read, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT a.ended_by FROM gpucredit.attempt a"
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3");
SQL_STATEMENT(attempt_mend, SPI_OK_UPDATE,
			  "text, bigint, int, interval, text, gpucredit.credits,"
			  " gpucredit.credits, gpucredit.credits, text, timestamptz, int,"
			  " text, text, timestamptz, interval, gpucredit.credits, interval",
			  "UPDATE gpucredit.attempt a SET elapsed = $4, outcome = $5,"
			  " billed = $6, held = $7, uncollected = $8, job_state = $9,"
			  " retry_at = $10, exit_code = COALESCE($11, a.exit_code),"
			  " message = COALESCE($12, a.message),"
			  " log_uri = COALESCE($13, a.log_uri), ended_by = 'agent',"
			  " late_at = $14, late_elapsed = $15, late_uncollected = $16,"
			  " overhead = $17"
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3");

static void bill_late(Job *job, Attempt *attempt, const Settlement *reported,
					  Settlement *stored, bool finishes, int64 before);
static bool ended_by_agent(const Attempt *attempt, bool *pays);
static void move_money(Job *job, Attempt *attempt, bool finishes,
					   Settlement *stored, Returned *unused);
static void write_attempt(const Attempt *attempt, const Settlement *reported,
						  const Settlement *stored, int64 ran_on,
						  Credits uncollected);
static void audit_late(const Job *job, const Attempt *attempt,
					   const Settlement *reported, const Settlement *stored,
					   bool finishes, Credits before,
					   const Returned *unused);

/*
 * Handles an agent's report of the end of a locked attempt that has already
 * ended.  Returns false if the report changes nothing. Otherwise stores the
 * changed settlement in *stored.
 */
bool
LateFinish(Job *job, Attempt *attempt, const Settlement *reported,
		   Settlement *stored)
{
	bool		pays;
	bool		finishes;
	int64		most;
	int64		had;
	Attempt		before = *attempt;

	if (ended_by_agent(attempt, &pays))
		return false;
	finishes = reported->outcome == COMPLETED && !job->cancelled &&
		job->attempt == attempt->attempt &&
		(strcmp(job->state, "queued") == 0 ||
		 strcmp(job->state, "unfunded") == 0);
	most = ClockNow() - attempt->started_at + SettingClockSkew();
	had = Min(AttemptHad(attempt, Max(reported->elapsed, 0)), most);
	attempt->elapsed = Max(before.elapsed,
						   Min(had + ReportWaited(reported->begun), most));
	if (!finishes && (!pays || attempt->elapsed == before.elapsed))
	{
		*attempt = before;
		return false;
	}
	AttemptSettled(attempt, stored);
	bill_late(job, attempt, reported, stored, finishes, before.elapsed);
	return true;
}

/*
 * Bills an attempt for the time for which it has had its devices by now. It
 * was billed for the time `before` when it was settled.
 */
static void
bill_late(Job *job, Attempt *attempt, const Settlement *reported,
		  Settlement *stored, bool finishes, int64 before)
{
	Credits		billed = stored->billed;
	Credits		uncollected = stored->uncollected;
	Returned	unused = {0, 0};

	stored->cost = AttemptCost(attempt, attempt->elapsed);
	stored->unpaid = NULL;
	move_money(job, attempt, finishes, stored, &unused);
	if (finishes)
	{
		stored->outcome = COMPLETED;
		stored->job_state = "completed";
		stored->retry_at = DT_NOBEGIN;
	}
	write_attempt(attempt, reported, stored, attempt->elapsed - before,
				  stored->uncollected - uncollected);
	AttemptLogUsage(attempt, stored->billed, stored->at);
	if (finishes)
	{
		JobSetState(job, "completed", job->hold, job->failures, DT_NOBEGIN,
					stored->at);
		JobDropClaim(job);
		WakePool(job->pool);
	}
	audit_late(job, attempt, reported, stored, finishes, billed, &unused);
	ReportShortfall(job, attempt, stored, stored->uncollected - uncollected);
}

/*
 * Whether the attempt's agent had already ended it. If not, *pays is set to
 * whether the owner pays for the time after the end.
 */
static bool
ended_by_agent(const Attempt *attempt, bool *pays)
{
	const char *by;
	int64		silent = SettingHeartbeatTimeout();

	by = SqlText(SqlRun(&ended_read, VALUES(ATTEMPT_KEY(attempt))), 0, 1);
	*pays = strcmp(by, ENDED_BY_APP) == 0 ||
		(strcmp(by, ENDED_BY_SERVER) == 0 && attempt->running &&
		 strcmp(attempt->outcome, OutcomeNames[NODE_LOST]) != 0 &&
		 (silent == 0 ||
		  attempt->heard_at > ClockAdd(attempt->ended_at, -silent)));
	return strcmp(by, ENDED_BY_AGENT) == 0;
}

/*
 * Releases the hold of the job's next attempt if no next attempt is needed,
 * and bills what the attempt owes. If the job is complete, no work was lost,
 * so what was refunded for lost work is billed again. Otherwise that refund
 * stands.
 */
static void
move_money(Job *job, Attempt *attempt, bool finishes, Settlement *stored,
		   Returned *unused)
{
	Cause		cause = {"settle", attempt->job, attempt->attempt};
	Cause		release = {"settle", attempt->job, 0};
	Purpose		purpose = JobPurpose(job);
	Hold		holds[2];
	int			n = 1;
	LockedBuckets locked;
	Credits		paid = stored->billed - (finishes ? stored->refunded : 0);
	Credits		missing = Max(stored->cost - paid, 0);
	Credits		drawn = 0;

	stored->at = ClockNow();
	if (!HoldLock(job->org, attempt->hold, true, &holds[0]))
		Ensure(false, "An attempt has no hold.");
	if (finishes && strcmp(job->state, "queued") == 0)
	{
		if (!HoldLock(job->org, job->hold, true, &holds[1]))
			Ensure(false, "A job has no hold.");
		n = 2;
	}
	if (missing > 0)
		locked = HoldsLockForNext(holds, n, &purpose, PG_INT64_MAX);
	if (n == 2)
		*unused = HoldSettle(&holds[1], &release, 0, true, &stored->at);
	stored->closed_at = stored->at;
	if (missing > 0)
	{
		holds[0].closed_at = DT_NOBEGIN;
		drawn = CollectMissing(job, &holds[0], &locked, &cause, missing,
							   stored);
		if (drawn > 0)
			(void) HoldSettle(&holds[0], &cause, drawn, true, &stored->at);
	}
	stored->billed = CreditsAdd(stored->billed, drawn);
	stored->uncollected = stored->cost - paid - drawn;
	attempt->held = Max(attempt->held, stored->billed);
	if (stored->uncollected > 0)
		attempt->held = stored->billed;
}

/*
 * Stores the new settlement, and the time and the uncollected amount that this
 * call added.
 */
static void
write_attempt(const Attempt *attempt, const Settlement *reported,
			  const Settlement *stored, int64 ran_on, Credits uncollected)
{
	Ensure(SqlRun(&attempt_mend,
				  VALUES(ATTEMPT_KEY(attempt), DurationValue(attempt->elapsed),
						 TextValue(OutcomeNames[stored->outcome]),
						 CreditsValue(stored->billed),
						 CreditsValue(attempt->held),
						 CreditsValue(stored->uncollected),
						 TextValue(stored->job_state),
						 TimeValueOrNull(stored->retry_at),
						 reported->has_exit_code ?
						 Int4Value(reported->exit_code) : NullValue(),
						 TextValue(reported->message),
						 TextValue(reported->log_uri), TimeValue(stored->at),
						 DurationValue(ran_on),
						 CreditsValue(uncollected),
						 DurationValue(attempt->overhead))).n == 1,
		   "An attempt is missing.");
}

/* Audits the change of the settlement, with the sums before and after. */
static void
audit_late(const Job *job, const Attempt *attempt, const Settlement *reported,
		   const Settlement *stored, bool finishes, Credits before,
		   const Returned *unused)
{
	AuditRow	audit = {.org = job->org, .account = job->account,
		.operation = "settle", .decision = OutcomeNames[stored->outcome],
		.reason = finishes ? "late_finish" : "ran_on",
		.job = attempt->job, .attempt = attempt->attempt,
		.hold = attempt->hold, .at = stored->at, .trace = job->trace};

	if (reported->elapsed >= 0 &&
		AttemptHad(attempt, reported->elapsed) > attempt->elapsed)
		AuditInt8(&audit, "claimed_us", reported->elapsed);
	AuditInt8(&audit, "elapsed_us", attempt->elapsed);
	AuditCredits(&audit, "billed", stored->billed);
	AuditCredits(&audit, "billed_before", before);
	AuditCredits(&audit, "released", unused->released);
	AuditCredits(&audit, "lapsed", unused->lapsed);
	if (stored->uncollected > 0)
	{
		AuditCredits(&audit, "uncollected", stored->uncollected);
		AuditText(&audit, "unpaid", stored->unpaid);
	}
	AuditText(&audit, "job_state", stored->job_state);
	if (stored->closed_at != stored->at)
		AuditTime(&audit, "closed_at", stored->closed_at);
	AuditWrite(&audit);
}
