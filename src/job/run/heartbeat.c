/*-------------------------------------------------------------------------
 *
 * heartbeat.c
 *		SQL function heartbeat: a node's agent reports that the node
 *		lives, and receives what the node should run.
 *
 * Fencing depends on "running", the agent's report of which attempts run on
 * the node. If an attempt ended without a report from its agent, its devices
 * become free once a heartbeat does not name the attempt. "healthy" is valid
 * until the next report. Attempts with a failed device end (device.c).
 *
 * The nodes of a gang start one after another, while one agent meters for all
 * of them. Therefore a node is ordered to start its part until its heartbeat
 * names the attempt in "running", even if the attempt runs already on other
 * nodes. An agent that does not report "running" is ordered to start until the
 * attempt runs.
 *
 * The agent also reports about the machine (node_report.c). If the machine was
 * restarted, all attempts that ran there have ended (reboot.c), and so do the
 * fences for them.
 *
 * Locks: the node's row, and rows of attempt_gpu of attempts that have ended.
 * Without waiting: for an attempt with a failed device, as device.c says; for
 * an orphan, as orphan_attempt.c says; last, rows of gangs whose parts begin
 * here, and of sessions and signals there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "audit/audit.h"
#include "catalog/pg_type.h"
#include "util/args.h"
#include "util/async_commit.h"
#include "util/errors.h"
#include "util/log.h"
#include "util/sql.h"
#include "util/not_found.h"
#include "api/api.h"
#include "job/run/node_report.h"
#include "job/checkpoint.h"
#include "job/idle.h"
#include "job/end/device.h"
#include "job/run/log_wish.h"
#include "job/run/open_session.h"
#include "job/run/meter.h"
#include "job/run/reboot.h"
#include "job/run/running.h"
#include "job/run/orphan_attempt.h"
#include "job/run/signal_job.h"
#include "miscadmin.h"
#include "shmem/wake.h"
#include "types/clip.h"
#include "types/gpuset.h"
#include "utils/array.h"
#include "utils/builtins.h"

API_FUNCTION(gpucredit_heartbeat, heartbeat);

/* One heartbeat: the agent's report, and the present state of the node. */
typedef struct NodeBeat
{
	char	   *node;
	char	   *pool;
	GpuSet		healthy;
	Running		running;
	About		about;
	const char *address;		/* address of the node, or NULL if it never
								 * reported one */
	bool		rebooted;		/* whether the machine was restarted since the
								 * last heartbeat */
	TimestampTz now;
} NodeBeat;

/*
 * Stores a heartbeat. heard_at is when the row's lock was free, so that a
 * heartbeat that waited for long does not look like silence.
 */
SQL_STATEMENT(node_beat, SPI_OK_UPDATE_RETURNING,
			  "text, gpucredit.gpuset, boolean, jsonb",
			  "UPDATE gpucredit.node n SET healthy = COALESCE($2,"
			  "  CASE WHEN n.gpus = 0 THEN '{}'"
			  "  ELSE '{0-' || n.gpus - 1 || '}' END::gpucredit.gpuset),"
			  " heard_at = gpucredit.now(),"
			  " tells_running = n.tells_running OR $3,"
			  " about = COALESCE($4, n.about),"
			  " boot_before = CASE WHEN b.about ->> 'boot_id'"
			  "  <> $4 ->> 'boot_id' THEN b.about ->> 'boot_id'"
			  "  ELSE n.boot_before END"
			  " FROM (SELECT b.healthy, b.about, b.boot_before,"
			  "  b.tells_running"
			  "  FROM gpucredit.node b"
			  "  WHERE b.node = $1 FOR NO KEY UPDATE) b"
			  " WHERE n.node = $1 RETURNING n.pool, n.gpus, n.healthy,"
			  " b.healthy, n.heard_at, b.about, b.boot_before,"
			  " b.tells_running = n.tells_running"
			  " AND b.about IS NOT DISTINCT FROM n.about");
/*
 * Updates the fences of ended attempts on a node: devices become free if the
 * agent does not name their attempt. Otherwise the fence stays, and when the
 * attempt was seen is stored.
 */
SQL_STATEMENT(fences_note, SPI_OK_UPDATE_RETURNING,
			  "text, text, text[], bigint[], int[], timestamptz",
			  "UPDATE gpucredit.attempt_gpu g SET free = NOT t.runs,"
			  " seen_at = $6"
			  " FROM (SELECT f.org, f.job, f.attempt, EXISTS"
			  "  (SELECT FROM ROWS FROM (pg_catalog.unnest($3),"
			  "   pg_catalog.unnest($4), pg_catalog.unnest($5))"
			  "   AS r (org, job, attempt) WHERE r.org = f.org"
			  "   AND r.job = f.job AND r.attempt = f.attempt) AS runs"
			  "  FROM gpucredit.attempt_gpu f"
			  "  WHERE f.pool = $1 AND f.node = $2 AND NOT f.free"
			  "  AND f.ended_at IS NOT NULL) t"
			  " WHERE g.org = t.org AND g.job = t.job"
			  " AND g.attempt = t.attempt AND g.node = $2 AND NOT g.free"
			  " RETURNING g.free");
/*
 * Notes that a gang's part has begun on the node. If the row is locked, the
 * next heartbeat does it.
 */
SQL_STATEMENT(parts_begun, SPI_OK_UPDATE,
			  "text, text[], bigint[], int[], timestamptz",
			  "UPDATE gpucredit.attempt_gpu g SET seen_at = $5"
			  " FROM (SELECT f.org, f.job, f.attempt"
			  "  FROM ROWS FROM (pg_catalog.unnest($2),"
			  "   pg_catalog.unnest($3), pg_catalog.unnest($4))"
			  "   AS r (org, job, attempt) JOIN gpucredit.attempt_gpu f"
			  "   ON f.org = r.org AND f.job = r.job"
			  "   AND f.attempt = r.attempt AND f.node = $1"
			  "  WHERE f.ended_at IS NULL"
			  "  FOR NO KEY UPDATE OF f SKIP LOCKED) b"
			  " WHERE g.org = b.org AND g.job = b.job"
			  " AND g.attempt = b.attempt AND g.node = $1");
/*
 * The spec of a job "j" as an agent receives it. For how many seconds devices
 * wait for an image is set by the pool's policy, so that member of a
 * submitter's spec is replaced.
 */
#define OWN_SPEC \
	"(CASE WHEN j.spec ? 'image' THEN j.spec - '{checkpoint,image_wait}'" \
	"::pg_catalog.text[] || COALESCE((SELECT" \
	" pg_catalog.jsonb_build_object('image_wait', pg_catalog.date_part(" \
	" 'epoch', (l.policy ->> 'image_wait')::interval)::bigint)" \
	" FROM gpucredit.pool l WHERE l.pool = $1" \
	" AND l.policy ? 'image_wait'), '{}')" \
	" ELSE j.spec - 'checkpoint' END)"
/*
 * The checkpoint from which an attempt "a" resumes: the last good one of the
 * attempts before it.
 */
#define RESUME_FROM \
	"COALESCE((SELECT pg_catalog.jsonb_build_object('checkpoint'," \
	" pg_catalog.jsonb_build_object('attempt', c.attempt, 'step', c.step," \
	" 'uri', c.uri, 'sha256', pg_catalog.encode(c.sha256, 'hex')," \
	" 'size_bytes', c.size_bytes)) FROM gpucredit.checkpoint c" \
	" WHERE c.org = a.org AND c.job = a.job AND c.attempt < a.attempt" \
	" AND c.bad_at IS NULL" \
	" ORDER BY c.attempt DESC, c.step DESC LIMIT 1), '{}')"
/*
 * The secret that the nodes of a gang share if the gang's script runs only on
 * its first node. The other nodes run the processes that the script starts on
 * them (agent/step_serve.c), and authenticate these requests by the secret.
 */
#define STEP_KEY \
	"CASE WHEN p.nodes IS NOT NULL AND j.spec ->> 'launch' = 'once' THEN" \
	" (SELECT pg_catalog.jsonb_build_object('step_key', pg_catalog.encode(" \
	"  pg_catalog.sha256(s.secret || pg_catalog.convert_to(" \
	"  pg_catalog.jsonb_build_array(a.org, a.job, a.attempt, a.started_at)" \
	"  ::text, 'UTF8')), 'hex')) FROM gpucredit.step_secret s)" \
	" ELSE '{}' END"
/*
 * The texts that a spec names by their digests: the script, and the
 * environment, to which the spec's own variables are added
 * (job/submit/stored_file.c).
 */
#define STORED_FILES \
	"COALESCE((SELECT pg_catalog.jsonb_object_agg(f.word, CASE f.word" \
	"  WHEN 'env' THEN s.body::jsonb || COALESCE(j.spec -> 'env', '{}')" \
	"  ELSE pg_catalog.to_jsonb(s.body) END)" \
	" FROM gpucredit.job_file f JOIN gpucredit.stored_file s" \
	"  ON s.org = f.org AND s.account = f.account AND s.sha256 = f.sha256" \
	" WHERE f.org = j.org AND f.job = j.job), '{}')"
/* The labels of a job's options, which agents put into metrics. */
#define LABELS \
	"CASE WHEN j.options ? 'labels' THEN pg_catalog.jsonb_build_object(" \
	" 'labels', j.options -> 'labels') ELSE '{}' END"
/*
 * The wall limit in seconds, if the spec names a signal that the agent sends
 * some time before it.
 */
#define SIGNAL_LIMIT \
	"CASE WHEN j.spec ? 'signal' AND a.wall_limit IS NOT NULL THEN" \
	" pg_catalog.jsonb_build_object('wall_seconds', pg_catalog.date_part(" \
	" 'epoch', a.wall_limit)::bigint) ELSE '{}' END"
/*
 * The part of the job's cpu and memory that belongs to its GPUs on this node,
 * rounded up.
 */
#define HERE(whole) \
	"((" whole " * GREATEST(gpucredit.gpu_count(g.gpus), 1)" \
	" + GREATEST(a.gpus, 1) - 1) / GREATEST(a.gpus, 1))"
/*
 * Reads the attempts that the node should run. For a gang, "p" has all its
 * nodes and their addresses; otherwise the columns of "p" are NULL. A part
 * that has ended is not sent again.
 */
SQL_STATEMENT(node_work, SPI_OK_SELECT, "text, text, text",
			  "SELECT" ATTEMPT_COLUMNS ", g.gpus, g.share,"
			  " CASE WHEN a.running_at IS NULL"
			  "  OR p.nodes IS NOT NULL AND g.seen_at IS NULL"
			  "  THEN " OWN_SPEC " || " STORED_FILES " || " RESUME_FROM
			  "   || " SIGNAL_LIMIT " || " STEP_KEY " || " LABELS
			  " ELSE " OWN_SPEC " END,"
			  " j.traceparent, COALESCE(p.nodes, ARRAY[g.node]),"
			  " p.nodes IS NOT NULL AND g.seen_at IS NULL,"
			  " COALESCE(p.addresses, ARRAY[$3]), COALESCE("
			  "  j.spec ->> 'checkpoint_to', (SELECT l.policy ->> 'checkpoints'"
			  "   FROM gpucredit.pool l WHERE l.pool = $1)),"
			  " NULLIF(" HERE("j.cpu_milli") ", 0),"
			  " NULLIF(" HERE("j.memory_mib") ", 0), j.account,"
			  " COALESCE(p.gpus, ARRAY[gpucredit.gpu_count(g.gpus)])"
			  " FROM gpucredit.attempt_gpu g"
			  " JOIN gpucredit.attempt a ON a.org = g.org AND a.job = g.job"
			  "  AND a.attempt = g.attempt"
			  " JOIN gpucredit.job j ON j.org = g.org AND j.job = g.job"
			  " CROSS JOIN LATERAL (SELECT"
			  "  pg_catalog.array_agg(o.node ORDER BY o.node),"
			  "  pg_catalog.array_agg(m.about ->> 'address' ORDER BY o.node),"
			  "  pg_catalog.array_agg(gpucredit.gpu_count(o.gpus)"
			  "   ORDER BY o.node)"
			  "  FROM gpucredit.attempt_gpu o"
			  "  LEFT JOIN gpucredit.node m ON m.node = o.node"
			  "  WHERE gpucredit.gpu_count(g.gpus) < a.gpus"
			  "  AND o.org = g.org AND o.job = g.job"
			  "  AND o.attempt = g.attempt OFFSET 0) p (nodes, addresses, gpus)"
			  " WHERE g.pool = $1 AND g.node = $2 AND NOT g.free"
			  " AND g.ended_at IS NULL AND (p.nodes IS NULL OR NOT EXISTS"
			  "  (SELECT FROM gpucredit.attempt_part e WHERE e.org = g.org"
			  "   AND e.job = g.job AND e.attempt = g.attempt"
			  "   AND e.node = g.node)) ORDER BY g.org, g.job");

#define GPUS_COLUMN		(ATTEMPT_WIDTH + 1)
#define SHARE_COLUMN	(ATTEMPT_WIDTH + 2)
#define SPEC_COLUMN		(ATTEMPT_WIDTH + 3)
#define TRACE_COLUMN	(ATTEMPT_WIDTH + 4)
#define NODES_COLUMN	(ATTEMPT_WIDTH + 5)
#define UNSEEN_COLUMN	(ATTEMPT_WIDTH + 6)
#define ADDRESSES_COLUMN	(ATTEMPT_WIDTH + 7)
#define SAVE_TO_COLUMN	(ATTEMPT_WIDTH + 8)
#define CPU_COLUMN		(ATTEMPT_WIDTH + 9)
#define MEMORY_COLUMN	(ATTEMPT_WIDTH + 10)
#define ACCOUNT_COLUMN	(ATTEMPT_WIDTH + 11)
#define COUNTS_COLUMN	(ATTEMPT_WIDTH + 12)

/*
 * Number of columns of the result behind "save". They are null for an orphan.
 */
#define COLUMNS_OF_START	10

/*
 * So many bytes of specs are sent in one answer, and the spec that passes the
 * limit.
 */
#define ANSWER_BYTES	(16 * 1024 * 1024)

static void beat(FunctionCallInfo fcinfo, NodeBeat *beat);
static void compare_about(NodeBeat *beat, SqlResult row);
static void audit_health(const NodeBeat *beat, GpuSet before);
static void move_fences(const NodeBeat *beat);
static void put_work(ReturnSetInfo *rsinfo, NodeBeat *beat);
static bool fits_answer(const MeterAnswer *answer, SqlResult rows, uint64 i,
						Size *bytes);
static void put_column(Values *row, SqlResult rows, uint64 i, int column);
static MeterAnswer answer_part(const NodeBeat *beat, const Attempt *attempt,
							   GpuSet gpus, bool begun);
static bool strike_out(Running *running, const Attempt *attempt);
static void note_begun(const NodeBeat *beat, const Running *begun);
static void put_orphans(ReturnSetInfo *rsinfo, const NodeBeat *beat);

Datum
call_heartbeat(PG_FUNCTION_ARGS)
{
	NodeBeat	heard = {.node = ArgName(fcinfo, 0, "node")};

	InitMaterializedSRF(fcinfo, 0);
	ParseRunning(fcinfo, 2, &heard.running);
	heard.about = ParseNodeReport(fcinfo, 3);
	SqlConnect();
	beat(fcinfo, &heard);
	move_fences(&heard);
	put_work((ReturnSetInfo *) fcinfo->resultinfo, &heard);
	SqlFinish();
	return (Datum) 0;
}

/* Stores the heartbeat in the node's row, with what the agent reports. */
static void
beat(FunctionCallInfo fcinfo, NodeBeat *beat)
{
	GpuSet		healthy = PG_ARGISNULL(1) ? 0 : PG_GETARG_GPUSET(1);
	SqlResult	row;
	int32		gpus;
	bool		isnull;
	GpuSet		before;
	bool		may = AsyncCommitMay(fcinfo);

	row = SqlRun(&node_beat,
				 VALUES(TextValue(beat->node),
						PG_ARGISNULL(1) ? NullValue() :
						DatumValue(GpuSetGetDatum(healthy)),
						BoolValue(beat->running.orgs != NULL),
						JsonValue(beat->about.json)));
	if (row.n == 0)
		NotFoundNode(beat->node);
	gpus = SqlInt4(row, 0, 2);
	if (gpus < 64 && (healthy >> gpus) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"healthy\" names a device that node \"%s\" does not "
						"have", ClipForMessage(beat->node)),
				 errdetail("It has %d devices, numbered from 0.", gpus),
				 errhint("Pass a subset of its devices, or NULL for all.")));
	beat->pool = SqlText(row, 0, 1);
	beat->healthy = DatumGetGpuSet(SqlDatum(row, 0, 3, &isnull));
	before = DatumGetGpuSet(SqlDatum(row, 0, 4, &isnull));
	beat->now = SqlTime(row, 0, 5);
	/* If only heard_at changed, the commit need not wait for the disk. */
	AsyncCommitAllow(may && before == beat->healthy && SqlBool(row, 0, 8));
	compare_about(beat, row);
	if (before != beat->healthy)
		audit_health(beat, before);
}

/*
 * Compares the report about the node with the earlier one, and audits a
 * restart of the machine.
 */
static void
compare_about(NodeBeat *beat, SqlResult row)
{
	bool		isnull;
	Datum		json = SqlDatum(row, 0, 6, &isnull);
	About		before = AboutOf(isnull ? NULL : DatumGetJsonbPCopy(json));
	AuditRow	audit = {.operation = "heartbeat", .decision = "rebooted",
		.at = beat->now};

	beat->address = beat->about.json != NULL ? beat->about.address :
		before.address;
	beat->rebooted = AboutFollows(beat->node, &beat->about, &before,
								  SqlText(row, 0, 7));
	if (!beat->rebooted)
		return;
	AuditText(&audit, "node", beat->node);
	AuditText(&audit, "pool", beat->pool);
	AuditText(&audit, "was", before.boot_id);
	AuditText(&audit, "boot_id", beat->about.boot_id);
	AuditWrite(&audit);
}

/* Audits and logs devices that went out of service or came back. */
static void
audit_health(const NodeBeat *beat, GpuSet before)
{
	char	   *reasons = AboutOutOfService(&beat->about);
	StringInfo	line;
	AuditRow	audit = {.operation = "heartbeat", .at = beat->now,
		.decision = before & ~beat->healthy ? "device_failed" :
		"device_back"};

	AuditText(&audit, "node", beat->node);
	AuditText(&audit, "pool", beat->pool);
	AuditText(&audit, "was", GpuSetToCString(before));
	AuditText(&audit, "healthy", GpuSetToCString(beat->healthy));
	if (reasons != NULL)
		AuditNumber(&audit, "out_of_service", reasons);
	AuditWrite(&audit);
	if (beat->healthy & ~before)
		WakePool(beat->pool);

	line = LogBegin(audit.decision);
	LogText(line, "node", beat->node);
	LogText(line, "pool", beat->pool);
	LogText(line, "was", GpuSetToCString(before));
	LogText(line, "healthy", GpuSetToCString(beat->healthy));
	if (reasons != NULL)
		LogText(line, "out_of_service", reasons);
	LogAtCommit(line);
}

/*
 * Frees devices of ended attempts that the agent no longer reports as running.
 */
static void
move_fences(const NodeBeat *beat)
{
	SqlResult	rows;

	if (beat->running.orgs == NULL && !beat->rebooted)
		return;
	rows = SqlRun(&fences_note,
				  VALUES(TextValue(beat->pool), TextValue(beat->node),
						 TextArrayValue(beat->running.orgs, beat->running.n),
						 Int8ArrayValue(beat->running.jobs, beat->running.n),
						 Int4ArrayValue(beat->running.attempts,
										beat->running.n),
						 TimeValue(beat->now)));
	for (uint64 i = 0; i < rows.n; i++)
	{
		if (SqlBool(rows, i, 1))
			WakePool(beat->pool);
	}
}

/* Returns what the node should run and what it must stop. */
static void
put_work(ReturnSetInfo *rsinfo, NodeBeat *beat)
{
	bool		reports = beat->running.orgs != NULL;
	SqlResult	rows;
	Running		begun;
	Size		bytes = 0;

	rows = SqlRun(&node_work,
				  VALUES(TextValue(beat->pool), TextValue(beat->node),
						 TextValue(beat->address)));
	begun = RunningRoom(rows.n);
	for (uint64 i = 0; i < rows.n; i++)
	{
		Attempt		attempt;
		bool		isnull;
		Datum		gpus = SqlDatum(rows, i, GPUS_COLUMN, &isnull);
		bool		unseen = reports && SqlBool(rows, i, UNSEEN_COLUMN);
		bool		named;
		MeterAnswer answer;
		bool		leaves;
		Values	   *row;

		CHECK_FOR_INTERRUPTS();
		AttemptFrom(rows, i, &attempt);
		named = strike_out(&beat->running, &attempt);
		if (unseen && named)
		{
			begun.orgs[begun.n] = attempt.org;
			begun.jobs[begun.n] = attempt.job;
			begun.attempts[begun.n++] = attempt.attempt;
		}
		answer = answer_part(beat, &attempt, DatumGetGpuSet(gpus),
							 attempt.running && (named || !unseen));
		if (!fits_answer(&answer, rows, i, &bytes))
			continue;
		leaves = attempt.directed ||
			(strcmp(answer.action, "continue") != 0 &&
			 strcmp(answer.action, "start") != 0);
		row = VALUES(TextValue(attempt.org), Int8Value(attempt.job),
					 Int4Value(attempt.attempt), TextValue(answer.action),
					 DatumValue(gpus));
		put_column(row, rows, i, SHARE_COLUMN);
		ValuesAdd(row, TimeValueOrNull(leaves ? answer.deadline : DT_NOEND),
				  DurationValueOrNull(leaves ? answer.time_left : -1));
		put_column(row, rows, i, SPEC_COLUMN);
		ValuesAdd(row, TextValue(answer.reason), BoolValue(answer.save));
		put_column(row, rows, i, TRACE_COLUMN);
		put_column(row, rows, i, NODES_COLUMN);
		put_column(row, rows, i, ADDRESSES_COLUMN);
		ValuesAdd(row,
				  TextValue(CheckpointPath(SqlText(rows, i, SAVE_TO_COLUMN),
										   &attempt)), NullValue(),
				  TimeValueOrNull(attempt.started_at));
		put_column(row, rows, i, CPU_COLUMN);
		put_column(row, rows, i, MEMORY_COLUMN);
		put_column(row, rows, i, ACCOUNT_COLUMN);
		put_column(row, rows, i, COUNTS_COLUMN);
		RowPut(rsinfo, row);
	}
	put_orphans(rsinfo, beat);
	LogWishesPut(rsinfo, beat->node, beat->now);
	SessionsPut(rsinfo, beat->node, beat->about.json, beat->now);
	SignalsPut(rsinfo, beat->node, beat->about.json, beat->now);
	IdleNoteTyped(beat->node, beat->about.json, beat->now);
	note_begun(beat, &begun);
}

/*
 * Whether an order to start still fits into the answer.  Specs have scripts of
 * up to a megabyte, so the starts that follow the first ANSWER_BYTES wait for
 * the next heartbeat, which the agent sends once it has started these.
 */
static bool
fits_answer(const MeterAnswer *answer, SqlResult rows, uint64 i, Size *bytes)
{
	bool		isnull;
	Datum		spec = SqlDatum(rows, i, SPEC_COLUMN, &isnull);

	if (strcmp(answer->action, "start") != 0)
		return true;
	if (*bytes >= ANSWER_BYTES)
		return false;
	*bytes += toast_raw_datum_size(spec);
	return true;
}

static void
put_column(Values *row, SqlResult rows, uint64 i, int column)
{
	bool		isnull;
	Datum		value = SqlDatum(rows, i, column, &isnull);

	ValuesAdd(row, isnull ? NullValue() : DatumValue(value));
}

/*
 * Computes the answer for an attempt on this node. An attempt that has a
 * failed device, or whose machine was restarted, must end.
 */
static MeterAnswer
answer_part(const NodeBeat *beat, const Attempt *attempt, GpuSet gpus,
			bool begun)
{
	static const MeterAnswer broken = {"stop", "device_failed", 0, 0,
		DT_NOEND, 0,
		false};
	MeterAnswer answer;

	if ((gpus & ~beat->healthy) != 0)
	{
		DeviceFailed(attempt, beat->node, beat->now);
		answer = broken;
		answer.deadline = beat->now;
		return answer;
	}
	answer = AnswerLive(attempt, beat->now);
	if ((beat->rebooted && begun) ||
		(answer.reason != NULL && strcmp(answer.reason, NODE_REBOOTED) == 0))
	{
		NodeRebooted(attempt, beat->node, beat->now);
		answer = broken;
		answer.reason = NODE_REBOOTED;
		answer.deadline = beat->now;
		return answer;
	}
	if (!begun && strcmp(answer.action, "continue") == 0)
		answer.action = "start";
	return answer;
}

/*
 * Whether the agent reports an attempt that should run on the node. If so, the
 * attempt is removed from the report, so that only orphans remain in it.
 */
static bool
strike_out(Running *running, const Attempt *attempt)
{
	bool		named = false;

	for (int r = 0; r < running->n; r++)
	{
		if (running->jobs[r] == attempt->job &&
			running->attempts[r] == attempt->attempt &&
			running->orgs[r] != NULL &&
			strcmp(running->orgs[r], attempt->org) == 0)
		{
			running->orgs[r] = NULL;
			named = true;
		}
	}
	return named;
}

/* Stores which parts of gangs a heartbeat names for the first time. */
static void
note_begun(const NodeBeat *beat, const Running *begun)
{
	if (begun->n == 0)
		return;
	SqlRun(&parts_begun,
		   VALUES(TextValue(beat->node), TextArrayValue(begun->orgs, begun->n),
				  Int8ArrayValue(begun->jobs, begun->n),
				  Int4ArrayValue(begun->attempts, begun->n),
				  TimeValue(beat->now)));
}

/*
 * Orders the agent to stop the attempts that it reports but that should not
 * run on the node.
 */
static void
put_orphans(ReturnSetInfo *rsinfo, const NodeBeat *beat)
{
	const Running *running = &beat->running;

	for (int r = 0; r < running->n; r++)
	{
		Values	   *row;

		CHECK_FOR_INTERRUPTS();
		if (running->orgs[r] == NULL)
			continue;
		OrphanFence(beat->pool, beat->node, running->orgs[r],
					running->jobs[r], running->attempts[r], beat->now);
		row = VALUES(TextValue(running->orgs[r]), Int8Value(running->jobs[r]),
					 Int4Value(running->attempts[r]), TextValue("stop"),
					 NullValue(), NullValue(), TimeValueOrNull(beat->now),
					 DurationValueOrNull(0), NullValue(), TextValue("over"),
					 BoolValue(false));
		for (int c = 0; c < COLUMNS_OF_START; c++)
			ValuesAdd(row, NullValue());
		RowPut(rsinfo, row);
	}
}
