/*-------------------------------------------------------------------------
 *
 * event.c
 *		The feed of events, which tenants and their programs read.
 *
 * An event is written into gpucredit.event_pending by the transaction that
 * causes it, mostly together with the audit row of the same decision.  It has
 * no number yet.  If a transaction numbered its events before it commits, a
 * reader who remembers the greatest number seen could miss events with lower
 * numbers that commit later.  So number_events() moves committed events into
 * gpucredit.event and numbers them there, in one transaction at a time
 * (16_event.sql).  A transaction that commits late gets later numbers, and no
 * open transaction delays the events of others.
 *
 * This file decides which decisions are events, and of which kind.  A
 * heartbeat is no event.
 *
 * Locks: forget_events acquires LOCK_EVENTS, as number_events does; neither
 * waits for it.
 *
 * SQL functions here: lock_events, forget_events.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "audit/event.h"
#include "util/append_only.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/lock_class.h"
#include "util/settings.h"
#include "util/sql.h"

PG_FUNCTION_INFO_V1(gpucredit_lock_events);
PG_FUNCTION_INFO_V1(gpucredit_forget_events);

SQL_STATEMENT(event_insert, SPI_OK_INSERT,
			  "text, timestamptz, text, text, bigint, int, text, text, jsonb",
			  "INSERT INTO gpucredit.event_pending (org, at, kind, account,"
			  " job, attempt, decision, reason, detail)"
			  " VALUES ($1, $2, $3, COALESCE($4, (SELECT j.account"
			  "  FROM gpucredit.job j WHERE j.org = $1 AND j.job = $5), ''),"
			  " $5, $6, $7, $8, $9)");
SQL_STATEMENT(events_delete, SPI_OK_DELETE, "timestamptz, bigint",
			  "DELETE FROM gpucredit.event e WHERE e.ctid = ANY (ARRAY("
			  "SELECT o.ctid FROM (SELECT f.ctid, f.at FROM gpucredit.event f"
			  "  ORDER BY f.event LIMIT $2) o WHERE o.at < $1))");

/*
 * The kind of event of an operation and decision; a NULL decision stands for
 * any.
 */
static const struct
{
	const char *operation;
	const char *decision;
	const char *kind;
}			kinds[] = {
	{"reserve", "granted", "job.queued"},
	{"reserve", "denied", "job.denied"},
	{"place", "start", "job.started"},
	{"place", "preempt", "job.preempted"},
	{"place", "move", "job.preempted"},
	{"place", "resize", "job.resized"},
	{"part_ended", NULL, "job.part_ended"},
	{"cancel", "cancelled", "job.ended"},
	{"cancel", "stopping", "job.stopping"},
	{"requeue_job", "stopping", "job.stopping"},
	{"hold_job", "held", "job.held"},
	{"release_job", "released", "job.released"},
	{"place", "eligible", "job.eligible"},
	{"extend", "granted", "hold.grown"},
	{"extend", "denied", "hold.denied"},
	{"extend_hold", "granted", "hold.grown"},
	{"extend_hold", "denied", "hold.denied"},
	{"issue", "issued", "credit.issued"},
	{"refund", "refunded", "credit.refunded"},
	{"refund_hold", "refunded", "credit.refunded"},
	{"revoke", "revoked", "credit.revoked"},
	{"expire", "expired", "credit.expired"},
	{"transfer", "granted", "credit.transferred"},
	{"suspend_account", "suspended", "account.suspended"},
	{"suspend_account", "lifted", "account.resumed"},
	{"register_node", "registered", "node.registered"},
	{"drain", "draining", "node.draining"},
	{"resume", "resumed", "node.resumed"},
	{"reclaim", "reclaimed", "node.reclaimed"},
	{"remove_node", "removed", "node.removed"},
	{"heartbeat", "device_failed", "node.device_failed"},
	{"heartbeat", "device_back", "node.device_back"},
	{"heartbeat", "rebooted", "node.rebooted"}
};

/*
 * Returns the kind of event that a decision is, or NULL if it is none.  A
 * settlement is the end of its job, unless the job waits again.
 */
const char *
EventKind(const char *operation, const char *decision, const char *job_state)
{
	if (strcmp(operation, "settle") == 0)
	{
		if (job_state == NULL || strcmp(decision, "late") == 0)
			return NULL;
		return strcmp(job_state, "queued") == 0 ||
			strcmp(job_state, "unfunded") == 0 ? "job.requeued" : "job.ended";
	}
	for (int i = 0; i < (int) lengthof(kinds); i++)
	{
		if (strcmp(kinds[i].operation, operation) == 0 &&
			(kinds[i].decision == NULL ||
			 strcmp(kinds[i].decision, decision) == 0))
			return kinds[i].kind;
	}
	return NULL;
}

/*
 * Writes an event with the contents of an audit row, which in most cases was
 * just written.  If the row names a job and no account, the event gets the
 * job's account.
 */
void
EventWrite(const char *kind, const AuditRow *row)
{
	Values	   *args = VALUES(TextValue(row->org ? row->org : ""),
							  TimeValue(row->at), TextValue(kind),
							  TextValue(row->account),
							  Int8ValueOrNull(row->job),
							  Int4ValueOrNull(row->attempt),
							  TextValue(row->decision), TextValue(row->reason));

	ValuesAdd(args, JsonValue(AuditDetailJson(row)));
	(void) SqlRun(&event_insert, args);
}

/*
 * lock_events(): acquires the lock for numbering events.  Returns false if
 * another transaction has it.
 */
Datum
gpucredit_lock_events(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(LockClassTry(LOCK_EVENTS, 0));
}

/*
 * forget_events(most): removes events older than gpucredit.event_retention,
 * the lowest numbers first, and returns how many it removed.
 */
Datum
gpucredit_forget_events(PG_FUNCTION_ARGS)
{
	int64		most = ArgInt8(fcinfo, 0, "most", 1, PG_INT32_MAX);
	int64		kept = SettingEventRetention();
	uint64		n = 0;

	/* An older snapshot would not see what concurrent calls have removed. */
	if (kept == 0 || IsolationUsesXactSnapshot() ||
		!LockClassTry(LOCK_EVENTS, 0))
		PG_RETURN_INT64(0);
	SqlConnect();
	n = AppendOnlyDelete("event", &events_delete,
						 VALUES(TimeValue(ClockNow() - kept),
								Int8Value(most)));
	SqlFinish();
	PG_RETURN_INT64((int64) n);
}
