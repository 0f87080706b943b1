/*-------------------------------------------------------------------------
 *
 * fund.c
 *		Jobs that wait for credit resume by themselves when it comes.
 *
 * Each cycle tries the jobs of each account, oldest first, until one of them
 * cannot be paid for: newer ones of the account wait behind it.  Nothing is
 * waited for: a busy account's jobs wait a cycle.
 *
 * plan, which takes no hold, asks what buckets would give and budgets leave,
 * and keeps count of what it took in mind.
 *
 * Locks, all without waiting: job, buckets.  plan takes none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/sql.h"
#include "job/job.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "utils/hsearch.h"

#define MOST_TRIED	1000

/*
 * The first of each account, then the second of each; more accounts than one
 * cycle tries take turns.
 */
#define UNFUNDED(columns) \
	"SELECT" columns " FROM (SELECT k.org, k.job, k.account," \
	"  pg_catalog.row_number() OVER (PARTITION BY k.org, k.account" \
	"   ORDER BY k.submitted_at, k.job) AS n" \
	"  FROM gpucredit.job k" \
	"  WHERE k.pool = $1 AND k.state = 'unfunded') u" \
	" JOIN gpucredit.job j ON j.org = u.org AND j.job = u.job" \
	" ORDER BY u.n, pg_catalog.hashtextextended(u.org || '/' || u.account," \
	"  $3), u.org, u.account LIMIT $2"

SQL_STATEMENT(unfunded_read, SPI_OK_SELECT, "text, bigint, bigint",
			  UNFUNDED(" j.org, j.account, j.job"));
/* of a job that backs off no stay in the queue is told */
SQL_STATEMENT(unfunded_look, SPI_OK_SELECT,
			  "text, bigint, bigint, timestamptz",
			  UNFUNDED(" j.org, j.account, j.job, j.tier, j.priority,"
					   " j.submitted_at, CASE WHEN j.not_before > $4 THEN"
					   " NULL ELSE j.waited END, j.attempt, j.cache,"
					   ASK_COLUMNS));
SQL_STATEMENT(budgets_look, SPI_OK_SELECT, "text, text",
			  "SELECT b.period || ' ' || b.account,"
			  " b.remaining::gpucredit.credits"
			  " FROM gpucredit.budgets($1, $2) b WHERE b.hard");
SQL_STATEMENT(buckets_look, SPI_OK_SELECT,
			  "text, text, text[], text, text, bigint, gpucredit.credits",
			  "SELECT f.bucket::text, f.available::gpucredit.credits,"
			  " f.most::gpucredit.credits FROM gpucredit.bucket_fit($1, $2,"
			  "  $3, $4, $5, $6, NULL, $7::numeric) f WHERE f.pays");

/* What plan has in mind of a bucket, or of a budget. */
typedef struct Counted
{
	AccountName what;			/* path: the bucket, or period and account */
	Credits		amount;
} Counted;

static SqlArgs unfunded_args(const char *pool);
static bool fund(const char *org, int64 id);
static bool foresee(Cycle *cycle, SqlResult rows, uint64 i, HTAB *counted);
static bool budgets_leave(const Job *job, Credits amount, HTAB *counted,
						  bool count);
static bool buckets_give(const Job *job, Credits amount, HTAB *counted);
static Counted *counted_of(HTAB *counted, const Job *job, const char *what);
static void add_job(Cycle *cycle, SqlResult rows, uint64 i, const Job *job);

/*
 * Queue the jobs of a pool that can be paid for again.
 */
void
FundWaiting(const char *pool)
{
	SqlArgs		args = unfunded_args(pool);
	SqlResult	rows = SqlRun(&unfunded_read, &args);
	HTAB	   *waiting;

	if (rows.n == 0)
		return;
	waiting = AccountTable("gpucredit accounts without credit",
						   sizeof(AccountName));
	for (uint64 i = 0; i < rows.n; i++)
	{
		AccountName account = {SqlText(rows, i, 1), SqlText(rows, i, 2)};

		CHECK_FOR_INTERRUPTS();
		if (hash_search(waiting, &account, HASH_FIND, NULL) == NULL &&
			!fund(account.org, SqlInt8(rows, i, 3)))
			(void) hash_search(waiting, &account, HASH_ENTER, NULL);
	}
	hash_destroy(waiting);
}

static SqlArgs
unfunded_args(const char *pool)
{
	SqlArgs		args = {0};

	SqlArgText(&args, pool);
	SqlArgInt8(&args, MOST_TRIED);
	SqlArgInt8(&args, ClockNow());
	return args;
}

/*
 * Queue one job.  False: it goes on waiting.
 */
static bool
fund(const char *org, int64 id)
{
	Job			job;
	TimestampTz at;

	if (!JobLock(org, id, false, &job) ||
		strcmp(job.state, "unfunded") != 0 ||
		JobFund(&job, "fund", NULL, &at) != LEDGER_DONE)
		return false;
	JobSetState(&job, "queued", job.hold, job.failures, job.not_before,
				DT_NOBEGIN);
	return true;
}

/*
 * For plan: add the jobs to the queue that a cycle would put there.
 */
void
FundForesee(Cycle *cycle)
{
	SqlArgs		args = unfunded_args(cycle->pool);
	SqlResult	rows;
	HTAB	   *waiting;
	HTAB	   *counted;

	SqlArgTime(&args, cycle->now);
	rows = SqlRead(&unfunded_look, &args);
	if (rows.n == 0)
		return;
	waiting = AccountTable("gpucredit accounts without credit",
						   sizeof(AccountName));
	counted = AccountTable("gpucredit credit in mind", sizeof(Counted));
	cycle->jobs = repalloc_huge(cycle->jobs, sizeof(DecideJob) *
								(cycle->input.n_jobs + rows.n + 1));
	cycle->queued = repalloc_huge(cycle->queued, sizeof(Queued) *
								  (cycle->input.n_jobs + rows.n + 1));
	cycle->input.jobs = cycle->jobs;
	for (uint64 i = 0; i < rows.n; i++)
	{
		AccountName account = {SqlText(rows, i, 1), SqlText(rows, i, 2)};

		CHECK_FOR_INTERRUPTS();
		if (hash_search(waiting, &account, HASH_FIND, NULL) == NULL &&
			!foresee(cycle, rows, i, counted))
			(void) hash_search(waiting, &account, HASH_ENTER, NULL);
	}
	hash_destroy(waiting);
	hash_destroy(counted);
}

/*
 * Would a cycle queue one job?  Then it is added to the queue, unless it backs
 * off.
 */
static bool
foresee(Cycle *cycle, SqlResult rows, uint64 i, HTAB *counted)
{
	AccountPath path;
	Offers		offers;
	Job			job;

	AskRead(rows, i, &job);
	job.org = SqlText(rows, i, 1);
	job.account = SqlText(rows, i, 2);
	job.job = SqlInt8(rows, i, 3);
	job.tier = SqlText(rows, i, 4);
	job.pool = pstrdup(cycle->pool);
	job.priority = SqlInt4(rows, i, 5);
	if (OffersMake(job.request, job.pool, cycle->set, cycle->now,
				   &offers) == NULL)
		job.offers = offers;
	path = AccountParse(job.org, job.account);
	if (AccountSuspended(&path) || !FundCouldPay(&job, counted))
		return false;
	if (!SqlIsNull(rows, i, 7))
		add_job(cycle, rows, i, &job);
	return true;
}

/*
 * Is there the credit for a job's next hold, beside what is counted (NULL:
 * nothing is)?  Then it is counted, too.
 */
bool
FundCouldPay(const Job *job, HTAB *counted)
{
	Credits		amount = OffersHold(job);

	if (!budgets_leave(job, amount, counted, false) ||
		!buckets_give(job, amount, counted))
		return false;
	if (counted != NULL)
		(void) budgets_leave(job, amount, counted, true);
	return true;
}

/*
 * Do the hard budgets on the path leave so much?  count: it is in mind.
 */
static bool
budgets_leave(const Job *job, Credits amount, HTAB *counted, bool count)
{
	SqlArgs		args = {0};
	SqlResult	rows;

	SqlArgText(&args, job->org);
	SqlArgText(&args, job->account);
	rows = SqlRead(&budgets_look, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		Credits		left = SqlCredits(rows, i, 2);
		Counted    *mind = counted_of(counted, job, SqlText(rows, i, 1));

		if (count)
			mind->amount += amount;
		else if (left - (mind != NULL ? mind->amount : 0) < amount)
			return false;
	}
	return true;
}

/*
 * Do the buckets that may pay have so much, taken in burn order?
 */
static bool
buckets_give(const Job *job, Credits amount, HTAB *counted)
{
	Credits		missing = amount;
	Counted   **minds;
	Credits    *takes;
	SqlArgs		args = {0};
	SqlResult	rows;
	uint64		n;

	if (amount == 0)
		return true;
	SqlArgText(&args, job->org);
	SqlArgText(&args, job->account);
	SqlArgTextArray(&args, job->offers.types, job->offers.n);
	SqlArgText(&args, job->tier);
	SqlArgText(&args, job->pool);
	SqlArgInt8(&args, job->job);
	SqlArgCredits(&args, amount);
	rows = SqlRead(&buckets_look, &args);
	minds = palloc(sizeof(Counted *) * (rows.n + 1));
	takes = palloc(sizeof(Credits) * (rows.n + 1));
	for (n = 0; n < rows.n && missing > 0; n++)
	{
		Credits		left = SqlCredits(rows, n, 2);

		minds[n] = counted_of(counted, job, SqlText(rows, n, 1));
		if (minds[n] != NULL)
			left -= minds[n]->amount;
		takes[n] = Min(missing, Min(left, SqlCredits(rows, n, 3)));
		missing -= takes[n];
	}
	for (uint64 i = 0; i < n && missing == 0 && counted != NULL; i++)
		minds[i]->amount += takes[i];
	return missing == 0;
}

/*
 * What is in mind of a bucket or budget of a job's organisation.
 */
static Counted *
counted_of(HTAB *counted, const Job *job, const char *what)
{
	AccountName key = {job->org, what};
	Counted    *mind;
	bool		found;

	if (counted == NULL)
		return NULL;
	mind = hash_search(counted, &key, HASH_ENTER, &found);
	if (!found)
		mind->amount = 0;
	return mind;
}

/*
 * What a job is in the queue that is put there now.
 */
static void
add_job(Cycle *cycle, SqlResult rows, uint64 i, const Job *job)
{
	int32		n = cycle->input.n_jobs++;
	DecideAsk	ask = OffersAsk(job, cycle->set);
	QueuedAsk  *asked = palloc(sizeof(QueuedAsk));
	TimestampTz waits_from = ClockAdd(cycle->now, -SqlDuration(rows, i, 7));

	QueuedAskOf(asked, job);
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
		.ask = CycleAddAsk(cycle, &ask),
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
