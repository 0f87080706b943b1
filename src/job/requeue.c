/*-------------------------------------------------------------------------
 *
 * requeue.c
 *		A job that goes back to the queue gets a new hold, at the prices of
 *		that moment.
 *
 * Where nothing it asks for is priced or there any more, it keeps the offers
 * it had and waits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "job/fund.h"
#include "job/job.h"

SQL_STATEMENT(job_offers, SPI_OK_UPDATE,
			  "text, bigint, text[], bigint[], gpucredit.credits[],"
			  " gpucredit.credits[]",
			  "UPDATE gpucredit.job j SET offer_types = $3,"
			  " offer_memory = $4, offer_prices = $5,"
			  " offer_spot_prices = $6, ask = gpucredit_internal.ask_digest("
			  "  j.request, j.topology, j.prefer, j.preemptible, j.cpu_milli,"
			  "  j.memory_mib, j.wall_limit, j.hold_window, $3, $4, $5, $6)"
			  " WHERE j.org = $1 AND j.job = $2");

/*
 * Take a new hold for a locked job; job->hold is then that.  Not done: the
 * account has no credit for it, or is suspended.  locked is what
 * HoldsLockForNext() locked; whoever has not, and would wait, first looks
 * whether there is anything to wait for.
 */
LedgerStatus
JobOpenHold(Job *job, const char *operation, const LockedBuckets *locked,
			bool wait, TimestampTz *at)
{
	AccountPath path = AccountParse(job->org, job->account);
	Cause		cause = {operation, job->job, 0};
	Purpose		purpose;
	Credits		amount;
	Hold		hold;
	LedgerStatus status;
	AuditRow	audit = {.org = job->org, .account = job->account,
		.operation = operation, .job = job->job, .trace = job->trace};

	OffersRenew(job, NodesCached(job->pool), ClockNow());
	if (AccountSuspended(&path) || !OffersHoldAnew(job, &amount))
	{
		*at = ClockNow();
		return LEDGER_SHORT;
	}
	purpose = JobPurpose(job);
	if (wait && locked == NULL &&
		LedgerAvailable(&path, &purpose, ClockNow()) < amount)
	{
		*at = ClockNow();
		return LEDGER_SHORT;
	}
	purpose.locked = locked;
	status = HoldOpen(HoldAsk(&path, &purpose, &cause, amount, 0, wait, &hold),
					  at);
	if (status != LEDGER_DONE)
		return status;
	job->hold = hold.hold;
	JobSetOffers(job);

	audit.hold = hold.hold;
	audit.at = *at;
	audit.decision = "held";
	AuditCredits(&audit, "amount", hold.drawn);
	AuditWrite(&audit);
	return LEDGER_DONE;
}

/*
 * Queue one job, under a new hold.  False: it goes on waiting.
 */
bool
FundWaitingJob(const char *org, int64 id, bool wait)
{
	Job			job;
	TimestampTz at;

	if (!JobLock(org, id, false, &job) ||
		strcmp(job.state, "unfunded") != 0 ||
		JobOpenHold(&job, "fund", NULL, wait, &at) != LEDGER_DONE)
		return false;
	JobSetState(&job, "queued", job.hold, job.failures, job.not_before,
				DT_NOBEGIN);
	return true;
}

/*
 * Store the offers a job's present hold was made for.
 */
void
JobSetOffers(const Job *job)
{
	SqlArgs		args = {0};

	SqlArgText(&args, job->org);
	SqlArgInt8(&args, job->job);
	SqlArgTextArray(&args, job->offers.types, job->offers.n);
	SqlArgInt8Array(&args, job->offers.memory, job->offers.n);
	SqlArgCreditsArray(&args, job->offers.prices, job->offers.n);
	SqlArgCreditsArray(&args, job->offers.spot_prices, job->offers.n);
	Ensure(SqlRun(&job_offers, &args).n == 1, "A job is missing.");
}
