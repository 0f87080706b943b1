/*-------------------------------------------------------------------------
 *
 * explain_quota.c
 *		Quotas that are used up by what else starts, or is promised.
 *
 * What runs is told before, from the rows (explain.c); here is told what is
 * about to: this cycle's starts, and the claims of this pool and of others.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/compat.h"
#include "sched/explain.h"
#include "sched/sched_quota.h"

static bool concerns(const SchedCycle *cycle, const SchedQuota *limit,
					 const DecideRequestClass *request);
static bool put_over(ReturnSetInfo *rsinfo, const SchedQuota *limit,
					 int64 milli, const char *rest);

/*
 * The quotas that would let the job start if nothing else did.  False: there
 * is none.
 */
bool
ExplainBeside(ReturnSetInfo *rsinfo, const SchedCycle *cycle, const Job *job)
{
	DecideRequestClass request = OffersRequest(job, cycle->set);
	int64		milli = (int64) request.min_gpus * request.share;
	SchedQuotaList over = {0};
	bool		any = false;

	if (cycle->n_quotas > 0)
		over = SchedQuotasOver(cycle, job->org, job->account);
	for (int l = 0; l < over.n; l++)
	{
		const SchedQuota *limit = over.quotas[l];

		if (concerns(cycle, limit, &request))
			any |= put_over(rsinfo, limit, milli,
							*limit->gpu_type != '\0' && request.n_offers > 1 ?
							": what follows is of the other types it accepts" :
							"");
	}
	return any;
}

/*
 * Does the job accept devices that the quota counts?
 */
static bool
concerns(const SchedCycle *cycle, const SchedQuota *limit,
		 const DecideRequestClass *request)
{
	bool		any = SchedQuotaConcerns(limit, NULL);

	for (int o = 0; o < request->n_offers && !any; o++)
		any = SchedQuotaConcerns(limit,
								 cycle->set->types.names[request->offers[o].type]);
	return any;
}

/*
 * A quota that leaves room for one more job of so many devices beside what
 * runs, and none beside what is about to; other quotas are not told: false.
 */
static bool
put_over(ReturnSetInfo *rsinfo, const SchedQuota *limit, int64 milli,
		 const char *rest)
{
	int64		gpus = limit->max_milli - limit->used_milli - milli;
	int64		gpus_soon = limit->claimed_milli + limit->elsewhere_milli +
		limit->new_milli;
	int64		jobs = limit->max_running - limit->running - 1;
	int64		jobs_soon = limit->claimed + limit->elsewhere +
		limit->new_running;
	bool		few_gpus = limit->max_milli >= 0 && milli > 0 && gpus >= 0 &&
		gpus < gpus_soon;
	bool		few_jobs = limit->max_running >= 0 && jobs >= 0 &&
		jobs < jobs_soon;
	StringInfoData detail;

	if (!few_gpus && !few_jobs)
		return false;
	initStringInfo(&detail);
	appendStringInfo(&detail, "account \"%s\", %s:", limit->account,
					 *limit->gpu_type != '\0' ? limit->gpu_type :
					 "any type");
	if (few_gpus)
		appendStringInfo(&detail, " %lld thousandths of GPUs wanted, "
						 "%lld in use and %lld about to be, of %lld",
						 (long long) milli, (long long) limit->used_milli,
						 (long long) gpus_soon,
						 (long long) limit->max_milli);
	if (few_jobs)
		appendStringInfo(&detail, "%s %lld jobs run and %lld are about to, "
						 "of %lld", few_gpus ? ";" : "",
						 (long long) limit->running, (long long) jobs_soon,
						 (long long) limit->max_running);
	appendStringInfoString(&detail, rest);
	ExplainPut(rsinfo, "quota", false, detail.data);
	return true;
}
