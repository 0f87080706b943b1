/*
 * setting.c
 *	  Parses a scenario's lines on the pool's rules: time, policy, tiers,
 *	  accounts, weights of GPU types.
 *
 * Each line is a name followed by words, as rank=2.  What a line does not set
 * keeps its default.
 */
#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * Parses a word of the line: policy order=shortest ...
 */
static bool
policy_word(World *world, char *name, char *word, char *value)
{
	int64_t		n;

	static const char *const packings[] = {"pack", "spread", "fgd"};
	int			i;

	(void) name;
	for (i = 0; strcmp(word, "packing") == 0 && i < 3; i++)
	{
		if (strcmp(value, packings[i]) == 0)
		{
			world->policy.packing = (DecidePacking) i;
			return true;
		}
	}
	if (strcmp(word, "order") == 0)
	{
		world->policy.order = strcmp(value, "shortest") == 0 ?
			DECIDE_ORDER_SHORTEST : DECIDE_ORDER_FAIR;
		return strcmp(value, "shortest") == 0 || strcmp(value, "fair") == 0;
	}
	if (strcmp(word, "reclaim") == 0 || strcmp(word, "consolidate") == 0)
	{
		*(*word == 'r' ? &world->policy.reclaim :
		  &world->policy.consolidate) = strcmp(value, "yes") == 0;
		return true;
	}
	if (strcmp(word, "elastic_idle_delay") == 0)
		return time_parse(value, &world->policy.elastic_idle_delay);
	if (strcmp(word, "restart_cost") == 0)
		return time_parse(value, &world->policy.restart_cost);
	if (!number_parse(value, &n))
		return false;
	if (strcmp(word, "fair_horizon") == 0)
		world->policy.fair_horizon = n;
	else if (strcmp(word, "depth") == 0)
		world->policy.backfill_depth = (int32_t) n;
	else
		return false;
	return true;
}

/*
 * Parses a word of the line: tier NAME rank=2 max_wait=100 share=250k live=4k
 * ..., where share is in millionths.
 */
static bool
tier_word(World *world, char *name, char *word, char *value)
{
	int			index = world_tier(world, name);
	DecideTier *tier = &world->tiers[index];
	int64_t		n;

	if (strcmp(word, "preempts") == 0)
	{
		tier->can_preempt = strcmp(value, "yes") == 0;
		return true;
	}
	if (strcmp(word, "ages_to") == 0 && strcmp(value, "default") == 0)
	{
		tier->ages_to = DecideAgesTo(world->tiers, world->n_tiers, index);
		return true;
	}
	if (!number_parse(value, &n))
		return false;
	if (strcmp(word, "rank") == 0)
		tier->rank = (int32_t) n;
	else if (strcmp(word, "grace") == 0)
		tier->grace = n;
	else if (strcmp(word, "min_run") == 0)
		tier->min_run = n;
	else if (strcmp(word, "max_wait") == 0)
		tier->max_wait = n;
	else if (strcmp(word, "ages_to") == 0)
		tier->ages_to = (int32_t) n;
	else if (strcmp(word, "share") == 0)
		tier->share_ppm = (int32_t) n;
	else if (strcmp(word, "live") == 0)
		tier->live = n;
	else
		return false;
	return true;
}

/*
 * Parses a word of the line: account ORG/PATH weight=2M usage=.. live=..,
 * where weight is in millionths.
 */
static bool
account_word(World *world, char *name, char *word, char *value)
{
	int			index = world_account(world, name);
	DecideAccount *account = &world->accounts[index];
	int64_t		n;

	if (!number_parse(value, &n))
		return false;
	if (strcmp(word, "weight") == 0)
		account->weight = n;
	else if (strcmp(word, "usage") == 0)
		account->usage = n;
	else if (strcmp(word, "live") == 0)
		account->live = n;
	else
		return false;
	return true;
}

/*
 * Parses a word of the line: type H100 weight=2k, where weight is in
 * thousandths.
 */
static bool
type_word(World *world, char *name, char *word, char *value)
{
	int			type = world_type(world, name);
	int64_t		n;

	if (strcmp(word, "weight") != 0 || !number_parse(value, &n))
		return false;
	world->weights[type].weight = n;
	return true;
}

/*
 * Parses the line: typical 0.5xT4 cpu=4k jobs=30.  This many jobs have asked
 * for that.
 */
static char *
workload_line(World *world, char *line)
{
	char	   *jobs = strstr(line, " jobs=");
	DecideOffer offers[WORLD_MAX_OFFERS];
	DecideRequestClass request = {0};
	DecideJob	job = {0};
	int64_t		n = 1;
	char	   *error;

	if (jobs != NULL)
	{
		if (!number_parse(jobs + 6, &n))
			return format("bad number of jobs");
		*jobs = '\0';
	}
	request.offers = offers;
	error = request_parse(world, line, &request, &job);
	if (error == NULL)
		world_workload(world, &request, n);
	return error;
}

/*
 * Parses the line: cache NAME NODE ..., which lists the nodes that hold the
 * cache.
 */
static char *
cache_line(World *world, char *line)
{
	char	   *name = strtok(line, " ");
	char	   *node;
	int			i;

	while ((node = strtok(NULL, " ")) != NULL)
	{
		for (i = 0; i < world->n_nodes; i++)
		{
			if (strcmp(world->nodes[i].name, node) == 0)
				break;
		}
		if (i == world->n_nodes)
			return format("no node \"%s\"", node);
		world_cached(world, 1 + label_number(name), i);
	}
	return NULL;
}

typedef bool (*WordFn) (World *world, char *name, char *word, char *value);

/*
 * Parses a line's words, the first of which is a name if named is true.
 */
static char *
words_parse(World *world, char *line, bool named, WordFn fn)
{
	char	   *name = named ? strtok(line, " ") : NULL;
	char	   *word = strtok(named ? NULL : line, " ");

	if (named && name == NULL)
		return format("a name is missing");
	for (; word != NULL; word = strtok(NULL, " "))
	{
		char	   *value = strchr(word, '=');

		if (value == NULL)
			return format("\"%s\" has no value", word);
		*value++ = '\0';
		if (!fn(world, name, word, value))
			return format("bad word \"%s\"", word);
	}
	return NULL;
}

/*
 * Parses a line if it is of one of these kinds.  *error is set to what is
 * wrong with the line.
 */
bool
settings_line(World *world, char *line, char **error)
{
	char	   *rest = strchr(line, ' ');
	int64_t		n;

	if (rest == NULL)
		return false;
	*rest++ = '\0';
	if (strcmp(line, "now") == 0)
	{
		if (number_parse(rest, &n))
			world->now = n;
		else
			*error = format("not a time: %s", rest);
	}
	else if (strcmp(line, "policy") == 0)
		*error = words_parse(world, rest, false, policy_word);
	else if (strcmp(line, "tier") == 0)
		*error = words_parse(world, rest, true, tier_word);
	else if (strcmp(line, "account") == 0)
		*error = words_parse(world, rest, true, account_word);
	else if (strcmp(line, "type") == 0)
		*error = words_parse(world, rest, true, type_word);
	else if (strcmp(line, "typical") == 0)
		*error = workload_line(world, rest);
	else if (strcmp(line, "cache") == 0)
		*error = cache_line(world, rest);
	else
	{
		rest[-1] = ' ';
		return false;
	}
	return true;
}
