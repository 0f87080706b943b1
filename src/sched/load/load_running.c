/*-------------------------------------------------------------------------
 *
 * load_running.c
 *		What runs in a pool, and until when.
 *
 * The rows of attempts' devices say everything.  They are written at a start
 * and not touched by heartbeats, so one index scan finds what runs, for any
 * number of organisations.  Only the attempts told to leave are read
 * separately.
 *
 * A cycle plans as if attempts ran up to their limits.  Beside that stands
 * what is likely, as learnt when they started: an attempt that outruns this is
 * expected to run twice as long, and so on, up to its limit.  One that outruns
 * even its limit, or a leaving one past its deadline, is expected to be gone
 * within CYCLE_SOON.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/sql.h"
#include "audit/audit.h"
#include "job/job.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "sched/sched.h"
#include "utils/builtins.h"

/* A row: an attempt, as each of its rows describes it, and its part on one
 * node. */
typedef struct RunningRow
{
	DecideRunning running;
	DecidePart	part;
	bool		here;			/* the node is of the pool */
} RunningRow;

/* The state while rows arrive. */
typedef struct RunningLoading
{
	SchedCycle *cycle;
	RunningRow *rows;
	int32		n;
	int32		size;
	TimestampTz fenced_since;	/* attempts that ended earlier are not fenced
								 * any more */
	uint64		run_out;		/* fences that have, where new work may land */
	int32		node;			/* of the row before */
	int32		account;
	int32		tier;
} RunningLoading;

SQL_STATEMENT(running_read, SPI_OK_SELECT, "text",
			  "SELECT g.org, g.account, g.job, g.attempt, g.node, g.gpus,"
			  " g.share, g.cpu_milli, g.memory_mib, g.tier, g.preemptible,"
			  " g.min_gpus, g.max_gpus, g.started_at, g.saved_at,"
			  " g.expected_end, g.limit_end, g.ended_at, g.seen_at,"
			  " g.gpu_memory_mib"
			  " FROM gpucredit.attempt_gpu g"
			  " WHERE g.pool = $1 AND NOT g.free");

SQL_STATEMENT(evictions_read, SPI_OK_SELECT, "text",
			  "SELECT e.org, e.job, e.attempt, e.for_org, e.for_job"
			  " FROM gpucredit.eviction e WHERE e.pool = $1");
/* a directive without a deadline only asks for a checkpoint */
SQL_STATEMENT(leaving_read, SPI_OK_SELECT, "text",
			  "SELECT d.org, d.job, d.attempt,"
			  " pg_catalog.min(CASE WHEN d.action = 'stop' THEN d.given_at"
			  "  ELSE d.deadline END)"
			  " FROM gpucredit.directive d JOIN gpucredit.attempt a"
			  " ON a.org = d.org AND a.job = d.job AND a.attempt = d.attempt"
			  " WHERE a.pool = $1 AND a.ended_at IS NULL"
			  " AND (d.action = 'stop' OR d.deadline IS NOT NULL)"
			  " GROUP BY d.org, d.job, d.attempt");

static void read_rows(RunningLoading *loading);
static bool add_row(void *context, const Datum *values, const bool *nulls);
static int32 node_of_row(RunningLoading *loading, Datum value);
static void read_attempt(RunningLoading *loading, const Datum *values,
						 const bool *nulls, DecideRunning *running);
static void read_part(RunningLoading *loading, const Datum *values,
					  RunningRow *row);
static void take_off(DecideNode *node, const RunningRow *row);
static int	compare_attempts(const void *a, const void *b);
static void join_parts(SchedCycle *cycle, const RunningRow *rows, int32 n);
static void load_leaving(SchedCycle *cycle);
static int32 find_live(const SchedCycle *cycle, const char *org, int64 job,
					   int32 attempt);
static int32 find_attempt(const SchedCycle *cycle, const char *org, int64 job,
						  int32 attempt);

/*
 * Load what has devices of the pool, live or fenced, and take these off the
 * nodes.  Fences that have run out are removed where new work may land.  A
 * heartbeat may have one locked, and report that its attempt still runs: then
 * all of them count once more.
 */
void
RunningLoad(SchedCycle *cycle)
{
	RunningLoading loading = {.cycle = cycle, .size = 256,
		.fenced_since = ClockAdd(cycle->now, -SettingNodeLost()),
		.node = -1, .account = -1, .tier = -1};

	loading.rows = palloc(sizeof(RunningRow) * loading.size);
	read_rows(&loading);
	if (loading.run_out > 0 && !cycle->read_only &&
		FencesEnd(cycle) < loading.run_out)
	{
		loading.fenced_since = DT_NOBEGIN;
		read_rows(&loading);
	}
	for (int32 i = 0; i < loading.n; i++)
	{
		if (loading.rows[i].here)
			take_off(&cycle->set->nodes[loading.rows[i].part.node],
					 &loading.rows[i]);
	}
	qsort(loading.rows, loading.n, sizeof(RunningRow), compare_attempts);
	join_parts(cycle, loading.rows, loading.n);
	pfree(loading.rows);
	load_leaving(cycle);
}

static void
read_rows(RunningLoading *loading)
{
	loading->n = 0;
	SqlEach(&running_read,
			VALUES(TextValue(loading->cycle->pool)),
			loading->cycle->read_only, add_row, loading);
}

/*
 * One row.
 */
static bool
add_row(void *context, const Datum *values, const bool *nulls)
{
	RunningLoading *loading = context;
	RunningRow *row;
	TimestampTz ended = nulls[17] ? DT_NOBEGIN :
		Max(DatumGetTimestampTz(values[17]),
			nulls[18] ? DT_NOBEGIN : DatumGetTimestampTz(values[18]));

	if (!nulls[17] && ended <= loading->fenced_since)
	{
		int32		node = node_of_row(loading, values[4]);

		if (node >= 0 && (loading->cycle->foreign ||
						  loading->cycle->set->nodes[node].schedulable))
			loading->run_out++;
		return true;
	}
	if (loading->n == loading->size)
	{
		loading->size *= 2;
		loading->rows = repalloc_huge(loading->rows,
									  sizeof(RunningRow) * loading->size);
	}
	row = &loading->rows[loading->n++];
	read_attempt(loading, values, nulls, &row->running);
	if (!nulls[17])
	{
		row->running.leaving = row->running.over = true;
		row->running.expected_end = row->running.likely_end =
			Max(ClockAdd(ended, SettingNodeLost()), loading->cycle->now);
	}
	row->running.limit_end = Max(row->running.limit_end,
								 row->running.expected_end);
	read_part(loading, values, row);
	return true;
}

/*
 * The node that a row is of, -1 where the pool has none of that name.
 */
static int32
node_of_row(RunningLoading *loading, Datum value)
{
	NodeSet    *set = loading->cycle->set;

	if (loading->node < 0 ||
		!TextIs(value, set->nodes[loading->node].name))
	{
		char	   *name = TextDatumGetCString(value);

		loading->node = NodeIndex(set, name);
		pfree(name);
	}
	return loading->node;
}

/*
 * Read what all rows of an attempt have in common.
 */
static void
read_attempt(RunningLoading *loading, const Datum *values, const bool *nulls,
			 DecideRunning *running)
{
	SchedCycle *cycle = loading->cycle;
	char	   *preemptible = TextDatumGetCString(values[10]);

	loading->account = AccountOfRow(cycle, loading->account, values[0],
									values[1]);
	loading->tier = TierOfRow(cycle, loading->tier, values[9]);
	*running = (DecideRunning)
	{
		.org = cycle->account_names[loading->account].org,
			.id = DatumGetInt64(values[2]),
			.attempt = DatumGetInt32(values[3]),
			.account = loading->account,
			.tier = loading->tier,
			.type = DECIDE_NO_TYPE,
			.request = -1,
			.share = DatumGetInt32(values[6]),
			.min_gpus = DatumGetInt32(values[11]),
			.max_gpus = DatumGetInt32(values[12]),
			.preemptible = (DecidePreemptible)
			ArgWord(preemptible, "preemptible", PreemptibleNames,
					lengthof(PreemptibleNames)),
			.started = DatumGetTimestampTz(values[13]),
			.saved_at = DatumGetTimestampTz(values[14]),
			.limit_end = DatumGetTimestampTz(values[16])
	};
	running->likely_end = RunningExpectEnd(cycle->now, running->started,
										   DatumGetTimestampTz(values[15]),
										   running->limit_end);
	running->expected_end = Max(running->limit_end, cycle->now + CYCLE_SOON);
	pfree(preemptible);
}

/*
 * Read an attempt's part on the row's node.  Devices that the node no longer
 * has do not count.
 */
static void
read_part(RunningLoading *loading, const Datum *values, RunningRow *row)
{
	GpuSet		gpus = DatumGetGpuSet(values[5]);
	int32		index = node_of_row(loading, values[4]);
	DecideNode *node;

	row->here = index >= 0;
	if (!row->here)
		return;
	node = &loading->cycle->set->nodes[index];
	row->part = (DecidePart)
	{
		.node = index,
			.devices = gpus,
			.cpu_milli = DatumGetInt64(values[7]),
			.memory_mib = DatumGetInt64(values[8]),
			.gpu_memory_mib = DecideShareMemory(node->gpu_memory_mib,
												row->running.share,
												DatumGetInt64(values[19]))
	};
	if (node->gpus < DECIDE_MAX_DEVICES)
		row->part.devices &= (UINT64CONST(1) << node->gpus) - 1;
	row->part.gpus = pg_popcount64(row->part.devices);
}

/*
 * Take what a row's attempt has off the row's node.
 */
static void
take_off(DecideNode *node, const RunningRow *row)
{
	const DecidePart *part = &row->part;
	int32		share = row->running.share;

	for (GpuSet gpus = part->devices; gpus != 0; gpus &= gpus - 1)
	{
		int			device = pg_rightmost_one_pos64(gpus);

		node->device_left[device] -= Min(node->device_left[device], share);
		node->gpu_memory_used[device] += part->gpu_memory_mib;
	}
	if (node->cpu_milli > 0)
		node->cpu_left -= part->cpu_milli;
	if (node->memory_mib > 0)
		node->memory_left -= part->memory_mib;
}

/*
 * By job and attempt, whose numbers rarely coincide in two organisations,
 * then by organisation; parts by node.
 */
static int
compare_attempts(const void *a, const void *b)
{
	const RunningRow *x = a;
	const RunningRow *y = b;
	int			order;

	if (x->running.id != y->running.id)
		return x->running.id < y->running.id ? -1 : 1;
	if (x->running.attempt != y->running.attempt)
		return x->running.attempt < y->running.attempt ? -1 : 1;
	order = strcmp(x->running.org, y->running.org);
	if (order != 0)
		return order;
	return x->part.node < y->part.node ? -1 : x->part.node > y->part.node;
}

/*
 * Join sorted rows to attempts.  An attempt whose nodes are all gone has
 * nothing here.
 */
static void
join_parts(SchedCycle *cycle, const RunningRow *rows, int32 n)
{
	DecideRunning *running = MemoryContextAllocHuge(CurrentMemoryContext,
													sizeof(DecideRunning) *
													(n + 1));
	DecidePart *parts = MemoryContextAllocHuge(CurrentMemoryContext,
											   sizeof(DecidePart) * (n + 1));
	DecideRunning *last = NULL;

	for (int32 i = 0; i < n; i++)
	{
		const RunningRow *row = &rows[i];

		if (!row->here)
			continue;
		if (last == NULL || last->id != row->running.id ||
			last->attempt != row->running.attempt ||
			strcmp(last->org, row->running.org) != 0)
		{
			last = &running[cycle->input.n_running++];
			*last = row->running;
			last->first_part = cycle->input.n_running_parts;
		}
		parts[cycle->input.n_running_parts++] = row->part;
		last->n_parts++;
		last->gpus += row->part.gpus;
		if (row->part.gpus > 0)
			last->type = cycle->set->nodes[row->part.node].type;
	}
	cycle->input.running = cycle->running = running;
	cycle->input.running_parts = cycle->running_parts = parts;
}

/*
 * The leaving attempts, and when they should be gone.
 */
static void
load_leaving(SchedCycle *cycle)
{
	SqlResult	rows;

	rows = CycleRead(cycle, &leaving_read, VALUES(TextValue(cycle->pool)));
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *org = SqlText(rows, i, 1);
		int32		r = find_live(cycle, org, SqlInt8(rows, i, 2),
								  SqlInt4(rows, i, 3));

		CHECK_FOR_INTERRUPTS();
		if (r >= 0)
		{
			DecideRunning *running = &cycle->running[r];

			running->leaving = true;
			running->expected_end =
				Min(running->expected_end,
					Max(SqlTime(rows, i, 4), cycle->now + CYCLE_SOON));
			running->likely_end = Min(running->likely_end,
									  running->expected_end);
		}
		pfree(org);
	}
	SqlFree(&rows);
}

/*
 * The claim of each leaving attempt, live or fenced.
 */
static void
load_evictions(SchedCycle *cycle)
{
	SqlResult	rows = CycleRead(cycle, &evictions_read,
								 VALUES(TextValue(cycle->pool)));

	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *org = SqlText(rows, i, 1);
		int32		r = find_attempt(cycle, org, SqlInt8(rows, i, 2),
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

/*
 * The live attempt of these numbers, or -1.
 */
static int32
find_live(const SchedCycle *cycle, const char *org, int64 job, int32 attempt)
{
	int32		r = find_attempt(cycle, org, job, attempt);

	return r >= 0 && !cycle->running[r].over ? r : -1;
}

/*
 * The attempt of these numbers, live or fenced, or -1.
 */
static int32
find_attempt(const SchedCycle *cycle, const char *org, int64 job,
			 int32 attempt)
{
	int32		low = 0;
	int32		high = cycle->input.n_running;

	while (low < high)
	{
		int32		middle = low + (high - low) / 2;
		const DecideRunning *at = &cycle->running[middle];

		if (at->id < job || (at->id == job && at->attempt < attempt) ||
			(at->id == job && at->attempt == attempt &&
			 strcmp(at->org, org) < 0))
			low = middle + 1;
		else
			high = middle;
	}
	if (low < cycle->input.n_running && cycle->running[low].id == job &&
		cycle->running[low].attempt == attempt &&
		strcmp(cycle->running[low].org, org) == 0)
		return low;
	return -1;
}

/*
 * When an attempt is expected to end: always after now.
 */
int64
RunningExpectEnd(int64 now, int64 started, int64 expected, int64 limit)
{
	int64		run = Max(expected - started, 1);

	if (expected == DECIDE_NEVER)
		return DECIDE_NEVER;
	while (expected <= now && expected < limit)
	{
		run = run > (PG_INT64_MAX - started) / 2 ? limit - started : run * 2;
		expected = Min(started + run, limit);
	}
	return Max(expected, now + CYCLE_SOON);
}

/*
 * Claims of earlier cycles, and their ends.
 *
 * A claim ends when its job started or is over, when lowered quotas no longer
 * allow it, and when its time is over.  It also ends when it loses a device:
 * the node is gone, leaving, draining or silent, or the device is not
 * healthy.  Victims not told yet are spared: the directive is removed, unless
 * an agent is receiving it now.  A spared running job that was to move also
 * loses its own claim.
 *
 * Locks: rows of claims, after the pool's lock; directives, without waiting.
 */

/* A claim as read. */
typedef struct ClaimRow
{
	DecideClaim claim;
	int32		attempt;
	const char *account;
	int32		running;		/* index of its running job, or -1 */
	const char *dead;			/* why it ends; NULL: it goes on */
} ClaimRow;

typedef struct ClaimRows
{
	int			n;
	ClaimRow   *rows;			/* by job, then organisation */
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
			  " c.made_at, c.turn, g.gpu_memory_mib FROM gpucredit.claim c JOIN gpucredit.claim_gpu g"
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

static void read_claims(SchedCycle *cycle, ClaimRows *claims);
static void read_claim_part(SchedCycle *cycle, SqlResult rows, uint64 i,
							ClaimRows *claims);
static void find_jobs(SchedCycle *cycle, ClaimRows *claims);
static void find_waiting(const SchedCycle *cycle, ClaimRows *claims);
static void find_disallowed(const SchedCycle *cycle, ClaimRows *claims);
static int	compare_made(const void *a, const void *b);
static void lock_dead(const SchedCycle *cycle, ClaimRows *claims);
static bool end_dead(SchedCycle *cycle, ClaimRows *claims);
static bool spare_victims(SchedCycle *cycle);
static void audit_ended(const SchedCycle *cycle, const ClaimRow *row);
static void keep_alive(SchedCycle *cycle, const ClaimRows *claims);

/*
 * Load the claims that go on, after queue and running jobs are loaded; end
 * the others.
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
		if (!cycle->read_only && end_dead(cycle, &claims))
		{
			cycle->claims_ended = true;
			again = spare_victims(cycle);
		}
	} while (again);
	keep_alive(cycle, &claims);
	if (cycle->input.n_claims > 0)
		load_evictions(cycle);
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
			row->running = -1;
			if (SqlBool(rows, i, 7))
				row->dead = "timeout";
		}
		read_claim_part(cycle, rows, i, claims);
	}
	SqlFree(&rows);
}

/*
 * One row, of the claim read last.
 */
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

/*
 * Find the claims' jobs in the queue, or among running ones.
 */
static void
find_jobs(SchedCycle *cycle, ClaimRows *claims)
{
	for (int32 j = 0; j < cycle->input.n_jobs && claims->n > 0; j++)
	{
		const DecideJob *job = &cycle->jobs[j];
		int			low = 0;
		int			high = claims->n;

		while (low < high)
		{
			int			middle = low + (high - low) / 2;
			const DecideClaim *claim = &claims->rows[middle].claim;

			if (claim->id < job->id ||
				(claim->id == job->id && strcmp(claim->org, job->org) < 0))
				low = middle + 1;
			else
				high = middle;
		}
		if (low < claims->n && claims->rows[low].claim.id == job->id &&
			strcmp(claims->rows[low].claim.org, job->org) == 0 &&
			cycle->queued[j].attempt == claims->rows[low].attempt)
			claims->rows[low].claim.job = j;
	}
	for (int i = 0; i < claims->n; i++)
	{
		ClaimRow   *row = &claims->rows[i];

		if (row->claim.job < 0)
			row->running = find_live(cycle, row->claim.org,
									 row->claim.id, row->attempt);
		row->claim.running = row->running >= 0;
	}
}

/*
 * Claims whose jobs are found nowhere end, unless the jobs wait for a later
 * instant.
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
 * Claims that quotas no longer allow end, the latest first: no devices are
 * kept for a job that may not start.  A running job that is to move is
 * checked when it waits.
 */
static void
find_disallowed(const SchedCycle *cycle, ClaimRows *claims)
{
	ClaimRow  **made;

	if (cycle->n_quotas == 0)
		return;
	made = palloc(sizeof(ClaimRow *) * (claims->n + 1));
	for (int i = 0; i < claims->n; i++)
		made[i] = &claims->rows[i];
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
}

/*
 * By time of making; rows are sorted by job and organisation.
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
 * Lock the dead claims' rows.  A row locked elsewhere is left to that
 * transaction, or to the next cycle: nothing waits.
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
 * Delete the dead claims; false: there are none.  They stay listed, as done.
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
 * Remove directives of ended claims that victims have not been told; false:
 * there are none.
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
		int32		r = find_live(cycle, orgs[i], jobs[i], attempts[i]);

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
 * Audit a claim that ended; log it, too, if its job did not start.
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

/*
 * Keep the other claims as the decision's input.
 */
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
