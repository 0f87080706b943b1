/*-------------------------------------------------------------------------
 *
 * sched_quota.c
 *		Applies quotas on running jobs, devices, cpu and memory in a
 *		scheduling cycle.
 *
 * A cycle reads which quotas exist, how much of each is used, and which
 * accounts they count, and passes them to the decision core, which observes
 * them: a job gets fewer devices, or another type, or is held back without
 * blocking other jobs.
 *
 * Then the cycle counts what its decision adds to each quota, locks the turns
 * of the quotas under which it starts jobs, and reads limits and use again,
 * before it applies the decision. So two pools cannot both start the last job
 * that a quota allows. If a turn is locked by another pool's cycle or by
 * set_quota(), the jobs under that quota wait a cycle. Submissions lock the
 * quota itself, not its turn. A cycle that starts nothing locks and writes
 * nothing.
 *
 * An account's quotas are found by name, never by a scan of all quotas,
 * because each account may have some.
 *
 * Locks: turns of quotas, without waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/sql.h"
#include "miscadmin.h"
#include "sched/load/sched_quota.h"

#define LIMITS(orgs) \
	"SELECT q.org, q.account, q.gpu_type, q.max_running, q.max_gpus," \
	" q.max_cpu_milli, q.max_memory_mib, q.max_nonpreemptible_gpus" \
	" FROM gpucredit.quota q" \
	" WHERE " QUOTA_OF_RUNNING \
	" AND q.org IN (SELECT j.org FROM gpucredit.job j" \
	"  WHERE j.pool = $1 AND j.state = 'queued'" orgs ")" \
	" ORDER BY q.org, pg_catalog.length(q.account) DESC, q.account," \
	"  q.gpu_type"

SQL_STATEMENT(quotas_read, SPI_OK_SELECT, "text", LIMITS(""));
/*
 * For read-only cycles: also the quotas of hypothetical jobs and of unfunded
 * jobs that the cycle would queue first.
 */
SQL_STATEMENT(quotas_look, SPI_OK_SELECT, "text, text[]",
			  LIMITS(" UNION SELECT j.org FROM gpucredit.job j"
					 "  WHERE j.pool = $1 AND j.state = 'unfunded'"
					 " UNION SELECT pg_catalog.unnest($2)"));
/* Also the quotas of running jobs that could grow. */
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
			  "SELECT q.org, q.account, q.gpu_type, q.max_running, q.max_gpus,"
			  " q.max_cpu_milli, q.max_memory_mib, q.max_nonpreemptible_gpus"
			  KEYS " JOIN gpucredit.quota q ON q.org = u.org"
			  "  AND q.account = u.account AND q.gpu_type = u.gpu_type"
			  " WHERE " QUOTA_OF_RUNNING);
SQL_STATEMENT(quotas_used, SPI_OK_SELECT, "text[]",
			  "SELECT a.org, a.account, a.gpu_type, pg_catalog.count(*),"
			  " pg_catalog.sum(a.gpus::bigint * a.billed_share)::bigint,"
			  " pg_catalog.sum(j.cpu_milli)::bigint,"
			  " pg_catalog.sum(j.memory_mib)::bigint,"
			  " COALESCE(pg_catalog.sum(a.gpus::bigint * a.billed_share)"
			  "  FILTER (WHERE j.preemptible <> 'capacity'), 0)::bigint"
			  LIVE_ATTEMPTS " AND j.org = ANY ($1)"
			  " GROUP BY a.org, a.account, a.gpu_type");

static bool read_limits(const SchedCycle *cycle, SqlResult rows, bool locked);
static void arg_keys(Values *args, SchedQuota *const *quotas, int n);
static bool is_wanted(const SchedQuota *limit);
static bool count_again(SchedCycle *cycle);
static void note_limits(SchedCycle *cycle, SqlResult rows);
static SchedQuota *find_limit(const SchedCycle *cycle, SqlResult rows,
							  uint64 i);
static void count_used(SchedCycle *cycle);

/* Reads the quotas of the pool's queued jobs, and counts their use. */
void
SchedQuotasLoad(SchedCycle *cycle)
{
	SqlResult	rows;
	Values	   *args = VALUES(TextValue(cycle->pool));

	if (cycle->read_only)
	{
		HypotheticalOrgs(cycle, args);
		rows = SqlRead(&quotas_look, args);
	}
	else
		rows = SqlRun(&quotas_read, args);
	if (rows.n == 0)
		return;
	note_limits(cycle, rows);
	read_limits(cycle, rows, false);
	count_used(cycle);
}

/*
 * Once a decision lets some job grow, reads the quotas again together with
 * those of all jobs that could grow. Returns true if there are more quotas
 * than before.
 */
static bool
load_growing(SchedCycle *cycle)
{
	const char **orgs;
	int			n = 0;
	bool		grows = false;
	Values	   *args;
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
	args = VALUES(TextValue(cycle->pool));
	HypotheticalOrgs(cycle, args);
	ValuesAdd(args, TextArrayValue(orgs, n));
	rows = CycleRead(cycle, &quotas_growing, args);
	if (rows.n == 0)
		return false;
	note_limits(cycle, rows);
	read_limits(cycle, rows, false);
	count_used(cycle);
	return true;
}

/*
 * Locks the turns of the quotas under which a decision starts jobs or keeps
 * devices for them, as SchedQuotasCounted() has counted. Returns false if a
 * turn is locked elsewhere or its quota changed; the cycle must then decide
 * again.
 */
bool
SchedQuotasLock(SchedCycle *cycle)
{
	SchedQuota **wanted = palloc_extended(sizeof(SchedQuota *) *
										  (cycle->n_quotas + 1),
										  MCXT_ALLOC_HUGE);
	int			n = 0;
	Values		args = {0};
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

	/*
	 * Limits are read after the turns are locked, because set_quota() locks
	 * the turns, too.
	 */
	same &= read_limits(cycle, SqlRun(&quotas_again, &args), true);
	for (int l = 0; l < n; l++)
		same &= !wanted[l]->busy;
	return count_again(cycle) && same;
}

/*
 * Adds the keys of some quotas to the arguments of a statement, as arrays of
 * organisations, accounts and GPU types.
 */
static void
arg_keys(Values *args, SchedQuota *const *quotas, int n)
{
	const char **texts = palloc_extended(sizeof(char *) * (n + 1),
										 MCXT_ALLOC_HUGE);

	for (int l = 0; l < n; l++)
		texts[l] = quotas[l]->org;
	ValuesAdd(args, TextArrayValue(texts, n));
	for (int l = 0; l < n; l++)
		texts[l] = quotas[l]->account;
	ValuesAdd(args, TextArrayValue(texts, n));
	for (int l = 0; l < n; l++)
		texts[l] = quotas[l]->gpu_type;
	ValuesAdd(args, TextArrayValue(texts, n));
	pfree(texts);
}

/*
 * Whether the decision starts a job, or keeps devices for one, that the quota
 * counts.
 */
static bool
starts_any(const SchedQuota *limit)
{
	for (int i = 0; i < DECIDE_LIMITED; i++)
	{
		if (limit->starting.of[i] > 0)
			return true;
	}
	return false;
}

/* Whether the turn of this quota must still be locked for the decision. */
static bool
is_wanted(const SchedQuota *limit)
{
	return !limit->locked && starts_any(limit);
}

static bool
same_use(const DecideUse *a, const DecideUse *b)
{
	return memcmp(a, b, sizeof(DecideUse)) == 0;
}

/*
 * Counts use again after some quotas are locked. Returns false if it changed.
 */
static bool
count_again(SchedCycle *cycle)
{
	Size		size = sizeof(SchedQuota) * cycle->n_quotas;
	SchedQuota *before = palloc_extended(size, MCXT_ALLOC_HUGE);
	bool		same = true;

	memcpy(before, cycle->quotas, size);
	for (int l = 0; l < cycle->n_quotas; l++)
		cycle->quotas[l].used = cycle->quotas[l].elsewhere = (DecideUse)
	{
		{
			0
		}
	};
	count_used(cycle);
	for (int l = 0; l < cycle->n_quotas; l++)
		same &= same_use(&before[l].used, &cycle->quotas[l].used) &&
			same_use(&before[l].elsewhere, &cycle->quotas[l].elsewhere);
	pfree(before);
	return same;
}

/*
 * Reads the limits of all quotas or, if locked is true, again those whose
 * turns are locked. Returns false if a limit changed.
 */
static bool
read_limits(const SchedCycle *cycle, SqlResult rows, bool locked)
{
	bool		same = true;

	for (uint64 i = 0; i < rows.n; i++)
	{
		SchedQuota *limit = find_limit(cycle, rows, i);
		DecideUse	most;

		CHECK_FOR_INTERRUPTS();
		most.of[DECIDE_LIMITED_JOBS] = SqlIsNull(rows, i, 4) ? -1 :
			SqlInt4(rows, i, 4);
		most.of[DECIDE_LIMITED_DEVICES] = SqlIsNull(rows, i, 5) ? -1 :
			(int64) SqlInt4(rows, i, 5) * DECIDE_WHOLE;
		most.of[DECIDE_LIMITED_CPU] = SqlIsNull(rows, i, 6) ? -1 :
			SqlInt8(rows, i, 6);
		most.of[DECIDE_LIMITED_MEMORY] = SqlIsNull(rows, i, 7) ? -1 :
			SqlInt8(rows, i, 7);
		most.of[DECIDE_LIMITED_STAYING] = SqlIsNull(rows, i, 8) ? -1 :
			(int64) SqlInt4(rows, i, 8) * DECIDE_WHOLE;
		same &= same_use(&limit->most, &most);
		limit->most = most;
		limit->locked = locked;
		limit->busy = false;
	}
	return same;
}

/* Adds the quotas of the rows, which are sorted by account. */
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

/* Returns the loaded quota that a row describes. */
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

/* Counts live attempts and other pools' claims under each quota. */
static void
count_used(SchedCycle *cycle)
{
	const char **orgs = palloc_extended(sizeof(char *) * cycle->n_quotas,
										MCXT_ALLOC_HUGE);
	int			n = 0;
	Values	   *args;
	SqlResult	rows;

	/* The quotas are sorted by organisation. */
	for (int l = 0; l < cycle->n_quotas; l++)
	{
		if (n == 0 || strcmp(orgs[n - 1], cycle->quotas[l].org) != 0)
			orgs[n++] = cycle->quotas[l].org;
	}
	args = VALUES(TextArrayValue(orgs, n));
	rows = cycle->read_only ? SqlRead(&quotas_used, args) :
		SqlRun(&quotas_used, args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *type = SqlText(rows, i, 3);
		SchedQuotaList over = SchedQuotasOver(cycle, SqlText(rows, i, 1),
											  SqlText(rows, i, 2));
		DecideUse	use;

		CHECK_FOR_INTERRUPTS();
		use.of[DECIDE_LIMITED_JOBS] = SqlInt8(rows, i, 4);
		use.of[DECIDE_LIMITED_DEVICES] = SqlInt8(rows, i, 5);
		use.of[DECIDE_LIMITED_CPU] = SqlInt8(rows, i, 6);
		use.of[DECIDE_LIMITED_MEMORY] = SqlInt8(rows, i, 7);
		use.of[DECIDE_LIMITED_STAYING] = SqlInt8(rows, i, 8);
		for (int l = 0; l < over.n; l++)
		{
			if (SchedQuotaConcerns(over.quotas[l], type))
				DecideUseAdd(&over.quotas[l]->used, &use);
		}
	}
	SqlFree(&rows);
	SchedQuotasCountElsewhere(cycle, orgs, n);
}

SQL_STATEMENT(quotas_count, SPI_OK_UPDATE, "text[], text[], text[]",
			  "UPDATE gpucredit.quota_lock t SET turn = t.turn + 1"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  "  AS u (org, account, gpu_type)"
			  " WHERE t.org = u.org AND t.account = u.account"
			  " AND t.gpu_type = u.gpu_type");

static bool quota_of(const SchedCycle *cycle, const SchedQuota *limit,
					 DecideQuota *quota);
static void count_claims(SchedCycle *cycle);
static DecideUse claim_use(const SchedCycle *cycle, const DecidePart *parts,
						   const DecideClaim *claim);
static DecideUse beyond_returned(const SchedCycle *cycle,
								 const SchedQuota *limit,
								 const DecideClaim *claim,
								 const DecideUse *use);
static int32 gpus_of(const SchedCycle *cycle, const DecideClaim *claim);
static SchedQuotaList quotas_over(const SchedCycle *cycle, int32 account);
static void count_start(const SchedCycle *cycle, int32 job, int32 type,
						int32 gpus);
static void count_new(const SchedCycle *cycle, int32 account, int32 type,
					  DecideUse use);
static const char *type_name(const SchedCycle *cycle, int32 type);

/* Passes the quotas that count jobs of the cycle to the decision. */
void
SchedQuotasStore(SchedCycle *cycle)
{
	DecideQuota *quotas;

	cycle->input.n_quotas = 0;
	if (cycle->n_quotas == 0)
		return;
	quotas = MemoryContextAllocHuge(cycle->decided, sizeof(DecideQuota) *
									cycle->n_quotas);
	for (int l = 0; l < cycle->n_quotas; l++)
	{
		CHECK_FOR_INTERRUPTS();
		if (quota_of(cycle, &cycle->quotas[l],
					 &quotas[cycle->input.n_quotas]))
			cycle->input.n_quotas++;
	}
	cycle->input.quotas = quotas;
}

/*
 * Fills in a quota for the decision. Returns false if it counts no account of
 * the cycle. Under a quota whose turn another transaction has locked, nothing
 * starts, of any type.
 */
static bool
quota_of(const SchedCycle *cycle, const SchedQuota *limit, DecideQuota *quota)
{
	*quota = (DecideQuota)
	{
		.account = AccountFind(cycle, limit->org, limit->account),
			.type = DECIDE_ANY_TYPE,
			.used = limit->used
	};
	DecideUseAdd(&quota->used, &limit->elsewhere);
	if (quota->account < 0 || limit->busy)
		return quota->account >= 0;
	quota->most = limit->most;
	if (*limit->gpu_type != '\0')
		quota->type = NameFind(&cycle->set->types, limit->gpu_type);
	return *limit->gpu_type == '\0' || quota->type >= 0;
}

/*
 * Counts what a decision adds to each quota. Returns false if the quotas of a
 * job that grows were missing; they are now loaded, and the cycle must decide
 * again.
 */
bool
SchedQuotasCounted(SchedCycle *cycle)
{
	if (load_growing(cycle))
		return false;
	for (int l = 0; l < cycle->n_quotas; l++)
		cycle->quotas[l].starting = cycle->quotas[l].claimed =
			(DecideUse)
	{
		{
			0
		}
	};
	if (cycle->n_quotas == 0)
		return true;
	count_claims(cycle);
	for (int s = 0; s < cycle->result.n_starts; s++)
	{
		const DecideStart *start = &cycle->result.starts[s];

		CHECK_FOR_INTERRUPTS();
		count_start(cycle, start->job, start->type, start->gpus);
	}
	for (int p = 0; p < cycle->result.n_promises; p++)
	{
		const DecidePromise *promise = &cycle->result.promises[p];
		const DecideRunning *running = promise->job >= 0 ? NULL :
			&cycle->running[promise->running];

		if (running == NULL)
			count_start(cycle, promise->job, promise->type, promise->gpus);
		else if (promise->gpus > running->gpus)
			count_new(cycle, running->account, promise->type,
					  DecideGrowthUse(promise->gpus - running->gpus,
									  running->counted > 0 ?
									  running->counted : running->share,
									  running->stays));
	}
	return true;
}

/* Counts the claims of earlier cycles whose jobs do not start now as use. */
static void
count_claims(SchedCycle *cycle)
{
	bool	   *starts = palloc0(sizeof(bool) * (cycle->input.n_jobs + 1));

	for (int s = 0; s < cycle->result.n_starts; s++)
		starts[cycle->result.starts[s].job] = true;
	for (int c = 0; c < cycle->input.n_claims; c++)
	{
		const DecideClaim *claim = &cycle->claims[c];

		if (claim->job < 0 || !starts[claim->job])
			SchedQuotasCountClaim(cycle, cycle->input.claim_parts, claim);
	}
	pfree(starts);
}

/*
 * Counts a claim under its job's quotas, in addition to the claims counted
 * before. For a running job, only its additional devices count.
 */
void
SchedQuotasCountClaim(const SchedCycle *cycle, const DecidePart *parts,
					  const DecideClaim *claim)
{
	DecideUse	use = claim_use(cycle, parts, claim);
	SchedQuotaList over = {0};

	if (cycle->n_quotas > 0)
		over = quotas_over(cycle, claim->account);
	for (int l = 0; l < over.n; l++)
	{
		SchedQuota *limit = over.quotas[l];

		if (SchedQuotaConcerns(limit, type_name(cycle, claim->type)))
		{
			DecideUse	more = beyond_returned(cycle, limit, claim, &use);

			DecideUseAdd(&limit->claimed, &more);
		}
	}
}

/*
 * Whether quotas still allow a claim, in addition to what runs and the claims
 * counted before.
 */
bool
SchedQuotasAllowClaim(const SchedCycle *cycle, const DecidePart *parts,
					  const DecideClaim *claim)
{
	DecideUse	use = claim_use(cycle, parts, claim);
	SchedQuotaList over = {0};

	if (cycle->n_quotas > 0)
		over = quotas_over(cycle, claim->account);
	for (int l = 0; l < over.n; l++)
	{
		const SchedQuota *limit = over.quotas[l];
		DecideUse	used = limit->used;
		DecideUse	more;

		if (!SchedQuotaConcerns(limit, type_name(cycle, claim->type)))
			continue;
		DecideUseAdd(&used, &limit->elsewhere);
		DecideUseAdd(&used, &limit->claimed);
		more = beyond_returned(cycle, limit, claim, &use);
		if (DecideUseOver(&limit->most, &used, &more) >= 0)
			return false;
	}
	return true;
}

/*
 * Returns the part of a waiting job's claim that exceeds what the jobs return
 * under a quota that leave for the claim. They still count as use, and the
 * claim's job does not start before they have left (decide/order/quota.c).
 */
static DecideUse
beyond_returned(const SchedCycle *cycle, const SchedQuota *limit,
				const DecideClaim *claim, const DecideUse *use)
{
	DecideUse	returned = {{0}};

	for (int32 r = 0; r < cycle->input.n_running && !claim->running; r++)
	{
		const DecideRunning *running = &cycle->running[r];
		DecideUse	has;
		SchedQuotaList over;

		if (!DecideLeavesFor(&cycle->input, running, claim))
			continue;
		has = DecideRunningUse(running, cycle->running_parts);
		over = quotas_over(cycle, running->account);
		for (int l = 0; l < over.n; l++)
		{
			if (over.quotas[l] == limit &&
				SchedQuotaConcerns(limit, type_name(cycle, running->type)))
				DecideUseAdd(&returned, &has);
		}
	}
	return DecideUseBeyond(use, &returned);
}

/* Returns what a claim adds to what its job uses now. */
static DecideUse
claim_use(const SchedCycle *cycle, const DecidePart *parts,
		  const DecideClaim *claim)
{
	return DecideClaimUse(parts, claim,
						  claim->running ? gpus_of(cycle, claim) : 0);
}

/* Returns how many devices the job of a claim has while it runs. */
static int32
gpus_of(const SchedCycle *cycle, const DecideClaim *claim)
{
	for (int32 r = 0; r < cycle->input.n_running; r++)
	{
		const DecideRunning *running = &cycle->running[r];

		if (running->id == claim->id && !running->over &&
			strcmp(running->org, claim->org) == 0)
			return running->gpus;
	}
	return claim->gpus;
}

/*
 * Increments the turns of the quotas under which this cycle starts jobs or
 * keeps devices for them. A cycle with an older snapshot then fails to lock
 * the turns.
 */
void
SchedQuotasCount(const SchedCycle *cycle)
{
	const char **texts = palloc(sizeof(char *) * 3 * (cycle->n_quotas + 1));
	int			n = 0;
	Values		args = {0};

	for (int l = 0; l < cycle->n_quotas; l++)
	{
		const SchedQuota *limit = &cycle->quotas[l];

		if (!starts_any(limit))
			continue;
		texts[n] = limit->org;
		texts[cycle->n_quotas + n] = limit->account;
		texts[2 * cycle->n_quotas + n++] = limit->gpu_type;
	}
	if (n == 0)
		return;
	for (int column = 0; column < 3; column++)
		ValuesAdd(&args, TextArrayValue(texts + column * cycle->n_quotas, n));
	(void) SqlRun(&quotas_count, &args);
}

/* Returns the quotas that count an account, given by its number. */
static SchedQuotaList
quotas_over(const SchedCycle *cycle, int32 account)
{
	return SchedQuotasOver(cycle, cycle->account_names[account].org,
						   cycle->account_names[account].path);
}

/*
 * Counts a job that starts, or for which devices are claimed, under its
 * quotas.
 */
static void
count_start(const SchedCycle *cycle, int32 job, int32 type, int32 gpus)
{
	const DecideRequestClass *request =
	&cycle->input.requests[cycle->jobs[job].request];

	count_new(cycle, cycle->jobs[job].account, type,
			  DecideJobUse(request, type, gpus));
}

/* Adds a use to all quotas that count this account and this type. */
static void
count_new(const SchedCycle *cycle, int32 account, int32 type, DecideUse use)
{
	SchedQuotaList over = quotas_over(cycle, account);

	for (int l = 0; l < over.n; l++)
	{
		if (SchedQuotaConcerns(over.quotas[l], type_name(cycle, type)))
			DecideUseAdd(&over.quotas[l]->starting, &use);
	}
}

/* Returns the name of a GPU type, or NULL for a job without GPUs. */
static const char *
type_name(const SchedCycle *cycle, int32 type)
{
	return type == DECIDE_NO_TYPE ? NULL : cycle->set->types.names[type];
}
