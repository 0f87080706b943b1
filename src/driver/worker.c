/*-------------------------------------------------------------------------
 *
 * worker.c
 *		Runs the scheduling cycles of one database.
 *
 * A pool's cycle runs when something committed that may have changed what it
 * decides (shmem/wake.c), and at least every gpucredit.scheduler_interval.
 * What comes while a cycle runs is seen to by the next one, which begins no
 * sooner than the longest of the last ones took, so that no pool is locked for
 * more than half of the time.  A cycle is one transaction calling
 * gpucredit.place(), nothing else, so whoever else calls it does no harm: the
 * second is told "busy".
 *
 * Every 5 s it runs check_nodes() and reap_holds() as well, a transaction each,
 * so that what was lost is queued again long before anybody's minute is over.
 * A sweep that ended anything is followed by another, after a pause as long as
 * it took: each has half a second, and a part of a large pool takes longer.
 *
 * What is due when is measured by a clock that nobody sets: were the server's
 * set back by an hour, there would be no cycle for so long.
 *
 * A cycle that fails is logged, as are the worker's own start and end, and that
 * pool's next one waits (failing.c).
 *
 * It acts as the owner of the extension (owner.c).  Where there is no extension
 * it looks again at each interval.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/sql.h"
#include "driver/driver.h"
#include "driver/failing.h"
#include "driver/owner.h"
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

#define BUSY_MS				20	/* others are in the way of a cycle */
#define SWEEP_MS			5000

typedef struct Driver
{
	MemoryContext context;		/* reset each round */
	TimestampTz next_full;		/* when all pools are due */
	TimestampTz next_sweep;
	TimestampTz not_before;		/* no cycle before that */
	bool		behind;			/* in the last round of all pools, some had no
								 * cycle */
	List	   *failing;
} Driver;

typedef enum CycleEnd
{
	CYCLE_DONE,
	CYCLE_MORE,					/* it started as many as one may, or there may
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

/* Sweeps, by names no pool has; they start nothing, and may have ended much. */
#define SWEEP(name) \
	"SELECT 0::bigint, false, $1 <> '' AND COALESCE(pg_catalog.bool_or(" \
	"  s.affected > 0 AND s.task <> 'skipped'), false)" \
	" FROM gpucredit." name "() s"
SQL_STATEMENT(nodes_sweep, SPI_OK_SELECT, "text", SWEEP("check_nodes"));
SQL_STATEMENT(holds_sweep, SPI_OK_SELECT, "text", SWEEP("reap_holds"));
static const struct
{
	const char *name;
	SqlStatement *statement;
}			sweeps[] = {
	{"\001check_nodes", &nodes_sweep}, {"\001reap_holds", &holds_sweep}
};

static void settle_in(Oid database);
static void look_around(Driver *driver);
static long wait_ms(const Driver *driver);
static void round_of_cycles(Driver *driver, PoolSet pools);
static void again_soon(Driver *driver, PoolSet pools);
static void note_end(Driver *driver, const char *pool, CycleEnd end);
static CycleEnd load_pools(const Driver *driver, List **pools);
static void run_sweeps(Driver *driver);
static CycleEnd run_cycle(const Driver *driver, SqlStatement *statement,
						  const char *pool);
static CycleEnd failed(const Driver *driver, const char *pool,
					   MemoryContext context);

void
DriverWorkerMain(Datum arg)
{
	Driver		driver = {0};
	PoolSet		told = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	settle_in(DatumGetObjectId(arg));
	driver.context = AllocSetContextCreate(TopMemoryContext,
										   "gpucredit scheduler",
										   ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		TimestampTz now;

		look_around(&driver);
		now = ClockSteady();
		if (now >= driver.next_sweep)
			run_sweeps(&driver);
		told |= WakeTake();		/* by sweeps of ours, too */
		told |= FailingDue(driver.failing, now);
		if (now >= driver.next_full)
			told = ALL_POOLS;
		if (told != 0 && now >= driver.not_before)
		{
			round_of_cycles(&driver, told);
			told = 0;
			continue;
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT |
						 WL_EXIT_ON_PM_DEATH, wait_ms(&driver),
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}

/*
 * Connect, and set what a session's settings might spoil.
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
	DriverLogLife();
	CommitTransactionCommand();
	pgstat_report_activity(STATE_IDLE, NULL);
}

/*
 * What has to be done now and then: signals, settings, room for others.
 */
static void
look_around(Driver *driver)
{
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		driver->next_full = 0;
	}
	OwnerMakeRoom();
}

/*
 * How long to wait if nobody calls.
 */
static long
wait_ms(const Driver *driver)
{
	TimestampTz now = ClockSteady();
	TimestampTz next = driver->not_before > now ? driver->not_before :
		driver->next_full;

	next = Min(next, driver->next_sweep);
	return Max(1, Min(TimestampDifferenceMilliseconds(now, next),
					  DRIVER_LOOK_MS));
}

/*
 * A cycle of each pool that something was told of.
 */
static void
round_of_cycles(Driver *driver, PoolSet told)
{
	TimestampTz begun = ClockSteady();
	MemoryContext old = MemoryContextSwitchTo(driver->context);
	List	   *pools = NIL;
	ListCell   *cell;
	bool		behind = false;
	int64		longest = 0;

	if (told == ALL_POOLS)
		driver->next_full = TimestampTzPlusMilliseconds(begun,
														DriverIntervalMs());
	if (FailingMayTry(driver->failing, "", begun))
		note_end(driver, "", load_pools(driver, &pools));
	foreach(cell, pools)
	{
		const char *pool = lfirst(cell);
		TimestampTz start = ClockSteady();
		CycleEnd	end = CYCLE_FAILED;

		if ((told & WakePoolSet(pool)) != 0 &&
			FailingMayTry(driver->failing, pool, begun))
		{
			end = run_cycle(driver, &cycle_run, pool);
			note_end(driver, pool, end);
		}
		behind |= end != CYCLE_DONE && end != CYCLE_MORE;
		longest = Max(longest, ClockSteady() - start);
	}
	if (told == ALL_POOLS)
		driver->behind = behind;
	MemoryContextSwitchTo(old);
	MemoryContextReset(driver->context);
	pgstat_report_stat(false);
	pgstat_report_activity(STATE_IDLE, NULL);
	driver->not_before = Max(driver->not_before, ClockSteady() + longest);
}

/*
 * What ends what nobody ends.
 */
static void
run_sweeps(Driver *driver)
{
	TimestampTz begun = ClockSteady();
	MemoryContext old = MemoryContextSwitchTo(driver->context);
	TimestampTz now;
	bool		more = false;

	for (int i = 0; i < (int) lengthof(sweeps); i++)
	{
		CycleEnd	end;

		if (!FailingMayTry(driver->failing, sweeps[i].name, begun))
			continue;
		end = run_cycle(driver, sweeps[i].statement, sweeps[i].name);
		more |= end == CYCLE_MORE;
		note_end(driver, sweeps[i].name, end);
	}
	now = ClockSteady();
	driver->next_sweep = more ?
		TimestampTzPlusMilliseconds(now, Max(BUSY_MS,
											 TimestampDifferenceMilliseconds(begun, now))) :
		TimestampTzPlusMilliseconds(begun, SWEEP_MS);
	MemoryContextSwitchTo(old);
	MemoryContextReset(driver->context);
	pgstat_report_stat(false);
	pgstat_report_activity(STATE_IDLE, NULL);
}

/*
 * Others are in the way: try these pools again in a moment.
 */
static void
again_soon(Driver *driver, PoolSet pools)
{
	driver->not_before = TimestampTzPlusMilliseconds(ClockSteady(),
													 BUSY_MS);
	WakeKeep(pools);
}

/*
 * What a cycle's end means for the next one.
 */
static void
note_end(Driver *driver, const char *pool, CycleEnd end)
{
	switch (end)
	{
		case CYCLE_RETRY:
			driver->failing = FailingRetried(driver->failing, pool);
			if (*pool != SWEEP_MARK)
				again_soon(driver, *pool == '\0' ? ALL_POOLS :
						   WakePoolSet(pool));
			return;
		case CYCLE_FAILED:
			driver->failing = FailingFailed(driver->failing, pool);
			WakeCount(false, 0, true);
			return;
		case CYCLE_BUSY:
			again_soon(driver, WakePoolSet(pool));
			break;
		case CYCLE_MORE:
			if (*pool != SWEEP_MARK)
				WakeKeep(WakePoolSet(pool));
			break;
		case CYCLE_DONE:
			break;
	}
	driver->failing = FailingOver(driver->failing, pool);
}

/*
 * The names of the pools, in the current context.  None, where there is no
 * extension.
 */
static CycleEnd
load_pools(const Driver *driver, List **pools)
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
		end = failed(driver, "", context);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return end;
}

/*
 * One cycle of a pool, or one sweep, in a transaction of its own.
 */
static CycleEnd
run_cycle(const Driver *driver, SqlStatement *statement, const char *pool)
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
			SqlArgs		args = {0};
			SqlResult	row;

			SqlArgText(&args, pool);
			row = SqlRun(statement, &args);
			started = SqlInt8(row, 0, 1);
			if (SqlBool(row, 0, 2))
				end = CYCLE_BUSY;
			else if (SqlBool(row, 0, 3))
				end = CYCLE_MORE;
			SqlFinish();
		}
		OwnerFinish();
		if (end != CYCLE_BUSY && statement == &cycle_run)
			WakeCount(true, started, driver->behind);
	}
	PG_CATCH();
	{
		end = failed(driver, pool, context);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return end;
}

/*
 * After an error: log it, unless it comes with concurrency and not too often,
 * and abort.
 */
static CycleEnd
failed(const Driver *driver, const char *pool, MemoryContext context)
{
	int			code = geterrcode();
	bool		retry = (code == ERRCODE_T_R_SERIALIZATION_FAILURE ||
						 code == ERRCODE_T_R_DEADLOCK_DETECTED) &&
		FailingMayRetry(driver->failing, pool);

	MemoryContextSwitchTo(context);
	HOLD_INTERRUPTS();
	if (!retry)
		EmitErrorReport();
	AbortOutOfAnyTransaction();
	FlushErrorState();
	RESUME_INTERRUPTS();
	return retry ? CYCLE_RETRY : CYCLE_FAILED;
}
