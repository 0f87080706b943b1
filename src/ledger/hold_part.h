/*-------------------------------------------------------------------------
 *
 * hold_part.h
 *		The parts of a hold. Only files of the ledger include this header.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_HOLD_PART_H
#define GPUCREDIT_HOLD_PART_H

#include "ledger/post.h"

/* A part of a hold, with the state of its bucket. */
typedef struct HoldPart
{
	int32		part;
	int64		bucket;
	int32		slice;			/* the slice to which the part returns, or 0
								 * for the bucket's row */
	Credits		held;
	TimestampTz expires_at;
	bool		closed;
} HoldPart;

/*
 * Defined in hold.c. HoldFrom() reads a column that contains a whole row of
 * the table.
 */
extern Returned HoldPartsDivide(Hold *hold, const Cause *cause,
								HoldPart *parts,
								int n, Credits capture, Credits amount,
								TimestampTz at, Posting *posting);
extern void HoldFrom(SqlResult rows, uint64 i, int column, Hold *hold);
extern void HoldUpdate(const Hold *hold);

#endif							/* GPUCREDIT_HOLD_PART_H */
