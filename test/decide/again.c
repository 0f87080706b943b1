/*
 * again.c
 *	  Decides a world again: in another order, or with little memory.
 *
 * The order of the input must change no decision.  If memory runs out, at
 * whatever point, the core must report this and decide nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define MOST_PIECES 2000

/*
 * Decides a world in another order.  Returns the difference, or NULL.
 */
char *
again_permuted(const World *world, const char *expected, uint64_t *seed)
{
	World		other;
	Pool		pool;
	DecideArena arena;
	DecideInput input;
	DecideResult result;
	int		   *request_order = malloc(sizeof(int) * (size_t) (world->n_requests + 1));
	const char *error;
	char	   *why = NULL;
	char	   *text;

	pool_init(&pool);
	arena = pool_arena(&pool);
	world_permute(world, seed, &other, request_order);
	input = world_input(&other);
	error = DecideRun(&input, &arena, &result);
	if (error != NULL)
		why = format("in another order: %s", error);
	else
	{
		text = world_render(&other, &result, request_order);
		if (strcmp(text, expected) != 0)
			why = format("in another order:\n%sinstead of:\n%s", text,
						 expected);
		free(text);
	}
	pool_free(&pool);
	world_free(&other);
	free(request_order);
	return why;
}

/*
 * Decides a world with memory that runs out after any number of allocations.
 */
char *
again_starved(const World *world, const char *expected)
{
	DecideInput input = world_input(world);
	long		pieces;

	for (pieces = 0; pieces < MOST_PIECES; pieces++)
	{
		DecideResult result;
		Pool		pool;
		DecideArena arena;
		const char *error;
		char	   *text;
		bool		same;

		pool_init(&pool);
		arena = pool_arena(&pool);
		pool.fail_after = pieces;
		error = DecideRun(&input, &arena, &result);
		if (error != NULL)
		{
			same = strcmp(error, "out of memory") == 0 &&
				result.n_starts == 0 && result.starts == NULL;
			pool_free(&pool);
			if (!same)
				return format("memory for %ld pieces: %s", pieces, error);
			continue;
		}
		text = world_render(world, &result, NULL);
		same = strcmp(text, expected) == 0;
		free(text);
		pool_free(&pool);
		return same ? NULL : format("another result with little memory");
	}
	return format("never enough memory");
}
