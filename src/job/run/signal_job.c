/*-------------------------------------------------------------------------
 *
 * signal_job.c
 *		SQL function signal_job: sends a signal to the processes of a
 *		running job, as scancel --signal does.
 *
 * Each node that shall deliver the signal gets a row of job_signal, which its
 * agent receives with its next heartbeat.  Of a job whose script runs once
 * (spec "launch": "once") that is the first node, where the script is, and from
 * which srun passes the signal on to the tasks on all nodes; target "all", and
 * any signal for another job, goes to every node.
 *
 * The agent names the ids of the signals that it has delivered in the node
 * report, and the rows are removed.  It writes an id down before it delivers
 * the signal, so that no signal is delivered twice (agent/job_signals.c).  A
 * signal that no agent has delivered within a minute is void, as is one whose
 * attempt has ended.
 *
 * A node has at most one row for each attempt, signal and target.  The same
 * signal again gets a new id, so that it is delivered again even if the agent
 * has delivered the one before and has not reported that yet.
 *
 * Locks: request key; its rows of job_signal; then rows of the organisation
 * that are over, SKIP LOCKED.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/not_found.h"
#include "util/sql.h"
#include "api/api.h"
#include "job/run/heartbeat_row.h"
#include "job/run/signal_job.h"
#include "request/request.h"
#include "shmem/notify.h"
#include "types/clip.h"

API_FUNCTION(gpucredit_signal_job, signal_job);

#define SIGNAL_WAITS	USECS_PER_MINUTE	/* how long a signal waits for its
											 * agent */

/* The signal that a call sends. */
typedef struct JobSignal
{
	char	   *org;
	char	   *account;
	int64		job;
	int32		attempt;
	const char *signal;
	const char *target;
	TimestampTz now;
} JobSignal;

static const char *const signal_names[] = {"HUP", "INT", "QUIT", "USR1",
"USR2", "TERM", "CONT"};
static const char *const target_names[] = {"steps", "script", "all"};

/*
 * Reads the job, its last attempt, and each node that shall deliver the
 * signal.
 */
SQL_STATEMENT(signal_nodes, SPI_OK_SELECT, "text, bigint, text",
			  "SELECT j.account, a.attempt, a.live,"
			  " a.is_foreign OR j.spec ? 'foreign',"
			  " g.node, COALESCE(n.about ? 'signals', false),"
			  " COALESCE(v.state IN ('suspect', 'lost', 'gone'), true)"
			  " FROM gpucredit.job j LEFT JOIN LATERAL"
			  "  (SELECT t.attempt, t.ended_at IS NULL"
			  "    AND t.running_at IS NOT NULL AS live, t.is_foreign"
			  "   FROM gpucredit.attempt t"
			  "   WHERE t.org = j.org AND t.job = j.job"
			  "   ORDER BY t.attempt DESC LIMIT 1) a ON true"
			  " LEFT JOIN LATERAL (SELECT p.node"
			  "   FROM gpucredit.attempt_gpu p"
			  "   WHERE p.org = j.org AND p.job = j.job"
			  "   AND p.attempt = a.attempt ORDER BY p.node"
			  "   LIMIT CASE WHEN j.spec ->> 'launch' = 'once'"
			  "    AND $3 <> 'all' THEN 1 END) g ON true"
			  " LEFT JOIN gpucredit.node n ON n.node = g.node"
			  " LEFT JOIN gpucredit.nodes v ON v.node = g.node"
			  " WHERE j.org = $1 AND j.job = $2 ORDER BY g.node");
SQL_STATEMENT(signal_add, SPI_OK_INSERT,
			  "text, bigint, int, text, text, text, timestamptz",
			  "INSERT INTO gpucredit.job_signal AS s (org, job, attempt, node,"
			  " signal, target, id, sent_at)"
			  " VALUES ($1, $2, $3, $4, $5, $6,"
			  "  pg_catalog.gen_random_uuid(), $7)"
			  " ON CONFLICT (org, job, attempt, node, signal, target)"
			  " DO UPDATE SET id = excluded.id, sent_at = excluded.sent_at");
SQL_STATEMENT(signals_forget, SPI_OK_DELETE, "text, timestamptz",
			  "DELETE FROM gpucredit.job_signal s WHERE s.ctid = ANY (ARRAY("
			  "SELECT o.ctid FROM gpucredit.job_signal o WHERE o.org = $1"
			  " AND (o.sent_at <= $2"
			  "  OR NOT EXISTS (SELECT FROM gpucredit.attempt a"
			  "   WHERE a.org = o.org AND a.job = o.job"
			  "   AND a.attempt = o.attempt AND a.ended_at IS NULL))"
			  " LIMIT 100 FOR UPDATE SKIP LOCKED))");

/* Removes the signals that an agent's report says it has delivered. */
SQL_STATEMENT(signals_delivered, SPI_OK_DELETE, "text, jsonb",
			  "DELETE FROM gpucredit.job_signal s WHERE s.ctid = ANY (ARRAY("
			  "SELECT o.ctid FROM gpucredit.job_signal o WHERE o.node = $1"
			  " AND $2 -> 'signals' ? o.id::text"
			  " FOR UPDATE SKIP LOCKED))");
SQL_STATEMENT(signals_open, SPI_OK_SELECT, "text, timestamptz",
			  "SELECT s.org, s.job, s.attempt, pg_catalog.jsonb_build_object("
			  "  'id', s.id, 'signal', s.signal, 'target', s.target)"
			  " FROM gpucredit.job_signal s"
			  " JOIN gpucredit.attempt a ON a.org = s.org AND a.job = s.job"
			  "  AND a.attempt = s.attempt AND a.ended_at IS NULL"
			  " WHERE s.node = $1 AND s.sent_at > $2 ORDER BY s.sent_at, s.id LIMIT 64");

static uint64 send_to_nodes(JobSignal *sent);
static void check_node(const JobSignal *sent, const SqlResult *rows, uint64 i);
static void refuse(int64 job, const char *detail, const char *hint)
			pg_attribute_noreturn();
static void audit_signal(const JobSignal *sent, const char *key,
						 const char *reason, uint64 nodes);

Datum
call_signal_job(PG_FUNCTION_ARGS)
{
	JobSignal	sent = {0};
	char	   *reason;
	uint64		nodes;
	Request		request;
	Datum		result;

	sent.org = ArgName(fcinfo, 0, "org");
	sent.job = ArgInt8(fcinfo, 1, "job", PG_INT64_MIN, PG_INT64_MAX);
	RequestInit(&request, fcinfo, "signal_job", sent.org,
				ArgKey(fcinfo, 2, "key"));
	sent.signal = ArgName(fcinfo, 3, "signal");
	(void) ArgWord(sent.signal, "signal", signal_names,
				   lengthof(signal_names));
	sent.target = ArgName(fcinfo, 4, "target");
	(void) ArgWord(sent.target, "target", target_names,
				   lengthof(target_names));
	RequestInt8(&request, sent.job);
	RequestText(&request, sent.signal);
	RequestText(&request, sent.target);
	RequestText(&request, reason = ArgTextOrNull(fcinfo, 5, "reason"));

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	sent.now = ClockNow();
	nodes = send_to_nodes(&sent);
	(void) SqlRun(&signals_forget,
				  VALUES(TextValue(sent.org),
						 TimeValue(sent.now - SIGNAL_WAITS)));
	audit_signal(&sent, request.key, reason, nodes);
	return SqlFinishRow(RequestFinish(&request,
									  VALUES(Int4Value(sent.attempt),
											 Int4Value((int32) nodes),
											 BoolValue(false))));
}

/*
 * Adds a row for each node that shall deliver the signal.  Returns how many
 * nodes these are.
 */
static uint64
send_to_nodes(JobSignal *sent)
{
	SqlResult	rows = SqlRun(&signal_nodes,
							  VALUES(TextValue(sent->org),
									 Int8Value(sent->job),
									 TextValue(sent->target)));

	if (rows.n == 0)
		NotFoundJob(sent->job);
	sent->account = SqlText(rows, 0, 1);
	if (SqlIsNull(rows, 0, 2))
		refuse(sent->job, "It has not started.",
			   "Wait until it runs, or cancel it.");
	sent->attempt = SqlInt4(rows, 0, 2);
	for (uint64 i = 0; i < rows.n; i++)
		check_node(sent, &rows, i);
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *node = SqlText(rows, i, 5);

		(void) SqlRun(&signal_add,
					  VALUES(TextValue(sent->org), Int8Value(sent->job),
							 Int4Value(sent->attempt), TextValue(node),
							 TextValue(sent->signal), TextValue(sent->target),
							 TimeValue(sent->now)));
		NotifyAtCommit(NODE_CHANNEL, node);
	}
	return rows.n;
}

/* Refuses a signal that row i's node could not deliver. */
static void
check_node(const JobSignal *sent, const SqlResult *rows, uint64 i)
{
	if (!SqlBool(*rows, i, 3) || SqlIsNull(*rows, i, 5))
		refuse(sent->job, "Its last attempt has ended, or has not begun to "
			   "run yet.", "Call explain() to see its state.");
	if (SqlBool(*rows, i, 4))
		refuse(sent->job, "Another scheduler runs it.",
			   "Send the signal with the tools of that scheduler.");
	if (SqlBool(*rows, i, 7))
		refuse(sent->job, psprintf("Its node \"%s\" is silent.",
								   ClipForMessage(SqlText(*rows, i, 5))),
			   "Try again once the node is heard.");
	if (!SqlBool(*rows, i, 6))
		refuse(sent->job, psprintf("The agent of its node \"%s\" delivers no "
								   "signals.",
								   ClipForMessage(SqlText(*rows, i, 5))),
			   "Ask the operator for a newer agent.");
}

static void
refuse(int64 job, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
			 errmsg("no signal can be sent to job %lld", (long long) job),
			 errdetail_internal("%s", detail),
			 errhint("%s", hint)));
}

/* Audits who sent what.  The audit row itself names the login. */
static void
audit_signal(const JobSignal *sent, const char *key, const char *reason,
			 uint64 nodes)
{
	AuditRow	audit = {.org = sent->org, .account = sent->account,
		.operation = "signal_job", .decision = "sent", .reason = reason,
		.job = sent->job, .attempt = sent->attempt, .at = sent->now};

	AuditText(&audit, "key", key);
	AuditText(&audit, "signal", sent->signal);
	AuditText(&audit, "target", sent->target);
	AuditInt8(&audit, "nodes", (int64) nodes);
	AuditWrite(&audit);
}

/*
 * Removes the signals that an agent's report says it has delivered, and adds
 * to heartbeat's result a row for each signal that the node shall deliver.
 */
void
SignalsPut(ReturnSetInfo *rsinfo, const char *node, Jsonb *about,
		   TimestampTz now)
{
	SqlResult	rows;

	if (about != NULL)
		(void) SqlRun(&signals_delivered,
					  VALUES(TextValue(node), JsonValue(about)));
	rows = SqlRun(&signals_open,
				  VALUES(TextValue(node), TimeValue(now - SIGNAL_WAITS)));
	for (uint64 i = 0; i < rows.n; i++)
		HeartbeatRowPut(rsinfo, rows, i, "signal", HEARTBEAT_SPEC);
}
