/*
 * memory.c
 *	  The arena of a cycle, and arrays that grow in it.
 *
 * Nothing is ever freed here: an array that doubles leaves its old halves
 * behind, at most as much again as it holds.
 */
#include <string.h>

#include "decide/core.h"

/*
 * Room for n items, or NULL.  Never requests for an empty piece.
 */
void *
DecideAlloc(const DecideArena *arena, int64_t n, size_t size)
{
	if (n < 0 || (uint64_t) n > (SIZE_MAX / 2) / size)
		return NULL;
	return arena->alloc(arena->context, n == 0 ? size : (size_t) n * size);
}

/*
 * Make room for one item beyond the n that are there: returns the array,
 * moved if it had to grow, or NULL.
 */
void *
DecideGrow(const DecideArena *arena, void *items, int32_t n, int32_t *capacity,
		   size_t size)
{
	void	   *grown;
	int32_t		wanted;

	if (n < *capacity)
		return items;
	if (n > INT32_MAX / 2)
		return NULL;
	wanted = n < 32 ? 64 : n * 2;
	grown = DecideAlloc(arena, wanted, size);
	if (grown == NULL)
		return NULL;
	if (n > 0)
		memcpy(grown, items, (size_t) n * size);
	*capacity = wanted;
	return grown;
}

/*
 * Give the caller a chance to be interrupted.
 */
void
DecidePoll(const DecideArena *arena)
{
	if (arena->poll != NULL)
		arena->poll(arena->context);
}
