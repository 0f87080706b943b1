/*-------------------------------------------------------------------------
 *
 * row_digest.c
 *		Short digests of sealed rows, by which a changed row is found.
 *
 * For each row, in order, they have its id and the first 8 bytes of its leaf's
 * digest, most significant byte first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bswap.h"
#include "seal/row_digest.h"

#define PART	8				/* bytes of an id, and of a short digest */

static int64 trace_id(const char *trace);

Datum
TracesPack(const Leaves *leaves)
{
	Size		size = VARHDRSZ + (Size) leaves->n * 2 * PART;
	bytea	   *value = palloc(size);
	char	   *at = VARDATA(value);

	SET_VARSIZE(value, size);
	for (int i = 0; i < leaves->n; i++)
	{
		uint64		id = pg_hton64((uint64) leaves->ids[i]);

		memcpy(at, &id, PART);
		memcpy(at + PART, leaves->digests[i].bytes, PART);
		at += 2 * PART;
	}
	return PointerGetDatum(value);
}

/*
 * Compares the sealed rows with the present ones, and returns how the first
 * row that differs does, with its id.  For removed rows the leaves have only
 * digests, and 0 for each id.
 */
TraceProblem
TracesCompare(Datum traces, const Leaves *leaves, int64 *id)
{
	bytea	   *value = DatumGetByteaPP(traces);
	const char *at = VARDATA_ANY(value);
	int			sealed = (int) (VARSIZE_ANY_EXHDR(value) / (2 * PART));
	bool		numbered = leaves->n > 0 && leaves->ids[0] != 0;

	for (int i = 0; i < sealed; i++, at += 2 * PART)
	{
		*id = trace_id(at);
		if (i >= leaves->n || (numbered && leaves->ids[i] > *id))
			return TRACE_VANISHED;
		if (numbered && leaves->ids[i] < *id)
		{
			*id = leaves->ids[i];
			return TRACE_INSERTED;
		}
		if (memcmp(leaves->digests[i].bytes, at + PART, PART) != 0)
			return TRACE_CHANGED;
	}
	if (leaves->n > sealed)
	{
		*id = numbered ? leaves->ids[sealed] : 0;
		return TRACE_INSERTED;
	}
	return TRACE_NONE;
}

static int64
trace_id(const char *trace)
{
	uint64		id;

	memcpy(&id, trace, PART);
	return (int64) pg_ntoh64(id);
}
