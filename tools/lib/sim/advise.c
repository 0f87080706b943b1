/*
 * advise.c
 *	  Compares what gpucredit.capacity_advice would say after a replay with
 *	  what the simulated cluster needs.
 *
 * The advice is asked for at the trace's last submission, and knows of each
 * job only what the database would know then: what still waits or runs has no
 * end.  What the cluster needs is found by replays on more and on fewer nodes.
 */
#include <stdlib.h>
#include <string.h>

#include "decide/capacity/capacity.h"
#include "sim.h"

#define MOST_NODES	100000

static void *
memory_alloc(void *context, size_t size)
{
	(void) context;
	return SimAlloc(1, size);
}

/*
 * The jobs of a trace that was replayed, as known at an instant.
 */
static CapacityWork *
works_known(const SimTrace *trace, int64_t at)
{
	CapacityWork *works = SimAlloc((size_t) trace->n_jobs + 1,
								   sizeof(CapacityWork));
	int32_t		i;

	for (i = 0; i < trace->n_jobs; i++)
	{
		const SimJob *job = &trace->jobs[i];
		bool		started = job->first_start >= 0 && job->first_start <= at;

		works[i] = (CapacityWork){
			.account = job->tenant,
			.devices = (int64_t) job->gpus * DECIDE_WHOLE,
			.arrived = job->submitted, .limit = job->wall,
			.started = started ? job->first_start : DECIDE_NEVER,
			.ended = started && job->ends <= at ? job->ends : DECIDE_NEVER
		};
	}
	return works;
}

/*
 * What capacity_advice would say of a trace that was just replayed.
 */
CapacityAnswer
SimAdvice(const SimTrace *trace, int64_t wait, int32_t utilisation)
{
	DecideArena arena = {memory_alloc, NULL, NULL};
	CapacityQuestion question = {.n_works = trace->n_jobs,
		.n_accounts = trace->n_tenants, .utilisation = utilisation,
		.since = 0, .until = trace->jobs[trace->n_jobs - 1].submitted + SECOND,
		.wait = wait};
	CapacityWork *works = works_known(trace, question.until);
	CapacityAnswer answer;
	const char *error;

	question.works = works;
	error = DecideCapacity(&question, &arena, &answer);
	if (error != NULL)
		SimDie("%s: no advice: %s", trace->file, error);
	free(works);
	return answer;
}

/*
 * The load of all jobs of a trace, as known when all are over, in devices.
 */
double
SimLoad(const SimTrace *trace)
{
	double		time = 0;
	int32_t		i;

	for (i = 0; i < trace->n_jobs; i++)
		time += (double) trace->jobs[i].gpus * (double) trace->jobs[i].run[0];
	return time / (double) (trace->jobs[trace->n_jobs - 1].submitted + SECOND);
}

/*
 * The least number of nodes on which a replay keeps the 95th percentile of
 * waits under some hours.
 */
int
SimNodesNeeded(SimP95 p95, void *context, int least, double hours)
{
	int			low = least;
	int			high = least;

	while (p95(context, high) > hours)
	{
		if (high > MOST_NODES)
			SimDie("no number of nodes keeps waits under %g h", hours);
		low = high + 1;
		high += high / 4 + 1;
	}
	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (p95(context, middle) > hours)
			low = middle + 1;
		else
			high = middle;
	}
	return high;
}
