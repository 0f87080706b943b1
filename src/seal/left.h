/*-------------------------------------------------------------------------
 *
 * left.h
 *		Batches whose rows have left.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LEFT_H
#define GPUCREDIT_LEFT_H

#include "seal/seal.h"

/* Up to which batch rows of each kind have left; 0: none. */
typedef struct Left
{
	int64		to[SEAL_KINDS];
	int64		departures;		/* the last one's number */
} Left;

extern Left LeftRead(void);
extern bool LeftMore(const Left *left);
extern bool LeftAll(const Left *left, const Seal *seal);
extern bool LeftHas(const Left *left, SealKind kind, const Seal *seal);
extern void BatchLeaves(const Left *left, const Seal *seal,
						Leaves leaves[SEAL_KINDS]);
extern bool BatchIsSealed(const Seal *seal,
						  const Leaves leaves[SEAL_KINDS]);
extern void LeavesKeep(const Seal *seal, SealKind kind,
					   const Leaves *leaves);
extern void LeavesForget(int64 batch);

#endif							/* GPUCREDIT_LEFT_H */
