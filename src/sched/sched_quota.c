/*-------------------------------------------------------------------------
 *
 * sched_quota.c
 *		Quotas on devices and running jobs, in a scheduling cycle.
 *
 * Which there are, and what is in use, is loaded before (quota_load.c), and
 * given to the decision core, which keeps them: a job gets fewer devices, or
 * another type, or is held back and blocks nobody.  Then what the decision
 * adds to each is counted: those quotas' turns are locked before it is carried
 * out.  Under one that is not to be had nothing starts in this cycle.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched_quota.h"

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
static int64 claim_milli(const SchedCycle *cycle, const DecideClaim *claim);
static int32 gpus_of(const SchedCycle *cycle, const DecideClaim *claim);
static SchedQuotaList quotas_over(const SchedCycle *cycle, int32 account);
static void count_new(const SchedCycle *cycle, int32 account, int32 type,
					  int64 milli, int jobs);
static const char *type_name(const SchedCycle *cycle, int32 type);

/*
 * Give the decision the quotas that concern it.
 */
void
SchedQuotasGive(SchedCycle *cycle)
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
 * A quota as the decision knows it.  False: nobody that takes part in it stands
 * under it.  Under a busy one nothing starts, whatever its type.
 */
static bool
quota_of(const SchedCycle *cycle, const SchedQuota *limit, DecideQuota *quota)
{
	*quota = (DecideQuota)
	{
		.account = AccountFind(cycle, limit->org, limit->account),
			.type = DECIDE_ANY_TYPE,
			.used_milli = limit->used_milli + limit->elsewhere_milli,
			.running = limit->running + limit->elsewhere
	};
	if (quota->account < 0 || limit->busy)
		return quota->account >= 0;
	quota->max_milli = limit->max_milli;
	quota->max_running = limit->max_running;
	if (*limit->gpu_type != '\0')
		quota->type = NameFind(&cycle->set->types, limit->gpu_type);
	return *limit->gpu_type == '\0' || quota->type >= 0;
}

/*
 * Count what a decision adds to each quota.  False: it was made without those
 * of a job that grows, which are there now.
 */
bool
SchedQuotasCounted(SchedCycle *cycle)
{
	if (SchedQuotasLoadGrowing(cycle))
		return false;
	for (int l = 0; l < cycle->n_quotas; l++)
		cycle->quotas[l].new_milli = cycle->quotas[l].new_running =
			cycle->quotas[l].claimed_milli = cycle->quotas[l].claimed = 0;
	if (cycle->n_quotas == 0)
		return true;
	count_claims(cycle);
	for (int s = 0; s < cycle->result.n_starts; s++)
	{
		const DecideStart *start = &cycle->result.starts[s];

		CHECK_FOR_INTERRUPTS();
		count_new(cycle, cycle->jobs[start->job].account, start->type,
				  (int64) start->gpus * start->share, 1);
	}
	for (int p = 0; p < cycle->result.n_promises; p++)
	{
		const DecidePromise *promise = &cycle->result.promises[p];
		const DecideRunning *running = promise->job >= 0 ? NULL :
			&cycle->running[promise->running];

		if (running == NULL)
			count_new(cycle, cycle->jobs[promise->job].account, promise->type,
					  (int64) promise->gpus * promise->share, 1);
		else if (promise->gpus > running->gpus)
			count_new(cycle, running->account, promise->type,
					  (int64) (promise->gpus - running->gpus) *
					  promise->share, 0);
	}
	return true;
}

/*
 * A claim of an earlier cycle that does not start now counts as use.
 */
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
			SchedQuotasCountClaim(cycle, claim);
	}
	pfree(starts);
}

/*
 * Count a claim under the quotas of its job, beside those counted before.  One
 * of a running job that is to go on elsewhere is counted as far as it has more.
 */
void
SchedQuotasCountClaim(const SchedCycle *cycle, const DecideClaim *claim)
{
	int64		milli = claim_milli(cycle, claim);
	SchedQuotaList over = {0};

	if (cycle->n_quotas > 0 && (milli > 0 || !claim->running))
		over = quotas_over(cycle, claim->account);
	for (int l = 0; l < over.n; l++)
	{
		SchedQuota *limit = over.quotas[l];

		if (!SchedQuotaConcerns(limit, type_name(cycle, claim->type)))
			continue;
		limit->claimed += !claim->running;
		limit->claimed_milli += milli;
	}
}

/*
 * Do the quotas still let a job have what was promised to it, beside what runs
 * and the claims counted before?
 */
bool
SchedQuotasAllowClaim(const SchedCycle *cycle, const DecideClaim *claim)
{
	int64		milli = claim_milli(cycle, claim);
	SchedQuotaList over = {0};

	if (cycle->n_quotas > 0)
		over = quotas_over(cycle, claim->account);
	for (int l = 0; l < over.n; l++)
	{
		const SchedQuota *limit = over.quotas[l];

		if (SchedQuotaConcerns(limit, type_name(cycle, claim->type)) &&
			((milli > 0 && limit->max_milli >= 0 && limit->used_milli +
			  limit->elsewhere_milli + limit->claimed_milli + milli >
			  limit->max_milli) ||
			 (limit->max_running >= 0 && limit->running + limit->elsewhere +
			  limit->claimed >= limit->max_running)))
			return false;
	}
	return true;
}

/*
 * How much a claim's job is to have more than it has, in thousandths.
 */
static int64
claim_milli(const SchedCycle *cycle, const DecideClaim *claim)
{
	int32		has = claim->running ? gpus_of(cycle, claim) : 0;

	return (int64) Max(claim->gpus - has, 0) * claim->share;
}

/*
 * How many devices a running job has that is to go on elsewhere.
 */
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
 * Count up the turns of the quotas that this cycle's starts and promises stand
 * under, so that a cycle with an older snapshot cannot go by what was before.
 */
void
SchedQuotasCount(const SchedCycle *cycle)
{
	const char **texts = palloc(sizeof(char *) * 3 * (cycle->n_quotas + 1));
	int			n = 0;
	SqlArgs		args = {0};

	for (int l = 0; l < cycle->n_quotas; l++)
	{
		const SchedQuota *limit = &cycle->quotas[l];

		if (limit->new_running == 0 && limit->new_milli == 0)
			continue;
		texts[n] = limit->org;
		texts[cycle->n_quotas + n] = limit->account;
		texts[2 * cycle->n_quotas + n++] = limit->gpu_type;
	}
	if (n == 0)
		return;
	for (int column = 0; column < 3; column++)
		SqlArgTextArray(&args, texts + column * cycle->n_quotas, n);
	(void) SqlRun(&quotas_count, &args);
}

/*
 * The quotas that an account stands under.
 */
static SchedQuotaList
quotas_over(const SchedCycle *cycle, int32 account)
{
	return SchedQuotasOver(cycle, cycle->account_names[account].org,
						   cycle->account_names[account].path);
}

/*
 * Count so much more under all quotas of an account that count its type.
 */
static void
count_new(const SchedCycle *cycle, int32 account, int32 type, int64 milli,
		  int jobs)
{
	SchedQuotaList over = quotas_over(cycle, account);

	for (int l = 0; l < over.n; l++)
	{
		if (!SchedQuotaConcerns(over.quotas[l], type_name(cycle, type)))
			continue;
		over.quotas[l]->new_running += jobs;
		over.quotas[l]->new_milli += milli;
	}
}

/*
 * A GPU type's name; NULL for no GPUs.
 */
static const char *
type_name(const SchedCycle *cycle, int32 type)
{
	return type == DECIDE_NO_TYPE ? NULL : cycle->set->types.names[type];
}
