/*
 * start.c
 *	  A decided start: which devices exactly, and the rows that say so.
 */
#include "decide/core.h"

/*
 * Compare two entries of a plan by host.
 */
static int
compare_host(const void *context, int32_t a, int32_t b)
{
	const int32_t *hosts = context;

	return hosts[a] < hosts[b] ? -1 : hosts[a] > hosts[b];
}

/*
 * The lowest n of some devices.
 */
static uint64_t
lowest_devices(uint64_t devices, int32_t n)
{
	uint64_t	rest = devices;
	int32_t		i;

	for (i = 0; i < n; i++)
		rest &= rest - 1;
	return devices & ~rest;
}

/*
 * One host's part of a job: which devices, and its cpu and memory.
 */
void
DecideStartPart(const Cycle *cycle, const DecideAsk *ask, int32_t host,
				int32_t gpus, int32_t count, DecidePart *part)
{
	const Host *h = &cycle->hosts[host];

	part->node = h->node;
	part->gpus = gpus;
	part->cpu_milli = ask->cpu_milli;
	part->memory_mib = ask->memory_mib;
	if (count > 0)
	{
		part->cpu_milli = DecideFitSplit(ask->cpu_milli, gpus, count);
		part->memory_mib = DecideFitSplit(ask->memory_mib, gpus, count);
	}
	if (ask->share < DECIDE_WHOLE)
		part->devices = UINT64_C(1) << DecideShareChoose(cycle, h, ask);
	else
		part->devices = lowest_devices(h->free, gpus);
}

/*
 * The entries of a plan in order of their hosts, or NULL: out of memory.
 */
int32_t *
DecideStartOrder(Cycle *cycle, const Plan *plan)
{
	int32_t    *order = DecideAlloc(cycle->arena, plan->n, sizeof(int32_t));
	int32_t		i;

	if (order == NULL)
		return NULL;
	for (i = 0; i < plan->n; i++)
		order[i] = i;
	return DecideSort(cycle->arena, order, plan->n, compare_host,
					  plan->hosts) ? order : NULL;
}

/*
 * Start a job as planned.  False: out of memory.
 */
bool
DecideStartAdd(Cycle *cycle, int32_t job, const DecideOffer *offer,
			   int32_t count, Plan *plan)
{
	const DecideAsk *ask = &cycle->input->asks[cycle->input->jobs[job].ask];
	DecideResult *result = cycle->result;
	DecideStart *start;
	int32_t		only = 0;
	int32_t    *order = &only;
	int32_t		i;

	if (plan->n > 1)
	{
		order = DecideStartOrder(cycle, plan);
		if (order == NULL)
			return false;
	}
	result->starts = DecideGrow(cycle->arena, result->starts,
								result->n_starts, &cycle->starts_room,
								sizeof(DecideStart));
	if (result->starts == NULL)
		return false;
	start = &result->starts[result->n_starts++];
	start->job = job;
	start->type = offer != NULL ? offer->type : DECIDE_NO_TYPE;
	start->gpus = count;
	start->share = ask->share;
	start->first_part = result->n_parts;
	start->n_parts = plan->n;
	for (i = 0; i < plan->n; i++)
	{
		DecidePart *part;
		int32_t		host = plan->hosts[order[i]];

		result->parts = DecideGrow(cycle->arena, result->parts,
								   result->n_parts, &cycle->parts_room,
								   sizeof(DecidePart));
		if (result->parts == NULL)
			return false;
		part = &result->parts[result->n_parts++];
		DecideStartPart(cycle, ask, host, plan->gpus[order[i]], count, part);
		DecideHostTake(cycle, host, part->devices, ask->share,
					   part->cpu_milli, part->memory_mib);
	}
	DecideClaimsStarted(cycle, start);
	return true;
}
