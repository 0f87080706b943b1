/*-------------------------------------------------------------------------
 *
 * sql.c
 *		Calls the database, one call at a time.
 *
 * Each of the two processes has its own connection, which it opens anew after
 * it broke.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call_repeat.h"
#include "clock.h"
#include "log.h"
#include "memory.h"
#include "slurm.h"

#define PAUSE_NS	(NS_PER_S)	/* time between two attempts to connect */

static PGconn * conn;
static int64_t tried_ns;

/*
 * Returns the result of a call, or NULL if no server that accepts writes has
 * answered. In that case the next call connects anew: a server that has become
 * a standby refuses every write, and another server may have become the
 * primary.
 */
static PGresult *
checked(PGresult * result)
{
	if (PQstatus(conn) == CONNECTION_OK &&
		CallMayRepeat(result) != REPEAT_ELSEWHERE)
		return result;
	LogLine("event=lost_database error=\"%.200s\"",
			result == NULL ? PQerrorMessage(conn) :
			PQresultErrorMessage(result));
	PQfinish(conn);
	conn = NULL;
	PQclear(result);
	return NULL;
}

/*
 * Connects if there is no connection or it broke. Returns whether there is a
 * connection.
 */
static bool
connected(void)
{
	char	   *conninfo;

	if (conn != NULL && PQstatus(conn) == CONNECTION_OK)
		return true;
	if (tried_ns != 0 && MonotonicNs() - tried_ns < PAUSE_NS)
		return false;
	tried_ns = MonotonicNs();
	PQfinish(conn);
	conninfo = Format("connect_timeout=3 application_name=gpucredit-bridge "
					  "tcp_user_timeout=10000 options='-c statement_timeout=10s "
					  "-c search_path=pg_catalog' %s", slurm.database);
	conn = PQconnectdb(conninfo);
	free(conninfo);
	if (PQstatus(conn) == CONNECTION_OK)
		return true;
	LogLine("event=no_database error=\"%.200s\"", PQerrorMessage(conn));
	return false;
}

PGresult *
SqlCall(const char *sql, int n, const char *const *values)
{
	if (!connected())
		return NULL;
	return checked(PQexecParams(conn, sql, n, NULL, values, NULL, NULL, 0));
}

/*
 * Runs a statement and rolls it back, in one round trip.
 */
static PGresult *
call_in_vain(const char *sql, int n, const char *const *values)
{
	PGresult   *answer = NULL;
	PGresult   *result;
	int			statement = 0;
	int			syncs = 0;

	if (!connected())
		return NULL;

	/*
	 * After an error, the server skips all statements up to the next
	 * synchronisation point, so ROLLBACK follows one.
	 */
	if (!PQenterPipelineMode(conn) ||
		!PQsendQueryParams(conn, "BEGIN", 0, NULL, NULL, NULL, NULL, 0) ||
		!PQsendQueryParams(conn, sql, n, NULL, values, NULL, NULL, 0) ||
		!PQpipelineSync(conn) ||
		!PQsendQueryParams(conn, "ROLLBACK", 0, NULL, NULL, NULL, NULL, 0) ||
		!PQpipelineSync(conn))
		syncs = 2;
	while (syncs < 2 && PQstatus(conn) == CONNECTION_OK)
	{
		result = PQgetResult(conn);
		if (result == NULL)
			statement++;
		else if (PQresultStatus(result) == PGRES_PIPELINE_SYNC)
			syncs++;
		else if (statement == 1 && answer == NULL)
		{
			answer = result;
			continue;
		}
		PQclear(result);
	}
	(void) PQexitPipelineMode(conn);
	return checked(answer);
}

/*
 * Reserves credit for a job. "minutes" is the job's time limit, or 0 for none.
 * The hold covers grace_s seconds beyond the limit, as far as the tier lets a
 * job run. If "in_vain" is true, the call is rolled back.
 */
PGresult *
Reserve(const SlurmPayer *payer, const char *key, const char *request,
		long minutes, const char *spec, bool in_vain)
{
	static const char sql[] =
	"SELECT r.job, r.status, r.reason, r.replayed FROM gpucredit.reserve($1, $2,"
	" $3, $4, LEAST($5::interval + $10::interval, GREATEST($5::interval,"
	"  (SELECT t.max_wall FROM gpucredit.tier t WHERE t.tier = $6))),"
	" $6, $7, max_retries => 0, hold_window => $8, spec => $9) r";

	char	   *limit = minutes == 0 ? NULL :
		Format("%ld s", minutes * 60);
	char	   *grace = Format("%ld s", slurm.grace_s);
	const char *values[10] = {
		payer->org, payer->account, key, request, limit, slurm.tier,
		slurm.pool, *slurm.hold_window == '\0' ? NULL : slurm.hold_window,
		spec, grace
	};
	PGresult   *result = in_vain ? call_in_vain(sql, 10, values) :
		SqlCall(sql, 10, values);

	free(limit);
	free(grace);
	return result;
}
