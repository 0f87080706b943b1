/*
 * heap.c
 *	  Heaps of numbers, whose order the caller knows.
 *
 * The first item is before all others.  Each item is told where it stands, so
 * that one whose order changed, or that goes, is found.
 */
#include "decide/core.h"

/*
 * Put an item somewhere, and tell it.
 */
static void
put(const HeapKind *kind, void *context, int32_t *items, int32_t at,
	int32_t item)
{
	items[at] = item;
	kind->moved(context, item, at);
}

/*
 * Let an item sink from a place to where none below is before it.
 */
static void
sink(const HeapKind *kind, void *context, int32_t *items, int32_t n,
	 int32_t at, int32_t item)
{
	for (;;)
	{
		int64_t		child = 2 * (int64_t) at + 1;

		if (child >= n)
			break;
		if (child + 1 < n &&
			kind->before(context, items[child + 1], items[child]))
			child++;
		if (!kind->before(context, items[child], item))
			break;
		put(kind, context, items, at, items[child]);
		at = (int32_t) child;
	}
	put(kind, context, items, at, item);
}

/*
 * Give the item at a place its place again, after its order changed.
 */
void
DecideHeapFix(const HeapKind *kind, void *context, int32_t *items, int32_t n,
			  int32_t at)
{
	int32_t		item = items[at];

	while (at > 0 && kind->before(context, item, items[(at - 1) / 2]))
	{
		put(kind, context, items, at, items[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	sink(kind, context, items, n, at, item);
}

/*
 * Make a heap of n items in any order.
 */
void
DecideHeapBuild(const HeapKind *kind, void *context, int32_t *items,
				int32_t n)
{
	int32_t		at;

	for (at = 0; at < n; at++)
		kind->moved(context, items[at], at);
	for (at = n / 2 - 1; at >= 0; at--)
		sink(kind, context, items, n, at, items[at]);
}

/*
 * Take out the item at a place of a heap of n.
 */
void
DecideHeapRemove(const HeapKind *kind, void *context, int32_t *items,
				 int32_t n, int32_t at)
{
	kind->moved(context, items[at], -1);
	if (at == n - 1)
		return;
	put(kind, context, items, at, items[n - 1]);
	DecideHeapFix(kind, context, items, n - 1, at);
}
