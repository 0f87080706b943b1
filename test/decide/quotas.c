/*
 * quotas.c
 *	  Quotas in test worlds.
 *
 * The use of quotas follows running jobs: starts are added, and jobs that have
 * left are subtracted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * The sum of two numbers, or the largest number if it would overflow.
 */
static int64_t
sum_capped(int64_t a, int64_t b)
{
	int64_t		sum;

	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/*
 * Adds what jobs with devices of a type use to quotas, or with sign -1
 * subtracts it.
 */
void
quotas_count(World *world, int account, int type, DecideUse use, int sign)
{
	int			i;
	int			l;

	for (; account >= 0; account = world->accounts[account].parent)
	{
		for (i = 0; i < world->n_quotas; i++)
		{
			DecideQuota *quota = &world->quotas[i];

			if (quota->account != account ||
				(quota->type != DECIDE_ANY_TYPE && quota->type != type))
				continue;
			for (l = 0; l < DECIDE_LIMITED; l++)
				quota->used.of[l] = sum_capped(quota->used.of[l],
											   sign * use.of[l]);
		}
	}
}

/*
 * What a running job uses.
 */
DecideUse
running_use(const World *world, const DecideRunning *running)
{
	DecideUse	use = {.of[DECIDE_LIMITED_JOBS] = 1};
	int			i;

	use.of[DECIDE_LIMITED_DEVICES] = (int64_t) running->gpus *
		(running->counted > 0 ? running->counted : running->share);
	if (running->stays)
		use.of[DECIDE_LIMITED_STAYING] = use.of[DECIDE_LIMITED_DEVICES];
	for (i = running->first_part; i < running->first_part + running->n_parts;
		 i++)
	{
		use.of[DECIDE_LIMITED_CPU] = sum_capped(use.of[DECIDE_LIMITED_CPU],
												world->parts[i].cpu_milli);
		use.of[DECIDE_LIMITED_MEMORY] =
			sum_capped(use.of[DECIDE_LIMITED_MEMORY],
					   world->parts[i].memory_mib);
	}
	return use;
}

/*
 * Adds a quota, including what runs under it.
 */
DecideQuota *
world_quota(World *world, int account, int type)
{
	DecideQuota *quota;
	int			i;
	int			l;
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
		.account = account, .type = type,.most =
		{
			{
				-1, -1, -1, -1, -1
			}
		}
	};
	for (i = 0; i < world->n_running; i++)
	{
		const DecideRunning *running = &world->running[i];
		DecideUse	use = running_use(world, running);

		above = running->account;
		while (above >= 0 && above != account)
			above = world->accounts[above].parent;
		if (above < 0 || running->over ||
			(type != DECIDE_ANY_TYPE && type != running->type))
			continue;
		for (l = 0; l < DECIDE_LIMITED; l++)
			quota->used.of[l] = sum_capped(quota->used.of[l], use.of[l]);
	}
	return quota;
}

/*
 * Copies the quotas to a world with other numbers of accounts and types (the
 * same types if new_type is NULL), in another order (the same order if seed is
 * NULL).
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

		quota->most = old->most;
		quota->used = old->used;
	}
	free(order);
}

/*
 * Adds a few quotas, some of them full, some also used elsewhere.
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

		int64_t    *used = quota->used.of;
		int64_t    *most = quota->most.of;
		int			l;

		if (random_below(seed, 5) == 0)
		{
			used[DECIDE_LIMITED_DEVICES] += 1000 * random_below(seed, 3);
			used[DECIDE_LIMITED_JOBS] += random_below(seed, 3);
			used[DECIDE_LIMITED_CPU] += random_below(seed, 50);
		}
		if (random_below(seed, 4) > 0)
			most[DECIDE_LIMITED_DEVICES] = 1000 *
				(used[DECIDE_LIMITED_DEVICES] / 1000 +
				 random_below(seed, 8) - 1);
		if (most[DECIDE_LIMITED_DEVICES] < 0 || random_below(seed, 3) == 0)
			most[DECIDE_LIMITED_JOBS] = used[DECIDE_LIMITED_JOBS] +
				random_below(seed, 5) - 1;
		if (random_below(seed, 3) == 0)
			most[DECIDE_LIMITED_STAYING] = 1000 *
				(used[DECIDE_LIMITED_STAYING] / 1000 +
				 random_below(seed, 6) - 1);
		if (random_below(seed, 4) == 0)
			most[DECIDE_LIMITED_CPU] = used[DECIDE_LIMITED_CPU] +
				random_below(seed, 200);
		if (random_below(seed, 4) == 0)
			most[DECIDE_LIMITED_MEMORY] = used[DECIDE_LIMITED_MEMORY] +
				random_below(seed, 200);
		for (l = 0; l < DECIDE_LIMITED; l++)
		{
			if (most[l] < -1)
				most[l] = 0;
		}
	}
}

/*
 * Halve all limits.
 */
void
quotas_halve(World *world)
{
	int			i;
	int			l;

	for (i = 0; i < world->n_quotas; i++)
	{
		for (l = 0; l < DECIDE_LIMITED; l++)
		{
			if (world->quotas[i].most.of[l] > 0)
				world->quotas[i].most.of[l] /= 2;
		}
	}
}

/*
 * Parses the line: quota ACCOUNT [TYPE] gpus=4 running=2 cpu=8000
 * memory=65536 staying=2, the last for devices of jobs that are not evicted.
 * What the lines before it run is in use, and in addition the devices of
 * used=.
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
			quota->most.of[DECIDE_LIMITED_DEVICES] = atoll(word + 5) *
				DECIDE_WHOLE;
		else if (strncmp(word, "staying=", 8) == 0)
			quota->most.of[DECIDE_LIMITED_STAYING] = atoll(word + 8) *
				DECIDE_WHOLE;
		else if (strncmp(word, "running=", 8) == 0)
			quota->most.of[DECIDE_LIMITED_JOBS] = atoll(word + 8);
		else if (strncmp(word, "cpu=", 4) == 0)
			quota->most.of[DECIDE_LIMITED_CPU] = atoll(word + 4);
		else if (strncmp(word, "memory=", 7) == 0)
			quota->most.of[DECIDE_LIMITED_MEMORY] = atoll(word + 7);
		else if (strncmp(word, "used=", 5) == 0)
			quota->used.of[DECIDE_LIMITED_DEVICES] += atoll(word + 5) *
				DECIDE_WHOLE;
		else
			return format("bad word \"%s\" of a quota", word);
	}
	return NULL;
}

/*
 * Checks "expect held ORG/ID...": quotas hold back these jobs and no others.
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
