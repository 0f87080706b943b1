/*
 * msr_report.c
 *	  Counts the figures of a replay of the msr trace, and prints them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "msr.h"

/*
 * Computes the equal share of each tenant, at most its demand.
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
 * Ends a day: counts whether tenants that wanted devices all day got their
 * shares.
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
 * Advances the time and adds to the figures.
 */
void
msr_pass(Sim *sim, int64_t until)
{
	int64_t		last = sim->jobs[sim->n_jobs - 1].submitted;
	int64_t		halflife = sim->setting->halflife;
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
			tenant->usage = DecideDecayed(tenant->usage, step, halflife) +
				DecidePastUsage(rate, step, 0, halflife);
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
 * Computes the result, in hours.
 */
static MsrOutcome
msr_outcome(const Sim *sim)
{
	const double hour = 3600.0 * (double) SECOND;
	int64_t    *took = malloc(sizeof(int64_t) * (size_t) sim->n_jobs);
	MsrOutcome	out = {0};
	int			gangs = 0;
	int			i;

	for (i = 0; i < sim->n_jobs; i++)
	{
		const MsrJob *job = &sim->jobs[i];
		double		wait = (double) (job->started - job->submitted) / hour;

		took[i] = job->ended - job->submitted;
		out.completion += (double) took[i] / hour / sim->n_jobs;
		out.wait += wait / sim->n_jobs;
		if (job->gpus >= GANG)
		{
			out.gang_completion += (double) took[i] / hour;
			out.gang_wait += wait;
			gangs++;
		}
	}
	qsort(took, (size_t) sim->n_jobs, sizeof(int64_t), compare_int64);
	out.p95 = (double) took[(sim->n_jobs * 95 + 99) / 100 - 1] / hour;
	out.gang_completion /= gangs;
	out.gang_wait /= gangs;
	out.busy = sim->busy / sim->devices /
		(double) sim->jobs[sim->n_jobs - 1].submitted;
	out.fair = sim->days > 0 ? (double) sim->days_fair / (double) sim->days : 1;
	out.days = sim->days;
	free(took);
	return out;
}

/*
 * Replays the trace with one setting.  Returns false on an error.
 */
static bool
msr_one(const char *folder, int types, const MsrSetting *setting,
		uint64_t seed, MsrOutcome *out)
{
	Sim		   *sim = calloc(1, sizeof(Sim));
	const char *error;
	int			i;

	sim->types = types;
	sim->setting = setting;
	msr_nodes(sim);
	error = msr_read(folder, seed, sim) > 0 ? msr_replay(sim) :
		"no trace there";
	if (error != NULL)
		fprintf(stderr, "%s: %s\n", setting->name, error);
	else
		*out = msr_outcome(sim);
	for (i = 0; i < sim->n_jobs; i++)
		free(sim->jobs[i].parts);
	free(sim->jobs);
	free(sim->queue);
	free(sim->running);
	world_free(&sim->world);
	free(sim);
	return error == NULL;
}

/*
 * Prints a row of the table.
 */
static void
msr_row(const MsrSetting *setting, const MsrOutcome *out)
{
	if (setting->policy <= MSR_BACKFILL)
		printf("| %s | | | | %d |", setting->name, setting->depth);
	else
		printf("| %s | %d d | %d d | %d d | %d |", setting->name,
			   (int) (setting->max_wait / DAY),
			   (int) (setting->gang_wait / DAY),
			   (int) (setting->halflife / DAY), setting->depth);
	printf(" %.1f | %.1f | %.1f | %.1f %% | %.1f | %.1f | %.3f of %ld |\n",
		   out->completion, out->p95, out->wait, 100 * out->busy,
		   out->gang_completion, out->gang_wait, out->fair, out->days);
	fflush(stdout);
}

/*
 * Compares a figure with its target.  Returns true if it was missed.
 */
static bool
msr_target(const char *what, double figure, const char *relation,
		   double target)
{
	bool		met = *relation == '<' ? figure <= target : figure >= target;

	printf("target | %s | %.3f | %s %.3f | %s\n", what, figure, relation,
		   target, met ? "met" : "missed");
	return !met;
}

/*
 * Compares the results of a setting with the targets.  Returns true if one was
 * missed.
 */
static bool
msr_judge(const char *cluster, const MsrSetting *setting,
		  const MsrOutcome *out, const MsrOutcome *fifo)
{
	char	   *name = format("%s, %s", cluster, setting->name);
	char	   *wait = format("%s: FIFO's wait / its", name);
	char	   *took = format("%s: gangs' time / FIFO's", name);
	char	   *idle = format("%s: gangs' wait / FIFO's", name);
	char	   *fair = format("%s: tenant-days", name);
	bool		missed;

	missed = msr_target(wait, fifo->wait / out->wait, ">=",
						setting->least_gain);
	missed |= msr_target(took, out->gang_completion / fifo->gang_completion,
						 "<=", 1.1);
	missed |= msr_target(idle, out->gang_wait / fifo->gang_wait, "<=", 1.1);
	missed |= msr_target(fair, out->fair, ">=", 0.95);
	free(name);
	free(wait);
	free(took);
	free(idle);
	free(fair);
	return missed;
}

/*
 * Replays the trace with every setting on one or both clusters, prints tables,
 * and compares with the targets.  Returns 0, 1 if a target was missed, or 2 on
 * an error.
 *
 * A pool with too much demand for weeks can keep a max_wait of a day only for
 * few jobs.  The gangs need it: they lose their turns while devices are
 * reserved for them.  Daily shares need a half-life of a day.  If jobs run for
 * days, each reserved device makes small jobs wait.  Such settings are
 * compared with the targets; the defaults are reported, too.
 */
int
msr_all(const char *folder, int clusters, int seed)
{
	static const MsrSetting settings[] = {
		{"FIFO", MSR_FIFO, 0, 0, 7 * DAY, 0, 0},
		{"FIFO + backfill", MSR_BACKFILL, 0, 0, 7 * DAY, 32, 0},
		{"default", MSR_DEFAULT, 30 * DAY, DAY, DAY, 3, 1.1},
		{"order: shortest", MSR_SHORTEST, 30 * DAY, DAY, DAY, 3, 2},
		{"default", MSR_DEFAULT, 30 * DAY, 30 * DAY, DAY, 3, 0},
		{"order: shortest", MSR_SHORTEST, 30 * DAY, 30 * DAY, DAY, 3, 0},
		{"default", MSR_DEFAULT, 30 * DAY, DAY, DAY, 32, 0},
		{"order: shortest", MSR_SHORTEST, 30 * DAY, DAY, DAY, 32, 0},
		{"default", MSR_DEFAULT, 30 * DAY, DAY, 7 * DAY, 32, 0},
		{"order: shortest", MSR_SHORTEST, 30 * DAY, DAY, 7 * DAY, 32, 0},
		{"default", MSR_DEFAULT, DAY, DAY, 7 * DAY, 32, 0},
		{"order: shortest", MSR_SHORTEST, DAY, DAY, 7 * DAY, 32, 0}
	};
	const int	n = sizeof(settings) / sizeof(settings[0]);
	bool		missed = false;
	int			cluster;
	int			i;

	for (cluster = 0; cluster < clusters; cluster++)
	{
		const char *name = cluster == 0 ? "500 V100" :
			"300 V100, 300 P100, 300 K80";
		MsrOutcome	out[sizeof(settings) / sizeof(settings[0])];

		printf("%s\n\n| | max_wait | of gangs | half-life | reservations |"
			   " completion, mean h | p95 h | wait, mean h | utilisation |"
			   " gangs over 16: completion, mean h | wait, mean h |"
			   " tenant-days with their share |\n"
			   "|---|---|---|---|---|---|---|---|---|---|---|---|\n", name);
		for (i = 0; i < n; i++)
		{
			if (!msr_one(folder, cluster == 0 ? 1 : TYPES, &settings[i],
						 (uint64_t) seed, &out[i]))
				return 2;
			msr_row(&settings[i], &out[i]);
		}
		printf("\n");
		for (i = 0; i < n; i++)
		{
			if (settings[i].least_gain > 0)
				missed |= msr_judge(cluster == 0 ? "500" : "3 x 300",
									&settings[i], &out[i], &out[0]);
		}
		printf("\n");
	}
	return missed;
}
