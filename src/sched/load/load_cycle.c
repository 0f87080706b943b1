/*-------------------------------------------------------------------------
 *
 * load_cycle.c
 *		Loads what a cycle decides on: nodes, running jobs, and the queue.
 *
 * Each is read by a statement of its own after the pool's lock is acquired.
 * Nothing is kept from one cycle to the next.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sched/sched.h"

static void close_nodes(const SchedCycle *cycle);

/* Loads everything that a cycle decides on. */
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
 * Marks all nodes as not schedulable, for a pool in which another scheduler
 * places jobs. A cycle of such a pool still funds jobs, returns excess credit
 * and charges use.
 */
static void
close_nodes(const SchedCycle *cycle)
{
	for (int32 i = 0; i < cycle->set->n; i++)
		cycle->set->nodes[i].schedulable = false;
}
