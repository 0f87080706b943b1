/*-------------------------------------------------------------------------
 *
 * orphan_attempt.c
 *		Fences the devices of orphan attempts, which run although they
 *		have ended and their devices are free.
 *
 * When a node is removed, its fences end: all processes on it count as gone.
 * If a node of the same name is registered again and its agent reports such an
 * attempt, it is still the old machine. Then the devices that no other attempt
 * has by now are fenced again, until a heartbeat does not name the attempt.
 *
 * Locks: the pool, without waiting, since the heartbeat has locked its node
 * already. If a cycle has locked the pool, the next heartbeat tries again.
 * Then the attempt's row of attempt_gpu.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "inventory/inventory.h"
#include "job/run/orphan_attempt.h"

#define STRAY \
	" FROM gpucredit.node n WHERE n.node = $1 AND g.node = $1" \
	" AND g.org = $2 AND g.job = $3 AND g.attempt = $4" \
	" AND g.free AND g.ended_at < n.registered_at"
/* Other attempts that have devices on the node. */
#define TAKEN \
	" FROM gpucredit.attempt_gpu t WHERE t.pool = n.pool" \
	" AND t.node = n.node AND NOT t.free"
/*
 * The memory that a share has of its device, as DecideShareMemory() computes
 * it.
 */
#define GPU_MEMORY_OF(share) \
	"COALESCE(NULLIF(" share ".gpu_memory_mib, 0)," \
	" n.gpu_memory_mib * " share ".share / 1000)"
SQL_STATEMENT(orphan_read, SPI_OK_SELECT, "text, text, bigint, int",
			  "SELECT 1 FROM gpucredit.attempt_gpu g WHERE EXISTS"
			  " (SELECT" STRAY ")");
SQL_STATEMENT(orphan_fence, SPI_OK_UPDATE,
			  "text, text, bigint, int, timestamptz",
			  "UPDATE gpucredit.attempt_gpu g SET free = false,"
			  " seen_at = $5, pool = n.pool" STRAY
			  " AND NOT EXISTS (SELECT FROM"
			  "  pg_catalog.unnest(gpucredit.gpuset_to_array(g.gpus))"
			  "  AS d (device) WHERE d.device >= n.gpus OR 1000 < g.share +"
			  "  (SELECT COALESCE(pg_catalog.sum(t.share), 0)" TAKEN
			  "   AND t.gpus OPERATOR(gpucredit.@>) d.device)"
			  "  OR n.gpu_memory_mib < " GPU_MEMORY_OF("g")
			  "   + (SELECT COALESCE(pg_catalog.sum(" GPU_MEMORY_OF("t")
			  "   ), 0)" TAKEN " AND t.share < 1000"
			  "   AND t.gpus OPERATOR(gpucredit.@>) d.device))"
			  " AND (SELECT (n.cpu_milli = 0 OR n.cpu_milli >= g.cpu_milli"
			  "   + COALESCE(pg_catalog.sum(t.cpu_milli), 0))"
			  "  AND (n.memory_mib = 0 OR n.memory_mib >= g.memory_mib"
			  "   + COALESCE(pg_catalog.sum(t.memory_mib), 0))" TAKEN ")");

/*
 * Fences the devices of an attempt that has ended but that a node's agent
 * still runs.
 */
void
OrphanFence(const char *pool, const char *node, const char *org, int64 job,
			int32 attempt, TimestampTz now)
{
	Values	   *args = VALUES(TextValue(node), TextValue(org), Int8Value(job),
							  Int4Value(attempt));

	if (SqlRun(&orphan_read, args).n == 0 || !PoolTryLock(pool))
		return;
	ValuesAdd(args, TimeValue(now));
	if (SqlRun(&orphan_fence, args).n > 0)
		PoolCount(pool);
}
