/*-------------------------------------------------------------------------
 *
 * launcher.c
 *		The launcher: each database of gpucredit.database has two
 *		background workers, one that schedules and one that does the
 *		upkeep.
 *
 * The launcher is connected to no database and reads only pg_database.  If a
 * database does not exist, or allows no connections, the launcher waits for it
 * without logging.  A worker that has ended is started again after a second.
 * A worker that repeatedly ends soon after its start is started again at
 * longer and longer intervals.  When the launcher ends, so do its workers, and
 * the postmaster starts the launcher again.
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

#define SOON_MS			1000	/* shortest pause before a restart */
#define LATE_MS			60000	/* longest pause before a restart */
#define LONG_LIFE_MS	10000	/* a worker that ran for so long has not
								 * failed */

/* A kind of worker: its type and its main function. */
typedef struct Duty
{
	const char *type;
	const char *function;
} Duty;

typedef struct Charge
{
	char	   *database;
	const Duty *duty;
	BackgroundWorkerHandle *worker; /* NULL if no worker runs */
	bool		wanted;			/* whether gpucredit.database still names it */
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
	proc_exit(1);				/* or it is never restarted */
}

/* Compares the workers with the setting. */
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

	/*
	 * This order makes sure that each database is scheduled before any gets
	 * its upkeep, if there are too few slots.
	 */
	for (int i = 0; i < (int) lengthof(duties); i++)
	{
		foreach(cell, names)
			want(lfirst(cell), &duties[i]);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(scratch);
}

/* Records that a database is to have a worker of this kind. */
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
 * Starts or ends a database's worker as wanted.  Returns after how many
 * milliseconds to check again.
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
 * Notices that a worker has ended, and decides when it may be started again.
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

/* Starts a worker.  When it ends, the postmaster sets the launcher's latch. */
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
 * Logs that no slot is free for a worker, because max_worker_processes is too
 * low.
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
 * Returns the OID of a database that allows connections, by its name.  An
 * error, which may occur when a login fills the lock table, is logged, and the
 * launcher checks again later: if the launcher ended, so would every worker.
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
 * Reads pg_database without its index.  A process without a database can open
 * that index only if a connected process has written the file of the shared
 * relation cache before, and each start of the server removes this file.
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
