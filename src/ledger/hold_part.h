/*-------------------------------------------------------------------------
 *
 * hold_part.h
 *		The parts of a hold: inside the ledger only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_PARTS_H
#define GPUCREDIT_PARTS_H

#include "ledger/post.h"

/* A part of a hold, with the state of its bucket. */
typedef struct HoldPart
{
	int32		part;
	int64		bucket;
	int32		slice;			/* it goes back to; 0: the bucket's row */
	Credits		held;
	TimestampTz expires_at;
	bool		closed;
} HoldPart;

extern int	HoldPartsLock(const Hold *hold, bool wait, HoldPart **parts);
extern Returned HoldPartsGiveBack(Hold *hold, const Cause *cause,
								  HoldPart *parts,
								  int n, Credits capture, Credits amount,
								  TimestampTz at);
extern Returned HoldPartsDivide(Hold *hold, const Cause *cause,
								HoldPart *parts,
								int n, Credits capture, Credits amount,
								TimestampTz at, Posting *posting);

/* hold.c: a Hold, from a column with a whole row of the table */
extern void HoldFrom(SqlResult rows, uint64 i, int column, Hold *hold);
extern void HoldUpdate(const Hold *hold);

#endif							/* GPUCREDIT_PARTS_H */
