/*
 * request_class.c
 *	  Parses requests in the scenario language: 8xH100|A100 tier=1 submit=10.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * Parses a number, with k for thousands.  Returns false if the text is no
 * number.
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
 * Parses devices, as {0-3,6}.
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
 * Compares two type names.
 */
static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/*
 * Makes the offers of "*": all types known so far, by name.
 */
static void
offers_all(const World *world, DecideRequestClass *class, DecideOffer *offers)
{
	char	   *names[WORLD_MAX_OFFERS];
	int			i;
	int			j;

	for (i = 0; i < world->n_types && i < WORLD_MAX_OFFERS; i++)
		names[i] = world->types[i];
	qsort(names, (size_t) i, sizeof(char *), compare_names);
	class->n_offers = i;
	for (i = 0; i < class->n_offers; i++)
	{
		for (j = 0; world->types[j] != names[i]; j++)
			 /* find it */ ;
		offers[i].type = j;
		offers[i].min_memory = 0;
		offers[i].tied = false;
		offers[i].counted = 0;
	}
}

/*
 * Computes what each offer of a share counts in use, as OffersRequest() does:
 * its memory floor as a part of the memory of the smallest device that has it.
 */
static void
offers_count(const World *world, DecideRequestClass *class)
{
	DecideOffer *offers = (DecideOffer *) class->offers;
	int			i;
	int			n;

	for (i = 0; i < class->n_offers && class->share < DECIDE_WHOLE; i++)
	{
		int64_t		floor = (offers[i].min_memory + 1048575) >> 20;

		offers[i].counted = class->share;
		for (n = 0; n < world->n_nodes; n++)
		{
			int64_t		has = world->nodes[n].gpu_memory_mib;

			if (world->nodes[n].type == offers[i].type && floor > 0 &&
				has >= floor && (floor * DECIDE_WHOLE + has - 1) / has >
				offers[i].counted)
				offers[i].counted = (int32_t)
					((floor * DECIDE_WHOLE + has - 1) / has);
		}
	}
}

/*
 * Parses offers, as H100|A100@40GB.  An offer after "|=" is tied to the one
 * before it.
 */
static char *
offers_parse(World *world, char *text, DecideRequestClass *class,
			 DecideOffer *offers)
{
	while (text != NULL && *text != '\0')
	{
		char	   *next = strchr(text, '|');
		char	   *floor;
		DecideOffer *offer = &offers[class->n_offers];

		if (class->n_offers == WORLD_MAX_OFFERS)
			return format("too many types");
		if (next != NULL)
			*next++ = '\0';
		offer->tied = *text == '=';
		text += offer->tied;
		floor = strchr(text, '@');
		offer->min_memory = 0;
		offer->counted = 0;
		if (floor != NULL)
		{
			char	   *unit;

			*floor++ = '\0';
			offer->min_memory = strtoll(floor, &unit, 10);
			if (strcmp(unit, "GB") == 0)
				offer->min_memory *= INT64_C(1000000000);
			else if (strcmp(unit, "GiB") == 0)
				offer->min_memory *= INT64_C(1) << 30;
			else if (strcmp(unit, "MiB") == 0)
				offer->min_memory *= INT64_C(1) << 20;
			else if (strcmp(unit, "B") != 0)
				return format("bad memory \"%s\"", floor);
		}
		offer->type = world_type(world, text);
		class->n_offers++;
		text = next;
	}
	return NULL;
}

/*
 * Parses the nodes that a request may use, or may not use, as n1,n2.  The
 * filter is valid until the next call.
 */
static bool
filter_parse(const World *world, DecideRequestClass *class, char *names,
			 bool only)
{
	static uint64_t filter[WORLD_FILTER_WORDS];

	memset(filter, only ? 0 : 0xFF, sizeof(filter));
	class->filter = filter;
	while (names != NULL)
	{
		char	   *next = strchr(names, ',');
		int			n = 0;

		if (next != NULL)
			*next++ = '\0';
		while (n < world->n_nodes && strcmp(world->nodes[n].name, names) != 0)
			n++;
		if (n == world->n_nodes || n >= 64 * WORLD_FILTER_WORDS)
			return false;
		filter[n / 64] ^= UINT64_C(1) << n % 64;
		names = next;
	}
	return true;
}

/*
 * Parses a word after a request, as tier=1.  Returns false if the word is
 * unknown.
 */
static bool
request_word(World *world, DecideRequestClass *class, DecideJob *job,
			 char *word)
{
	static const char *const topologies[] = {"any", "node", "nvlink", "leaf"};
	char	   *value = strchr(word, '=');
	int64_t		n;
	int			i;

	if (strcmp(word, "spot") == 0)
	{
		class->spot_ok = true;
		return true;
	}
	if (strcmp(word, "stays") == 0)
	{
		class->stays = true;
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
				*(*word == 't' ? &class->topology : &class->prefer) =
					(DecideTopology) i;
				return true;
			}
		}
		return false;
	}
	if (strcmp(word, "on") == 0 || strcmp(word, "off") == 0)
		return filter_parse(world, class, value, *(word + 1) == 'n');
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
		return time_parse(value, &class->wall_limit);
	if (strcmp(word, "expected") == 0)
		return time_parse(value, &job->expected_run);
	if (strcmp(word, "likely") == 0)
		return time_parse(value, &job->likely_run);
	if (strcmp(word, "waits") == 0)
		return time_parse(value, &job->waits_from);
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
		class->cpu_milli = n;
	else if (strcmp(word, "mem") == 0)
		class->memory_mib = n;
	else if (strcmp(word, "per_node") == 0)
		class->per_node = (int32_t) n;
	else
		return false;
	return true;
}

/*
 * The time at which a job becomes aged that waits since its submission.
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
 * Parses a request: 8xH100|A100@40GB, 0.46xT4, 4-16xH100, 4x*, or 0, then
 * words.  The caller's offers must have room for WORLD_MAX_OFFERS.
 */
char *
request_parse(World *world, char *words, DecideRequestClass *class,
			  DecideJob *job)
{
	DecideOffer *offers = (DecideOffer *) class->offers;
	char	   *request = strtok(words, " ");
	char	   *types = request != NULL ? strchr(request, 'x') : NULL;
	char	   *word;
	char	   *error = NULL;
	int			first;
	int			last;

	if (request == NULL)
		return format("a request is missing");
	class->share = DECIDE_WHOLE;
	job->tier = -1;
	job->aged_at = -1;
	class->wall_limit = DECIDE_NEVER;
	if (types != NULL)
		*types++ = '\0';
	if (strncmp(request, "0.", 2) == 0)
	{
		char		digits[4] = "000";

		memcpy(digits, request + 2, strnlen(request + 2, 3));
		class->share = atoi(digits);
		class->min_gpus = class->max_gpus = 1;
	}
	else if (sscanf(request, "%d-%d", &first, &last) == 2)
	{
		class->min_gpus = first;
		class->max_gpus = last;
	}
	else
		class->min_gpus = class->max_gpus = atoi(request);
	if (types != NULL && strcmp(types, "*") == 0)
		offers_all(world, class, offers);
	else
		error = offers_parse(world, types, class, offers);
	offers_count(world, class);
	while (error == NULL && (word = strtok(NULL, " ")) != NULL)
	{
		if (!request_word(world, class, job, word))
			error = format("bad word \"%s\" of a request", word);
	}
	if (job->tier < 0)
		job->tier = world_rank(world, 0);
	if (job->aged_at < 0)
		job->aged_at = aged_at(&world->tiers[job->tier], job->submitted);
	return error;
}
