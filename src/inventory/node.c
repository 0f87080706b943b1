/*-------------------------------------------------------------------------
 *
 * node.c
 *		Operators' calls about nodes: register, drain, remove.
 *
 * Each call locks the pool first, so that no scheduling cycle decides on a
 * node's former state.
 *
 * Locks: pool, then the node's row; then directives, without waiting, or the
 * devices of attempts that have ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/settings.h"
#include "util/sql.h"
#include "util/not_found.h"
#include "api/api.h"
#include "inventory/inventory.h"
#include "port/pg_bitutils.h"
#include "types/clip.h"
#include "types/gpureq.h"

API_FUNCTION(gpucredit_register_node, register_node);
API_FUNCTION(gpucredit_drain, drain);
API_FUNCTION(gpucredit_remove_node, remove_node);

/*
 * What attempts use on a node, including ended attempts that may still run and
 * whose devices are therefore fenced.
 */
typedef struct Taken
{
	int64		attempts;
	GpuSet		gpus;
	int64		cpu_milli;
	int64		memory_mib;
	int64		gpu_memory_mib; /* on the device on which shares use the most */
} Taken;

SQL_STATEMENT(node_pool, SPI_OK_SELECT, "text",
			  "SELECT n.pool FROM gpucredit.node n WHERE n.node = $1");
SQL_STATEMENT(node_lock, SPI_OK_SELECT, "text",
			  "SELECT n.pool, n.gpu_type, n.spot, n.gpus, n.cpu_milli,"
			  " n.memory_mib, n.gpu_memory_mib FROM gpucredit.node n"
			  " WHERE n.node = $1 FOR NO KEY UPDATE");
/* The directives of this node's drain whose rows are not locked by others. */
#define DRAIN_DIRECTIVES \
	"SELECT d.ctid FROM gpucredit.attempt_gpu g" \
	" JOIN gpucredit.directive d ON d.org = g.org AND d.job = g.job" \
	"  AND d.attempt = g.attempt AND d.cause = 'drain/' || $2" \
	" WHERE g.pool = $1 AND g.node = $2 AND NOT g.free" \
	" FOR NO KEY UPDATE OF d SKIP LOCKED"
#define NODE_TYPES \
	"text, text, text, int, bigint, bigint, bigint, text, text, boolean," \
	" jsonb, gpucredit.gpuset, timestamptz, text, bigint, bigint, bigint"
SQL_STATEMENT(node_insert, SPI_OK_INSERT, NODE_TYPES,
			  "INSERT INTO gpucredit.node (node, pool, gpu_type, gpus,"
			  " gpu_memory_mib, cpu_milli, memory_mib, nvlink_domain, leaf,"
			  " spot, labels, healthy, heard_at, registered_at, spine,"
			  " nvlink_mbps, leaf_mbps, spine_mbps)"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,"
			  " $13, $13, $14, $15, $16, $17) ON CONFLICT (node) DO NOTHING");
SQL_STATEMENT(node_update, SPI_OK_UPDATE, NODE_TYPES,
			  "UPDATE gpucredit.node n SET gpu_type = $3, gpus = $4,"
			  " gpu_memory_mib = $5, cpu_milli = $6, memory_mib = $7,"
			  " nvlink_domain = $8, leaf = $9, spot = $10, labels = $11,"
			  " spine = $14, nvlink_mbps = $15, leaf_mbps = $16,"
			  " spine_mbps = $17,"
			  " healthy = $12, heard_at = $13, reclaim_at ="
			  " CASE WHEN n.reclaim_at > $13 THEN n.reclaim_at END"
			  " WHERE n.node = $1 AND n.pool = $2");
SQL_STATEMENT(node_taken, SPI_OK_SELECT, "text, text, timestamptz",
			  "SELECT pg_catalog.count(*),"
			  " COALESCE(pg_catalog.sum(g.cpu_milli), 0)::bigint,"
			  " COALESCE(pg_catalog.sum(g.memory_mib), 0)::bigint"
			  " FROM gpucredit.attempt_gpu g"
			  " WHERE g.pool = $1 AND g.node = $2 AND NOT g.free"
			  " AND (g.ended_at IS NULL OR GREATEST(g.ended_at, g.seen_at) > $3)");
SQL_STATEMENT(node_devices, SPI_OK_SELECT, "text, text, timestamptz",
			  "SELECT g.gpus, g.share, g.gpu_memory_mib"
			  " FROM gpucredit.attempt_gpu g"
			  " WHERE g.pool = $1 AND g.node = $2 AND NOT g.free"
			  " AND (g.ended_at IS NULL OR GREATEST(g.ended_at, g.seen_at) > $3)");
SQL_STATEMENT(node_drain, SPI_OK_UPDATE, "text, text, timestamptz",
			  "UPDATE gpucredit.node n SET draining = $2,"
			  " drain_deadline = $3 WHERE n.node = $1");
SQL_STATEMENT(nodes_read, SPI_OK_SELECT, "text[]",
			  "SELECT n.node, n.pool FROM gpucredit.node n"
			  " WHERE n.node = ANY ($1)");
SQL_STATEMENT(nodes_lock, SPI_OK_SELECT, "text[]",
			  "SELECT n.node, n.pool FROM gpucredit.node n"
			  " WHERE n.node = ANY ($1) ORDER BY n.node FOR NO KEY UPDATE");
SQL_STATEMENT(nodes_reclaim, SPI_OK_UPDATE, "text[], timestamptz",
			  "UPDATE gpucredit.node n SET reclaim_at = $2"
			  " WHERE n.node = ANY ($1)");
SQL_STATEMENT(nodes_reclaim_earlier, SPI_OK_UPDATE_RETURNING,
			  "text[], timestamptz",
			  "UPDATE gpucredit.node n SET reclaim_at = $2"
			  " WHERE n.node = ANY ($1)"
			  " AND (n.reclaim_at IS NULL OR n.reclaim_at > $2)"
			  " RETURNING n.node, n.pool");
SQL_STATEMENT(node_fences_end, SPI_OK_UPDATE,
			  "text, text, timestamptz, timestamptz",
			  "UPDATE gpucredit.attempt_gpu g SET free = true, seen_at = $4"
			  " WHERE g.pool = $1 AND g.node = $2 AND NOT g.free"
			  " AND g.ended_at IS NOT NULL"
			  " AND GREATEST(g.ended_at, g.seen_at) <= $3");
/*
 * If the agent reports running attempts, the devices of ended attempts stay
 * fenced until its next report.
 */
SQL_STATEMENT(node_fences_anew, SPI_OK_UPDATE, "text, text, timestamptz",
			  "UPDATE gpucredit.attempt_gpu g SET seen_at = $3"
			  " FROM gpucredit.node n WHERE n.node = $2 AND n.tells_running"
			  " AND g.pool = $1 AND g.node = $2 AND NOT g.free"
			  " AND g.ended_at IS NOT NULL");
/* Requests that the node could not start (src/job/end/strike.c). */
SQL_STATEMENT(strikes_forget, SPI_OK_DELETE, "text",
			  "DELETE FROM gpucredit.node_strike s WHERE s.node = $1");
SQL_STATEMENT(node_delete, SPI_OK_DELETE, "text",
			  "DELETE FROM gpucredit.node n WHERE n.node = $1");
/*
 * Skips a directive that is locked: its attempt is being settled, and whoever
 * holds the pool's lock must not wait for that.
 */
SQL_STATEMENT(drain_change, SPI_OK_UPDATE,
			  "text, text, timestamptz, timestamptz",
			  "UPDATE gpucredit.directive d SET deadline = $3, given_at = $4"
			  " WHERE d.ctid = ANY (ARRAY(" DRAIN_DIRECTIVES "))");
SQL_STATEMENT(drain_tell, SPI_OK_INSERT,
			  "text, text, timestamptz, timestamptz",
			  "INSERT INTO gpucredit.directive (org, job, attempt, cause,"
			  " action, reason, deadline, given_at)"
			  " SELECT g.org, g.job, g.attempt, 'drain/' || g.node,"
			  " 'checkpoint', 'drain', $3, $4 FROM gpucredit.attempt_gpu g"
			  " WHERE g.pool = $1 AND g.node = $2 AND NOT g.free"
			  " AND g.ended_at IS NULL AND NOT EXISTS"
			  "  (SELECT FROM gpucredit.directive d WHERE d.org = g.org"
			  "   AND d.job = g.job AND d.attempt = g.attempt"
			  "   AND d.cause = 'drain/' || g.node)"
			  " ORDER BY g.org, g.job, g.attempt"
			  " ON CONFLICT (org, job, attempt, cause) DO NOTHING");
SQL_STATEMENT(drain_untell, SPI_OK_DELETE, "text, text",
			  "DELETE FROM gpucredit.directive d"
			  " WHERE d.ctid = ANY (ARRAY(" DRAIN_DIRECTIVES "))");

static void change_node(const GpuNode *node, TimestampTz now);
static void check_change(const GpuNode *node, SqlResult was,
						 TimestampTz fenced_since);
static Taken devices_used_on(const char *pool, const char *node,
							 int64 gpu_memory_mib, TimestampTz fenced_since);
static TimestampTz fences_since(TimestampTz now);
static void end_fences(const char *pool, const char *node,
					   TimestampTz fenced_since, TimestampTz now);
static void write_node(SqlStatement *statement, const GpuNode *node,
					   TimestampTz now, uint64 *n);
static NodePool *read_nodes(SqlStatement *statement, Values *args,
							const char **nodes, int n);
static int	compare_texts(const void *a, const void *b);
static int	compare_nodes(const void *a, const void *b);
static int	compare_pools(const void *a, const void *b);
static pg_attribute_noreturn() void refuse_state(const char *node,
												 const char *why,
												 const char *hint);

Datum
call_register_node(PG_FUNCTION_ARGS)
{
	GpuNode		node;
	TimestampTz now;
	uint64		n;

	NodeParse(fcinfo, &node);
	SqlConnect();
	PoolLock(node.pool, true);
	now = ClockNow();
	write_node(&node_insert, &node, now, &n);
	if (n == 0)
		change_node(&node, now);
	NodeAudit(fcinfo, "register_node", "registered", NULL, NULL);
	SqlFinish();
	PG_RETURN_VOID();
}

/*
 * Registers an existing node again.
 *
 * If the node is unchanged, its agent may have restarted and found running
 * processes.  So the devices of ended attempts stay fenced until the agent
 * reports, however long it was silent.  A changed node is another machine, on
 * which none of the former processes exist.
 */
static void
change_node(const GpuNode *node, TimestampTz now)
{
	TimestampTz fenced_since;
	uint64		n;
	SqlResult	row = SqlRun(&node_lock, VALUES(TextValue(node->node)));

	if (row.n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("node \"%s\" was removed meanwhile",
						ClipForMessage(node->node)),
				 errdetail("The node existed when this call began."),
				 errhint("Retry the transaction.")));
	now = ClockAfter(now);		/* after the wait for the node's lock */
	fenced_since = fences_since(now);
	check_change(node, row, fenced_since);
	if (strcmp(node->gpu_type, SqlText(row, 0, 2)) != 0 ||
		node->spot != SqlBool(row, 0, 3) ||
		node->gpus != SqlInt4(row, 0, 4) ||
		node->cpu_milli != SqlInt8(row, 0, 5) ||
		node->memory_mib != SqlInt8(row, 0, 6) ||
		node->gpu_memory_mib != SqlInt8(row, 0, 7))
		end_fences(node->pool, node->node, fenced_since, now);
	write_node(&node_update, node, now, &n);
	(void) SqlRun(&node_fences_anew,
				  VALUES(TextValue(node->pool), TextValue(node->node),
						 TimeValue(now)));
}

/* Reads the arguments of register_node(). */
void
NodeParse(FunctionCallInfo fcinfo, GpuNode *node)
{
	node->pool = ArgName(fcinfo, 0, "pool");
	node->node = ArgName(fcinfo, 1, "node");
	node->gpu_type = ArgName(fcinfo, 2, "gpu_type");
	if (!GpuTypeNameValid(node->gpu_type, strlen(node->gpu_type)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("malformed GPU type \"%s\"",
						ClipForMessage(node->gpu_type)),
				 errdetail("A request cannot name such a type."),
				 errhint("Use 1 to 63 bytes without \"|\", \"@\", \"*\" or "
						 "white space.")));
	node->gpus = ArgInt4(fcinfo, 3, "gpus", 0, DECIDE_MAX_DEVICES);
	node->gpu_memory_mib = ArgInt8(fcinfo, 4, "gpu_memory_mib", 0,
								   INT64CONST(1) << 40);
	node->cpu_milli = ArgInt8(fcinfo, 5, "cpu_milli", 0, INT64CONST(1) << 40);
	node->memory_mib = ArgInt8(fcinfo, 6, "memory_mib", 0,
							   INT64CONST(1) << 40);
	node->nvlink_domain = ArgNameOrNull(fcinfo, 7, "nvlink_domain");
	node->leaf = ArgNameOrNull(fcinfo, 8, "leaf");
	node->spot = ArgBool(fcinfo, 9, "spot");
	node->labels = ArgObject(fcinfo, 10, "labels");
	node->spine = ArgNameOrNull(fcinfo, 11, "spine");
	for (int i = 0; i < DECIDE_LEVELS; i++)
		node->mbps[i] = PG_ARGISNULL(12 + i) ? -1 :
			ArgInt8(fcinfo, 12 + i, TopologyMbpsWords[i], 0, MOST_MBPS);
}

/*
 * Raises an error if a node would change in a way that its attempts do not
 * allow.  After an upgrade of gpucredit, the shares on a device may need more
 * memory than the device has; such a node may still be registered with the
 * same memory.
 */
static void
check_change(const GpuNode *node, SqlResult was, TimestampTz fenced_since)
{
	Taken		taken;

	if (strcmp(SqlText(was, 0, 1), node->pool) != 0)
		refuse_state(node->node, "It belongs to another pool.",
					 "Remove it there first.");
	taken = devices_used_on(node->pool, node->node, node->gpu_memory_mib,
							fenced_since);
	if (taken.attempts == 0)
		return;
	if (strcmp(SqlText(was, 0, 2), node->gpu_type) != 0 ||
		SqlBool(was, 0, 3) != node->spot)
		refuse_state(node->node, "Attempts run on it, at the price of its "
					 "present type.", "Drain it first.");
	if ((node->gpus < DECIDE_MAX_DEVICES &&
		 (taken.gpus >> node->gpus) != 0) ||
		(node->cpu_milli > 0 && taken.cpu_milli > node->cpu_milli) ||
		(node->memory_mib > 0 && taken.memory_mib > node->memory_mib) ||
		(node->gpu_memory_mib < SqlInt8(was, 0, 7) &&
		 taken.gpu_memory_mib > node->gpu_memory_mib))
		refuse_state(node->node, "Running attempts use more than it would "
					 "have.",
					 "Drain it first.");
}

/*
 * Returns what attempts use on a node whose devices have the given memory.
 * Attempts that have ended but are not known to be gone are included.
 */
static Taken
devices_used_on(const char *pool, const char *node, int64 gpu_memory_mib,
				TimestampTz fenced_since)
{
	Taken		taken = {0};
	int64		memory[DECIDE_MAX_DEVICES] = {0};
	bool		isnull;
	Values	   *args = VALUES(TextValue(pool), TextValue(node),
							  TimeValue(fenced_since));
	SqlResult	rows = SqlRun(&node_devices, args);

	for (uint64 i = 0; i < rows.n; i++)
	{
		GpuSet		gpus = DatumGetGpuSet(SqlDatum(rows, i, 1, &isnull));

		taken.gpus |= gpus;
		for (; gpus != 0; gpus &= gpus - 1)
		{
			int64	   *on = &memory[pg_rightmost_one_pos64(gpus)];

			*on += DecideShareMemory(gpu_memory_mib, SqlInt4(rows, i, 2),
									 SqlInt8(rows, i, 3));
			taken.gpu_memory_mib = Max(taken.gpu_memory_mib, *on);
		}
	}
	rows = SqlRun(&node_taken, args);
	taken.attempts = SqlInt8(rows, 0, 1);
	taken.cpu_milli = SqlInt8(rows, 0, 2);
	taken.memory_mib = SqlInt8(rows, 0, 3);
	return taken;
}

/*
 * Returns the instant before which an ended attempt's fence has expired.  Its
 * row may exist for longer if no new work is placed there.
 */
static TimestampTz
fences_since(TimestampTz now)
{
	return ClockAdd(now, -SettingNodeLost());
}

/* Removes those fences of a node that have expired. */
static void
end_fences(const char *pool, const char *node, TimestampTz fenced_since,
		   TimestampTz now)
{
	(void) SqlRun(&node_fences_end,
				  VALUES(TextValue(pool), TextValue(node),
						 TimeValue(fenced_since), TimeValue(now)));
}

/* A bandwidth that the operator may have named. */
static NullableDatum
mbps_value(const GpuNode *node, int level)
{
	return node->mbps[level] < 0 ? NullValue() : Int8Value(node->mbps[level]);
}

/* Inserts or updates a node's row: just heard of, with all devices healthy. */
static void
write_node(SqlStatement *statement, const GpuNode *node, TimestampTz now,
		   uint64 *n)
{
	GpuSet		all = node->gpus == DECIDE_MAX_DEVICES ? ~(GpuSet) 0 :
		((GpuSet) 1 << node->gpus) - 1;

	*n = SqlRun(statement,
				VALUES(TextValue(node->node), TextValue(node->pool),
					   TextValue(node->gpu_type), Int4Value(node->gpus),
					   Int8Value(node->gpu_memory_mib),
					   Int8Value(node->cpu_milli), Int8Value(node->memory_mib),
					   TextValue(node->nvlink_domain), TextValue(node->leaf),
					   BoolValue(node->spot), JsonValue(node->labels),
					   DatumValue(GpuSetGetDatum(all)), TimeValue(now),
					   TextValue(node->spine), mbps_value(node, 0),
					   mbps_value(node, 1), mbps_value(node, 2))).n;
}

/*
 * Locks a node's pool and returns its name.  Raises UC401 if there is no such
 * node.
 */
char *
NodeLockPool(const char *node, bool reshape)
{
	char	   *pool;
	Values	   *args = VALUES(TextValue(node));
	SqlResult	row = SqlRun(&node_pool, args);

	if (row.n == 0)
		NotFoundNode(node);
	pool = SqlText(row, 0, 1);
	PoolLock(pool, reshape);
	row = SqlRun(&node_lock, args);
	if (row.n == 0 || strcmp(SqlText(row, 0, 1), pool) != 0)
		NotFoundNode(node);
	return pool;
}

/*
 * Locks nodes in the order of their names, and before them their pools in the
 * order of their names.  Returns each node once, by pool and name; the array
 * of names gets the same order.
 */
NodePool *
NodesLock(const char **nodes, int *n)
{
	Values	   *args;
	NodePool   *found;
	NodePool   *locked;
	int			some = 0;

	qsort(nodes, *n, sizeof(char *), compare_texts);
	for (int i = 0; i < *n; i++)
	{
		if (some == 0 || strcmp(nodes[some - 1], nodes[i]) != 0)
			nodes[some++] = nodes[i];
	}
	*n = some;
	args = VALUES(TextArrayValue(nodes, some));
	found = read_nodes(&nodes_read, args, nodes, some);
	qsort(found, some, sizeof(NodePool), compare_pools);
	for (int i = 0; i < some; i++)
	{
		if (i == 0 || strcmp(found[i - 1].pool, found[i].pool) != 0)
			PoolLock(found[i].pool, false);
	}
	locked = read_nodes(&nodes_lock, args, nodes, some);
	qsort(locked, some, sizeof(NodePool), compare_pools);
	for (int i = 0; i < some; i++)
	{
		if (compare_pools(&found[i], &locked[i]) != 0)
			NotFoundNode(found[i].node);
		nodes[i] = locked[i].node;
	}
	return locked;
}

/*
 * Reads the nodes with these sorted names.  Raises UC401 if one does not
 * exist.
 */
static NodePool *
read_nodes(SqlStatement *statement, Values *args, const char **nodes, int n)
{
	SqlResult	rows = SqlRun(statement, args);
	NodePool   *found = palloc(sizeof(NodePool) * Max(n, 1));

	for (uint64 i = 0; i < rows.n; i++)
		found[i] = (NodePool){SqlText(rows, i, 1), SqlText(rows, i, 2)};
	qsort(found, rows.n, sizeof(NodePool), compare_nodes);
	for (int i = 0; i < n; i++)
	{
		if ((uint64) i == rows.n || strcmp(found[i].node, nodes[i]) != 0)
			NotFoundNode(nodes[i]);
	}
	return found;
}

static int
compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static int
compare_nodes(const void *a, const void *b)
{
	return strcmp(((const NodePool *) a)->node, ((const NodePool *) b)->node);
}

/*----------
 * The order in which pools and their nodes are locked:
 *
 * 1. pool;
 * 2. node.
 *----------
 */
static int
compare_pools(const void *a, const void *b)
{
	int			order = strcmp(((const NodePool *) a)->pool,
							   ((const NodePool *) b)->pool);

	return order != 0 ? order : compare_nodes(a, b);
}

Datum
call_drain(PG_FUNCTION_ARGS)
{
	char	   *node = ArgName(fcinfo, 0, "node");
	char	   *reason = ArgText(fcinfo, 1, "reason");
	TimestampTz deadline = ArgTimeOrNull(fcinfo, 2, "deadline");
	char	   *pool;
	Values	   *args;

	SqlConnect();
	pool = NodeLockPool(node, false);
	(void) SqlRun(&node_drain,
				  VALUES(TextValue(node), TextValue(reason),
						 TimeValueOrNull(deadline)));

	args = VALUES(TextValue(pool), TextValue(node));
	if (deadline == DT_NOBEGIN)
		(void) SqlRun(&drain_untell, args);
	else
	{
		ValuesAdd(args, TimeValue(deadline), TimeValue(ClockNow()));
		(void) SqlRun(&drain_change, args);
		(void) SqlRun(&drain_tell, args);
	}
	NodeAudit(fcinfo, "drain", "draining", pool, reason);
	SqlFinish();
	PG_RETURN_VOID();
}

/*
 * Records that the provider reclaims the locked nodes at an instant, or that
 * it does not (DT_NOBEGIN).
 */
void
NodesReclaim(const char **nodes, int n, TimestampTz at)
{
	(void) SqlRun(&nodes_reclaim,
				  VALUES(TextArrayValue(nodes, n), TimeValueOrNull(at)));
}

/*
 * Records that the provider reclaims the locked nodes at an instant, except
 * those of which it is known already that it reclaims them then or earlier.
 * Returns the nodes for which that was recorded, and their number in *n.
 */
NodePool *
NodesReclaimEarlier(const char **nodes, int *n, TimestampTz at)
{
	SqlResult	rows = SqlRun(&nodes_reclaim_earlier,
							  VALUES(TextArrayValue(nodes, *n), TimeValue(at)));
	NodePool   *changed = palloc(sizeof(NodePool) * Max(rows.n, 1));

	*n = (int) rows.n;
	for (int i = 0; i < *n; i++)
		changed[i] = (NodePool)
	{
		SqlText(rows, i, 1), SqlText(rows, i, 2)
	};
	return changed;
}

/* Ends the drain and the reclaim of a locked node. */
void
NodeResume(const char *pool, const char *node)
{
	(void) SqlRun(&node_drain,
				  VALUES(TextValue(node), NullValue(), NullValue()));
	NodesReclaim(&node, 1, DT_NOBEGIN);
	(void) SqlRun(&strikes_forget, VALUES(TextValue(node)));
	(void) SqlRun(&drain_untell, VALUES(TextValue(pool), TextValue(node)));
}

Datum
call_remove_node(PG_FUNCTION_ARGS)
{
	char	   *node = ArgName(fcinfo, 0, "node");
	char	   *pool;
	TimestampTz now;
	TimestampTz fenced_since;
	Values	   *args;

	SqlConnect();
	pool = NodeLockPool(node, true);
	now = ClockNow();
	fenced_since = fences_since(now);
	if (devices_used_on(pool, node, 0, fenced_since).attempts > 0)
		refuse_state(node, "Attempts run on it, or may still run there.",
					 "Drain it, and wait until they are gone.");
	end_fences(pool, node, fenced_since, now);
	args = VALUES(TextValue(node));
	(void) SqlRun(&node_delete, args);
	(void) SqlRun(&strikes_forget, args);
	NodeAudit(fcinfo, "remove_node", "removed", pool, NULL);
	SqlFinish();
	PG_RETURN_VOID();
}

static void
refuse_state(const char *node, const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_BAD_STATE),
			 errmsg("not possible for node \"%s\" in its present state",
					ClipForMessage(node)),
			 errdetail_internal("%s", why),
			 errhint("%s", hint)));
}

/*
 * Writes the audit row of a call about a node.  pool is NULL if the pool is
 * among the call's arguments.
 */
void
NodeAudit(FunctionCallInfo fcinfo, const char *operation,
		  const char *decision, const char *pool, const char *reason)
{
	AuditRow	audit = {.operation = operation, .decision = decision,
		.reason = reason};

	AuditArgs(&audit, fcinfo);
	AuditText(&audit, "pool", pool);
	AuditWrite(&audit);
}
