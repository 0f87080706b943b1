/*-------------------------------------------------------------------------
 *
 * sql.c
 *		Calls the database, one call at a time.
 *
 * Each process has a connection of its own, made anew when it broke.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm.h"
#include "util.h"

#define PAUSE_NS	(NS_PER_S)	/* between two tries to connect */

static PGconn * conn;
static int64_t tried_ns;

/*
 * Connect, if there is no connection or it broke.
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
	PGresult   *result;

	if (!connected())
		return NULL;
	result = PQexecParams(conn, sql, n, NULL, values, NULL, NULL, 0);
	if (PQstatus(conn) == CONNECTION_OK &&
		PQresultErrorField(result, PG_DIAG_SQLSTATE) == NULL)
		return result;
	if (PQstatus(conn) == CONNECTION_OK)
		return result;
	LogLine("event=lost_database error=\"%.200s\"", PQerrorMessage(conn));
	PQclear(result);
	return NULL;
}

/*
 * Run a statement and roll it back, in one round trip.
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
	/* an error skips what follows, up to the next synchronisation */
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
	if (PQstatus(conn) == CONNECTION_OK && PQexitPipelineMode(conn))
		return answer;
	LogLine("event=lost_database error=\"%.200s\"", PQerrorMessage(conn));
	PQfinish(conn);
	conn = NULL;
	PQclear(answer);
	return NULL;
}

/*
 * Ask for the credit of a job.  minutes: its time limit; 0: none.  in_vain:
 * roll it back.
 */
PGresult *
Reserve(const SlurmPayer *payer, const char *key, const char *request,
		long minutes, const char *spec, bool in_vain)
{
	static const char sql[] =
	"SELECT r.job, r.status, r.reason, r.replayed FROM gpucredit.reserve($1, $2,"
	" $3, $4, $5, $6, $7, max_retries => 0, hold_window => $8,"
	" spec => $9) r";

	char	   *limit = minutes == 0 ? NULL :
		Format("%ld s", minutes * 60 + slurm.grace_s);
	const char *values[9] = {
		payer->org, payer->account, key, request, limit, slurm.tier,
		slurm.pool, *slurm.hold_window == '\0' ? NULL : slurm.hold_window,
		spec
	};
	PGresult   *result = in_vain ? call_in_vain(sql, 9, values) :
		SqlCall(sql, 9, values);

	free(limit);
	return result;
}
