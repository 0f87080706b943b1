/*-------------------------------------------------------------------------
 *
 * orphan_attempt.c
 *		Attempts that run though they are over and nobody keeps their devices.
 *
 * Removing a node ends its fences: what ran there counts as gone. If a node of
 * that name is registered again and its agent names such an attempt, the
 * machine is the old one. Then the fence stands again until a heartbeat does
 * not name the attempt, for the devices that nobody else has by now.
 *
 * Locks: the pool, without waiting, since the heartbeat has its node already;
 * if a cycle has it, the next heartbeat tries again. Then the attempt's row of
 * attempt_gpu.
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
/* what others have on the node */
#define TAKEN \
	" FROM gpucredit.attempt_gpu t WHERE t.pool = n.pool" \
	" AND t.node = n.node AND NOT t.free"
/* what a share takes of its device, as DecideShareMemory */
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
 * Fence an attempt that is over and that a node's agent still runs.
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
