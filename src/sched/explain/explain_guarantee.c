/*-------------------------------------------------------------------------
 *
 * explain_guarantee.c
 *		Reports for explain() that a guaranteed latest start was broken.
 *
 * The report is read from the audit log. It does not name the tenant whose job
 * needed the devices, as a tenant may not see what others run.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "sched/explain/explain.h"

SQL_STATEMENT(broken_read, SPI_OK_SELECT, "text, bigint",
			  "SELECT a.at, a.reason,"
			  " (a.detail ->> 'latest_start')::timestamptz,"
			  " a.detail ->> 'node', a.detail ->> 'tier'"
			  " FROM gpucredit.audit a WHERE a.org = $1 AND a.job = $2"
			  " AND a.operation = 'place' AND a.decision = 'guarantee_broken'"
			  " AND a.at >= COALESCE((SELECT pg_catalog.max(t.ended_at)"
			  "  FROM gpucredit.attempt t WHERE t.org = $1 AND t.job = $2),"
			  "  '-infinity')"
			  " ORDER BY a.audit DESC LIMIT 1");

static const char *breaker_text(SqlResult row);

/*
 * Reports the last broken guarantee of a queued job, if one was broken since
 * its last attempt.
 */
void
ExplainBroken(ReturnSetInfo *rsinfo, const Job *job)
{
	SqlResult	row = SqlRead(&broken_read, VALUES(TextValue(job->org),
												   Int8Value(job->job)));

	if (row.n == 0)
		return;
	ExplainPut(rsinfo, "guarantee", false,
			   psprintf("it was guaranteed to start by %s, which no longer "
						"holds since %s: %s", ExplainTime(SqlTime(row, 0, 3)),
						ExplainTime(SqlTime(row, 0, 1)), breaker_text(row)));
}

/* Returns in words what broke the guarantee. */
static const char *
breaker_text(SqlResult row)
{
	const char *reason = SqlText(row, 0, 2);
	const char *node = SqlText(row, 0, 4);
	const char *tier = SqlText(row, 0, 5);

	if (strcmp(reason, "node") == 0)
		return node == NULL ? "a node that was reserved for it left the pool" :
			psprintf("devices of node %s, which were reserved for it, are lost "
					 "or take no new work", node);
	if (strcmp(reason, "tier") == 0 && tier != NULL)
		return psprintf("a job of tier \"%s\", which may go before it, has or "
						"gets its devices", tier);
	if (strcmp(reason, "quota") == 0)
		return EXPLAIN_QUOTAS_LEAVE_NOTHING;
	if (strcmp(reason, "overdue") == 0)
		return psprintf("what has its devices%s runs past its wall limit",
						node == NULL ? "" : psprintf(" on node %s", node));
	return "nodes, limits or settings were changed, or another scheduler "
		"placed a job on its devices";
}
