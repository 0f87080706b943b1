/*-------------------------------------------------------------------------
 *
 * archived_batch.c
 *		Batches without rows, and what remains of them.
 *
 * Rows go by whole batches, each kind (entries, audit rows) at its own time.
 * So a batch may have both kinds, one, or none.  While one kind stays, the
 * digests of the other's leaves stay (seal_leaf), so that the batch's root can
 * still be computed.  When both kinds are gone, only the seal stays: earlier
 * proofs end at it.
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
 * Were more rows removed since?  A reader with several snapshots then has to
 * read again.
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
 * Is only the seal left?
 */
bool
ArchivedAll(const ArchivedUpTo *left, const Seal *seal)
{
	return ArchivedHas(left, SEAL_ENTRY, seal) && ArchivedHas(left,
															  SEAL_AUDIT, seal);
}

/*
 * The leaves of a batch.  For a removed kind the kept digests, after any rows
 * that should not exist.
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

/*
 * Append the kept digests.
 */
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

/*
 * Do leaves have the sealed root?
 */
bool
BatchIsSealed(const Seal *seal, const Leaves leaves[SEAL_KINDS])
{
	Digest		root = MerkleRoot(leaves, SEAL_KINDS);

	return memcmp(&root, &seal->root, sizeof(Digest)) == 0 &&
		leaves[SEAL_ENTRY].n == seal->rows[SEAL_ENTRY] &&
		leaves[SEAL_AUDIT].n == seal->rows[SEAL_AUDIT];
}

/*
 * Keep the digests of one kind, whose rows go before the other's.
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

/*
 * Remove all that is left of a batch, except its seal.
 */
void
LeavesForget(int64 batch)
{
	(void) AppendOnlyDelete("seal_leaf", &leaves_forget,
							VALUES(Int8Value(batch)));
	(void) AppendOnlyDelete("seal_row", &traces_forget,
							VALUES(Int8Value(batch)));
}
