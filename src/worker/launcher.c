/*-------------------------------------------------------------------------
 *
 * launcher.c
 *		The launcher: each database of gpucredit.database has its workers, one
 *		that schedules and one that does the upkeep.
 *
 * It belongs to no database and reads only pg_database.  If a database does
 * not exist, or allows no connections, the launcher waits for it in silence.
 * It starts a worker that ended again after a second, and one that always ends
 * soon at longer and longer intervals.  When the launcher ends, its workers
 * end, and the postmaster starts it again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "util/clock.h"
#include "util/log.h"
#include "worker/workers.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define SOON_MS			1000	/* the first pause before a restart */
#define LATE_MS			60000	/* the longest pause */
#define LONG_LIFE_MS	10000	/* a worker that ran so long was fine */

/* What a worker does. */
typedef struct Duty
{
	const char *type;
	const char *function;
} Duty;

typedef struct Charge
{
	char	   *database;
	const Duty *duty;
	BackgroundWorkerHandle *worker; /* NULL: none */
	bool		wanted;			/* still in gpucredit.database */
	TimestampTz begun;
	TimestampTz next_try;
	int			delay_ms;
} Charge;

static const Duty duties[] = {
	{"gpucredit scheduler", "WorkerMain"},
	{"gpucredit upkeep", "UpkeepWorkerMain"}
};

static List *charges = NIL;
static MemoryContext charges_context = NULL;

static void compare_workers(void);
static void want(const char *database, const Duty *duty);
static Charge *find_charge(const char *database, const Duty *duty);
static long check_database(Charge *charge);
static void mind_worker(Charge *charge, TimestampTz now);
static void start_worker(Charge *charge, Oid database, TimestampTz now);
static void log_no_room(const Charge *charge);
static Oid	find_database(const char *name);
static Oid	read_database(const char *name);
static void end_workers(int code, Datum arg);

void
WorkerLauncherMain(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	charges_context = AllocSetContextCreate(TopMemoryContext,
											"gpucredit launcher",
											ALLOCSET_DEFAULT_SIZES);
	before_shmem_exit(end_workers, (Datum) 0);
	compare_workers();
	while (!ShutdownRequestPending)
	{
		long		wait = WORKER_LOOK_MS * 5;
		ListCell   *cell;

		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			compare_workers();
		}
		foreach(cell, charges)
			wait = Min(wait, check_database(lfirst(cell)));
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT |
						 WL_EXIT_ON_PM_DEATH, wait, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	proc_exit(1);				/* 0 would mean: never again */
}

/*
 * Compare our workers with the setting.
 */
static void
compare_workers(void)
{
	MemoryContext scratch = AllocSetContextCreate(charges_context,
												  "gpucredit databases",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(scratch);
	List	   *names = WorkersDatabases();
	ListCell   *cell;

	MemoryContextSwitchTo(charges_context);
	foreach(cell, charges)
		((Charge *) lfirst(cell))->wanted = false;
	/* each database is scheduled before any gets its upkeep */
	for (int i = 0; i < (int) lengthof(duties); i++)
	{
		foreach(cell, names)
			want(lfirst(cell), &duties[i]);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(scratch);
}

/*
 * A database is to have a worker of a kind.
 */
static void
want(const char *database, const Duty *duty)
{
	Charge	   *charge = find_charge(database, duty);

	if (charge == NULL)
	{
		charge = palloc0(sizeof(Charge));
		charge->database = pstrdup(database);
		charge->duty = duty;
		charge->delay_ms = SOON_MS;
		charges = lappend(charges, charge);
	}
	charge->wanted = true;
}

static Charge *
find_charge(const char *database, const Duty *duty)
{
	ListCell   *cell;

	foreach(cell, charges)
	{
		Charge	   *charge = lfirst(cell);

		if (charge->duty == duty && strcmp(charge->database, database) == 0)
			return charge;
	}
	return NULL;
}

/*
 * Start or end a database's worker; return in how many milliseconds to look
 * again.
 */
static long
check_database(Charge *charge)
{
	TimestampTz now = ClockSteady();
	Oid			database;

	mind_worker(charge, now);
	if (!charge->wanted && charge->worker != NULL)
		TerminateBackgroundWorker(charge->worker);
	if (!charge->wanted || charge->worker != NULL)
		return WORKER_LOOK_MS * 60;
	if (now < charge->next_try)
		return Max(1, TimestampDifferenceMilliseconds(now,
													  charge->next_try));
	database = find_database(charge->database);
	if (OidIsValid(database))
		start_worker(charge, database, now);
	return charge->worker != NULL ? WORKER_LOOK_MS * 60 : WORKER_LOOK_MS;
}

/*
 * Has the worker ended?
 */
static void
mind_worker(Charge *charge, TimestampTz now)
{
	pid_t		pid;

	if (charge->worker == NULL ||
		GetBackgroundWorkerPid(charge->worker, &pid) != BGWH_STOPPED)
		return;
	pfree(charge->worker);
	charge->worker = NULL;
	if (TimestampDifferenceExceeds(charge->begun, now, LONG_LIFE_MS))
		charge->delay_ms = SOON_MS;
	else
		charge->delay_ms = Min(charge->delay_ms * 2, LATE_MS);
	charge->next_try = TimestampTzPlusMilliseconds(now, charge->delay_ms);
}

/*
 * Start a worker; its end sets our latch.
 */
static void
start_worker(Charge *charge, Oid database, TimestampTz now)
{
	BackgroundWorker worker = {
		.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = BGW_NEVER_RESTART,
		.bgw_library_name = "gpucredit",
		.bgw_main_arg = ObjectIdGetDatum(database),
		.bgw_notify_pid = MyProcPid
	};
	MemoryContext old = MemoryContextSwitchTo(charges_context);

	strlcpy(worker.bgw_function_name, charge->duty->function, BGW_MAXLEN);
	strlcpy(worker.bgw_type, charge->duty->type, BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN, "%s of %s", charge->duty->type,
			 charge->database);
	charge->begun = now;
	if (!RegisterDynamicBackgroundWorker(&worker, &charge->worker))
	{
		charge->worker = NULL;
		charge->delay_ms = Min(charge->delay_ms * 2, LATE_MS);
		charge->next_try = TimestampTzPlusMilliseconds(now,
													   charge->delay_ms);
		log_no_room(charge);
	}
	MemoryContextSwitchTo(old);
}

/*
 * There is no slot for a worker: max_worker_processes is too low.
 */
static void
log_no_room(const Charge *charge)
{
	StringInfo	line = LogBegin(charge->duty == &duties[0] ?
								"scheduler_no_slot" : "upkeep_no_slot");

	LogText(line, "database", charge->database);
	LogText(line, "increase", "max_worker_processes");
	LogNumber(line, "retry_ms", charge->delay_ms);
	LogNow(line);
	pfree(line->data);
	pfree(line);
}

/*
 * A database that allows connections, by name.  An error, as when a login
 * fills the lock table, is logged, and the launcher looks again: its own end
 * would end each database's worker.
 */
static Oid
find_database(const char *name)
{
	MemoryContext old = CurrentMemoryContext;
	volatile Oid database = InvalidOid;

	PG_TRY();
	{
		StartTransactionCommand();
		database = read_database(name);
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(old);
		HOLD_INTERRUPTS();
		EmitErrorReport();
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
		database = InvalidOid;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	return database;
}

/*
 * Without pg_database's index: a process without a database can open that only
 * after a connected one wrote the shared relation cache's file, which each
 * start removes.
 */
static Oid
read_database(const char *name)
{
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;
	Oid			database = InvalidOid;
	Relation	relation = table_open(DatabaseRelationId, AccessShareLock);

	ScanKeyInit(&key, Anum_pg_database_datname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum(name));
	scan = systable_beginscan(relation, InvalidOid, false, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple) &&
		((Form_pg_database) GETSTRUCT(tuple))->datallowconn)
		database = ((Form_pg_database) GETSTRUCT(tuple))->oid;
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return database;
}

static void
end_workers(int code, Datum arg)
{
	ListCell   *cell;

	foreach(cell, charges)
	{
		Charge	   *charge = lfirst(cell);

		if (charge->worker != NULL)
			TerminateBackgroundWorker(charge->worker);
	}
}
