/*-------------------------------------------------------------------------
 *
 * quota_load.c
 *		Which quotas on devices and running jobs there are, what is in use
 *		under them or promised by other pools, and which concern an account.
 *
 * The turns of those that a decision's starts stand under are locked before it
 * is carried out, so that two pools cannot both start the last job allowed, and
 * what is allowed and in use is read again; where one is locked elsewhere, by
 * another pool's cycle or as the quota is being set, the jobs below it wait a
 * cycle.  Submissions, which lock the quota itself, are in nobody's way.  A
 * cycle that starts nothing locks, and so writes, nothing.
 *
 * An account's quotas are found by its name and those above it, never by
 * looking through all of them: each account may have some.
 *
 * Locks: turns of quotas, without waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched_quota.h"
#include "utils/hsearch.h"

#define LIMITS(orgs) \
	"SELECT q.org, q.account, q.gpu_type, q.max_gpus, q.max_running" \
	" FROM gpucredit.quota q" \
	" WHERE (q.max_gpus IS NOT NULL OR q.max_running IS NOT NULL)" \
	" AND q.org IN (SELECT j.org FROM gpucredit.job j" \
	"  WHERE j.pool = $1 AND j.state = 'queued'" orgs ")" \
	" ORDER BY q.org, pg_catalog.length(q.account) DESC, q.account," \
	"  q.gpu_type"

SQL_STATEMENT(quotas_read, SPI_OK_SELECT, "text", LIMITS(""));
/* for plan: those of jobs that would be queued first, too, and are supposed */
SQL_STATEMENT(quotas_look, SPI_OK_SELECT, "text, text[]",
			  LIMITS(" UNION SELECT j.org FROM gpucredit.job j"
					 "  WHERE j.pool = $1 AND j.state = 'unfunded'"
					 " UNION SELECT pg_catalog.unnest($2)"));
/* and those of running jobs that could grow */
SQL_STATEMENT(quotas_growing, SPI_OK_SELECT, "text, text[], text[]",
			  LIMITS(" UNION SELECT j.org FROM gpucredit.job j"
					 "  WHERE j.pool = $1 AND j.state = 'unfunded'"
					 " UNION SELECT pg_catalog.unnest($2)"
					 " UNION SELECT pg_catalog.unnest($3)"));
#define KEYS \
	" FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)," \
	"  pg_catalog.unnest($3)) AS u (org, account, gpu_type)"
SQL_STATEMENT(quotas_lock, SPI_OK_SELECT, "text[], text[], text[]",
			  "SELECT t.org, t.account, t.gpu_type" KEYS
			  " JOIN gpucredit.quota_lock t ON t.org = u.org"
			  "  AND t.account = u.account AND t.gpu_type = u.gpu_type"
			  " FOR NO KEY UPDATE OF t SKIP LOCKED");
SQL_STATEMENT(quotas_again, SPI_OK_SELECT, "text[], text[], text[]",
			  "SELECT q.org, q.account, q.gpu_type, q.max_gpus, q.max_running"
			  KEYS " JOIN gpucredit.quota q ON q.org = u.org"
			  "  AND q.account = u.account AND q.gpu_type = u.gpu_type"
			  " WHERE q.max_gpus IS NOT NULL OR q.max_running IS NOT NULL");
SQL_STATEMENT(quotas_used, SPI_OK_SELECT, "text[]",
			  "SELECT a.org, a.account, a.gpu_type, pg_catalog.count(*),"
			  " pg_catalog.sum(a.gpus::bigint * a.share)::bigint"
			  LIVE_ATTEMPTS " AND j.org = ANY ($1)"
			  " GROUP BY a.org, a.account, a.gpu_type");

static bool read_limits(const SchedCycle *cycle, SqlResult rows, bool locked);
static void arg_keys(SqlArgs *args, SchedQuota *const *quotas, int n);
static bool is_wanted(const SchedQuota *limit);
static bool count_again(SchedCycle *cycle);
static void note_limits(SchedCycle *cycle, SqlResult rows);
static SchedQuota *find_limit(const SchedCycle *cycle, SqlResult rows,
							  uint64 i);
static void count_used(SchedCycle *cycle);

/*
 * Read and count the quotas that queued jobs of the pool stand under.
 */
void
SchedQuotasLoad(SchedCycle *cycle)
{
	SqlArgs		args = {0};
	SqlResult	rows;

	SqlArgText(&args, cycle->pool);
	if (cycle->read_only)
	{
		HypotheticalOrgs(cycle, &args);
		rows = SqlRead(&quotas_look, &args);
	}
	else
		rows = SqlRun(&quotas_read, &args);
	if (rows.n == 0)
		return;
	note_limits(cycle, rows);
	read_limits(cycle, rows, false);
	count_used(cycle);
}

/*
 * Where a running job is to grow, read them once more, with those that all
 * jobs stand under that could.  As a rule none does, so this is not read at
 * once.  True: there are some.
 */
bool
SchedQuotasLoadGrowing(SchedCycle *cycle)
{
	const char **orgs;
	int			n = 0;
	bool		grows = false;
	SqlArgs		args = {0};
	SqlResult	rows;

	for (int p = 0; p < cycle->result.n_promises && !grows; p++)
		grows = cycle->result.promises[p].why == DECIDE_WHY_GROW;
	if (!grows || cycle->quotas_growing)
		return false;
	cycle->quotas_growing = true;
	orgs = palloc(sizeof(char *) * cycle->input.n_running);
	for (int32 r = 0; r < cycle->input.n_running; r++)
	{
		if (cycle->running[r].request >= 0 &&
			cycle->running[r].gpus < cycle->running[r].max_gpus)
			orgs[n++] = cycle->running[r].org;
	}
	SqlArgText(&args, cycle->pool);
	HypotheticalOrgs(cycle, &args);
	SqlArgTextArray(&args, orgs, n);
	rows = CycleRead(cycle, &quotas_growing, &args);
	if (rows.n == 0)
		return false;
	note_limits(cycle, rows);
	read_limits(cycle, rows, false);
	count_used(cycle);
	return true;
}

/*
 * Lock the turns of the quotas that a decision's starts and promises stand
 * under, as SchedQuotasCounted() has it.  False: one is not to be had, or its
 * quota is not as it was read; the cycle must then decide again.
 */
bool
SchedQuotasLock(SchedCycle *cycle)
{
	SchedQuota **wanted = palloc_extended(sizeof(SchedQuota *) *
										  (cycle->n_quotas + 1),
										  MCXT_ALLOC_HUGE);
	int			n = 0;
	SqlArgs		args = {0};
	SqlResult	turns;
	bool		same;

	for (int l = 0; l < cycle->n_quotas; l++)
	{
		if (!is_wanted(&cycle->quotas[l]))
			continue;
		cycle->quotas[l].busy = true;
		wanted[n++] = &cycle->quotas[l];
	}
	if (n == 0)
		return true;
	arg_keys(&args, wanted, n);
	turns = SqlRun(&quotas_lock, &args);
	same = turns.n == (uint64) n;
	for (n = 0; n < (int) turns.n; n++)
		wanted[n] = find_limit(cycle, turns, n);
	args.n = 0;
	arg_keys(&args, wanted, n);
	/* limits are read once the turns are locked: set_quota locks them, too */
	same &= read_limits(cycle, SqlRun(&quotas_again, &args), true);
	for (int l = 0; l < n; l++)
		same &= !wanted[l]->busy;
	return count_again(cycle) && same;
}

/*
 * Parameters: arrays of organisations, accounts and GPU types.
 */
static void
arg_keys(SqlArgs *args, SchedQuota *const *quotas, int n)
{
	const char **texts = palloc_extended(sizeof(char *) * (n + 1),
										 MCXT_ALLOC_HUGE);

	for (int l = 0; l < n; l++)
		texts[l] = quotas[l]->org;
	SqlArgTextArray(args, texts, n);
	for (int l = 0; l < n; l++)
		texts[l] = quotas[l]->account;
	SqlArgTextArray(args, texts, n);
	for (int l = 0; l < n; l++)
		texts[l] = quotas[l]->gpu_type;
	SqlArgTextArray(args, texts, n);
	pfree(texts);
}

/*
 * Must the decision lock this quota, and has not?
 */
static bool
is_wanted(const SchedQuota *limit)
{
	return !limit->locked && (limit->new_running > 0 || limit->new_milli > 0);
}

/*
 * Count the use once more, some quotas being locked now.  False: it changed.
 */
static bool
count_again(SchedCycle *cycle)
{
	Size		size = sizeof(SchedQuota) * cycle->n_quotas;
	SchedQuota *before = palloc_extended(size, MCXT_ALLOC_HUGE);
	bool		same = true;

	memcpy(before, cycle->quotas, size);
	for (int l = 0; l < cycle->n_quotas; l++)
		cycle->quotas[l].running = cycle->quotas[l].used_milli =
			cycle->quotas[l].elsewhere = cycle->quotas[l].elsewhere_milli = 0;
	count_used(cycle);
	for (int l = 0; l < cycle->n_quotas; l++)
		same &= before[l].running == cycle->quotas[l].running &&
			before[l].used_milli == cycle->quotas[l].used_milli &&
			before[l].elsewhere == cycle->quotas[l].elsewhere &&
			before[l].elsewhere_milli == cycle->quotas[l].elsewhere_milli;
	pfree(before);
	return same;
}

/*
 * What quotas allow: first all of them, then those whose turns are locked, as
 * they are now.  False: one is not what it was.
 */
static bool
read_limits(const SchedCycle *cycle, SqlResult rows, bool locked)
{
	bool		same = true;

	for (uint64 i = 0; i < rows.n; i++)
	{
		SchedQuota *limit = find_limit(cycle, rows, i);
		int64		max_milli = SqlIsNull(rows, i, 4) ? -1 :
			(int64) SqlInt4(rows, i, 4) * DECIDE_WHOLE;
		int64		max_running = SqlIsNull(rows, i, 5) ? -1 :
			SqlInt4(rows, i, 5);

		CHECK_FOR_INTERRUPTS();
		same &= limit->max_milli == max_milli &&
			limit->max_running == max_running;
		limit->max_milli = max_milli;
		limit->max_running = max_running;
		limit->locked = locked;
		limit->busy = false;
	}
	return same;
}

/*
 * Note what quotas there are, account by account.
 */
static void
note_limits(SchedCycle *cycle, SqlResult rows)
{
	SchedQuotaEntry *entry = NULL;

	cycle->n_quotas = (int) rows.n;
	cycle->quotas = MemoryContextAllocExtended(CurrentMemoryContext,
											   sizeof(SchedQuota) * rows.n,
											   MCXT_ALLOC_HUGE |
											   MCXT_ALLOC_ZERO);
	cycle->quota_ids = AccountTable("gpucredit quotas",
									sizeof(SchedQuotaEntry));
	for (uint64 i = 0; i < rows.n; i++)
	{
		SchedQuota *limit = &cycle->quotas[i];

		CHECK_FOR_INTERRUPTS();
		limit->org = SqlText(rows, i, 1);
		limit->account = SqlText(rows, i, 2);
		limit->gpu_type = SqlText(rows, i, 3);
		if (entry == NULL || strcmp(entry->key.path, limit->account) != 0 ||
			strcmp(entry->key.org, limit->org) != 0)
		{
			entry = SchedQuotaEntryOf(cycle, limit->org, limit->account);
			entry->first = (int32) i;
		}
		entry->n_own++;
	}
}

/*
 * The quota a row is about, which is among those first read.
 */
static SchedQuota *
find_limit(const SchedCycle *cycle, SqlResult rows, uint64 i)
{
	char	   *org = SqlText(rows, i, 1);
	char	   *account = SqlText(rows, i, 2);
	char	   *type = SqlText(rows, i, 3);
	const SchedQuotaEntry *entry = SchedQuotaEntryOf(cycle, org, account);
	int32		l = entry->first;

	while (l < entry->first + entry->n_own &&
		   strcmp(cycle->quotas[l].gpu_type, type) != 0)
		l++;
	Ensure(l < entry->first + entry->n_own, "A quota is missing.");
	pfree(org);
	pfree(account);
	pfree(type);
	return &cycle->quotas[l];
}

/*
 * What live attempts have under each quota, and other pools' claims will.
 */
static void
count_used(SchedCycle *cycle)
{
	const char **orgs = palloc_extended(sizeof(char *) * cycle->n_quotas,
										MCXT_ALLOC_HUGE);
	int			n = 0;
	SqlArgs		args = {0};
	SqlResult	rows;

	/* the quotas come by organisation */
	for (int l = 0; l < cycle->n_quotas; l++)
	{
		if (n == 0 || strcmp(orgs[n - 1], cycle->quotas[l].org) != 0)
			orgs[n++] = cycle->quotas[l].org;
	}
	SqlArgTextArray(&args, orgs, n);
	rows = cycle->read_only ? SqlRead(&quotas_used, &args) :
		SqlRun(&quotas_used, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *type = SqlText(rows, i, 3);
		SchedQuotaList over = SchedQuotasOver(cycle, SqlText(rows, i, 1),
											  SqlText(rows, i, 2));

		CHECK_FOR_INTERRUPTS();
		for (int l = 0; l < over.n; l++)
		{
			if (!SchedQuotaConcerns(over.quotas[l], type))
				continue;
			over.quotas[l]->running += SqlInt8(rows, i, 4);
			over.quotas[l]->used_milli += SqlInt8(rows, i, 5);
		}
	}
	SqlFree(&rows);
	SchedQuotasElsewhere(cycle, orgs, n);
}
