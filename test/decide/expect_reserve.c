/*
 * expect_reserve.c
 *	  Compares reservations with what a scenario expects.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * Returns the reservation of a job, or NULL.
 */
static const DecideReservation *
reservation_find(const DecideResult *result, int job)
{
	int			i;

	for (i = 0; i < result->n_reservations; i++)
	{
		if (result->reservations[i].job == job)
			return &result->reservations[i];
	}
	return NULL;
}

/*
 * The time at which a reservation is expected to begin.
 */
static int64_t
likely_begin(const World *world, const DecideResult *result,
			 const DecideReservation *reservation)
{
	DecideInput input = world_input(world);
	Pool		pool;
	DecideArena arena;
	int64_t    *at;
	int64_t		begin = -1;

	pool_init(&pool);
	arena = pool_arena(&pool);
	if (DecideExpectedStarts(&input, result, &arena, &at) == NULL)
		begin = at[reservation - result->reservations];
	pool_free(&pool);
	return begin;
}

/*
 * Checks "reserve JOB [at=TIME] [limit=TIME] [likely=TIME] [latest=TIME]
 * WORD...", with words as for a start.
 */
char *
expect_reserve(const World *world, const DecideResult *result, char *rest)
{
	char	   *name = strtok(rest, " ");
	int			job = name != NULL ? job_find(world, name) : -1;
	const DecideReservation *r;
	DecideStart start;
	int			n_named = 0;
	char	   *word;

	if (job < 0)
		return format("no job %s", name ? name : "");
	r = reservation_find(result, job);
	if (r == NULL)
		return format("nothing is reserved for %s", name);
	start = (DecideStart)
	{
		job, r->type, r->gpus, world->requests[world->jobs[job].request].share,
			r->first_part, r->n_parts, 0, false
	};
	while ((word = strtok(NULL, " ")) != NULL)
	{
		char	   *value = strchr(word, '=');
		bool		limit = strncmp(word, "limit=", 6) == 0;
		int64_t		time;
		char	   *error;

		if (strncmp(word, "likely=", 7) == 0)
		{
			int64_t		begin = likely_begin(world, result, r);

			if (!time_parse(value + 1, &time))
				return format("bad time \"%s\"", word);
			if (time != begin)
				return format("%s is likely at %" PRId64, name, begin);
			continue;
		}
		if (strncmp(word, "latest=", 7) == 0)
		{
			if (!time_parse(value + 1, &time))
				return format("bad time \"%s\"", word);
			if (time != r->latest)
				return format("%s is guaranteed to start by %" PRId64, name,
							  r->latest);
			continue;
		}
		if (limit || strncmp(word, "at=", 3) == 0)
		{
			if (!time_parse(value + 1, &time))
				return format("bad time \"%s\"", word);
			if (time != (limit ? r->limit_at : r->at))
				return format("%s at %" PRId64 ", by limit at %" PRId64, name,
							  r->at, r->limit_at);
			continue;
		}
		error = start_word(world, result->reserved_parts, &start, word,
						   &n_named);
		if (error != NULL)
		{
			char	   *full = format("%s: %s", name, error);

			free(error);
			return full;
		}
	}
	if (n_named > 0 && n_named != r->n_parts)
		return format("%s is on other nodes too", name);
	return NULL;
}

/*
 * Checks "likely JOB TIME|never ...": when each job is expected to start, with
 * a reservation or without.
 */
char *
expect_likely(const World *world, const DecideResult *result, char *rest)
{
	DecideInput input = world_input(world);
	Pool		pool;
	DecideArena arena;
	int64_t    *reserved_at;
	int64_t    *at = NULL;
	char	   *why = NULL;
	char	   *name;

	pool_init(&pool);
	arena = pool_arena(&pool);
	if (DecideExpectedStarts(&input, result, &arena, &reserved_at) != NULL ||
		DecideExpectedQueue(&input, result, &arena, reserved_at, &at) != NULL)
		why = format("expected starts could not be computed");
	for (name = strtok(rest, " "); name != NULL && why == NULL;
		 name = strtok(NULL, " "))
	{
		char	   *word = strtok(NULL, " ");
		int			job = job_find(world, name);
		int64_t		time = DECIDE_NEVER;

		if (job < 0 || word == NULL ||
			(strcmp(word, "never") != 0 && !time_parse(word, &time)))
			why = format("a job and a time are missing");
		else if (at[job] != time)
			why = format("%s is expected at %" PRId64, name, at[job]);
	}
	pool_free(&pool);
	return why;
}

/*
 * Checks "unreserved JOB": the job does not start, and nothing is reserved for
 * it.
 */
char *
expect_unreserved(const World *world, const DecideResult *result, char *rest)
{
	int			job = job_find(world, rest);
	int			i;

	if (job < 0)
		return format("no job %s", rest);
	for (i = 0; i < result->n_starts; i++)
	{
		if (result->starts[i].job == job)
			return format("%s started", rest);
	}
	return reservation_find(result, job) == NULL ? NULL :
		format("something is reserved for %s", rest);
}
