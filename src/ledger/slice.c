/*-------------------------------------------------------------------------
 *
 * slice.c
 *		Locking the slices of buckets.
 *
 * Locks: as slice.h says.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/sql.h"
#include "ledger/slice.h"

#define SLICES_READ \
	"SELECT pg_catalog.count(*)," \
	" COALESCE(gpucredit.sum(s.available), '0')" \
	" FROM (SELECT s.available FROM gpucredit.bucket_slice s" \
	"  WHERE s.org = $1 AND s.bucket = $2 ORDER BY s.slice" \
	"  FOR NO KEY UPDATE"
SQL_STATEMENT(slices_lock, SPI_OK_SELECT, "text, bigint", SLICES_READ ") s");
SQL_STATEMENT(slices_lock_free, SPI_OK_SELECT, "text, bigint",
			  SLICES_READ " SKIP LOCKED) s");
#define SLICE_READ \
	"SELECT s.slice FROM gpucredit.bucket_slice s" \
	" WHERE s.org = $1 AND s.bucket = $2 AND s.slice = $3" \
	" FOR NO KEY UPDATE"
SQL_STATEMENT(slice_lock, SPI_OK_SELECT, "text, bigint, int", SLICE_READ);
SQL_STATEMENT(slice_lock_free, SPI_OK_SELECT, "text, bigint, int",
			  SLICE_READ " SKIP LOCKED");
#define BUCKET_READ \
	"SELECT b.closed_at IS NOT NULL FROM gpucredit.bucket b" \
	" WHERE b.org = $1 AND b.bucket = $2 FOR NO KEY UPDATE"
SQL_STATEMENT(bucket_lock, SPI_OK_SELECT, "text, bigint", BUCKET_READ);
SQL_STATEMENT(bucket_lock_free, SPI_OK_SELECT, "text, bigint",
			  BUCKET_READ " SKIP LOCKED");

/*
 * Locks all slices of a bucket whose row is locked.  Returns false if the
 * bucket has no slices or, with wait = false, if another transaction has
 * locked one of them.
 */
bool
SlicesLock(const char *org, int64 bucket, int32 spread, bool wait,
		   Credits *available)
{
	SqlResult	row;
	int64		n;

	*available = 0;
	if (spread == 0)
		return false;
	row = SqlRun(wait ? &slices_lock : &slices_lock_free,
				 VALUES(TextValue(org), Int8Value(bucket)));
	n = SqlInt8(row, 0, 1);
	*available = SqlCredits(row, 0, 2);
	SqlFree(&row);
	Ensure(n == spread || !wait, "A slice is missing.");
	return n == spread;
}

/*
 * Locks the row to which a hold returns credit, and returns the number of its
 * slice, or 0 for the bucket's row if the bucket has no slices now. A bucket
 * with slices is not closed. Returns -1 if wait is false and another
 * transaction has locked the row.
 */
int32
SliceLockForReturn(const char *org, int64 bucket, int64 hold, int32 spread,
				   bool wait, bool *closed)
{
	int32		slice = SliceOf(hold, spread);
	SqlResult	row;
	Values	   *args = VALUES(TextValue(org), Int8Value(bucket));

	*closed = false;
	if (slice > 0)
	{
		ValuesAdd(args, Int4Value(slice));
		if (SqlRun(wait ? &slice_lock : &slice_lock_free, args).n == 1)
			return slice;
		if (!wait)
			return -1;
		args->n--;
	}
	row = SqlRun(wait ? &bucket_lock : &bucket_lock_free, args);
	if (row.n == 0)
		return -1;
	*closed = SqlBool(row, 0, 1);
	SqlFree(&row);
	return 0;
}
