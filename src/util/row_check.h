/*-------------------------------------------------------------------------
 *
 * row_check.h
 *		Checks of the values in rows of the busiest tables (row_check.c),
 *		for the trigger on those tables (row_check_trigger.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ROW_CHECK_H
#define GPUCREDIT_ROW_CHECK_H

#include "fmgr.h"

extern Datum gpucredit_bucket_is_sound(PG_FUNCTION_ARGS);
extern Datum gpucredit_parts_are_sound(PG_FUNCTION_ARGS);
extern Datum gpucredit_hold_is_sound(PG_FUNCTION_ARGS);
extern Datum gpucredit_entry_is_sound(PG_FUNCTION_ARGS);
extern Datum gpucredit_counts_are_sound(PG_FUNCTION_ARGS);

#endif							/* GPUCREDIT_ROW_CHECK_H */
