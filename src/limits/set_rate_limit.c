/*-------------------------------------------------------------------------
 *
 * set_rate_limit.c
 *		SQL function set_rate_limit: sets how often an account may call.
 *
 * The function writes a row, which api/rate.c applies once it is committed.
 * If gpucredit's shared memory is not loaded, nothing could count calls, so a
 * limit is refused.
 *
 * Locks: the limit's row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "audit/audit.h"
#include "util/args.h"
#include "util/sql.h"
#include "api/api.h"
#include "api/rate.h"
#include "account/account.h"
#include "shmem/segment.h"
#include "types/clip.h"

API_FUNCTION(gpucredit_set_rate_limit, set_rate_limit);

SQL_STATEMENT(limit_upsert, SPI_OK_INSERT,
			  "text, text, text, float8, int",
			  "INSERT INTO gpucredit.rate_limit"
			  " (org, account, operation, per_second, burst)"
			  " VALUES ($1, $2, $3, $4, $5)"
			  " ON CONFLICT (org, account, operation) DO UPDATE"
			  " SET per_second = EXCLUDED.per_second,"
			  " burst = EXCLUDED.burst, setting = EXCLUDED.setting");
SQL_STATEMENT(limit_delete, SPI_OK_DELETE, "text, text, text",
			  "DELETE FROM gpucredit.rate_limit r"
			  " WHERE r.org = $1 AND r.account = $2 AND r.operation = $3");

static float8 parse_rate(FunctionCallInfo fcinfo, int n);
static void require_memory(void);

Datum
call_set_rate_limit(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	char	   *account = ArgPath(fcinfo, 1, "account");
	char	   *operation = ArgName(fcinfo, 2, "operation");
	bool		remove = PG_ARGISNULL(3);
	float8		per_second = remove ? 0 : parse_rate(fcinfo, 3);
	int32		burst = remove ? 0 : ArgInt4(fcinfo, 4, "burst", 1,
											 PG_INT32_MAX);
	AccountPath path = AccountParse(org, account);
	AuditRow	audit = {.org = org, .account = account,
		.operation = "set_rate_limit", .decision = remove ? "removed" : "set"};
	Values	   *args;

	if (RateOperation(operation) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown operation \"%s\"",
						ClipForMessage(operation)),
				 errdetail("Rate limits do not apply to a function of that "
						   "name."),
				 errhint("Pass '*', or one of hold, extend_hold, capture, "
						 "release, reserve, settle, cancel, log_wish, "
						 "open_session and signal_job.")));
	SqlConnect();
	(void) AccountSuspended(&path);
	args = VALUES(TextValue(org), TextValue(account), TextValue(operation));
	if (remove)
	{
		if (SqlRun(&limit_delete, args).n == 0)
			audit.decision = "unchanged";
	}
	else
	{
		require_memory();
		ValuesAdd(args, DatumValue(Float8GetDatum(per_second)),
				  Int4Value(burst));
		(void) SqlRun(&limit_upsert, args);
		AuditNumber(&audit, "per_second", psprintf("%.17g", per_second));
		AuditInt8(&audit, "burst", burst);
	}
	AuditText(&audit, "limits", operation);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}

static float8
parse_rate(FunctionCallInfo fcinfo, int n)
{
	float8		rate = PG_GETARG_FLOAT8(n);

	if (!isfinite(rate) || rate < 1e-6 || rate > 1e9)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"per_second\" is out of range"),
				 errdetail("It is %g.", rate),
				 errhint("Pass 0.000001 to 1e9, or NULL to remove the "
						 "limit.")));
	return rate;
}

static void
require_memory(void)
{
	if (!SegmentReady())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rate limits need shared memory"),
				 errdetail("The library was not loaded when the server "
						   "started, so calls cannot be counted."),
				 errhint("Add gpucredit to shared_preload_libraries in "
						 "postgresql.conf and restart the server.")));
}
