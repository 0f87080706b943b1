/*-------------------------------------------------------------------------
 *
 * archived_batch.c
 *		Batches whose rows were removed, and what is kept of them.
 *
 * The rows of a batch are removed together, but each kind (entries, audit
 * rows) at its own time.  So a batch may have rows of both kinds, of one, or
 * none. While rows of one kind exist, the digests of the other kind's leaves
 * are kept in seal_leaf, so that the batch's root can still be computed.  When
 * both kinds are removed, only the seal is kept, and earlier proofs end at it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/append_only.h"
#include "seal/archived_batch.h"
#include "utils/builtins.h"

SQL_STATEMENT(left_read, SPI_OK_SELECT, "",
			  "SELECT coalesce(max(d.batch_to) FILTER"
			  " (WHERE d.kind = 'entry'), 0),"
			  " coalesce(max(d.batch_to) FILTER (WHERE d.kind = 'audit'), 0),"
			  " coalesce(max(d.archive_batch), 0) FROM gpucredit.archive_batch d");
SQL_STATEMENT(leaves_read, SPI_OK_SELECT, "bigint, text",
			  "SELECT l.digests FROM gpucredit.seal_leaf l"
			  " WHERE l.batch = $1 AND l.kind = $2");
SQL_STATEMENT(leaves_keep, SPI_OK_INSERT, "bigint, text, bytea",
			  "INSERT INTO gpucredit.seal_leaf (batch, kind, digests)"
			  " VALUES ($1, $2, $3)");
SQL_STATEMENT(leaves_forget, SPI_OK_DELETE, "bigint",
			  "DELETE FROM gpucredit.seal_leaf l WHERE l.batch = $1");
SQL_STATEMENT(traces_forget, SPI_OK_DELETE, "bigint",
			  "DELETE FROM gpucredit.seal_row r WHERE r.batch = $1");

static void add_kept(const Seal *seal, SealKind kind, Leaves *leaves);

ArchivedUpTo
ArchivedRead(void)
{
	SqlResult	row = SqlRun(&left_read, NULL);
	ArchivedUpTo left = {0};

	for (int k = 0; k < SEAL_KINDS; k++)
		left.to[k] = SqlInt8(row, 0, k + 1);
	left.archive_batch = SqlInt8(row, 0, SEAL_KINDS + 1);
	return left;
}

/*
 * Whether more rows were removed since `left` was read.  A reader that uses
 * several snapshots must then read again.
 */
bool
ArchivedMore(const ArchivedUpTo *left)
{
	return ArchivedRead().archive_batch != left->archive_batch;
}

bool
ArchivedHas(const ArchivedUpTo *left, SealKind kind, const Seal *seal)
{
	return seal->batch <= left->to[kind];
}

/*
 * Whether the rows of both kinds are removed, so that only the seal is kept.
 */
bool
ArchivedAll(const ArchivedUpTo *left, const Seal *seal)
{
	return ArchivedHas(left, SEAL_ENTRY, seal) && ArchivedHas(left,
															  SEAL_AUDIT, seal);
}

/*
 * Reads the leaves of a batch.  For a kind that was removed these are the kept
 * digests; rows that should not exist any more come before them.
 */
void
BatchLeaves(const ArchivedUpTo *left, const Seal *seal,
			Leaves leaves[SEAL_KINDS])
{
	for (int k = 0; k < SEAL_KINDS; k++)
	{
		(void) LeavesRead((SealKind) k, seal->from[k], seal->to[k],
						  PG_INT32_MAX, &leaves[k]);
		if (ArchivedHas(left, (SealKind) k, seal) && !ArchivedAll(left, seal))
			add_kept(seal, (SealKind) k, &leaves[k]);
	}
}

/* Appends the kept digests to the leaves. */
static void
add_kept(const Seal *seal, SealKind kind, Leaves *leaves)
{
	bool		isnull;
	bytea	   *kept;
	int			n;
	SqlResult	row = SqlRun(&leaves_read,
							 VALUES(Int8Value(seal->batch),
									TextValue(SealKindNames[kind])));

	if (row.n == 0)
		return;
	kept = DatumGetByteaPP(SqlDatum(row, 0, 1, &isnull));
	n = (int) (VARSIZE_ANY_EXHDR(kept) / DIGEST_SIZE);
	leaves->ids = repalloc(leaves->ids,
						   sizeof(int64) * (leaves->n + n + 1));
	leaves->digests = repalloc(leaves->digests,
							   sizeof(Digest) * (leaves->n + n + 1));
	memset(leaves->ids + leaves->n, 0, sizeof(int64) * n);
	memcpy(leaves->digests + leaves->n, VARDATA_ANY(kept),
		   sizeof(Digest) * n);
	leaves->n += n;
	SqlFree(&row);
}

/* Whether the leaves give the sealed root and are as many as were sealed. */
bool
BatchIsSealed(const Seal *seal, const Leaves leaves[SEAL_KINDS])
{
	Digest		root = MerkleRoot(leaves, SEAL_KINDS);

	return memcmp(&root, &seal->root, sizeof(Digest)) == 0 &&
		leaves[SEAL_ENTRY].n == seal->rows[SEAL_ENTRY] &&
		leaves[SEAL_AUDIT].n == seal->rows[SEAL_AUDIT];
}

/*
 * Keeps the digests of one kind, whose rows are removed before the other
 * kind's.
 */
void
LeavesKeep(const Seal *seal, SealKind kind, const Leaves *leaves)
{
	Size		size = (Size) leaves->n * sizeof(Digest);
	bytea	   *value = palloc(VARHDRSZ + size);

	SET_VARSIZE(value, VARHDRSZ + size);
	memcpy(VARDATA(value), leaves->digests, size);
	(void) SqlRun(&leaves_keep,
				  VALUES(Int8Value(seal->batch),
						 TextValue(SealKindNames[kind]),
						 DatumValue(PointerGetDatum(value))));
	pfree(value);
}

/* Removes everything kept of a batch, except its seal. */
void
LeavesForget(int64 batch)
{
	(void) AppendOnlyDelete("seal_leaf", &leaves_forget,
							VALUES(Int8Value(batch)));
	(void) AppendOnlyDelete("seal_row", &traces_forget,
							VALUES(Int8Value(batch)));
}
