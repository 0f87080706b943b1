/*-------------------------------------------------------------------------
 *
 * heartbeat.c
 *		A node's sign of life, and what it should be doing.
 *
 * What the agent says really runs there (running) is what fencing goes by:
 * devices of an attempt that ended without its agent's word are free once a
 * heartbeat came without it.
 *
 * Locks: the node's row, and rows of attempt_gpu of attempts that are over.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/args.h"
#include "common/clock.h"
#include "common/errors.h"
#include "common/sql.h"
#include "entry/entry.h"
#include "miscadmin.h"
#include "shmem/wake.h"
#include "types/clip.h"
#include "types/gpuset.h"
#include "utils/array.h"
#include "utils/builtins.h"

ENTRY_POINT(heartbeat);

/* What an agent says it runs. */
typedef struct Running
{
	int			n;
	const char **orgs;
	int64	   *jobs;
	int32	   *attempts;
} Running;

SQL_STATEMENT(node_beat, SPI_OK_UPDATE_RETURNING,
			  "text, gpucredit.gpuset, timestamptz, boolean",
			  "UPDATE gpucredit.node n SET healthy = COALESCE($2,"
			  "  CASE WHEN n.gpus = 0 THEN '{}'"
			  "  ELSE '{0-' || n.gpus - 1 || '}' END::gpucredit.gpuset), heard_at = $3,"
			  " tells_running = n.tells_running OR $4"
			  " WHERE n.node = $1 RETURNING n.pool, n.gpus");
SQL_STATEMENT(fence_release, SPI_OK_UPDATE,
			  "text, text, text[], bigint[], int[]",
			  "UPDATE gpucredit.attempt_gpu g SET free = true"
			  " WHERE g.pool = $1 AND g.node = $2 AND NOT g.free"
			  " AND g.ended_at IS NOT NULL AND NOT EXISTS"
			  " (SELECT FROM ROWS FROM (pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4), pg_catalog.unnest($5))"
			  "  AS r (org, job, attempt) WHERE r.org = g.org"
			  "  AND r.job = g.job AND r.attempt = g.attempt)");
/* where an attempt "a" goes on, as a member of its spec */
#define RESUME_FROM \
	"COALESCE((SELECT pg_catalog.jsonb_build_object('checkpoint'," \
	" pg_catalog.jsonb_build_object('attempt', c.attempt, 'step', c.step," \
	" 'uri', c.uri, 'sha256', pg_catalog.encode(c.sha256, 'hex')," \
	" 'size_bytes', c.size_bytes)) FROM gpucredit.checkpoint c" \
	" WHERE c.org = a.org AND c.job = a.job AND c.attempt < a.attempt" \
	" ORDER BY c.attempt DESC, c.step DESC LIMIT 1), '{}')"
SQL_STATEMENT(node_work, SPI_OK_SELECT, "text, text, timestamptz",
			  "SELECT g.org, g.job, g.attempt,"
			  " CASE WHEN d.action = 'stop' OR d.deadline <= $3 THEN 'stop'"
			  "  WHEN d.action IS NOT NULL THEN d.action"
			  "  WHEN a.running_at IS NULL THEN 'start' ELSE 'continue' END,"
			  " g.gpus, g.share, CASE WHEN d.action = 'stop'"
			  "  OR d.deadline <= $3 THEN $3 ELSE d.deadline END,"
			  " CASE WHEN a.running_at IS NULL"
			  "  THEN j.spec || " RESUME_FROM " ELSE j.spec END"
			  " FROM gpucredit.attempt_gpu g"
			  " JOIN gpucredit.attempt a ON a.org = g.org AND a.job = g.job"
			  "  AND a.attempt = g.attempt"
			  " JOIN gpucredit.job j ON j.org = g.org AND j.job = g.job"
			  " LEFT JOIN LATERAL (SELECT d.action, d.deadline"
			  "  FROM gpucredit.directive d WHERE d.org = g.org"
			  "  AND d.job = g.job AND d.attempt = g.attempt"
			  "  ORDER BY d.action = 'stop' DESC, d.deadline, d.cause"
			  "  LIMIT 1) d ON true"
			  " WHERE g.pool = $1 AND g.node = $2 AND NOT g.free"
			  " AND g.ended_at IS NULL ORDER BY g.org, g.job");

static void take_running(FunctionCallInfo fcinfo, Running *running);
static void parse_running(char *text, Running *running);
static pg_attribute_noreturn() void refuse_running(const char *text);
static char *beat(FunctionCallInfo fcinfo, const char *node,
				  const Running *running, TimestampTz now);
static void put_work(ReturnSetInfo *rsinfo, const char *pool,
					 const char *node, Running *running, TimestampTz now);
static void put_strays(ReturnSetInfo *rsinfo, const Running *running,
					   TimestampTz now);

Datum
call_heartbeat(PG_FUNCTION_ARGS)
{
	char	   *node = ArgName(fcinfo, 0, "node");
	Running		running;
	char	   *pool;
	TimestampTz now;

	InitMaterializedSRF(fcinfo, 0);
	take_running(fcinfo, &running);
	SqlConnect();
	now = ClockNow();
	pool = beat(fcinfo, node, &running, now);
	if (running.orgs != NULL)
	{
		SqlArgs		args = {0};

		SqlArgText(&args, pool);
		SqlArgText(&args, node);
		SqlArgTextArray(&args, running.orgs, running.n);
		SqlArgInt8Array(&args, running.jobs, running.n);
		SqlArgInt4Array(&args, running.attempts, running.n);
		if (SqlRun(&fence_release, &args).n > 0)
			WakePool(pool);
	}
	put_work((ReturnSetInfo *) fcinfo->resultinfo, pool, node, &running, now);
	SqlFinish();
	return (Datum) 0;
}

/*
 * The argument "running": NULL (not told), or 'org/job/attempt' each.
 */
static void
take_running(FunctionCallInfo fcinfo, Running *running)
{
	ArrayType  *array;
	Datum	   *elems;
	bool	   *nulls;
	int			n;

	memset(running, 0, sizeof(Running));
	if (PG_ARGISNULL(2))
		return;
	array = PG_GETARG_ARRAYTYPE_P(2);
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elems, &nulls,
					  &n);
	running->orgs = palloc(sizeof(char *) * (n + 1));
	running->jobs = palloc(sizeof(int64) * (n + 1));
	running->attempts = palloc(sizeof(int32) * (n + 1));
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (nulls[i])
			refuse_running("NULL");
		parse_running(TextDatumGetCString(elems[i]), running);
	}
}

/*
 * 'org/job/attempt', where org itself may have slashes.
 */
static void
parse_running(char *text, Running *running)
{
	char	   *copy = pstrdup(text);
	char	   *attempt = strrchr(copy, '/');
	char	   *job;
	char	   *end;
	long		number;

	if (attempt == NULL)
		refuse_running(text);
	*attempt++ = '\0';
	job = strrchr(copy, '/');
	if (job == NULL || job == copy)
		refuse_running(text);
	*job++ = '\0';
	errno = 0;
	number = strtol(attempt, &end, 10);
	if (errno != 0 || end == attempt || *end != '\0' || number < 1 ||
		number > PG_INT32_MAX)
		refuse_running(text);
	running->attempts[running->n] = (int32) number;
	running->jobs[running->n] = strtoi64(job, &end, 10);
	if (errno != 0 || end == job || *end != '\0')
		refuse_running(text);
	running->orgs[running->n++] = copy;
}

static void
refuse_running(const char *text)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("malformed element \"%s\" of \"running\"",
					ClipForMessage(text)),
			 errdetail("Each names an attempt."),
			 errhint("Write 'org/job/attempt', as heartbeat() returned "
					 "them.")));
}

/*
 * Note that the node lives; returns its pool.
 */
static char *
beat(FunctionCallInfo fcinfo, const char *node, const Running *running,
	 TimestampTz now)
{
	GpuSet		healthy = PG_ARGISNULL(1) ? 0 : PG_GETARG_GPUSET(1);
	SqlArgs		args = {0};
	SqlResult	row;
	int32		gpus;

	SqlArgText(&args, node);
	if (PG_ARGISNULL(1))
		SqlArgNull(&args);
	else
		SqlArg(&args, GpuSetGetDatum(healthy));
	SqlArgTime(&args, now);
	SqlArgBool(&args, running->orgs != NULL);
	row = SqlRun(&node_beat, &args);
	if (row.n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_GPUCREDIT_NO_POOL),
				 errmsg("no such node \"%s\"", ClipForMessage(node)),
				 errdetail("No node of that name is registered."),
				 errhint("Register it by gpucredit.register_node().")));
	gpus = SqlInt4(row, 0, 2);
	if (gpus < 64 && (healthy >> gpus) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"healthy\" names a device the node has not"),
				 errdetail("Node \"%s\" has %d devices, numbered from 0.",
						   ClipForMessage(node), gpus),
				 errhint("Pass a subset of its devices, or NULL for all.")));
	return SqlText(row, 0, 1);
}

/*
 * What the node should be doing, and what it does that it should not.
 */
static void
put_work(ReturnSetInfo *rsinfo, const char *pool, const char *node,
		 Running *running, TimestampTz now)
{
	SqlArgs		args = {0};
	SqlResult	rows;

	SqlArgText(&args, pool);
	SqlArgText(&args, node);
	SqlArgTime(&args, now);
	rows = SqlRun(&node_work, &args);
	for (uint64 i = 0; i < rows.n; i++)
	{
		char	   *org = SqlText(rows, i, 1);
		int64		job = SqlInt8(rows, i, 2);
		int32		attempt = SqlInt4(rows, i, 3);
		TimestampTz deadline = SqlTimeOr(rows, i, 7, DT_NOEND);
		Row			row = {0};

		for (int r = 0; r < running->n; r++)
		{
			if (running->jobs[r] == job && running->attempts[r] == attempt &&
				running->orgs[r] != NULL && strcmp(running->orgs[r], org) == 0)
				running->orgs[r] = NULL;
		}
		for (int column = 1; column <= 6; column++)
		{
			bool		isnull;

			RowAdd(&row, SqlDatum(rows, i, column, &isnull));
		}
		RowTime(&row, deadline);
		RowDuration(&row, deadline == DT_NOEND ? -1 :
					Max(deadline - now, 0));
		{
			bool		isnull;

			RowAdd(&row, SqlDatum(rows, i, 8, &isnull));
		}
		RowPut(rsinfo, &row);
	}
	put_strays(rsinfo, running, now);
}

/*
 * Whatever runs and is not the node's any more is to stop.
 */
static void
put_strays(ReturnSetInfo *rsinfo, const Running *running, TimestampTz now)
{
	for (int r = 0; r < running->n; r++)
	{
		Row			row = {0};

		if (running->orgs[r] == NULL)
			continue;
		RowText(&row, running->orgs[r]);
		RowAdd(&row, Int64GetDatum(running->jobs[r]));
		RowAdd(&row, Int32GetDatum(running->attempts[r]));
		RowText(&row, "stop");
		RowNull(&row);
		RowNull(&row);
		RowTime(&row, now);
		RowDuration(&row, 0);
		RowNull(&row);
		RowPut(rsinfo, &row);
	}
}
