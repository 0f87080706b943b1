/*-------------------------------------------------------------------------
 *
 * sql.c
 *		Calls of the database, one after the other.
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
 * Is there a connection?  Where it broke, make a new one.
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
	Say("event=no_database error=\"%.200s\"", PQerrorMessage(conn));
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
	Say("event=lost_database error=\"%.200s\"", PQerrorMessage(conn));
	PQclear(result);
	return NULL;
}

/*
 * Ask for the credit of a job.  minutes: its time limit; 0: none.
 */
PGresult *
Reserve(const SlurmPayer *payer, const char *key, const char *request,
		long minutes, const char *spec)
{
	char	   *limit = minutes == 0 ? NULL :
		Format("%ld s", minutes * 60 + slurm.grace_s);
	const char *values[9] = {
		payer->org, payer->account, key, request, limit, slurm.tier,
		slurm.pool, *slurm.hold_window == '\0' ? NULL : slurm.hold_window,
		spec
	};
	PGresult   *result =
	SqlCall("SELECT r.job, r.status, r.reason, r.replayed FROM gpucredit.reserve($1, $2,"
			" $3, $4, $5, $6, $7, max_retries => 0, hold_window => $8,"
			" spec => $9) r", 9, values);

	free(limit);
	return result;
}
