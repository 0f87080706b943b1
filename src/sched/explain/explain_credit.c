/*-------------------------------------------------------------------------
 *
 * explain_credit.c
 *		Reports a job's credit for explain(): its hold, or what its next
 *		hold needs and which budget or bucket policy refuses it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/sql.h"
#include "job/job.h"
#include "ledger/uncollected.h"
#include "sched/explain/explain.h"

static void put_debt(ReturnSetInfo *rsinfo, const Job *job, Credits wanted);

SQL_STATEMENT(budgets_read, SPI_OK_SELECT,
			  "text, text, gpucredit.credits, timestamptz",
			  "SELECT b.account, b.period, b.amount::text, b.reserved::text,"
			  " b.spent::text, b.remaining::text, b.remaining >= $3::numeric,"
			  " b.amount - b.spent >= $3::numeric, b.amount >= $3::numeric"
			  " FROM gpucredit_internal.budgets_at($1, $2, $4) b WHERE b.hard");

/*
 * Buckets are grouped by the policy that limits them, those without a limit
 * first.
 */
SQL_STATEMENT(buckets_read, SPI_OK_SELECT,
			  "text, text, text[], text, text, bigint, gpucredit.credits",
			  "SELECT g.rule, g.available::text, g.most::text,"
			  " COALESCE(pg_catalog.sum(g.available) FILTER ("
			  "  WHERE g.rule IS DISTINCT FROM 'not_yet_active')"
			  "  OVER (), 0)::text,"
			  " pg_catalog.sum(g.most) OVER ()::text,"
			  " pg_catalog.sum(g.most) OVER () >= $7::numeric"
			  " FROM (SELECT COALESCE(f.why, CASE WHEN f.most < f.available"
			  "   THEN 'max_per_job, max_share' END) AS rule,"
			  "  pg_catalog.sum(f.available) AS available,"
			  "  pg_catalog.sum(f.most) AS most"
			  "  FROM gpucredit_internal.bucket_fit($1, $2, $3, $4, $5, $6, NULL,"
			  "   $7::numeric) f"
			  "  WHERE f.available > 0 AND (f.why IN ('gpu_types', 'tiers',"
			  "   'pools', 'max_per_job', 'max_share', 'not_yet_active')"
			  "   OR f.why IS NULL) GROUP BY 1) g"
			  " ORDER BY g.rule NULLS FIRST");

static bool put_budgets(ReturnSetInfo *rsinfo, const Job *job,
						Credits wanted);
static void put_rules(ReturnSetInfo *rsinfo, SqlResult rows);

/*
 * Reports whether the job's credit is held. held is the amount of its hold, or
 * NULL if the job waits for credit.
 */
void
ExplainCredit(ReturnSetInfo *rsinfo, Job *job, const Credits *held)
{
	SqlResult	rows;
	Credits		wanted;
	const char *first = "a cycle takes them once those of its account that "
		"wait longer have theirs";
	const char *available;
	const char *payable;
	bool		budgets;
	bool		enough;

	if (held != NULL)
	{
		ExplainPut(rsinfo, "credit", true,
				   psprintf("%s credits are held for it",
							CreditsToCString(*held)));
		return;
	}
	/* The next hold uses the prices in force when it is opened. */
	OffersRenew(job, NodesCached(job->pool), ClockNow());
	if (!OffersHoldToday(job, &wanted))
	{
		ExplainPut(rsinfo, "credit", false,
				   "more credits wanted than there can be, at the prices of now");
		return;
	}
	put_debt(rsinfo, job, wanted);
	if (wanted == 0)
	{
		ExplainPut(rsinfo, "credit", true,
				   psprintf("it costs nothing: %s", first));
		return;
	}
	budgets = put_budgets(rsinfo, job, wanted);
	rows = SqlRead(&buckets_read,
				   VALUES(TextValue(job->org), TextValue(job->account),
						  TextArrayValue(job->offers.types, job->offers.n),
						  TextValue(job->tier), TextValue(job->pool),
						  Int8Value(job->job), CreditsValue(wanted)));
	available = rows.n > 0 ? SqlText(rows, 0, 4) : "0.000000";
	payable = rows.n > 0 ? SqlText(rows, 0, 5) : "0.000000";
	enough = rows.n > 0 && SqlBool(rows, 0, 6);
	ExplainPut(rsinfo, "credit", enough,
			   psprintf("%s credits wanted, %s available to its account%s: %s",
						CreditsToCString(wanted), available,
						strcmp(available, payable) == 0 ? "" :
						psprintf(", of which %s may pay for it", payable),
						!enough ? "issue or transfer credits" :
						budgets ? first : "a budget says no"));
	if (!enough)
		put_rules(rsinfo, rows);
}

/*
 * Reports what the job's organisation owes, if the debt keeps the job from
 * getting a hold.
 */
static void
put_debt(ReturnSetInfo *rsinfo, const Job *job, Credits wanted)
{
	AccountPath path = AccountParse(job->org, job->account);
	Purpose		purpose = JobPurpose(job);

	(void) AccountSuspended(&path);
	if (UncollectedDenies(&path, &purpose, wanted, ClockNow()))
		ExplainPut(rsinfo, "debt", false,
				   psprintf("its organisation owes %s for use that no credit "
							"covered: credit must cover that as well, or "
							"write_off() forgive it",
							CreditsToCString(path.owed)));
}

/*
 * Reports each hard budget on the path of the job's account. Returns false if
 * one of them refuses the hold.
 */
static bool
put_budgets(ReturnSetInfo *rsinfo, const Job *job, Credits wanted)
{
	SqlResult	rows;
	bool		all = true;

	rows = SqlRead(&budgets_read,
				   VALUES(TextValue(job->org), TextValue(job->account),
						  CreditsValue(wanted), TimeValue(ClockNow())));
	for (uint64 i = 0; i < rows.n; i++)
	{
		const char *period = SqlText(rows, i, 2);
		bool		leaves = SqlBool(rows, i, 7);
		const char *change = "";

		if (!leaves)
			change = psprintf(": set_budget() must allow more%s%s",
							  SqlBool(rows, i, 8) ?
							  ", or what is reserved come back" : "",
							  strcmp(period, "none") == 0 ||
							  !SqlBool(rows, i, 9) ? "" :
							  psprintf(", or the next %s begin", period));
		ExplainPut(rsinfo, "budget", leaves,
				   psprintf("account \"%s\", %s: %s credits wanted, %s left "
							"of %s (%s reserved, %s spent)%s",
							SqlText(rows, i, 1),
							strcmp(period, "none") == 0 ? "no period" : period,
							CreditsToCString(wanted), SqlText(rows, i, 6),
							SqlText(rows, i, 3), SqlText(rows, i, 4),
							SqlText(rows, i, 5), change));
		all &= leaves;
	}
	return all;
}

/*
 * Reports credit that is available, but whose bucket policy excludes such a
 * job or allows it only a part.
 */
static void
put_rules(ReturnSetInfo *rsinfo, SqlResult rows)
{
	for (uint64 i = 0; i < rows.n; i++)
	{
		if (!SqlIsNull(rows, i, 1))
			ExplainPut(rsinfo, "bucket rule", false,
					   psprintf("%s: of %s credits so limited %s pay for it; "
								"job_buckets() names them",
								SqlText(rows, i, 1), SqlText(rows, i, 2),
								SqlText(rows, i, 3)));
	}
}
