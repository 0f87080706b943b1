/*-------------------------------------------------------------------------
 *
 * set_quota.c
 *		set_quota(): limits for an account and those below it.
 *
 * Locks: the account's row, the quota, then its turn, which cycles lock
 * (sched/load/sched_quota.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/sql.h"
#include "api/api.h"
#include "ledger/ledger.h"
#include "limits/limits.h"
#include "types/clip.h"
#include "types/gpureq.h"

API_FUNCTION(gpucredit_set_quota, set_quota);

SQL_STATEMENT(quota_upsert, SPI_OK_INSERT, "text, text, text, int, int, int",
			  "INSERT INTO gpucredit.quota (org, account, gpu_type,"
			  " max_gpus, max_running, max_queued)"
			  " VALUES ($1, $2, $3, $4, $5, $6)"
			  " ON CONFLICT (org, account, gpu_type) DO UPDATE"
			  " SET max_gpus = EXCLUDED.max_gpus,"
			  " max_running = EXCLUDED.max_running,"
			  " max_queued = EXCLUDED.max_queued, spare = 0");
SQL_STATEMENT(quota_delete, SPI_OK_DELETE, "text, text, text",
			  "DELETE FROM gpucredit.quota q WHERE q.org = $1"
			  " AND q.account = $2 AND q.gpu_type = $3");
SQL_STATEMENT(turn_upsert, SPI_OK_INSERT, "text, text, text",
			  "INSERT INTO gpucredit.quota_lock AS t (org, account, gpu_type)"
			  " VALUES ($1, $2, $3) ON CONFLICT (org, account, gpu_type)"
			  " DO UPDATE SET turn = t.turn + 1");
SQL_STATEMENT(turn_delete, SPI_OK_DELETE, "text, text, text",
			  "DELETE FROM gpucredit.quota_lock t WHERE t.org = $1"
			  " AND t.account = $2 AND t.gpu_type = $3");

Datum
call_set_quota(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	char	   *account = ArgPath(fcinfo, 1, "account");
	char	   *type = ArgNameOrNull(fcinfo, 2, "gpu_type");
	AccountPath path = AccountParse(org, account);
	bool		remove = PG_ARGISNULL(3) && PG_ARGISNULL(4) && PG_ARGISNULL(5);
	AuditRow	audit = {.org = org, .account = account,
		.operation = "set_quota", .decision = remove ? "removed" : "set"};
	static const char *const names[] = {"max_gpus", "max_running",
	"max_queued"};
	Values	   *key;

	if (type != NULL && !GpuTypeNameValid(type, strlen(type)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("malformed GPU type \"%s\"", ClipForMessage(type)),
				 errdetail("A request cannot name such a type."),
				 errhint("Use 1 to 63 bytes without \"|\", \"@\", \"*\" or "
						 "white space, or NULL for any.")));
	SqlConnect();
	(void) AccountSuspended(&path);
	AccountLimitsLock(org, account);
	key = VALUES(TextValue(org), TextValue(account),
				 TextValue(type ? type : ""));
	if (remove)
		(void) SqlRun(&quota_delete, key);
	else
	{
		Values		args = *key;

		for (int i = 3; i < 6; i++)
		{
			ValuesAdd(&args, fcinfo->args[i]);
			if (!PG_ARGISNULL(i))
				AuditInt8(&audit, names[i - 3],
						  ArgInt4(fcinfo, i, names[i - 3], 0, PG_INT32_MAX));
		}
		(void) SqlRun(&quota_upsert, &args);
	}
	(void) SqlRun(remove ? &turn_delete : &turn_upsert, key);
	AccountLimitsKeep(org, account);
	AuditText(&audit, "gpu_type", type);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}
