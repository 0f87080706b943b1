/*-------------------------------------------------------------------------
 *
 * upkeep_worker.c
 *		Runs the upkeep of one database, beside the worker that schedules
 *		it.
 *
 * Each task is a call of one function in a transaction of its own, which ends
 * after gpucredit.upkeep_time.  Each task has its own interval.  If a call did
 * something, the next one comes sooner: after a pause as long as the call
 * took. So no task uses more than half of a core, and its locks are free for
 * half of the time.  The tasks that return devices to the scheduler pause for
 * only a quarter of the call's time, because GPUs are idle until they have
 * run.  These tasks end soon after they have locked their first row, because
 * callers queue for the budgets and buckets that they lock.  pg_cron may call
 * the same functions at the same time, as none of them waits for another.
 *
 * A failed task is logged, and its next try waits (failing.c).  The worker
 * acts as the owner of the extension (owner.c).  ClockSteady() decides what is
 * due, for the reason that worker.c gives.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "job/sweep.h"
#include "util/clock.h"
#include "util/sql.h"
#include "worker/workers.h"
#include "worker/failing.h"
#include "worker/owner.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "seal/seal.h"
#include "shmem/wake.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define SHORTEST_PAUSE_MS	20
#define SWEEP_LOCKS_MS		100 /* how long a sweep may keep its locks */

/* A task, and when it is due. */
typedef struct Task
{
	const char *name;			/* begins with SWEEP_MARK, so that no pool has
								 * it */
	SqlStatement *statement;
	int			every_ms;
	int			pause;			/* pause after a call that did something, in
								 * percent of the call's time */
	TimestampTz next;			/* when it is due; 0 means now */
} Task;

/*
 * A query that is true if the call did something, and may have left more to
 * do.
 */
#define DID(call) \
	"SELECT COALESCE(pg_catalog.bool_or(" \
	"  s.affected > 0 AND s.task <> 'skipped'), false)" \
	" FROM gpucredit." call " s"
#define TASK(name, call) \
	SQL_STATEMENT(name, SPI_OK_SELECT, "", DID(call))

TASK(check_nodes_run, "check_nodes()");
TASK(reap_holds_run, "reap_holds()");
TASK(end_tenant_transactions_run, "end_tenant_transactions()");
TASK(expire_credits_run, "expire_credits()");
TASK(fold_spend_run, "upkeep('fold_spend')");
TASK(raise_alerts_run, "upkeep('raise_alerts')");
TASK(fold_denials_run, "upkeep('fold_denials')");
TASK(forget_run, "upkeep('forget')");
TASK(forget_usage_run, "upkeep('forget_usage')");
TASK(number_events_run, "upkeep('number_events')");
TASK(forget_events_run, "upkeep('forget_events')");
TASK(depart_entries_run, "upkeep('depart_entries')");
TASK(depart_audits_run, "upkeep('depart_audits')");

/*
 * While calls come in, there is always something to seal.  So that batches do
 * not become small, the worker seals when a full batch of either kind waits,
 * or when nothing was sealed for a minute.  If the server's clock was set
 * back, the instant of the last seal is in the future, and the worker seals as
 * well.
 */
#define SEAL_BATCH_TEXT	CppAsString2(SEAL_BATCH_ROWS)
SQL_STATEMENT(seal_audit_run, SPI_OK_SELECT, "",
			  "SELECT COALESCE(pg_catalog.bool_or(s.affected >= "
			  SEAL_BATCH_TEXT "), false)"
			  " FROM (SELECT t.entries_unsealed >= " SEAL_BATCH_TEXT
			  "   OR t.audits_unsealed >= " SEAL_BATCH_TEXT
			  "   OR COALESCE(t.last_sealed_at NOT BETWEEN"
			  "    gpucredit.now() - '55 s'::interval AND gpucredit.now(),"
			  "    true) AS due FROM gpucredit.seal_status t OFFSET 0) d"
			  " CROSS JOIN LATERAL (SELECT r.affected"
			  "  FROM gpucredit.seal_audit() r WHERE d.due OFFSET 0) s");

static Task tasks[] = {
	{"\001check_nodes", &check_nodes_run, 5000, 25, 0},
	{"\001reap_holds", &reap_holds_run, 5000, 25, 0},
	{"\001end_tenant_transactions", &end_tenant_transactions_run, 5000, 100, 0},
	{"\001expire_credits", &expire_credits_run, 10000, 100, 0},
	{"\001fold_spend", &fold_spend_run, 5000, 100, 0},
	{"\001raise_alerts", &raise_alerts_run, 30000, 100, 0},
	{"\001fold_denials", &fold_denials_run, 30000, 100, 0},
	{"\001forget", &forget_run, 10000, 100, 0},
	{"\001forget_usage", &forget_usage_run, 60000, 100, 0},
	{"\001number_events", &number_events_run, 1000, 100, 0},
	{"\001forget_events", &forget_events_run, 60000, 100, 0},
	{"\001depart_entries", &depart_entries_run, 60000, 100, 0},
	{"\001depart_audits", &depart_audits_run, 60000, 100, 0},
	{"\001seal_audit", &seal_audit_run, 10000, 100, 0}
};

static long run_due(List **failing);
static void run_task(Task *task, List **failing);
static bool call_task(Task *task, bool *did, bool *retry, List *failing);

void
UpkeepWorkerMain(Datum arg)
{
	MemoryContext context;
	List	   *failing = NIL;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	WorkersConnect(DatumGetObjectId(arg), "gpucredit upkeep");
	SweepLocksFor(SWEEP_LOCKS_MS);
	pgstat_report_activity(STATE_IDLE, NULL);
	context = AllocSetContextCreate(TopMemoryContext, "gpucredit upkeep",
									ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		long		wait;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		OwnerMakeRoom();
		MemoryContextSwitchTo(context);
		wait = run_due(&failing);
		MemoryContextSwitchTo(TopMemoryContext);
		MemoryContextReset(context);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT |
						 WL_EXIT_ON_PM_DEATH, wait, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}

/*
 * Runs the tasks that are due, and returns how long to wait for the next one.
 */
static long
run_due(List **failing)
{
	TimestampTz next = DT_NOEND;
	bool		any = false;

	for (int i = 0; i < (int) lengthof(tasks); i++)
	{
		TimestampTz now = ClockSteady();

		if (now >= tasks[i].next && FailingMayTry(*failing, tasks[i].name, now))
		{
			run_task(&tasks[i], failing);
			any = true;
		}
		next = Min(next, Max(tasks[i].next, now));
	}
	if (any)
	{
		pgstat_report_stat(false);
		pgstat_report_activity(STATE_IDLE, NULL);
	}
	return Max(SHORTEST_PAUSE_MS,
			   Min(TimestampDifferenceMilliseconds(ClockSteady(), next),
				   WORKER_LOOK_MS));
}

/* Runs a task, and decides when it is due again. */
static void
run_task(Task *task, List **failing)
{
	TimestampTz begun = ClockSteady();
	TimestampTz now;
	bool		did = false;
	bool		retry = false;

	if (call_task(task, &did, &retry, *failing))
		*failing = FailingOver(*failing, task->name);
	else if (retry)
		*failing = FailingRetried(*failing, task->name);
	else
	{
		*failing = FailingFailed(*failing, task->name);
		WakeCount(false, 0, true);
	}
	now = ClockSteady();
	task->next = did || retry ?
		now + Max((now - begun) * task->pause / 100,
				  SHORTEST_PAUSE_MS * INT64CONST(1000)) :
		TimestampTzPlusMilliseconds(begun, task->every_ms);
}

/*
 * Calls a task in a transaction of its own.  Returns false if it failed; then
 * *retry says whether by a concurrency error, after which it is retried at
 * once.
 */
static bool
call_task(Task *task, bool *did, bool *retry, List *failing)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool done = true;

	pgstat_report_activity(STATE_RUNNING,
						   psprintf("SELECT gpucredit.%s", task->name + 1));
	PG_TRY();
	{
		if (OwnerBegin())
		{
			*did = SqlBool(SqlRun(task->statement, NULL), 0, 1);
			SqlFinish();
		}
		OwnerFinish();
	}
	PG_CATCH();
	{
		done = false;
		*did = false;
		MemoryContextSwitchTo(context);
		*retry = WorkersAbort(failing, task->name);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return done;
}
