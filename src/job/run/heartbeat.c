/*-------------------------------------------------------------------------
 *
 * heartbeat.c
 *		A node's sign of life, and what it should be doing.
 *
 * Fencing goes by "running", the agent's report of what runs there. Devices of
 * an attempt that ended without its agent's word are free once a heartbeat
 * does not name it. "healthy" holds until the next report; attempts with a
 * failed device end (device.c).
 *
 * The nodes of a gang start one after another, and one agent meters for all.
 * So a node is told to start its part until its heartbeat names it in
 * "running", even if the attempt runs already. An agent that does not report
 * "running" is told until the attempt runs.
 *
 * The report about the machine (node_report.c): after a restart, everything
 * that ran there is over (reboot.c), and fences for it end.
 *
 * Locks: the node's row, and rows of attempt_gpu of attempts that are over.
 * Without waiting: for an attempt with a failed device, as device.c says; for
 * an orphan, as orphan_attempt.c says; last, rows of gangs that begin here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

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
#include "job/end/device.h"
#include "job/run/log_wish.h"
#include "job/run/meter.h"
#include "job/run/reboot.h"
#include "job/run/running.h"
#include "job/run/orphan_attempt.h"
#include "miscadmin.h"
#include "shmem/wake.h"
#include "types/clip.h"
#include "types/gpuset.h"
#include "utils/array.h"
#include "utils/builtins.h"

API_FUNCTION(gpucredit_heartbeat, heartbeat);

/* One heartbeat: the report, and the node's present state. */
typedef struct NodeBeat
{
	char	   *node;
	char	   *pool;
	GpuSet		healthy;
	Running		running;
	About		about;
	const char *address;		/* the node's, if it was ever reported */
	bool		rebooted;		/* its machine, since the last heartbeat */
	TimestampTz now;
} NodeBeat;

/*
 * heard_at is when the row was free: a heartbeat that waited long is not
 * silence
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
 * of attempts that are over: free if the agent does not name it, else noted
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
 * a gang's part begins here; if the row is locked, the next heartbeat repeats
 * it
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
 * An agent's row about a job "j", and its attempt's checkpoint to start from.
 */
/*
 * The pool's policy says for how many seconds devices wait for an image; no
 * submitter says it.
 */
#define OWN_SPEC \
	"(CASE WHEN j.spec ? 'image' THEN j.spec - '{checkpoint,image_wait}'" \
	"::pg_catalog.text[] || COALESCE((SELECT" \
	" pg_catalog.jsonb_build_object('image_wait', pg_catalog.date_part(" \
	" 'epoch', (l.policy ->> 'image_wait')::interval)::bigint)" \
	" FROM gpucredit.pool l WHERE l.pool = $1" \
	" AND l.policy ? 'image_wait'), '{}')" \
	" ELSE j.spec - 'checkpoint' END)"
#define RESUME_FROM \
	"COALESCE((SELECT pg_catalog.jsonb_build_object('checkpoint'," \
	" pg_catalog.jsonb_build_object('attempt', c.attempt, 'step', c.step," \
	" 'uri', c.uri, 'sha256', pg_catalog.encode(c.sha256, 'hex')," \
	" 'size_bytes', c.size_bytes)) FROM gpucredit.checkpoint c" \
	" WHERE c.org = a.org AND c.job = a.job AND c.attempt < a.attempt" \
	" AND c.bad_at IS NULL" \
	" ORDER BY c.attempt DESC, c.step DESC LIMIT 1), '{}')"
/*
 * The secret that the nodes of a gang share whose script runs on the first one
 * alone: the others run what that script starts there (agent/step_serve.c).
 */
#define STEP_KEY \
	"CASE WHEN p.nodes IS NOT NULL AND j.spec ->> 'launch' = 'once' THEN" \
	" (SELECT pg_catalog.jsonb_build_object('step_key', pg_catalog.encode(" \
	"  pg_catalog.sha256(s.secret || pg_catalog.convert_to(" \
	"  pg_catalog.jsonb_build_array(a.org, a.job, a.attempt, a.started_at)" \
	"  ::text, 'UTF8')), 'hex')) FROM gpucredit.step_secret s)" \
	" ELSE '{}' END"
/* the part of the job's cpu and memory for its GPUs on this node */
#define HERE(whole) \
	"((" whole " * GREATEST(gpucredit.gpu_count(g.gpus), 1)" \
	" + GREATEST(a.gpus, 1) - 1) / GREATEST(a.gpus, 1))"
/*
 * For a gang, "p" has its nodes and their addresses, else NULL. A part that
 * ended is not told again.
 */
SQL_STATEMENT(node_work, SPI_OK_SELECT, "text, text, text",
			  "SELECT" ATTEMPT_COLUMNS ", g.gpus, g.share,"
			  " CASE WHEN a.running_at IS NULL"
			  "  OR p.nodes IS NOT NULL AND g.seen_at IS NULL"
			  "  THEN " OWN_SPEC " || " RESUME_FROM " || " STEP_KEY
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

/* of the result, behind "save" */
#define COLUMNS_OF_START	10

static void beat(FunctionCallInfo fcinfo, NodeBeat *beat);
static void compare_about(NodeBeat *beat, SqlResult row);
static void audit_health(const NodeBeat *beat, GpuSet before);
static void move_fences(const NodeBeat *beat);
static void put_work(ReturnSetInfo *rsinfo, NodeBeat *beat);
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
	RunningTake(fcinfo, 2, &heard.running);
	heard.about = AboutTake(fcinfo, 3);
	SqlConnect();
	beat(fcinfo, &heard);
	move_fences(&heard);
	put_work((ReturnSetInfo *) fcinfo->resultinfo, &heard);
	SqlFinish();
	return (Datum) 0;
}

/*
 * Note that the node lives, and its reports.
 */
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
	/* only that it was heard of */
	AsyncCommitAllow(may && before == beat->healthy && SqlBool(row, 0, 8));
	compare_about(beat, row);
	if (before != beat->healthy)
		audit_health(beat, before);
}

/*
 * Merge the report about the node into the earlier ones.
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

/*
 * Log, and audit, devices that went out of service or came back.
 */
static void
audit_health(const NodeBeat *beat, GpuSet before)
{
	StringInfo	line;
	AuditRow	audit = {.operation = "heartbeat", .at = beat->now,
		.decision = before & ~beat->healthy ? "device_failed" :
		"device_back"};

	AuditText(&audit, "node", beat->node);
	AuditText(&audit, "pool", beat->pool);
	AuditText(&audit, "was", GpuSetToCString(before));
	AuditText(&audit, "healthy", GpuSetToCString(beat->healthy));
	AuditWrite(&audit);
	if (beat->healthy & ~before)
		WakePool(beat->pool);

	line = LogBegin(audit.decision);
	LogText(line, "node", beat->node);
	LogText(line, "pool", beat->pool);
	LogText(line, "was", GpuSetToCString(before));
	LogText(line, "healthy", GpuSetToCString(beat->healthy));
	LogAtCommit(line);
}

/*
 * The reported attempts move the fences of ended ones.
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

/*
 * Answer what the node should run, and what it must stop.
 */
static void
put_work(ReturnSetInfo *rsinfo, NodeBeat *beat)
{
	bool		reports = beat->running.orgs != NULL;
	SqlResult	rows;
	Running		begun;

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
	note_begun(beat, &begun);
}

static void
put_column(Values *row, SqlResult rows, uint64 i, int column)
{
	bool		isnull;
	Datum		value = SqlDatum(rows, i, column, &isnull);

	ValuesAdd(row, isnull ? NullValue() : DatumValue(value));
}

/*
 * Answer for an attempt on this node; an attempt with a failed device must
 * end.
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
 * Is an attempt that should run here in the agent's report? If so, take it
 * out: the rest are orphans.
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

/*
 * Note the parts of gangs that a heartbeat names for the first time.
 */
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
 * Stop what runs here but is not the node's any more.
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
