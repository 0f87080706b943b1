/*-------------------------------------------------------------------------
 *
 * load_cycle.c
 *		What a cycle decides on: nodes, what is taken, the queue.
 *
 * Each is read by its own statement after the pool's lock.  Nothing is kept
 * from one cycle to the next.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sched/sched.h"

static void close_nodes(const SchedCycle *cycle);

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
	SetAsideLoad(cycle);
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
	if (cycle->foreign)
		close_nodes(cycle);
}

/*
 * Where another scheduler places, a cycle finds no node that takes work.  It
 * still funds jobs, returns surplus and counts use.
 */
static void
close_nodes(const SchedCycle *cycle)
{
	for (int32 i = 0; i < cycle->set->n; i++)
		cycle->set->nodes[i].schedulable = false;
}
