/*-------------------------------------------------------------------------
 *
 * hold_excess.c
 *		Returns the excess of holds, after jobs got cheaper types than the
 *		most expensive one that they accept.
 *
 * The cycle that starts a job returns the excess if the rows are free, else a
 * later cycle does. Whatever a hold still has at the end of its attempt, the
 * settlement returns. Nothing waits.
 *
 * Locks, all without waiting: attempt, hold, buckets.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/settings.h"
#include "util/sql.h"
#include "audit/audit.h"
#include "ledger/ledger.h"
#include "miscadmin.h"
#include "sched/sched.h"

SQL_STATEMENT(excess_lock, SPI_OK_SELECT, "text, bigint",
			  "SELECT a.org, a.job, a.attempt, a.hold, a.surplus"
			  " FROM gpucredit.attempt a WHERE a.pool = $1"
			  " AND a.needs_cycle AND a.ended_at IS NULL"
			  " FOR NO KEY UPDATE SKIP LOCKED LIMIT $2");
SQL_STATEMENT(excess_clear, SPI_OK_UPDATE, "text[], bigint[], int[]",
			  "UPDATE gpucredit.attempt a SET surplus = '0', needs_cycle = false"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  "  AS u (org, job, attempt)"
			  " WHERE a.org = u.org AND a.job = u.job"
			  " AND a.attempt = u.attempt");

static Shrinking *read_excess(SqlResult rows);
static AuditRow audit_row(const Shrinking *shrunk);
static void clear(const AuditRow *given, int n);

/* Returns the excess of the holds of a pool's attempts. */
void
HoldExcessReturn(const char *pool)
{
	SqlResult	rows;
	Shrinking  *holds;
	AuditRow   *given;
	int			n = 0;

	rows = SqlRun(&excess_lock,
				  VALUES(TextValue(pool), Int8Value(SettingMaxStarts())));
	if (rows.n == 0)
		return;
	holds = read_excess(rows);
	SqlFree(&rows);
	HoldsShrink(holds, (int) rows.n);
	given = palloc(sizeof(AuditRow) * rows.n);
	for (uint64 i = 0; i < rows.n; i++)
	{
		if (holds[i].done)
			given[n++] = audit_row(&holds[i]);
	}
	if (n == 0)
		return;
	clear(given, n);
	AuditWriteMany(given, n);
}

/* Reads the excess of each hold from the rows. */
static Shrinking *
read_excess(SqlResult rows)
{
	Shrinking  *holds = palloc0(sizeof(Shrinking) * rows.n);

	for (uint64 i = 0; i < rows.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		holds[i].hold.org = SqlText(rows, i, 1);
		holds[i].cause.operation = "shrink";
		holds[i].cause.job = SqlInt8(rows, i, 2);
		holds[i].cause.attempt = SqlInt4(rows, i, 3);
		holds[i].hold.hold = SqlInt8(rows, i, 4);
		holds[i].amount = SqlCredits(rows, i, 5);
	}
	return holds;
}

/* Builds the audit row of one returned excess. */
static AuditRow
audit_row(const Shrinking *shrunk)
{
	AuditRow	row = {.org = shrunk->hold.org,
		.account = shrunk->hold.account,
		.operation = shrunk->cause.operation, .decision = "released",
		.reason = "cheaper_type", .hold = shrunk->hold.hold,
		.job = shrunk->cause.job, .attempt = shrunk->cause.attempt,
		.at = shrunk->at, .trace = shrunk->hold.trace};

	AuditCredits(&row, "released", shrunk->returned.released);
	AuditCredits(&row, "lapsed", shrunk->returned.lapsed);
	return row;
}

/* Marks these attempts as having no excess. */
static void
clear(const AuditRow *given, int n)
{
	const char **orgs = palloc(sizeof(char *) * n);
	int64	   *jobs = palloc(sizeof(int64) * n);
	int32	   *attempts = palloc(sizeof(int32) * n);

	for (int i = 0; i < n; i++)
	{
		orgs[i] = given[i].org;
		jobs[i] = given[i].job;
		attempts[i] = given[i].attempt;
	}
	Ensure(SqlRun(&excess_clear,
				  VALUES(TextArrayValue(orgs, n), Int8ArrayValue(jobs, n),
						 Int4ArrayValue(attempts, n))).n == (uint64) n,
		   "An attempt is missing.");
}
