/*-------------------------------------------------------------------------
 *
 * explain_quota.c
 *		Reports for explain() the quotas that other starts and claims
 *		exhaust.
 *
 * explain.c reports the use by running jobs. This file adds the starts of the
 * planned cycle, and the claims of this pool and of other pools.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sched/explain/explain.h"
#include "sched/load/sched_quota.h"

static bool concerns(const SchedCycle *cycle, const SchedQuota *limit,
					 const DecideRequestClass *request);
static bool put_over(ReturnSetInfo *rsinfo, const SchedQuota *limit,
					 DecideUse more, const char *rest);

/*
 * Reports the quotas that would let the job start if no other job started and
 * no claim existed. Returns false if there are none.
 */
bool
ExplainQuotasBeside(ReturnSetInfo *rsinfo, const SchedCycle *cycle, const Job *job)
{
	DecideRequestClass request = OffersRequest(job, cycle->set);
	SchedQuotaList over = {0};
	bool		any = false;

	if (cycle->n_quotas > 0)
		over = SchedQuotasOver(cycle, job->org, job->account);
	for (int l = 0; l < over.n; l++)
	{
		const SchedQuota *limit = over.quotas[l];

		if (concerns(cycle, limit, &request))
			any |= put_over(rsinfo, limit,
							SchedQuotaLeast(cycle->set, limit->gpu_type,
											&request),
							*limit->gpu_type != '\0' && request.n_offers > 1 ?
							": what follows is of the other types it accepts" :
							"");
	}
	return any;
}

/* Whether the job accepts devices that the quota counts. */
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
 * Reports a quota that allows one more job of this size beside what runs, but
 * not beside new starts and claims. Returns false, without a row, for any
 * other quota.
 */
static bool
put_over(ReturnSetInfo *rsinfo, const SchedQuota *limit, DecideUse more,
		 const char *rest)
{
	DecideUse	soon = limit->claimed;
	StringInfoData detail;
	bool		any = false;

	DecideUseAdd(&soon, &limit->elsewhere);
	DecideUseAdd(&soon, &limit->starting);
	initStringInfo(&detail);
	appendStringInfo(&detail, "account \"%s\", %s:", limit->account,
					 *limit->gpu_type != '\0' ? limit->gpu_type :
					 "any type");
	for (int l = 0; l < DECIDE_LIMITED; l++)
	{
		int64		left = limit->most.of[l] - limit->used.of[l] - more.of[l];

		if (limit->most.of[l] < 0 || more.of[l] == 0 || left < 0 ||
			left >= soon.of[l])
			continue;
		SchedQuotaText(&detail, l, &more, &limit->used, &soon, &limit->most);
		any = true;
	}
	if (!any)
		return false;
	appendStringInfoString(&detail, rest);
	ExplainPut(rsinfo, "quota", false, detail.data);
	return true;
}
