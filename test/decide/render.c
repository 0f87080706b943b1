/*
 * render.c
 *	  Prints results as text without indexes, and copies worlds in another
 *	  order.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * A repeatable random number (splitmix64).
 */
uint64_t
random_next(uint64_t *seed)
{
	uint64_t	z = (*seed += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

int
random_below(uint64_t *seed, int n)
{
	return (int) (random_next(seed) % (uint64_t) n);
}

/*
 * Prints devices as {0-3,6}.
 */
void
set_format(char *text, size_t size, uint64_t devices)
{
	size_t		n = 0;
	int			i = 0;

	n += (size_t) snprintf(text, size, "{");
	while (i < 64)
	{
		int			first = i;

		if (((devices >> i) & 1) == 0)
		{
			i++;
			continue;
		}
		while (i < 64 && ((devices >> i) & 1))
			i++;
		n += (size_t) snprintf(text + n, size - n, n > 1 ? ",%d" : "%d",
							   first);
		if (i - first > 1)
			n += (size_t) snprintf(text + n, size - n, "-%d", i - 1);
	}
	snprintf(text + n, size - n, "}");
}

/*
 * The name of a type in a result.
 */
const char *
type_name(const World *world, int type)
{
	return type == DECIDE_NO_TYPE ? "-" : world->types[type];
}

/*
 * Prints a part as n1{0-3}/4000/64.
 */
static void
part_render(FILE *out, const World *world, const DecidePart *part)
{
	char		set[400];

	set_format(set, sizeof(set), part->devices);
	fprintf(out, " %s%s/%" PRId64 "/%" PRId64, world->nodes[part->node].name,
			set, part->cpu_milli, part->memory_mib);
	if (part->gpu_memory_mib > 0)
		fprintf(out, "/%" PRId64, part->gpu_memory_mib);
}

/*
 * Prints a result: starts in order, then why each request waits, in the given
 * order of requests (their own order if request_order is NULL).
 */
char *
world_render(const World *world, const DecideResult *result,
			 const int *request_order)
{
	char	   *text = NULL;
	size_t		size = 0;
	FILE	   *out = open_memstream(&text, &size);
	int			i;
	int			j;

	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];
		const DecideJob *job = &world->jobs[start->job];

		fprintf(out, "start %s/%" PRId64 " %s x%d share %d:",
				world->accounts[job->account].name, job->id, type_name(world,
																	   start->type),
				start->gpus, start->share);
		for (j = 0; j < start->n_parts; j++)
			part_render(out, world, &result->parts[start->first_part + j]);
		fprintf(out, "\n");
	}
	for (i = 0; i < result->n_reservations; i++)
	{
		const DecideReservation *r = &result->reservations[i];
		const DecideJob *job = &world->jobs[r->job];

		fprintf(out, "reserve %s/%" PRId64 " %s x%d after %d at %" PRId64
				" limit %" PRId64 ":", job->org, job->id,
				type_name(world, r->type), r->gpus, r->after, r->at,
				r->limit_at);
		for (j = 0; j < r->n_parts; j++)
			part_render(out, world, &result->reserved_parts[r->first_part +
															j]);
		fprintf(out, "\n");
	}
	claims_render(world, result, out);
	for (i = 0; i < world->n_requests; i++)
	{
		const DecideWait *wait = &result->waits[request_order ?
												request_order[i] : i];

		if (wait->reason == DECIDE_NOT_WAITING)
			continue;
		fprintf(out, "wait %s/%" PRId64 " %s %s %" PRId64 " %" PRId64 "\n",
				world->jobs[wait->job].org, world->jobs[wait->job].id,
				DecideReasonName(wait->reason), type_name(world, wait->type),
				wait->wanted, wait->available);
	}
	fclose(out);
	return text;
}

/*
 * Returns a random order of n things.
 */
int *
random_order(uint64_t *seed, int n)
{
	int		   *order = malloc(sizeof(int) * (size_t) (n + 1));
	int			i;

	for (i = 0; i < n; i++)
		order[i] = i;
	for (i = n - 1; i > 0; i--)
	{
		int			j = random_below(seed, i + 1);
		int			swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
	return order;
}

/*
 * Copies the tiers in another order.
 */
static void
tiers_permute(const World *world, uint64_t *seed, World *other)
{
	int		   *tiers = random_order(seed, world->n_tiers);
	int			i;

	for (i = 0; i < world->n_tiers; i++)
	{
		int			tier = world_tier(other, world->tier_names[tiers[i]]);

		other->tiers[tier] = world->tiers[tiers[i]];
	}
	free(tiers);
}

/*
 * Copies the accounts in another order.
 */
static void
accounts_permute(const World *world, uint64_t *seed, World *other)
{
	int		   *accounts = random_order(seed, world->n_accounts);
	int			i;

	for (i = 0; i < world->n_accounts; i++)
	{
		const DecideAccount *old = &world->accounts[accounts[i]];
		int			index = world_account(other, old->name);
		DecideAccount *account = &other->accounts[index];

		account->weight = old->weight;
		account->usage = old->usage;
		account->live = old->live;
	}
	free(accounts);
}

/*
 * Copies the running jobs in another order.
 */
static void
running_permute(const World *world, uint64_t *seed, const int *new_type,
				const int *new_node, const int *new_request, World *other)
{
	int		   *order = random_order(seed, world->n_running);
	int			i;

	for (i = 0; i < world->n_running; i++)
	{
		const DecideRunning *old = &world->running[order[i]];
		int		   *parts = random_order(seed, old->n_parts);
		DecideRunning *running = world_running(other, old->org, old->id);
		const char *org = running->org;
		int32_t		first = running->first_part;
		int			j;

		*running = *old;
		running->org = org;
		if (old->for_org != NULL)
			world_leaves(running, old->for_org, old->for_job);
		running->first_part = first;
		running->n_parts = 0;
		running->account = world_account(other,
										 world->accounts[old->account].name);
		running->tier = world_tier(other, world->tier_names[old->tier]);
		if (old->type >= 0)
			running->type = new_type[old->type];
		if (old->request >= 0)
			running->request = new_request[old->request];
		for (j = 0; j < old->n_parts; j++)
		{
			DecidePart *part = world_part(other, running);

			*part = world->parts[old->first_part + parts[j]];
			part->node = new_node[part->node];
		}
		free(parts);
	}
	free(order);
}

/*
 * Copies typical jobs and caches in another order.
 */
static void
knowledge_permute(const World *world, uint64_t *seed, World *other,
				  const int *new_type, const int *labels, const int *nodes)
{
	int		   *workloads = random_order(seed, world->n_workloads);
	int		   *cached = random_order(seed, world->n_cached);
	int			i;
	int			j;

	for (i = 0; i < world->n_workloads; i++)
	{
		const DecideWorkload *old = &world->workloads[workloads[i]];
		DecideWorkload *new = world_workload(other, &old->request, old->jobs);
		DecideOffer *offers = (DecideOffer *) new->request.offers;

		for (j = 0; j < new->request.n_offers; j++)
			offers[j].type = new_type[offers[j].type];
	}
	for (i = 0; i < world->n_cached; i++)
	{
		const DecideCached *old = &world->cached[cached[i]];

		for (j = 0; nodes[j] != old->node; j++)
			 /* find it */ ;
		world_cached(other, 1 + labels[old->cache % 1000], j);
	}
	free(workloads);
	free(cached);
}

/*
 * Adds a request of a world to another one, whose types and nodes have other
 * numbers.  Returns the request's new index.
 */
static int
request_permute(const World *world, int number, const int *new_type,
				const int *new_node, World *other)
{
	DecideRequestClass request = world->requests[number];
	DecideOffer offers[WORLD_MAX_OFFERS];
	uint64_t	filter[WORLD_FILTER_WORDS] = {0};
	int			i;

	for (i = 0; i < request.n_offers; i++)
	{
		offers[i] = request.offers[i];
		offers[i].type = new_type[offers[i].type];
	}
	request.offers = offers;
	for (i = 0; request.filter != NULL && i < world->n_nodes; i++)
	{
		if (DecideFilterAllows(&request, i))
			filter[new_node[i] / 64] |= UINT64_C(1) << new_node[i] % 64;
	}
	if (request.filter != NULL)
		request.filter = filter;
	return world_request_again(other, &request);
}

/*
 * Makes the same world in another order with other labels.  request_order gets
 * the new index of each request.
 */
void
world_permute(const World *world, uint64_t *seed, World *other,
			  int *request_order)
{
	int		   *nodes = random_order(seed, world->n_nodes);
	int		   *requests = random_order(seed, world->n_requests);
	int		   *jobs = random_order(seed, world->n_jobs);
	int		   *types = random_order(seed, world->n_types);
	int		   *labels = random_order(seed, 1000);
	int		   *new_type = random_order(seed, world->n_types);
	int		   *new_node = random_order(seed, world->n_nodes);
	int			i;

	world_init(other);
	other->max_starts = world->max_starts;
	other->max_evictions = world->max_evictions;
	other->now = world->now;
	other->policy = world->policy;
	for (i = 0; i < world->n_types; i++)
	{
		new_type[types[i]] = world_type(other, world->types[types[i]]);
		other->weights[i] = world->weights[types[i]];
	}
	tiers_permute(world, seed, other);
	accounts_permute(world, seed, other);
	for (i = 0; i < world->n_nodes; i++)
	{
		const DecideNode *old = &world->nodes[nodes[i]];
		DecideNode *node = world_node(other, old->name, 0, 0);
		const char *name = node->name;

		*node = *old;
		node->name = name;
		new_node[nodes[i]] = i;
		if (old->type >= 0)
			node->type = new_type[old->type];
		if (old->domain >= 0)
			node->domain = labels[old->domain % 1000];
		if (old->leaf >= 0)
			node->leaf = labels[old->leaf % 1000];
		if (old->spine >= 0)
			node->spine = labels[old->spine % 1000];
	}
	for (i = 0; i < world->n_requests; i++)
		request_order[requests[i]] =
			request_permute(world, requests[i], new_type, new_node, other);
	for (i = 0; i < world->n_jobs; i++)
	{
		const DecideJob *old = &world->jobs[jobs[i]];
		DecideJob  *job = world_job(other, request_order[old->request],
									old->org, "",
									old->id);

		job->account = world_account(other,
									 world->accounts[old->account].name);
		job->tier = world_tier(other, world->tier_names[old->tier]);
		job->priority = old->priority;
		job->submitted = old->submitted;
		job->aged_at = old->aged_at;
		job->order_run = old->order_run;
		job->expected_run = old->expected_run;
		job->likely_run = old->likely_run;
		job->waits_from = old->waits_from;
		if (old->cache > 0)
			job->cache = 1 + labels[old->cache % 1000];
	}
	knowledge_permute(world, seed, other, new_type, labels, nodes);
	running_permute(world, seed, new_type, new_node, request_order, other);
	claims_permute(world, seed, new_type, new_node, other);
	previous_permute(world, seed, new_type, new_node, other);
	if (world->n_quotas > 0)
		quotas_copy(world, seed, new_type, other);
	free(nodes);
	free(requests);
	free(jobs);
	free(types);
	free(labels);
	free(new_type);
	free(new_node);
}
