/*-------------------------------------------------------------------------
 *
 * append_only.h
 *		The only way to remove rows of an append-only table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_APPEND_ONLY_H
#define GPUCREDIT_APPEND_ONLY_H

#include "util/sql.h"

extern uint64 AppendOnlyDelete(const char *table, SqlStatement *statement,
							   Values *args);

#endif							/* GPUCREDIT_APPEND_ONLY_H */
