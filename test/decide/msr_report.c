/*
 * msr_report.c
 *	  What the replay of the msr trace counts while time passes, and prints.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "msr.h"

/*
 * The equal share of each tenant, to none more than it wants.
 */
static void
msr_due(const Sim *sim, double *due)
{
	double		left = sim->devices;
	bool		full[TENANTS] = {false};
	int			hungry = sim->n_tenants;
	bool		more = true;
	int			i;

	while (more && hungry > 0)
	{
		double		each = left / hungry;

		more = false;
		for (i = 0; i < sim->n_tenants; i++)
		{
			int			wants = sim->tenants[i].running +
				sim->tenants[i].waiting;

			if (full[i] || wants > each)
				continue;
			full[i] = more = true;
			due[i] = wants;
			left -= wants;
			hungry--;
		}
	}
	for (i = 0; i < sim->n_tenants; i++)
	{
		if (!full[i])
			due[i] = left / hungry;
	}
}

/*
 * A day ends: who wanted devices all day, did it get its share?
 */
static void
msr_day_ends(Sim *sim)
{
	int			i;

	for (i = 0; i < sim->n_tenants; i++)
	{
		Tenant	   *tenant = &sim->tenants[i];
		double		due = tenant->wanted < tenant->due ? tenant->wanted :
			tenant->due;

		if (!tenant->idle)
		{
			sim->days++;
			sim->days_fair += tenant->got >= 0.8 * due;
		}
		tenant->got = tenant->wanted = tenant->due = 0;
		tenant->idle = false;
	}
}

/*
 * Let time pass.
 */
void
msr_pass(Sim *sim, int64_t until)
{
	int64_t		last = sim->jobs[sim->n_jobs - 1].submitted;
	double		due[TENANTS];
	int			i;

	msr_due(sim, due);
	while (sim->now < until)
	{
		int64_t		end = (sim->now / DAY + 1) * DAY;
		int64_t		step = (end < until ? end : until) - sim->now;

		for (i = 0; i < sim->n_tenants; i++)
		{
			Tenant	   *tenant = &sim->tenants[i];
			int64_t		rate = (int64_t) tenant->running * DECIDE_WHOLE;

			tenant->got += (double) tenant->running * (double) step;
			tenant->wanted += (double) (tenant->running + tenant->waiting) *
				(double) step;
			tenant->due += due[i] * (double) step;
			tenant->idle |= tenant->running + tenant->waiting == 0;
			tenant->usage = DecideDecayed(tenant->usage, step, HALFLIFE) +
				DecidePastUsage(rate, step, 0, HALFLIFE);
			if (sim->now < last)
				sim->busy += (double) tenant->running * (double) step;
		}
		sim->now += step;
		if (sim->now == end && sim->now <= last)
			msr_day_ends(sim);
	}
}

static int
compare_int64(const void *a, const void *b)
{
	int64_t		x = *(const int64_t *) a;
	int64_t		y = *(const int64_t *) b;

	return x < y ? -1 : x > y;
}

/*
 * Print what came of it, in hours.
 */
static void
msr_report(const Sim *sim, const char *name)
{
	const double hour = 3600.0 * (double) SECOND;
	int64_t    *took = malloc(sizeof(int64_t) * (size_t) sim->n_jobs);
	double		completion = 0;
	double		wait = 0;
	double		gang_wait = 0;
	double		gang_completion = 0;
	int			gangs = 0;
	int			i;

	for (i = 0; i < sim->n_jobs; i++)
	{
		const MsrJob *job = &sim->jobs[i];

		took[i] = job->ended - job->submitted;
		completion += (double) took[i];
		wait += (double) (job->started - job->submitted);
		if (job->gpus > 16)
		{
			gang_wait += (double) (job->started - job->submitted);
			gang_completion += (double) took[i];
			gangs++;
		}
	}
	qsort(took, (size_t) sim->n_jobs, sizeof(int64_t), compare_int64);
	printf("| %s | %.2f | %.2f | %.3f | %.1f %% | %.2f | %.2f | %.3f of %ld |\n",
		   name, completion / sim->n_jobs / hour,
		   (double) took[(sim->n_jobs * 95 + 99) / 100 - 1] / hour,
		   wait / sim->n_jobs / hour, 100 * sim->busy / sim->devices /
		   (double) sim->jobs[sim->n_jobs - 1].submitted,
		   gang_completion / gangs / hour, gang_wait / gangs / hour,
		   sim->days > 0 ? (double) sim->days_fair / (double) sim->days : 1.0,
		   sim->days);
	fflush(stdout);
	free(took);
}

/*
 * Replay the trace with every policy on both clusters; prints tables.
 */
int
msr_all(const char *folder)
{
	static const char *const names[] = {"FIFO", "FIFO + backfill", "default",
	"order: shortest"};
	int			types;
	int			policy;
	int			i;

	for (types = 1; types <= TYPES; types += TYPES - 1)
	{
		printf("%s\n\n| | completion, mean h | p95 h | wait, mean h |"
			   " utilisation | gangs over 16: completion, mean h | wait, mean h"
			   " | tenant-days at 0.8 of their share |\n"
			   "|---|---|---|---|---|---|---|---|\n", types == 1 ? "500 V100" :
			   "300 V100, 300 P100, 300 K80");
		for (policy = MSR_FIFO; policy <= MSR_SHORTEST; policy++)
		{
			Sim		   *sim = calloc(1, sizeof(Sim));
			const char *error;

			sim->types = types;
			sim->policy = (MsrPolicy) policy;
			msr_nodes(sim);
			error = msr_read(folder, sim) > 0 ? msr_replay(sim) :
				"no trace there";
			if (error != NULL)
			{
				fprintf(stderr, "%s: %s\n", names[policy], error);
				return 1;
			}
			msr_report(sim, names[policy]);
			for (i = 0; i < sim->n_jobs; i++)
				free(sim->jobs[i].parts);
			free(sim->jobs);
			free(sim->queue);
			free(sim->running);
			world_free(&sim->world);
			free(sim);
		}
		printf("\n");
	}
	return 0;
}
