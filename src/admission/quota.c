/*-------------------------------------------------------------------------
 *
 * quota.c
 *		May this job be submitted?
 *
 * A request that alone passes the devices allowed, of every type it accepts,
 * is denied; so is one that finds as many jobs waiting as may (queued.c).
 * Devices in use and running jobs are the scheduler's matter: the job waits.
 *
 * Locks: as queued.c says.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "admission/quota.h"
#include "common/sql.h"
#include "utils/builtins.h"

/* who finds a limited one looks for budgets anyway (queue_full) */
SQL_STATEMENT(quotas_read, SPI_OK_SELECT, ACCOUNT_TYPES,
			  "SELECT " ACCOUNT_COLUMNS("q.limited IS TRUE OR " ORG_BUDGETED)
			  ", q.account, q.gpu_type, q.max_gpus, q.limited" ACCOUNT_LEVELS
			  " LEFT JOIN LATERAL (SELECT q.account, q.gpu_type, q.max_gpus,"
			  "  q.max_queued IS NOT NULL AS limited FROM gpucredit.quota q"
			  "  WHERE q.org = $1 AND q.account = p.account OFFSET 0) q"
			  " ON true");

static bool see_quota(void *context, const Datum *values, const bool *nulls);
static bool alone_too_large(const List *quotas, const QuotaAsk *ask);

/*
 * Look at an account, and at the quotas on its path.
 */
void
QuotaRead(QuotaLook *look)
{
	AccountLookWith(&quotas_read, see_quota, &look->account);
}

/*
 * A level of the path, with one of its quotas if it has any.
 */
static bool
see_quota(void *context, const Datum *values, const bool *nulls)
{
	QuotaLook  *look = context;
	Quota	   *quota;

	AccountSee(&look->account, values);
	if (nulls[5])
		return true;			/* the level has none */
	quota = palloc(sizeof(Quota));
	quota->account = TextDatumGetCString(values[5]);
	quota->gpu_type = TextDatumGetCString(values[6]);
	quota->max_gpus = nulls[7] ? -1 : DatumGetInt32(values[7]);
	quota->limited = DatumGetBool(values[8]);
	look->quotas = lappend(look->quotas, quota);
	return true;
}

/*
 * NULL, or why the quotas on a path deny a submission.  supposed: one that is
 * not made.
 */
const char *
QuotaCheck(const QuotaLook *look, const QuotaAsk *ask, bool supposed)
{
	if (look->quotas != NIL && (alone_too_large(look->quotas, ask) ||
								QuotaQueueFull(look, ask, supposed)))
		return "quota_exceeded";
	return NULL;
}

/*
 * Does the request, of each type it accepts, pass some quota all alone?
 */
static bool
alone_too_large(const List *quotas, const QuotaAsk *ask)
{
	int64		needed = (int64) ask->min_gpus * ask->share;
	bool		fits = ask->ntypes == 0;
	ListCell   *lc;

	for (int t = 0; t < ask->ntypes && !fits; t++)
	{
		fits = true;
		foreach(lc, quotas)
		{
			const Quota *quota = lfirst(lc);

			if (quota->max_gpus >= 0 &&
				(*quota->gpu_type == '\0' ||
				 strcmp(quota->gpu_type, ask->gpu_types[t]) == 0) &&
				needed > (int64) quota->max_gpus * 1000)
				fits = false;
		}
	}
	return !fits;
}
