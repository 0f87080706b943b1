/*-------------------------------------------------------------------------
 *
 * row_location.h
 *		Locations of rows that this transaction changes again and again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ROW_LOCATION_H
#define GPUCREDIT_ROW_LOCATION_H

#include "storage/itemptr.h"

extern bool PlacesAreKept(void);
extern uint64 PlaceKey(const char *const *names, int n, int64 number);
extern ItemPointer PlaceFind(uint64 key);
extern void PlaceNote(uint64 key, ItemPointer place);

#endif							/* GPUCREDIT_ROW_LOCATION_H */
