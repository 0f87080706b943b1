/*
 * memory.c
 *	  Memory from a cycle's arena, and arrays that grow in it.
 *
 * Nothing is freed here: an array that doubles leaves its old copies in the
 * arena, which together are at most as large as the array.
 */
#include <string.h>

#include "decide/core/core.h"

/*
 * Returns memory for n items, or NULL.  alloc is never called for 0 bytes.
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
 * Makes room for one item behind the n items of an array.  Returns the array,
 * which has moved if it had to grow, or NULL if memory runs out.
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
