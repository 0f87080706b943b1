/*
 * quotas.c
 *	  Quotas in test worlds.
 *
 * Their use follows running jobs: starts are counted, and jobs that left are
 * not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * Count devices of a type, or stop counting them.
 */
void
quotas_count(World *world, int account, int type, int64_t milli, int jobs)
{
	int			i;

	for (; account >= 0; account = world->accounts[account].parent)
	{
		for (i = 0; i < world->n_quotas; i++)
		{
			DecideQuota *quota = &world->quotas[i];

			if (quota->account != account ||
				(quota->type != DECIDE_ANY_TYPE && quota->type != type))
				continue;
			quota->used_milli += milli;
			quota->running += jobs;
		}
	}
}

/*
 * Add a quota, with what runs under it.
 */
DecideQuota *
world_quota(World *world, int account, int type)
{
	DecideQuota *quota;
	int			i;
	int			above;

	if (world->n_quotas == world->quotas_capacity)
	{
		world->quotas_capacity = world->quotas_capacity * 2 + 4;
		world->quotas = realloc(world->quotas, sizeof(DecideQuota) *
								(size_t) world->quotas_capacity);
	}
	quota = &world->quotas[world->n_quotas++];
	*quota = (DecideQuota)
	{
		account, type, -1, -1, 0, 0
	};
	for (i = 0; i < world->n_running; i++)
	{
		const DecideRunning *running = &world->running[i];

		above = running->account;
		while (above >= 0 && above != account)
			above = world->accounts[above].parent;
		if (above < 0 || running->over ||
			(type != DECIDE_ANY_TYPE && type != running->type))
			continue;
		quota->used_milli += (int64_t) running->gpus * running->share;
		quota->running++;
	}
	return quota;
}

/*
 * The same quotas in a world with other numbers of accounts and types
 * (new_type NULL: the same types), in another order (seed NULL: the same).
 */
void
quotas_copy(const World *world, uint64_t *seed, const int *new_type,
			World *other)
{
	uint64_t	same = 0;
	int		   *order = random_order(seed != NULL ? seed : &same,
									 world->n_quotas);
	int			i;

	for (i = 0; i < world->n_quotas; i++)
	{
		const DecideQuota *old = &world->quotas[seed != NULL ? order[i] : i];
		DecideQuota *quota = world_quota(other, world_account
										 (other,
										  world->accounts[old->account].name),
										 old->type < 0 || new_type == NULL ?
										 old->type : new_type[old->type]);

		quota->max_milli = old->max_milli;
		quota->max_running = old->max_running;
		quota->used_milli = old->used_milli;
		quota->running = old->running;
	}
	free(order);
}

/*
 * A few quotas, some of them full, some used elsewhere, too.
 */
void
random_quotas(World *world, uint64_t *seed)
{
	int			n = 1 + random_below(seed, 4);

	while (n-- > 0)
	{
		DecideQuota *quota = world_quota(world, random_below
										 (seed, world->n_accounts),
										 random_below(seed, 2) == 0 ?
										 DECIDE_ANY_TYPE :
										 random_below(seed, 2));

		if (random_below(seed, 5) == 0)
		{
			quota->used_milli += 1000 * random_below(seed, 3);
			quota->running += random_below(seed, 3);
		}
		if (random_below(seed, 4) > 0)
			quota->max_milli = 1000 * (quota->used_milli / 1000 +
									   random_below(seed, 8) - 1);
		if (quota->max_milli < 0 || random_below(seed, 3) == 0)
			quota->max_running = quota->running + random_below(seed, 5) - 1;
		if (quota->max_running < -1)
			quota->max_running = 0;
		if (quota->max_milli < -1)
			quota->max_milli = 0;
	}
}

/*
 * quota ACCOUNT [TYPE] gpus=4 running=2: what the lines before it run is in
 * use, and the devices of used= elsewhere.
 */
char *
quota_line(World *world, char *line)
{
	char	   *name = strtok(line, " ");
	char	   *word = strtok(NULL, " ");
	int			type = DECIDE_ANY_TYPE;
	DecideQuota *quota;

	if (name == NULL || word == NULL)
		return format("a quota needs an account and what it allows");
	if (strchr(word, '=') == NULL)
	{
		type = world_type(world, word);
		word = strtok(NULL, " ");
	}
	quota = world_quota(world, world_account(world, name), type);
	for (; word != NULL; word = strtok(NULL, " "))
	{
		if (strncmp(word, "gpus=", 5) == 0)
			quota->max_milli = atoll(word + 5) * DECIDE_WHOLE;
		else if (strncmp(word, "running=", 8) == 0)
			quota->max_running = atoll(word + 8);
		else if (strncmp(word, "used=", 5) == 0)
			quota->used_milli += atoll(word + 5) * DECIDE_WHOLE;
		else
			return format("bad word \"%s\" of a quota", word);
	}
	return NULL;
}

/*
 * expect held ORG/ID...: these jobs and no others.
 */
char *
expect_held(const World *world, const DecideResult *result, char *rest)
{
	int			n = 0;
	int			held = 0;
	char	   *word;
	int			i;

	for (word = strtok(rest, " "); word != NULL; word = strtok(NULL, " "))
	{
		i = job_find(world, word);
		if (i < 0 || result->held == NULL ||
			result->held[i] == DECIDE_NOT_HELD)
			return format("no quota holds back %s", word);
		n++;
	}
	for (i = 0; i < world->n_jobs && result->held != NULL; i++)
		held += result->held[i] != DECIDE_NOT_HELD;
	return held == n ? NULL : format("quotas hold back %d jobs", held);
}
