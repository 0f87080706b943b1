/*-------------------------------------------------------------------------
 *
 * counterfactual.c
 *		Finds out what would happen to a job if other jobs, claims or
 *		quotas were absent.
 *
 * explain() tests its advice this way: the cycle is decided again without
 * them. This changes nothing, not even the cycle's own decision.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "util/errors.h"
#include "miscadmin.h"
#include "sched/explain/explain.h"
#include "utils/memutils.h"

static void remove_running(const SchedCycle *cycle, const Counterfactual *change,
						   DecideInput *input);
static void release_devices(const SchedCycle *cycle, const DecideRunning *running,
							DecideNode *nodes);
static void copy_previous(DecideInput *input, const int32 *moved);
static int32 remove_jobs(const SchedCycle *cycle, const Counterfactual *change,
						 int32 index, DecideInput *input);
static void set_limit(const SchedCycle *cycle, int64 wall_limit, int32 index,
					  DecideInput *input);
static WouldBe read_result(const DecideResult *result, int32 index);
static int	compare_times(const void *a, const void *b);

/*
 * Decides the cycle again with a change, and returns what one job would get.
 */
WouldBe
ExplainCounterfactual(const SchedCycle *cycle, int32 index,
					  const Counterfactual *change)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "gpucredit without",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	DecideArena arena = ArenaOf(context);
	DecideInput input = cycle->input;
	DecideResult result;
	const char *problem;
	WouldBe		would;

	CHECK_FOR_INTERRUPTS();
	if (change->running != NULL)
		remove_running(cycle, change, &input);
	if (change->claims)
		input.n_claims = 0;
	if (change->quotas)
		input.n_quotas = 0;
	if (change->depth > 0)
		input.policy.backfill_depth = change->depth;
	if (change->jobs != NULL || change->others)
		index = remove_jobs(cycle, change, index, &input);
	if (change->wall_limit > 0)
		set_limit(cycle, change->wall_limit, index, &input);
	problem = DecideRun(&input, &arena, &result);
	Ensure(problem == NULL, problem);
	would = read_result(&result, index);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return would;
}

/* Removes running attempts from the input, and frees their devices. */
static void
remove_running(const SchedCycle *cycle, const Counterfactual *change,
			   DecideInput *input)
{
	DecideNode *nodes = MemoryContextAllocHuge(CurrentMemoryContext,
											   sizeof(DecideNode) *
											   (input->n_nodes + 1));
	DecideRunning *rest = MemoryContextAllocHuge(CurrentMemoryContext,
												 sizeof(DecideRunning) *
												 (input->n_running + 1));
	int32		n = 0;

	memcpy(nodes, input->nodes, sizeof(DecideNode) * input->n_nodes);
	for (int32 i = 0; i < input->n_running; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (change->running[i])
			release_devices(cycle, &input->running[i], nodes);
		else
			rest[n++] = input->running[i];
	}
	input->nodes = nodes;
	input->running = rest;
	input->n_running = n;
}

/*
 * Releases what an attempt has on its nodes: devices, their memory, cpu and
 * main memory.
 */
static void
release_devices(const SchedCycle *cycle, const DecideRunning *running,
				DecideNode *nodes)
{
	for (int32 p = 0; p < running->n_parts; p++)
	{
		const DecidePart *part =
		&cycle->running_parts[running->first_part + p];
		DecideNode *node = &nodes[part->node];

		for (int d = 0; d < node->gpus; d++)
		{
			if (((part->devices >> d) & 1) == 0)
				continue;
			node->device_left[d] = Min(node->device_left[d] + running->share,
									   DECIDE_WHOLE);
			node->gpu_memory_used[d] -= part->gpu_memory_mib;
		}
		if (node->cpu_milli > 0)
			node->cpu_left += part->cpu_milli;
		if (node->memory_mib > 0)
			node->memory_left += part->memory_mib;
	}
}

/*
 * Removes other waiting jobs and their claims from the input. Returns the
 * job's new index.
 */
static int32
remove_jobs(const SchedCycle *cycle, const Counterfactual *change, int32 index,
			DecideInput *input)
{
	DecideJob  *jobs = MemoryContextAllocHuge(CurrentMemoryContext,
											  sizeof(DecideJob) *
											  (input->n_jobs + 1));
	int32	   *moved = MemoryContextAllocHuge(CurrentMemoryContext,
											   sizeof(int32) *
											   (input->n_jobs + 1));
	DecideClaim *claims = palloc(sizeof(DecideClaim) * (input->n_claims + 1));
	int32		n = 0;
	int32		n_claims = 0;

	for (int32 i = 0; i < input->n_jobs; i++)
	{
		moved[i] = -1;
		if (i != index && (change->others || change->jobs[i]))
			continue;
		moved[i] = n;
		jobs[n++] = cycle->jobs[i];
	}
	for (int32 i = 0; i < input->n_claims; i++)
	{
		DecideClaim claim = input->claims[i];

		if (claim.job >= 0 && moved[claim.job] < 0)
			continue;
		if (claim.job >= 0)
			claim.job = moved[claim.job];
		claims[n_claims++] = claim;
	}
	input->jobs = jobs;
	input->n_jobs = n;
	input->claims = claims;
	input->n_claims = n_claims;
	copy_previous(input, moved);
	return moved[index];
}

/*
 * Removes the previous reservations, and so the guarantees, of jobs that are
 * removed.
 */
static void
copy_previous(DecideInput *input, const int32 *moved)
{
	DecidePreviousReservation *previous =
	palloc(sizeof(DecidePreviousReservation) * (input->n_previous + 1));
	int32		n = 0;

	for (int32 i = 0; i < input->n_previous; i++)
	{
		previous[n] = input->previous[i];
		previous[n].job = moved[input->previous[i].job];
		n += previous[n].job >= 0;
	}
	input->previous = previous;
	input->n_previous = n;
}

/* Sets another wall limit for the job, in a request class of its own. */
static void
set_limit(const SchedCycle *cycle, int64 wall_limit, int32 index,
		  DecideInput *input)
{
	DecideJob  *jobs = MemoryContextAllocHuge(CurrentMemoryContext,
											  sizeof(DecideJob) *
											  input->n_jobs);
	DecideRequestClass *requests = MemoryContextAllocHuge(CurrentMemoryContext,
														  sizeof(DecideRequestClass) *
														  (input->n_requests + 1));
	DecideJob  *job = &jobs[index];

	memcpy(jobs, input->jobs, sizeof(DecideJob) * input->n_jobs);
	memcpy(requests, input->requests,
		   sizeof(DecideRequestClass) * input->n_requests);
	requests[input->n_requests] = requests[job->request];
	requests[input->n_requests].wall_limit = wall_limit;
	job->request = input->n_requests++;
	input->jobs = jobs;
	input->requests = requests;
}

static WouldBe
read_result(const DecideResult *result, int32 index)
{
	WouldBe		would = {0};

	for (int32 i = 0; i < result->n_starts; i++)
		would.starts |= result->starts[i].job == index;
	for (int32 i = 0; i < result->n_promises; i++)
		would.promised |= result->promises[i].job == index;
	for (int32 i = 0; i < result->n_reservations; i++)
		would.reserved |= result->reservations[i].job == index;
	return would;
}

/*
 * Returns the longest wall limit with which a job would start now, before the
 * devices' reservations begin, or 0 if there is none. Only the begins of
 * reservations and claims separate limits with different results, and a job
 * that starts with a longer limit also starts with a shorter one, so a binary
 * search finds the limit.
 */
int64
ExplainShorter(const SchedCycle *cycle, int32 index)
{
	const DecideResult *result = &cycle->result;
	int64		limit = cycle->requests[cycle->jobs[index].request].wall_limit;
	int64	   *times = palloc(sizeof(int64) * (result->n_reservations +
												cycle->input.n_running + 1));
	int32		n = 0;
	int32		low = 0;
	int32		high;

	for (int32 i = 0; i < result->n_reservations; i++)
		times[n++] = result->reservations[i].at - cycle->input.now;
	for (int32 i = 0; i < cycle->input.n_running; i++)
	{
		if (cycle->running[i].leaving)
			times[n++] = cycle->running[i].expected_end - cycle->input.now;
	}
	qsort(times, n, sizeof(int64), compare_times);
	while (low < n && times[low] <= 0)
		low++;
	while (n > low && times[n - 1] >= limit)
		n--;
	times += low;
	n -= low;
	for (low = 0, high = n; low < high;)
	{
		int32		middle = low + (high - low) / 2;

		if (ExplainCounterfactual(cycle, index, &(Counterfactual){.wall_limit =
																	times[middle]}).starts)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 ? times[low - 1] : 0;
}

static int
compare_times(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}
