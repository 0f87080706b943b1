/*-------------------------------------------------------------------------
 *
 * workers.c
 *		The settings of the background workers, the start of the launcher,
 *		and the workers' log lines.
 *
 * gpucredit.database names the databases that are scheduled.  The launcher
 * (launcher.c), which is connected to no database, keeps two workers for each
 * of them: one schedules (worker.c), the other does the upkeep
 * (upkeep_worker.c). They only run on a primary: the launcher starts when
 * recovery ends, which includes the promotion of a standby.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "access/xact.h"
#include "commands/dbcommands.h"
#include "util/log.h"
#include "worker/failing.h"
#include "worker/workers.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

static bool check_databases(char **newval, void **extra, GucSource source);
static void log_end(int code, Datum arg);
static void log_life(const char *event);

static char *databases = NULL;
static int	interval_ms = 1000;
static bool preloaded = false;

void
WorkersInit(void)
{
	BackgroundWorker launcher = {
		.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = 1,
		.bgw_library_name = "gpucredit",
		.bgw_function_name = "WorkerLauncherMain",
		.bgw_name = "gpucredit launcher",
		.bgw_type = "gpucredit launcher"
	};

	preloaded = process_shared_preload_libraries_in_progress;
	DefineCustomStringVariable("gpucredit.database",
							   "The databases whose pools a background "
							   "worker schedules.",
							   "A list; empty: none. Needs the library in "
							   "shared_preload_libraries.", &databases, "",
							   PGC_SIGHUP, GUC_LIST_INPUT,
							   check_databases, NULL, NULL);
	DefineCustomIntVariable("gpucredit.scheduler_interval",
							"The longest time the background worker waits "
							"between two cycles of a pool.",
							"It runs a cycle at once when a commit may "
							"change what the cycle decides.", &interval_ms, 1000, 10, INT_MAX / 2,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	if (preloaded)
		RegisterBackgroundWorker(&launcher);
}

/* Returns the names of the databases to schedule. */
List *
WorkersDatabases(void)
{
	List	   *names = NIL;

	if (!SplitGUCList(pstrdup(databases), ',', &names))
		return NIL;
	return names;
}

int
WorkersIntervalMs(void)
{
	return interval_ms;
}

/*
 * The check hook: accepts a list of names.  If the library was not preloaded,
 * the setting has no effect, because there is no launcher.
 */
static bool
check_databases(char **newval, void **extra, GucSource source)
{
	char	   *copy = strdup(*newval);
	List	   *names = NIL;
	bool		valid;

	if (copy == NULL)
		return false;
	valid = SplitGUCList(copy, ',', &names);
	if (!valid)
		GUC_check_errdetail("It must be a list of names, separated by "
							"commas.");
	else if (names != NIL && !preloaded)
		ereport(WARNING,
				(errmsg("gpucredit.database has no effect"),
				 errdetail("The library was not loaded when the server "
						   "started, so there is no background worker."),
				 errhint("Add gpucredit to shared_preload_libraries in "
						 "postgresql.conf and restart the server.")));
	list_free(names);
	free(copy);
	return valid;
}

/*
 * Connects to a database, and resets settings whose defaults a database or
 * role may have changed.
 */
void
WorkersConnect(Oid database, const char *name)
{
	const char *const settings[][2] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"statement_timeout", "0"},
		{"lock_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"application_name", name}
	};

	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	for (int i = 0; i < (int) lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET,
						PGC_S_OVERRIDE);
}

/*
 * Called after an error: aborts the transaction, and logs the error unless it
 * is a concurrency error that can be retried.  Returns true if so.
 */
bool
WorkersAbort(List *failing, const char *name)
{
	int			code = geterrcode();
	bool		retry = (code == ERRCODE_T_R_SERIALIZATION_FAILURE ||
						 code == ERRCODE_T_R_DEADLOCK_DETECTED) &&
		FailingMayRetry(failing, name);

	HOLD_INTERRUPTS();
	if (!retry)
		EmitErrorReport();
	AbortOutOfAnyTransaction();
	FlushErrorState();
	RESUME_INTERRUPTS();
	return retry;
}

/* Logs this worker's start, and arranges that its end is logged. */
void
WorkersLogLife(void)
{
	log_life("scheduler_started");
	before_shmem_exit(log_end, (Datum) 0);
}

static void
log_end(int code, Datum arg)
{
	log_life("scheduler_stopped");
}

/*
 * Logs an event of this worker's life.  The database's name is looked up at
 * the first call, inside a transaction, and kept for the end, when there is
 * none.
 */
static void
log_life(const char *event)
{
	static char *database = NULL;
	StringInfo	line;

	if (database == NULL)
		database = MemoryContextStrdup(TopMemoryContext,
									   get_database_name(MyDatabaseId));
	line = LogBegin(event);
	LogText(line, "database", database);
	LogNow(line);
}
