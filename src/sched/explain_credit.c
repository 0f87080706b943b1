/*-------------------------------------------------------------------------
 *
 * explain_credit.c
 *		What explain tells of a job's credit: what is held for it, or what its
 *		next hold wants, and which budget or bucket's rule keeps it from that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/sql.h"
#include "job/job.h"
#include "sched/explain.h"

SQL_STATEMENT(budgets_read, SPI_OK_SELECT,
			  "text, text, gpucredit.credits, timestamptz",
			  "SELECT b.account, b.period, b.amount::text, b.reserved::text,"
			  " b.spent::text, b.remaining::text, b.remaining >= $3::numeric,"
			  " b.amount - b.spent >= $3::numeric, b.amount >= $3::numeric"
			  " FROM gpucredit_internal.budgets_at($1, $2, $4) b WHERE b.hard");

/* by the rule that limits what they give, those that no rule limits first */
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
 * Is it paid for?  held: of it; NULL: it waits for credit.
 */
void
ExplainCredit(ReturnSetInfo *rsinfo, Job *job, const Credits *held)
{
	SqlArgs		args = {0};
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
	/* its next hold is at the prices there are then */
	OffersRenew(job, NodesCached(job->pool), ClockNow());
	if (!OffersHoldAnew(job, &wanted))
	{
		ExplainPut(rsinfo, "credit", false,
				   "more credits wanted than there can be, at the prices of now");
		return;
	}
	if (wanted == 0)
	{
		ExplainPut(rsinfo, "credit", true,
				   psprintf("it costs nothing: %s", first));
		return;
	}
	budgets = put_budgets(rsinfo, job, wanted);
	SqlArgText(&args, job->org);
	SqlArgText(&args, job->account);
	SqlArgTextArray(&args, job->offers.types, job->offers.n);
	SqlArgText(&args, job->tier);
	SqlArgText(&args, job->pool);
	SqlArgInt8(&args, job->job);
	SqlArgCredits(&args, wanted);
	rows = SqlRead(&buckets_read, &args);
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
 * Each hard budget on its account's path.  False: one of them says no.
 */
static bool
put_budgets(ReturnSetInfo *rsinfo, const Job *job, Credits wanted)
{
	SqlArgs		args = {0};
	SqlResult	rows;
	bool		all = true;

	SqlArgText(&args, job->org);
	SqlArgText(&args, job->account);
	SqlArgCredits(&args, wanted);
	SqlArgTime(&args, ClockNow());
	rows = SqlRead(&budgets_read, &args);
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
 * Credit there is, but not for a job like this, or not so much of it.
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
