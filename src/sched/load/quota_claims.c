/*-------------------------------------------------------------------------
 *
 * quota_claims.c
 *		Counts the claims of other pools under quotas.
 *
 * A claim evicts other jobs, so its own job must still be allowed to start
 * when the others have left. A claim therefore counts in each pool from the
 * moment it is made, as if its job had the devices. For a job that grows, only
 * the additional devices count.
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
			  "  ELSE c.share END, g.gpus, g.cpu_milli, g.memory_mib"
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

static int64 *read_has(const SchedCycle *cycle, SqlResult claims);

/* Counts the claims of these organisations' jobs in other pools. */
void
SchedQuotasCountElsewhere(const SchedCycle *cycle, const char *const *orgs, int n)
{
	SqlResult	claims;
	int64	   *has;

	claims = CycleRead(cycle, &promised_read,
					   VALUES(TextValue(cycle->pool), TextArrayValue(orgs, n),
							  TimeValue(cycle->now)));
	if (claims.n == 0)
		return;
	has = read_has(cycle, claims);
	for (uint64 i = 0; i < claims.n; i++)
	{
		char	   *type = SqlText(claims, i, 5);
		int64		more = SqlInt8(claims, i, 7) - Max(has[i], 0);
		DecideUse	use = DecideGrowthUse(Max(more, 0),
										  SqlInt4(claims, i, 6));
		SchedQuotaList over = SchedQuotasOver(cycle, SqlText(claims, i, 1),
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
			if (SchedQuotaConcerns(over.quotas[l], type))
				DecideUseAdd(&over.quotas[l]->elsewhere, &use);
		}
	}
	SqlFree(&claims);
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
