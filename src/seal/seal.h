/*-------------------------------------------------------------------------
 *
 * seal.h
 *		Batches of entries and audit rows, chained by their digests.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SEAL_H
#define GPUCREDIT_SEAL_H

#include "util/digest.h"
#include "util/sql.h"

/*
 * The two append-only tables that are sealed, in the order they have in a
 * batch.
 */
typedef enum SealKind
{
	SEAL_ENTRY = 0,
	SEAL_AUDIT
} SealKind;

#define SEAL_KINDS	2

#define SEAL_BATCH_ROWS		8192	/* most rows of each kind in a batch */

/* the names of the tables */
extern const char *const SealKindNames[SEAL_KINDS];

typedef struct Digest
{
	uint8		bytes[DIGEST_SIZE];
} Digest;

/* The ids of a batch's rows, and the digests of their leaves, in order. */
typedef struct Leaves
{
	int			n;
	int			size;
	int64	   *ids;
	Digest	   *digests;
} Leaves;

/*
 * One seal of the chain.  For each kind, its batch has the rows with ids above
 * `from` and at most `to`.
 */
typedef struct Seal
{
	int64		batch;
	int64		from[SEAL_KINDS];
	int64		to[SEAL_KINDS];
	int64		rows[SEAL_KINDS];
	TimestampTz sealed_at;
	Digest		previous;
	Digest		root;
	Digest		seal;
} Seal;

/* Defined in horizon.c: the ids up to which all transactions have ended. */
typedef struct Horizon
{
	int64		to[SEAL_KINDS];
} Horizon;

extern bool HorizonDecided(Horizon *horizon);

/* Defined in leaf.c. */
extern int64 LeavesRead(SealKind kind, int64 from, int64 to, int64 most,
						Leaves *leaves);
extern char *LeafText(SealKind kind, int64 id);
extern void PutInstant(StringInfo out, TimestampTz instant);

/* Defined in merkle.c. */
extern Digest MerkleRoot(const Leaves *leaves, int n_lists);
extern int	MerklePath(const Leaves *leaves, int n_lists, int index,
					   Digest *path);

#define MERKLE_DEPTH	32

/* Defined in chain.c. */
extern char *SealHeader(const Seal *seal);
extern Digest SealDigest(const Seal *seal);
extern Datum DigestDatum(const Digest *digest);
extern Seal SealNone(void);
extern bool SealLast(Seal *seal);
extern SqlResult SealsAll(void);
extern SqlResult SealsBefore(int64 after, TimestampTz before, int64 most);
extern Seal SealFrom(SqlResult rows, uint64 i);
extern bool SealOfRow(SealKind kind, int64 id, Seal *seal);

#endif							/* GPUCREDIT_SEAL_H */
