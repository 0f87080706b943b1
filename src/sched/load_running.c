/*-------------------------------------------------------------------------
 *
 * load_running.c
 *		What runs in a pool, and until when.
 *
 * All of it stands in the rows that say which devices an attempt has: they
 * were written when it started and no heartbeat touches them, so that one
 * index scan tells what runs, however many organisations share the pool.
 * Only who has been told to leave is read apart.
 *
 * An attempt that runs longer than it was expected to is expected to run
 * twice as long, and so on, at most as long as its limit lets it.  One that
 * outlives even that, and one told to leave whose deadline has passed, is
 * expected to be gone within SOON.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/args.h"
#include "common/clock.h"
#include "common/settings.h"
#include "common/sql.h"
#include "job/job.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "sched/sched.h"
#include "utils/builtins.h"

#define SOON	USECS_PER_SEC

/* A row's place among those of its attempt. */
typedef struct PartKey
{
	int64		job;
	int32		attempt;
	Datum		org;
	uint64		row;
} PartKey;

SQL_STATEMENT(running_read, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT g.org, g.job, g.attempt, g.node, g.gpus, g.share,"
			  " g.cpu_milli, g.memory_mib, g.account, g.tier,"
			  " g.preemptible, g.min_gpus, g.max_gpus, g.started_at,"
			  " g.saved_at, g.expected_end, g.limit_end,"
			  " GREATEST(g.ended_at, g.seen_at)"
			  " FROM gpucredit.attempt_gpu g"
			  " WHERE g.pool = $1 AND NOT g.free"
			  " AND (g.ended_at IS NULL"
			  "  OR GREATEST(g.ended_at, g.seen_at) > $2)");

/* a directive without a deadline only says: save now */
SQL_STATEMENT(leaving_read, SPI_OK_SELECT, "text",
			  "SELECT d.org, d.job, d.attempt,"
			  " pg_catalog.min(CASE WHEN d.action = 'stop' THEN d.given_at"
			  "  ELSE d.deadline END)"
			  " FROM gpucredit.directive d JOIN gpucredit.attempt a"
			  " ON a.org = d.org AND a.job = d.job AND a.attempt = d.attempt"
			  " WHERE a.pool = $1 AND a.ended_at IS NULL"
			  " AND (d.action = 'stop' OR d.deadline IS NOT NULL)"
			  " GROUP BY d.org, d.job, d.attempt");

static int	compare_keys(const void *a, const void *b);
static int	compare_text(Datum a, Datum b);
static void load_attempt(Cycle *cycle, SqlResult rows, uint64 i,
						 DecideRunning *running);
static void load_part(Cycle *cycle, SqlResult rows, uint64 i,
					  DecideRunning *running);
static void load_leaving(Cycle *cycle, DecideRunning *running, int32 n);
static int64 expect_end(int64 now, int64 started, int64 expected,
						int64 limit);

/*
 * Load what has devices of the pool: live attempts, and those that are over
 * but not fenced yet.
 */
void
RunningLoad(Cycle *cycle)
{
	SqlArgs		args = {0};
	SqlResult	rows;
	PartKey    *keys;
	DecideRunning *running;
	int32		n = 0;

	SqlArgText(&args, cycle->pool);
	SqlArgTime(&args, ClockAdd(cycle->now, -SettingNodeLost()));
	rows = CycleRead(cycle, &running_read, &args);
	keys = MemoryContextAllocHuge(CurrentMemoryContext,
								  sizeof(PartKey) * (rows.n + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		bool		isnull;

		keys[i] = (PartKey)
		{
			SqlInt8(rows, i, 2), SqlInt4(rows, i, 3),
				SqlDatum(rows, i, 1, &isnull), i
		};
	}
	qsort(keys, rows.n, sizeof(PartKey), compare_keys);

	running = MemoryContextAllocHuge(CurrentMemoryContext,
									 sizeof(DecideRunning) * (rows.n + 1));
	cycle->running_parts = MemoryContextAllocHuge(CurrentMemoryContext,
												  sizeof(DecidePart) *
												  (rows.n + 1));
	cycle->input.n_running_parts = 0;
	for (uint64 i = 0; i < rows.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (n == 0 || keys[i].job != keys[i - 1].job ||
			keys[i].attempt != keys[i - 1].attempt ||
			compare_text(keys[i].org, keys[i - 1].org) != 0)
		{
			/* one whose nodes are all gone has nothing here */
			if (n == 0 || running[n - 1].n_parts > 0)
				n++;
			load_attempt(cycle, rows, keys[i].row, &running[n - 1]);
		}
		load_part(cycle, rows, keys[i].row, &running[n - 1]);
	}
	if (n > 0 && running[n - 1].n_parts == 0)
		n--;
	load_leaving(cycle, running, n);
	pfree(keys);
	SqlFree(&rows);
	cycle->input.running = cycle->running = running;
	cycle->input.n_running = n;
	cycle->input.running_parts = cycle->running_parts;
}

/*
 * By job and attempt, whose numbers almost never meet over organisations,
 * and then by those.
 */
static int
compare_keys(const void *a, const void *b)
{
	const PartKey *x = a;
	const PartKey *y = b;

	if (x->job != y->job)
		return x->job < y->job ? -1 : 1;
	if (x->attempt != y->attempt)
		return x->attempt < y->attempt ? -1 : 1;
	return compare_text(x->org, y->org);
}

/*
 * Compare two texts as bytes.
 */
static int
compare_text(Datum a, Datum b)
{
	text	   *x = DatumGetTextPP(a);
	text	   *y = DatumGetTextPP(b);
	Size		nx = VARSIZE_ANY_EXHDR(x);
	Size		ny = VARSIZE_ANY_EXHDR(y);
	int			order = memcmp(VARDATA_ANY(x), VARDATA_ANY(y), Min(nx, ny));

	if (order != 0 || nx == ny)
		return order;
	return nx < ny ? -1 : 1;
}

/*
 * What all rows of an attempt say alike.
 */
static void
load_attempt(Cycle *cycle, SqlResult rows, uint64 i, DecideRunning *running)
{
	char	   *account = SqlText(rows, i, 9);
	char	   *tier = SqlText(rows, i, 10);
	char	   *preemptible = SqlText(rows, i, 11);
	TimestampTz ended = SqlTimeOr(rows, i, 18, DT_NOBEGIN);

	memset(running, 0, sizeof(*running));
	running->org = SqlText(rows, i, 1);
	running->id = SqlInt8(rows, i, 2);
	running->attempt = SqlInt4(rows, i, 3);
	running->account = AccountIndex(cycle, running->org, account);
	running->tier = TierIndex(cycle, tier);
	running->type = DECIDE_NO_TYPE;
	running->ask = -1;
	running->share = SqlInt4(rows, i, 6);
	running->min_gpus = SqlInt4(rows, i, 12);
	running->max_gpus = SqlInt4(rows, i, 13);
	running->first_part = cycle->input.n_running_parts;
	running->preemptible = (DecidePreemptible)
		ArgWord(preemptible, "preemptible", PreemptibleNames,
				lengthof(PreemptibleNames));
	running->started = SqlTime(rows, i, 14);
	running->saved_at = SqlTime(rows, i, 15);
	running->limit_end = SqlTime(rows, i, 17);
	if (ended == DT_NOBEGIN)
		running->expected_end = expect_end(cycle->now, running->started,
										   SqlTime(rows, i, 16),
										   running->limit_end);
	else
	{
		running->leaving = running->over = true;
		running->expected_end = ClockAdd(ended, SettingNodeLost());
	}
	running->limit_end = Max(running->limit_end, running->expected_end);
	pfree(account);
	pfree(tier);
	pfree(preemptible);
}

/*
 * One row.  Devices that a node no longer has are not in the way of anything.
 */
static void
load_part(Cycle *cycle, SqlResult rows, uint64 i, DecideRunning *running)
{
	char	   *name = SqlText(rows, i, 4);
	int32		index = NodeIndex(cycle->set, name);
	const DecideNode *node;
	DecidePart *part;
	bool		isnull;

	pfree(name);
	if (index < 0)
		return;
	node = &cycle->set->nodes[index];
	part = &cycle->running_parts[cycle->input.n_running_parts++];
	part->node = index;
	part->devices = DatumGetGpuSet(SqlDatum(rows, i, 5, &isnull));
	if (node->gpus < DECIDE_MAX_DEVICES)
		part->devices &= (UINT64CONST(1) << node->gpus) - 1;
	part->gpus = pg_popcount64(part->devices);
	part->cpu_milli = SqlInt8(rows, i, 7);
	part->memory_mib = SqlInt8(rows, i, 8);
	running->n_parts++;
	running->gpus += part->gpus;
	if (part->gpus > 0)
		running->type = node->type;
}

/*
 * Who has been told to leave, and is expected to be gone by then.
 */
static void
load_leaving(Cycle *cycle, DecideRunning *running, int32 n)
{
	SqlArgs		args = {0};
	SqlResult	rows;

	SqlArgText(&args, cycle->pool);
	rows = CycleRead(cycle, &leaving_read, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		int64		job = SqlInt8(rows, i, 2);
		int32		attempt = SqlInt4(rows, i, 3);
		char	   *org = SqlText(rows, i, 1);
		int32		low = 0;
		int32		high = n;

		CHECK_FOR_INTERRUPTS();
		while (low < high)
		{
			int32		middle = low + (high - low) / 2;
			const DecideRunning *at = &running[middle];

			if (at->id < job || (at->id == job && at->attempt < attempt) ||
				(at->id == job && at->attempt == attempt &&
				 strcmp(at->org, org) < 0))
				low = middle + 1;
			else
				high = middle;
		}
		if (low < n && running[low].id == job &&
			running[low].attempt == attempt &&
			strcmp(running[low].org, org) == 0)
		{
			running[low].leaving = true;
			running[low].expected_end =
				Min(running[low].expected_end,
					Max(SqlTime(rows, i, 4), cycle->now + SOON));
		}
		pfree(org);
	}
	SqlFree(&rows);
}

/*
 * When an attempt is expected to end: always after now.
 */
static int64
expect_end(int64 now, int64 started, int64 expected, int64 limit)
{
	int64		run = Max(expected - started, 1);

	if (expected == DECIDE_NEVER)
		return DECIDE_NEVER;
	while (expected <= now && expected < limit)
	{
		run = run > (PG_INT64_MAX - started) / 2 ? limit - started : run * 2;
		expected = Min(started + run, limit);
	}
	return Max(expected, now + SOON);
}
