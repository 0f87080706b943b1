/*-------------------------------------------------------------------------
 *
 * load_claims.c
 *		Loads the claims of earlier cycles, and ends those that are no
 *		longer valid.
 *
 * A claim ends when its job has started or ended, when lowered quotas no
 * longer allow it, and when its time limit has passed. It also ends when it
 * loses a device: the node is gone, leaving, draining or silent, or the device
 * is not healthy. Victims that have not received their directive yet are
 * spared: the directive is removed, unless an agent is receiving it now. If a
 * spared victim was to move, its own claim ends, too.
 *
 * Locks: rows of claims, after the pool's lock; directives, without waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/sql.h"
#include "audit/audit.h"
#include "job/job.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "sched/sched.h"

/* A claim as read from its rows. */
typedef struct ClaimRow
{
	DecideClaim claim;
	int32		attempt;
	const char *account;
	int32		running;		/* index of its job among the running jobs, or
								 * -1 if it does not run */
	const char *dead;			/* why the claim ends, or NULL if it stays
								 * valid */
} ClaimRow;

typedef struct ClaimRows
{
	int			n;
	ClaimRow   *rows;			/* sorted by job, then organisation */
	int			n_parts;
	DecidePart *parts;
} ClaimRows;

SQL_STATEMENT(claims_read, SPI_OK_SELECT, "text, timestamptz, timestamptz",
			  "SELECT c.org, c.job, c.attempt, c.account, c.gpu_type,"
			  " c.share, c.until <= $2, g.node, g.gpus, g.cpu_milli,"
			  " g.memory_mib, n.healthy, n.pool = c.pool"
			  "  AND n.draining IS NULL AND n.reclaim_at IS NULL"
			  "  AND n.heard_at > $3"
			  "  AND (c.gpu_type IS NULL OR n.gpu_type = c.gpu_type),"
			  " c.made_at, c.turn, g.gpu_memory_mib,"
			  " COALESCE((SELECT j.preemptible <> 'capacity'"
			  "  FROM gpucredit.job j"
			  "  WHERE j.org = c.org AND j.job = c.job), false)"
			  " FROM gpucredit.claim c JOIN gpucredit.claim_gpu g"
			  "  ON g.pool = c.pool AND g.org = c.org AND g.job = c.job"
			  " LEFT JOIN gpucredit.node n ON n.node = g.node"
			  " WHERE c.pool = $1 ORDER BY c.job, c.org, g.node");
SQL_STATEMENT(waiting_read, SPI_OK_SELECT, "text[], bigint[], int[]",
			  "SELECT u.n FROM ROWS FROM (pg_catalog.unnest($1),"
			  " pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  " WITH ORDINALITY AS u (org, job, attempt, n)"
			  " JOIN gpucredit.job j ON j.org = u.org AND j.job = u.job"
			  " WHERE j.state = 'queued' AND j.attempt = u.attempt");
SQL_STATEMENT(claims_lock, SPI_OK_SELECT, "text, text[], bigint[], int[]",
			  "SELECT u.i FROM ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3), pg_catalog.unnest($4))"
			  "  AS u (org, job, i)"
			  " JOIN gpucredit.claim c ON c.pool = $1 AND c.org = u.org"
			  "  AND c.job = u.job FOR UPDATE OF c SKIP LOCKED");
SQL_STATEMENT(claims_delete, SPI_OK_DELETE, "text, text[], bigint[]",
			  "DELETE FROM gpucredit.claim c USING"
			  " ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  " AS u (org, job)"
			  " WHERE c.pool = $1 AND c.org = u.org AND c.job = u.job");
SQL_STATEMENT(parts_delete, SPI_OK_DELETE, "text",
			  "DELETE FROM gpucredit.claim_gpu g WHERE g.pool = $1"
			  " AND NOT EXISTS (SELECT FROM gpucredit.claim c"
			  "  WHERE c.pool = g.pool AND c.org = g.org AND c.job = g.job)");
SQL_STATEMENT(orphans_delete, SPI_OK_DELETE_RETURNING, "text",
			  "DELETE FROM gpucredit.eviction e WHERE e.pool = $1"
			  " AND NOT EXISTS (SELECT FROM gpucredit.claim c"
			  "  WHERE c.pool = e.pool AND c.org = e.for_org"
			  "  AND c.job = e.for_job)"
			  " RETURNING e.org, e.job, e.attempt, e.account");
SQL_STATEMENT(directives_spare, SPI_OK_DELETE_RETURNING,
			  "text[], bigint[], int[]",
			  "DELETE FROM gpucredit.directive d USING"
			  " (SELECT f.ctid AS tid, u.n FROM"
			  "  ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2),"
			  "   pg_catalog.unnest($3)) WITH ORDINALITY"
			  "   AS u (org, job, attempt, n)"
			  "  JOIN gpucredit.directive f ON f.org = u.org"
			  "   AND f.job = u.job AND f.attempt = u.attempt"
			  "  WHERE f.cause = 'claim' AND f.told_at IS NULL"
			  "  FOR UPDATE OF f SKIP LOCKED) s"
			  " WHERE d.ctid = s.tid RETURNING s.n");
SQL_STATEMENT(untold_read, SPI_OK_SELECT, "text",
			  "SELECT e.org, e.job, e.attempt, e.for_org, e.for_job"
			  " FROM gpucredit.eviction e"
			  " WHERE e.pool = $1 AND EXISTS (SELECT FROM gpucredit.directive d"
			  "  WHERE d.org = e.org AND d.job = e.job"
			  "  AND d.attempt = e.attempt AND d.cause = 'claim'"
			  "  AND d.told_at IS NULL)");

static void load_evictions(SchedCycle *cycle);
static void read_claims(SchedCycle *cycle, ClaimRows *claims);
static void read_claim_part(SchedCycle *cycle, SqlResult rows, uint64 i,
							ClaimRows *claims);
static ClaimRow *find_row(const ClaimRows *claims, const char *org, int64 job);
static void find_jobs(SchedCycle *cycle, ClaimRows *claims);
static void find_waiting(const SchedCycle *cycle, ClaimRows *claims);
static void find_disallowed(SchedCycle *cycle, ClaimRows *claims);
static int	compare_made(const void *a, const void *b);
static void lock_dead(const SchedCycle *cycle, ClaimRows *claims);
static bool end_dead(SchedCycle *cycle, ClaimRows *claims);
static bool spare_victims(SchedCycle *cycle);
static bool spare_untold(SchedCycle *cycle, const ClaimRows *claims);
static void audit_ended(const SchedCycle *cycle, const ClaimRow *row);
static void keep_alive(SchedCycle *cycle, const ClaimRows *claims);

/*
 * Loads the claims that stay valid, and ends the others. Queue and running
 * jobs must be loaded before.
 */
void
ClaimsLoad(SchedCycle *cycle)
{
	ClaimRows	claims = {0};
	bool		again;

	cycle->claims_ended = !cycle->read_only && spare_victims(cycle);
	read_claims(cycle, &claims);
	find_jobs(cycle, &claims);
	find_waiting(cycle, &claims);
	if (claims.n > 0)
		load_evictions(cycle);
	find_disallowed(cycle, &claims);
	do
	{
		again = false;
		for (int i = 0; i < claims.n; i++)
		{
			ClaimRow   *row = &claims.rows[i];

			if (row->dead == NULL && row->running >= 0 &&
				!cycle->running[row->running].leaving)
				row->dead = "spared";
		}
		if (cycle->read_only)
			again = spare_untold(cycle, &claims);
		else if (end_dead(cycle, &claims))
		{
			cycle->claims_ended = true;
			again = spare_victims(cycle);
		}
	} while (again);
	keep_alive(cycle, &claims);
}

/*
 * Read all claims of the pool.
 */
static void
read_claims(SchedCycle *cycle, ClaimRows *claims)
{
	SqlResult	rows;

	rows = CycleRead(cycle, &claims_read,
					 VALUES(TextValue(cycle->pool), TimeValue(cycle->now),
							TimeValue(SettingNodeLost() == 0 ? DT_NOBEGIN :
									  ClockAdd(cycle->now,
											   -SettingNodeLost()))));
	claims->rows = palloc0(sizeof(ClaimRow) * (rows.n + 1));
	claims->parts = palloc0(sizeof(DecidePart) * (rows.n + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *org = SqlText(rows, i, 1);
		int64		job = SqlInt8(rows, i, 2);
		ClaimRow   *row;

		CHECK_FOR_INTERRUPTS();
		if (claims->n == 0 ||
			claims->rows[claims->n - 1].claim.id != job ||
			strcmp(claims->rows[claims->n - 1].claim.org, org) != 0)
		{
			char	   *type = SqlText(rows, i, 5);

			row = &claims->rows[claims->n++];
			row->claim.org = org;
			row->claim.id = job;
			row->claim.job = -1;
			row->claim.type = type == NULL ? DECIDE_NO_TYPE :
				NameFind(&cycle->set->types, type);
			row->claim.share = SqlInt4(rows, i, 6);
			row->claim.first_part = claims->n_parts;
			row->attempt = SqlInt4(rows, i, 3);
			row->account = SqlText(rows, i, 4);
			row->claim.account = AccountIndex(cycle, org, row->account);
			row->claim.made = SqlTime(rows, i, 14);
			row->claim.turn = SqlInt4(rows, i, 15);
			row->claim.stays = SqlBool(rows, i, 17);
			row->running = -1;
			if (SqlBool(rows, i, 7))
				row->dead = "timeout";
		}
		read_claim_part(cycle, rows, i, claims);
	}
	SqlFree(&rows);
}

/* Reads one row: the part of the claim read last on one node. */
static void
read_claim_part(SchedCycle *cycle, SqlResult rows, uint64 i, ClaimRows *claims)
{
	ClaimRow   *row = &claims->rows[claims->n - 1];
	DecidePart *part = &claims->parts[claims->n_parts++];
	GpuSet		healthy;
	bool		isnull;
	bool		lost;

	part->node = NodeIndex(cycle->set, SqlText(rows, i, 8));
	part->devices = DatumGetGpuSet(SqlDatum(rows, i, 9, &isnull));
	part->gpus = pg_popcount64(part->devices);
	part->cpu_milli = SqlInt8(rows, i, 10);
	part->memory_mib = SqlInt8(rows, i, 11);
	if (part->node >= 0)
		part->gpu_memory_mib =
			DecideShareMemory(cycle->set->nodes[part->node].gpu_memory_mib,
							  row->claim.share, SqlInt8(rows, i, 16));
	if (part->node >= 0 && row->claim.share < DECIDE_WHOLE)
		row->claim.counted = OffersShare(row->claim.share, part->gpu_memory_mib,
										 cycle->set->nodes[part->node].gpu_memory_mib);
	row->claim.gpus += part->gpus;
	row->claim.n_parts++;
	healthy = DatumGetGpuSet(SqlDatum(rows, i, 12, &isnull));
	lost = isnull || SqlIsNull(rows, i, 13) || !SqlBool(rows, i, 13) ||
		part->node < 0 || (part->devices & ~healthy) != 0;
	if (lost && row->dead == NULL)
		row->dead = "lost_device";
}

/* Returns the claim of a job, or NULL if it has none. */
static ClaimRow *
find_row(const ClaimRows *claims, const char *org, int64 job)
{
	int			low = 0;
	int			high = claims->n;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;
		const DecideClaim *claim = &claims->rows[middle].claim;

		if (claim->id < job ||
			(claim->id == job && strcmp(claim->org, org) < 0))
			low = middle + 1;
		else
			high = middle;
	}
	return low < claims->n && claims->rows[low].claim.id == job &&
		strcmp(claims->rows[low].claim.org, org) == 0 ?
		&claims->rows[low] : NULL;
}

/* Finds the jobs of the claims in the queue, or among the running jobs. */
static void
find_jobs(SchedCycle *cycle, ClaimRows *claims)
{
	for (int32 j = 0; j < cycle->input.n_jobs && claims->n > 0; j++)
	{
		const DecideJob *job = &cycle->jobs[j];
		ClaimRow   *row = find_row(claims, job->org, job->id);

		if (row != NULL && cycle->queued[j].attempt == row->attempt)
			row->claim.job = j;
	}
	for (int i = 0; i < claims->n; i++)
	{
		ClaimRow   *row = &claims->rows[i];

		if (row->claim.job < 0)
			row->running = RunningFind(cycle, row->claim.org,
									   row->claim.id, row->attempt);
		row->claim.running = row->running >= 0;
	}
}

/*
 * Ends the claims whose jobs are neither in the queue nor running. A job that
 * waits for a later instant, as in backoff, keeps its claim.
 */
static void
find_waiting(const SchedCycle *cycle, ClaimRows *claims)
{
	const char **orgs = palloc(sizeof(char *) * (claims->n + 1));
	int64	   *jobs = palloc(sizeof(int64) * (claims->n + 1));
	int32	   *attempts = palloc(sizeof(int32) * (claims->n + 1));
	ClaimRow  **lost = palloc(sizeof(ClaimRow *) * (claims->n + 1));
	int			n = 0;
	SqlResult	rows;

	for (int i = 0; i < claims->n; i++)
	{
		ClaimRow   *row = &claims->rows[i];

		if (row->claim.job >= 0 || row->running >= 0 || row->dead != NULL)
			continue;
		orgs[n] = row->claim.org;
		jobs[n] = row->claim.id;
		attempts[n] = row->attempt;
		row->dead = "over";
		lost[n++] = row;
	}
	if (n == 0)
		return;
	rows = CycleRead(cycle, &waiting_read,
					 VALUES(TextArrayValue(orgs, n), Int8ArrayValue(jobs, n),
							Int4ArrayValue(attempts, n)));
	for (uint64 i = 0; i < rows.n; i++)
		lost[SqlInt8(rows, i, 1) - 1]->dead = NULL;
	SqlFree(&rows);
}

/*
 * Ends the claims that quotas no longer allow, the latest claims first,
 * because no devices should be kept for a job that may not start. The claim of
 * a running job that is to move is checked when that job waits.
 */
static void
find_disallowed(SchedCycle *cycle, ClaimRows *claims)
{
	ClaimRow  **made;
	DecideClaim *all;

	if (cycle->n_quotas == 0)
		return;
	made = palloc(sizeof(ClaimRow *) * (claims->n + 1));
	all = palloc(sizeof(DecideClaim) * (claims->n + 1));
	for (int i = 0; i < claims->n; i++)
	{
		made[i] = &claims->rows[i];
		all[i] = claims->rows[i].claim;
	}
	/* who leaves for a claim depends on which leaving jobs have claims */
	cycle->input.claims = all;
	cycle->input.n_claims = claims->n;
	qsort(made, claims->n, sizeof(ClaimRow *), compare_made);
	for (int i = 0; i < claims->n; i++)
	{
		ClaimRow   *row = made[i];

		if (row->dead == NULL && row->running < 0 &&
			!SchedQuotasAllowClaim(cycle, claims->parts, &row->claim))
			row->dead = "quota";
		if (row->dead == NULL)
			SchedQuotasCountClaim(cycle, claims->parts, &row->claim);
	}
	cycle->input.claims = NULL;
	cycle->input.n_claims = 0;
	pfree(all);
}

/*----------
 * The order in which claims were made:
 *
 * 1. instant of the cycle that made the claim;
 * 2. its turn in that cycle;
 * 3. place in the array, which is sorted by job and organisation.
 *----------
 */
static int
compare_made(const void *a, const void *b)
{
	const ClaimRow *x = *(ClaimRow *const *) a;
	const ClaimRow *y = *(ClaimRow *const *) b;

	if (x->claim.made != y->claim.made)
		return x->claim.made < y->claim.made ? -1 : 1;
	if (x->claim.turn != y->claim.turn)
		return x->claim.turn < y->claim.turn ? -1 : 1;
	return x < y ? -1 : x > y;
}

/*
 * Locks the rows of the claims that end. A row that is locked elsewhere is
 * skipped: the other transaction or the next cycle ends that claim.
 */
static void
lock_dead(const SchedCycle *cycle, ClaimRows *claims)
{
	const char **orgs = palloc(sizeof(char *) * (claims->n + 1));
	int64	   *jobs = palloc(sizeof(int64) * (claims->n + 1));
	int32	   *rows_of = palloc(sizeof(int32) * (claims->n + 1));
	bool	   *locked = palloc0(sizeof(bool) * (claims->n + 1));
	int			n = 0;
	SqlResult	rows;

	for (int i = 0; i < claims->n; i++)
	{
		const ClaimRow *row = &claims->rows[i];

		if (row->dead == NULL || row->claim.n_parts == 0)
			continue;
		orgs[n] = row->claim.org;
		jobs[n] = row->claim.id;
		rows_of[n++] = i;
	}
	if (n == 0)
		return;
	rows = SqlRun(&claims_lock,
				  VALUES(TextValue(cycle->pool), TextArrayValue(orgs, n),
						 Int8ArrayValue(jobs, n), Int4ArrayValue(rows_of, n)));
	for (uint64 i = 0; i < rows.n; i++)
		locked[SqlInt4(rows, i, 1)] = true;
	SqlFree(&rows);
	for (int k = 0; k < n; k++)
	{
		if (!locked[rows_of[k]])
			claims->rows[rows_of[k]].claim.n_parts = 0;
	}
}

/*
 * Deletes the rows of the claims that end. Returns false if there are none.
 * The claims stay in the list, marked as done.
 */
static bool
end_dead(SchedCycle *cycle, ClaimRows *claims)
{
	const char **orgs = palloc(sizeof(char *) * (claims->n + 1));
	int64	   *jobs = palloc(sizeof(int64) * (claims->n + 1));
	int			n = 0;

	lock_dead(cycle, claims);
	for (int i = 0; i < claims->n; i++)
	{
		ClaimRow   *row = &claims->rows[i];

		if (row->dead == NULL || row->claim.n_parts == 0)
			continue;
		orgs[n] = row->claim.org;
		jobs[n++] = row->claim.id;
		audit_ended(cycle, row);
		row->claim.n_parts = 0;
	}
	if (n == 0)
		return false;
	(void) SqlRun(&claims_delete,
				  VALUES(TextValue(cycle->pool), TextArrayValue(orgs, n),
						 Int8ArrayValue(jobs, n)));
	(void) SqlRun(&parts_delete, VALUES(TextValue(cycle->pool)));
	return true;
}

/*
 * Removes the directives of ended claims that the victims have not received
 * yet. Returns false if there are none.
 */
static bool
spare_victims(SchedCycle *cycle)
{
	SqlResult	rows;
	SqlResult	spared;
	const char **orgs;
	int64	   *jobs;
	int32	   *attempts;

	rows = SqlRun(&orphans_delete, VALUES(TextValue(cycle->pool)));
	if (rows.n == 0)
		return false;
	orgs = palloc(sizeof(char *) * rows.n);
	jobs = palloc(sizeof(int64) * rows.n);
	attempts = palloc(sizeof(int32) * rows.n);
	for (uint64 i = 0; i < rows.n; i++)
	{
		orgs[i] = SqlText(rows, i, 1);
		jobs[i] = SqlInt8(rows, i, 2);
		attempts[i] = SqlInt4(rows, i, 3);
	}
	spared = SqlRun(&directives_spare,
					VALUES(TextArrayValue(orgs, (int) rows.n),
						   Int8ArrayValue(jobs, (int) rows.n),
						   Int4ArrayValue(attempts, (int) rows.n)));
	for (uint64 s = 0; s < spared.n; s++)
	{
		uint64		i = SqlInt8(spared, s, 1) - 1;
		AuditRow	audit = {.org = orgs[i], .account = SqlText(rows, i, 4),
			.operation = "place", .decision = "spared", .job = jobs[i],
			.attempt = attempts[i], .at = cycle->now};
		int32		r = RunningFind(cycle, orgs[i], jobs[i], attempts[i]);

		if (r >= 0)
			cycle->running[r].leaving = false;
		JobTraces(&audit, 1);
		AuditWrite(&audit);
	}
	SqlFree(&spared);
	SqlFree(&rows);
	return true;
}

/*
 * The read-only counterpart of spare_victims(): marks the victims of ending
 * claims that have not received their directive as spared, without writing.
 * Returns false if there are none.
 */
static bool
spare_untold(SchedCycle *cycle, const ClaimRows *claims)
{
	SqlResult	rows = CycleRead(cycle, &untold_read,
								 VALUES(TextValue(cycle->pool)));
	bool		spared = false;

	for (uint64 i = 0; i < rows.n; i++)
	{
		const ClaimRow *row = find_row(claims, SqlText(rows, i, 4),
									   SqlInt8(rows, i, 5));
		int32		r;

		CHECK_FOR_INTERRUPTS();
		if (row != NULL && row->dead == NULL)
			continue;
		r = RunningFind(cycle, SqlText(rows, i, 1), SqlInt8(rows, i, 2),
						SqlInt4(rows, i, 3));
		if (r < 0 || !cycle->running[r].leaving)
			continue;
		cycle->running[r].leaving = false;
		spared = true;
	}
	SqlFree(&rows);
	return spared;
}

/*
 * Writes the end of a claim into the audit log. If its job did not start, the
 * end is also logged for the operator.
 */
static void
audit_ended(const SchedCycle *cycle, const ClaimRow *row)
{
	AuditRow	audit = {.org = row->claim.org, .account = row->account,
		.operation = "place", .decision = "claim_ended",
		.reason = row->dead, .job = row->claim.id, .at = cycle->now};
	StringInfo	line;

	JobTraces(&audit, 1);
	AuditWrite(&audit);
	if (strcmp(row->dead, "timeout") != 0)
		return;
	line = LogBegin("claim_timed_out");
	LogText(line, "pool", cycle->pool);
	LogText(line, "org", audit.org);
	LogText(line, "account", audit.account);
	LogNumber(line, "job", audit.job);
	LogTrace(line, &audit.trace);
	LogAtCommit(line);
}

/* Passes the claims that stay valid to the decision as input. */
static void
keep_alive(SchedCycle *cycle, const ClaimRows *claims)
{
	cycle->claims = palloc(sizeof(DecideClaim) * (claims->n + 1));
	cycle->claimants = palloc(sizeof(int32) * (claims->n + 1));
	for (int i = 0; i < claims->n; i++)
	{
		if (claims->rows[i].dead != NULL)
			continue;
		cycle->claimants[cycle->input.n_claims] = claims->rows[i].running;
		cycle->claims[cycle->input.n_claims++] = claims->rows[i].claim;
	}
	cycle->input.claims = cycle->claims;
	cycle->input.claim_parts = claims->parts;
	cycle->input.n_claim_parts = claims->n_parts;
}

SQL_STATEMENT(evictions_read, SPI_OK_SELECT, "text",
			  "SELECT e.org, e.job, e.attempt, e.for_org, e.for_job"
			  " FROM gpucredit.eviction e WHERE e.pool = $1");

/*
 * Notes for each leaving attempt, live or fenced, for which claim it was
 * evicted.
 */
static void
load_evictions(SchedCycle *cycle)
{
	SqlResult	rows = CycleRead(cycle, &evictions_read,
								 VALUES(TextValue(cycle->pool)));

	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *org = SqlText(rows, i, 1);
		int32		r = RunningFindAny(cycle, org, SqlInt8(rows, i, 2),
									   SqlInt4(rows, i, 3));

		CHECK_FOR_INTERRUPTS();
		if (r >= 0)
		{
			cycle->running[r].for_org = SqlText(rows, i, 4);
			cycle->running[r].for_job = SqlInt8(rows, i, 5);
		}
		pfree(org);
	}
	SqlFree(&rows);
}
