/*-------------------------------------------------------------------------
 *
 * directory.h
 *		Determines which cell a router calls.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CELLS_DIRECTORY_H
#define GPUCREDIT_CELLS_DIRECTORY_H

extern void HomeOf(NullableDatum org, NullableDatum *number,
				   NullableDatum *epoch);

#endif							/* GPUCREDIT_CELLS_DIRECTORY_H */
