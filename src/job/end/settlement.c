/*-------------------------------------------------------------------------
 *
 * settlement.c
 *		Settles the end of an attempt, exactly once.
 *
 * The bill is the attempt's price per hour times the elapsed time, rounded
 * once. The elapsed time begins when the devices are allocated, and does not
 * end at the wall limit. If the hold does not cover the bill, the missing
 * amount is drawn first, from the same buckets and within the same budgets as
 * an extension, but as much as there is. What is then still missing is
 * uncollected. The rest of the hold returns to its buckets. The devices become
 * free. If the platform lost work that the job's tier does not bill, the time
 * that must be repeated is refunded. Then the job ends, or is requeued under a
 * new hold. All of this is one transaction.
 *
 * If an attempt's agent did not report the end, its processes may still run.
 * Then its devices become free once a heartbeat of the node does not name the
 * attempt, or once gpucredit.node_lost has passed and the node sends
 * heartbeats.
 *
 * Locks: the caller has locked the job, then the attempt. Then the hold,
 * budgets, and buckets in burn order. The buckets of a new hold or of an
 * extension are locked together with those of the old hold.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/settings.h"
#include "util/sql.h"
#include "job/checkpoint.h"
#include "job/idle.h"
#include "job/end/job_alert.h"
#include "job/end/stop_reason.h"
#include "job/end/retry.h"
#include "job/end/strike.h"
#include "job/end/settlement.h"
#include "ledger/refund.h"
#include "shmem/wake.h"
#include "ledger/uncollected.h"

/* how often a job whose agent fell silent is retried at least */
#define PLATFORM_RETRIES	3

SQL_STATEMENT(attempt_end, SPI_OK_UPDATE,
			  "text, bigint, int, interval, timestamptz, text,"
			  " gpucredit.credits, gpucredit.credits, gpucredit.credits,"
			  " gpucredit.credits, text, timestamptz, int, text, text,"
			  " timestamptz, gpucredit.credits, gpucredit.credits, text,"
			  " interval",
			  "UPDATE gpucredit.attempt a SET elapsed = $4, ended_at = $5,"
			  " outcome = $6, billed = $7, released = $8, lapsed = $9,"
			  " refunded = $10, job_state = $11, retry_at = $12,"
			  " exit_code = $13, message = $14, log_uri = $15,"
			  " skewed_at = $16, held = $17, uncollected = $18,"
			  " ended_by = $19, surplus = '0', needs_cycle = true,"
			  " overhead = $20"
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3");
SQL_STATEMENT(devices_free, SPI_OK_UPDATE,
			  "text, bigint, int, timestamptz, boolean",
			  "UPDATE gpucredit.attempt_gpu g SET ended_at = $4, free = $5"
			  " OR EXISTS (SELECT FROM gpucredit.attempt_part p"
			  "  WHERE p.org = $1 AND p.job = $2 AND p.attempt = $3"
			  "  AND p.node = g.node AND p.gone)"
			  " WHERE g.org = $1 AND g.job = $2 AND g.attempt = $3");
SQL_STATEMENT(directives_end, SPI_OK_DELETE, "text, bigint, int",
			  "DELETE FROM gpucredit.directive d"
			  " WHERE d.org = $1 AND d.job = $2 AND d.attempt = $3");
SQL_STATEMENT(stored_read, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT a.outcome, a.billed, a.released, a.lapsed, a.refunded,"
			  " a.job_state, a.retry_at, COALESCE(a.uncollected, '0')"
			  " FROM gpucredit.attempt a"
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3");

const char *const OutcomeNames[OUTCOMES] = {
	"completed", "failed", "out_of_memory", "timeout", "preempted",
	"cancelled", "node_lost", "resized", "not_started", "requeued"
};

/* Exit codes that a shell reports for a process that a signal ended. */
#define EXIT_SIGKILL	137
#define EXIT_SIGTERM	143

/*
 * Reads how the parts of an attempt ended, the cause of the end first. In a
 * job whose script runs on its first node only, a part that ends after the
 * script is not the cause.
 */
SQL_STATEMENT(parts_ended, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT p.outcome, p.exit_code, p.message, p.node, p.rank,"
			  " p.log_uri, pg_catalog.max(p.elapsed) OVER ()"
			  " FROM gpucredit.attempt_part p WHERE p.org = $1"
			  " AND p.job = $2 AND p.attempt = $3"
			  " ORDER BY p.outcome = 'completed' OR EXISTS"
			  "  (SELECT FROM gpucredit.directive d"
			  "   JOIN gpucredit.attempt_part f ON f.org = d.org"
			  "    AND f.job = d.job AND f.attempt = d.attempt"
			  "   WHERE d.org = $1 AND d.job = $2 AND d.attempt = $3"
			  "   AND d.reason = '" SCRIPT_ENDED "' AND f.rank = 0"
			  "   AND f.turn < p.turn),"
			  " p.outcome <> 'completed', p.turn LIMIT 1");

SQL_STATEMENT(platform_directs, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT EXISTS (SELECT FROM gpucredit.directive d"
			  " WHERE d.org = $1 AND d.job = $2 AND d.attempt = $3"
			  " AND NOT d.own AND (d.cause IN ('claim', 'reclaim')"
			  "  OR d.cause LIKE 'drain/%' OR d.cause LIKE 'boot/%'"
			  "  OR d.cause LIKE 'device/%'))");

SQL_STATEMENT(requeue_directs, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT EXISTS (SELECT FROM gpucredit.directive d"
			  " WHERE d.org = $1 AND d.job = $2 AND d.attempt = $3"
			  " AND d.cause = '" REQUEUE_CAUSE "')");

/*
 * Waits shorter than LEAST_WAIT occur on any busy server and are not billed. A
 * tenant's transaction can keep a report waiting for
 * gpucredit.tenant_block_max and then until the upkeep worker checks again,
 * for WORKER_LOOKS at most (worker/upkeep_worker.c). If a report waited
 * longer, the reason is not the tenant, and the rest is not billed.
 */
#define LEAST_WAIT		(INT64CONST(1000) * 1000)
#define WORKER_LOOKS	(INT64CONST(5000) * 1000)

static bool platform_did_not_start(const Settlement *settlement);
static bool platform_lost(const Settlement *settlement,
						  const Attempt *attempt);
static void cut_elapsed(Settlement *settlement, Attempt *attempt);
static bool owner_requeued(const Settlement *settlement, const Job *job,
						   const Attempt *attempt);
static void outcome_from_signal(Settlement *settlement, const Job *job,
								const Attempt *attempt);
static void explain_idle(Settlement *settlement, const Attempt *attempt);
static bool of_platform(const Settlement *settlement);
static void next_job_state(Settlement *settlement, const Job *job);
static bool loses_age(const Settlement *settlement, const Job *job);
static int64 backoff(const Settlement *settlement, const Job *job);
static void move_money(Settlement *settlement, Job *job, Attempt *attempt);
static void bill_wait(Settlement *settlement, Attempt *attempt);
static void refund_lost(Settlement *settlement, const Job *job,
						const Attempt *attempt, Hold *hold);
static void end_attempt(const Settlement *settlement, const Attempt *attempt);
static void free_devices(const Settlement *settlement,
						 const Attempt *attempt);
static void audit_settled(const Settlement *settlement, const Job *job,
						  const Attempt *attempt);

/* Settles a live attempt. */
void
AttemptSettle(Job *job, Attempt *attempt, Settlement *settlement)
{
	settlement->retry_at = DT_NOBEGIN;
	if (attempt->directed && settlement->node == NULL &&
		(settlement->outcome == COMPLETED || settlement->outcome == FAILED))
		(void) PartsOutcome(attempt, false, settlement);
	cut_elapsed(settlement, attempt);
	settlement->cost = AttemptCost(attempt, attempt->elapsed);
	if (owner_requeued(settlement, job, attempt))
	{
		settlement->outcome = REQUEUED;
		settlement->reason = REQUEUE_REASON;
	}

	outcome_from_signal(settlement, job, attempt);
	explain_idle(settlement, attempt);
	next_job_state(settlement, job);
	if (loses_age(settlement, job))
		job->waited = 0;
	move_money(settlement, job, attempt);
	if (settlement->requeue)
		settlement->retry_at = ClockAdd(settlement->at,
										backoff(settlement, job));
	end_attempt(settlement, attempt);
	free_devices(settlement, attempt);
	AttemptLogUsage(attempt, settlement->billed, settlement->at);
	JobSetState(job, settlement->job_state, job->hold, settlement->failures,
				settlement->requeue ? settlement->retry_at : DT_NOBEGIN,
				settlement->requeue ? DT_NOBEGIN : settlement->at);
	if (!settlement->requeue && attempt->directed)
		JobDropClaim(job);
	audit_settled(settlement, job, attempt);
	ReportShortfall(job, attempt, settlement, settlement->uncollected);
	AlertEnded(job, attempt, settlement);
	WakePool(job->pool);
}

/* Reads the settlement that an earlier call stored. */
void
AttemptSettled(const Attempt *attempt, Settlement *settlement)
{
	SqlResult	row = SqlRun(&stored_read, VALUES(ATTEMPT_KEY(attempt)));

	settlement->outcome = (Outcome) ArgWord(SqlText(row, 0, 1), "outcome",
											OutcomeNames, OUTCOMES);
	settlement->billed = SqlCredits(row, 0, 2);
	settlement->returned.released = SqlCredits(row, 0, 3);
	settlement->returned.lapsed = SqlCredits(row, 0, 4);
	settlement->refunded = SqlCredits(row, 0, 5);
	settlement->job_state = SqlText(row, 0, 6);
	settlement->retry_at = SqlTimeOr(row, 0, 7, DT_NOBEGIN);
	settlement->uncollected = SqlCredits(row, 0, 8);
}

/*
 * Computes the final elapsed time: the reported one, but at least the metered
 * one and at most what passed by the server's clock. If this is the agent's
 * first report, or the owner ends an attempt before the first report, the time
 * before the start of the processes is computed now.
 *
 * Otherwise that time was computed at the first report and includes how long
 * that report took to arrive. If the agent's last report leaves less time
 * before the start, the smaller time counts: otherwise an attempt would be
 * billed for longer than it had its devices. When an owner ends an attempt,
 * the elapsed time is the server's estimate, which says nothing about the
 * start.
 */
static void
cut_elapsed(Settlement *settlement, Attempt *attempt)
{
	TimestampTz now = ClockNow();
	int64		most = Max(now - attempt->started_at, 0) + SettingClockSkew();
	int64		startup = AttemptStartup(attempt, settlement->elapsed,
										 settlement->seen_until != 0 ?
										 settlement->seen_until : now);
	int64		had;

	if (attempt->running && settlement->seen_until == 0)
		attempt->overhead = Min(attempt->overhead, startup);
	else if (!attempt->running && !platform_did_not_start(settlement))
		attempt->overhead = startup;
	had = AttemptHad(attempt, Max(settlement->elapsed, 0));
	if (had > most)
	{
		if (attempt->skewed_at == DT_NOBEGIN)
			attempt->skewed_at = now;
		had = most;
	}
	attempt->elapsed = Max(attempt->elapsed, had) + settlement->fence;
	attempt->overhead += settlement->fence;
}

/*
 * Whether the platform is the reason that an attempt without a report from its
 * agent did not start: its node could not start it, was lost, or never
 * reported. If the image could not be fetched, the submitter is responsible.
 */
static bool
platform_did_not_start(const Settlement *settlement)
{
	if (settlement->outcome == NOT_STARTED)
		return !ImageIsAtFault(settlement->message);
	return settlement->outcome == NODE_LOST || settlement->ended_by == NULL;
}

/*
 * Whether the program of an attempt ended, with whatever exit code, after its
 * owner had the job run again. An attempt that ended for another reason, and a
 * cancelled job, keep their outcome.
 */
static bool
owner_requeued(const Settlement *settlement, const Job *job,
			   const Attempt *attempt)
{
	switch (settlement->outcome)
	{
		case COMPLETED:
		case FAILED:
		case OUT_OF_MEMORY:
		case TIMEOUT:
			return attempt->directed && !job->cancelled &&
				SqlBool(SqlRun(&requeue_directs,
							   VALUES(ATTEMPT_KEY(attempt))), 0, 1);
		default:
			return false;
	}
}

/*
 * Changes the outcome if the signal of an ordered stop ended the process. The
 * outcome is then the reason for the stop and no failure of the job, unless
 * the job was stuck. After a directive to save, an exit by SIGTERM may also
 * mean that the job has saved and leaves.
 */
static void
outcome_from_signal(Settlement *settlement, const Job *job, const Attempt *attempt)
{
	Settlement	stop = {.message = settlement->message};

	if (settlement->outcome != FAILED || !settlement->has_exit_code ||
		(settlement->exit_code != EXIT_SIGTERM &&
		 settlement->exit_code != EXIT_SIGKILL))
		return;
	if (!StopReasonSince(attempt, ClockNow(), 0, &stop))
	{
		if (settlement->exit_code == EXIT_SIGKILL ||
			!(attempt->directed || attempt->extension_denied))
			return;
		stop.outcome = PREEMPTED;
	}
	else if (stop.reason != NULL && strcmp(stop.reason, PART_FAILED) == 0)
		return;					/* The failed part, and not this one, is the
								 * cause. */
	settlement->message = stop.message;
	settlement->reason = stop.outcome == TIMEOUT || stop.outcome == FAILED ?
		stop.reason : "made_to_leave";
	settlement->outcome = job->cancelled ? CANCELLED : stop.outcome;
}

/*
 * Sets the reason of an attempt that ended by the idle limit of its tier, and a
 * message for its owner if the program left none. Agents report such an end as
 * a timeout, as they do at the wall limit, which is the reason if both passed.
 */
static void
explain_idle(Settlement *settlement, const Attempt *attempt)
{
	if (settlement->outcome != TIMEOUT || !IdleIsOver(attempt, 0) ||
		(attempt->wall_limit >= 0 &&
		 AttemptRan(attempt) >= attempt->wall_limit))
		return;
	settlement->reason = IDLE_REASON;
	if (settlement->message == NULL || *settlement->message == '\0')
		settlement->message =
			psprintf("its GPUs were idle for %lld s, and nobody typed in a"
					 " terminal of it", (long long)
					 (attempt->idle_for / USECS_PER_SEC));
}

/*
 * Whether an attempt failed only because its agent fell silent.  In that case
 * the job is retried even if failures of its own program are not retried.
 */
static bool
of_platform(const Settlement *settlement)
{
	return settlement->ended_by == NULL && settlement->reason != NULL &&
		strcmp(settlement->reason, NOT_HEARD_FROM) == 0;
}

/* Decides whether the job has ended or is requeued. */
static void
next_job_state(Settlement *settlement, const Job *job)
{
	static const char *const last_state[OUTCOMES] = {
		"completed", "failed", "failed", "timeout", NULL, "cancelled", NULL,
		NULL, NULL, NULL
	};

	settlement->failures = job->failures;
	settlement->job_state = last_state[settlement->outcome];
	settlement->requeue = settlement->job_state == NULL;
	if (settlement->outcome == FAILED || settlement->outcome == OUT_OF_MEMORY)
	{
		RetryRule	rule = RetryMatch(settlement);

		settlement->rule = rule.rule;
		settlement->advice = rule.advice;
		settlement->requeue = !rule.permanent &&
			job->failures < (of_platform(settlement) ?
							 Max(job->max_retries, PLATFORM_RETRIES) :
							 job->max_retries);
		if (settlement->requeue || settlement->outcome == FAILED)
			settlement->failures++;
	}
	if (job->cancelled && settlement->outcome != COMPLETED)
	{
		settlement->requeue = false;
		settlement->job_state = "cancelled";
	}
}

/*
 * Whether a job that is requeued waits anew, without the age that it had in
 * the queue: its owner had it run again, or its own program failed. A job that
 * has waited long once would otherwise go before others again and again, by
 * requeuing itself, or by failing until its retries are used up. A job whose
 * agent fell silent, or that was evicted or lost its node, keeps its age.
 */
static bool
loses_age(const Settlement *settlement, const Job *job)
{
	return settlement->outcome == REQUEUED ||
		(settlement->failures > job->failures && !of_platform(settlement));
}

/*
 * Returns how long the job waits before it is retried. A job that is requeued
 * by its owner waits as after one failure, so that a job that requeues itself
 * at once does not occupy the scheduler.
 */
static int64
backoff(const Settlement *settlement, const Job *job)
{
	if (settlement->outcome == REQUEUED)
		return RetryBackoff(1);
	if (settlement->outcome == NOT_STARTED)
		return RetryBackoff(RetryNotStarted(job) + 1);
	return settlement->failures > job->failures ?
		RetryBackoff(settlement->failures) : 0;
}

/*
 * Locks everything that the settlement changes, in one step, because a call
 * that waits for a lock and then requests more locks could deadlock. Then
 * draws the missing amount, spends the bill, releases the rest of the hold,
 * and opens a new hold if the job is requeued.
 */
static void
move_money(Settlement *settlement, Job *job, Attempt *attempt)
{
	Cause		cause = {"settle", attempt->job, attempt->attempt};
	LockedBuckets locked;
	HoldCredit *credit = NULL;
	bool		locks_path;
	Credits		missing;
	Hold		hold;
	Job			next = *job;

	if (!HoldLock(job->org, attempt->hold, true, &hold))
		Ensure(false, "An attempt has no hold.");
	missing = Max(settlement->cost - hold.held, 0);
	locks_path = settlement->requeue || missing > 0;
	if (locks_path)
	{
		Purpose		purpose = JobPurpose(job);
		Credits		amount = settlement->requeue ? JobNextHold(&next) : 0;

		locked = HoldsLockForNext(&hold, 1, &purpose,
								  missing > 0 ? PG_INT64_MAX : amount);
	}
	else
		credit = HoldLockCredit(&hold);
	bill_wait(settlement, attempt);
	missing = Max(settlement->cost - hold.held, 0);
	if (missing > 0)
		(void) CollectMissing(job, &hold, locks_path ? &locked : NULL, &cause,
							  missing, settlement);
	if (missing > 0 || credit == NULL)
		credit = HoldLockCredit(&hold);
	settlement->billed = Min(settlement->cost, hold.held);
	settlement->uncollected = settlement->cost - settlement->billed;
	attempt->held = Max(attempt->held, settlement->billed);
	settlement->returned = HoldSettleLocked(&hold, credit, &cause,
											settlement->billed, true,
											&settlement->at);
	settlement->closed_at = settlement->at;
	refund_lost(settlement, job, attempt, &hold);
	if (!settlement->requeue)
		return;
	job->offers = next.offers;
	job->resources = next.resources;
	settlement->job_state =
		JobOpenHold(job, "requeue", &locked, true,
					&settlement->at) == LEDGER_DONE ?
		"queued" : "unfunded";
}

/*
 * Bills the time for which an agent's report of the end waited for locks. A
 * tenant's own transaction may hold these locks, and until the report is
 * stored nobody else can use the devices.
 */
static void
bill_wait(Settlement *settlement, Attempt *attempt)
{
	int64		most = ClockNow() - attempt->started_at + SettingClockSkew() -
		attempt->elapsed;

	if (!settlement->by_agent || settlement->begun == 0 ||
		settlement->cost == 0)
		return;
	settlement->waited = Max(Min(ReportWaited(settlement->begun), most), 0);
	attempt->elapsed += settlement->waited;
	attempt->overhead += settlement->waited;
	settlement->cost = AttemptCost(attempt, attempt->elapsed);
}

/*
 * Returns how long a report that began at the given instant has waited, as far
 * as the account pays for the wait.
 */
int64
ReportWaited(TimestampTz begun)
{
	int64		waited = ClockNow() - begun;
	int64		most = SettingTenantBlockMax() > 0 ?
		SettingTenantBlockMax() + WORKER_LOOKS : SettingStartupMax();

	return waited < LEAST_WAIT ? 0 : Min(waited, most);
}

/*
 * Refunds what was spent on lost work: the time since the last checkpoint, if
 * the platform lost that work and the tier does not bill it. Refunds
 * everything if a node of a gang could not start its part. Refunds nothing if
 * the job's owner or program ended the attempt, because otherwise work could
 * be free of charge. The time for which the report waited for the tenant is
 * never refunded.
 */
static void
refund_lost(Settlement *settlement, const Job *job, const Attempt *attempt,
			Hold *hold)
{
	Cause		cause = {"refund", attempt->job, attempt->attempt};
	Attempt		saved = *attempt;
	int64		ran = attempt->elapsed - settlement->waited;
	Credits		lost;
	Returned	back;

	if (settlement->billed == 0 || SettledByApp(settlement))
		return;
	if (settlement->outcome == NOT_STARTED &&
		!ImageIsAtFault(settlement->message))
		saved.elapsed = 0;
	else if (settlement->requeue && platform_lost(settlement, attempt) &&
			 !LostWorkIsBilled(job->tier, settlement->outcome))
		saved.elapsed = Min(CheckpointElapsed(attempt), ran);
	else
		return;
	lost = Min(settlement->billed, AttemptCost(attempt, ran)) -
		AttemptBill(&saved);
	if (lost <= 0)
		return;
	back = HoldsRefund(hold, 1, &cause, lost, &settlement->at);
	settlement->refunded = back.released;
	settlement->returned.lapsed += back.lapsed;
}

/*
 * Whether the platform ended an attempt: its node, device or agent was lost,
 * or a cycle or an operator needed its devices. The outcome alone does not
 * prove this, because an agent derives it from how the program ended. If a job
 * of the same organisation preempted this one, the organisation and not the
 * platform ended it.
 */
static bool
platform_lost(const Settlement *settlement, const Attempt *attempt)
{
	switch (settlement->outcome)
	{
		case NODE_LOST:
			return true;
		case FAILED:
			return settlement->reason != NULL &&
				strcmp(settlement->reason, NOT_HEARD_FROM) == 0;
		case PREEMPTED:
		case RESIZED:
			if (settlement->reason != NULL &&
				strcmp(settlement->reason, NODE_RECLAIMED) == 0)
				return true;
			return attempt->directed &&
				SqlBool(SqlRun(&platform_directs,
							   VALUES(ATTEMPT_KEY(attempt))), 0, 1);
		default:
			return false;
	}
}

/* Stores the settlement in the attempt's row. */
static void
end_attempt(const Settlement *settlement, const Attempt *attempt)
{
	Ensure(SqlRun(&attempt_end,
				  VALUES(ATTEMPT_KEY(attempt), DurationValue(attempt->elapsed),
						 TimeValue(settlement->at),
						 TextValue(OutcomeNames[settlement->outcome]),
						 CreditsValue(settlement->billed),
						 CreditsValue(settlement->returned.released),
						 CreditsValue(settlement->returned.lapsed),
						 CreditsValue(settlement->refunded),
						 TextValue(settlement->job_state),
						 TimeValueOrNull(settlement->retry_at),
						 settlement->has_exit_code ?
						 Int4Value(settlement->exit_code) : NullValue(),
						 TextValue(settlement->message),
						 TextValue(settlement->log_uri),
						 TimeValueOrNull(attempt->skewed_at),
						 CreditsValue(attempt->held),
						 CreditsValue(settlement->uncollected),
						 TextValue(settlement->ended_by ?
								   settlement->ended_by :
								   ENDED_BY_SERVER),
						 DurationValue(attempt->overhead))).n == 1,
		   "An attempt is missing.");
}

/*
 * Frees the devices. If an agent has not reported that its part ended, the
 * devices stay fenced until it does.
 */
static void
free_devices(const Settlement *settlement, const Attempt *attempt)
{
	(void) SqlRun(&devices_free,
				  VALUES(ATTEMPT_KEY(attempt), TimeValue(settlement->at),
						 BoolValue(settlement->by_agent)));
	if (!attempt->directed)
		return;
	(void) SqlRun(&directives_end, VALUES(ATTEMPT_KEY(attempt)));
}

/*
 * Writes the audit row of the settlement, with the claimed time that is not
 * billed.
 */
static void
audit_settled(const Settlement *settlement, const Job *job,
			  const Attempt *attempt)
{
	AuditRow	audit = {.org = job->org, .account = job->account,
		.operation = "settle", .decision = OutcomeNames[settlement->outcome],
		.job = attempt->job, .attempt = attempt->attempt,
		.hold = attempt->hold, .at = settlement->at, .trace = job->trace};

	audit.reason = settlement->reason;
	if (AttemptHad(attempt, settlement->elapsed) > attempt->elapsed)
	{
		audit.reason = "elapsed_cut";
		AuditInt8(&audit, "claimed_us", settlement->elapsed);
	}
	AuditInt8(&audit, "elapsed_us", attempt->elapsed);
	if (attempt->overhead > 0)
		AuditInt8(&audit, "overhead_us", attempt->overhead);
	AuditCredits(&audit, "billed", settlement->billed);
	AuditCredits(&audit, "released", settlement->returned.released);
	AuditCredits(&audit, "lapsed", settlement->returned.lapsed);
	if (settlement->refunded > 0)
		AuditCredits(&audit, "refunded", settlement->refunded);
	if (settlement->uncollected > 0)
	{
		AuditCredits(&audit, "uncollected", settlement->uncollected);
		AuditText(&audit, "unpaid", settlement->unpaid);
	}
	AuditText(&audit, "job_state", settlement->job_state);
	AuditText(&audit, "ended_by", settlement->ended_by ?
			  settlement->ended_by : ENDED_BY_SERVER);
	if (settlement->retry_at != DT_NOBEGIN)
		AuditTime(&audit, "retry_at", settlement->retry_at);
	if (settlement->closed_at != settlement->at)
		AuditTime(&audit, "closed_at", settlement->closed_at);
	if (settlement->waited > 0)
		AuditInt8(&audit, "waited_us", settlement->waited);
	if (settlement->has_exit_code)
		AuditInt8(&audit, "exit_code", settlement->exit_code);
	if (settlement->energy > 0)
		AuditInt8(&audit, "energy_j", settlement->energy);
	AuditText(&audit, "message", settlement->message);
	AuditText(&audit, "log_uri", settlement->log_uri);
	if (settlement->node != NULL)
	{
		AuditText(&audit, "node", settlement->node);
		AuditInt8(&audit, "rank", settlement->rank);
	}
	AuditText(&audit, "rule", settlement->rule);
	AuditText(&audit, "advice", settlement->advice);
	AuditWrite(&audit);
}

/*
 * Draws the missing amount into a locked, open hold, or as much of it as there
 * is. Returns the amount drawn. locked is what HoldsLockForNext() locked. If
 * it is NULL, that function was not called, and it is too late to wait for
 * locks: either the whole amount is drawn or nothing.
 */
Credits
CollectMissing(const Job *job, Hold *hold, const LockedBuckets *locked,
			   const Cause *cause, Credits missing, Settlement *settlement)
{
	AccountPath path = AccountParse(hold->org, hold->account);
	Purpose		purpose = JobPurpose(job);
	LedgerStatus status;
	Credits		drawn;

	purpose.locked = locked;
	if (AccountSuspended(&path))
	{
		settlement->unpaid = "account_suspended";
		return 0;
	}
	if (locked != NULL)
		drawn = HoldExtendMost(hold, &path, &purpose, cause, missing, &status);
	else
	{
		status = HoldExtend(hold, &path, &purpose, cause, missing, false,
							&settlement->at);
		drawn = status == LEDGER_DONE ? missing : 0;
	}
	if (drawn < missing)
		settlement->unpaid = LedgerReason(status);
	return drawn;
}

/*
 * Adds the amount that could not be collected to the account's uncollected
 * use, or subtracts it if it is negative.
 */
void
ReportShortfall(const Job *job, const Attempt *attempt,
				const Settlement *settlement, Credits uncollected)
{
	Uncollected owed = {job->org, job->account, attempt->job,
		attempt->attempt, attempt->hold, settlement->unpaid, uncollected,
		settlement->at, job->trace};

	if (uncollected < 0)
		UncollectedLess(job->org, job->account, -uncollected);
	else if (uncollected > 0)
		UncollectedReport(&owed);
}

/*
 * Finds how an attempt ended from the reports of its parts. If all is true,
 * every part has reported. Otherwise only a part that did not complete counts,
 * and the function returns false if there is none.
 */
bool
PartsOutcome(const Attempt *attempt, bool all, Settlement *settlement)
{
	SqlResult	row = SqlRun(&parts_ended, VALUES(ATTEMPT_KEY(attempt)));

	if (row.n == 0 || (!all && strcmp(SqlText(row, 0, 1),
									  OutcomeNames[COMPLETED]) == 0))
		return false;
	settlement->outcome = (Outcome) ArgWord(SqlText(row, 0, 1), "outcome",
											OutcomeNames, OUTCOMES);
	settlement->has_exit_code = !SqlIsNull(row, 0, 2);
	if (settlement->has_exit_code)
		settlement->exit_code = SqlInt4(row, 0, 2);
	settlement->message = SqlText(row, 0, 3);
	settlement->node = SqlText(row, 0, 4);
	settlement->rank = SqlInt4(row, 0, 5);
	settlement->log_uri = SqlText(row, 0, 6);
	if (!SqlIsNull(row, 0, 7))
		settlement->elapsed = Max(settlement->elapsed,
								  SqlDuration(row, 0, 7));
	return true;
}
