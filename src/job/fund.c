/*-------------------------------------------------------------------------
 *
 * fund.c
 *		Jobs that wait for credit get their next holds.
 *
 * Each cycle tries the jobs of its pool without waiting
 * (sched/apply/fund_waiting.c). Beside clients that never pause, a cycle may find
 * their bucket's row locked each time. So the sweep waits for each row,
 * FUND_WAIT_MS at most. It keeps its locks until it commits, so it begins no
 * job after FUND_MOST_MS. It runs last in its call, and waits for no row if
 * the credit is missing anyway.
 *
 * Locks: job without waiting, then as HoldOpen().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/sql.h"
#include "inventory/tier_grant.h"
#include "job/fund.h"
#include "job/job.h"
#include "ledger/uncollected.h"
#include "utils/guc.h"
#include "utils/timestamp.h"
#include "audit/audit.h"
#include "util/errors.h"

#define FUND_WAIT_MS	50
#define FUND_MOST_MS	100

SQL_STATEMENT(unfunded_all, SPI_OK_SELECT, "bigint, bigint",
			  UNFUNDED(" j.org, j.job, c.kind", ""));

SQL_STATEMENT(job_offers, SPI_OK_UPDATE,
			  "text, bigint, text[], bigint[], gpucredit.credits[],"
			  " gpucredit.credits[], gpucredit.credits",
			  "UPDATE gpucredit.job j SET offer_types = $3,"
			  " offer_memory = $4, offer_prices = $5,"
			  " offer_spot_prices = $6, resources = $7,"
			  " request_class = gpucredit_internal.request_digest("
			  "  j.request, j.topology, j.prefer, j.preemptible, j.cpu_milli,"
			  "  j.memory_mib, j.wall_limit, j.hold_window, $3, $4, $5, $6, $7)"
			  " WHERE j.org = $1 AND j.job = $2");

static void set_offers(const Job *job);
static SweepResult fund_one(const char *org, int64 id, int32 kind,
							const void *context);

/*
 * Queue the jobs of all pools that have credit, in the order in which cycles
 * try them; returns how many.
 */
int64
FundSwept(Sweep *sweep)
{
	int			level = NewGUCNestLevel();
	SqlResult	rows;
	bool	   *short_of;
	int64		done;

	rows = SqlRun(&unfunded_all,
				  VALUES(Int8Value(UNFUNDED_MOST), Int8Value(ClockNow())));
	short_of = palloc0(sizeof(bool) * (rows.n + 1));
	SweepWait(FUND_WAIT_MS);
	done = SweepRunFor(sweep, FUND_MOST_MS, rows, fund_one, &short_of);
	AtEOXact_GUC(true, level);
	SqlFree(&rows);
	return done;
}

/*
 * Fund one job, unless an earlier one of its kind found no credit. context:
 * the kinds for which that is so.
 */
static SweepResult
fund_one(const char *org, int64 id, int32 kind, const void *context)
{
	bool	   *short_of = *(bool *const *) context;

	if (short_of[kind])
		return SWEEP_IDLE;
	if (FundWaitingJob(org, id, true))
		return SWEEP_DONE;
	short_of[kind] = true;
	return SWEEP_IDLE;
}

/*
 * Renew a job's offers; returns how much its next hold will be. 0: it has no
 * offer for which there is a price.
 */
Credits
JobNextHold(Job *job)
{
	Credits		amount;

	OffersRenew(job, NodesCached(job->pool), ClockNow());
	return OffersHoldAnew(job, &amount) ? amount : 0;
}

/*
 * Take a new hold for a locked job at today's prices, and note it in the job.
 * Not LEDGER_DONE: the account has no credit for it, is suspended, or may no
 * longer use the tier. If none
 * of its types has a price or a node any more, the job keeps its old offers.
 * locked: what HoldsLockForNext() locked; the caller has called JobNextHold(). A
 * caller that waits without it first looks whether there is credit.
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

	if (locked == NULL)
		OffersRenew(job, NodesCached(job->pool), ClockNow());
	if (AccountSuspended(&path) || !TierAllowed(&path, job->tier) ||
		!OffersHoldAnew(job, &amount))
	{
		*at = ClockNow();
		return LEDGER_SHORT;
	}
	purpose = JobPurpose(job);
	if (UncollectedDenies(&path, &purpose, amount, ClockNow()))
	{
		*at = ClockNow();
		return LEDGER_SHORT;
	}
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
	set_offers(job);

	audit.hold = hold.hold;
	audit.at = *at;
	audit.decision = "held";
	AuditCredits(&audit, "amount", hold.drawn);
	AuditWrite(&audit);
	return LEDGER_DONE;
}

/*
 * Queue one job under a new hold. False: it waits on.
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
 * Store the offers of a job's present hold.
 */
static void
set_offers(const Job *job)
{
	Ensure(SqlRun(&job_offers,
				  VALUES(TextValue(job->org), Int8Value(job->job),
						 TextArrayValue(job->offers.types, job->offers.n),
						 Int8ArrayValue(job->offers.memory, job->offers.n),
						 CreditsArrayValue(job->offers.prices, job->offers.n),
						 CreditsArrayValue(job->offers.spot_prices,
										   job->offers.n),
						 CreditsValue(job->resources))).n == 1,
		   "A job is missing.");
}
