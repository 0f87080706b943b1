/*
 * claims.c
 *	  Claims in scenarios: their syntax, what is expected of them, and their
 *	  output as text.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * Makes the request of a running job: what it has, and the range that it may
 * have.
 */
void
running_request(World *world, DecideRunning *running, DecideTopology topology)
{
	DecideOffer offer = {.type = running->type};
	const DecidePart *first = &world->parts[running->first_part];
	DecideRequestClass request = {
		.min_gpus = running->min_gpus, .max_gpus = running->max_gpus,
		.share = running->share, .n_offers = running->type >= 0,
		.offers = &offer, .topology = topology,
		.spot_ok = running->preemptible != DECIDE_PREEMPT_NEVER,
		.stays = running->stays,
		.wall_limit = DECIDE_NEVER
	};
	int			i;

	if (running->n_parts > 0 && first->gpu_memory_mib !=
		share_memory(&world->nodes[first->node], running->share))
		offer.min_memory = first->gpu_memory_mib << 20;
	for (i = 0; i < running->n_parts; i++)
	{
		request.cpu_milli += world->parts[running->first_part + i].cpu_milli;
		request.memory_mib += world->parts[running->first_part + i].memory_mib;
	}
	running->request = world_request(world, &request);
}

/*
 * Parses the line: claim ORG[/ACCOUNT]/ID TYPE NODE{devices}... [share=500]
 * [gpumem=8k] [running] [stays].  TYPE 0 means no devices.
 */
char *
claim_line(World *world, char *line)
{
	char	   *name = strtok(line, " ");
	char	   *type = strtok(NULL, " ");
	char	   *id = name != NULL ? strrchr(name, '/') : NULL;
	DecideClaim *claim;
	int64_t		gpu_memory = 0;
	char	   *word;
	int			i;

	if (id == NULL || type == NULL)
		return format("a claim needs ORG/ID, a type, parts");
	*id++ = '\0';
	i = world_account(world, name);
	name[strcspn(name, "/")] = '\0';
	claim = world_claim(world, name, atoll(id));
	claim->account = i;
	claim->type = strcmp(type, "0") == 0 ? DECIDE_NO_TYPE :
		world_type(world, type);
	for (i = 0; i < world->n_jobs; i++)
	{
		if (world->jobs[i].id == claim->id &&
			strcmp(world->jobs[i].org, claim->org) == 0)
			claim->job = i;
	}
	while ((word = strtok(NULL, " ")) != NULL)
	{
		char	   *brace = strchr(word, '{');
		const char *end;
		DecidePart *part;

		if (strcmp(word, "running") == 0)
			claim->running = true;
		else if (strcmp(word, "stays") == 0)
			claim->stays = true;
		else if (strncmp(word, "share=", 6) == 0)
			claim->share = atoi(word + 6);
		else if (strncmp(word, "gpumem=", 7) == 0)
			(void) number_parse(word + 7, &gpu_memory);
		else if (brace == NULL)
			return format("bad word \"%s\" of a claim", word);
		else
		{
			part = world_claim_part(world, claim);
			if (!set_parse(brace, &end, &part->devices))
				return format("bad set \"%s\"", brace);
			*brace = '\0';
			part->node = -1;
			for (i = 0; i < world->n_nodes; i++)
			{
				if (strcmp(world->nodes[i].name, word) == 0)
					part->node = i;
			}
			part->gpus = __builtin_popcountll(part->devices);
			claim->gpus += part->gpus;
		}
	}
	for (i = claim->first_part; i < world->n_claim_parts; i++)
	{
		DecidePart *part = &world->claim_parts[i];

		if (claim->share < DECIDE_WHOLE && part->node >= 0)
			part->gpu_memory_mib = gpu_memory > 0 ? gpu_memory :
				share_memory(&world->nodes[part->node], claim->share);
	}
	return NULL;
}

/*
 * Copies the claims in another order.
 */
void
claims_permute(const World *world, uint64_t *seed, const int *new_type,
			   const int *new_node, World *other)
{
	int		   *order = random_order(seed, world->n_claims);
	int			i;
	int			j;

	for (i = 0; i < world->n_claims; i++)
	{
		const DecideClaim *old = &world->claims[order[i]];
		DecideClaim *claim = world_claim(other, old->org, old->id);

		claim->running = old->running;
		claim->stays = old->stays;
		claim->made = old->made;
		claim->turn = old->turn;
		claim->gpus = old->gpus;
		claim->share = old->share;
		claim->type = old->type >= 0 ? new_type[old->type] : old->type;
		claim->account = world_account(other,
									   world->accounts[old->account].name);
		for (j = 0; j < other->n_jobs && old->job >= 0; j++)
		{
			if (other->jobs[j].id == old->id &&
				strcmp(other->jobs[j].org, old->org) == 0)
				claim->job = j;
		}
		for (j = 0; j < old->n_parts; j++)
		{
			DecidePart *part = world_claim_part(other, claim);

			*part = world->claim_parts[old->first_part + j];
			part->node = new_node[part->node];
		}
	}
	free(order);
}

/*
 * Copies the previous reservations in another order.
 */
void
previous_permute(const World *world, uint64_t *seed, const int *new_type,
				 const int *new_node, World *other)
{
	int		   *order = random_order(seed, world->n_previous);
	int			i;
	int			j;

	for (i = 0; i < world->n_previous; i++)
	{
		const DecidePreviousReservation *old = &world->previous[order[i]];
		const DecideJob *job = &world->jobs[old->job];
		DecidePreviousReservation *previous;

		for (j = 0; other->jobs[j].id != job->id ||
			 strcmp(other->jobs[j].org, job->org) != 0; j++)
			 /* find it */ ;
		previous = world_previous(other, j, old->type >= 0 ?
								  new_type[old->type] : old->type,
								  &world->previous_parts[old->first_part],
								  old->n_parts);
		previous->limit_at = old->limit_at;
		previous->latest = old->latest;
		for (j = 0; j < old->n_parts; j++)
		{
			DecidePart *part = &other->previous_parts[other->n_previous_parts -
													  old->n_parts + j];

			part->node = new_node[part->node];
		}
	}
	free(order);
}

/*
 * Prints parts as text.
 */
static void
parts_render(const World *world, const DecidePart *parts, int n, FILE *out)
{
	char		set[400];
	int			i;

	for (i = 0; i < n; i++)
	{
		set_format(set, sizeof(set), parts[i].devices);
		fprintf(out, " %s%s/%" PRId64 "/%" PRId64,
				world->nodes[parts[i].node].name, set, parts[i].cpu_milli,
				parts[i].memory_mib);
	}
}

/*
 * Prints new claims: which job gets what, and which jobs leave for it.
 */
void
claims_render(const World *world, const DecideResult *result, FILE *out)
{
	int			i;
	int			j;

	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *promise = &result->promises[i];
		const char *org = promise->job >= 0 ? world->jobs[promise->job].org :
			world->running[promise->running].org;
		int64_t		id = promise->job >= 0 ? world->jobs[promise->job].id :
			world->running[promise->running].id;

		fprintf(out, "%s %s/%" PRId64 " %s %s x%d share %d led by %d:",
				promise->job >= 0 ? "claim" : "resume", org, id,
				DecideWhyName(promise->why), type_name(world, promise->type),
				promise->gpus, promise->share, promise->leader);
		parts_render(world, &result->promise_parts[promise->first_part],
					 promise->n_parts, out);
		for (j = 0; j < promise->n_evictions; j++)
		{
			const DecideEviction *eviction =
			&result->evictions[promise->first_eviction + j];

			fprintf(out, " evict %s/%" PRId64 " (%s)",
					world->running[eviction->running].org,
					world->running[eviction->running].id,
					DecideWhyName(eviction->why));
		}
		fprintf(out, "\n");
	}
}

/*
 * Checks "expect claim NAME ..." and "expect resume NAME ...": the job is
 * promised exactly these devices, as NODE{devices}; also why= and gpus=.
 */
static char *
expect_promise(const World *world, const DecideResult *result, char *words,
			   bool waiting)
{
	char	   *name = strtok(words, " ");
	const DecidePromise *promise = NULL;
	char	   *word;
	int			named = 0;
	int			i;

	for (i = 0; i < result->n_promises && promise == NULL; i++)
	{
		const DecidePromise *p = &result->promises[i];
		char	   *full;

		if ((p->job >= 0) != waiting)
			continue;
		full = p->job >= 0 ?
			format("%s/%" PRId64, world->jobs[p->job].org,
				   world->jobs[p->job].id) :
			format("%s/%" PRId64, world->running[p->running].org,
				   world->running[p->running].id);
		if (strcmp(full, name) == 0)
			promise = p;
		free(full);
	}
	if (promise == NULL)
		return format("%s is promised nothing", name);
	while ((word = strtok(NULL, " ")) != NULL)
	{
		char	   *brace = strchr(word, '{');
		uint64_t	devices;
		const char *end;

		if (strncmp(word, "why=", 4) == 0)
		{
			if (strcmp(word + 4, DecideWhyName(promise->why)) != 0)
				return format("%s because of %s", name,
							  DecideWhyName(promise->why));
			continue;
		}
		if (strncmp(word, "gpus=", 5) == 0)
		{
			if (atoi(word + 5) != promise->gpus)
				return format("%s gets %d gpus", name, promise->gpus);
			continue;
		}
		if (brace == NULL || !set_parse(brace, &end, &devices))
			return format("bad word \"%s\"", word);
		*brace = '\0';
		for (i = 0; i < promise->n_parts; i++)
		{
			const DecidePart *part =
			&result->promise_parts[promise->first_part + i];

			if (strcmp(world->nodes[part->node].name, word) == 0 &&
				part->devices == devices)
				break;
		}
		if (i == promise->n_parts)
			return format("%s is promised other devices of %s", name, word);
		named++;
	}
	return named > 0 && named != promise->n_parts ?
		format("%s is promised devices of %d nodes", name,
			   promise->n_parts) : NULL;
}

/*
 * Checks "expect evict NAME...": exactly these jobs are evicted.
 */
static char *
expect_evict(const World *world, const DecideResult *result, char *words)
{
	char	   *word;
	int			named = 0;
	int			i;

	for (word = strtok(words, " "); word != NULL; word = strtok(NULL, " "))
	{
		for (i = 0; i < result->n_evictions; i++)
		{
			const DecideRunning *running =
			&world->running[result->evictions[i].running];
			char	   *full = format("%s/%" PRId64, running->org,
									  running->id);
			bool		same = strcmp(full, word) == 0;

			free(full);
			if (same)
				break;
		}
		if (i == result->n_evictions)
			return format("%s is not told to go", word);
		named++;
	}
	return named != result->n_evictions ?
		format("%d are told to go", result->n_evictions) : NULL;
}

/*
 * Checks an expectation about claims.  Returns NULL if it is met.
 */
char *
claims_expect(World *world, const DecideResult *result, char *line)
{
	char	   *rest = strchr(line, ' ');
	int			waiting = 0;
	int			i;

	if (rest == NULL)
		return format("not understood: %s", line);
	*rest++ = '\0';
	if (strcmp(line, "claim") == 0 || strcmp(line, "resume") == 0)
		return expect_promise(world, result, rest, *line == 'c');
	if (strcmp(line, "evict") == 0)
		return expect_evict(world, result, rest);
	for (i = 0; i < result->n_promises; i++)
		waiting += result->promises[i].job >= 0;
	if (strcmp(line, "claims") == 0)
		return waiting == atoi(rest) ? NULL : format("%d claims", waiting);
	if (strcmp(line, "evictions") == 0)
		return result->n_evictions == atoi(rest) ? NULL :
			format("%d evictions", result->n_evictions);
	return format("not understood: %s %s", line, rest);
}
