/*-------------------------------------------------------------------------
 *
 * worker.c
 *		Runs the scheduling cycles of one database.
 *
 * A pool's cycle runs when a commit may have changed its decisions
 * (shmem/wake.c), and at least every gpucredit.scheduler_interval.  A change
 * during a cycle is left to the next one.  That begins no sooner than the
 * longest of the last cycles took, so that no pool is locked for more than
 * half of the time.  A cycle is one transaction that calls gpucredit.place(),
 * nothing else.  So another caller does no harm: the second one gets "busy".
 *
 * Every 5 s the worker runs check_nodes(), reap_holds() and
 * end_tenant_transactions(), a transaction each, so that lost jobs are queued
 * again soon.  After a sweep that ended something it runs another, after a
 * pause as long as the sweep: each has half a second, and a large pool needs
 * longer.
 *
 * ClockSteady() says what is due: if the server's clock were set back by an
 * hour, there would be no cycle for so long.
 *
 * The worker logs a failed cycle, and its own start and end; that pool's next
 * cycle waits (failing.c).
 *
 * It acts as the owner of the extension (owner.c).  Without the extension it
 * looks again at each interval.
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

#define BUSY_MS				20	/* a cycle answered "busy" */
#define SWEEP_MS			5000

typedef struct Driver
{
	MemoryContext context;		/* reset each round */
	TimestampTz next_full;		/* when all pools are due */
	TimestampTz next_sweep;
	TimestampTz not_before;		/* no cycle before that */
	bool		behind;			/* some had no cycle in the last round */
	List	   *failing;
} Driver;

typedef enum CycleEnd
{
	CYCLE_DONE,
	CYCLE_MORE,					/* it started as many as allowed, or there may
								 * be more to sweep */
	CYCLE_BUSY,
	CYCLE_RETRY,				/* 40001, 40P01, a few times in a row */
	CYCLE_FAILED
} CycleEnd;

SQL_STATEMENT(pools_read, SPI_OK_SELECT, "",
			  "SELECT p.pool FROM gpucredit.pool p ORDER BY p.pool");
SQL_STATEMENT(cycle_run, SPI_OK_SELECT, "text",
			  "SELECT pg_catalog.count(DISTINCT (r.org, r.job))"
			  "  FILTER (WHERE r.action = 'start'),"
			  " COALESCE(pg_catalog.bool_or(r.action = 'busy'), false),"
			  " COALESCE(pg_catalog.count(DISTINCT (r.org, r.job))"
			  "  FILTER (WHERE r.action = 'start') >="
			  "  pg_catalog.current_setting('gpucredit.max_starts')::int,"
			  "  false)"
			  " FROM gpucredit.place($1) r");

/*
 * Sweeps, by names that no pool has; they start nothing, and may have ended
 * much.
 */
#define SWEEP(name) \
	"SELECT 0::bigint, false, $1 <> '' AND COALESCE(pg_catalog.bool_or(" \
	"  s.affected > 0 AND s.task <> 'skipped'), false)" \
	" FROM gpucredit." name "() s"
SQL_STATEMENT(nodes_sweep, SPI_OK_SELECT, "text", SWEEP("check_nodes"));
SQL_STATEMENT(holds_sweep, SPI_OK_SELECT, "text", SWEEP("reap_holds"));
SQL_STATEMENT(tenants_sweep, SPI_OK_SELECT, "text",
			  SWEEP("end_tenant_transactions"));
static const struct
{
	const char *name;
	SqlStatement *statement;
}			sweeps[] = {
	{"\001check_nodes", &nodes_sweep}, {"\001reap_holds", &holds_sweep},
	{"\001end_tenant_transactions", &tenants_sweep}
};

static void settle_in(Oid database);
static void check_regularly(Driver *state);
static long wait_ms(const Driver *state);
static void round_of_cycles(Driver *state, PoolSet pools);
static void again_soon(Driver *state, PoolSet pools);
static void note_end(Driver *state, const char *pool, CycleEnd end);
static CycleEnd load_pools(const Driver *state, List **pools);
static void run_sweeps(Driver *state);
static CycleEnd run_cycle(const Driver *state, SqlStatement *statement,
						  const char *pool);
static CycleEnd failed(const Driver *state, const char *pool,
					   MemoryContext context);

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
		if (now >= state.next_sweep)
			run_sweeps(&state);
		woken |= WakeCollect(); /* by our sweeps, too */
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

/*
 * Connect, and reset settings that a session default might spoil.
 */
static void
settle_in(Oid database)
{
	static const char *const settings[][2] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"statement_timeout", "0"},
		{"lock_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"application_name", "gpucredit scheduler"}
	};

	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	for (int i = 0; i < (int) lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET,
						PGC_S_OVERRIDE);
	StartTransactionCommand();
	if (!WakeListen())
		proc_exit(0);
	WorkersLogLife();
	CommitTransactionCommand();
	pgstat_report_activity(STATE_IDLE, NULL);
}

/*
 * The regular checks: signals, settings, room for others.
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

/*
 * How long to wait without a wake-up.
 */
static long
wait_ms(const Driver *state)
{
	TimestampTz now = ClockSteady();
	TimestampTz next = state->not_before > now ? state->not_before :
		state->next_full;

	next = Min(next, state->next_sweep);
	return Max(1, Min(TimestampDifferenceMilliseconds(now, next),
					  WORKER_LOOK_MS));
}

/*
 * Run a cycle of each pool that was woken.
 */
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
			end = run_cycle(state, &cycle_run, pool);
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
 * Run the sweeps that are due.
 */
static void
run_sweeps(Driver *state)
{
	TimestampTz begun = ClockSteady();
	MemoryContext old = MemoryContextSwitchTo(state->context);
	TimestampTz now;
	bool		more = false;

	for (int i = 0; i < (int) lengthof(sweeps); i++)
	{
		CycleEnd	end;

		if (!FailingMayTry(state->failing, sweeps[i].name, begun))
			continue;
		end = run_cycle(state, sweeps[i].statement, sweeps[i].name);
		more |= end == CYCLE_MORE;
		note_end(state, sweeps[i].name, end);
	}
	now = ClockSteady();
	state->next_sweep = more ?
		TimestampTzPlusMilliseconds(now, Max(BUSY_MS,
											 TimestampDifferenceMilliseconds(begun, now))) :
		TimestampTzPlusMilliseconds(begun, SWEEP_MS);
	MemoryContextSwitchTo(old);
	MemoryContextReset(state->context);
	pgstat_report_stat(false);
	pgstat_report_activity(STATE_IDLE, NULL);
}

/*
 * Other transactions are in the way: try these pools again in a moment.
 */
static void
again_soon(Driver *state, PoolSet pools)
{
	state->not_before = TimestampTzPlusMilliseconds(ClockSteady(),
													BUSY_MS);
	WakeKeep(pools);
}

/*
 * Plan the next cycle from the end of this one.
 */
static void
note_end(Driver *state, const char *pool, CycleEnd end)
{
	switch (end)
	{
		case CYCLE_RETRY:
			state->failing = FailingRetried(state->failing, pool);
			if (*pool != SWEEP_MARK)
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
			if (*pool != SWEEP_MARK)
				WakeKeep(WakePoolSet(pool));
			break;
		case CYCLE_DONE:
			break;
	}
	state->failing = FailingOver(state->failing, pool);
}

/*
 * The names of the pools, in the current context.  None without the extension.
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
		end = failed(state, "", context);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return end;
}

/*
 * Run one cycle of a pool, or one sweep, in its own transaction.
 */
static CycleEnd
run_cycle(const Driver *state, SqlStatement *statement, const char *pool)
{
	MemoryContext context = CurrentMemoryContext;
	volatile CycleEnd end = CYCLE_DONE;

	pgstat_report_activity(STATE_RUNNING, statement == &cycle_run ?
						   psprintf("SELECT gpucredit.place(%s)", pool) :
						   psprintf("SELECT gpucredit.%s()", pool + 1));
	PG_TRY();
	{
		uint64		started = 0;

		if (OwnerBegin())
		{
			SqlResult	row = SqlRun(statement, VALUES(TextValue(pool)));

			started = SqlInt8(row, 0, 1);
			if (SqlBool(row, 0, 2))
				end = CYCLE_BUSY;
			else if (SqlBool(row, 0, 3))
				end = CYCLE_MORE;
			SqlFinish();
		}
		OwnerFinish();
		if (end != CYCLE_BUSY && statement == &cycle_run)
			WakeCount(true, started, state->behind);
	}
	PG_CATCH();
	{
		end = failed(state, pool, context);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return end;
}

/*
 * After an error: abort, and log it unless it is a rare concurrency error.
 */
static CycleEnd
failed(const Driver *state, const char *pool, MemoryContext context)
{
	int			code = geterrcode();
	bool		retry = (code == ERRCODE_T_R_SERIALIZATION_FAILURE ||
						 code == ERRCODE_T_R_DEADLOCK_DETECTED) &&
		FailingMayRetry(state->failing, pool);

	MemoryContextSwitchTo(context);
	HOLD_INTERRUPTS();
	if (!retry)
		EmitErrorReport();
	AbortOutOfAnyTransaction();
	FlushErrorState();
	RESUME_INTERRUPTS();
	return retry ? CYCLE_RETRY : CYCLE_FAILED;
}
