/*-------------------------------------------------------------------------
 *
 * archived_batch.h
 *		Batches whose rows were removed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_ARCHIVED_BATCH_H
#define GPUCREDIT_ARCHIVED_BATCH_H

#include "seal/seal.h"

/*
 * The last batch whose rows were removed, for each kind; 0 if there is none.
 */
typedef struct ArchivedUpTo
{
	int64		to[SEAL_KINDS];
	int64		archive_batch;	/* number of the last row of archived_batch */
} ArchivedUpTo;

extern ArchivedUpTo ArchivedRead(void);
extern bool ArchivedMore(const ArchivedUpTo *left);
extern bool ArchivedAll(const ArchivedUpTo *left, const Seal *seal);
extern bool ArchivedHas(const ArchivedUpTo *left, SealKind kind,
						const Seal *seal);
extern void BatchLeaves(const ArchivedUpTo *left, const Seal *seal,
						Leaves leaves[SEAL_KINDS]);
extern bool BatchIsSealed(const Seal *seal,
						  const Leaves leaves[SEAL_KINDS]);
extern void LeavesKeep(const Seal *seal, SealKind kind,
					   const Leaves *leaves);
extern void LeavesForget(int64 batch);

#endif							/* GPUCREDIT_ARCHIVED_BATCH_H */
