/*-------------------------------------------------------------------------
 *
 * row_location.h
 *		Locations of rows that this transaction changes again and again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_PLACES_H
#define GPUCREDIT_PLACES_H

#include "storage/itemptr.h"

extern bool PlacesAreKept(void);
extern uint64 PlaceKey(const char *const *names, int n, int64 number);
extern ItemPointer PlaceFind(uint64 key);
extern void PlaceNote(uint64 key, ItemPointer place);

#endif							/* GPUCREDIT_PLACES_H */
