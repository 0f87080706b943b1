/*-------------------------------------------------------------------------
 *
 * quota_check.c
 *		May this job be submitted?
 *
 * A request that alone passes the device limit, with every type it accepts, is
 * denied; so is one with as many queued jobs as allowed (queued.c).  Devices
 * in use and running jobs are the scheduler's matter: the job waits.
 *
 * Locks: see queued.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "admission/quota_check.h"
#include "ledger/limits.h"
#include "utils/numeric.h"

static List *quotas_of(const AccountPath *path);
static bool alone_too_large(const List *quotas, const QuotaRequest *request);

/*
 * NULL, or why the quotas on a path deny a submission.  supposed: a
 * hypothetical submission.
 */
const char *
QuotaCheck(const AccountPath *path, const QuotaRequest *request, bool supposed)
{
	List	   *quotas = quotas_of(path);

	if (quotas != NIL && (alone_too_large(quotas, request) ||
						  QuotaQueueFull(path, quotas, request, supposed)))
		return "quota_exceeded";
	return NULL;
}

/*
 * The quotas on a path, leaf to root.
 */
static List *
quotas_of(const AccountPath *path)
{
	List	   *quotas = NIL;
	ListCell   *lc;

	for (int level = 0; level < path->n; level++)
	{
		foreach(lc, AccountLimitsOf(path, level, LIMIT_QUOTAS))
		{
			const JsonbValue *values = lfirst(lc);
			Quota	   *quota = palloc(sizeof(Quota));

			quota->account = path->accounts[level];
			quota->gpu_type = pnstrdup(values[0].val.string.val,
									   values[0].val.string.len);
			quota->max_gpus = values[1].type == jbvNull ? -1 :
				numeric_int4_opt_error(values[1].val.numeric, NULL);
			quota->limited = values[2].val.boolean;
			quotas = lappend(quotas, quota);
		}
	}
	return quotas;
}

/*
 * Does the request, with each of its types, pass some quota all alone?
 */
static bool
alone_too_large(const List *quotas, const QuotaRequest *request)
{
	int64		needed = (int64) request->min_gpus * request->share;
	bool		fits = request->ntypes == 0;
	ListCell   *lc;

	for (int t = 0; t < request->ntypes && !fits; t++)
	{
		fits = true;
		foreach(lc, quotas)
		{
			const Quota *quota = lfirst(lc);

			if (quota->max_gpus >= 0 &&
				(*quota->gpu_type == '\0' ||
				 strcmp(quota->gpu_type, request->gpu_types[t]) == 0) &&
				needed > (int64) quota->max_gpus * 1000)
				fits = false;
		}
	}
	return !fits;
}
