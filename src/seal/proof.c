/*-------------------------------------------------------------------------
 *
 * proof.c
 *		audit_proof(): the proof that one entry, or audit row, was sealed.
 *
 * From the result, the seal can be computed from the row's text with SHA-256
 * alone (docs/seals.md).  If seals are published, the proof holds without
 * trust in anybody who runs the database.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "util/args.h"
#include "util/compat.h"
#include "util/errors.h"
#include "funcapi.h"
#include "seal/archived_batch.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(gpucredit_audit_proof);

static int	index_of(const Leaves *leaves, int64 id);
static Datum digests_datum(const Digest *digests, int n);
static pg_attribute_noreturn() void refuse(const char *kind, int64 id,
										   bool there);
static pg_attribute_noreturn() void refuse_removed(const char *kind, int64 id,
												   int64 batch);

Datum
gpucredit_audit_proof(PG_FUNCTION_ARGS)
{
	int64		id = ArgInt8(fcinfo, 0, "entry", 1, PG_INT64_MAX);
	SealKind	kind = (SealKind) ArgWord(ArgText(fcinfo, 1, "kind"), "kind",
										  SealKindNames, SEAL_KINDS);
	Leaves		leaves[SEAL_KINDS];
	Digest		path[MERKLE_DEPTH];
	ArchivedUpTo left;
	Seal		seal = {0};
	char	   *leaf;
	bool		sealed;
	int			index;
	int			length;

	SqlConnect();
	do
	{
		left = ArchivedRead();
		leaf = LeafText(kind, id);
		sealed = SealOfRow(kind, id, &seal);
		if (leaf != NULL && sealed)
			BatchLeaves(&left, &seal, leaves);
	} while (ArchivedMore(&left));
	if (leaf == NULL && sealed && ArchivedHas(&left, kind, &seal))
		refuse_removed(SealKindNames[kind], id, seal.batch);
	if (leaf == NULL || !sealed)
		refuse(SealKindNames[kind], id, leaf != NULL);
	index = index_of(&leaves[kind], id);
	if (kind == SEAL_AUDIT)
		index += leaves[SEAL_ENTRY].n;
	length = MerklePath(leaves, SEAL_KINDS, index, path);

	return SqlFinishRow(RowReturn(fcinfo,
								  VALUES(Int8Value(seal.batch),
										 TextValue(leaf), Int4Value(index),
										 Int4Value(leaves[SEAL_ENTRY].n + leaves[SEAL_AUDIT].n),
										 DatumValue(digests_datum(path,
																  length)),
										 TextValue(SealHeader(&seal)),
										 DatumValue(DigestDatum(&seal.previous)),
										 DatumValue(DigestDatum(&seal.root)),
										 DatumValue(DigestDatum(&seal.seal)))));
}

static int
index_of(const Leaves *leaves, int64 id)
{
	int			index = 0;

	while (index < leaves->n && leaves->ids[index] != id)
		index++;
	Ensure(index < leaves->n, "A sealed row is missing from its batch.");
	return index;
}

static Datum
digests_datum(const Digest *digests, int n)
{
	Datum		elems[MERKLE_DEPTH];

	for (int i = 0; i < n; i++)
		elems[i] = DigestDatum(&digests[i]);
	return PointerGetDatum(construct_array(elems, n, BYTEAOID, -1, false,
										   TYPALIGN_INT));
}

/* Raises the error that says why there is no proof for a row. */
static void
refuse(const char *kind, int64 id, bool there)
{
	if (there)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s " INT64_FORMAT " is not sealed yet", kind, id),
				 errdetail("Its batch has not been made."),
				 errhint("Call gpucredit.seal_audit(), or wait until upkeep "
						 "calls it.")));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s " INT64_FORMAT " does not exist", kind, id),
			 errdetail("No row has that number."),
			 errhint("gpucredit.statement() and table gpucredit.audit show "
					 "the numbers.")));
}

static void
refuse_removed(const char *kind, int64 id, int64 batch)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s " INT64_FORMAT " was removed", kind, id),
			 errdetail("The rows of batch " INT64_FORMAT " were removed.",
					   batch),
			 errhint("Use a proof made earlier: it still ends at the seal of "
					 "its batch in view gpucredit.seals.")));
}
