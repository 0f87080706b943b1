/*
 * entitled.c
 *	  Tests evictions for entitlements in full clusters: DecideCheck must
 *	  accept decisions, and must reject damaged ones.
 *
 * Reservations beyond an account's entitlement keep no devices from other
 * entitlements: the promises must be the same as without reservations.
 *
 * A result is damaged by changing weights.  If a victim's account has more
 * weight, the eviction leaves it less than its entitlement.  If all other
 * accounts have more weight, the taker gets more than its own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define MUCH INT64_C(1000000000000000)

static const char *const names[] = {
	"acme", "bolt", "acme/one", "acme/two", "bolt/one/deep", "corp"
};

#define N_NAMES ((int) (sizeof(names) / sizeof(names[0])))

/*
 * The organisation of an account.
 */
static char *
org_of(const char *name)
{
	return format("%.*s", (int) strcspn(name, "/"), name);
}

/*
 * Makes a cluster full of one-GPU jobs of some accounts, and waiting jobs of
 * others.
 */
static void
random_occupied(World *world, uint64_t *seed)
{
	DecideOffer offer = {0};
	int64_t		id = 1;
	int			i;
	int			n;
	int			d;

	world_init(world);
	offer.type = world_type(world, "H100");
	world->now = INT64_C(1000000000);
	world->policy.reclaim = true;
	world->policy.backfill_depth = 4;
	n = 1 + random_below(seed, 3);
	for (i = 0; i < n; i++)
	{
		char	   *name = format("n%d", i);
		DecideNode *node = world_node(world, name, 0,
									  2 + random_below(seed, 6));

		free(name);
		for (d = 0; d < node->gpus; d++)
		{
			const char *name_of = names[random_below(seed, N_NAMES)];
			char	   *org = org_of(name_of);
			DecideRunning *running = world_running(world, org, id++);
			DecidePart *part = world_part(world, running);

			free(org);
			running->account = world_account(world, name_of);
			running->tier = world_rank(world, 1);
			running->type = 0;
			running->gpus = running->min_gpus = running->max_gpus = 1;
			running->preemptible = DECIDE_PREEMPT_CAPACITY;
			running->started = running->saved_at = id;
			running->expected_end = running->limit_end = world->now +
				INT64_C(3600000000) * (1 + random_below(seed, 3));
			part->node = i;
			part->gpus = 1;
			part->devices = UINT64_C(1) << d;
			node->device_left[d] = 0;
		}
	}
	n = 1 + random_below(seed, 3);
	for (i = 0; i < n; i++)
	{
		int			gpus = 1 + random_below(seed, 3);
		DecideRequestClass request = {
			.min_gpus = gpus, .max_gpus = gpus, .share = DECIDE_WHOLE,
			.n_offers = 1, .offers = &offer,.wall_limit =
			INT64_C(3600000000) * (1 + random_below(seed, 4))
		};
		const char *name_of = names[random_below(seed, N_NAMES)];
		char	   *org = org_of(name_of);
		DecideJob  *job = world_job(world, world_request(world, &request),
									org, "",
									id++);

		free(org);
		job->account = world_account(world, name_of);
		job->tier = world_rank(world, 1);
		job->submitted = i;
	}
	for (i = 0; i < world->n_accounts; i++)
		world->accounts[i].weight = DECIDE_WEIGHT_ONE *
			(1 + random_below(seed, 3));
}

/*
 * Whether an account is an organisation without accounts below it.
 */
static bool
stands_alone(const World *world, int account)
{
	int			i;

	for (i = 0; i < world->n_accounts; i++)
	{
		if (world->accounts[i].parent == account)
			return false;
	}
	return world->accounts[account].parent < 0;
}

/*
 * Gives a victim's account far more weight.  Returns NULL, or what is wrong.
 */
static char *
damage_giver(World *world, const DecideResult *result,
			 const DecideArena *arena, int account)
{
	int64_t		weight = world->accounts[account].weight;
	DecideInput input = world_input(world);
	const char *error;

	world->accounts[account].weight = MUCH;
	error = DecideCheck(&input, result, arena, NULL);
	world->accounts[account].weight = weight;
	return error != NULL && strstr(error, "entitled to") ?
		NULL : format("%s is left too little, and that is not reported",
					  world->accounts[account].name);
}

/*
 * Gives a taker's account almost no weight, if the others could use
 * everything.  Returns NULL, or what is wrong.
 */
static char *
damage_taker(World *world, const DecideResult *result,
			 const DecideArena *arena, int account)
{
	int64_t		weight = world->accounts[account].weight;
	int64_t		used = 0;
	int64_t		all = 0;
	DecideInput input = world_input(world);
	const char *error;
	int			i;

	for (i = 0; i < world->n_nodes; i++)
		all += world->nodes[i].gpus;
	for (i = 0; i < world->n_running; i++)
		used += world->running[i].account != account;
	for (i = 0; i < world->n_jobs; i++)
	{
		if (world->jobs[i].account != account)
			used += world->requests[world->jobs[i].request].min_gpus;
	}
	if (used < all)
		return NULL;
	world->accounts[account].weight = 1;
	error = DecideCheck(&input, result, arena, NULL);
	world->accounts[account].weight = weight;
	return error != NULL && strstr(error, "entitled to") ? NULL :
		format("%s takes too much, and that is not reported",
			   world->accounts[account].name);
}

/*
 * Checks that the promises are the same as without reservations.  Returns
 * NULL, or what is wrong.
 */
static char *
reserved_error(World *world, const DecideResult *result,
			   const DecideArena *arena, long *behind)
{
	DecideInput input = world_input(world);
	DecideResult without;
	const char *error;
	int			i;

	input.policy.backfill_depth = 0;
	error = DecideRun(&input, arena, &without);
	if (error != NULL)
		return format("%s", error);
	if (result->n_promises != without.n_promises)
		return format("%d claims, and %d where nothing is reserved",
					  result->n_promises, without.n_promises);
	for (i = 0; i < result->n_promises; i++)
	{
		if (result->promises[i].job != without.promises[i].job)
			return format("another job is promised devices where nothing is "
						  "reserved");
	}
	*behind += result->n_promises > 0 && result->n_reservations > 0;
	return NULL;
}

/*
 * Decides one instance and damages it.  Returns NULL, or what is wrong.
 */
static char *
occupied_error(uint64_t seed, long *damaged, long *behind)
{
	World		world;
	DecideInput input;
	DecideResult result;
	Pool		pool;
	DecideArena arena;
	const char *error;
	char	   *why = NULL;
	int			p;
	int			e;

	random_occupied(&world, &seed);
	pool_init(&pool);
	arena = pool_arena(&pool);
	input = world_input(&world);
	error = DecideRun(&input, &arena, &result);
	if (error == NULL)
		error = DecideCheck(&input, &result, &arena, NULL);
	if (error != NULL)
		why = format("%s", error);
	else
		why = reserved_error(&world, &result, &arena, behind);
	for (p = 0; p < result.n_promises && why == NULL; p++)
	{
		const DecidePromise *promise = &result.promises[p];
		int			taker = world.jobs[promise->job].account;

		if (stands_alone(&world, taker))
		{
			why = damage_taker(&world, &result, &arena, taker);
			++*damaged;
		}
		for (e = 0; e < promise->n_evictions && why == NULL; e++)
		{
			int			giver = world.running
				[result.evictions[promise->first_eviction +
							  e].running].account;

			if (!stands_alone(&world, giver))
				continue;
			why = damage_giver(&world, &result, &arena, giver);
			++*damaged;
		}
	}
	pool_free(&pool);
	world_free(&world);
	return why;
}

/*
 * Tests random instances.
 */
void
entitled_tests(Tap *tap, int instances)
{
	long		damaged = 0;
	long		behind = 0;
	char	   *why = NULL;
	int			i;

	for (i = 0; i < instances && why == NULL; i++)
	{
		why = occupied_error(900000000 + (uint64_t) i, &damaged, &behind);
		if (why != NULL)
		{
			char	   *full = format("instance %d: %s", i, why);

			free(why);
			why = full;
		}
	}
	printf("# %ld evictions by entitlement made wrong; %ld times beside "
		   "reservations\n", damaged, behind);
	tap_ok(tap, why == NULL, "entitled: what is taken is due, and what is not "
		   "is reported", why);
	tap_ok(tap, why != NULL || (damaged > instances / 10 &&
								behind > instances / 20),
		   "entitled: something is taken", NULL);
	free(why);
}
