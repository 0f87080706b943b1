/*
 * world.c
 *	  Clusters and queues for the tests, and their memory.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * Returns the memory, or ends the test if it is NULL.
 */
static void *
must(void *memory)
{
	if (memory == NULL)
	{
		fprintf(stderr, "out of memory\n");
		exit(2);
	}
	return memory;
}

/*
 * Makes room for one more item in an array.
 */
static void *
grown(void *items, int n, int *room, size_t size)
{
	if (n < *room)
		return items;
	*room = *room == 0 ? 16 : *room * 2;
	return must(realloc(items, (size_t) *room * size));
}

/*
 * Returns an allocated copy of a string.
 */
static char *
copied(const char *text)
{
	return must(strdup(text));
}

/*
 * Returns an allocated formatted string.
 */
char *
format(const char *form,...)
{
	va_list		args;
	char	   *text;
	int			n;

	va_start(args, form);
	n = vsnprintf(NULL, 0, form, args);
	va_end(args);
	text = must(malloc((size_t) n + 1));
	va_start(args, form);
	vsnprintf(text, (size_t) n + 1, form, args);
	va_end(args);
	return text;
}

/*
 * The alloc function of the arena.  It fills memory with garbage, because the
 * core must not rely on zeroes.
 */
static void *
pool_alloc(void *context, size_t size)
{
	Pool	   *pool = context;

	if (pool->fail_after >= 0 && pool->n >= pool->fail_after)
		return NULL;
	pool->pieces = grown(pool->pieces, pool->n, &pool->room, sizeof(void *));
	pool->pieces[pool->n] = must(malloc(size));
	memset(pool->pieces[pool->n], 0xA5, size);
	pool->bytes += size;
	return pool->pieces[pool->n++];
}

void
pool_init(Pool *pool)
{
	memset(pool, 0, sizeof(*pool));
	pool->fail_after = -1;
}

void
pool_free(Pool *pool)
{
	int			i;

	for (i = 0; i < pool->n; i++)
		free(pool->pieces[i]);
	free(pool->pieces);
	pool_init(pool);
}

DecideArena
pool_arena(Pool *pool)
{
	DecideArena arena = {pool_alloc, NULL, pool};

	return arena;
}

void
world_init(World *world)
{
	memset(world, 0, sizeof(*world));
	world->max_starts = world->max_evictions = INT32_MAX;
	world->policy.fair_horizon = 3600;
	world->policy.elastic_idle_delay = DECIDE_NEVER;
}

void
world_free(World *world)
{
	int			i;

	for (i = 0; i < world->n_types; i++)
		free(world->types[i]);
	for (i = 0; i < world->n_nodes; i++)
		free((char *) world->nodes[i].name);
	for (i = 0; i < world->n_requests; i++)
	{
		free((DecideOffer *) world->requests[i].offers);
		free((uint64_t *) world->requests[i].filter);
	}
	for (i = 0; i < world->n_jobs; i++)
		free((char *) world->jobs[i].org);
	for (i = 0; i < world->n_tiers; i++)
		free(world->tier_names[i]);
	for (i = 0; i < world->n_accounts; i++)
		free((char *) world->accounts[i].name);
	for (i = 0; i < world->n_running; i++)
	{
		free((char *) world->running[i].org);
		free((char *) world->running[i].for_org);
	}
	for (i = 0; i < world->n_workloads; i++)
		free((DecideOffer *) world->workloads[i].request.offers);
	free(world->workloads);
	free(world->cached);
	free(world->types);
	free(world->weights);
	free(world->tier_names);
	free(world->tiers);
	free(world->accounts);
	free(world->nodes);
	free(world->requests);
	free(world->jobs);
	for (i = 0; i < world->n_claims; i++)
		free((char *) world->claims[i].org);
	free(world->running);
	free(world->parts);
	free(world->claims);
	free(world->claim_parts);
	free(world->previous);
	free(world->previous_parts);
	free(world->quotas);
	world_init(world);
}

/*
 * Returns the number of a type; a new name gets a new number.
 */
int
world_type(World *world, const char *name)
{
	int			i;

	for (i = 0; i < world->n_types; i++)
	{
		if (strcmp(world->types[i], name) == 0)
			return i;
	}
	world->types = grown(world->types, world->n_types, &world->types_capacity,
						 sizeof(char *));
	world->types[world->n_types] = copied(name);
	world->weights = grown(world->weights, world->n_types,
						   &world->weights_capacity, sizeof(DecideType));
	world->weights[world->n_types].weight = 1000;
	return world->n_types++;
}

/*
 * Returns the number of a tier.  A new name gets a new tier, whose rank is the
 * number in its name, or 0.
 */
int
world_tier(World *world, const char *name)
{
	DecideTier *tier;
	int			i;

	for (i = 0; i < world->n_tiers; i++)
	{
		if (strcmp(world->tier_names[i], name) == 0)
			return i;
	}
	world->tiers = grown(world->tiers, world->n_tiers, &world->tiers_capacity,
						 sizeof(DecideTier));
	world->tier_names = grown(world->tier_names, world->n_tiers,
							  &world->tier_names_capacity, sizeof(char *));
	world->tier_names[world->n_tiers] = copied(name);
	tier = &world->tiers[world->n_tiers];
	memset(tier, 0, sizeof(*tier));
	tier->rank = atoi(name);
	tier->max_wait = DECIDE_NEVER;
	return world->n_tiers++;
}

/*
 * Returns the number of the tier whose name is its rank.
 */
int
world_rank(World *world, int rank)
{
	char	   *name = format("%d", rank);
	int			tier = world_tier(world, name);

	free(name);
	return tier;
}

/*
 * Returns the number of an account, "org" or "org/path"; adds the accounts
 * above it.
 */
int
world_account(World *world, const char *name)
{
	const char *last = strrchr(name, '/');
	int			parent = -1;
	DecideAccount *account;
	int			i;

	for (i = 0; i < world->n_accounts; i++)
	{
		if (strcmp(world->accounts[i].name, name) == 0)
			return i;
	}
	if (last != NULL)
	{
		char	   *above = format("%.*s", (int) (last - name), name);

		parent = world_account(world, above);
		free(above);
	}
	world->accounts = grown(world->accounts, world->n_accounts,
							&world->accounts_capacity, sizeof(DecideAccount));
	account = &world->accounts[world->n_accounts];
	memset(account, 0, sizeof(*account));
	account->parent = parent;
	account->name = copied(name);
	account->weight = DECIDE_WEIGHT_ONE;
	return world->n_accounts++;
}

/*
 * Add a node that is empty, healthy and not limited.
 */
DecideNode *
world_node(World *world, const char *name, int type, int gpus)
{
	DecideNode *node;
	int			i;

	world->nodes = grown(world->nodes, world->n_nodes, &world->nodes_capacity,
						 sizeof(DecideNode));
	node = &world->nodes[world->n_nodes++];
	memset(node, 0, sizeof(*node));
	node->name = copied(name);
	node->type = type;
	node->gpus = gpus;
	node->gpu_memory_mib = 80 * 1024;
	node->domain = DECIDE_OWN_GROUP;
	node->leaf = DECIDE_OWN_GROUP;
	node->spine = DECIDE_NO_SPINE;
	node->schedulable = true;
	node->usable = UINT64_MAX;
	for (i = 0; i < DECIDE_MAX_DEVICES; i++)
		node->device_left[i] = DECIDE_WHOLE;
	return node;
}

/*
 * Whether two requests are equal.
 */
static bool
request_equal(const DecideRequestClass *a, const DecideRequestClass *b)
{
	int			i;

	if (a->min_gpus != b->min_gpus || a->max_gpus != b->max_gpus ||
		a->share != b->share || a->n_offers != b->n_offers ||
		a->topology != b->topology || a->prefer != b->prefer ||
		a->cpu_milli != b->cpu_milli || a->memory_mib != b->memory_mib ||
		a->spot_ok != b->spot_ok || a->stays != b->stays ||
		a->wall_limit != b->wall_limit ||
		a->per_node != b->per_node ||
		(a->filter == NULL) != (b->filter == NULL))
		return false;
	if (a->filter != NULL &&
		memcmp(a->filter, b->filter,
			   WORLD_FILTER_WORDS * sizeof(uint64_t)) != 0)
		return false;
	for (i = 0; i < a->n_offers; i++)
	{
		if (a->offers[i].type != b->offers[i].type ||
			a->offers[i].min_memory != b->offers[i].min_memory ||
			a->offers[i].tied != b->offers[i].tied)
			return false;
	}
	return true;
}

/*
 * Returns a copy of a request's offers.
 */
static DecideOffer *
offers_copied(const DecideRequestClass *request)
{
	size_t		size = sizeof(DecideOffer) * (size_t) request->n_offers;
	DecideOffer *offers = must(malloc(size + 1));

	if (size > 0)
		memcpy(offers, request->offers, size);
	return offers;
}

/*
 * Returns a copy of a request's filter, or NULL if it has none.
 */
static uint64_t *
filter_copied(const DecideRequestClass *request)
{
	size_t		size = WORLD_FILTER_WORDS * sizeof(uint64_t);

	return request->filter == NULL ? NULL :
		memcpy(must(malloc(size)), request->filter, size);
}

/*
 * Returns the number of a request, which is added if there is no equal one.
 * Its offers are copied.
 */
int
world_request(World *world, const DecideRequestClass *request)
{
	int			i;

	for (i = 0; i < world->n_requests; i++)
	{
		if (request_equal(&world->requests[i], request))
			return i;
	}
	return world_request_again(world, request);
}

/*
 * Adds a request even if there is an equal one, and returns its number.
 */
int
world_request_again(World *world, const DecideRequestClass *request)
{
	world->requests = grown(world->requests, world->n_requests,
							&world->requests_capacity,
							sizeof(DecideRequestClass));
	world->requests[world->n_requests] = *request;
	world->requests[world->n_requests].offers = offers_copied(request);
	world->requests[world->n_requests].filter = filter_copied(request);
	return world->n_requests++;
}

/*
 * Add a job of an account, a path below its organisation or "", in tier "0".
 */
DecideJob *
world_job(World *world, int request, const char *org, const char *account,
		  int64_t id)
{
	char	   *name = format("%s%s%s", org, *account != '\0' ? "/" : "",
							  account);
	DecideJob  *job;

	world->jobs = grown(world->jobs, world->n_jobs, &world->jobs_capacity,
						sizeof(DecideJob));
	job = &world->jobs[world->n_jobs++];
	memset(job, 0, sizeof(*job));
	job->request = request;
	job->org = copied(org);
	job->account = world_account(world, name);
	job->tier = world_rank(world, 0);
	job->aged_at = DECIDE_NEVER;
	job->id = id;
	free(name);
	return job;
}

/*
 * Adds a running attempt that has no parts yet.
 */
DecideRunning *
world_running(World *world, const char *org, int64_t id)
{
	DecideRunning *running;

	world->running = grown(world->running, world->n_running,
						   &world->running_capacity, sizeof(DecideRunning));
	running = &world->running[world->n_running++];
	memset(running, 0, sizeof(*running));
	running->org = copied(org);
	running->id = id;
	running->attempt = 1;
	running->tier = world_rank(world, 0);
	running->type = DECIDE_NO_TYPE;
	running->request = -1;
	running->share = DECIDE_WHOLE;
	running->expected_end = running->limit_end = DECIDE_NEVER;
	running->first_part = world->n_parts;
	return running;
}

/*
 * Add a part to the running attempt added last.
 */
DecidePart *
world_part(World *world, DecideRunning *running)
{
	DecidePart *part;

	world->parts = grown(world->parts, world->n_parts, &world->parts_capacity,
						 sizeof(DecidePart));
	part = &world->parts[world->n_parts++];
	memset(part, 0, sizeof(*part));
	running->n_parts++;
	return part;
}

/*
 * Add a typical request of this many jobs.
 */
DecideWorkload *
world_workload(World *world, const DecideRequestClass *request, int64_t jobs)
{
	DecideWorkload *workloads;

	world->workloads = grown(world->workloads, world->n_workloads,
							 &world->workload_capacity, sizeof(DecideWorkload));
	workloads = &world->workloads[world->n_workloads++];
	workloads->request = *request;
	workloads->request.offers = offers_copied(request);
	workloads->request.filter = NULL;
	workloads->jobs = jobs;
	return workloads;
}

/*
 * Add a node's cache.
 */
void
world_cached(World *world, int cache, int node)
{
	world->cached = grown(world->cached, world->n_cached,
						  &world->cached_capacity, sizeof(DecideCached));
	world->cached[world->n_cached].cache = cache;
	world->cached[world->n_cached++].node = node;
}

/*
 * The memory of a device that a share without a floor uses.
 */
int64_t
share_memory(const DecideNode *node, int share)
{
	return share == DECIDE_WHOLE ? 0 :
		node->gpu_memory_mib * share / DECIDE_WHOLE;
}

/*
 * Allocates a part's devices on its node (sign 1), or releases them (sign -1).
 */
void
devices_allocate(DecideNode *node, const DecidePart *part, int share, int sign)
{
	int			d;

	for (d = 0; d < node->gpus; d++)
	{
		if (((part->devices >> d) & 1) == 0)
			continue;
		node->device_left[d] = (uint16_t) (node->device_left[d] -
										   sign * share);
		node->gpu_memory_used[d] += sign * part->gpu_memory_mib;
	}
}

/*
 * Adds a claim that has no parts yet.
 */
DecideClaim *
world_claim(World *world, const char *org, int64_t id)
{
	DecideClaim *claim;

	world->claims = grown(world->claims, world->n_claims,
						  &world->claims_capacity, sizeof(DecideClaim));
	claim = &world->claims[world->n_claims++];
	memset(claim, 0, sizeof(*claim));
	claim->org = copied(org);
	claim->id = id;
	claim->job = -1;
	claim->type = DECIDE_NO_TYPE;
	claim->share = DECIDE_WHOLE;
	claim->first_part = world->n_claim_parts;
	return claim;
}

/*
 * Makes a running job leave for a claim (an unknown one if org is NULL).
 */
void
world_leaves(DecideRunning *running, const char *org, int64_t id)
{
	running->leaving = true;
	running->for_org = org == NULL ? NULL : copied(org);
	running->for_job = id;
}

/*
 * Add a part to the claim added last.
 */
DecidePart *
world_claim_part(World *world, DecideClaim *claim)
{
	DecidePart *part;

	world->claim_parts = grown(world->claim_parts, world->n_claim_parts,
							   &world->claim_parts_capacity,
							   sizeof(DecidePart));
	part = &world->claim_parts[world->n_claim_parts++];
	memset(part, 0, sizeof(*part));
	claim->n_parts++;
	return part;
}

/*
 * Add a previous reservation of a job.  It guarantees nothing yet.
 */
DecidePreviousReservation *
world_previous(World *world, int job, int type, const DecidePart *parts,
			   int n_parts)
{
	DecidePreviousReservation *previous;
	int			i;

	world->previous = grown(world->previous, world->n_previous,
							&world->previous_capacity,
							sizeof(DecidePreviousReservation));
	previous = &world->previous[world->n_previous++];
	*previous = (DecidePreviousReservation)
	{
		.job = job, .type = type, .first_part = world->n_previous_parts,
			.n_parts = n_parts
	};
	for (i = 0; i < n_parts; i++)
	{
		world->previous_parts = grown(world->previous_parts,
									  world->n_previous_parts,
									  &world->previous_parts_capacity,
									  sizeof(DecidePart));
		world->previous_parts[world->n_previous_parts++] = (DecidePart)
		{
			.node = parts[i].node, .gpus = parts[i].gpus,
				.devices = parts[i].devices
		};
		previous->gpus += parts[i].gpus;
	}
	return previous;
}

/*
 * Returns the world as input of the core.
 */
DecideInput
world_input(const World *world)
{
	DecideInput input = {
		.now = world->now,
		.policy = world->policy,
		.types = world->weights, .n_types = world->n_types,
		.tiers = world->tiers, .n_tiers = world->n_tiers,
		.accounts = world->accounts, .n_accounts = world->n_accounts,
		.nodes = world->nodes, .n_nodes = world->n_nodes,
		.requests = world->requests, .n_requests = world->n_requests,
		.jobs = world->jobs, .n_jobs = world->n_jobs,
		.running = world->running, .n_running = world->n_running,
		.running_parts = world->parts, .n_running_parts = world->n_parts,
		.workloads = world->workloads, .n_workloads = world->n_workloads,
		.cached = world->cached, .n_cached = world->n_cached,
		.max_starts = world->max_starts,
		.max_evictions = world->max_evictions,
		.claims = world->claims, .n_claims = world->n_claims,
		.claim_parts = world->claim_parts,
		.n_claim_parts = world->n_claim_parts,
		.previous = world->previous, .n_previous = world->n_previous,
		.previous_parts = world->previous_parts,
		.n_previous_parts = world->n_previous_parts,
		.quotas = world->quotas, .n_quotas = world->n_quotas
	};

	return input;
}
