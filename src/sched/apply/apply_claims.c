/*-------------------------------------------------------------------------
 *
 * apply_claims.c
 *		Applies new claims: the decision's promises and evictions.
 *
 * A claim is committed with all its evictions or not at all. The jobs
 * concerned are locked first, and locked jobs are skipped. If one could not be
 * locked, or has changed since it was loaded, the cycle decides again without
 * it. A victim's job row is updated, so that a settlement with an older
 * snapshot conflicts with the eviction.
 *
 * A directive orders a victim to save its work, and to leave within its tier's
 * grace. The directive is removed again if the claim ends before the victim's
 * agent has received it (load_claims.c).
 *
 * Locks: job rows, without waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sched/sched.h"
#include "util/clock.h"
#include "util/settings.h"
#include "util/sql.h"
#include "sched/apply/claim_report.h"
#include "types/gpuset.h"

SQL_STATEMENT(victims_lock, SPI_OK_SELECT, "text[], bigint[], int[]",
			  "SELECT u.n FROM ROWS FROM (pg_catalog.unnest($1),"
			  " pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  " WITH ORDINALITY AS u (org, job, attempt, n)"
			  " JOIN gpucredit.job j ON j.org = u.org AND j.job = u.job"
			  " WHERE j.state = 'active' AND j.attempt = u.attempt"
			  " AND NOT j.cancelled"
			  " FOR NO KEY UPDATE OF j SKIP LOCKED");
SQL_STATEMENT(victims_touch, SPI_OK_UPDATE, "text[], bigint[], int[]",
			  "UPDATE gpucredit.job j SET attempt = u.attempt"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  "  AS u (org, job, attempt)"
			  " WHERE j.org = u.org AND j.job = u.job");
SQL_STATEMENT(claims_insert, SPI_OK_INSERT,
			  "text, text[], bigint[], int[], text[], text[], text[], int[],"
			  " timestamptz, timestamptz",
			  "INSERT INTO gpucredit.claim (pool, org, job, attempt, account,"
			  " why, gpu_type, share, made_at, turn, until)"
			  " SELECT $1, u.org, u.job, u.attempt, u.account, u.why,"
			  " u.gpu_type, u.share, $9, u.turn, $10"
			  " FROM ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3), pg_catalog.unnest($4),"
			  "  pg_catalog.unnest($5), pg_catalog.unnest($6),"
			  "  pg_catalog.unnest($7), pg_catalog.unnest($8))"
			  " WITH ORDINALITY"
			  " AS u (org, job, attempt, account, why, gpu_type, share, turn)");
SQL_STATEMENT(parts_insert, SPI_OK_INSERT,
			  "text, text[], bigint[], text[], gpucredit.gpuset[],"
			  " bigint[], bigint[], bigint[]",
			  "INSERT INTO gpucredit.claim_gpu (pool, org, job, node, gpus,"
			  " cpu_milli, memory_mib, gpu_memory_mib)"
			  " SELECT $1, u.org, u.job, u.node, u.gpus, u.cpu_milli,"
			  " u.memory_mib, u.gpu_memory_mib FROM ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3), pg_catalog.unnest($4),"
			  "  pg_catalog.unnest($5), pg_catalog.unnest($6),"
			  "  pg_catalog.unnest($7), pg_catalog.unnest($8))"
			  " AS u (org, job, node, gpus, cpu_milli, memory_mib,"
			  "  gpu_memory_mib)");
SQL_STATEMENT(evictions_insert, SPI_OK_INSERT,
			  "text, text[], bigint[], int[], text[], text[], bigint[],"
			  " text[], timestamptz",
			  "INSERT INTO gpucredit.eviction (pool, org, job, attempt,"
			  " account, for_org, for_job, why, at)"
			  " SELECT $1, u.org, u.job, u.attempt, u.account, u.for_org,"
			  " u.for_job, u.why, $9"
			  " FROM ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3), pg_catalog.unnest($4),"
			  "  pg_catalog.unnest($5), pg_catalog.unnest($6),"
			  "  pg_catalog.unnest($7), pg_catalog.unnest($8))"
			  " AS u (org, job, attempt, account, for_org, for_job, why)");
SQL_STATEMENT(directives_insert, SPI_OK_INSERT,
			  "text[], bigint[], int[], text[], timestamptz[], timestamptz,"
			  " int[]",
			  "INSERT INTO gpucredit.directive (org, job, attempt, cause,"
			  " action, reason, deadline, given_at, own)"
			  " SELECT u.org, u.job, u.attempt, 'claim',"
			  " CASE WHEN u.deadline > $6 THEN 'checkpoint' ELSE 'stop' END,"
			  " u.reason, u.deadline, $6, u.own = 1"
			  " FROM ROWS FROM (pg_catalog.unnest($1),"
			  "  pg_catalog.unnest($2), pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4), pg_catalog.unnest($5),"
			  "  pg_catalog.unnest($7))"
			  " AS u (org, job, attempt, reason, deadline, own)");
SQL_STATEMENT(claims_started, SPI_OK_DELETE, "text, text[], bigint[]",
			  "DELETE FROM gpucredit.claim c USING"
			  " ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  " AS u (org, job)"
			  " WHERE c.pool = $1 AND c.org = u.org AND c.job = u.job");
SQL_STATEMENT(parts_started, SPI_OK_DELETE, "text, text[], bigint[]",
			  "DELETE FROM gpucredit.claim_gpu c USING"
			  " ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  " AS u (org, job)"
			  " WHERE c.pool = $1 AND c.org = u.org AND c.job = u.job");
SQL_STATEMENT(evictions_over, SPI_OK_DELETE, "text, text[], bigint[]",
			  "DELETE FROM gpucredit.eviction c USING"
			  " ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3))"
			  " AS u (org, job) WHERE c.pool = $1"
			  " AND c.for_org = u.org AND c.for_job = u.job");

static bool lock_jobs(SchedCycle *cycle);
static bool lock_victims(SchedCycle *cycle);
static Values victim_args(const SchedCycle *cycle);
static void end_started(const SchedCycle *cycle);
static void insert_claims(const SchedCycle *cycle);
static void insert_parts(const SchedCycle *cycle);
static void insert_evictions(const SchedCycle *cycle);
static void insert_directives(const SchedCycle *cycle);
static int32 *note_own(const SchedCycle *cycle);
static const char *reason_for(DecideWhy why);

/*
 * Locks the rows that new claims need. Returns false if some are locked
 * elsewhere; the cycle must then decide again.
 */
bool
ClaimsLock(SchedCycle *cycle)
{
	return cycle->result.n_promises == 0 ||
		(lock_jobs(cycle) && lock_victims(cycle));
}

/* Locks the waiting jobs that get promises. */
static bool
lock_jobs(SchedCycle *cycle)
{
	int32	   *which = palloc(sizeof(int32) * cycle->result.n_promises);
	int			n = 0;

	for (int i = 0; i < cycle->result.n_promises; i++)
	{
		if (cycle->result.promises[i].job >= 0)
			which[n++] = cycle->result.promises[i].job;
	}
	return CycleLockJobs(cycle, which, n);
}

/* Returns the victims' keys as three arrays, for a statement's arguments. */
static Values
victim_args(const SchedCycle *cycle)
{
	int			n = cycle->result.n_evictions;
	const char **orgs = palloc(sizeof(char *) * (n + 1));
	int64	   *jobs = palloc(sizeof(int64) * (n + 1));
	int32	   *attempts = palloc(sizeof(int32) * (n + 1));
	Values	   *args;

	for (int i = 0; i < n; i++)
	{
		const DecideRunning *running =
		&cycle->running[cycle->result.evictions[i].running];

		orgs[i] = running->org;
		jobs[i] = running->id;
		attempts[i] = running->attempt;
	}
	args = VALUES(TextArrayValue(orgs, n), Int8ArrayValue(jobs, n),
				  Int4ArrayValue(attempts, n));
	return *args;
}

/*
 * Locks the jobs that must leave. A job that is locked elsewhere is marked as
 * no victim of this cycle. Returns whether all could be locked.
 */
static bool
lock_victims(SchedCycle *cycle)
{
	int			n = cycle->result.n_evictions;
	bool	   *locked = palloc0(sizeof(bool) * (n + 1));
	Values		args = victim_args(cycle);
	SqlResult	rows;

	if (n == 0)
		return true;
	rows = SqlRun(&victims_lock, &args);
	for (uint64 i = 0; i < rows.n; i++)
		locked[SqlInt8(rows, i, 1) - 1] = true;
	if (rows.n == (uint64) n)
		return true;
	SqlFree(&rows);
	for (int i = 0; i < n; i++)
	{
		if (!locked[i])
			cycle->running[cycle->result.evictions[i].running].leaving = true;
	}
	return false;
}

/* Applies the promises and evictions of the decision. */
void
ClaimsApply(SchedCycle *cycle)
{
	end_started(cycle);
	if (cycle->result.n_promises == 0)
		return;
	insert_claims(cycle);
	insert_parts(cycle);
	if (cycle->result.n_evictions > 0)
	{
		Values		args = victim_args(cycle);

		(void) SqlRun(&victims_touch, &args);
		insert_evictions(cycle);
		insert_directives(cycle);
	}
	ClaimsAudit(cycle);
}

/* Ends the claims of jobs that start now. */
static void
end_started(const SchedCycle *cycle)
{
	const char **orgs;
	int64	   *jobs;
	bool	   *started;
	int			n = 0;
	Values	   *args;

	if (cycle->input.n_claims == 0 || cycle->result.n_starts == 0)
		return;
	orgs = palloc(sizeof(char *) * cycle->input.n_claims);
	jobs = palloc(sizeof(int64) * cycle->input.n_claims);
	started = palloc0(sizeof(bool) * (cycle->input.n_jobs + 1));
	for (int i = 0; i < cycle->result.n_starts; i++)
		started[cycle->result.starts[i].job] = true;
	for (int i = 0; i < cycle->input.n_claims; i++)
	{
		if (cycle->claims[i].job < 0 || !started[cycle->claims[i].job])
			continue;
		orgs[n] = cycle->claims[i].org;
		jobs[n++] = cycle->claims[i].id;
	}
	if (n == 0)
		return;
	args = VALUES(TextValue(cycle->pool), TextArrayValue(orgs, n),
				  Int8ArrayValue(jobs, n));
	(void) SqlRun(&claims_started, args);
	(void) SqlRun(&parts_started, args);
	(void) SqlRun(&evictions_over, args);
}

/* Inserts one row for each claim. */
static void
insert_claims(const SchedCycle *cycle)
{
	int			n = cycle->result.n_promises;
	const char **texts = palloc(sizeof(char *) * 4 * n);
	int64	   *jobs = palloc(sizeof(int64) * n);
	int32	   *numbers = palloc(sizeof(int32) * 2 * n);

	for (int i = 0; i < n; i++)
	{
		const DecidePromise *promise = &cycle->result.promises[i];
		ClaimOwner	owner = ClaimOwnerOf(cycle, promise);

		texts[i] = owner.org;
		texts[n + i] = owner.account;
		texts[2 * n + i] = DecideWhyName(promise->why);
		texts[3 * n + i] = promise->type == DECIDE_NO_TYPE ? NULL :
			cycle->set->types.names[promise->type];
		jobs[i] = owner.job;
		numbers[i] = owner.attempt;
		numbers[n + i] = promise->share;
	}
	(void) SqlRun(&claims_insert,
				  VALUES(TextValue(cycle->pool), TextArrayValue(texts, n),
						 Int8ArrayValue(jobs, n), Int4ArrayValue(numbers, n),
						 TextArrayValue(texts + n, n),
						 TextArrayValue(texts + 2 * n, n),
						 TextArrayValue(texts + 3 * n, n),
						 Int4ArrayValue(numbers + n, n), TimeValue(cycle->now),
						 TimeValue(ClockAdd(cycle->now,
											SettingClaimTimeout()))));
}

/* Inserts one row for each node of each claim. */
static void
insert_parts(const SchedCycle *cycle)
{
	int			n = cycle->result.n_promise_parts;
	const char **texts = palloc(sizeof(char *) * 2 * n);
	int64	   *numbers = palloc(sizeof(int64) * 4 * n);
	Datum	   *sets = palloc(sizeof(Datum) * n);

	for (int i = 0; i < cycle->result.n_promises; i++)
	{
		const DecidePromise *promise = &cycle->result.promises[i];
		ClaimOwner	owner = ClaimOwnerOf(cycle, promise);
		const DecideRequestClass *request = &cycle->requests[promise->job >= 0 ?
															 cycle->jobs[promise->job].request :
															 cycle->running[promise->running].request];

		for (int p = promise->first_part;
			 p < promise->first_part + promise->n_parts; p++)
		{
			const DecidePart *part = &cycle->result.promise_parts[p];

			texts[p] = owner.org;
			texts[n + p] = cycle->set->nodes[part->node].name;
			numbers[p] = owner.job;
			numbers[n + p] = part->cpu_milli;
			numbers[2 * n + p] = part->memory_mib;
			numbers[3 * n + p] = DecideShareFloor(request, promise->type);
			sets[p] = GpuSetGetDatum(part->devices);
		}
	}
	(void) SqlRun(&parts_insert,
				  VALUES(TextValue(cycle->pool), TextArrayValue(texts, n),
						 Int8ArrayValue(numbers, n),
						 TextArrayValue(texts + n, n),
						 ArrayValue(sets, NULL, n,
									SqlTypeOid("gpucredit.gpuset")),
						 Int8ArrayValue(numbers + n, n),
						 Int8ArrayValue(numbers + 2 * n, n),
						 Int8ArrayValue(numbers + 3 * n, n)));
}

/* Inserts one row for each victim, with the claim that it leaves for. */
static void
insert_evictions(const SchedCycle *cycle)
{
	int			n = cycle->result.n_evictions;
	const char **texts = palloc(sizeof(char *) * 4 * n);
	int64	   *jobs = palloc(sizeof(int64) * 2 * n);
	int32	   *attempts = palloc(sizeof(int32) * n);

	for (int i = 0; i < cycle->result.n_promises; i++)
	{
		const DecidePromise *promise = &cycle->result.promises[i];
		ClaimOwner	owner = ClaimOwnerOf(cycle, promise);

		for (int e = promise->first_eviction;
			 e < promise->first_eviction + promise->n_evictions; e++)
		{
			const DecideEviction *eviction = &cycle->result.evictions[e];
			const DecideRunning *running = &cycle->running[eviction->running];

			texts[e] = running->org;
			texts[n + e] = cycle->account_names[running->account].path;
			texts[2 * n + e] = owner.org;
			texts[3 * n + e] = DecideWhyName(eviction->why);
			jobs[e] = running->id;
			jobs[n + e] = owner.job;
			attempts[e] = running->attempt;
		}
	}
	(void) SqlRun(&evictions_insert,
				  VALUES(TextValue(cycle->pool), TextArrayValue(texts, n),
						 Int8ArrayValue(jobs, n), Int4ArrayValue(attempts, n),
						 TextArrayValue(texts + n, n),
						 TextArrayValue(texts + 2 * n, n),
						 Int8ArrayValue(jobs + n, n),
						 TextArrayValue(texts + 3 * n, n),
						 TimeValue(cycle->now)));
}

/* Returns the cause that an attempt's directive names for an eviction. */
static const char *
reason_for(DecideWhy why)
{
	switch (why)
	{
		case DECIDE_WHY_MOVE:
			return "moved";
		case DECIDE_WHY_SHRINK:
		case DECIDE_WHY_GROW:
			return "resized";
		case DECIDE_WHY_TIER:
		case DECIDE_WHY_ENTITLEMENT:
			break;
	}
	return "preempted";
}

/*
 * Inserts the directives that order the victims to save, and to leave within
 * their grace.
 */
static void
insert_directives(const SchedCycle *cycle)
{
	int			n = cycle->result.n_evictions;
	const char **reasons = palloc(sizeof(char *) * n);
	TimestampTz *deadlines = palloc(sizeof(TimestampTz) * n);
	int32	   *own = note_own(cycle);
	Values		args = victim_args(cycle);

	for (int i = 0; i < n; i++)
	{
		const DecideEviction *eviction = &cycle->result.evictions[i];
		const DecideRunning *running = &cycle->running[eviction->running];

		reasons[i] = reason_for(eviction->why);
		deadlines[i] = ClockAdd(cycle->now,
								cycle->tiers[running->tier].grace);
	}
	ValuesAdd(&args, TextArrayValue(reasons, n), TimeArrayValue(deadlines, n),
			  TimeValue(cycle->now), Int4ArrayValue(own, n));
	(void) SqlRun(&directives_insert, &args);
}

/*
 * Returns, by eviction, whether it serves another job of the same
 * organisation. That organisation then pays for the work that is lost.
 */
static int32 *
note_own(const SchedCycle *cycle)
{
	int32	   *own = palloc0(sizeof(int32) * (cycle->result.n_evictions + 1));

	for (int i = 0; i < cycle->result.n_promises; i++)
	{
		const DecidePromise *promise = &cycle->result.promises[i];
		ClaimOwner	owner = ClaimOwnerOf(cycle, promise);

		for (int e = promise->first_eviction;
			 e < promise->first_eviction + promise->n_evictions; e++)
		{
			const DecideEviction *eviction = &cycle->result.evictions[e];
			const DecideRunning *running = &cycle->running[eviction->running];

			own[e] = strcmp(owner.org, running->org) == 0 &&
				owner.job != running->id;
		}
	}
	return own;
}
