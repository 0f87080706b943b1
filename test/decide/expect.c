/*
 * expect.c
 *	  Requests and expectations of the scenario language.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * A number, with k for thousands; false if it is none.
 */
bool
number_parse(const char *text, int64_t *number)
{
	char	   *end;

	*number = strtoll(text, &end, 10);
	if (end == text)
		return false;
	if (*end == 'k' || *end == 'M')
		*number *= *end++ == 'k' ? 1000 : 1000000;
	return *end == '\0';
}

/*
 * Devices, {0-3,6}.
 */
bool
set_parse(const char *text, const char **end, uint64_t *devices)
{
	*devices = 0;
	if (*text++ != '{')
		return false;
	while (*text != '}')
	{
		int			first;
		int			last;
		int			n = 0;

		if (sscanf(text, "%d%n", &first, &n) != 1)
			return false;
		text += n;
		last = first;
		if (*text == '-')
		{
			if (sscanf(text + 1, "%d%n", &last, &n) != 1)
				return false;
			text += n + 1;
		}
		if (first < 0 || last > 63)
			return false;
		for (; first <= last; first++)
			*devices |= UINT64_C(1) << first;
		if (*text == ',')
			text++;
	}
	*end = text + 1;
	return true;
}

/*
 * Order of type names.
 */
static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/*
 * A*: all types known so far, by name.
 */
static void
offers_all(const World *world, DecideAsk *ask, DecideOffer *offers)
{
	char	   *names[WORLD_MAX_OFFERS];
	int			i;
	int			j;

	for (i = 0; i < world->n_types && i < WORLD_MAX_OFFERS; i++)
		names[i] = world->types[i];
	qsort(names, (size_t) i, sizeof(char *), compare_names);
	ask->n_offers = i;
	for (i = 0; i < ask->n_offers; i++)
	{
		for (j = 0; world->types[j] != names[i]; j++)
			 /* find it */ ;
		offers[i].type = j;
		offers[i].min_memory = 0;
		offers[i].tied = false;
	}
}

/*
 * H100|A100@40GB; "|=A100" is as good as the one before it.
 */
static char *
offers_parse(World *world, char *text, DecideAsk *ask, DecideOffer *offers)
{
	while (text != NULL && *text != '\0')
	{
		char	   *next = strchr(text, '|');
		char	   *floor;
		DecideOffer *offer = &offers[ask->n_offers];

		if (ask->n_offers == WORLD_MAX_OFFERS)
			return format("too many types");
		if (next != NULL)
			*next++ = '\0';
		offer->tied = *text == '=';
		text += offer->tied;
		floor = strchr(text, '@');
		offer->min_memory = 0;
		if (floor != NULL)
		{
			char	   *unit;

			*floor++ = '\0';
			offer->min_memory = strtoll(floor, &unit, 10);
			if (strcmp(unit, "GB") == 0)
				offer->min_memory *= INT64_C(1000000000);
			else if (strcmp(unit, "GiB") == 0)
				offer->min_memory *= INT64_C(1) << 30;
			else if (strcmp(unit, "B") != 0)
				return format("bad memory \"%s\"", floor);
		}
		offer->type = world_type(world, text);
		ask->n_offers++;
		text = next;
	}
	return NULL;
}

/*
 * A word after a request, as tier=1.  False if it means nothing.
 */
static bool
request_word(World *world, DecideAsk *ask, DecideJob *job, char *word)
{
	static const char *const topologies[] = {"any", "node", "nvlink", "leaf"};
	char	   *value = strchr(word, '=');
	int64_t		n;
	int			i;

	if (strcmp(word, "spot") == 0)
	{
		ask->spot_ok = true;
		return true;
	}
	if (value == NULL)
		return false;
	*value++ = '\0';
	if (strcmp(word, "topology") == 0 || strcmp(word, "prefer") == 0)
	{
		for (i = 0; i < 4; i++)
		{
			if (strcmp(value, topologies[i]) == 0)
			{
				*(*word == 't' ? &ask->topology : &ask->prefer) =
					(DecideTopology) i;
				return true;
			}
		}
		return false;
	}
	if (strcmp(word, "cache") == 0)
	{
		job->cache = 1 + label_number(value);
		return true;
	}
	if (strcmp(word, "tier") == 0)
	{
		job->tier = world_tier(world, value);
		return true;
	}
	if (strcmp(word, "wall") == 0)
		return time_parse(value, &ask->wall_limit);
	if (strcmp(word, "expected") == 0)
		return time_parse(value, &job->expected_run);
	if (!number_parse(value, &n))
		return false;
	if (strcmp(word, "priority") == 0)
		job->priority = (int32_t) n;
	else if (strcmp(word, "submit") == 0)
		job->submitted = n;
	else if (strcmp(word, "aged") == 0)
		job->aged_at = n;
	else if (strcmp(word, "run") == 0)
		job->order_run = n;
	else if (strcmp(word, "cpu") == 0)
		ask->cpu_milli = n;
	else if (strcmp(word, "mem") == 0)
		ask->memory_mib = n;
	else
		return false;
	return true;
}

/*
 * When a job is aged that has waited since it was submitted.
 */
static int64_t
aged_at(const DecideTier *tier, int64_t submitted)
{
	int64_t		at;

	if (tier->max_wait == DECIDE_NEVER ||
		__builtin_add_overflow(submitted, tier->max_wait, &at))
		return DECIDE_NEVER;
	return at;
}

/*
 * 8xH100|A100@40GB, 0.46xT4, 4-16xH100, 4x*, 0, then words.  The ask's offers
 * point to room for WORLD_MAX_OFFERS.
 */
char *
request_parse(World *world, char *words, DecideAsk *ask, DecideJob *job)
{
	DecideOffer *offers = (DecideOffer *) ask->offers;
	char	   *request = strtok(words, " ");
	char	   *types = request != NULL ? strchr(request, 'x') : NULL;
	char	   *word;
	char	   *error = NULL;
	int			first;
	int			last;

	if (request == NULL)
		return format("a request is missing");
	ask->share = DECIDE_WHOLE;
	job->tier = -1;
	job->aged_at = -1;
	ask->wall_limit = DECIDE_NEVER;
	if (types != NULL)
		*types++ = '\0';
	if (strncmp(request, "0.", 2) == 0)
	{
		char		digits[4] = "000";

		memcpy(digits, request + 2, strnlen(request + 2, 3));
		ask->share = atoi(digits);
		ask->min_gpus = ask->max_gpus = 1;
	}
	else if (sscanf(request, "%d-%d", &first, &last) == 2)
	{
		ask->min_gpus = first;
		ask->max_gpus = last;
	}
	else
		ask->min_gpus = ask->max_gpus = atoi(request);
	if (types != NULL && strcmp(types, "*") == 0)
		offers_all(world, ask, offers);
	else
		error = offers_parse(world, types, ask, offers);
	while (error == NULL && (word = strtok(NULL, " ")) != NULL)
	{
		if (!request_word(world, ask, job, word))
			error = format("bad word \"%s\" of a request", word);
	}
	if (job->tier < 0)
		job->tier = world_rank(world, 0);
	if (job->aged_at < 0)
		job->aged_at = aged_at(&world->tiers[job->tier], job->submitted);
	return error;
}

/*
 * The job called ORG[/ACCOUNT]/ID, or -1.
 */
static int
job_find(const World *world, const char *name)
{
	int			i;

	for (i = 0; i < world->n_jobs; i++)
	{
		const DecideJob *job = &world->jobs[i];
		char	   *full = format("%s/%" PRId64, job->org, job->id);
		bool		same = strcmp(full, name) == 0;

		free(full);
		if (same)
			return i;
	}
	return -1;
}

/*
 * The start of a job, or NULL.
 */
static const DecideStart *
start_find(const DecideResult *result, int job)
{
	int			i;

	for (i = 0; i < result->n_starts; i++)
	{
		if (result->starts[i].job == job)
			return &result->starts[i];
	}
	return NULL;
}

/*
 * One word of "expect start": NODE{devices}[/cpu[/mem]], NODE, or a property
 * of the start, as type=A100, gpus=4, nodes=2, share=460.
 */
static char *
start_word(const World *world, const DecideResult *result,
		   const DecideStart *start, char *word, int *n_named)
{
	char	   *brace = strchr(word, '{');
	const DecidePart *part = NULL;
	uint64_t	devices;
	const char *rest = "";
	int64_t		cpu;
	int64_t		memory;
	int			i;

	if (strncmp(word, "type=", 5) == 0)
		return strcmp(word + 5, start->type < 0 ? "none" :
					  world->types[start->type]) == 0 ? NULL :
			format("another type than %s", word + 5);
	if (strncmp(word, "gpus=", 5) == 0)
		return atoi(word + 5) == start->gpus ? NULL :
			format("%d gpus", start->gpus);
	if (strncmp(word, "nodes=", 6) == 0)
		return atoi(word + 6) == start->n_parts ? NULL :
			format("%d nodes", start->n_parts);
	if (strncmp(word, "share=", 6) == 0)
		return atoi(word + 6) == start->share ? NULL :
			format("share %d", start->share);
	if (brace != NULL)
	{
		if (!set_parse(brace, &rest, &devices))
			return format("bad set \"%s\"", brace);
		*brace = '\0';
	}
	for (i = 0; i < start->n_parts; i++)
	{
		part = &result->parts[start->first_part + i];
		if (strcmp(world->nodes[part->node].name, word) == 0)
			break;
	}
	if (i == start->n_parts)
		return format("not on %s", word);
	++*n_named;
	if (brace != NULL && part->devices != devices)
		return format("other devices of %s", word);
	if (sscanf(rest, "/%" SCNd64, &cpu) == 1 && cpu != part->cpu_milli)
		return format("cpu %" PRId64 " of %s", part->cpu_milli, word);
	if (sscanf(rest, "/%*d/%" SCNd64, &memory) == 1 &&
		memory != part->memory_mib)
		return format("memory %" PRId64 " of %s", part->memory_mib, word);
	return NULL;
}

/*
 * start JOB WORD...: it starts so; naming any node means naming all.
 */
static char *
expect_start(const World *world, const DecideResult *result, char *rest)
{
	char	   *name = strtok(rest, " ");
	int			job = name != NULL ? job_find(world, name) : -1;
	const DecideStart *start;
	int			n_named = 0;
	char	   *word;

	if (job < 0)
		return format("no job %s", name ? name : "");
	start = start_find(result, job);
	if (start == NULL)
		return format("%s did not start", name);
	while ((word = strtok(NULL, " ")) != NULL)
	{
		char	   *error = start_word(world, result, start, word, &n_named);

		if (error != NULL)
		{
			char	   *full = format("%s: %s", name, error);

			free(error);
			return full;
		}
	}
	if (n_named > 0 && n_named != start->n_parts)
		return format("%s is on other nodes too", name);
	return NULL;
}

/*
 * wait JOB [REASON [WANTED AVAILABLE]]
 */
static char *
expect_wait(const World *world, const DecideResult *result, char *rest)
{
	char	   *name = strtok(rest, " ");
	char	   *reason = strtok(NULL, " ");
	char	   *wanted = strtok(NULL, " ");
	char	   *available = strtok(NULL, " ");
	int			job = name != NULL ? job_find(world, name) : -1;
	const DecideWait *wait;

	if (job < 0)
		return format("no job %s", name ? name : "");
	if (start_find(result, job) != NULL)
		return format("%s started", name);
	wait = &result->waits[world->jobs[job].ask];
	if (wait->reason == DECIDE_NOT_WAITING)
		return format("nobody says why %s waits", name);
	if (reason != NULL &&
		strcmp(reason, DecideReasonName(wait->reason)) != 0)
		return format("%s waits for %s %" PRId64 " %" PRId64, name,
					  DecideReasonName(wait->reason), wait->wanted,
					  wait->available);
	if (available != NULL && (atoll(wanted) != wait->wanted ||
							  atoll(available) != wait->available))
		return format("%s wants %" PRId64 " of %" PRId64, name, wait->wanted,
					  wait->available);
	return NULL;
}

/*
 * order JOB...: these start, in this order (others may be between them).
 */
static char *
expect_order(const World *world, const DecideResult *result, char *rest)
{
	const DecideStart *last = NULL;
	char	   *name;

	for (name = strtok(rest, " "); name != NULL; name = strtok(NULL, " "))
	{
		int			job = job_find(world, name);
		const DecideStart *start = job < 0 ? NULL : start_find(result, job);

		if (start == NULL)
			return format("%s did not start", name);
		if (last != NULL && start < last)
			return format("%s started too early", name);
		last = start;
	}
	return NULL;
}

/*
 * feasible REQUEST ... / impossible REQUEST ...
 */
static char *
expect_feasible(World *world, char *rest, bool expected)
{
	DecideOffer offers[WORLD_MAX_OFFERS];
	DecideAsk	ask = {0};
	DecideJob	job = {0};
	Pool		pool;
	DecideArena arena;
	bool		feasible;
	const char *error;
	char	   *why;

	ask.offers = offers;
	why = request_parse(world, rest, &ask, &job);
	if (why != NULL)
		return why;
	pool_init(&pool);
	arena = pool_arena(&pool);
	error = DecideFeasible(world->nodes, world->n_nodes, &ask, &arena,
						   &feasible);
	pool_free(&pool);
	if (error != NULL)
		return format("%s", error);
	return feasible == expected ? NULL :
		format("it is %s", feasible ? "feasible" : "impossible");
}

/*
 * Hold a result against one expectation: NULL, or what is wrong.
 */
char *
expect_check(World *world, const DecideResult *result, char *line)
{
	char	   *rest = strchr(line, ' ');

	if (rest != NULL)
		*rest++ = '\0';
	if (strcmp(line, "nothing") == 0)
		return result->n_starts + result->n_evictions == 0 ? NULL :
			format("%d jobs started, %d were told to go", result->n_starts,
				   result->n_evictions);
	if (rest == NULL)
		return format("what to expect is missing");
	if (strcmp(line, "start") == 0)
		return expect_start(world, result, rest);
	if (strcmp(line, "wait") == 0)
		return expect_wait(world, result, rest);
	if (strcmp(line, "order") == 0)
		return expect_order(world, result, rest);
	if (strcmp(line, "feasible") == 0)
		return expect_feasible(world, rest, true);
	if (strcmp(line, "impossible") == 0)
		return expect_feasible(world, rest, false);
	if (strcmp(line, "starts") == 0)
		return atoi(rest) == result->n_starts ? NULL :
			format("%d jobs started", result->n_starts);
	rest[-1] = ' ';
	return claims_expect(world, result, line);
}
