/*-------------------------------------------------------------------------
 *
 * row_digest.h
 *		Short digests of sealed rows, by which a changed row is found.
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
