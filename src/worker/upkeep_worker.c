/*-------------------------------------------------------------------------
 *
 * upkeep_worker.c
 *		Runs the upkeep of one database, beside the worker that schedules it.
 *
 * Each task is a call of one function, in a transaction of its own, which ends
 * after gpucredit.upkeep_time.  A task runs at its own pace.  If a call did
 * something, the next one comes sooner: after a pause as long as the call was,
 * so that no task takes more than half of a core, and its locks are free for
 * half of the time.  The tasks that give devices back to the queue pause for a
 * quarter of that: until then GPUs are idle.  pg_cron may call the same
 * functions at the same time: none of them waits for another.
 *
 * A failed task is logged, and its next try waits (failing.c).  The worker acts
 * as the owner of the extension (owner.c).  ClockSteady() says what is due, as
 * in worker.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "util/clock.h"
#include "util/sql.h"
#include "worker/workers.h"
#include "worker/failing.h"
#include "worker/owner.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "shmem/wake.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define SHORTEST_PAUSE_MS	20

/* A task, and when it is due. */
typedef struct Task
{
	const char *name;			/* one that no pool has */
	SqlStatement *statement;
	int			every_ms;
	int			pause;			/* after a call that did something, in percent
								 * of its time */
	TimestampTz next;			/* 0: now */
} Task;

/* Whether a call did something, and may have left more. */
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
	{"\001depart_audits", &depart_audits_run, 60000, 100, 0}
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
 * Run the tasks that are due; returns how long to wait for the next one.
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

/*
 * Run a task, and say when it is due again.
 */
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
 * Call a task in its own transaction.  False: it failed; retry: by a rare
 * concurrency error.
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
