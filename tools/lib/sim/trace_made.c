/*
 * trace_made.c
 *	  Makes up a trace: made:DAYS:LOAD, or made:DAYS:LOAD:SEED.
 *
 * Eight tenants of unequal appetite submit jobs over so many days.  Each has
 * quiet and busy days, so that what one leaves unused changes from day to day.
 * Jobs ask for 1 to 32 GPUs and run for five minutes to a day, most of them
 * shortly; users ask for one to five times the time that they need.  Seven in
 * ten jobs are of standard training, the others of batch inference,
 * interactive work and premium training.
 *
 * The gaps between jobs are scaled so that all of them together ask for LOAD
 * times what the cluster has in that time.  The same arguments make the same
 * trace everywhere.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define TENANTS		8

static uint64_t state;

/*
 * A number from 0 to below 1: xorshift64*.
 */
static double
uniform(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (double) ((state * UINT64_C(0x2545F4914F6CDD1D)) >> 11) /
		9007199254740992.0;
}

/*
 * The index of one of several things, by their weights.
 */
static int
choose(const double *weights, int n)
{
	double		sum = 0;
	double		at;
	int			i;

	for (i = 0; i < n; i++)
		sum += weights[i];
	at = uniform() * sum;
	for (i = 0; i < n - 1 && at >= weights[i]; i++)
		at -= weights[i];
	return i;
}

static SimJob
made_job(int32_t number, int64_t at, const double *busy)
{
	static const double sizes[] = {40, 20, 15, 15, 6, 4};
	static const double tiers[] = {0, 5, 70, 15, 10};
	SimJob		job = {.submitted = at};
	double		run = 300 * exp(uniform() * log(288));
	char	   *name;
	int32_t		t;

	if (asprintf(&name, "j%d", number + 1) < 0)
		SimDie("out of memory");
	job.name = name;
	job.tenant = choose(busy, TENANTS);
	job.gpus = 1 << choose(sizes, 6);
	job.tier = choose(tiers, SIM_TIERS);
	for (t = 0; t < SIM_TYPES; t++)
		job.run[t] = (int64_t) run * SECOND;
	job.wall = (int64_t) (run * (1 + 4 * uniform())) * SECOND;
	job.wall = job.wall < job.run[0] ? job.run[0] : job.wall;
	return job;
}

/*
 * How busy each tenant is on a day.
 */
static void
new_day(double *busy)
{
	static const double appetite[TENANTS] = {5, 4, 3, 2, 2, 1, 1, 1};
	int			i;

	for (i = 0; i < TENANTS; i++)
		busy[i] = appetite[i] * (uniform() < 0.25 ? 0.05 : 0.3 + 2 * uniform());
}

/*
 * Add jobs until they ask for enough.
 */
static void
add_jobs(SimTrace *trace, double days, double enough)
{
	double		busy[TENANTS];
	double		asked = 0;
	int32_t		capacity = 0;
	int			day = -1;

	while (asked < enough)
	{
		double		at = asked / enough * days;
		SimJob		job;

		for (; day < (int) at; day++)
			new_day(busy);
		job = made_job(trace->n_jobs, (int64_t) (at * (double) DAY) / SECOND *
					   SECOND, busy);
		asked += (double) job.gpus * (double) job.run[0];
		trace->jobs = SimGrow(trace->jobs, trace->n_jobs, &capacity,
							  sizeof(SimJob));
		trace->jobs[trace->n_jobs++] = job;
	}
}

/*
 * Let jobs come at random instants of the same mean rate, and not each when
 * the one before it is paid off.
 */
static void
shuffle_arrivals(SimTrace *trace, double days)
{
	double		sum = 0;
	double	   *gaps = SimAlloc((size_t) trace->n_jobs, sizeof(double));
	int32_t		i;

	for (i = 0; i < trace->n_jobs; i++)
		sum += gaps[i] = -log(1 - uniform());
	for (i = 0; i < trace->n_jobs; i++)
	{
		double		before = i == 0 ? 0 : (double) trace->jobs[i - 1].submitted;

		trace->jobs[i].submitted = i == 0 ? 0 : (int64_t)
			((before + gaps[i] / sum * days * (double) DAY) / (double) SECOND) *
			SECOND;
	}
	free(gaps);
}

/*
 * The trace that a name describes; NULL: the name describes none.
 */
SimTrace *
SimTraceMake(const char *name, int64_t devices)
{
	SimTrace   *trace;
	double		days;
	double		load;
	unsigned long seed = 1;
	int32_t		i;

	if (strncmp(name, "made:", 5) != 0)
		return NULL;
	if (sscanf(name, "made:%lf:%lf:%lu", &days, &load, &seed) < 2 ||
		days <= 0 || days > 1000 || load <= 0 || load > 10)
		SimDie("a made-up trace is made:DAYS:LOAD[:SEED], not \"%s\"", name);
	trace = SimAlloc(1, sizeof(SimTrace));
	trace->file = strdup(name);
	trace->tenants = SimAlloc(TENANTS, sizeof(SimTenant));
	for (i = 0; i < TENANTS; i++)
	{
		if (asprintf(&trace->tenants[i].name, "t%d", i + 1) < 0)
			SimDie("out of memory");
	}
	trace->n_tenants = TENANTS;
	state = (uint64_t) seed * UINT64_C(0x9E3779B97F4A7C15);
	add_jobs(trace, days, load * days * (double) DAY * (double) devices);
	shuffle_arrivals(trace, days);
	return trace;
}
