/*-------------------------------------------------------------------------
 *
 * credit_check.c
 *		Checks whether the next holds of jobs could be paid.
 *
 * plan() checks this, and so does a cycle before it orders a running job to
 * move or to grow. No credit is held. One read covers all jobs: what buckets
 * would pay, and what budgets still allow. Each hold is then checked as if the
 * holds checked before it were already made.
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

/* How much has been counted against a bucket or a budget so far. */
typedef struct Counted
{
	AccountName what;			/* organisation, and name of the bucket or
								 * budget */
	Credits		amount;
} Counted;

/* An account whose budgets are read once, and its index among them. */
typedef struct PayingAccount
{
	AccountName name;
	int			place;
} PayingAccount;

static void read_budgets(const SchedCycle *cycle, NextHold **holds, int n);
static void read_buckets(const SchedCycle *cycle, NextHold **holds, int n);
static const char *literal(const char *const *names, int n);
static void read_payers(const SchedCycle *cycle, SqlStatement *statement,
						Values *args, Payers *payers, int n);
static bool budgets_leave(const NextHold *hold, HTAB *counted);
static bool buckets_can_pay(const NextHold *hold, HTAB *counted);
static Counted *counted_of(HTAB *counted, const Job *job, const char *payer);

/* Creates the table of what is counted against each payer, empty. */
HTAB *
CreditCheckBegin(void)
{
	return AccountTable("gpucredit credit counted", sizeof(Counted));
}

/*
 * Reads what could pay for some holds. A hold of 0 is skipped, as it needs
 * nothing.
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
		read_budgets(cycle, asked, n_asked);
		read_buckets(cycle, asked, n_asked);
	}
	pfree(asked);
}

/* Reads the budgets of each account once, however many holds it has. */
static void
read_budgets(const SchedCycle *cycle, NextHold **holds, int n)
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
 * Reads the buckets that could pay for each hold, given the kind and the GPU
 * types of its job.
 */
static void
read_buckets(const SchedCycle *cycle, NextHold **holds, int n)
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
 * Returns an array of names as text. SQL has no array of arrays of different
 * lengths, so the statement gets an array of such texts.
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
 * Reads a statement's payers, and groups them by owner in the order in which
 * they arrive.
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
 * Whether a hold could be paid beside the holds counted before. If so, the
 * hold is counted as well.
 */
bool
CreditCheckHold(const NextHold *hold, HTAB *counted)
{
	if (hold->amount == 0)
		return true;
	if (!budgets_leave(hold, counted) || !buckets_can_pay(hold, counted))
		return false;
	for (int i = 0; i < hold->budgets.n; i++)
		counted_of(counted, hold->job, hold->budgets.all[i].name)->amount +=
			hold->amount;
	return true;
}

/* Whether the hard budgets on the path of the account allow the hold. */
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
 * Whether the buckets can pay the hold, in burn order. If so, what each would
 * pay is counted.
 */
static bool
buckets_can_pay(const NextHold *hold, HTAB *counted)
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
 * Returns the counter of a bucket or budget in a job's organisation, which
 * starts at 0.
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
