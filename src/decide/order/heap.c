/*
 * heap.c
 *	  Heaps of numbers, in an order that the caller defines.
 *
 * The first item comes before all others.  moved() informs the caller of each
 * item's new position, so that the caller can later find an item that changes
 * or must be removed.
 */

#include "decide/order/heap.h"

/*
 * Puts an item at a position and reports the position to the caller.
 */
static void
put(const HeapKind *kind, void *context, int32_t *items, int32_t at,
	int32_t item)
{
	items[at] = item;
	kind->moved(context, item, at);
}

/*
 * Moves an item down until no item below it comes before it.
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
 * Restores the order of a heap after the item at a position has changed.
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
 * Makes a heap of n items, which may be in any order.
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
 * Removes the item at a position of a heap of n items.
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
