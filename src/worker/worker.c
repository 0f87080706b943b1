/*-------------------------------------------------------------------------
 *
 * worker.c
 *		Runs the scheduling cycles of one database.
 *
 * A pool's cycle runs when a commit may have changed its decisions
 * (shmem/wake.c), and at least every gpucredit.scheduler_interval.  A change
 * during a cycle is left to the next one.  The next cycles begin after a pause
 * as long as the longest of the last cycles, so that no pool is locked for
 * more than half of the time.  A cycle is one transaction that calls
 * gpucredit.place() and nothing else, so it does no harm if somebody else
 * calls place() too: the second call returns "busy".
 *
 * Upkeep runs in a worker of its own (upkeep_worker.c), so that a sweep with
 * much to do delays no cycle.
 *
 * ClockSteady() decides what is due: if the server's clock were set back by an
 * hour and decided, there would be no cycle for an hour.
 *
 * The worker logs failed cycles, and its own start and end; after a failure,
 * the pool's next cycle waits (failing.c).
 *
 * It acts as the owner of the extension (owner.c).  If the extension does not
 * exist, the worker checks for it at each interval.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/sql.h"
#include "worker/workers.h"
#include "worker/failing.h"
#include "worker/owner.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "shmem/wake.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define BUSY_MS				20	/* pause after a cycle that returned "busy" */

typedef struct Driver
{
	MemoryContext context;		/* reset each round */
	TimestampTz next_full;		/* when all pools are due */
	TimestampTz not_before;		/* when the next round may begin */
	bool		behind;			/* whether some pools had no cycle in the last
								 * round */
	List	   *failing;
} Driver;

typedef enum CycleEnd
{
	CYCLE_DONE,
	CYCLE_MORE,					/* started or evicted as many as a cycle may */
	CYCLE_BUSY,
	CYCLE_RETRY,				/* 40001 or 40P01, and few of them in a row */
	CYCLE_FAILED
} CycleEnd;

SQL_STATEMENT(pools_read, SPI_OK_SELECT, "",
			  "SELECT p.pool FROM gpucredit.pool p ORDER BY p.pool");
SQL_STATEMENT(cycle_run, SPI_OK_SELECT, "text",
			  "SELECT pg_catalog.count(DISTINCT (r.org, r.job))"
			  "  FILTER (WHERE r.action = 'start'),"
			  " COALESCE(pg_catalog.bool_or(r.action = 'busy'), false),"
			  " COALESCE(GREATEST(pg_catalog.count(DISTINCT (r.org, r.job))"
			  "   FILTER (WHERE r.action = 'start'),"
			  "  pg_catalog.count(DISTINCT (r.org, r.job))"
			  "   FILTER (WHERE r.action IN ('preempt', 'move', 'resize'))) >="
			  "  pg_catalog.current_setting('gpucredit.max_starts')::int,"
			  "  false)"
			  " FROM gpucredit.place($1) r");

static void settle_in(Oid database);
static void check_regularly(Driver *state);
static long wait_ms(const Driver *state);
static void round_of_cycles(Driver *state, PoolSet pools);
static void again_soon(Driver *state, PoolSet pools);
static void note_end(Driver *state, const char *pool, CycleEnd end);
static CycleEnd load_pools(const Driver *state, List **pools);
static CycleEnd run_cycle(const Driver *state, const char *pool);

void
WorkerMain(Datum arg)
{
	Driver		state = {0};
	PoolSet		woken = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	settle_in(DatumGetObjectId(arg));
	state.context = AllocSetContextCreate(TopMemoryContext,
										  "gpucredit scheduler",
										  ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		TimestampTz now;

		check_regularly(&state);
		now = ClockSteady();
		woken |= WakeCollect();
		woken |= FailingDue(state.failing, now);
		if (now >= state.next_full)
			woken = ALL_POOLS;
		if (woken != 0 && now >= state.not_before)
		{
			round_of_cycles(&state, woken);
			woken = 0;
			continue;
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT |
						 WL_EXIT_ON_PM_DEATH, wait_ms(&state),
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}

/* Connects to the database, and registers as the worker that commits wake. */
static void
settle_in(Oid database)
{
	WorkersConnect(database, "gpucredit scheduler");
	StartTransactionCommand();
	if (!WakeListen())
		proc_exit(0);
	WorkersLogLife();
	CommitTransactionCommand();
	pgstat_report_activity(STATE_IDLE, NULL);
}

/*
 * Does the regular checks: signals, changed settings, and whether another
 * session wants the database for itself.
 */
static void
check_regularly(Driver *state)
{
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		state->next_full = 0;
	}
	OwnerMakeRoom();
}

/* Returns how many milliseconds to wait if nothing wakes the worker. */
static long
wait_ms(const Driver *state)
{
	TimestampTz now = ClockSteady();
	TimestampTz next = state->not_before > now ? state->not_before :
		state->next_full;

	return Max(1, Min(TimestampDifferenceMilliseconds(now, next),
					  WORKER_LOOK_MS));
}

/* Runs a cycle of each pool that was woken. */
static void
round_of_cycles(Driver *state, PoolSet woken)
{
	TimestampTz begun = ClockSteady();
	MemoryContext old = MemoryContextSwitchTo(state->context);
	List	   *pools = NIL;
	ListCell   *cell;
	bool		behind = false;
	int64		longest = 0;

	if (woken == ALL_POOLS)
		state->next_full = TimestampTzPlusMilliseconds(begun,
													   WorkersIntervalMs());
	if (FailingMayTry(state->failing, "", begun))
		note_end(state, "", load_pools(state, &pools));
	foreach(cell, pools)
	{
		const char *pool = lfirst(cell);
		TimestampTz start = ClockSteady();
		CycleEnd	end = CYCLE_FAILED;

		if ((woken & WakePoolSet(pool)) != 0 &&
			FailingMayTry(state->failing, pool, begun))
		{
			end = run_cycle(state, pool);
			note_end(state, pool, end);
		}
		behind |= end != CYCLE_DONE && end != CYCLE_MORE;
		longest = Max(longest, ClockSteady() - start);
	}
	if (woken == ALL_POOLS)
		state->behind = behind;
	MemoryContextSwitchTo(old);
	MemoryContextReset(state->context);
	pgstat_report_stat(false);
	pgstat_report_activity(STATE_IDLE, NULL);
	state->not_before = Max(state->not_before, ClockSteady() + longest);
}

/*
 * Called if other transactions are in the way: tries these pools again after
 * BUSY_MS.
 */
static void
again_soon(Driver *state, PoolSet pools)
{
	state->not_before = TimestampTzPlusMilliseconds(ClockSteady(),
													BUSY_MS);
	WakeKeep(pools);
}

/* Decides when the pool's next cycle is due, from how this one ended. */
static void
note_end(Driver *state, const char *pool, CycleEnd end)
{
	switch (end)
	{
		case CYCLE_RETRY:
			state->failing = FailingRetried(state->failing, pool);
			again_soon(state, *pool == '\0' ? ALL_POOLS :
					   WakePoolSet(pool));
			return;
		case CYCLE_FAILED:
			state->failing = FailingFailed(state->failing, pool);
			WakeCount(false, 0, true);
			return;
		case CYCLE_BUSY:
			again_soon(state, WakePoolSet(pool));
			break;
		case CYCLE_MORE:
			WakeKeep(WakePoolSet(pool));
			break;
		case CYCLE_DONE:
			break;
	}
	state->failing = FailingOver(state->failing, pool);
}

/*
 * Reads the names of the pools into the current context.  There are none if
 * the extension does not exist.
 */
static CycleEnd
load_pools(const Driver *state, List **pools)
{
	MemoryContext context = CurrentMemoryContext;
	volatile CycleEnd end = CYCLE_DONE;

	PG_TRY();
	{
		if (OwnerBegin())
		{
			SqlResult	rows = SqlRun(&pools_read, NULL);

			for (uint64 i = 0; i < rows.n; i++)
			{
				MemoryContext spi = MemoryContextSwitchTo(context);

				*pools = lappend(*pools, SqlText(rows, i, 1));
				MemoryContextSwitchTo(spi);
			}
			SqlFinish();
		}
		OwnerFinish();
	}
	PG_CATCH();
	{
		*pools = NIL;
		MemoryContextSwitchTo(context);
		end = WorkersAbort(state->failing, "") ? CYCLE_RETRY : CYCLE_FAILED;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return end;
}

/* Runs one cycle of a pool, in a transaction of its own. */
static CycleEnd
run_cycle(const Driver *state, const char *pool)
{
	MemoryContext context = CurrentMemoryContext;
	volatile CycleEnd end = CYCLE_DONE;

	pgstat_report_activity(STATE_RUNNING,
						   psprintf("SELECT gpucredit.place(%s)", pool));
	PG_TRY();
	{
		uint64		started = 0;

		if (OwnerBegin())
		{
			SqlResult	row = SqlRun(&cycle_run, VALUES(TextValue(pool)));

			started = SqlInt8(row, 0, 1);
			if (SqlBool(row, 0, 2))
				end = CYCLE_BUSY;
			else if (SqlBool(row, 0, 3))
				end = CYCLE_MORE;
			SqlFinish();
		}
		OwnerFinish();
		if (end != CYCLE_BUSY)
			WakeCount(true, started, state->behind);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		end = WorkersAbort(state->failing, pool) ? CYCLE_RETRY : CYCLE_FAILED;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return end;
}
