/*-------------------------------------------------------------------------
 *
 * chain.c
 *		The chain of seals: reading it, and the content of a seal.
 *
 * A seal is the SHA-256 of the seal before it, the root of its batch's tree,
 * and its header.  So whoever has the last seal can detect a change of any
 * before it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/compat.h"
#include "datatype/timestamp.h"
#include "seal/seal.h"
#include "util/lock_class.h"

PG_FUNCTION_INFO_V1(gpucredit_lock_chain);

#define SEAL_COLUMNS \
	"s.batch, s.entry_from, s.entry_to, s.entries, s.audit_from, s.audit_to," \
	" s.audits, s.sealed_at, s.previous, s.root, s.seal"

SQL_STATEMENT(seal_last, SPI_OK_SELECT, "",
			  "SELECT " SEAL_COLUMNS " FROM gpucredit.seal s"
			  " ORDER BY s.batch DESC LIMIT 1");
SQL_STATEMENT(seals_all, SPI_OK_SELECT, "",
			  "SELECT " SEAL_COLUMNS " FROM gpucredit.seal s"
			  " ORDER BY s.batch");
SQL_STATEMENT(seals_before, SPI_OK_SELECT, "bigint, timestamptz, bigint",
			  "SELECT " SEAL_COLUMNS " FROM gpucredit.seal s"
			  " WHERE s.batch > $1 AND s.batch <= $1 + $3"
			  " AND s.sealed_at < $2 ORDER BY s.batch");
SQL_STATEMENT(seal_of_entry, SPI_OK_SELECT, "bigint",
			  "SELECT " SEAL_COLUMNS " FROM gpucredit.seal s"
			  " WHERE s.entry_from < $1 AND s.entry_to >= $1");
SQL_STATEMENT(seal_of_audit, SPI_OK_SELECT, "bigint",
			  "SELECT " SEAL_COLUMNS " FROM gpucredit.seal s"
			  " WHERE s.audit_from < $1 AND s.audit_to >= $1");

static Digest digest_column(SqlResult rows, uint64 i, int column);

/*
 * lock_chain(): acquires the lock on the chain until the end of the
 * transaction. Returns false if another call has it.  This is not a lock on a
 * table, because VACUUM and ANALYZE take table locks that would conflict with
 * it and so stop sealing while they run.
 */
Datum
gpucredit_lock_chain(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(LockClassTry(LOCK_CHAIN, 0));
}

/*
 * Returns a seal's header: its number, its ranges of ids and numbers of rows,
 * and its instant in microseconds since 1970.
 */
char *
SealHeader(const Seal *seal)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, INT64_FORMAT, seal->batch);
	for (int k = 0; k < SEAL_KINDS; k++)
		appendStringInfo(&text, " " INT64_FORMAT " " INT64_FORMAT " "
						 INT64_FORMAT, seal->from[k], seal->to[k],
						 seal->rows[k]);
	appendStringInfoChar(&text, ' ');
	PutInstant(&text, seal->sealed_at);
	return text.data;
}

/* Computes the digest that is the seal. */
Digest
SealDigest(const Seal *seal)
{
	StringInfoData data;
	Digest		digest = {{0}};
	char	   *header = SealHeader(seal);

	initStringInfo(&data);
	appendBinaryStringInfo(&data, (const char *) seal->previous.bytes,
						   DIGEST_SIZE);
	appendBinaryStringInfo(&data, (const char *) seal->root.bytes,
						   DIGEST_SIZE);
	appendStringInfoString(&data, header);
	DigestOf(&data, digest.bytes);
	pfree(data.data);
	pfree(header);
	return digest;
}

/*
 * Reads the last seal.  If there is none, returns false, and *seal is the
 * start of the chain.  The first batch begins at the lowest possible id, so
 * that no row can be added below it.
 */
bool
SealLast(Seal *seal)
{
	SqlResult	rows = SqlRun(&seal_last, NULL);

	if (rows.n == 0)
	{
		*seal = SealNone();
		return false;
	}
	*seal = SealFrom(rows, 0);
	return true;
}

/* Returns the whole chain, from its first seal. */
SqlResult
SealsAll(void)
{
	return SqlRun(&seals_all, NULL);
}

/*
 * Returns at most so many seals that follow a batch and are older than an
 * instant.
 */
SqlResult
SealsBefore(int64 after, TimestampTz before, int64 most)
{
	return SqlRun(&seals_before,
				  VALUES(Int8Value(after), TimeValue(before),
						 Int8Value(most)));
}

/* Returns the seal that the first real one follows. */
Seal
SealNone(void)
{
	Seal		none = {0};

	for (int k = 0; k < SEAL_KINDS; k++)
		none.from[k] = none.to[k] = PG_INT64_MIN;
	return none;
}

Seal
SealFrom(SqlResult rows, uint64 i)
{
	Seal		seal;
	int			column = 1;

	seal.batch = SqlInt8(rows, i, column++);
	for (int k = 0; k < SEAL_KINDS; k++)
	{
		seal.from[k] = SqlInt8(rows, i, column++);
		seal.to[k] = SqlInt8(rows, i, column++);
		seal.rows[k] = SqlInt8(rows, i, column++);
	}
	seal.sealed_at = SqlTime(rows, i, column++);
	seal.previous = digest_column(rows, i, column++);
	seal.root = digest_column(rows, i, column++);
	seal.seal = digest_column(rows, i, column++);
	return seal;
}

/*
 * Reads the seal whose batch has the row of this id.  Returns false if the row
 * is not sealed yet.
 */
bool
SealOfRow(SealKind kind, int64 id, Seal *seal)
{
	SqlResult	rows;

	rows = SqlRun(kind == SEAL_ENTRY ? &seal_of_entry : &seal_of_audit,
				  VALUES(Int8Value(id)));
	if (rows.n == 0)
		return false;
	*seal = SealFrom(rows, 0);
	return true;
}

/*
 * Returns a stored digest.  A malformed one is returned as a digest that no
 * text has, so that verify_audit() reports its place instead of failing.
 */
static Digest
digest_column(SqlResult rows, uint64 i, int column)
{
	bool		isnull;
	Datum		value = SqlDatum(rows, i, column, &isnull);
	bytea	   *bytes = isnull ? NULL : DatumGetByteaPP(value);
	Digest		digest;

	if (bytes != NULL && VARSIZE_ANY_EXHDR(bytes) == DIGEST_SIZE)
		memcpy(digest.bytes, VARDATA_ANY(bytes), DIGEST_SIZE);
	else
		memset(digest.bytes, 0xff, DIGEST_SIZE);
	return digest;
}

/* Returns a digest as bytea. */
Datum
DigestDatum(const Digest *digest)
{
	bytea	   *value = palloc(VARHDRSZ + DIGEST_SIZE);

	SET_VARSIZE(value, VARHDRSZ + DIGEST_SIZE);
	memcpy(VARDATA(value), digest->bytes, DIGEST_SIZE);
	return PointerGetDatum(value);
}
