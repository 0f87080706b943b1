/*-------------------------------------------------------------------------
 *
 * old_transaction.c
 *		Ends tenants' transactions that are open for too long.
 *
 * A row version stays as long as some transaction may see it, and readers and
 * writers of a busy row pass all its versions.  One forgotten snapshot makes
 * the calls of every organisation slow within a minute.  bind_tenant() sets
 * timeouts for tenants' logins, but a login may remove its own.  So a session
 * is ended if its transaction is older than gpucredit.tenant_transaction_max.
 * This concerns tenants only: gpucredit_internal.is_tenant_login() decides.
 *
 * A tenant's transaction also keeps the locks of its calls: on its job's row,
 * or on a bucket, which the settlement of every job of the organisation needs.
 * So a session is also ended once it has kept a session that is no tenant's
 * waiting for gpucredit.tenant_block_max, directly or because another session
 * in between waits for it. A prepared transaction has no session that could be
 * ended, so a tenant may not prepare any (api/tenant.c).
 *
 * The age is measured by the real clock, even if gpucredit.clock is set,
 * because sessions live in real time.
 *
 * Locks: none.
 *
 * SQL functions here: end_tenant_transactions, set_login_timeout.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "audit/audit.h"
#include "commands/user.h"
#include "util/args.h"
#include "util/compat.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/sql.h"
#include "funcapi.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

PG_FUNCTION_INFO_V1(gpucredit_end_tenant_transactions);
PG_FUNCTION_INFO_V1(gpucredit_set_login_timeout);

/*
 * Finds the sessions to end. The recursive part begins with the sessions that
 * have waited for a lock for longer than $2, and adds the sessions for which
 * they wait, directly or by way of others.
 */
SQL_STATEMENT(old_ones, SPI_OK_SELECT, "interval, interval",
			  "WITH RECURSIVE waits (pid) AS MATERIALIZED ("
			  "  SELECT w.pid FROM pg_catalog.pg_stat_activity w"
			  "   WHERE $2 > '0' AND w.wait_event_type = 'Lock'"
			  "   AND w.datname = pg_catalog.current_database()"
			  "   AND NOT gpucredit_internal.is_tenant_login(w.usesysid)"
			  "   AND EXISTS (SELECT FROM pg_catalog.pg_locks l"
			  "    WHERE l.pid = w.pid AND NOT l.granted AND l.waitstart"
			  "     < pg_catalog.clock_timestamp() - $2)"
			  "  UNION SELECT b.pid FROM waits w CROSS JOIN LATERAL"
			  "   pg_catalog.unnest(pg_catalog.pg_blocking_pids(w.pid))"
			  "   AS b (pid))"
			  "SELECT a.pid, a.usename::text, a.state,"
			  " pg_catalog.floor(EXTRACT(epoch FROM"
			  "  pg_catalog.clock_timestamp() - a.xact_start))::bigint"
			  " FROM pg_catalog.pg_stat_activity a"
			  " WHERE a.datname = pg_catalog.current_database()"
			  " AND a.backend_type = 'client backend'"
			  " AND ($1 > '0' AND a.xact_start"
			  "   < pg_catalog.clock_timestamp() - $1"
			  "  OR a.xact_start < pg_catalog.clock_timestamp() - $2"
			  "   AND a.pid = ANY (ARRAY(SELECT w.pid FROM waits w)))"
			  " AND gpucredit_internal.is_tenant_login(a.usesysid)"
			  " ORDER BY a.pid");

/*
 * Ends a session, and logs it. Returns false if the session has already ended.
 */
static bool
end_session(SqlResult sessions, uint64 i)
{
	int32		pid = SqlInt4(sessions, i, 1);
	char	   *login = SqlText(sessions, i, 2);
	char	   *state = SqlText(sessions, i, 3);
	int64		seconds = SqlInt8(sessions, i, 4);
	AuditRow	audit = {.operation = "end_tenant_transactions",
		.decision = "ended"};
	StringInfo	line;

	if (!DatumGetBool(DirectFunctionCall2(pg_terminate_backend,
										  Int32GetDatum(pid),
										  Int64GetDatum(0))))
		return false;			/* the session ended by itself */
	AuditText(&audit, "role", login);
	AuditText(&audit, "state", state);
	AuditInt8(&audit, "seconds", seconds);
	AuditWrite(&audit);
	line = LogBegin("tenant_transaction_ended");
	LogText(line, "role", login);
	LogNumber(line, "pid", pid);
	LogText(line, "state", state);
	LogNumber(line, "open_s", seconds);
	LogAtCommit(line);
	return true;
}

Datum
gpucredit_end_tenant_transactions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int64		longest = SettingTenantTransactionMax();
	int64		blocks = SettingTenantBlockMax();
	int64		ended = 0;

	InitMaterializedSRF(fcinfo, 0);
	if (longest > 0 || blocks > 0)
	{
		SqlResult	sessions;

		SqlConnect();
		sessions = SqlRead(&old_ones, VALUES(DurationValue(longest),
											 DurationValue(blocks)));
		for (uint64 i = 0; i < sessions.n; i++)
			ended += end_session(sessions, i);
		SqlFinish();
	}
	RowPut(rsinfo,
		   VALUES(TextValue("end_tenant_transactions"), Int8Value(ended)));
	return (Datum) 0;
}

/*
 * SQL function set_login_timeout(login, database, setting, value): does the
 * same as ALTER ROLE ... IN DATABASE ... SET, without building the text of a
 * statement.
 */
Datum
gpucredit_set_login_timeout(PG_FUNCTION_ARGS)
{
	AlterRoleSetStmt *alter = makeNode(AlterRoleSetStmt);
	VariableSetStmt *set = makeNode(VariableSetStmt);
	A_Const    *value = makeNode(A_Const);

	value->val.sval.type = T_String;
	value->val.sval.sval = text_to_cstring(PG_GETARG_TEXT_PP(3));
	value->location = -1;
	set->kind = VAR_SET_VALUE;
	set->name = text_to_cstring(PG_GETARG_TEXT_PP(2));
	set->args = list_make1(value);
	alter->role = makeNode(RoleSpec);
	alter->role->roletype = ROLESPEC_CSTRING;
	alter->role->rolename = NameStr(*PG_GETARG_NAME(0));
	alter->role->location = -1;
	alter->database = NameStr(*PG_GETARG_NAME(1));
	alter->setstmt = set;
	(void) AlterRoleSet(alter);
	CommandCounterIncrement();
	PG_RETURN_VOID();
}
