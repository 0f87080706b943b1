/*-------------------------------------------------------------------------
 *
 * load_running.c
 *		Loads what runs in a pool, and until when.
 *
 * The rows of attempts' devices contain everything that is needed. They are
 * written at a start and not changed by heartbeats, so one index scan finds
 * what runs, for any number of organisations. Only the attempts that were
 * ordered to leave are read separately.
 *
 * A cycle plans as if attempts ran up to their limits. In addition it knows
 * the expected end, which was estimated when the attempt started. An attempt
 * that outruns its estimate is expected to run twice as long, and so on, up to
 * its limit. An attempt that outruns even its limit, and a leaving attempt
 * past its deadline, is expected to be gone within CYCLE_SOON.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/clock.h"
#include "types/duration.h"
#include "util/settings.h"
#include "util/sql.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "sched/sched.h"
#include "utils/builtins.h"

/*
 * One row: the columns that describe the whole attempt, which each of its rows
 * repeats, and the attempt's part on one node.
 */
typedef struct RunningRow
{
	DecideRunning running;
	DecidePart	part;
	bool		here;			/* whether the node belongs to the pool */
} RunningRow;

/* State while rows are read. */
typedef struct RunningLoading
{
	SchedCycle *cycle;
	RunningRow *rows;
	int32		n;
	int32		size;
	TimestampTz fenced_since;	/* attempts that ended before this time are no
								 * longer fenced */
	uint64		run_out;		/* number of fences that have run out on nodes
								 * that accept new work */
	int32		node;			/* index of the node of the previous row */
	int32		account;
	int32		tier;
} RunningLoading;

SQL_STATEMENT(running_read, SPI_OK_SELECT, "text",
			  "SELECT g.org, g.account, g.job, g.attempt, g.node, g.gpus,"
			  " g.share, g.cpu_milli, g.memory_mib, g.tier, g.preemptible,"
			  " g.min_gpus, g.max_gpus, g.started_at, g.saved_at,"
			  " g.expected_end, g.limit_end, g.ended_at, g.seen_at,"
			  " g.gpu_memory_mib, g.aged, g.evictions, g.redone"
			  " FROM gpucredit.attempt_gpu g"
			  " WHERE g.pool = $1 AND NOT g.free");

/*
 * A directive without a deadline only asks for a checkpoint, so its attempt
 * does not leave.
 */
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
static void subtract_use(DecideNode *node, const RunningRow *row);
static int	compare_attempts(const void *a, const void *b);
static void join_parts(SchedCycle *cycle, const RunningRow *rows, int32 n);
static void load_leaving(SchedCycle *cycle);

/*
 * Loads the attempts, live or fenced, that have devices of the pool, and
 * subtracts these devices from the nodes. Fences that have run out are removed
 * on nodes that accept new work. If FencesEnd() removes fewer than expected, a
 * heartbeat may have one locked to report that its attempt still runs; all
 * rows are then read again with all fences counted.
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
			subtract_use(&cycle->set->nodes[loading.rows[i].part.node],
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
 * Adds the attempt and the part of one row. Called by SqlEach() for each row.
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
 * Returns the index of the node in a row, or -1 if the pool has no node of
 * that name.
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

/* Reads the columns that all rows of an attempt have in common. */
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
			.limit_end = DatumGetTimestampTz(values[16]),
			.aged = DatumGetBool(values[20]),
			.evictions = DatumGetInt32(values[21]),
			.redone = DurationFromInterval(DatumGetIntervalP(values[22]), NULL)
	};
	running->stays = running->preemptible != DECIDE_PREEMPT_CAPACITY;
	running->likely_end = RunningExpectEnd(cycle->now, running->started,
										   DatumGetTimestampTz(values[15]),
										   running->limit_end);
	running->expected_end = Max(running->limit_end, cycle->now + CYCLE_SOON);
	pfree(preemptible);
}

/*
 * Reads an attempt's part on the row's node. Devices that the node no longer
 * has are not counted.
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
 * Subtracts the devices, memory and cpu of a row's attempt from what is free
 * on the row's node.
 */
static void
subtract_use(DecideNode *node, const RunningRow *row)
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

/*----------
 * The order of running attempts and, within an attempt, of its parts:
 *
 * 1. number of the job: it decides nearly always;
 * 2. number of the attempt;
 * 3. organisation;
 * 4. node of the part.
 *----------
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
 * Joins the sorted rows into attempts. An attempt none of whose nodes is left
 * in the pool is dropped.
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

/* Reads which attempts were ordered to leave, and when they should be gone. */
static void
load_leaving(SchedCycle *cycle)
{
	SqlResult	rows;

	rows = CycleRead(cycle, &leaving_read, VALUES(TextValue(cycle->pool)));
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *org = SqlText(rows, i, 1);
		int32		r = RunningFind(cycle, org, SqlInt8(rows, i, 2),
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

/* Returns the index of a live attempt, or -1 if there is none. */
int32
RunningFind(const SchedCycle *cycle, const char *org, int64 job, int32 attempt)
{
	int32		r = RunningFindAny(cycle, org, job, attempt);

	return r >= 0 && !cycle->running[r].over ? r : -1;
}

/* Returns the index of an attempt, live or fenced, or -1 if there is none. */
int32
RunningFindAny(const SchedCycle *cycle, const char *org, int64 job,
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
 * Returns when an attempt is expected to end, which is always later than now.
 * Each time it outruns the estimate, its expected run time doubles, up to its
 * limit.
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
