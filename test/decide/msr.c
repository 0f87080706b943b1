/*
 * msr.c
 *	  Replays the msr trace with the decision core: months of gangs of 15
 *	  tenants, with one cycle at every submission and every end.
 *
 * A job runs as long as the trace says for its GPU type.  Its wall limit is
 * its run on the slowest accepted type, times a factor of 1 to 10 from a fixed
 * seed.  The core knows what the database would load: limits, and the 75th
 * percentile of run over wall limit of the tenant's last 20 jobs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "msr.h"

/*
 * Reads the trace, with limits from a seed.  Returns the number of jobs, or
 * -1.
 */
int
msr_read(const char *folder, uint64_t seed, Sim *sim)
{
	char	   *path = format("%s/jobs.csv", folder);
	FILE	   *file = fopen(path, "r");
	char		line[1024];
	int			room = 0;

	free(path);
	if (file == NULL || fgets(line, sizeof(line), file) == NULL)
		return -1;
	while (fgets(line, sizeof(line), file) != NULL)
	{
		MsrJob		job = {0};
		char		tenant[32];
		long		submit;
		long		run[TYPES];
		int			t = 0;

		if (sscanf(line, "%*d,%31[^,],%ld,%d,%*[^,],%ld,%ld,%ld", tenant,
				   &submit, &job.gpus, &run[2], &run[1], &run[0]) != 6)
			continue;
		while (t < sim->n_tenants && strcmp(sim->tenants[t].name, tenant) != 0)
			t++;
		if (t == sim->n_tenants)
			strcpy(sim->tenants[sim->n_tenants++].name, tenant);
		job.tenant = t;
		job.submitted = submit * SECOND;
		job.started = -1;
		for (t = 0; t < TYPES; t++)
			job.run[t] = run[t] * SECOND;
		for (t = 0; t < sim->types; t++)
			job.wall = job.run[t] > job.wall ? job.run[t] : job.wall;
		job.wall = job.wall / 1000 * (1000 + random_below(&seed, 9001));
		if (sim->n_jobs == room)
		{
			room = room == 0 ? 1024 : room * 2;
			sim->jobs = realloc(sim->jobs, sizeof(MsrJob) * (size_t) room);
		}
		sim->jobs[sim->n_jobs++] = job;
	}
	fclose(file);
	return sim->n_jobs;
}

/*
 * Makes the reference clusters: 500 V100, or 300 of each type, on nodes of 8.
 */
void
msr_nodes(Sim *sim)
{
	static const char *const names[] = {"V100", "P100", "K80"};
	int			t;

	world_init(&sim->world);
	for (t = 0; t < sim->types; t++)
	{
		int			left = sim->types == 1 ? 500 : 300;
		int			type = world_type(&sim->world, names[t]);

		for (; left > 0; left -= 8)
		{
			char	   *name = format("%s-%03d", names[t], left);

			world_node(&sim->world, name, type, left < 8 ? left : 8);
			sim->devices += left < 8 ? left : 8;
			free(name);
		}
	}
}

static int
compare_int(const void *a, const void *b)
{
	return *(const int *) a - *(const int *) b;
}

/*
 * Learns from a job that has ended: computes the 75th percentile of the last
 * jobs.
 */
static void
msr_learn(Tenant *tenant, const MsrJob *job)
{
	int			sorted[LEARNT];
	int			n;

	tenant->ratios[tenant->n_ratios++ % LEARNT] =
		(int) (job->run[job->type] * 1000 / job->wall);
	n = tenant->n_ratios < LEARNT ? tenant->n_ratios : LEARNT;
	memcpy(sorted, tenant->ratios, sizeof(int) * (size_t) n);
	qsort(sorted, (size_t) n, sizeof(int), compare_int);
	tenant->learnt = n < LEARN_FROM ? 1000 : sorted[(n * 3 + 3) / 4 - 1];
}

/*
 * How long a job is expected to run.
 */
static int64_t
expected_run(const Sim *sim, const MsrJob *job)
{
	const Tenant *tenant = &sim->tenants[job->tenant];

	return tenant->n_ratios < LEARN_FROM ? job->wall :
		job->wall / 1000 * tenant->learnt;
}

/*
 * The latest time at which a running job ends.
 */
static int64_t
limit_end(const Sim *sim, const MsrJob *job)
{
	int64_t		limit = job->started + job->wall;

	return limit > sim->now ? limit : sim->now + SECOND;
}

/*
 * Fills in the waiting jobs of the input.  Without fair share all jobs have
 * one account, and none becomes aged.
 */
static void
msr_waiting(Sim *sim, bool one, const DecideAccount *accounts,
			const DecideOffer *offers, DecideInput *input)
{
	const DecideArena arena = pool_arena(&sim->pool);
	int			n = sim->n_queue;
	DecideRequestClass *requests;
	DecideJob  *jobs;
	int			i;

	/* in a strict queue only the first jobs matter */
	if (sim->setting->policy == MSR_FIFO && n > FIFO_HEAD)
		n = FIFO_HEAD;
	requests = arena.alloc(&sim->pool,
						   sizeof(DecideRequestClass) * (size_t) n);
	jobs = arena.alloc(&sim->pool, sizeof(DecideJob) * (size_t) n);
	for (i = 0; i < n; i++)
	{
		const MsrJob *job = &sim->jobs[sim->queue[i]];
		int			tier = job->gpus >= GANG;
		int64_t		max_wait = input->tiers[tier].max_wait;

		requests[i] = (DecideRequestClass){.min_gpus = job->gpus,
											 .max_gpus = job->gpus,
											 .share = DECIDE_WHOLE, .n_offers = sim->types,
											 .offers = offers,
											 .wall_limit = job->wall};
		jobs[i] = (DecideJob){.request = i, .account = one ? 0 : job->tenant,
								.tier = tier,
								.submitted = job->submitted,
								.id = sim->queue[i],
								.aged_at = max_wait == DECIDE_NEVER ?
								DECIDE_NEVER :
								job->submitted + max_wait,
								.order_run = expected_run(sim, job),
								.org = accounts[one ? 0 : job->tenant].name};
	}
	input->requests = requests;
	input->jobs = jobs;
	input->n_requests = input->n_jobs = n;
}

/*
 * Fills in the running jobs of the input.
 */
static void
msr_running(Sim *sim, bool one, const DecideAccount *accounts,
			DecideInput *input)
{
	const DecideArena arena = pool_arena(&sim->pool);
	DecideRunning *running = arena.alloc(&sim->pool, sizeof(DecideRunning) *
										 (size_t) (sim->n_running + 1));
	DecidePart *parts = arena.alloc(&sim->pool, sizeof(DecidePart) * 64 *
									(size_t) (sim->n_running + 1));
	int			i;

	for (i = 0; i < sim->n_running; i++)
	{
		const MsrJob *job = &sim->jobs[sim->running[i]];
		int			account = one ? 0 : job->tenant;

		running[i] = (DecideRunning){.org = accounts[account].name,
									   .id = sim->running[i], .attempt = 1,
									   .account = account,
									   .tier = job->gpus >= GANG,
									   .type = job->type, .gpus = job->gpus,
									   .share = DECIDE_WHOLE,
									   .min_gpus = job->gpus,
									   .max_gpus = job->gpus,
									   .first_part = input->n_running_parts,
									   .n_parts = job->n_parts,
									   .started = job->started,
									   .saved_at = job->started,
									   .expected_end = limit_end(sim, job),
									   .limit_end = limit_end(sim, job),
									   .request = -1,
									   .submitted = job->submitted};
		memcpy(parts + input->n_running_parts, job->parts,
			   sizeof(DecidePart) * (size_t) job->n_parts);
		input->n_running_parts += job->n_parts;
	}
	input->running = running;
	input->n_running = sim->n_running;
	input->running_parts = parts;
}

/*
 * Makes the input of the core.
 */
static void
msr_input(Sim *sim, DecideInput *input)
{
	static DecideOffer offers[TYPES];
	static DecideTier tiers[2];
	static DecideAccount accounts[TENANTS];
	static DecideType types[TYPES];
	MsrPolicy	policy = sim->setting->policy;
	bool		one = policy <= MSR_BACKFILL;
	int			i;

	for (i = 0; i < sim->types; i++)
	{
		offers[i] = (DecideOffer){.type = i};
		types[i].weight = 1000;
	}
	tiers[0] = (DecideTier){.max_wait = one ? DECIDE_NEVER :
							  sim->setting->max_wait};
	tiers[1] = (DecideTier){.max_wait = one ? DECIDE_NEVER :
							  sim->setting->gang_wait};
	for (i = 0; i < sim->n_tenants; i++)
		accounts[i] = (DecideAccount){.parent = -1,
										.name = sim->tenants[i].name,
										.weight = DECIDE_WEIGHT_ONE,
										.usage = sim->tenants[i].usage,
										.live = (int64_t) sim->tenants[i].running * DECIDE_WHOLE};
	*input = world_input(&sim->world);
	input->tiers = tiers;
	input->n_tiers = 2;
	msr_waiting(sim, one, accounts, offers, input);
	msr_running(sim, one, accounts, input);
	input->now = sim->now;
	input->policy = (DecidePolicy){.fair_horizon = 3600,
									 .elastic_idle_delay = DECIDE_NEVER,
									 .backfill_depth = sim->setting->depth,
									 .order = policy == MSR_SHORTEST ?
									 DECIDE_ORDER_SHORTEST :
									 DECIDE_ORDER_FAIR};
	input->types = types;
	input->n_types = sim->types;
	input->accounts = accounts;
	input->n_accounts = one ? 1 : sim->n_tenants;
}

/*
 * Allocates a job's devices, or releases them.
 */
static void
msr_devices(Sim *sim, const MsrJob *job, bool take)
{
	int			p;
	int			d;

	for (p = 0; p < job->n_parts; p++)
	{
		DecideNode *node = &sim->world.nodes[job->parts[p].node];

		for (d = 0; d < node->gpus; d++)
		{
			if ((job->parts[p].devices >> d) & 1)
				node->device_left[d] = take ? 0 : DECIDE_WHOLE;
		}
	}
}

/*
 * Runs one cycle.  With the policy first in, first out no job passes the first
 * waiting one.
 */
static const char *
msr_cycle(Sim *sim, bool *again)
{
	DecideArena arena = pool_arena(&sim->pool);
	DecideInput input;
	DecideResult result;
	const char *error;
	int			kept = 0;
	int			i;

	msr_input(sim, &input);
	error = DecideRun(&input, &arena, &result);
	if (error == NULL)
		error = DecideCheck(&input, &result, &arena, NULL);
	for (i = 0; i < result.n_starts && error == NULL; i++)
	{
		const DecideStart *start = &result.starts[i];
		MsrJob	   *job = &sim->jobs[sim->queue[start->job]];

		/* the queue is in order of submission */
		if (sim->setting->policy == MSR_FIFO && start->job != i)
			break;
		job->started = sim->now;
		job->type = start->type;
		job->n_parts = start->n_parts;
		job->parts = malloc(sizeof(DecidePart) * (size_t) start->n_parts);
		memcpy(job->parts, &result.parts[start->first_part],
			   sizeof(DecidePart) * (size_t) start->n_parts);
		job->ended = sim->now + job->run[job->type];
		msr_devices(sim, job, true);
		sim->tenants[job->tenant].running += job->gpus;
		sim->tenants[job->tenant].waiting -= job->gpus;
		sim->running[sim->n_running++] = sim->queue[start->job];
	}
	for (i = 0; i < sim->n_queue; i++)
	{
		if (sim->jobs[sim->queue[i]].started < 0)
			sim->queue[kept++] = sim->queue[i];
	}
	*again = sim->setting->policy == MSR_FIFO && sim->n_queue - kept == FIFO_HEAD;
	sim->n_queue = kept;
	pool_free(&sim->pool);
	return error;
}

/*
 * Ends the jobs that end now, and learns from them.
 */
static void
msr_ends(Sim *sim)
{
	int			kept = 0;
	int			i;

	for (i = 0; i < sim->n_running; i++)
	{
		MsrJob	   *job = &sim->jobs[sim->running[i]];
		Tenant	   *tenant = &sim->tenants[job->tenant];

		if (job->ended > sim->now)
		{
			sim->running[kept++] = sim->running[i];
			continue;
		}
		msr_devices(sim, job, false);
		tenant->running -= job->gpus;
		msr_learn(tenant, job);
	}
	sim->n_running = kept;
}

/*
 * Whether a cycle could start any job.  It cannot if no type has enough free
 * devices for the smallest waiting job, or, in a strict queue, for the first
 * one.
 */
static bool
msr_may_start(const Sim *sim)
{
	int			left[TYPES] = {0};
	int			n = sim->setting->policy == MSR_FIFO ? 1 : sim->n_queue;
	int			smallest = INT32_MAX;
	int			i;
	int			d;

	for (i = 0; i < n && i < sim->n_queue; i++)
	{
		if (sim->jobs[sim->queue[i]].gpus < smallest)
			smallest = sim->jobs[sim->queue[i]].gpus;
	}
	for (i = 0; i < sim->world.n_nodes; i++)
	{
		const DecideNode *node = &sim->world.nodes[i];

		for (d = 0; d < node->gpus; d++)
			left[node->type] += node->device_left[d] == DECIDE_WHOLE;
	}
	for (i = 0; i < sim->types; i++)
	{
		if (left[i] >= smallest)
			return true;
	}
	return false;
}

/*
 * Replays the whole trace.  Returns NULL, or what is wrong.
 */
const char *
msr_replay(Sim *sim)
{
	const char *error = NULL;
	bool		again;
	int			i;

	sim->queue = malloc(sizeof(int) * (size_t) (sim->n_jobs + 1));
	sim->running = malloc(sizeof(int) * (size_t) (sim->n_jobs + 1));
	pool_init(&sim->pool);
	while (error == NULL && (sim->next < sim->n_jobs || sim->n_running > 0))
	{
		int64_t		until = sim->next < sim->n_jobs ?
			sim->jobs[sim->next].submitted : INT64_MAX;

		for (i = 0; i < sim->n_running; i++)
		{
			if (sim->jobs[sim->running[i]].ended < until)
				until = sim->jobs[sim->running[i]].ended;
		}
		msr_pass(sim, until);
		msr_ends(sim);
		while (sim->next < sim->n_jobs &&
			   sim->jobs[sim->next].submitted <= sim->now)
		{
			const MsrJob *job = &sim->jobs[sim->next];

			sim->tenants[job->tenant].waiting += job->gpus;
			sim->queue[sim->n_queue++] = sim->next++;
		}
		again = msr_may_start(sim);
		while (sim->n_queue > 0 && again && error == NULL)
			error = msr_cycle(sim, &again);
	}
	if (error == NULL && sim->n_queue > 0)
		error = "jobs are left that nothing can start";
	return error;
}
