/*-------------------------------------------------------------------------
 *
 * row_digest.h
 *		What is kept of each sealed row, to name it should it change.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ROW_DIGEST_H
#define GPUCREDIT_ROW_DIGEST_H

#include "seal/seal.h"

typedef enum TraceProblem
{
	TRACE_NONE = 0,				/* the rows are those that were sealed */
	TRACE_CHANGED,
	TRACE_VANISHED,
	TRACE_INSERTED
} TraceProblem;

extern Datum TracesPack(const Leaves *leaves);
extern TraceProblem TracesCompare(Datum traces, const Leaves *leaves,
								  int64 *id);

#endif							/* GPUCREDIT_ROW_DIGEST_H */
