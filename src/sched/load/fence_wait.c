/*-------------------------------------------------------------------------
 *
 * fence_wait.c
 *		Keeps jobs waiting while their last attempt may still run
 *		somewhere.
 *
 * Devices that no node has reported as free since an attempt ended are fenced,
 * and their job waits as well. If the job started again while part of its last
 * attempt still runs on a node whose agent does not know yet that the attempt
 * ended, the job would run twice. So the job waits until each such node
 * reports that the attempt is gone. The wait also ends if the node was silent
 * for gpucredit.node_lost, because its agent has then stopped everything, or
 * if the node's provider took it back. The job does not wait for nodes that
 * never report what they run.
 *
 * Locks: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/settings.h"
#include "util/sql.h"
#include "sched/sched.h"

typedef struct JobKey
{
	const char *org;
	int64		job;
} JobKey;

/* Parameter $2 is now minus gpucredit.node_lost, and parameter $3 is now. */
#define STILL_RUNS \
	" FROM gpucredit.attempt_gpu g" \
	" JOIN gpucredit.node n ON n.node = g.node" \
	" WHERE NOT g.free AND g.ended_at IS NOT NULL" \
	" AND GREATEST(g.ended_at, g.seen_at) > $2" \
	" AND n.tells_running AND n.heard_at > $2" \
	" AND (n.reclaim_at IS NULL OR n.reclaim_at > $3)"

SQL_STATEMENT(fence_wait_read, SPI_OK_SELECT, "text, timestamptz, timestamptz",
			  "SELECT DISTINCT g.org, g.job" STILL_RUNS " AND g.pool = $1");
SQL_STATEMENT(fence_wait_nodes, SPI_OK_SELECT,
			  "text, timestamptz, timestamptz, bigint",
			  "SELECT pg_catalog.string_agg(DISTINCT g.node, ', ')" STILL_RUNS
			  " AND g.org = $1 AND g.job = $4");

SQL_STATEMENT(fences_end, SPI_OK_UPDATE,
			  "text, timestamptz, timestamptz, timestamptz, bool",
			  "UPDATE gpucredit.attempt_gpu g SET free = true, seen_at = $4"
			  " FROM (SELECT f.ctid AS tid FROM gpucredit.attempt_gpu f"
			  "  JOIN gpucredit.node n ON n.node = f.node"
			  "  WHERE f.pool = $1 AND NOT f.free AND f.ended_at IS NOT NULL"
			  "  AND GREATEST(f.ended_at, f.seen_at) <= $2"
			  "  AND ($5 OR (" NODE_TAKES_WORK("$3") "))"
			  "  FOR NO KEY UPDATE OF f SKIP LOCKED) f"
			  " WHERE g.ctid = f.tid");

static int	compare_keys(const void *a, const void *b);

/*
 * Removes old fences from nodes that accept new work, and returns how many
 * were removed. On other nodes nobody needs the devices, and a silent node may
 * report later that an ended attempt still runs. In a foreign pool every node
 * counts as accepting work, as another scheduler places there.
 */
uint64
FencesEnd(const SchedCycle *cycle)
{
	return SqlRun(&fences_end,
				  VALUES(TextValue(cycle->pool),
						 TimeValue(ClockAdd(cycle->now, -SettingNodeLost())),
						 TimeValue(cycle->set->heard_since),
						 TimeValue(cycle->now),
						 BoolValue(cycle->foreign))).n;
}

/* Removes jobs from the cycle whose last attempt may still run. */
void
FenceWaitHoldBack(SchedCycle *cycle)
{
	SqlResult	rows;
	JobKey	   *keys;
	bool	   *drop;

	if (SettingNodeLost() == 0 || cycle->input.n_jobs == 0)
		return;
	rows = CycleRead(cycle, &fence_wait_read,
					 VALUES(TextValue(cycle->pool),
							TimeValue(ClockAdd(cycle->now,
											   -SettingNodeLost())),
							TimeValue(cycle->now)));
	if (rows.n == 0)
		return;
	keys = palloc(sizeof(JobKey) * rows.n);
	for (uint64 i = 0; i < rows.n; i++)
		keys[i] = (JobKey)
	{
		SqlText(rows, i, 1), SqlInt8(rows, i, 2)
	};
	qsort(keys, rows.n, sizeof(JobKey), compare_keys);
	drop = palloc0(sizeof(bool) * cycle->input.n_jobs);
	for (int32 i = 0; i < cycle->input.n_jobs; i++)
	{
		JobKey		key = {cycle->jobs[i].org, cycle->jobs[i].id};

		drop[i] = cycle->queued[i].attempt > 0 &&
			bsearch(&key, keys, rows.n, sizeof(JobKey),
					compare_keys) != NULL;
	}
	CycleDrop(cycle, drop);
}

/*
 * Returns the names of the nodes on which a job's last attempt may still run,
 * or NULL if there are none. Uses the caller's snapshot.
 */
char *
FenceWaitNodes(const char *org, int64 job, TimestampTz now)
{
	if (SettingNodeLost() == 0)
		return NULL;
	return SqlText(SqlRead(&fence_wait_nodes,
						   VALUES(TextValue(org),
								  TimeValue(ClockAdd(now, -SettingNodeLost())),
								  TimeValue(now), Int8Value(job))), 0, 1);
}

/*----------
 * The order for the binary search of waiting jobs:
 *
 * 1. number of the job: it decides nearly always, as numbers come from one
 *    sequence;
 * 2. organisation.
 *----------
 */
static int
compare_keys(const void *a, const void *b)
{
	const JobKey *ka = a;
	const JobKey *kb = b;

	if (ka->job != kb->job)
		return ka->job < kb->job ? -1 : 1;
	return strcmp(ka->org, kb->org);
}
