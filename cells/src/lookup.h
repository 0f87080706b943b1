/*-------------------------------------------------------------------------
 *
 * lookup.h
 *		Reads one row of a table of gpucredit_cells by its primary key.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CELLS_LOOKUP_H
#define GPUCREDIT_CELLS_LOOKUP_H

#define LOOKUP_COLUMNS	8		/* most columns of a table that is read */
#define LOOKUP_KEYS		2

extern bool LookupRow(const char *table, int n_keys, const char *const *keys,
					  Datum *values);

#endif							/* GPUCREDIT_CELLS_LOOKUP_H */
