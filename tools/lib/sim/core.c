/*
 * core.c
 *	  Replays a trace with the scheduler's own decision core.
 *
 * A cycle runs at each submission, each end, and each instant at which time
 * alone may change a decision: a job ages, or becomes old enough to be
 * evicted.  It is left out where it could neither start nor evict anything.  The core is told what the database would tell it: limits, what
 * accounts used, and how long jobs run as learnt from earlier ones.
 *
 * An evicted job leaves after the policy's leave_time.  It goes on later from
 * its last checkpoint; the work since then is done twice.  A job that waits
 * again keeps its place by submission, and all its waiting counts for its age.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define MILLION		INT64_C(1000000)
#define LEARN_FROM	5			/* runs from which an estimate is made */
#define MIX_TIME	(7 * DAY)	/* how long a start counts as typical */

typedef struct SimClaim
{
	DecideClaim claim;
	int32_t		job;			/* index into the trace */
	DecidePart *parts;
} SimClaim;

/* The memory of one cycle. */
typedef struct Arena
{
	void	  **pieces;
	int32_t		n;
	int32_t		capacity;
} Arena;

/* The built-in tiers, as installed. */
static const struct
{
	DecidePreemptible preemptible;
	bool		can_preempt;
} tiers[SIM_TIERS] = {
	{DECIDE_PREEMPT_NEVER, true},
	{DECIDE_PREEMPT_RECLAIM, true},
	{DECIDE_PREEMPT_CAPACITY, false},
	{DECIDE_PREEMPT_CAPACITY, false},
	{DECIDE_PREEMPT_CAPACITY, false}
};

static void *
arena_alloc(void *context, size_t size)
{
	Arena	   *arena = context;

	arena->pieces = SimGrow(arena->pieces, arena->n, &arena->capacity,
							sizeof(void *));
	arena->pieces[arena->n] = SimAlloc(1, size + 1);
	return arena->pieces[arena->n++];
}

static void
arena_reset(Arena *arena)
{
	while (arena->n > 0)
		free(arena->pieces[--arena->n]);
}

static int
compare_ratio(const void *a, const void *b)
{
	return *(const int32_t *) a - *(const int32_t *) b;
}

/*
 * How long a job is expected to run: the 75th percentile of run over limit of
 * the last jobs of its tenant and tier.  0: as long as its limit.
 */
static int64_t
estimate(const Sim *sim, const SimJob *job)
{
	const SimTenant *tenant = &sim->trace->tenants[job->tenant];
	int32_t		n = tenant->n_ratios[job->tier];
	int32_t		sorted[LEARNT_RUNS];
	int64_t		ratio;
	int64_t		run;

	n = n < LEARNT_RUNS ? n : LEARNT_RUNS;
	if (!sim->policy->learn || n < LEARN_FROM)
		return 0;
	memcpy(sorted, tenant->ratios[job->tier], sizeof(int32_t) * (size_t) n);
	qsort(sorted, (size_t) n, sizeof(int32_t), compare_ratio);
	ratio = sorted[(n * 3 + 3) / 4 - 1];
	if (ratio >= MILLION)
		return 0;
	run = job->wall / MILLION * ratio +
		(job->wall % MILLION * ratio + MILLION - 1) / MILLION;
	run = run < SECOND ? SECOND : run;
	return run < job->wall ? run : job->wall;
}

/*
 * Learn from a job that is done.
 */
static void
learn(Sim *sim, const SimJob *job)
{
	SimTenant  *tenant = &sim->trace->tenants[job->tenant];
	int64_t		elapsed = job->ends - job->started;
	int64_t		ratio = (int64_t) (((__int128) elapsed * MILLION + job->wall - 1) /
								   job->wall);

	tenant->ratios[job->tier][tenant->n_ratios[job->tier]++ % LEARNT_RUNS] =
		(int32_t) (ratio > MILLION ? MILLION : ratio);
}

/*
 * When a running job is over at the latest.
 */
static int64_t
limit_end(const Sim *sim, const SimJob *job)
{
	int64_t		limit = job->leaving ? job->ends : job->started + job->wall;

	return limit > sim->now + SECOND ? limit : sim->now + SECOND;
}

/*
 * When a running job is likely to end: doubled when outrun, at most at its
 * limit.
 */
static int64_t
likely_end(const Sim *sim, const SimJob *job)
{
	int64_t		limit = limit_end(sim, job);
	int64_t		run = job->likely_run > 0 ? job->likely_run : job->wall;
	int64_t		end;

	while (job->started + run <= sim->now && job->started + run < limit)
		run *= 2;
	end = job->started + run < limit ? job->started + run : limit;
	return end > sim->now + SECOND ? end : sim->now + SECOND;
}

/*
 * When a waiting job becomes aged.
 */
static int64_t
aged_at(const Sim *sim, const SimJob *job)
{
	if (sim->policy->max_wait == DECIDE_NEVER)
		return DECIDE_NEVER;
	return job->queued_at + sim->policy->max_wait - job->waited;
}

static void
load_nodes(Sim *sim)
{
	int32_t		i;
	int32_t		d;
	int32_t		p;

	for (i = 0; i < sim->n_nodes; i++)
	{
		for (d = 0; d < sim->nodes[i].gpus; d++)
			sim->nodes[i].device_left[d] = DECIDE_WHOLE;
	}
	for (i = 0; i < sim->n_running; i++)
	{
		const SimJob *job = &sim->trace->jobs[sim->running[i]];

		for (p = 0; p < job->n_parts; p++)
		{
			for (d = 0; d < DECIDE_MAX_DEVICES; d++)
			{
				if ((job->parts[p].devices >> d) & 1)
					sim->nodes[job->parts[p].node].device_left[d] = 0;
			}
		}
	}
}

static void
load_waiting(Sim *sim, Arena *arena, const DecideAccount *accounts,
			 DecideInput *input)
{
	DecideRequestClass *requests = arena_alloc(arena,
											   sizeof(*requests) * (size_t) sim->n_queue);
	DecideJob  *jobs = arena_alloc(arena, sizeof(*jobs) * (size_t) sim->n_queue);
	DecideOffer *offers = arena_alloc(arena, sizeof(*offers) * SIM_TYPES *
									  (size_t) sim->n_queue);
	int32_t		i;
	int32_t		t;

	for (i = 0; i < sim->n_queue; i++)
	{
		const SimJob *job = &sim->trace->jobs[sim->queue[i]];
		int32_t		account = sim->policy->one_account ? 0 : job->tenant;
		int64_t		run = estimate(sim, job);
		DecideOffer *mine = &offers[i * SIM_TYPES];
		int32_t		n = 0;

		for (t = 0; t < sim->n_types; t++)
		{
			if (job->run[t] > 0)
				mine[n++] = (DecideOffer){.type = t};
		}
		requests[i] = (DecideRequestClass){
			.min_gpus = job->gpus, .max_gpus = job->gpus,
			.share = DECIDE_WHOLE, .n_offers = n, .offers = mine,
			.wall_limit = job->wall
		};
		jobs[i] = (DecideJob){
			.request = i, .tier = job->tier, .account = account,
			.submitted = job->submitted, .aged_at = aged_at(sim, job),
			.order_run = run > 0 ? run : job->wall, .likely_run = run,
			.waits_from = job->queued_at,
			.id = sim->queue[i], .org = accounts[account].name
		};
	}
	input->requests = requests;
	input->jobs = jobs;
	input->n_requests = input->n_jobs = sim->n_queue;
}

/*
 * The last checkpoint of a running job.
 */
static int64_t
saved_at(const Sim *sim, const SimJob *job, int64_t at)
{
	int64_t		every = sim->policy->save_every;

	return every == DECIDE_NEVER ? job->started :
		job->started + (at - job->started) / every * every;
}

static void
load_running(Sim *sim, Arena *arena, const DecideAccount *accounts,
			 DecideInput *input)
{
	DecideRunning *running = arena_alloc(arena,
										 sizeof(*running) * (size_t) (sim->n_running + 1));
	DecidePart *parts;
	int32_t		n = 0;
	int32_t		i;

	for (i = 0; i < sim->n_running; i++)
		n += sim->trace->jobs[sim->running[i]].n_parts;
	parts = arena_alloc(arena, sizeof(*parts) * (size_t) (n + 1));
	n = 0;
	for (i = 0; i < sim->n_running; i++)
	{
		const SimJob *job = &sim->trace->jobs[sim->running[i]];
		int32_t		account = sim->policy->one_account ? 0 : job->tenant;

		running[i] = (DecideRunning){
			.org = accounts[account].name, .id = sim->running[i],
			.attempt = job->attempt, .account = account, .tier = job->tier,
			.type = job->type, .gpus = job->gpus, .share = DECIDE_WHOLE,
			.min_gpus = job->gpus, .max_gpus = job->gpus,
			.first_part = n, .n_parts = job->n_parts,
			.preemptible = tiers[job->tier].preemptible,
			.leaving = job->leaving, .started = job->started,
			.saved_at = saved_at(sim, job, sim->now),
			.evictions = job->evictions, .redone = job->lost / job->gpus,
			.aged = job->was_aged,
			.expected_end = limit_end(sim, job),
			.likely_end = likely_end(sim, job),
			.limit_end = limit_end(sim, job), .request = -1,
			.submitted = job->submitted
		};
		if (job->leaving)
		{
			const SimJob *for_job = &sim->trace->jobs[job->for_job];

			running[i].for_org = accounts[sim->policy->one_account ? 0 :
										  for_job->tenant].name;
			running[i].for_job = job->for_job;
		}
		memcpy(parts + n, job->parts,
			   sizeof(DecidePart) * (size_t) job->n_parts);
		n += job->n_parts;
	}
	input->running = running;
	input->n_running = sim->n_running;
	input->running_parts = parts;
	input->n_running_parts = n;
}

/*
 * The place of a job in the queue, or -1.
 */
static int32_t
queue_place(const Sim *sim, int32_t job)
{
	int32_t		i;

	for (i = 0; i < sim->n_queue; i++)
	{
		if (sim->queue[i] == job)
			return i;
	}
	return -1;
}

static void
load_claims(Sim *sim, Arena *arena, DecideInput *input)
{
	DecideClaim *claims = arena_alloc(arena,
									  sizeof(*claims) * (size_t) (sim->n_claims + 1));
	DecidePart *parts;
	int32_t		n = 0;
	int32_t		i;

	for (i = 0; i < sim->n_claims; i++)
		n += sim->claims[i].claim.n_parts;
	parts = arena_alloc(arena, sizeof(*parts) * (size_t) (n + 1));
	n = 0;
	for (i = 0; i < sim->n_claims; i++)
	{
		claims[i] = sim->claims[i].claim;
		claims[i].job = queue_place(sim, sim->claims[i].job);
		claims[i].first_part = n;
		memcpy(parts + n, sim->claims[i].parts,
			   sizeof(DecidePart) * (size_t) claims[i].n_parts);
		n += claims[i].n_parts;
	}
	input->claims = claims;
	input->n_claims = sim->n_claims;
	input->claim_parts = parts;
	input->n_claim_parts = n;
}

/*
 * What the last cycle reserved for jobs that still wait.
 */
static void
load_previous(Sim *sim, Arena *arena, DecideInput *input)
{
	DecidePreviousReservation *previous = arena_alloc(arena,
													  sizeof(*previous) * (size_t) (sim->n_queue + 1));
	DecidePart *parts;
	int32_t		n = 0;
	int32_t		i;

	for (i = 0; i < sim->n_queue; i++)
		n += sim->trace->jobs[sim->queue[i]].n_reserved;
	parts = arena_alloc(arena, sizeof(*parts) * (size_t) (n + 1));
	n = 0;
	for (i = 0; i < sim->n_queue; i++)
	{
		const SimJob *job = &sim->trace->jobs[sim->queue[i]];

		if (job->n_reserved == 0)
			continue;
		previous[input->n_previous++] = (DecidePreviousReservation){
			.job = i, .type = job->reserved_type, .gpus = job->gpus,
			.first_part = n, .n_parts = job->n_reserved,
			.limit_at = job->reserved_at, .latest = job->guaranteed
		};
		memcpy(parts + n, job->reserved,
			   sizeof(DecidePart) * (size_t) job->n_reserved);
		n += job->n_reserved;
	}
	input->previous = previous;
	input->previous_parts = parts;
	input->n_previous_parts = n;
}

/*
 * What jobs of the last days asked for, for the packing by typical jobs.
 */
static void
load_mix(const Sim *sim, Arena *arena, DecideInput *input)
{
	const SimTrace *trace = sim->trace;
	DecideWorkload *mix = arena_alloc(arena, sizeof(*mix) * 4096);
	DecideOffer *offers = arena_alloc(arena, sizeof(*offers) * SIM_TYPES);
	int32_t		n = 0;
	int32_t		i;
	int32_t		m;

	for (i = 0; i < sim->n_types; i++)
		offers[i] = (DecideOffer){.type = i};
	for (i = 0; i < sim->next; i++)
	{
		const SimJob *job = &trace->jobs[i];

		if (job->first_start < 0 || job->first_start <= sim->now - MIX_TIME)
			continue;
		for (m = 0; m < n && mix[m].request.min_gpus != job->gpus; m++)
			;
		if (m == 4096)
			continue;
		if (m == n)
			mix[n++] = (DecideWorkload){.request = {
				.min_gpus = job->gpus, .max_gpus = job->gpus,
				.share = DECIDE_WHOLE, .n_offers = sim->n_types,
				.offers = offers, .wall_limit = HOUR
			}};
		mix[m].jobs++;
	}
	input->workloads = mix;
	input->n_workloads = n;
}

/*
 * What a job's present attempt used so far, decayed.
 */
static int64_t
past_usage(const Sim *sim, const SimJob *job)
{
	return DecidePastUsage((int64_t) job->gpus * DECIDE_WHOLE,
						   sim->now - job->started, 0, sim->policy->halflife);
}

/*
 * The input of a cycle.
 */
static void
load(Sim *sim, Arena *arena, DecideInput *input)
{
	static DecideType weights[SIM_TYPES];
	const SimPolicy *policy = sim->policy;
	int32_t		n = policy->one_account ? 1 : sim->trace->n_tenants;
	DecideAccount *accounts = arena_alloc(arena, sizeof(*accounts) * (size_t) n);
	DecideTier *loaded = arena_alloc(arena, sizeof(*loaded) * SIM_TIERS);
	int32_t		i;

	for (i = 0; i < n; i++)
		accounts[i] = (DecideAccount){
			.parent = -1, .name = sim->trace->tenants[i].name,
			.weight = DECIDE_WEIGHT_ONE,
			.usage = DecideDecayed(sim->trace->tenants[i].usage,
								   sim->now - sim->trace->tenants[i].usage_at,
								   policy->halflife),
			.live = sim->trace->tenants[i].running * DECIDE_WHOLE
		};
	for (i = 0; i < SIM_TIERS; i++)
		loaded[i] = (DecideTier){
			.rank = i, .can_preempt = tiers[i].can_preempt,
			.grace = 120 * SECOND, .min_run = policy->min_run,
			.max_wait = policy->max_wait
		};
	for (i = 0; i < SIM_TIERS; i++)
		loaded[i].ages_to = DecideAgesTo(loaded, SIM_TIERS, i);
	for (i = 0; i < SIM_TYPES; i++)
		weights[i].weight = 1000;
	for (i = 0; i < sim->n_running; i++)
	{
		const SimJob *job = &sim->trace->jobs[sim->running[i]];

		loaded[job->tier].live += (int64_t) job->gpus * DECIDE_WHOLE;
		accounts[policy->one_account ? 0 : job->tenant].usage +=
			past_usage(sim, job);
	}
	memset(input, 0, sizeof(*input));
	input->now = sim->now;
	input->soon = SECOND;
	input->policy = (DecidePolicy){
		.order = policy->order, .packing = policy->packing,
		.fair_horizon = policy->fair_horizon, .reclaim = policy->reclaim,
		.restart_cost = policy->restart_cost,
		.elastic_idle_delay = DECIDE_NEVER, .backfill_depth = policy->depth
	};
	input->types = weights;
	input->n_types = sim->n_types;
	input->tiers = loaded;
	input->n_tiers = SIM_TIERS;
	input->accounts = accounts;
	input->n_accounts = n;
	input->nodes = sim->nodes;
	input->n_nodes = sim->n_nodes;
	input->max_starts = input->max_evictions = INT32_MAX;
	load_nodes(sim);
	load_waiting(sim, arena, accounts, input);
	load_running(sim, arena, accounts, input);
	load_claims(sim, arena, input);
	load_previous(sim, arena, input);
	if (policy->packing == DECIDE_PACKING_FGD)
		load_mix(sim, arena, input);
}

static void
drop_claim(Sim *sim, int32_t job)
{
	int32_t		i;

	for (i = 0; i < sim->n_claims; i++)
	{
		if (sim->claims[i].job != job)
			continue;
		free(sim->claims[i].parts);
		sim->claims[i--] = sim->claims[--sim->n_claims];
	}
}

/*
 * Start what the core decided.
 */
static void
apply_starts(Sim *sim, const DecideResult *result)
{
	int32_t		kept = 0;
	int32_t		i;

	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *begun = &result->starts[i];
		int32_t		index = sim->queue[begun->job];
		SimJob	   *job = &sim->trace->jobs[index];
		SimTenant  *tenant = &sim->trace->tenants[job->tenant];

		job->likely_run = estimate(sim, job);
		job->was_aged = sim->now > aged_at(sim, job);
		job->waited += sim->now - job->queued_at;
		job->started = sim->now;
		if (job->first_start < 0)
			job->first_start = sim->now;
		job->type = begun->type;
		job->attempt++;
		job->n_reserved = 0;
		job->guaranteed = 0;
		job->n_parts = begun->n_parts;
		free(job->parts);
		job->parts = SimAlloc((size_t) begun->n_parts, sizeof(DecidePart));
		memcpy(job->parts, &result->parts[begun->first_part],
			   sizeof(DecidePart) * (size_t) begun->n_parts);
		job->ends = sim->now + (int64_t)
			((__int128) job->run[job->type] * (MILLION - job->done) / MILLION);
		tenant->running += job->gpus;
		tenant->waiting -= job->gpus;
		sim->running[sim->n_running++] = index;
		drop_claim(sim, index);
	}
	for (i = 0; i < sim->n_queue; i++)
	{
		if (sim->trace->jobs[sim->queue[i]].started < 0)
			sim->queue[kept++] = sim->queue[i];
	}
	sim->n_queue = kept;
}

/*
 * Note promised devices, and tell those who must leave for them.
 */
static void
apply_promises(Sim *sim, const DecideResult *result)
{
	int32_t		i;
	int32_t		e;

	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *promise = &result->promises[i];
		SimClaim   *claim;
		int32_t		job;

		if (promise->job < 0)
			continue;
		job = sim->queue[promise->job];
		sim->claims = SimGrow(sim->claims, sim->n_claims, &sim->claims_size,
							  sizeof(SimClaim));
		claim = &sim->claims[sim->n_claims++];
		claim->job = job;
		claim->parts = SimAlloc((size_t) promise->n_parts, sizeof(DecidePart));
		memcpy(claim->parts, &result->promise_parts[promise->first_part],
			   sizeof(DecidePart) * (size_t) promise->n_parts);
		claim->claim = (DecideClaim){
			.org = sim->trace->tenants[sim->policy->one_account ? 0 :
									   sim->trace->jobs[job].tenant].name,
			.id = job, .made = sim->now, .turn = i,
			.account = sim->policy->one_account ? 0 :
			sim->trace->jobs[job].tenant,
			.type = promise->type, .gpus = promise->gpus,
			.share = promise->share, .n_parts = promise->n_parts
		};
		for (e = 0; e < promise->n_evictions; e++)
		{
			SimJob	   *victim = &sim->trace->jobs[sim->running
			[result->evictions[promise->first_eviction + e].running]];
			int64_t		leaves = sim->now + sim->policy->leave_time;

			victim->leaving = true;
			victim->for_job = job;
			victim->reclaimed = result->evictions
				[promise->first_eviction + e].why == DECIDE_WHY_ENTITLEMENT;
			if (leaves < victim->ends)
				victim->ends = leaves;
			else
				victim->leaving = false;	/* it is done before that */
		}
	}
}

/*
 * Keep what is reserved for the next cycle, and note the first promise that
 * each waiting job gets, and when it was first expected to start.
 */
static void
note_reservations(Sim *sim, const DecideResult *result,
				  const int64_t *expected)
{
	int32_t		i;

	for (i = 0; i < result->n_broken; i++)
	{
		SimJob	   *job = &sim->trace->jobs[sim->queue[result->broken[i].job]];

		job->guaranteed = 0;
		job->named = true;
	}
	for (i = 0; i < sim->n_queue; i++)
	{
		SimJob	   *job = &sim->trace->jobs[sim->queue[i]];

		/* who has a claim keeps what it was guaranteed */
		if (job->guaranteed == 0)
			job->n_reserved = 0;
		if (job->expected == DECIDE_NEVER && job->first_start < 0)
			job->expected = expected[i];
	}
	for (i = 0; i < result->n_reservations; i++)
	{
		const DecideReservation *made = &result->reservations[i];
		SimJob	   *job = &sim->trace->jobs[sim->queue[made->job]];

		free(job->reserved);
		job->reserved = SimAlloc((size_t) made->n_parts, sizeof(DecidePart));
		memcpy(job->reserved, &result->reserved_parts[made->first_part],
			   sizeof(DecidePart) * (size_t) made->n_parts);
		job->n_reserved = made->n_parts;
		job->reserved_type = made->type;
		job->reserved_at = made->limit_at;
		job->guaranteed = made->latest;
		if (job->promised == DECIDE_NEVER && made->latest > 0)
			job->promised = made->latest;
	}
}

/*
 * One cycle.
 */
static void
cycle(Sim *sim, Arena *arena)
{
	DecideArena memory = {arena_alloc, NULL, arena};
	DecideInput input;
	DecideResult result;
	int64_t    *reserved_at = NULL;
	int64_t    *expected = NULL;
	const char *error;

	load(sim, arena, &input);
	error = DecideRun(&input, &memory, &result);
	if (error == NULL && sim->verify)
		error = DecideCheck(&input, &result, &memory, NULL);
	if (error == NULL)
		error = DecideExpectedStarts(&input, &result, &memory, &reserved_at);
	if (error == NULL)
		error = DecideExpectedQueue(&input, &result, &memory, reserved_at,
									&expected);
	if (error != NULL)
		SimDie("%s: the decision core says: %s", sim->trace->file, error);
	sim->cycles++;
	note_reservations(sim, &result, expected);
	apply_promises(sim, &result);
	apply_starts(sim, &result);
	arena_reset(arena);
}

/*
 * Add an attempt that ends now to what its tenant used.
 */
static void
charge(Sim *sim, const SimJob *job)
{
	SimTenant  *tenant = &sim->trace->tenants[job->tenant];

	tenant->usage = DecideDecayed(tenant->usage, sim->now - tenant->usage_at,
								  sim->policy->halflife) +
		past_usage(sim, job);
	tenant->usage_at = sim->now;
}

/*
 * A job that was evicted waits again, from its last checkpoint.
 */
static void
requeue(Sim *sim, int32_t index)
{
	SimJob	   *job = &sim->trace->jobs[index];
	int64_t		saved = saved_at(sim, job, sim->now);

	job->lost += (sim->now - saved) * job->gpus;
	job->done += (int64_t) ((__int128) (saved - job->started) * MILLION /
							job->run[job->type]);
	job->evictions++;
	job->reclaims += job->reclaimed;
	job->leaving = false;
	job->started = -1;
	job->queued_at = sim->now;
	sim->trace->tenants[job->tenant].waiting += job->gpus;
	sim->queue[sim->n_queue++] = index;
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
		charge(sim, job);
		sim->trace->tenants[job->tenant].running -= job->gpus;
		if (job->leaving)
			requeue(sim, sim->running[i]);
		else
		{
			job->ended = true;
			learn(sim, job);
		}
	}
	sim->n_running = kept;
}

/*
 * Whether any waiting job may evict a running one, so that the instants count
 * from which running jobs may be evicted.
 */
static bool
may_evict(const Sim *sim)
{
	int32_t		i;

	if (sim->policy->reclaim)
		return sim->n_queue > 0;
	for (i = 0; i < sim->n_queue; i++)
	{
		if (tiers[sim->trace->jobs[sim->queue[i]].tier].can_preempt)
			return true;
	}
	return false;
}

/*
 * Whether a cycle could start or evict anything: a job may be evicted, or as
 * many GPUs are free as the smallest waiting job asks for.  Without that the
 * cycle would only make reservations again.
 */
static bool
may_decide(const Sim *sim)
{
	int64_t		left = sim->devices;
	int32_t		smallest = INT32_MAX;
	int32_t		i;

	if (sim->every_cycle || may_evict(sim))
		return true;
	for (i = 0; i < sim->n_running; i++)
		left -= sim->trace->jobs[sim->running[i]].gpus;
	for (i = 0; i < sim->n_queue; i++)
	{
		int32_t		gpus = sim->trace->jobs[sim->queue[i]].gpus;

		smallest = gpus < smallest ? gpus : smallest;
	}
	return smallest <= left;
}

/*
 * The next instant at which anything happens.
 */
static int64_t
next_instant(const Sim *sim)
{
	const SimTrace *trace = sim->trace;
	int64_t		until = sim->next < trace->n_jobs ?
		trace->jobs[sim->next].submitted : DECIDE_NEVER;
	bool		evicts = may_evict(sim);
	int32_t		i;

	for (i = 0; i < sim->n_running; i++)
	{
		const SimJob *job = &trace->jobs[sim->running[i]];
		int64_t		old = job->started + sim->policy->min_run;

		until = job->ends < until ? job->ends : until;
		if (evicts && old > sim->now && old < until)
			until = old;
	}
	for (i = 0; i < sim->n_queue; i++)
	{
		const SimJob *job = &trace->jobs[sim->queue[i]];
		int64_t		aged = aged_at(sim, job);

		if (aged > sim->now && aged < until)
			until = aged;
	}
	return until;
}

void
SimCore(Sim *sim)
{
	SimTrace   *trace = sim->trace;
	Arena		arena = {0};

	for (;;)
	{
		int64_t		until = next_instant(sim);

		if (until == DECIDE_NEVER)
			break;
		SimPass(sim, until);
		end_jobs(sim);
		for (; sim->next < trace->n_jobs &&
			 trace->jobs[sim->next].submitted <= sim->now; sim->next++)
		{
			SimJob	   *job = &trace->jobs[sim->next];

			if (job->gpus > sim->devices)
				continue;
			job->queued_at = sim->now;
			trace->tenants[job->tenant].waiting += job->gpus;
			sim->queue[sim->n_queue++] = sim->next;
		}
		if (sim->n_queue > 0 && may_decide(sim))
			cycle(sim, &arena);
	}
	free(arena.pieces);
	while (sim->n_claims > 0)
		drop_claim(sim, sim->claims[0].job);
	free(sim->claims);
}
