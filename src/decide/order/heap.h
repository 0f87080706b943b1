/*
 * heap.h
 *	  Heaps of numbers, in an order that the caller defines.
 */
#ifndef GPUCREDIT_DECIDE_HEAP_H
#define GPUCREDIT_DECIDE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct HeapKind
{
	bool		(*before) (void *context, int32_t a, int32_t b);
	void		(*moved) (void *context, int32_t item, int32_t at);
} HeapKind;

extern void DecideHeapBuild(const HeapKind *kind, void *context,
							int32_t *items, int32_t n);
extern void DecideHeapFix(const HeapKind *kind, void *context, int32_t *items,
						  int32_t n, int32_t at);
extern void DecideHeapRemove(const HeapKind *kind, void *context,
							 int32_t *items, int32_t n, int32_t at);

#endif							/* GPUCREDIT_DECIDE_HEAP_H */
