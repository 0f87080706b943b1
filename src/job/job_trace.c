/*-------------------------------------------------------------------------
 *
 * job_trace.c
 *		Reads the traces of jobs for audit rows about the jobs.
 *
 * Callers that have not read the job's row use it: a cycle, and rare cases of
 * heartbeats.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "job/job.h"

SQL_STATEMENT(traces_read, SPI_OK_SELECT, "text[], bigint[]",
			  "SELECT u.n, j.traceparent"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2)) WITH ORDINALITY AS u (org, job, n)"
			  " JOIN gpucredit.job j ON j.org = u.org AND j.job = u.job"
			  " WHERE j.traceparent IS NOT NULL");

/* Sets the trace of each row to the trace of its job, if the job has one. */
void
JobTraces(AuditRow *rows, int n)
{
	const char **orgs = palloc(sizeof(char *) * Max(n, 1));
	int64	   *jobs = palloc(sizeof(int64) * Max(n, 1));
	SqlResult	found;

	if (n == 0)
		return;
	for (int i = 0; i < n; i++)
	{
		orgs[i] = rows[i].org;
		jobs[i] = rows[i].job;
	}
	found = SqlRun(&traces_read,
				   VALUES(TextArrayValue(orgs, n), Int8ArrayValue(jobs, n)));
	for (uint64 i = 0; i < found.n; i++)
		rows[SqlInt8(found, i, 1) - 1].trace =
			TraceOfParent(SqlText(found, i, 2));
	SqlFree(&found);
}
