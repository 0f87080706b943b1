/*-------------------------------------------------------------------------
 *
 * changed_buckets.c
 *		Buckets whose rows this transaction has changed.
 *
 * A transaction that opens a hundred thousand holds leaves as many versions of
 * a bucket's row.  None of them may be removed before it ends, and an index
 * leads to all of them: each look for the bucket would go through those that
 * the holds before have left.  So once a transaction has changed buckets often,
 * it keeps in mind where their last versions are, and finds them there.
 *
 * Such a row is locked by its transaction until that ends.  A place need not be
 * right: after a rollback to a savepoint, or a change that was not noted, its
 * version is not visible, or is another bucket's.  Whoever goes by it asks for
 * the bucket as well, and finding none looks by the key.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/compat.h"
#include "util/errors.h"
#include "util/sql.h"
#include "ledger/changed_buckets.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#define OWN_AFTER	16			/* changes by a transaction */

#define ADD(column, n) \
	#column " = b." #column " OPERATOR(gpucredit.+) $" #n
#define BUCKET_ADD_TYPES \
	"text, bigint, gpucredit.credits, gpucredit.credits," \
	" gpucredit.credits, gpucredit.credits, gpucredit.credits," \
	" gpucredit.credits, gpucredit.credits, numeric"
#define BUCKET_ADD \
	"UPDATE gpucredit.bucket b SET " ADD(issued, 3) ", " \
	ADD(available, 4) ", " ADD(held, 5) ", " ADD(spent, 6) ", " \
	ADD(expired, 7) ", " ADD(revoked, 8) ", " ADD(moved, 9) "," \
	" credited_total = b.credited_total OPERATOR(pg_catalog.+) $10" \
	" WHERE b.org = $1 AND b.bucket = $2"
SQL_STATEMENT(bucket_add, SPI_OK_UPDATE, BUCKET_ADD_TYPES, BUCKET_ADD);
/* the same, and where the row is then; and one that is where it was said */
SQL_STATEMENT(bucket_add_told, SPI_OK_UPDATE_RETURNING, BUCKET_ADD_TYPES,
			  BUCKET_ADD " RETURNING b.ctid");
SQL_STATEMENT(bucket_add_own, SPI_OK_UPDATE_RETURNING,
			  BUCKET_ADD_TYPES ", tid",
			  BUCKET_ADD " AND b.ctid = $11 RETURNING b.ctid");
#undef ADD

static OwnBucket own[OWN_MOST];
static int	n_own = 0;
static int	oldest = 0;
static int	changes = 0;
static LocalTransactionId own_in = InvalidLocalTransactionId;

static void begin(void);
static bool is_worthwhile(void);
static OwnBucket *find(const char *org, int64 bucket);
static void note(const char *org, int64 bucket, ItemPointer place);
static int	compare(const void *a, const void *b);

/*
 * Add to what a locked bucket has of each compartment.  args: organisation,
 * bucket, what is added to each, and what came in by that.
 */
void
BucketAdd(const char *org, int64 bucket, SqlArgs *args)
{
	const OwnBucket *known;
	SqlResult	row = {0};
	bool		isnull;

	if (!is_worthwhile())
	{
		Ensure(SqlRun(&bucket_add, args).n == 1, "A bucket is missing.");
		return;
	}
	known = find(org, bucket);
	if (known != NULL)
	{
		ItemPointerData place = known->place;

		SqlArg(args, PointerGetDatum(&place));
		row = SqlRun(&bucket_add_own, args);
		args->n--;
	}
	if (row.n == 0)
		row = SqlRun(&bucket_add_told, args);
	Ensure(row.n == 1, "A bucket is missing.");
	note(org, bucket, (ItemPointer)
		 DatumGetPointer(SqlDatum(row, 0, 1, &isnull)));
	SqlFree(&row);
}

/*
 * Nothing is kept past the transaction.
 */
static void
begin(void)
{
	if (own_in == MyLocalTransactionId)
		return;
	own_in = MyLocalTransactionId;
	n_own = oldest = changes = 0;
}

/*
 * A bucket is about to be changed: has this transaction done so that often?
 */
static bool
is_worthwhile(void)
{
	begin();
	if (changes == OWN_AFTER)
		return true;
	changes++;
	return false;
}

/*
 * A bucket that is kept in mind, or NULL.
 */
static OwnBucket *
find(const char *org, int64 bucket)
{
	begin();
	for (int i = 0; i < n_own; i++)
	{
		if (own[i].bucket == bucket && strcmp(own[i].org, org) == 0)
			return &own[i];
	}
	return NULL;
}

/*
 * Its row is there now.
 */
static void
note(const char *org, int64 bucket, ItemPointer place)
{
	OwnBucket  *kept = find(org, bucket);

	if (kept == NULL)
	{
		kept = &own[n_own < OWN_MOST ? n_own++ : oldest++ % OWN_MOST];
		kept->org = MemoryContextStrdup(TopTransactionContext, org);
		kept->bucket = bucket;
	}
	kept->place = *place;
}

/*
 * One was not where it was said to be.
 */
void
OwnForget(void)
{
	n_own = 0;
}

/*
 * Those of an organisation, by number, into a list with room for OWN_MOST.
 */
int
OwnList(const char *org, OwnBucket *list)
{
	int			n = 0;

	begin();
	for (int i = 0; i < n_own; i++)
	{
		if (strcmp(own[i].org, org) == 0)
			list[n++] = own[i];
	}
	qsort(list, n, sizeof(OwnBucket), compare);
	return n;
}

static int
compare(const void *a, const void *b)
{
	int64		x = ((const OwnBucket *) a)->bucket;
	int64		y = ((const OwnBucket *) b)->bucket;

	return (x > y) - (x < y);
}
