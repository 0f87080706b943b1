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

#include "util/sql.h"
#include "job/job.h"
#include "miscadmin.h"
#include "sched/load/credit_check.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"

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
HTAB *
CreditCheckBegin(void)
{
	return AccountTable("gpucredit credit counted", sizeof(Counted));
}

/*
 * Read what could pay for some holds.  A hold of 0 needs nothing.
 */
void
CreditCheckLoad(const SchedCycle *cycle, NextHold *holds, int n)
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
bool
CreditCheckHold(const NextHold *hold, HTAB *counted)
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
