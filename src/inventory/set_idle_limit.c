/*-------------------------------------------------------------------------
 *
 * set_idle_limit.c
 *		SQL function set_idle_limit: how long jobs of a tier may leave their
 *		GPUs idle.
 *
 * An attempt copies the limit when it starts (sched/apply/apply.c). What counts
 * as idle, and what happens at the limit, is in job/idle.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/errors.h"
#include "util/sql.h"
#include "api/api.h"
#include "inventory/inventory.h"
#include "types/duration.h"

API_FUNCTION(gpucredit_set_idle_limit, set_idle_limit);

#define LIMIT_LEAST	USECS_PER_MINUTE

SQL_STATEMENT(limit_upsert, SPI_OK_INSERT, "text, interval, interval",
			  "INSERT INTO gpucredit.idle_limit (tier, idle_limit,"
			  " idle_warning) VALUES ($1, $2, $3) ON CONFLICT (tier)"
			  " DO UPDATE SET idle_limit = EXCLUDED.idle_limit,"
			  " idle_warning = EXCLUDED.idle_warning");
SQL_STATEMENT(limit_delete, SPI_OK_DELETE, "text",
			  "DELETE FROM gpucredit.idle_limit l WHERE l.tier = $1");

static void check_limit(int64 limit, int64 warning);

Datum
call_set_idle_limit(PG_FUNCTION_ARGS)
{
	char	   *name = ArgName(fcinfo, 0, "tier");
	bool		remove = PG_ARGISNULL(1);
	int64		limit = ArgDurationOr(fcinfo, 1, "idle_limit", false, -1);
	int64		warning = ArgDuration(fcinfo, 2, "idle_warning", true);
	AuditRow	audit = {.operation = "set_idle_limit",
		.decision = remove ? "removed" : "set"};
	Tier		tier;

	if (!remove)
		check_limit(limit, warning);
	SqlConnect();
	TierRead(name, &tier);
	if (!remove)
		(void) SqlRun(&limit_upsert, VALUES(TextValue(name),
											DurationValue(limit),
											DurationValue(warning)));
	else if (SqlRun(&limit_delete, VALUES(TextValue(name))).n == 0)
		audit.decision = "unchanged";
	AuditArgs(&audit, fcinfo);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}

/*
 * Refuses a limit that a few reports would reach, and a warning that would come
 * as soon as a job is idle.
 */
static void
check_limit(int64 limit, int64 warning)
{
	if (limit < LIMIT_LEAST)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"idle_limit\" is too short"),
				 errdetail("It is %s.", DurationToCString(limit)),
				 errhint("Pass 1 minute or more, or NULL for no limit.")));
	if (warning >= limit)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"idle_warning\" is not below \"idle_limit\""),
				 errdetail("They are %s and %s.", DurationToCString(warning),
						   DurationToCString(limit)),
				 errhint("Pass how long before the end of the job its owner is "
						 "warned, or 0 for no warning.")));
}
