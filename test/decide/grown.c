/*
 * grown.c
 *	  Tests elastic jobs that grow at the expense of accounts with more than
 *	  their entitlement.
 *
 * For a single elastic job all sets of running jobs are tried, to find whether
 * it could have got devices, how many, and whether each victim was needed.
 *
 * In pools with several elastic and waiting jobs, evicted jobs leave and are
 * queued again, and no other jobs arrive or end.  So after a while nothing
 * must be left to decide: the devices by which a job grew are not taken from
 * it again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define SECOND		INT64_C(1000000)
#define STEP		(SECOND * 500)	/* longer than min_run and
									 * elastic_idle_delay */
#define MOST_CYCLES	60

static const char *const names[] = {
	"acme", "bolt", "acme/one", "acme/two", "bolt/one/deep", "corp"
};

#define N_NAMES ((int) (sizeof(names) / sizeof(names[0])))

typedef struct GrowthTally
{
	long		grown;			/* number that grew by victims */
	long		refused;		/* number for which no job could have been
								 * evicted */
	long		under;			/* number where a victim left its account less
								 * than its entitlement */
	long		many;			/* number that grew by more than one device */
	long		shrunk;			/* number for which other elastic jobs gave
								 * devices */
	long		cycles;
} GrowthTally;

/*
 * Returns an organisation or an account below one; *org is set to the
 * organisation.
 */
static const char *
random_name(uint64_t *seed, char **org)
{
	const char *name = names[random_below(seed, N_NAMES)];

	*org = format("%.*s", (int) strcspn(name, "/"), name);
	return name;
}

/*
 * Adds a running job on up to this many free devices, from a random node on.
 * An elastic job gets more than its minimum.
 */
static void
random_run(World *world, uint64_t *seed, int64_t id, int wanted, int more)
{
	char	   *org;
	const char *name = random_name(seed, &org);
	DecideRunning *running = world_running(world, org, id);
	bool		one_node = random_below(seed, 2) == 0;
	int			first = random_below(seed, world->n_nodes);
	int			i;
	int			d;

	free(org);
	running->account = world_account(world, name);
	running->tier = world_rank(world, 1 + (random_below(seed, 5) == 0));
	running->type = 0;
	running->preemptible = random_below(seed, 6) > 0 ?
		DECIDE_PREEMPT_CAPACITY : DECIDE_PREEMPT_NEVER;
	running->started = running->saved_at = world->now - SECOND *
		(100 + random_below(seed, 900));
	for (i = 0; i < world->n_nodes && wanted > running->gpus &&
		 (running->gpus == 0 || !one_node); i++)
	{
		int			index = (first + i) % world->n_nodes;
		DecideNode *node = &world->nodes[index];
		DecidePart *part = NULL;

		for (d = 0; d < node->gpus && wanted > running->gpus; d++)
		{
			if (node->device_left[d] == 0)
				continue;
			if (part == NULL)
				part = world_part(world, running);
			part->node = index;
			part->devices |= UINT64_C(1) << d;
			part->gpus++;
			running->gpus++;
			node->device_left[d] = 0;
		}
	}
	if (running->gpus == 0)
	{
		free((char *) world->running[--world->n_running].org);
		return;
	}
	running->min_gpus = more == 0 ? running->gpus :
		1 + random_below(seed, running->gpus);
	running->max_gpus = running->gpus + more;
	running_request(world, running, one_node ? DECIDE_TOPOLOGY_NODE :
					DECIDE_TOPOLOGY_ANY);
}

/*
 * Adds a waiting job, elastic or not.
 */
static void
random_wait(World *world, uint64_t *seed, int64_t id)
{
	DecideOffer offer = {0};
	DecideRequestClass request = {
		.share = DECIDE_WHOLE, .n_offers = 1, .offers = &offer,
		.spot_ok = true, .wall_limit = DECIDE_NEVER
	};
	char	   *org;
	const char *name = random_name(seed, &org);
	DecideJob  *job;

	request.min_gpus = request.max_gpus = 1 + random_below(seed, 3);
	if (random_below(seed, 3) == 0)
		request.max_gpus += random_below(seed, 4);
	job = world_job(world, world_request(world, &request), org, "", id);
	free(org);
	job->account = world_account(world, name);
	job->tier = world_rank(world, 1);
	job->submitted = id;
}

/*
 * Makes a pool that is full except for some devices, with elastic and waiting
 * jobs.
 */
static void
random_grown(World *world, uint64_t *seed, int growers, int waiting)
{
	int			n = 1 + random_below(seed, 3);
	int			i;

	world_init(world);
	(void) world_type(world, "H100");
	world->now = SECOND * 10000;
	world->policy.reclaim = true;
	world->policy.elastic_idle_delay = SECOND * 200;
	world->policy.backfill_depth = random_below(seed, 3);
	for (i = 1; i < 3; i++)
	{
		int			tier = world_rank(world, i);

		world->tiers[tier].can_preempt = random_below(seed, 2) == 0;
		world->tiers[tier].min_run = SECOND * random_below(seed, 3) * 200;
	}
	for (i = 0; i < n; i++)
	{
		char	   *name = format("n%d", i);
		DecideNode *node = world_node(world, name, 0,
									  2 + random_below(seed, 4));

		free(name);
		node->idle = random_next(seed);
	}
	for (i = 0; i < growers; i++)
		random_run(world, seed, 1 + i, 1 + random_below(seed, 2),
				   1 + random_below(seed, 4));
	for (i = 0; i < 10; i++)
	{
		if (random_below(seed, 8) > 0)
			random_run(world, seed, 100 + i, 1 + random_below(seed, 3), 0);
	}
	for (i = 0; i < waiting; i++)
		random_wait(world, seed, 1000 + i);
	for (i = 0; i < world->n_accounts; i++)
		world->accounts[i].weight = DECIDE_WEIGHT_ONE *
			(1 + random_below(seed, 3));
}

/*
 * Whether the first running job could have this many devices, of its own and
 * free ones (with idle, only those that have been free long enough), after a
 * set has left.
 */
static bool
fits(const World *world, uint64_t set, int count, bool idle)
{
	DecideRequestClass request = world->requests[world->running[0].request];
	DecideNode	nodes[4];
	int			i;
	int			p;
	int			d;

	memcpy(nodes, world->nodes, sizeof(DecideNode) * (size_t) world->n_nodes);
	for (i = 0; i < world->n_nodes && idle; i++)
	{
		for (d = 0; d < nodes[i].gpus; d++)
		{
			if (((nodes[i].idle >> d) & 1) == 0)
				nodes[i].device_left[d] = 0;
		}
	}
	for (i = 0; i < world->n_running; i++)
	{
		const DecideRunning *r = &world->running[i];

		for (p = r->first_part; (i == 0 || ((set >> i) & 1)) &&
			 p < r->first_part + r->n_parts; p++)
			devices_allocate(&nodes[world->parts[p].node], &world->parts[p],
							 r->share, -1);
	}
	request.min_gpus = request.max_gpus = count;
	return oracle_largest(nodes, world->n_nodes, &request,
						  &request.offers[0]) >= 0;
}

/*
 * Whether a set may be evicted so that the first job has this many devices.
 */
static bool
may_leave(const World *world, uint64_t set, int count, bool under)
{
	const DecideRunning *r = &world->running[0];
	Taker		taker = {r->account, r->tier, false,
		(int64_t) (count - r->gpus) * r->share};

	return (set & 1) == 0 && oracle_may_evict(world, &taker, set, under);
}

/*
 * Whether there would be too few devices if any member of a set stayed.
 */
static bool
all_needed(const World *world, uint64_t set, int count)
{
	int			i;

	for (i = 1; i < world->n_running; i++)
	{
		if (((set >> i) & 1) &&
			fits(world, set & ~(UINT64_C(1) << i), count, false))
			return false;
	}
	return true;
}

/*
 * Finds whether there is a set that may be evicted, without superfluous
 * members.  *under becomes true if one leaves its account less than its
 * entitlement.
 */
static bool
set_exists(const World *world, int count, bool *under)
{
	uint64_t	set;
	int			mode;

	for (mode = 0; mode < 2; mode++)
	{
		*under = mode == 1;
		for (set = 2; set < UINT64_C(1) << world->n_running; set += 2)
		{
			if (may_leave(world, set, count, *under) &&
				fits(world, set, count, false) &&
				all_needed(world, set, count))
				return true;
		}
	}
	return false;
}

/*
 * Checks the decision for the only elastic job.  Returns NULL, or what is
 * wrong.
 */
static char *
alone_error(const World *world, const DecideResult *result, GrowthTally *tally)
{
	const DecideRunning *r = &world->running[0];
	bool		settled = world->now - r->started >=
		world->tiers[r->tier].min_run &&
		world->now - r->started >= world->policy.elastic_idle_delay;
	int			free_gpus = r->gpus;
	int			idle_gpus = r->gpus;
	int			most;
	uint64_t	set = 0;
	bool		under;
	int			count;
	int			i;

	for (count = r->gpus + 1; count <= r->max_gpus && settled; count++)
	{
		free_gpus = fits(world, 0, count, false) ? count : free_gpus;
		idle_gpus = fits(world, 0, count, true) ? count : idle_gpus;
	}
	for (most = free_gpus; settled && most < r->max_gpus &&
		 set_exists(world, most + 1, &under); most++)
		;
	count = result->n_promises == 0 ? r->gpus : result->promises[0].gpus;
	for (i = 0; i < result->n_evictions; i++)
		set |= UINT64_C(1) << result->evictions[i].running;
	if (count > r->gpus && (set & 1) == 0)
		return format("it is to grow, and is not told");
	set &= ~UINT64_C(1);
	if (most == free_gpus && set == 0)
	{
		tally->refused += settled && free_gpus < r->max_gpus;
		return count == idle_gpus ? NULL :
			format("it grows to %d, and to %d there is what is idle", count,
				   idle_gpus);
	}
	if (count < most)
		return format("it grows to %d and not to %d, as it could", count,
					  most);
	tally->grown++;
	tally->many += count > r->gpus + 1;
	(void) set_exists(world, count, &under);
	tally->under += under;
	if (!may_leave(world, set, count, under))
		return format("one is evicted that may not be");
	if (!fits(world, set, count, false))
		return format("its victims make no room");
	for (i = 1; i < world->n_running; i++)
	{
		uint64_t	less = set & ~(UINT64_C(1) << i);

		if (less != set && may_leave(world, less, count, under) &&
			fits(world, less, count, false))
			return format("victim %" PRId64 " could be spared",
						  world->running[i].id);
	}
	return NULL;
}

/*
 * Lets evicted jobs leave and wait, and promised ones start on their devices.
 */
static void
all_leave(const World *world, World *later)
{
	bool	   *gone = malloc(sizeof(bool) * (size_t) (world->n_running + 1));
	int			i;
	int			c;

	for (i = 0; i < world->n_running; i++)
		gone[i] = world->running[i].leaving;
	world_without(world, gone, later);
	for (i = 0; i < world->n_running; i++)
	{
		const DecideRunning *r = &world->running[i];
		DecideJob  *job;

		for (c = 0; c < world->n_claims; c++)
		{
			if (world->claims[c].running && world->claims[c].id == r->id)
				break;
		}
		if (!gone[i] || c < world->n_claims)
			continue;
		job = world_job(later, world_request(later,
											 &world->requests[r->request]), r->org,
						"", r->id);
		job->account = world_account(later, world->accounts[r->account].name);
		job->tier = r->tier;
		job->submitted = r->id;
	}
	for (i = 0; i < later->n_nodes; i++)
		later->nodes[i].idle = UINT64_MAX;
	later->now += STEP;
	free(gone);
}

/*
 * Counts the jobs that grew, and at whose expense.
 */
static void
count_grown(const DecideResult *result, GrowthTally *tally)
{
	int			i;

	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *promise = &result->promises[i];
		const DecidePromise *leader = &result->promises[promise->leader];

		tally->grown += promise->why == DECIDE_WHY_GROW &&
			promise->n_evictions > 1;
		tally->shrunk += promise->why == DECIDE_WHY_SHRINK &&
			leader->why == DECIDE_WHY_GROW;
	}
}

/*
 * Returns an error together with the decision.
 */
static char *
with_decision(const World *world, const DecideResult *result, char *why)
{
	char	   *text = world_render(world, result, NULL);
	char	   *full = format("%s\ndecided:\n%s", why, text);

	free(text);
	free(why);
	return full;
}

/*
 * Runs one cycle, which must be right and final at its instant.  *over becomes
 * true if it decided nothing and no job is leaving.  The world becomes the
 * next one.
 */
static char *
cycle_error(World *world, bool *over, GrowthTally *tally)
{
	DecideInput input = world_input(world);
	DecideResult result;
	World		next;
	World		later;
	Pool		pool;
	DecideArena arena;
	const char *error;
	char	   *why;

	pool_init(&pool);
	arena = pool_arena(&pool);
	error = DecideRun(&input, &arena, &result);
	if (error != NULL)
	{
		pool_free(&pool);
		return format("%s", error);
	}
	error = DecideCheck(&input, &result, &arena, NULL);
	why = error == NULL ? next_error(world, &result) :
		with_decision(world, &result, format("%s", error));
	tally->cycles++;
	count_grown(&result, tally);
	*over = result.n_starts + result.n_promises == 0;
	if (!*over && why == NULL)
	{
		world_next(world, &result, &next);
		all_leave(&next, &later);
		world_free(&next);
		world_free(world);
		*world = later;
	}
	pool_free(&pool);
	return why;
}

/*
 * Runs cycles until nothing is left to decide.  Returns NULL, or what is
 * wrong.
 */
static char *
settles_error(uint64_t seed, GrowthTally *tally)
{
	World		world;
	bool		over = false;
	char	   *why = NULL;
	int			i;

	random_grown(&world, &seed, 1 + random_below(&seed, 4),
				 random_below(&seed, 4));
	for (i = 0; i < MOST_CYCLES && !over && why == NULL; i++)
		why = cycle_error(&world, &over, tally);
	if (why == NULL && !over)
		why = format("it goes on and on");
	world_free(&world);
	return why;
}

/*
 * Tests a single elastic job.  Returns NULL, or what is wrong.
 */
static char *
one_error(uint64_t seed, GrowthTally *tally)
{
	World		world;
	DecideInput input;
	DecideResult result;
	Pool		pool;
	DecideArena arena;
	const char *error;
	char	   *why;

	random_grown(&world, &seed, 1, 0);
	pool_init(&pool);
	arena = pool_arena(&pool);
	input = world_input(&world);
	error = DecideRun(&input, &arena, &result);
	if (error == NULL)
		error = DecideCheck(&input, &result, &arena, NULL);
	if (error != NULL)
		why = format("%s", error);
	else
	{
		why = alone_error(&world, &result, tally);
		if (why == NULL)
			why = next_error(&world, &result);
		why = why == NULL ? NULL : with_decision(&world, &result, why);
	}
	pool_free(&pool);
	world_free(&world);
	return why;
}

/*
 * Tests random instances of one kind.
 */
static void
kind_test(Tap *tap, int instances, bool alone, GrowthTally *tally)
{
	char	   *why = NULL;
	char	   *full;
	int			i;

	for (i = 0; i < instances && why == NULL; i++)
	{
		uint64_t	seed = UINT64_C(1100000000) + (uint64_t) i;

		why = alone ? one_error(seed, tally) : settles_error(seed, tally);
		if (why == NULL)
			continue;
		full = format("instance %d: %s", i, why);
		free(why);
		why = full;
	}
	tap_ok(tap, why == NULL, alone ?
		   "grown: it takes what it is due, all of it, and from nobody in vain" :
		   "grown: what grows keeps it, and all comes to rest", why);
	free(why);
}

/*
 * Tests random instances.
 */
void
grown_tests(Tap *tap, int instances)
{
	GrowthTally one = {0};
	GrowthTally many = {0};

	kind_test(tap, instances, true, &one);
	printf("# %ld grow by victims, %ld of them by several devices, %ld so that "
		   "an account keeps less than its own; %ld find none\n", one.grown,
		   one.many, one.under, one.refused);
	kind_test(tap, instances, false, &many);
	printf("# %ld grow in %ld cycles; %ld shrink for them\n", many.grown,
		   many.cycles, many.shrunk);
	tap_ok(tap, one.grown > instances / 8 && one.refused > instances / 8 &&
		   one.many > instances / 64 && one.under > instances / 64 &&
		   many.grown > instances / 8 && many.shrunk > instances / 128,
		   "grown: it happens often", NULL);
}
