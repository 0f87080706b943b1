/*-------------------------------------------------------------------------
 *
 * set_quota.c
 *		SQL function set_quota: sets limits for an account and all below
 *		it.
 *
 * allocate_quota() is the same call for a tenant who, as a companion extension
 * has found, is an approver.
 *
 * Locks: the account's row, the quota, then the quota's turn, which cycles
 * lock (sched/load/sched_quota.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/sql.h"
#include "api/api.h"
#include "account/account.h"
#include "limits/limits.h"
#include "types/clip.h"
#include "types/gpureq.h"

API_FUNCTION(gpucredit_set_quota, set_quota);
API_FUNCTION(gpucredit_allocate_quota, allocate_quota);

SQL_STATEMENT(quota_upsert, SPI_OK_INSERT,
			  "text, text, text, int, int, int, bigint, bigint, int",
			  "INSERT INTO gpucredit.quota (org, account, gpu_type,"
			  " max_gpus, max_running, max_queued, max_cpu_milli,"
			  " max_memory_mib, max_nonpreemptible_gpus)"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
			  " ON CONFLICT (org, account, gpu_type) DO UPDATE"
			  " SET max_gpus = EXCLUDED.max_gpus,"
			  " max_running = EXCLUDED.max_running,"
			  " max_queued = EXCLUDED.max_queued,"
			  " max_cpu_milli = EXCLUDED.max_cpu_milli,"
			  " max_memory_mib = EXCLUDED.max_memory_mib,"
			  " max_nonpreemptible_gpus = EXCLUDED.max_nonpreemptible_gpus,"
			  " spare = 0");
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

/* The limits, in the order of the arguments. */
static const struct
{
	const char *name;
	bool		wide;			/* whether its type is bigint */
}			limits[] = {
	{"max_gpus", false}, {"max_running", false}, {"max_queued", false},
	{"max_cpu_milli", true}, {"max_memory_mib", true},
	{"max_nonpreemptible_gpus", false}
};

#define FIRST_LIMIT		3

Datum
call_set_quota(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	char	   *account = ArgPath(fcinfo, 1, "account");
	char	   *type = ArgNameOrNull(fcinfo, 2, "gpu_type");
	AccountPath path = AccountParse(org, account);
	bool		remove = true;
	AuditRow	audit = {.org = org, .account = account,
		.operation = "set_quota", .decision = "removed"};
	Values	   *key;

	for (int i = 0; i < (int) lengthof(limits); i++)
		remove &= PG_ARGISNULL(FIRST_LIMIT + i);
	if (!remove)
		audit.decision = "set";

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

		for (int i = 0; i < (int) lengthof(limits); i++)
		{
			int			arg = FIRST_LIMIT + i;
			const char *name = limits[i].name;

			ValuesAdd(&args, fcinfo->args[arg]);
			if (PG_ARGISNULL(arg))
				continue;
			AuditInt8(&audit, name, limits[i].wide ?
					  ArgInt8(fcinfo, arg, name, 0, PG_INT64_MAX) :
					  ArgInt4(fcinfo, arg, name, 0, PG_INT32_MAX));
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

/*
 * SQL function allocate_quota: the same call for a tenant, which has to be
 * bound to the account (api/tenant.c).
 */
Datum
call_allocate_quota(PG_FUNCTION_ARGS)
{
	return call_set_quota(fcinfo);
}
