/*-------------------------------------------------------------------------
 *
 * row_digest.h
 *		Digests of sealed rows, which name a row that changes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ROW_DIGEST_H
#define GPUCREDIT_ROW_DIGEST_H

#include "seal/seal.h"

typedef enum TraceProblem
{
	TRACE_NONE = 0,				/* the rows are the sealed ones */
	TRACE_CHANGED,
	TRACE_VANISHED,
	TRACE_INSERTED
} TraceProblem;

extern Datum TracesPack(const Leaves *leaves);
extern TraceProblem TracesCompare(Datum traces, const Leaves *leaves,
								  int64 *id);

#endif							/* GPUCREDIT_ROW_DIGEST_H */
