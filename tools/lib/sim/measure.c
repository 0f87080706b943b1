/*
 * measure.c
 *	  What a replay counts while time passes, and the figures at its end.
 *
 * A tenant's ideal share at an instant is an equal part of the cluster, at
 * most what it wants; what one does not want is divided among the others.
 * Per day, a tenant that wanted something all day is compared with the
 * integral of that, or of what it wanted if that is less.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/*
 * The ideal share of each tenant at this instant.
 */
static void
ideal_shares(const Sim *sim, double *due)
{
	const SimTrace *trace = sim->trace;
	double		left = (double) sim->devices;
	int32_t		hungry = trace->n_tenants;
	bool		more = true;
	int32_t		i;

	for (i = 0; i < trace->n_tenants; i++)
		due[i] = -1;
	while (more && hungry > 0)
	{
		double		each = left / hungry;

		more = false;
		for (i = 0; i < trace->n_tenants; i++)
		{
			double		wants = (double) (trace->tenants[i].running +
										  trace->tenants[i].waiting);

			if (due[i] >= 0 || wants > each)
				continue;
			due[i] = wants;
			left -= wants;
			hungry--;
			more = true;
		}
	}
	for (i = 0; i < trace->n_tenants; i++)
	{
		if (due[i] < 0)
			due[i] = left / hungry;
	}
}

static void
end_day(Sim *sim)
{
	int32_t		i;

	for (i = 0; i < sim->trace->n_tenants; i++)
	{
		SimTenant  *tenant = &sim->trace->tenants[i];
		double		due = tenant->wanted < tenant->due ? tenant->wanted :
			tenant->due;

		if (!tenant->idle && due > 0)
		{
			sim->days++;
			sim->fair_days += tenant->got >= 0.8 * due;
			sim->missing += tenant->got < due ? 1 - tenant->got / due : 0;
		}
		tenant->got = tenant->wanted = tenant->due = 0;
		tenant->idle = false;
	}
}

static int64_t
devices_in_use(const Sim *sim)
{
	int64_t		used = 0;
	int32_t		i;

	for (i = 0; i < sim->trace->n_tenants; i++)
		used += sim->trace->tenants[i].running;
	return used;
}

/*
 * Let a step of time pass, within a day.
 */
static void
pass_step(Sim *sim, int64_t step, const double *due)
{
	int32_t		i;

	for (i = 0; i < sim->trace->n_tenants; i++)
	{
		SimTenant  *tenant = &sim->trace->tenants[i];

		tenant->got += (double) tenant->running * (double) step;
		tenant->wanted += (double) (tenant->running + tenant->waiting) *
			(double) step;
		tenant->due += due[i] * (double) step;
		tenant->idle |= tenant->running + tenant->waiting == 0;
	}
	sim->now += step;
}

/*
 * Let time pass until an instant, at which the caller goes on.
 */
void
SimPass(Sim *sim, int64_t until)
{
	int64_t		last = sim->trace->jobs[sim->trace->n_jobs - 1].submitted;
	double	   *due = SimAlloc((size_t) sim->trace->n_tenants, sizeof(double));
	double		used = (double) devices_in_use(sim);
	double		waiting = 0;
	int32_t		i;

	for (i = 0; i < sim->trace->n_tenants; i++)
		waiting += (double) sim->trace->tenants[i].waiting;
	if (sim->plot != NULL)
		SimPlotSample(sim->plot, sim->now, used / (double) sim->devices,
					  waiting / (double) sim->devices);
	ideal_shares(sim, due);
	while (sim->now < until)
	{
		int64_t		midnight = (sim->now / DAY + 1) * DAY;
		int64_t		end = midnight < until ? midnight : until;

		if (sim->now < last)
			sim->busy += used *
				(double) ((end < last ? end : last) - sim->now);
		sim->worked += used * (double) (end - sim->now);
		pass_step(sim, end - sim->now, due);
		if (sim->now == midnight && sim->now <= last)
			end_day(sim);
	}
	free(due);
}

static int
compare_double(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return x < y ? -1 : x > y;
}

/*
 * Add up a job.
 */
static void
measure_job(const SimJob *job, SimOutcome *out, int32_t *gangs, double *lost)
{
	double		wait = (double) job->waited / (double) HOUR;
	double		run = (double) job->run[job->type] / (double) HOUR;
	double		bound = run > 10.0 / 3600 ? run : 10.0 / 3600;
	double		slowdown = (wait + run) / bound;

	out->mean_wait += wait;
	out->slowdown += slowdown > 1 ? slowdown : 1;
	out->evictions += job->evictions;
	if (job->evictions > out->most_evictions)
		out->most_evictions = job->evictions;
	out->reclaims += job->reclaims;
	if (job->reclaims > out->most_reclaims)
		out->most_reclaims = job->reclaims;
	*lost += (double) job->lost;
	if (job->gpus >= SIM_GANG)
	{
		out->gang_wait += wait;
		(*gangs)++;
	}
	if (job->promised < DECIDE_NEVER)
	{
		double		late = (double) (job->first_start - job->promised) /
			(double) HOUR;

		out->promised++;
		out->broken += late > 0;
		out->unnamed += late > 0 && !job->named;
		if (late > out->worst_break)
			out->worst_break = late;
	}
}

/*
 * How wrong the first expected starts were.
 */
static void
measure_expected(const SimTrace *trace, double *errors, SimOutcome *out)
{
	int32_t		n = 0;
	int32_t		i;

	for (i = 0; i < trace->n_jobs; i++)
	{
		const SimJob *job = &trace->jobs[i];

		if (job->first_start < 0 || job->expected == DECIDE_NEVER)
			continue;
		errors[n] = (double) (job->first_start - job->expected) /
			(double) HOUR;
		if (errors[n] < 0)
			errors[n] = -errors[n];
		n++;
	}
	out->expected = n;
	if (n == 0)
		return;
	qsort(errors, (size_t) n, sizeof(double), compare_double);
	out->expected_median = errors[n / 2];
	out->expected_p90 = errors[(int32_t) ((double) n * 0.9)];
}

/* A job's wait in hours, and the device time by which it counts. */
typedef struct WeighedWait
{
	double		wait;
	double		time;
} WeighedWait;

static int
compare_weighed(const void *a, const void *b)
{
	return compare_double(&((const WeighedWait *) a)->wait,
						  &((const WeighedWait *) b)->wait);
}

/*
 * The wait that jobs with 95 of 100 parts of the device time did not exceed.
 */
static double
weighed_p95(const SimTrace *trace)
{
	WeighedWait *waits = SimAlloc((size_t) trace->n_jobs, sizeof(WeighedWait));
	double		longer = 0;
	double		most_longer;
	double		p95 = 0;
	int32_t		n = 0;
	int32_t		i;

	for (i = 0; i < trace->n_jobs; i++)
	{
		const SimJob *job = &trace->jobs[i];

		if (job->first_start < 0)
			continue;
		waits[n].wait = (double) job->waited / (double) HOUR;
		waits[n].time = (double) job->gpus * (double) job->run[0];
		longer += waits[n++].time;
	}
	qsort(waits, (size_t) n, sizeof(WeighedWait), compare_weighed);
	most_longer = longer / 20;
	for (i = 0; i < n && longer > most_longer; i++)
	{
		longer -= waits[i].time;
		p95 = waits[i].wait;
	}
	free(waits);
	return p95;
}

SimOutcome
SimMeasure(const Sim *sim)
{
	const SimTrace *trace = sim->trace;
	int64_t		last = trace->jobs[trace->n_jobs - 1].submitted;
	double	   *waits = SimAlloc((size_t) trace->n_jobs, sizeof(double));
	SimOutcome	out = {0};
	int32_t		gangs = 0;
	int32_t		n = 0;
	double		lost = 0;
	int32_t		i;

	for (i = 0; i < trace->n_jobs; i++)
	{
		const SimJob *job = &trace->jobs[i];

		if (job->first_start < 0)
			continue;
		waits[n++] = (double) job->waited / (double) HOUR;
		measure_job(job, &out, &gangs, &lost);
	}
	if (n == 0)
		SimDie("%s: the cluster can run none of its jobs", trace->file);
	qsort(waits, (size_t) n, sizeof(double), compare_double);
	out.mean_wait /= n;
	out.slowdown /= n;
	out.evictions /= n;
	out.reclaims /= n;
	out.p95_wait = waits[(int32_t) ((double) n * 0.95) < n ?
						 (int32_t) ((double) n * 0.95) : n - 1];
	out.weighed_p95_wait = weighed_p95(trace);
	out.longest_wait = waits[n - 1];
	out.gang_wait = gangs > 0 ? out.gang_wait / gangs : -1;
	out.lost = sim->worked > 0 ? lost / sim->worked : 0;
	out.utilisation = last > 0 ? sim->busy /
		((double) sim->devices * (double) last) : 0;
	out.tenant_days = sim->days;
	out.fair_days = sim->days > 0 ? (double) sim->fair_days /
		(double) sim->days : 1;
	out.unfairness = sim->days > 0 ? sim->missing / (double) sim->days : 0;
	measure_expected(trace, waits, &out);
	free(waits);
	return out;
}
