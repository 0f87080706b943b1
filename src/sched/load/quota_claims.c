/*-------------------------------------------------------------------------
 *
 * quota_claims.c
 *		Counts the claims of other pools under quotas.
 *
 * A claim evicts other jobs, so its own job must still be allowed to start
 * when the others have left. A claim therefore counts in each pool from the
 * moment it is made, as if its job had the devices. For a job that grows, only
 * the additional devices count. For a waiting job only that counts which
 * exceeds what the jobs return under the same quota that leave for it, because
 * it does not start before they have left (sched_quota.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "miscadmin.h"
#include "sched/load/sched_quota.h"

/*
 * A claim whose time limit has passed does not count, even before its own pool
 * ends it.
 */
SQL_STATEMENT(promised_read, SPI_OK_SELECT, "text, text[], timestamptz",
			  "SELECT c.org, c.job, c.attempt, c.account, c.gpu_type,"
			  " CASE WHEN c.share < 1000 THEN GREATEST(c.share, g.kept)"
			  "  ELSE c.share END, g.gpus, g.cpu_milli, g.memory_mib,"
			  " COALESCE((SELECT j.preemptible <> 'capacity'"
			  "  FROM gpucredit.job j"
			  "  WHERE j.org = c.org AND j.job = c.job), false)"
			  " FROM gpucredit.claim c CROSS JOIN LATERAL (SELECT"
			  "  pg_catalog.sum(gpucredit.gpu_count(g.gpus))::bigint AS gpus,"
			  "  pg_catalog.sum(g.cpu_milli)::bigint AS cpu_milli,"
			  "  pg_catalog.sum(g.memory_mib)::bigint AS memory_mib,"
			  "  pg_catalog.max(pg_catalog.ceil(1000.0 * g.gpu_memory_mib"
			  "   / n.gpu_memory_mib))::int AS kept"
			  "  FROM gpucredit.claim_gpu g JOIN gpucredit.node n"
			  "   ON n.pool = g.pool AND n.node = g.node WHERE g.pool = c.pool"
			  "  AND g.org = c.org AND g.job = c.job) g"
			  " WHERE c.pool <> $1 AND c.org = ANY ($2) AND c.until > $3");
SQL_STATEMENT(has_read, SPI_OK_SELECT, "text[], bigint[], int[]",
			  "SELECT u.n, a.gpus FROM ROWS FROM (pg_catalog.unnest($1),"
			  " pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  " WITH ORDINALITY AS u (org, job, attempt, n)"
			  " JOIN gpucredit.attempt a ON a.org = u.org AND a.job = u.job"
			  "  AND a.attempt = u.attempt WHERE a.ended_at IS NULL");

/*
 * Reads what the jobs use that leave for claims in other pools. Those that
 * continue elsewhere return nothing, and all that leave are preemptible, so
 * they use nothing that max_nonpreemptible_gpus counts.
 */
SQL_STATEMENT(leavers_read, SPI_OK_SELECT, "text, text[]",
			  "SELECT e.for_org, e.for_job, a.org, a.account, a.gpu_type,"
			  " a.gpus::bigint * a.billed_share, j.cpu_milli, j.memory_mib"
			  " FROM gpucredit.eviction e JOIN gpucredit.attempt a"
			  "  ON a.org = e.org AND a.job = e.job AND a.attempt = e.attempt"
			  " JOIN gpucredit.job j ON j.org = e.org AND j.job = e.job"
			  " WHERE e.pool <> $1 AND e.for_org = ANY ($2)"
			  " AND e.why IN ('tier', 'entitlement') AND a.ended_at IS NULL");

/* A job of another pool that leaves for a claim there. */
typedef struct QuotaLeaver
{
	const char *for_org;
	int64		for_job;
	SchedQuotaList over;		/* the quotas that count its account */
	const char *gpu_type;
	DecideUse	use;
} QuotaLeaver;

static int64 *read_has(const SchedCycle *cycle, SqlResult claims);
static QuotaLeaver *read_leavers(const SchedCycle *cycle, const char *const *orgs,
								 int n, int *n_leavers);
static DecideUse beyond_returned(const SchedQuota *limit, const char *org,
								 int64 job, const DecideUse *use,
								 const QuotaLeaver *leavers, int n);

/* Counts the claims of these organisations' jobs in other pools. */
void
SchedQuotasCountElsewhere(const SchedCycle *cycle, const char *const *orgs, int n)
{
	SqlResult	claims;
	int64	   *has;
	QuotaLeaver *leavers;
	int			n_leavers;

	claims = CycleRead(cycle, &promised_read,
					   VALUES(TextValue(cycle->pool), TextArrayValue(orgs, n),
							  TimeValue(cycle->now)));
	if (claims.n == 0)
		return;
	has = read_has(cycle, claims);
	leavers = read_leavers(cycle, orgs, n, &n_leavers);
	for (uint64 i = 0; i < claims.n; i++)
	{
		char	   *org = SqlText(claims, i, 1);
		char	   *type = SqlText(claims, i, 5);
		int64		more = SqlInt8(claims, i, 7) - Max(has[i], 0);
		DecideUse	use = DecideGrowthUse(Max(more, 0),
										  SqlInt4(claims, i, 6),
										  SqlBool(claims, i, 10));
		SchedQuotaList over = SchedQuotasOver(cycle, org,
											  SqlText(claims, i, 4));

		CHECK_FOR_INTERRUPTS();
		if (has[i] < 0)
		{
			use.of[DECIDE_LIMITED_JOBS] = 1;
			use.of[DECIDE_LIMITED_CPU] = SqlInt8(claims, i, 8);
			use.of[DECIDE_LIMITED_MEMORY] = SqlInt8(claims, i, 9);
		}
		for (int l = 0; l < over.n; l++)
		{
			DecideUse	beyond = use;

			if (!SchedQuotaConcerns(over.quotas[l], type))
				continue;
			if (has[i] < 0)
				beyond = beyond_returned(over.quotas[l], org,
										 SqlInt8(claims, i, 2), &use,
										 leavers, n_leavers);
			DecideUseAdd(&over.quotas[l]->elsewhere, &beyond);
		}
	}
	SqlFree(&claims);
}

/* Reads the live attempts that leave for claims of these organisations. */
static QuotaLeaver *
read_leavers(const SchedCycle *cycle, const char *const *orgs, int n,
			 int *n_leavers)
{
	SqlResult	rows = CycleRead(cycle, &leavers_read,
								 VALUES(TextValue(cycle->pool),
										TextArrayValue(orgs, n)));
	QuotaLeaver *leavers = palloc(sizeof(QuotaLeaver) * (rows.n + 1));

	for (uint64 i = 0; i < rows.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		leavers[i] = (QuotaLeaver)
		{
			.for_org = SqlText(rows, i, 1),
				.for_job = SqlInt8(rows, i, 2),
				.over = SchedQuotasOver(cycle, SqlText(rows, i, 3),
										SqlText(rows, i, 4)),
				.gpu_type = SqlText(rows, i, 5),
				.use.of[DECIDE_LIMITED_JOBS] = 1,
				.use.of[DECIDE_LIMITED_DEVICES] = SqlInt8(rows, i, 6),
				.use.of[DECIDE_LIMITED_CPU] = SqlInt8(rows, i, 7),
				.use.of[DECIDE_LIMITED_MEMORY] = SqlInt8(rows, i, 8)
		};
	}
	*n_leavers = (int) rows.n;
	SqlFree(&rows);
	return leavers;
}

/*
 * Returns the part of a claim that exceeds what the jobs return under a quota
 * that leave for the claim.
 */
static DecideUse
beyond_returned(const SchedQuota *limit, const char *org, int64 job,
				const DecideUse *use, const QuotaLeaver *leavers, int n)
{
	DecideUse	returned = {{0}};

	for (int i = 0; i < n; i++)
	{
		const QuotaLeaver *leaver = &leavers[i];

		if (leaver->for_job != job || strcmp(leaver->for_org, org) != 0 ||
			!SchedQuotaConcerns(limit, leaver->gpu_type))
			continue;
		for (int l = 0; l < leaver->over.n; l++)
		{
			if (leaver->over.quotas[l] == limit)
				DecideUseAdd(&returned, &leaver->use);
		}
	}
	return DecideUseBeyond(use, &returned);
}

/*
 * Returns, by claim, how many devices its job has now, or -1 if the job is not
 * running.
 */
static int64 *
read_has(const SchedCycle *cycle, SqlResult claims)
{
	const char **orgs = palloc(sizeof(char *) * claims.n);
	int64	   *jobs = palloc(sizeof(int64) * claims.n);
	int32	   *attempts = palloc(sizeof(int32) * claims.n);
	int64	   *has = palloc(sizeof(int64) * claims.n);
	SqlResult	rows;

	for (uint64 i = 0; i < claims.n; i++)
	{
		orgs[i] = SqlText(claims, i, 1);
		jobs[i] = SqlInt8(claims, i, 2);
		attempts[i] = SqlInt4(claims, i, 3);
		has[i] = -1;
	}
	rows = CycleRead(cycle, &has_read,
					 VALUES(TextArrayValue(orgs, (int) claims.n),
							Int8ArrayValue(jobs, (int) claims.n),
							Int4ArrayValue(attempts, (int) claims.n)));
	for (uint64 i = 0; i < rows.n; i++)
		has[SqlInt8(rows, i, 1) - 1] = SqlInt4(rows, i, 2);
	SqlFree(&rows);
	return has;
}
