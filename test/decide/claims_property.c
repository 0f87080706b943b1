/*
 * claims_property.c
 *	  Tests claims in random full clusters.
 *
 * Each decision is checked by DecideCheck, by another order of the input and
 * by the next cycles.  If one job waits alone, the decision is compared with
 * every set of running jobs that could be evicted by tier or entitlement.  If
 * some set without superfluous members makes room, the job must get a claim,
 * without superfluous victims, and on one node by the cheapest set.  One gang
 * in 500 may fail.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define MOST_RUNNING 10

static const char *const accounts[] = {
	"acme", "bolt", "corp", "acme/one", "acme/two", "bolt/one/deep"
};

#define N_ACCOUNTS ((int) (sizeof(accounts) / sizeof(accounts[0])))

typedef struct Tally
{
	long		claims;
	long		evictions;
	long		moves;
	long		resizes;
	long		judged;
	long		entitled;		/* number of these that were by entitlement */
	long		under;			/* number of these where a victim left its
								 * account less than its entitlement */
	long		rounded;		/* number of these with an entitlement rounded
								 * up */
	long		raised;			/* number of these as if the account asked for
								 * everything */
	long		missed;			/* number of gangs for which a better set
								 * exists */
} Tally;

/*
 * The cost of a set of victims.
 */
typedef struct TestPrice
{
	int			rank;
	int64_t		lost;
	int			n;
	int64_t		oldest;
	int			gpus;
} TestPrice;

/*
 * The memory floor in MiB of a share: 0 to half a device.
 */
static int64_t
floor_of(int64_t id)
{
	return id % 5 * 10240;
}

/*
 * Adds a running job on free devices.
 */
static void
random_running(World *world, uint64_t *seed, int64_t id, bool elastic)
{
	static const char *const tiers[] = {"1", "2", "3"};
	bool		alike = world->policy.reclaim && random_below(seed, 5) > 0;
	int			share = random_below(seed, 5) == 0 ?
		100 * (1 + random_below(seed, 9)) : DECIDE_WHOLE;
	int			wanted = share < DECIDE_WHOLE ? 1 : 1 + random_below(seed, 4);
	const char *account = accounts
		[random_below(seed, 1 + random_below(seed, N_ACCOUNTS))];
	char	   *org = format("%.*s", (int) strcspn(account, "/"), account);
	DecideRunning *running;
	int			spread = random_below(seed, 3);
	int			first = random_below(seed, world->n_nodes);
	int			i;
	int			d;

	running = world_running(world, org, id);
	free(org);
	running->account = world_account(world, account);
	running->tier = world_tier(world, alike ? "2" :
							   tiers[random_below(seed, 3)]);
	running->type = 0;
	running->share = share;
	running->preemptible = random_below(seed, 4) > 0 ?
		DECIDE_PREEMPT_CAPACITY : (DecidePreemptible) random_below(seed, 2);
	running->stays = running->preemptible != DECIDE_PREEMPT_CAPACITY;
	running->started = 1000000 * random_below(seed, 900);
	running->saved_at = running->started +
		1000000 * random_below(seed, 100);
	running->leaving = random_below(seed, 12) == 0;
	for (i = 0; i < world->n_nodes && wanted > 0; i++)
	{
		int			index = (first + i) % world->n_nodes;
		DecideNode *node = &world->nodes[index];
		DecidePart *part = NULL;
		int			most = spread == 0 ? 1 : wanted;
		int64_t		memory = share == DECIDE_WHOLE ? 0 : floor_of(id) > 0 ?
			floor_of(id) : share_memory(node, share);

		for (d = 0; d < node->gpus && wanted > 0 && most > 0; d++)
		{
			if (node->device_left[d] < share ||
				node->gpu_memory_used[d] + memory > node->gpu_memory_mib)
				continue;
			if (part == NULL)
			{
				part = world_part(world, running);
				part->node = index;
				if (node->cpu_milli > 0 && random_below(seed, 2) == 0)
					part->cpu_milli = random_below(seed, 4);
				node->cpu_left -= part->cpu_milli;
			}
			part->devices |= UINT64_C(1) << d;
			part->gpus++;
			running->gpus++;
			node->device_left[d] = (uint16_t) (node->device_left[d] - share);
			part->gpu_memory_mib = memory;
			node->gpu_memory_used[d] += memory;
			wanted--;
			most--;
		}
	}
	if (running->gpus == 0)
	{
		free((char *) world->running[--world->n_running].org);
		return;
	}
	running->min_gpus = running->max_gpus = running->gpus;
	if (elastic && share == DECIDE_WHOLE && random_below(seed, 2) == 0)
	{
		running->min_gpus = 1 + random_below(seed, running->gpus);
		running->max_gpus = running->gpus + random_below(seed, 4);
	}
	running_request(world, running, DECIDE_TOPOLOGY_ANY);
}

/*
 * Adds a waiting job.
 */
static void
random_waiting(World *world, uint64_t *seed, int64_t id, bool alone)
{
	static const char *const tiers[] = {"0", "1", "2"};
	const char *account = accounts[random_below(seed, N_ACCOUNTS)];
	char	   *org = format("%.*s", (int) strcspn(account, "/"), account);
	DecideOffer offer = {.type = 0};
	DecideRequestClass request = {
		.share = DECIDE_WHOLE, .n_offers = 1, .offers = &offer,
		.spot_ok = random_below(seed, 2) == 0, .wall_limit = DECIDE_NEVER,
		.stays = id % 3 == 0
	};
	DecideJob  *job;

	request.min_gpus = request.max_gpus = 1 + random_below(seed, 6);
	if (random_below(seed, 6) == 0)
	{
		request.min_gpus = request.max_gpus = 1;
		request.share = 100 * (1 + random_below(seed, 9));
		offer.min_memory = floor_of(id) << 20;
	}
	else if (!alone && random_below(seed, 3) == 0)
		request.max_gpus += random_below(seed, 3);
	request.topology = (DecideTopology) random_below(seed, 4);
	if (random_below(seed, 3) == 0)
		request.cpu_milli = random_below(seed, 12);
	job = world_job(world, world_request(world, &request), org, "", id);
	free(org);
	job->account = world_account(world, account);
	job->tier = world_tier(world, alone && world->policy.reclaim ? "2" :
						   tiers[random_below(seed, 3)]);
	job->submitted = random_below(seed, 100);
}

/*
 * Makes a full cluster with waiting jobs, or with a single one.
 */
static void
random_full(World *world, uint64_t *seed, bool alone, bool entitled)
{
	int			n = 2 + random_below(seed, 4);
	int			i;

	world_init(world);
	(void) world_type(world, "H100");
	world->now = INT64_C(1000000) * 1000;
	for (i = 0; i < 4; i++)
	{
		char	   *name = format("%d", i);
		int			tier = world_tier(world, name);

		world->tiers[tier].can_preempt = i < 2 || random_below(seed, 3) == 0;
		world->tiers[tier].min_run = INT64_C(1000000) *
			random_below(seed, 200);
		free(name);
	}
	world->policy.reclaim = entitled || (!alone && random_below(seed, 2) == 0);
	world->policy.consolidate = !alone && random_below(seed, 3) == 0;
	if (!alone && random_below(seed, 2) == 0)
		world->policy.elastic_idle_delay = 1;
	for (i = 0; i < n; i++)
	{
		char	   *name = format("n%d", i);
		DecideNode *node = world_node(world, name, 0,
									  1 + random_below(seed, 4));

		free(name);
		node->leaf = random_below(seed, 3) - 1;
		node->domain = random_below(seed, 3) - 1;
		if (random_below(seed, 3) == 0)
			node->cpu_milli = node->cpu_left = 4 + random_below(seed, 12);
		node->schedulable = random_below(seed, 12) > 0;
		node->spot = random_below(seed, 10) == 0;
		node->idle = random_next(seed);
		if (random_below(seed, 10) == 0)
			node->usable = random_next(seed);
	}
	for (i = 0; i < MOST_RUNNING; i++)
		random_running(world, seed, 100 + i, !alone);
	n = alone ? 1 : 1 + random_below(seed, 5);
	for (i = 0; i < n; i++)
		random_waiting(world, seed, i + 1, alone);
	for (i = 0; i < world->n_accounts; i++)
		world->accounts[i].weight = DECIDE_WEIGHT_ONE *
			(1 + random_below(seed, 3));
}

/*
 * Whether the only waiting job fits without a set of running jobs.
 */
static bool
fits_without(const World *world, uint64_t set)
{
	const DecideRequestClass *request = &world->requests[world->jobs[0].request];
	DecideNode	nodes[16];
	int			i;
	int			j;

	memcpy(nodes, world->nodes, sizeof(DecideNode) * (size_t) world->n_nodes);
	for (i = 0; i < world->n_running; i++)
	{
		const DecideRunning *running = &world->running[i];

		for (j = running->first_part; ((set >> i) & 1) &&
			 j < running->first_part + running->n_parts; j++)
		{
			const DecidePart *part = &world->parts[j];
			DecideNode *node = &nodes[part->node];

			devices_allocate(node, part, running->share, -1);
			node->cpu_left += part->cpu_milli;
		}
	}
	return oracle_largest(nodes, world->n_nodes, request,
						  &request->offers[0]) >= 0;
}

/*
 * Whether the waiting job would no longer fit if any member of the set stayed.
 */
static bool
all_needed(const World *world, uint64_t set)
{
	int			i;

	for (i = 0; i < world->n_running; i++)
	{
		if (((set >> i) & 1) && fits_without(world, set & ~(UINT64_C(1) << i)))
			return false;
	}
	return true;
}

/*
 * The cost of a set.
 */
static TestPrice
price_of(const World *world, uint64_t set)
{
	TestPrice	price = {1000, 0, 0, INT64_MAX, 0};
	int			i;

	for (i = 0; i < world->n_running; i++)
	{
		const DecideRunning *r = &world->running[i];
		int			rank = world->tiers[r->tier].rank;
		int64_t		since = r->saved_at > r->started ? r->saved_at :
			r->started;

		if (((set >> i) & 1) == 0)
			continue;
		price.rank = rank < price.rank ? rank : price.rank;
		price.lost += (world->now - since) / 1000000 * r->gpus * r->share;
		price.oldest = r->started < price.oldest ? r->started : price.oldest;
		price.gpus += r->gpus;
		price.n++;
	}
	return price;
}

static bool
cheaper(TestPrice a, TestPrice b)
{
	if (a.rank != b.rank)
		return a.rank > b.rank;
	if (a.lost != b.lost)
		return a.lost < b.lost;
	if (a.n != b.n)
		return a.n < b.n;
	if (a.oldest != b.oldest)
		return a.oldest > b.oldest;
	return a.gpus < b.gpus;
}

/*
 * Whether a set may be evicted for the only waiting job.
 */
static bool
may_leave(const World *world, uint64_t set, OracleRight right)
{
	const DecideJob *job = &world->jobs[0];
	const DecideRequestClass *request = &world->requests[job->request];
	Taker		taker = {
		job->account, job->tier, world->tiers[job->tier].can_preempt,
		(int64_t) request->min_gpus * request->share
	};

	return oracle_may_evict(world, &taker, set, right);
}

/*
 * Finds whether there is a set that may be evicted, without superfluous
 * members.
 */
static bool
set_exists(const World *world, OracleRight right, uint64_t *set)
{
	for (*set = 1; *set < UINT64_C(1) << world->n_running; ++*set)
	{
		if (may_leave(world, *set, right) &&
			fits_without(world, *set) && all_needed(world, *set))
			return true;
	}
	return false;
}

/*
 * Checks the decision for a single job.  Returns NULL, or what is wrong.
 */
static char *
alone_error(const World *world, const DecideResult *result, Tally *tally)
{
	const DecideRequestClass *request = &world->requests[world->jobs[0].request];
	bool		gang = request->topology != DECIDE_TOPOLOGY_NODE &&
		request->max_gpus > 1;
	uint64_t	set = 0;
	uint64_t	try;
	TestPrice	price;
	OracleRight right = ORACLE_EXACT;
	OracleRight last = !world->policy.reclaim ? ORACLE_EXACT :
		request->max_gpus > 0 ? ORACLE_RAISED_ROUNDED : ORACLE_ROUNDED;
	bool		possible;
	int			i;

	if (fits_without(world, 0))
		return result->n_evictions == 0 && result->n_starts == 1 ? NULL :
			format("it fits, and does not start");
	while (!(possible = set_exists(world, right, &try)) && right < last)
		right++;
	if (result->n_promises == 0 && possible && gang)
	{
		tally->missed++;
		return NULL;
	}
	if (result->n_promises == 0 && possible)
		return format("nobody is evicted, though %" PRIx64 " could be", try);
	if (result->n_promises == 0)
		return NULL;
	for (i = 0; i < result->n_evictions; i++)
		set |= UINT64_C(1) << result->evictions[i].running;
	if (gang && !may_leave(world, set, right))
		tally->missed++;
	while (gang && !may_leave(world, set, right) && right < last)
		right++;
	if (!may_leave(world, set, right))
		return format("one is evicted that may not be");
	if (!fits_without(world, set))
		return format("its victims make no room");
	tally->judged++;
	for (i = 0; i < result->n_evictions; i++)
	{
		if (result->evictions[i].why == DECIDE_WHY_ENTITLEMENT)
		{
			tally->entitled++;
			tally->under += right % 3 == ORACLE_UNDER;
			tally->rounded += right % 3 == ORACLE_ROUNDED;
			tally->raised += right >= ORACLE_RAISED;
			break;
		}
	}
	for (i = 0; i < world->n_running; i++)
	{
		try = set & ~(UINT64_C(1) << i);
		if (try != set && may_leave(world, try, right) &&
			fits_without(world, try))
			return format("victim %" PRId64 " could be spared",
						  world->running[i].id);
	}
	if (gang)
		return NULL;
	price = price_of(world, set);
	for (try = 1; try < UINT64_C(1) << world->n_running; try++)
	{
		if (cheaper(price_of(world, try), price) &&
			may_leave(world, try, right) &&
			fits_without(world, try) && all_needed(world, try))
			return format("other victims would have been cheaper: %" PRIx64
						  " than %" PRIx64, try, set);
	}
	return NULL;
}

/*
 * Decides and checks one instance.  Returns NULL, or what is wrong.
 */
static char *
instance_error(uint64_t seed, bool alone, bool entitled, Tally *tally)
{
	uint64_t	first = seed;
	World		world;
	DecideInput input;
	DecideResult result;
	Pool		pool;
	DecideArena arena;
	const char *error;
	char	   *why = NULL;
	char	   *text;
	int			i;

	random_full(&world, &seed, alone, entitled);
	pool_init(&pool);
	arena = pool_arena(&pool);
	input = world_input(&world);
	error = DecideRun(&input, &arena, &result);
	if (error != NULL)
	{
		pool_free(&pool);
		world_free(&world);
		return format("%s", error);
	}
	text = world_render(&world, &result, NULL);
	error = DecideCheck(&input, &result, &arena, NULL);
	if (error != NULL)
		why = format("DecideCheck: %s", error);
	tally->claims += result.n_promises;
	tally->evictions += result.n_evictions;
	for (i = 0; i < result.n_evictions; i++)
	{
		tally->moves += result.evictions[i].why == DECIDE_WHY_MOVE;
		tally->resizes += result.evictions[i].why >= DECIDE_WHY_SHRINK;
	}
	if (why == NULL && alone)
		why = alone_error(&world, &result, tally);
	if (why == NULL)
		why = next_error(&world, &result);
	if (why == NULL)
		why = again_permuted(&world, text, &seed);
	if (why == NULL && first % 64 == 0)
		why = again_starved(&world, text);
	if (why != NULL)
	{
		char	   *full = format("%s\ndecided:\n%s", why, text);

		free(why);
		why = full;
	}
	free(text);
	pool_free(&pool);
	world_free(&world);
	return why;
}

/*
 * Tests that a cycle makes no further claim once max_evictions jobs were told
 * to leave, and that DecideCheck reports a result with such a claim.  Returns
 * NULL, or what is wrong.
 */
static char *
batch_error(uint64_t seed, int *bounded, int *reported)
{
	World		world;
	DecideInput input;
	DecideResult result;
	Pool		pool;
	DecideArena arena;
	const char *error;
	char	   *why = NULL;
	int			i;

	random_full(&world, &seed, false, false);
	world.max_evictions = random_below(&seed, 4);
	pool_init(&pool);
	arena = pool_arena(&pool);
	input = world_input(&world);
	error = DecideRun(&input, &arena, &result);
	if (error == NULL)
		error = DecideCheck(&input, &result, &arena, NULL);
	if (error != NULL)
		why = format("%s", error);
	*bounded += error == NULL && result.n_evictions >= world.max_evictions;
	for (i = 0; error == NULL && why == NULL && i < result.n_promises; i++)
	{
		if (result.promises[i].leader != i ||
			result.promises[i].n_evictions == 0)
			continue;
		input.max_evictions = result.promises[i].first_eviction;
		if (DecideCheck(&input, &result, &arena, NULL) == NULL)
			why = format("a claim after %d evictions is not reported",
						 input.max_evictions);
		(*reported)++;
	}
	pool_free(&pool);
	world_free(&world);
	return why;
}

/*
 * Claims over several cycles in random pools whose jobs can all be evicted:
 * each cycle keeps to max_evictions, and the check finds a claim beyond it.
 */
static void
batch_tests(Tap *tap, int instances)
{
	char	   *why = NULL;
	int			bounded = 0;
	int			reported = 0;
	int			i;

	for (i = 0; i < instances / 4 && why == NULL; i++)
	{
		why = batch_error((uint64_t) i + 900000000, &bounded, &reported);
		if (why != NULL)
		{
			char	   *full = format("seed %d: %s", i + 900000000, why);

			free(why);
			why = full;
		}
	}
	tap_ok(tap, why == NULL,
		   "claims: none is made after as many evictions as may be", why);
	tap_ok(tap, bounded > instances / 64 && reported > instances / 64,
		   "claims: the bound of evictions is reached", NULL);
	free(why);
}

/*
 * Tests random full clusters, with one waiting job and with several.
 */
void
claims_property_tests(Tap *tap, int instances)
{
	static const char *const kinds[] = {
		"one job alone", "many jobs", "one job alone, by entitlement"
	};
	Tally		tally = {0};
	int			batch;

	for (batch = 0; batch < 24; batch++)
	{
		char	   *name = format("claims: %d random full clusters, %s, "
								  "batch %d", instances / 16,
								  kinds[batch / 8], batch);
		char	   *why = NULL;
		int			i;

		for (i = 0; i < instances / 16 && why == NULL; i++)
		{
			uint64_t	seed = (uint64_t) (batch + 100) * 1000000 +
				(uint64_t) i;

			why = instance_error(seed, batch / 8 != 1, batch / 8 == 2, &tally);
			if (why != NULL)
			{
				char	   *full = format("seed %" PRIu64 ": %s", seed, why);

				free(why);
				why = full;
			}
		}
		tap_ok(tap, why == NULL, name, why);
		free(why);
		free(name);
	}
	printf("# %ld claims with %ld evictions, %ld of them moves, %ld resizes; "
		   "%ld sets of victims held against all others, %ld of them for an "
		   "entitlement, %ld so that an account keeps less than its own, "
		   "%ld rounded up, %ld as if the account asked for everything; "
		   "%ld gangs had a set that was not found\n",
		   tally.claims, tally.evictions, tally.moves, tally.resizes,
		   tally.judged, tally.entitled, tally.under, tally.rounded,
		   tally.raised,
		   tally.missed);
	tap_ok(tap, tally.claims > instances / 8 &&
		   tally.judged > instances / 16 && tally.entitled > instances / 64 &&
		   tally.under > instances / 1024 &&
		   tally.rounded > instances / 4096 &&
		   tally.raised > instances / 4096 &&
		   tally.missed <= 1 + tally.judged / 500,
		   "claims: the instances decide something", NULL);
	batch_tests(tap, instances);
}
