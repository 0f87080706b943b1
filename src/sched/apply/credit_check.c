/*-------------------------------------------------------------------------
 *
 * credit_check.c
 *		Could jobs' next holds be paid?
 *
 * plan asks this, and so does a cycle before a running job is told to move or
 * to grow; no credit is taken.  One read covers all jobs: what buckets would
 * give, and what budgets leave.  Each hold is then checked beside the holds
 * counted before it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/sql.h"
#include "catalog/pg_type.h"
#include "inventory/tier_grant.h"
#include "job/fund.h"
#include "job/job.h"
#include "ledger/uncollected.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "utils/array.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"

/* A source of payment: a bucket, or a hard budget that must allow it. */
typedef struct Payer
{
	const char *name;			/* within its organisation */
	Credits		left;
	Credits		most;			/* the most a bucket gives, by its policy */
} Payer;

typedef struct Payers
{
	int			n;
	Payer	   *all;
} Payers;

/* A job's next hold, and what could pay for it. */
typedef struct NextHold
{
	const Job  *job;
	Credits		amount;
	Payers		budgets;		/* of the account's path */
	Payers		buckets;		/* in burn order */
} NextHold;

SQL_STATEMENT(budgets_look, SPI_OK_SELECT, "text[], text[], timestamptz",
			  "SELECT u.n, b.period || ' ' || b.account,"
			  " b.remaining::gpucredit.credits,"
			  " b.remaining::gpucredit.credits"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2)) WITH ORDINALITY"
			  "  AS u (org, account, n)"
			  " CROSS JOIN LATERAL gpucredit_internal.budgets_at(u.org, u.account, $3) b"
			  " WHERE b.hard");
SQL_STATEMENT(buckets_look, SPI_OK_SELECT,
			  "text[], text[], text[], text[], text[], bigint[],"
			  " gpucredit.credits[]",
			  "SELECT u.n, f.bucket::text, f.available::gpucredit.credits,"
			  " f.most::gpucredit.credits"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4), pg_catalog.unnest($5),"
			  "  pg_catalog.unnest($6), pg_catalog.unnest($7))"
			  "  WITH ORDINALITY"
			  "  AS u (org, account, types, tier, pool, job, amount, n)"
			  " CROSS JOIN LATERAL gpucredit_internal.bucket_fit(u.org, u.account,"
			  "  u.types::text[], u.tier, u.pool, u.job, NULL,"
			  "  u.amount::numeric) f WHERE f.pays");

/* What was counted for a bucket or a budget. */
typedef struct Counted
{
	AccountName what;			/* organisation, and name of the payer */
	Credits		amount;
} Counted;

/* An account whose budgets are read. */
typedef struct PayingAccount
{
	AccountName name;
	int			place;
} PayingAccount;

static void look_at_budgets(const SchedCycle *cycle, NextHold **holds, int n);
static void look_at_buckets(const SchedCycle *cycle, NextHold **holds, int n);
static const char *literal(const char *const *names, int n);
static void read_payers(const SchedCycle *cycle, SqlStatement *statement,
						Values *args, Payers *payers, int n);
static bool budgets_leave(const NextHold *hold, HTAB *counted);
static bool buckets_give(const NextHold *hold, HTAB *counted);
static Counted *counted_of(HTAB *counted, const Job *job, const char *payer);

/*
 * Begin with nothing counted.
 */
static HTAB *
check_begin(void)
{
	return AccountTable("gpucredit credit counted", sizeof(Counted));
}

/*
 * Read what could pay for some holds.  A hold of 0 needs nothing.
 */
static void
check_load(const SchedCycle *cycle, NextHold *holds, int n)
{
	NextHold  **asked = palloc(sizeof(NextHold *) * (n + 1));
	int			n_asked = 0;

	for (int i = 0; i < n; i++)
	{
		if (holds[i].job != NULL && holds[i].amount > 0)
			asked[n_asked++] = &holds[i];
	}
	if (n_asked > 0)
	{
		look_at_budgets(cycle, asked, n_asked);
		look_at_buckets(cycle, asked, n_asked);
	}
	pfree(asked);
}

/*
 * Read the budgets of each account, once.
 */
static void
look_at_budgets(const SchedCycle *cycle, NextHold **holds, int n)
{
	HTAB	   *known = AccountTable("gpucredit accounts that pay",
									 sizeof(PayingAccount));
	int		   *place = palloc(sizeof(int) * n);
	const char **orgs = palloc(sizeof(char *) * n);
	const char **accounts = palloc(sizeof(char *) * n);
	Payers	   *payers = palloc0(sizeof(Payers) * n);
	int			n_accounts = 0;

	for (int i = 0; i < n; i++)
	{
		AccountName name = {holds[i]->job->org, holds[i]->job->account};
		bool		found;
		PayingAccount *account = hash_search(known, &name, HASH_ENTER, &found);

		if (!found)
		{
			orgs[n_accounts] = name.org;
			accounts[n_accounts] = name.path;
			account->place = n_accounts++;
		}
		place[i] = account->place;
	}
	read_payers(cycle, &budgets_look,
				VALUES(TextArrayValue(orgs, n_accounts),
					   TextArrayValue(accounts, n_accounts),
					   TimeValue(cycle->now)), payers, n_accounts);
	for (int i = 0; i < n; i++)
		holds[i]->budgets = payers[place[i]];
	hash_destroy(known);
}

/*
 * Read the buckets that could pay for each hold, by its job's kind and types.
 */
static void
look_at_buckets(const SchedCycle *cycle, NextHold **holds, int n)
{
	const char **texts = palloc(sizeof(char *) * n * 5);
	int64	   *jobs = palloc(sizeof(int64) * n);
	Credits    *amounts = palloc(sizeof(Credits) * n);
	Payers	   *payers = palloc0(sizeof(Payers) * n);
	Values		args = {0};

	for (int i = 0; i < n; i++)
	{
		const Job  *job = holds[i]->job;

		texts[i] = job->org;
		texts[n + i] = job->account;
		texts[2 * n + i] = literal(job->offers.types, job->offers.n);
		texts[3 * n + i] = job->tier;
		texts[4 * n + i] = job->pool;
		jobs[i] = job->job;
		amounts[i] = holds[i]->amount;
	}
	for (int column = 0; column < 5; column++)
		ValuesAdd(&args, TextArrayValue(texts + column * n, n));
	ValuesAdd(&args, Int8ArrayValue(jobs, n), CreditsArrayValue(amounts, n));
	read_payers(cycle, &buckets_look, &args, payers, n);
	for (int i = 0; i < n; i++)
		holds[i]->buckets = payers[i];
}

/*
 * An array of names as text, as SQL has no array of arrays of different
 * lengths.
 */
static const char *
literal(const char *const *names, int n)
{
	Oid			output;
	bool		varlena;

	getTypeOutputInfo(TEXTARRAYOID, &output, &varlena);
	return OidOutputFunctionCall(output, TextArrayValue(names, n).value);
}

/*
 * Read a statement's payers, grouped by owner, in order.
 */
static void
read_payers(const SchedCycle *cycle, SqlStatement *statement, Values *args,
			Payers *payers, int n)
{
	SqlResult	rows = CycleRead(cycle, statement, args);

	for (uint64 i = 0; i < rows.n; i++)
		payers[SqlInt8(rows, i, 1) - 1].n++;
	for (int i = 0; i < n; i++)
	{
		payers[i].all = palloc(sizeof(Payer) * (payers[i].n + 1));
		payers[i].n = 0;
	}
	for (uint64 i = 0; i < rows.n; i++)
	{
		Payers	   *of = &payers[SqlInt8(rows, i, 1) - 1];

		CHECK_FOR_INTERRUPTS();
		of->all[of->n++] = (Payer)
		{
			SqlText(rows, i, 2), SqlCredits(rows, i, 3),
				SqlCredits(rows, i, 4)
		};
	}
}

/*
 * Could a hold be paid, beside what was counted?  Then count it, too.
 */
static bool
check_hold(const NextHold *hold, HTAB *counted)
{
	if (hold->amount == 0)
		return true;
	if (!budgets_leave(hold, counted) || !buckets_give(hold, counted))
		return false;
	for (int i = 0; i < hold->budgets.n; i++)
		counted_of(counted, hold->job, hold->budgets.all[i].name)->amount +=
			hold->amount;
	return true;
}

/*
 * Do the hard budgets on the path leave this much?
 */
static bool
budgets_leave(const NextHold *hold, HTAB *counted)
{
	for (int i = 0; i < hold->budgets.n; i++)
	{
		const Payer *budget = &hold->budgets.all[i];

		if (budget->left - counted_of(counted, hold->job,
									  budget->name)->amount < hold->amount)
			return false;
	}
	return true;
}

/*
 * Can the buckets pay this much, in burn order?  Then count it.
 */
static bool
buckets_give(const NextHold *hold, HTAB *counted)
{
	const Payers *buckets = &hold->buckets;
	Credits		missing = hold->amount;
	Credits    *takes = palloc(sizeof(Credits) * (buckets->n + 1));
	int			n;

	for (n = 0; n < buckets->n && missing > 0; n++)
	{
		const Payer *bucket = &buckets->all[n];
		Credits		left = bucket->left -
			counted_of(counted, hold->job, bucket->name)->amount;

		takes[n] = Min(missing, Min(left, bucket->most));
		missing -= takes[n];
	}
	for (int i = 0; i < n && missing == 0; i++)
		counted_of(counted, hold->job, buckets->all[i].name)->amount +=
			takes[i];
	pfree(takes);
	return missing == 0;
}

/*
 * The counter of a payer in a job's organisation.
 */
static Counted *
counted_of(HTAB *counted, const Job *job, const char *payer)
{
	AccountName key = {job->org, payer};
	bool		found;
	Counted    *entry = hash_search(counted, &key, HASH_ENTER, &found);

	if (!found)
		entry->amount = 0;
	return entry;
}

/*
 * Jobs that wait for credit are queued again when it comes.
 *
 * Each cycle tries the jobs of each account, oldest first.  After one that
 * could not be paid, jobs of the same request and tier are not tried.  Others
 * are, as they may need less or use other buckets: an unpaid job blocks
 * nobody.  Nothing waits: jobs of a busy account are tried in the next cycle,
 * or by a sweep, which waits a moment (job/fund.c).
 *
 * plan takes no hold; it asks whether there would be credit.
 *
 * Locks, all without waiting: job, buckets.  plan takes none.
 */

#define LOOK_KIND	24			/* after REQUEST_COLUMNS */
#define OF_POOL " AND k.pool = $3"
SQL_STATEMENT(unfunded_read, SPI_OK_SELECT, "bigint, bigint, text",
			  UNFUNDED(" j.org, j.job, c.kind", OF_POOL));
/* a job in backoff has no reported time in the queue */
SQL_STATEMENT(unfunded_look, SPI_OK_SELECT,
			  "bigint, bigint, text, timestamptz",
			  UNFUNDED(" j.org, j.account, j.job, j.tier, j.priority,"
					   " j.submitted_at, CASE WHEN j.not_before > $4 THEN"
					   " NULL ELSE j.waited END, j.attempt, j.cache,"
					   REQUEST_COLUMNS ", c.kind", OF_POOL));

static Values unfunded_args(const char *pool);
static bool foresee(SchedCycle *cycle, SqlResult rows, uint64 i,
					HTAB *counted);
static void add_job(SchedCycle *cycle, SqlResult rows, uint64 i,
					const Job *job);

/*
 * Queue the jobs of a pool that can be paid again.
 */
void
FundWaiting(const char *pool)
{
	Values		args = unfunded_args(pool);
	SqlResult	rows = SqlRun(&unfunded_read, &args);
	bool	   *short_of;

	if (rows.n == 0)
		return;
	short_of = palloc0(sizeof(bool) * (rows.n + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		int32		kind = SqlInt4(rows, i, 3);

		CHECK_FOR_INTERRUPTS();
		if (!short_of[kind])
			short_of[kind] = !FundWaitingJob(SqlText(rows, i, 1),
											 SqlInt8(rows, i, 2), false);
	}
	pfree(short_of);
}

static Values
unfunded_args(const char *pool)
{
	return *VALUES(Int8Value(UNFUNDED_MOST), Int8Value(ClockNow()),
				   TextValue(pool));
}

/*
 * For plan: add the jobs to the queue that a cycle would queue.
 */
void
FundForesee(SchedCycle *cycle)
{
	Values		args = unfunded_args(cycle->pool);
	SqlResult	rows;
	bool	   *short_of;
	HTAB	   *counted;

	ValuesAdd(&args, TimeValue(cycle->now));
	rows = SqlRead(&unfunded_look, &args);
	if (rows.n == 0)
		return;
	short_of = palloc0(sizeof(bool) * (rows.n + 1));
	counted = check_begin();
	cycle->jobs = repalloc_huge(cycle->jobs, sizeof(DecideJob) *
								(cycle->input.n_jobs + rows.n + 1));
	cycle->queued = repalloc_huge(cycle->queued, sizeof(Queued) *
								  (cycle->input.n_jobs + rows.n + 1));
	cycle->input.jobs = cycle->jobs;
	for (uint64 i = 0; i < rows.n; i++)
	{
		int32		kind = SqlInt4(rows, i, LOOK_KIND);

		CHECK_FOR_INTERRUPTS();
		if (!short_of[kind])
			short_of[kind] = !foresee(cycle, rows, i, counted);
	}
	pfree(short_of);
	hash_destroy(counted);
}

/*
 * Would a cycle queue a job?  Then add it, unless it is in backoff.
 */
static bool
foresee(SchedCycle *cycle, SqlResult rows, uint64 i, HTAB *counted)
{
	AccountPath path;
	Job			job;
	Purpose		purpose;
	NextHold	next = {.job = &job};

	RequestRead(rows, i, &job);
	job.org = SqlText(rows, i, 1);
	job.account = SqlText(rows, i, 2);
	job.job = SqlInt8(rows, i, 3);
	job.tier = SqlText(rows, i, 4);
	job.pool = pstrdup(cycle->pool);
	job.priority = SqlInt4(rows, i, 5);
	OffersRenew(&job, cycle->set, cycle->now);
	path = AccountParse(job.org, job.account);
	if (AccountSuspended(&path) || !TierAllowed(&path, job.tier) ||
		!OffersHoldAnew(&job, &next.amount))
		return false;
	purpose = JobPurpose(&job);
	if (UncollectedDenies(&path, &purpose, next.amount, cycle->now))
		return false;
	check_load(cycle, &next, 1);
	if (!check_hold(&next, counted))
		return false;
	if (!SqlIsNull(rows, i, 7))
		add_job(cycle, rows, i, &job);
	return true;
}

/*
 * The entry of a job that is queued now.
 */
static void
add_job(SchedCycle *cycle, SqlResult rows, uint64 i, const Job *job)
{
	int32		n = cycle->input.n_jobs++;
	DecideRequestClass request = OffersRequest(job, cycle->set);
	QueuedRequest *asked = palloc(sizeof(QueuedRequest));
	TimestampTz waits_from = ClockAdd(cycle->now, -SqlDuration(rows, i, 7));

	QueuedRequestOf(asked, job);
	cycle->queued[n] = (Queued)
	{
		.account = job->account,
			.attempt = SqlInt4(rows, i, 8),
			.waits_from = waits_from,
			.cache = SqlText(rows, i, 9),
			.asked = asked
	};
	cycle->jobs[n] = (DecideJob)
	{
		.request = CycleAddRequest(cycle, &request),
			.org = job->org,
			.id = job->job,
			.account = AccountIndex(cycle, job->org, job->account),
			.tier = TierIndex(cycle, job->tier),
			.priority = job->priority,
			.submitted = SqlTime(rows, i, 6)
	};
	cycle->jobs[n].aged_at = CycleAgedAt(cycle, cycle->jobs[n].tier,
										 waits_from);
	if (cycle->queued[n].cache != NULL)
		cycle->jobs[n].cache = CacheIndex(cycle, job->org,
										  cycle->queued[n].cache);
}

/*
 * Can running jobs that move or grow pay their next holds?
 *
 * Moving or growing ends a job's attempt, and the next one needs a hold of
 * its own.  A job must not lose its devices for something nobody asked for.
 * So it stays as it is if there is no credit.  One statement each reads what
 * all such jobs need.
 */

SQL_STATEMENT(going_read, SPI_OK_SELECT, "text[], bigint[], int[]",
			  "SELECT j.tier, a.held, a.surplus, a.per_hour, NULL, NULL,"
			  " u.n, EXISTS (SELECT FROM pg_catalog.unnest("
			  "   gpucredit_internal.account_path(j.account)) AS p (account)"
			  "  CROSS JOIN LATERAL (SELECT c.suspended FROM gpucredit.account c"
			  "   WHERE c.org = j.org AND c.account = p.account OFFSET 0) c"
			  "  WHERE c.suspended), NULL," REQUEST_COLUMNS
			  " FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3)) WITH ORDINALITY"
			  "  AS u (org, job, attempt, n)"
			  " CROSS JOIN LATERAL (SELECT a.* FROM gpucredit.attempt a"
			  "  WHERE a.org = u.org AND a.job = u.job"
			  "  AND a.attempt = u.attempt OFFSET 0) a"
			  " CROSS JOIN LATERAL (SELECT j.* FROM gpucredit.job j"
			  "  WHERE j.org = u.org AND j.job = u.job OFFSET 0) j");

/* The moves, those of earlier cycles first. */
typedef struct GoingOn
{
	int			n_previous;
	int			n;
	DecideRunning **running;
	NextHold   *holds;			/* without a job: there can be no hold */
} GoingOn;

static GoingOn list_going(SchedCycle *cycle);
static void read_holds(SchedCycle *cycle, GoingOn *going);
static bool read_hold(const SchedCycle *cycle, const DecideRunning *running,
					  SqlResult rows, uint64 i, Job *job, Credits *more);

/*
 * Can all running jobs that this cycle moves or grows be paid, beside those
 * of earlier cycles?  False: some stay as they are, and the cycle must decide
 * again.
 */
bool
CreditCheckMoves(SchedCycle *cycle)
{
	GoingOn		going = list_going(cycle);
	HTAB	   *counted;
	bool		all = true;

	if (going.n == going.n_previous)
		return true;
	read_holds(cycle, &going);
	check_load(cycle, going.holds, going.n);
	counted = check_begin();
	for (int i = 0; i < going.n; i++)
	{
		const NextHold *hold = &going.holds[i];

		CHECK_FOR_INTERRUPTS();
		if ((hold->job != NULL && check_hold(hold, counted)) ||
			i < going.n_previous)
			continue;
		going.running[i]->request = -1;
		all = false;
	}
	hash_destroy(counted);
	return all;
}

/*
 * List the running jobs that were told to move or grow and have not left yet,
 * and those that this cycle would tell.
 */
static GoingOn
list_going(SchedCycle *cycle)
{
	GoingOn		going = {0};

	going.running = MemoryContextAllocHuge(CurrentMemoryContext,
										   sizeof(DecideRunning *) *
										   (cycle->input.n_claims +
											cycle->result.n_promises + 1));
	for (int c = 0; c < cycle->input.n_claims; c++)
	{
		if (cycle->claimants[c] >= 0)
			going.running[going.n++] = &cycle->running[cycle->claimants[c]];
	}
	going.n_previous = going.n;
	for (int p = 0; p < cycle->result.n_promises; p++)
	{
		const DecidePromise *promise = &cycle->result.promises[p];

		if (promise->job < 0 && promise->why != DECIDE_WHY_SHRINK)
			going.running[going.n++] = &cycle->running[promise->running];
	}
	return going;
}

/*
 * Compute the next holds at present prices.
 */
static void
read_holds(SchedCycle *cycle, GoingOn *going)
{
	Size		n = going->n;
	const char **orgs = palloc(sizeof(char *) * n);
	int64	   *ids = palloc(sizeof(int64) * n);
	int32	   *attempts = palloc(sizeof(int32) * n);
	Job		   *jobs = palloc0(sizeof(Job) * n);
	Price	   *prices;
	int			n_prices = PricesRead(cycle->pool, cycle->now,
									  cycle->read_only, &prices);
	SqlResult	rows;

	going->holds = palloc0(sizeof(NextHold) * n);
	for (Size i = 0; i < n; i++)
	{
		orgs[i] = going->running[i]->org;
		ids[i] = going->running[i]->id;
		attempts[i] = going->running[i]->attempt;
	}
	rows = CycleRead(cycle, &going_read,
					 VALUES(TextArrayValue(orgs, n), Int8ArrayValue(ids, n),
							Int4ArrayValue(attempts, n)));
	for (uint64 i = 0; i < rows.n; i++)
	{
		int			place = SqlInt8(rows, i, 7) - 1;
		NextHold   *hold = &going->holds[place];
		Job		   *job = &jobs[place];

		CHECK_FOR_INTERRUPTS();
		RequestRead(rows, i, job);
		OffersRenewAt(job, cycle->set, prices, n_prices);
		if (read_hold(cycle, going->running[place], rows, i, job,
					  &hold->amount))
			hold->job = job;
	}
}

/*
 * Compute what a running job's next hold needs beyond the rest of its present
 * hold.  False: there can be no hold.
 */
static bool
read_hold(const SchedCycle *cycle, const DecideRunning *running,
		  SqlResult rows,
		  uint64 i, Job *job, Credits *more)
{
	int64		runs = cycle->now - running->started +
		cycle->tiers[running->tier].grace;
	Credits		bill;
	Credits		left;

	job->org = running->org;
	job->account = pstrdup(cycle->account_names[running->account].path);
	job->job = running->id;
	job->pool = pstrdup(cycle->pool);
	job->tier = SqlText(rows, i, 1);
	if (SqlBool(rows, i, 8) || !OffersHoldAnew(job, more))
		return false;
	bill = CreditsBillWithin(SqlCredits(rows, i, 4), 1, SHARE_WHOLE, runs,
							 SqlCredits(rows, i, 2));
	left = CreditsSub(CreditsAdd(SqlCredits(rows, i, 2),
								 SqlCredits(rows, i, 3)), bill);
	*more = Max(CreditsSub(*more, left), 0);
	return true;
}
