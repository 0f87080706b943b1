/*-------------------------------------------------------------------------
 *
 * fund.c
 *		Jobs that wait for credit resume by themselves when it comes.
 *
 * Each cycle tries the jobs of each account, oldest first.  Of those that ask
 * the same in the same tier none is tried after one that could not be paid
 * for; others are, as they may want less, or draw from other buckets: what
 * cannot be paid for blocks nobody.  Nothing is waited for: a busy account's
 * jobs wait a cycle.
 *
 * plan, which takes no hold, asks what there would be (afford.c).
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
 * The first of each account, then the second of each; where there are more
 * than one cycle tries, the first of each kind go before the second, and
 * accounts take turns.  kind: the first of all that ask the same.
 */
#define TURNS \
	" pg_catalog.hashtextextended(c.org || '/' || c.account, $3)," \
	" c.org, c.account"
#define UNFUNDED(columns) \
	"SELECT" columns ", c.kind::text FROM (SELECT u.*, pg_catalog.row_number()" \
	"   OVER (PARTITION BY u.org, u.account ORDER BY u.submitted_at, u.job)" \
	"    AS turn" \
	"  FROM (SELECT c.* FROM (SELECT k.org, k.job, k.account," \
	"     k.submitted_at, pg_catalog.first_value(k.job) OVER w AS kind," \
	"     pg_catalog.row_number() OVER w AS n" \
	"    FROM gpucredit.job k" \
	"    WHERE k.pool = $1 AND k.state = 'unfunded'" \
	"    WINDOW w AS (PARTITION BY k.org, k.account, k.tier, k.ask" \
	"     ORDER BY k.submitted_at, k.job)) c" \
	"   ORDER BY c.n," TURNS ", c.submitted_at, c.job LIMIT $2) u) c" \
	" JOIN gpucredit.job j ON j.org = c.org AND j.job = c.job" \
	" ORDER BY c.turn," TURNS

#define READ_KIND	4
#define LOOK_KIND	22			/* behind ASK_COLUMNS */
SQL_STATEMENT(unfunded_read, SPI_OK_SELECT, "text, bigint, bigint",
			  UNFUNDED(" j.org, j.account, j.job"));
/* of a job that backs off no stay in the queue is told */
SQL_STATEMENT(unfunded_look, SPI_OK_SELECT,
			  "text, bigint, bigint, timestamptz",
			  UNFUNDED(" j.org, j.account, j.job, j.tier, j.priority,"
					   " j.submitted_at, CASE WHEN j.not_before > $4 THEN"
					   " NULL ELSE j.waited END, j.attempt, j.cache,"
					   ASK_COLUMNS));

static SqlArgs unfunded_args(const char *pool);
static bool fund(const char *org, int64 id);
static bool foresee(Cycle *cycle, SqlResult rows, uint64 i, HTAB *counted);
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
	waiting = AccountTable("gpucredit kinds without credit",
						   sizeof(AccountName));
	for (uint64 i = 0; i < rows.n; i++)
	{
		AccountName kind = {SqlText(rows, i, 1), SqlText(rows, i, READ_KIND)};

		CHECK_FOR_INTERRUPTS();
		if (hash_search(waiting, &kind, HASH_FIND, NULL) == NULL &&
			!fund(kind.org, SqlInt8(rows, i, 3)))
			(void) hash_search(waiting, &kind, HASH_ENTER, NULL);
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
	waiting = AccountTable("gpucredit kinds without credit",
						   sizeof(AccountName));
	counted = AffordCount();
	cycle->jobs = repalloc_huge(cycle->jobs, sizeof(DecideJob) *
								(cycle->input.n_jobs + rows.n + 1));
	cycle->queued = repalloc_huge(cycle->queued, sizeof(Queued) *
								  (cycle->input.n_jobs + rows.n + 1));
	cycle->input.jobs = cycle->jobs;
	for (uint64 i = 0; i < rows.n; i++)
	{
		AccountName kind = {SqlText(rows, i, 1), SqlText(rows, i, LOOK_KIND)};

		CHECK_FOR_INTERRUPTS();
		if (hash_search(waiting, &kind, HASH_FIND, NULL) == NULL &&
			!foresee(cycle, rows, i, counted))
			(void) hash_search(waiting, &kind, HASH_ENTER, NULL);
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
	Job			job;

	AskRead(rows, i, &job);
	job.org = SqlText(rows, i, 1);
	job.account = SqlText(rows, i, 2);
	job.job = SqlInt8(rows, i, 3);
	job.tier = SqlText(rows, i, 4);
	job.pool = pstrdup(cycle->pool);
	job.priority = SqlInt4(rows, i, 5);
	OffersRenew(&job, cycle->set, cycle->now);
	path = AccountParse(job.org, job.account);
	if (AccountSuspended(&path) || !AffordHold(cycle, &job, OffersHold(&job), counted))
		return false;
	if (!SqlIsNull(rows, i, 7))
		add_job(cycle, rows, i, &job);
	return true;
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
