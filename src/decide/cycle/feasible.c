/*
 * feasible.c
 *	  Finds whether a pool could ever run a request.
 *
 * The answer is found by a cycle with one job over a copy of the nodes in
 * which everything is free, so it cannot differ from placement.
 */
#include <string.h>

#include "decide/cycle/cycle.h"

/*
 * Frees everything on a node.
 */
static void
node_clear(DecideNode *node)
{
	int			i;

	node->schedulable = true;
	node->usable = UINT64_MAX;
	node->cpu_left = node->cpu_milli;
	node->memory_left = node->memory_mib;
	for (i = 0; i < DECIDE_MAX_DEVICES; i++)
	{
		node->device_left[i] = DECIDE_WHOLE;
		node->gpu_memory_used[i] = 0;
	}
}

/*
 * Finds whether the nodes could ever run the request, if all of them were
 * empty, healthy and schedulable.
 */
const char *
DecideFeasible(const DecideNode *nodes, int32_t n_nodes,
			   const DecideRequestClass *request,
			   const DecideArena *arena, bool *feasible)
{
	DecideTier	tier = {.max_wait = DECIDE_NEVER};
	DecideAccount account = {.parent = -1, .name = "", .weight = 1};
	DecideJob	job = {.aged_at = DECIDE_NEVER, .org = ""};
	DecideInput input = {.tiers = &tier, .n_tiers = 1, .accounts = &account,
		.n_accounts = 1, .n_nodes = n_nodes, .requests = request,
		.n_requests = 1,
		.jobs = &job, .n_jobs = 1, .max_starts = 1
		};
	DecideResult result;
	DecideNode *empty;
	const char *error;
	int32_t		i;

	*feasible = false;
	empty = DecideAlloc(arena, n_nodes, sizeof(DecideNode));
	if (empty == NULL)
		return n_nodes < 0 ?
			"a number of nodes, asks, jobs or starts is negative" :
			"out of memory";
	if (n_nodes > 0)
		memcpy(empty, nodes, (size_t) n_nodes * sizeof(DecideNode));
	for (i = 0; i < n_nodes; i++)
		node_clear(&empty[i]);
	input.nodes = empty;
	error = DecideRun(&input, arena, &result);
	if (error == NULL)
		*feasible = result.n_starts == 1;
	return error;
}
