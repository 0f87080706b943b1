/*-------------------------------------------------------------------------
 *
 * load.c
 *		What a scheduling cycle decides on: nodes, what is taken, the queue.
 *
 * Each is read by a statement of its own after the pool's lock, and joined
 * here.  Nothing is kept from one cycle to the next.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "common/hashfn.h"
#include "util/settings.h"
#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

SQL_STATEMENT(fences_end, SPI_OK_UPDATE,
			  "text, timestamptz, timestamptz, timestamptz",
			  "UPDATE gpucredit.attempt_gpu g SET free = true, seen_at = $4"
			  " FROM (SELECT f.ctid AS tid FROM gpucredit.attempt_gpu f"
			  "  JOIN gpucredit.node n ON n.node = f.node"
			  "  WHERE f.pool = $1 AND NOT f.free AND f.ended_at IS NOT NULL"
			  "  AND GREATEST(f.ended_at, f.seen_at) <= $2"
			  "  AND " NODE_TAKES_WORK("$3")
			  "  FOR NO KEY UPDATE OF f SKIP LOCKED) f"
			  " WHERE g.ctid = f.tid");

/*
 * Load all that a cycle decides on.
 */
void
CycleLoad(SchedCycle *cycle)
{
	cycle->input.now = cycle->now;
	cycle->input.soon = CYCLE_SOON;
	cycle->set = NodesLoad(cycle->pool, cycle->read_only);
	HypotheticalNodes(cycle);
	ShareBegin(cycle);
	RunningLoad(cycle);
	QueueLoad(cycle);
	if (cycle->read_only)
		FundForesee(cycle);
	HypotheticalJobs(cycle);
	WorkloadMixLoad(cycle);
	CacheAffinityLoad(cycle);
	ClaimsLoad(cycle);
	PreviousLoad(cycle);
	ElasticLoad(cycle);
	if (cycle->input.n_jobs > 0)
		UsageLoad(cycle);
	ShareLoad(cycle);
	RuntimeEstimateOrder(cycle);
	cycle->input.nodes = cycle->set->nodes;
	cycle->input.n_nodes = cycle->set->n;
}

/*
 * Run a statement that reads, in a snapshot of its own where that is allowed.
 */
SqlResult
CycleRead(const SchedCycle *cycle, SqlStatement *statement, SqlArgs *args)
{
	return cycle->read_only ? SqlRead(statement, args) :
		SqlRun(statement, args);
}

/*
 * Remove old fences where new work may land.  Elsewhere nobody asks for the
 * devices, and a silent node may report later that an ended attempt still
 * runs.
 */
void
FencesEnd(const SchedCycle *cycle)
{
	SqlArgs		args = {0};

	SqlArgText(&args, cycle->pool);
	SqlArgTime(&args, ClockAdd(cycle->now, -SettingNodeLost()));
	SqlArgTime(&args, cycle->set->heard_since);
	SqlArgTime(&args, cycle->now);
	(void) SqlRun(&fences_end, &args);
}

/*
 * When a job of a tier is aged that would have waited since then at one stretch.
 */
int64
CycleAgedAt(const SchedCycle *cycle, int32 tier, TimestampTz waits_from)
{
	int64		max_wait = cycle->tiers[tier].max_wait;

	if (max_wait > END_TIMESTAMP - waits_from)
		return DECIDE_NEVER;
	return waits_from + max_wait;
}

/*
 * Take jobs out of the cycle.
 */
void
CycleDrop(SchedCycle *cycle, const bool *drop)
{
	int32	   *moved = MemoryContextAllocHuge(CurrentMemoryContext,
											   sizeof(int32) *
											   (cycle->input.n_jobs + 1));
	int32		kept = 0;
	int32		n_previous = 0;

	for (int32 i = 0; i < cycle->input.n_jobs; i++)
	{
		moved[i] = drop[i] ? -1 : kept;
		if (drop[i])
			continue;
		cycle->jobs[kept] = cycle->jobs[i];
		cycle->queued[kept++] = cycle->queued[i];
	}
	cycle->input.n_jobs = kept;
	for (int c = 0; c < cycle->input.n_claims; c++)
	{
		DecideClaim *claim = &cycle->claims[c];

		if (claim->job >= 0)
			claim->job = moved[claim->job];
	}
	for (int t = 0; t < cycle->input.n_previous; t++)
	{
		DecidePreviousReservation previous = cycle->input_previous[t];

		previous.job = moved[previous.job];
		if (previous.job >= 0)
			cycle->input_previous[n_previous++] = previous;
	}
	cycle->input.n_previous = n_previous;
	pfree(moved);
}

/*
 * Take apart what a row's job requests.
 */
void
RequestRead(SqlResult rows, uint64 i, Job *job)
{
	bool		isnull;

	memset(job, 0, sizeof(Job));
	job->request = (GpuReq *)
		PG_DETOAST_DATUM_COPY(SqlDatum(rows, i, 10, &isnull));
	job->topology = (DecideTopology) ArgWord(SqlText(rows, i, 11), "topology",
											 TopologyNames,
											 lengthof(TopologyNames));
	if (!SqlIsNull(rows, i, 21))
		job->prefer = (DecideTopology) ArgWord(SqlText(rows, i, 21), "prefer",
											   TopologyNames,
											   lengthof(TopologyNames));
	job->preemptible = (Preemptible) ArgWord(SqlText(rows, i, 12),
											 "preemptible", PreemptibleNames,
											 lengthof(PreemptibleNames));
	job->cpu_milli = SqlInt8(rows, i, 13);
	job->memory_mib = SqlInt8(rows, i, 14);
	job->wall_limit = SqlIsNull(rows, i, 15) ? -1 : SqlDuration(rows, i, 15);
	job->hold_window = SqlIsNull(rows, i, 16) ? -1 :
		SqlDuration(rows, i, 16);
	JobReadOffers(rows, i, 17, 19, 18, 20, &job->offers);
}

/*
 * Add a request that comes from no row of the queue.  It may be one of those that
 * are there, and is copied before they move.
 */
int32
CycleAddRequest(SchedCycle *cycle, const DecideRequestClass *request)
{
	DecideRequestClass copy = *request;

	if (cycle->input.n_requests == cycle->max_requests)
	{
		cycle->max_requests *= 2;
		cycle->requests = repalloc(cycle->requests,
								   sizeof(DecideRequestClass) * cycle->max_requests);
		cycle->input.requests = cycle->requests;
	}
	cycle->requests[cycle->input.n_requests] = copy;
	return cycle->input.n_requests++;
}
