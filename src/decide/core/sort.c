/*
 * sort.c
 *	  Stable bottom-up merge sorts whose only memory is the arena's.
 *
 * DecideSort first checks whether the input is sorted already, which it
 * usually is because of the ORDER BY of the query that loads it.
 */
#include <string.h>

#include "decide/core/core.h"

/*
 * Merges the sorted ranges [first, middle) and [middle, last) of from.
 */
static void
merge_items(const int32_t *from, int32_t *to, int32_t first, int32_t middle,
			int32_t last, DecideCompareFn compare, const void *context)
{
	int32_t		a = first;
	int32_t		b = middle;
	int32_t		i;

	for (i = first; i < last; i++)
	{
		if (b >= last ||
			(a < middle && compare(context, from[a], from[b]) <= 0))
			to[i] = from[a++];
		else
			to[i] = from[b++];
	}
}

/*
 * Sorts items by compare.  Returns false if memory runs out.
 */
bool
DecideSort(const DecideArena *arena, int32_t *items, int32_t n,
		   DecideCompareFn compare, const void *context)
{
	int32_t    *spare;
	int32_t    *from = items;
	int64_t		width;
	int32_t		i;

	DecideAssert(n >= 0);
	DecideAssert(items != NULL || n == 0);
	DecideAssert(compare != NULL);
	for (i = 1; i < n; i++)
	{
		if (compare(context, items[i - 1], items[i]) > 0)
			break;
	}
	if (i >= n)
		return true;

	spare = DecideAlloc(arena, n, sizeof(int32_t));
	if (spare == NULL)
		return false;
	for (width = 1; width < n; width *= 2)
	{
		int32_t    *to = (from == items) ? spare : items;
		int64_t		at;

		DecidePoll(arena);
		for (at = 0; at < n; at += 2 * width)
		{
			int64_t		middle = at + width < n ? at + width : n;
			int64_t		last = at + 2 * width < n ? at + 2 * width : n;

			merge_items(from, to, (int32_t) at, (int32_t) middle,
						(int32_t) last, compare, context);
		}
		from = to;
	}
	if (from != items)
		memcpy(items, from, (size_t) n * sizeof(int32_t));
	return true;
}

/*
 * Merges two sorted ranges of keys.
 */
static void
merge_keys(const uint64_t *from, uint64_t *to, int32_t first, int32_t middle,
		   int32_t last)
{
	int32_t		a = first;
	int32_t		b = middle;
	int32_t		i;

	for (i = first; i < last; i++)
	{
		if (b >= last || (a < middle && from[a] <= from[b]))
			to[i] = from[a++];
		else
			to[i] = from[b++];
	}
}

/*
 * Sorts keys in ascending order; spare must have room for as many keys.
 */
void
DecideSortKeys(uint64_t *keys, uint64_t *spare, int32_t n)
{
	uint64_t   *from = keys;
	int64_t		width;

	DecideAssert(n >= 0);
	DecideAssert(keys != spare);
	for (width = 1; width < n; width *= 2)
	{
		uint64_t   *to = (from == keys) ? spare : keys;
		int64_t		at;

		for (at = 0; at < n; at += 2 * width)
		{
			int64_t		middle = at + width < n ? at + width : n;
			int64_t		last = at + 2 * width < n ? at + 2 * width : n;

			merge_keys(from, to, (int32_t) at, (int32_t) middle,
					   (int32_t) last);
		}
		from = to;
	}
	if (from != keys)
		memcpy(keys, from, (size_t) n * sizeof(uint64_t));
}
