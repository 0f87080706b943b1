/*
 * memory.c
 *	  The arena of a cycle, arrays that grow in it, and sorting.
 *
 * Nothing is freed here: an array that doubles leaves its old halves behind,
 * together at most its own size.
 */
#include <string.h>

#include "decide/core/core.h"

/*
 * Room for n items, or NULL.  alloc is never called for 0 bytes.
 */
void *
DecideAlloc(const DecideArena *arena, int64_t n, size_t size)
{
	DecideAssert(arena != NULL && arena->alloc != NULL);
	DecideAssert(size > 0);
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

	DecideAssert(n >= 0 && n <= *capacity);
	DecideAssert(size > 0);
	DecideAssert(items != NULL || n == 0);
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
