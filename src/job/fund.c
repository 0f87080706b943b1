/*-------------------------------------------------------------------------
 *
 * fund.c
 *		Opens the next holds of jobs that wait for credit.
 *
 * Each cycle tries the unfunded jobs of its pool without waiting for locks
 * (sched/apply/fund_waiting.c). If clients draw from a bucket without a pause,
 * a cycle may find the bucket's row locked each time. Therefore the sweep
 * waits for each row, but at most FUND_WAIT_MS. It keeps its locks until it
 * commits, so it begins no job after FUND_MOST_MS. It is the last sweep of its
 * call, and waits for no row if the credit does not suffice anyway.
 *
 * Locks: the job without waiting, then as HoldOpen() does.
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
			  "  j.memory_mib, j.wall_limit, j.hold_window, $3, $4, $5, $6, $7,"
			  "  j.options -> 'placement')"
			  " WHERE j.org = $1 AND j.job = $2");

static void set_offers(const Job *job);
static bool same_offers(const Offers *a, const Offers *b);
static SweepResult fund_one(const char *org, int64 id, int32 kind,
							const void *context);

/*
 * Funds and queues unfunded jobs of all pools, in the order in which cycles
 * try them. Returns how many jobs were queued.
 */
int64
FundSwept(Sweep *sweep)
{
	SqlResult	rows;
	bool	   *short_of;
	int64		done;
	int			wait_ms = sweep->wait_ms;

	rows = SqlRun(&unfunded_all,
				  VALUES(Int8Value(UNFUNDED_MOST), Int8Value(ClockNow())));
	short_of = palloc0(sizeof(bool) * (rows.n + 1));
	sweep->wait_ms = FUND_WAIT_MS;
	done = SweepRunFor(sweep, FUND_MOST_MS, rows, fund_one, &short_of);
	sweep->wait_ms = wait_ms;
	SqlFree(&rows);
	return done;
}

/*
 * Funds one job, unless an earlier job of its kind found no credit. context
 * points to an array that notes for each kind whether that happened.
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
 * Renews a job's offers and returns the amount of its next hold, or 0 if none
 * of its offers has a price.
 */
Credits
JobNextHold(Job *job)
{
	Credits		amount;

	OffersRenew(job, NodesCached(job->pool), ClockNow());
	return OffersHoldToday(job, &amount) ? amount : 0;
}

/*
 * Opens a new hold for a locked job at today's prices and stores it in the
 * job. The result is not LEDGER_DONE if the account has no credit for the
 * hold, is suspended, or may no longer use the job's tier. If none of the
 * job's types has a price or a node any more, the job keeps its old offers.
 * locked is what HoldsLockForNext() locked after the caller had called
 * JobNextHold(), or NULL. If it is NULL and wait is true, the function checks
 * without locks whether there is enough credit before it waits for any.
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
		!OffersHoldToday(job, &amount))
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
 * Queues one unfunded job under a new hold. Returns false if the job stays
 * unfunded.
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
 * Stores the offers of a job's present hold, if they differ from those of the
 * hold before.
 */
static void
set_offers(const Job *job)
{
	if (job->resources == job->stored_resources &&
		same_offers(&job->offers, &job->stored_offers))
		return;
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

/*
 * Whether two lists of offers are stored alike. The shares that they pay for
 * are not compared, because they are not stored.
 */
static bool
same_offers(const Offers *a, const Offers *b)
{
	if (a->n != b->n)
		return false;
	for (int i = 0; i < a->n; i++)
	{
		if (strcmp(a->types[i], b->types[i]) != 0 ||
			a->memory[i] != b->memory[i] || a->prices[i] != b->prices[i] ||
			a->spot_prices[i] != b->spot_prices[i])
			return false;
	}
	return true;
}
