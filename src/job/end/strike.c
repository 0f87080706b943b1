/*-------------------------------------------------------------------------
 *
 * strike.c
 *		Counts against a node the attempts that it could not start.
 *
 * A node whose agent cannot start anything looks idle, and one job after
 * another would be placed on it. Therefore each attempt that it could not
 * start counts against it, and three such jobs within ten minutes drain the
 * node. A job does not count if another node could not start it either. An
 * image that the node cannot fetch does not count, as a hundred jobs may name
 * the same wrong image.
 *
 * Locks: the node before its job, then the node's strikes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/sql.h"
#include "job/end/strike.h"
#include "utils/timestamp.h"

#define STRIKES			3		/* number of jobs that drain a node */
#define STRIKES_WITHIN	(10 * USECS_PER_MINUTE)

SQL_STATEMENT(strike_lock, SPI_OK_SELECT, "text",
			  "SELECT 1 FROM gpucredit.node n WHERE n.node = $1"
			  " FOR NO KEY UPDATE");
SQL_STATEMENT(node_only, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT pg_catalog.min(g.node) FROM gpucredit.attempt_gpu g"
			  " WHERE g.org = $1 AND g.job = $2 AND g.attempt = $3"
			  " HAVING pg_catalog.count(*) = 1");
SQL_STATEMENT(strike_add, SPI_OK_INSERT,
			  "text, text, bigint, int, timestamptz",
			  "INSERT INTO gpucredit.node_strike (node, org, job, attempt, at)"
			  " VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING");
SQL_STATEMENT(strikes_forget, SPI_OK_DELETE, "text, timestamptz",
			  "DELETE FROM gpucredit.node_strike s"
			  " WHERE s.node = $1 AND s.at <= $2");
SQL_STATEMENT(strikes_count, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT pg_catalog.count(DISTINCT (s.org, s.job))"
			  " FROM gpucredit.node_strike s WHERE s.node = $1"
			  " AND s.at > $2 AND NOT EXISTS"
			  "  (SELECT FROM gpucredit.node_strike o WHERE o.org = s.org"
			  "   AND o.job = s.job AND o.node <> s.node"
			  "   AND o.attempt < s.attempt AND o.at > $2)");
SQL_STATEMENT(node_drains, SPI_OK_UPDATE_RETURNING, "text",
			  "UPDATE gpucredit.node n SET draining = 'not_started'"
			  " WHERE n.node = $1 AND n.draining IS NULL RETURNING n.pool");

static void drain(const char *node, int64 jobs, TimestampTz now);

/* Locks a node. The caller must not yet have locked rows of the node's job. */
void
StrikeLock(const char *node)
{
	(void) SqlRun(&strike_lock, VALUES(TextValue(node)));
}

/*
 * Locks the node of an attempt that has only one, and returns its name.
 * Returns NULL if the attempt has several nodes, as the call names none of
 * them.
 */
char *
StrikeLockOnly(const char *org, int64 job, int32 attempt)
{
	char	   *node;
	SqlResult	row = SqlRun(&node_only,
							 VALUES(TextValue(org), Int8Value(job),
									Int4Value(attempt)));

	if (row.n == 0)
		return NULL;
	node = SqlText(row, 0, 1);
	StrikeLock(node);
	return node;
}

/*
 * Whether the agent's message says that an attempt was not started because of
 * its image.
 */
bool
ImageIsAtFault(const char *message)
{
	return message != NULL && strncmp(message, "image: ", 7) == 0;
}

/*
 * Counts an attempt that a locked node could not start, and drains the node if
 * this is one too many.
 */
void
StrikeCount(const Attempt *attempt, const char *node,
			const Settlement *reported, TimestampTz now)
{
	TimestampTz since = ClockAdd(now, -STRIKES_WITHIN);
	Values	   *args;
	int64		jobs;

	if (ImageIsAtFault(reported->message))
		return;
	args = VALUES(TextValue(node), TimeValue(since));
	(void) SqlRun(&strikes_forget, args);
	args->n = 1;
	ValuesAdd(args, ATTEMPT_KEY(attempt), TimeValue(now));
	(void) SqlRun(&strike_add, args);
	args->n = 1;
	ValuesAdd(args, TimeValue(since));
	jobs = SqlInt8(SqlRun(&strikes_count, args), 0, 1);
	if (jobs >= STRIKES)
		drain(node, jobs, now);
}

/* Drains the node until an operator resumes it. */
static void
drain(const char *node, int64 jobs, TimestampTz now)
{
	StringInfo	line;
	AuditRow	audit = {.operation = "drain", .decision = "draining",
		.reason = "not_started", .at = now};
	SqlResult	row = SqlRun(&node_drains, VALUES(TextValue(node)));

	if (row.n == 0)
		return;
	AuditText(&audit, "node", node);
	AuditText(&audit, "pool", SqlText(row, 0, 1));
	AuditInt8(&audit, "jobs", jobs);
	AuditWrite(&audit);
	line = LogBegin("node_drained");
	LogText(line, "node", node);
	LogText(line, "pool", SqlText(row, 0, 1));
	LogNumber(line, "jobs_not_started", jobs);
	LogAtCommit(line);
}
