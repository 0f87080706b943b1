/*-------------------------------------------------------------------------
 *
 * quota_elsewhere.c
 *		What other pools have promised under quotas.
 *
 * A claim makes somebody leave, so what it is for must still be allowed when
 * he has: from when it is made it counts in each pool under its quotas, as if
 * its job had the devices.  Of a running job that is to have more, it is the
 * more.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched_quota.h"

/* One that is past its time is over, whenever its pool sees to that. */
SQL_STATEMENT(promised_read, SPI_OK_SELECT, "text, text[], timestamptz",
			  "SELECT c.org, c.job, c.attempt, c.account, c.gpu_type,"
			  " c.share, (SELECT pg_catalog.sum(gpucredit.gpu_count(g.gpus))"
			  "  FROM gpucredit.claim_gpu g WHERE g.pool = c.pool"
			  "  AND g.org = c.org AND g.job = c.job)::bigint"
			  " FROM gpucredit.claim c WHERE c.pool <> $1 AND c.org = ANY ($2)"
			  " AND c.until > $3");
SQL_STATEMENT(has_read, SPI_OK_SELECT, "text[], bigint[], int[]",
			  "SELECT u.n, a.gpus FROM ROWS FROM (pg_catalog.unnest($1),"
			  " pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  " WITH ORDINALITY AS u (org, job, attempt, n)"
			  " JOIN gpucredit.attempt a ON a.org = u.org AND a.job = u.job"
			  "  AND a.attempt = u.attempt WHERE a.ended_at IS NULL");

static int64 *read_has(const SchedCycle *cycle, SqlResult claims);

/*
 * Count the claims of these organisations' jobs in other pools.
 */
void
SchedQuotasElsewhere(const SchedCycle *cycle, const char *const *orgs, int n)
{
	SqlArgs		args = {0};
	SqlResult	claims;
	int64	   *has;

	SqlArgText(&args, cycle->pool);
	SqlArgTextArray(&args, orgs, n);
	SqlArgTime(&args, cycle->now);
	claims = CycleRead(cycle, &promised_read, &args);
	if (claims.n == 0)
		return;
	has = read_has(cycle, claims);
	for (uint64 i = 0; i < claims.n; i++)
	{
		char	   *type = SqlText(claims, i, 5);
		int64		more = SqlInt8(claims, i, 7) - Max(has[i], 0);
		SchedQuotaList over = SchedQuotasOver(cycle, SqlText(claims, i, 1),
											  SqlText(claims, i, 4));

		CHECK_FOR_INTERRUPTS();
		for (int l = 0; l < over.n; l++)
		{
			if (!SchedQuotaConcerns(over.quotas[l], type))
				continue;
			over.quotas[l]->elsewhere += has[i] < 0;
			over.quotas[l]->elsewhere_milli += Max(more, 0) *
				SqlInt4(claims, i, 6);
		}
	}
	SqlFree(&claims);
}

/*
 * How many devices the jobs of claims have now; -1: it does not run.
 */
static int64 *
read_has(const SchedCycle *cycle, SqlResult claims)
{
	const char **orgs = palloc(sizeof(char *) * claims.n);
	int64	   *jobs = palloc(sizeof(int64) * claims.n);
	int32	   *attempts = palloc(sizeof(int32) * claims.n);
	int64	   *has = palloc(sizeof(int64) * claims.n);
	SqlArgs		args = {0};
	SqlResult	rows;

	for (uint64 i = 0; i < claims.n; i++)
	{
		orgs[i] = SqlText(claims, i, 1);
		jobs[i] = SqlInt8(claims, i, 2);
		attempts[i] = SqlInt4(claims, i, 3);
		has[i] = -1;
	}
	SqlArgTextArray(&args, orgs, (int) claims.n);
	SqlArgInt8Array(&args, jobs, (int) claims.n);
	SqlArgInt4Array(&args, attempts, (int) claims.n);
	rows = CycleRead(cycle, &has_read, &args);
	for (uint64 i = 0; i < rows.n; i++)
		has[SqlInt8(rows, i, 1) - 1] = SqlInt4(rows, i, 2);
	SqlFree(&rows);
	return has;
}
