/*
 * yardstick.c
 *	  FIFO, EASY backfill and shortest job first, as textbooks have them.
 *
 * They count GPUs and know no nodes, which favours them, and order all jobs
 * alike, whoever submitted them.
 *
 * FIFO starts jobs in order of submission; the first that does not fit stops
 * those behind it.  EASY also computes when that first job can start if all
 * running jobs use their whole wall limits, and lets a later job start now if
 * it ends before that, or needs none of the GPUs that the first job will
 * take.  SJF orders waiting jobs by wall limit and starts each that fits.
 */
#include <stdlib.h>

#include "sim.h"

/*
 * Start a waiting job, which leaves the queue.
 */
static void
start(Sim *sim, int32_t place)
{
	int32_t		index = sim->queue[place];
	SimJob	   *job = &sim->trace->jobs[index];
	SimTenant  *tenant = &sim->trace->tenants[job->tenant];
	int32_t		i;

	job->first_start = job->started = sim->now;
	job->waited = sim->now - job->submitted;
	job->ends = sim->now + job->run[0];
	tenant->running += job->gpus;
	tenant->waiting -= job->gpus;
	sim->running[sim->n_running++] = index;
	sim->n_queue--;
	for (i = place; i < sim->n_queue; i++)
		sim->queue[i] = sim->queue[i + 1];
}

static int64_t
free_devices(const Sim *sim)
{
	int64_t		left = sim->devices;
	int32_t		i;

	for (i = 0; i < sim->n_running; i++)
		left -= sim->trace->jobs[sim->running[i]].gpus;
	return left;
}

static const SimJob *sorted_jobs;

static int
compare_limit_end(const void *a, const void *b)
{
	const SimJob *x = &sorted_jobs[*(const int32_t *) a];
	const SimJob *y = &sorted_jobs[*(const int32_t *) b];
	int64_t		ends_x = x->started + x->wall;
	int64_t		ends_y = y->started + y->wall;

	return ends_x < ends_y ? -1 : ends_x > ends_y;
}

/*----------
 * The order of the yardstick that starts the shortest job first:
 *
 * 1. wall limit, the shortest first;
 * 2. number of the job in the trace.
 *----------
 */
static int
compare_wall(const void *a, const void *b)
{
	const SimJob *x = &sorted_jobs[*(const int32_t *) a];
	const SimJob *y = &sorted_jobs[*(const int32_t *) b];

	if (x->wall != y->wall)
		return x->wall < y->wall ? -1 : 1;
	return *(const int32_t *) a - *(const int32_t *) b;
}

/*
 * When the first waiting job can start at the latest, and how many GPUs are
 * left beside it then.
 */
static int64_t
shadow_time(Sim *sim, int64_t *extra)
{
	const SimJob *first = &sim->trace->jobs[sim->queue[0]];
	int64_t		left = free_devices(sim);
	int32_t		i;

	sorted_jobs = sim->trace->jobs;
	qsort(sim->running, (size_t) sim->n_running, sizeof(int32_t),
		  compare_limit_end);
	for (i = 0; i < sim->n_running; i++)
	{
		const SimJob *job = &sim->trace->jobs[sim->running[i]];

		left += job->gpus;
		if (left >= first->gpus)
		{
			*extra = left - first->gpus;
			return job->started + job->wall;
		}
	}
	*extra = 0;
	return DECIDE_NEVER;
}

static void
backfill(Sim *sim)
{
	int64_t		extra;
	int64_t		shadow = shadow_time(sim, &extra);
	int64_t		left = free_devices(sim);
	int32_t		i;

	for (i = 1; i < sim->n_queue && left > 0; i++)
	{
		const SimJob *job = &sim->trace->jobs[sim->queue[i]];
		bool		ends_before = shadow == DECIDE_NEVER ||
			sim->now + job->wall <= shadow;

		if (job->gpus > left || (!ends_before && job->gpus > extra))
			continue;
		left -= job->gpus;
		if (!ends_before)
			extra -= job->gpus;
		start(sim, i--);
	}
}

/*
 * Decide at this instant.
 */
static void
decide(Sim *sim)
{
	int64_t		left = free_devices(sim);
	int32_t		i = 0;

	if (sim->policy->kind == SIM_SJF)
	{
		sorted_jobs = sim->trace->jobs;
		qsort(sim->queue, (size_t) sim->n_queue, sizeof(int32_t),
			  compare_wall);
	}
	while (i < sim->n_queue)
	{
		const SimJob *job = &sim->trace->jobs[sim->queue[i]];

		if (job->gpus <= left)
		{
			left -= job->gpus;
			start(sim, i);
		}
		else if (sim->policy->kind == SIM_SJF)
			i++;
		else
			break;
	}
	if (sim->policy->kind == SIM_EASY && sim->n_queue > 1)
		backfill(sim);
}

/*
 * End what ends now.
 */
static void
end_jobs(Sim *sim)
{
	int32_t		kept = 0;
	int32_t		i;

	for (i = 0; i < sim->n_running; i++)
	{
		SimJob	   *job = &sim->trace->jobs[sim->running[i]];

		if (job->ends > sim->now)
		{
			sim->running[kept++] = sim->running[i];
			continue;
		}
		job->ended = true;
		sim->trace->tenants[job->tenant].running -= job->gpus;
	}
	sim->n_running = kept;
}

void
SimYardstick(Sim *sim)
{
	const SimTrace *trace = sim->trace;

	while (sim->next < trace->n_jobs || sim->n_running > 0)
	{
		int64_t		until = sim->next < trace->n_jobs ?
			trace->jobs[sim->next].submitted : DECIDE_NEVER;
		int32_t		i;

		for (i = 0; i < sim->n_running; i++)
		{
			int64_t		ends = trace->jobs[sim->running[i]].ends;

			until = ends < until ? ends : until;
		}
		SimPass(sim, until);
		end_jobs(sim);
		for (; sim->next < trace->n_jobs &&
			 trace->jobs[sim->next].submitted <= sim->now; sim->next++)
		{
			const SimJob *job = &trace->jobs[sim->next];

			if (job->gpus > sim->devices)
				continue;
			trace->tenants[job->tenant].waiting += job->gpus;
			sim->queue[sim->n_queue++] = sim->next;
		}
		decide(sim);
	}
}
