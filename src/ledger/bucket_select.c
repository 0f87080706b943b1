/*-------------------------------------------------------------------------
 *
 * bucket_select.c
 *		Which bucket comes first, as an unlocked look says.
 *
 * Nearly every account has a few buckets, and setting up what chooses and
 * sorts them as a query (MAY_PAY, BURN_ORDER) costs more than to go through
 * them here.  Both are said again in C, so: a bucket that may pay by one may
 * pay by the other, and comes first by both.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "util/sql.h"
#include "ledger/bucket_select.h"
#include "ledger/changed_buckets.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/timestamp.h"

/* The columns of bucket_look. */
enum
{
	BUCKET, AVAILABLE, EXPIRES_AT, EFFECTIVE_AT, PRIORITY, KIND, ACCOUNT,
	GPU_TYPES, TIERS, POOLS, MAX_PER_JOB, MAX_SHARE, SLICES, SPREAD,
	CREDITED_TOTAL,
	OWN, PAYS
};

#define LOOK \
	"SELECT b.bucket, b.available, b.expires_at, b.effective_at," \
	" b.priority, b.kind, b.account, b.gpu_types, b.tiers, b.pools," \
	" b.max_per_job, b.max_share, b.slices, b.spread, b.credited_total"
SQL_STATEMENT(bucket_look, SPI_OK_SELECT, "text, text[]",
			  LOOK " FROM gpucredit.bucket b WHERE b.org = $1"
			  " AND b.account = ANY ($2) AND b.closed_at IS NULL");
/* those between this transaction's own, and these by their places */
SQL_STATEMENT(bucket_look_own, SPI_OK_SELECT,
			  "text, text[], bigint[], bigint[], tid[]",
			  LOOK ", false, true FROM " PATH_LEVELS(2)
			  " CROSS JOIN ROWS FROM (pg_catalog.unnest($3),"
			  "  pg_catalog.unnest($4)) AS u (low, high)"
			  " CROSS JOIN LATERAL (SELECT b.* FROM gpucredit.bucket b"
			  "  WHERE b.org = $1 AND b.account = p.account"
			  "  AND b.bucket > u.low AND b.bucket < u.high"
			  "  AND b.closed_at IS NULL OFFSET 0) b"
			  " UNION ALL "
			  LOOK ", true, b.account = ANY ($2) AND b.closed_at IS NULL"
			  " FROM (SELECT b.* FROM gpucredit.bucket b"
			  "  WHERE b.ctid = ANY ($5) OFFSET 0) b WHERE b.org = $1");

/* The draw, and the first bucket so far. */
typedef struct selection
{
	const Purpose *purpose;
	TimestampTz at;
	bool		found;
	SelectedBucket first;
	int			n_own;
	OwnBucket	own[OWN_MOST];
	int			seen_own;		/* so many are where they are said to be */
}			selection;

static bool see_own(void *context, const Datum *values, const bool *nulls);
static bool see(void *context, const Datum *values, const bool *nulls);
static bool may_pay(const selection * selection, const Datum *values,
					const bool *nulls);
static bool allows(Datum array, const char *const *names, int n);
static int	kind_rank(Datum kind);
static int	compare(const SelectedBucket *one, const SelectedBucket *other);

/*
 * The first bucket that may pay, and has something.  False: there is none.
 */
bool
BucketSelect(const AccountPath *path, const Purpose *purpose, TimestampTz at,
			 SelectedBucket *first)
{
	selection	selection = {.purpose = purpose, .at = at};
	SqlArgs		args = {0};

	SqlArgText(&args, path->org);
	SqlArgTextArray(&args, path->accounts, path->n);
	SqlEach(&bucket_look, &args, false, see, &selection);
	*first = selection.first;
	return selection.found;
}

/*
 * The same, where this transaction has changed buckets of the organisation, of
 * which it knows the places.  False: it has not, or they are elsewhere.
 */
bool
BucketSelectChanged(const AccountPath *path, const Purpose *purpose,
					TimestampTz at, SelectedBucket *first)
{
	selection	selection = {.purpose = purpose, .at = at};
	int			n = selection.n_own = OwnList(path->org, selection.own);
	int64		ends[OWN_MOST + 2];
	Datum		places[OWN_MOST];
	SqlArgs		args = {0};

	if (n == 0)
		return false;
	ends[0] = PG_INT64_MIN;
	for (int i = 0; i < n; i++)
	{
		ends[i + 1] = selection.own[i].bucket;
		places[i] = PointerGetDatum(&selection.own[i].place);
	}
	ends[n + 1] = PG_INT64_MAX;
	SqlArgText(&args, path->org);
	SqlArgTextArray(&args, path->accounts, path->n);
	SqlArgInt8Array(&args, ends, n + 1);
	SqlArgInt8Array(&args, ends + 1, n + 1);
	SqlArgArray(&args, places, NULL, n, TIDOID);
	SqlEach(&bucket_look_own, &args, false, see_own, &selection);
	if (selection.seen_own < n)
	{
		OwnForget();
		return false;
	}
	*first = selection.first;
	return selection.found;
}

/*
 * A bucket: is it one of those that are there?
 */
static bool
see_own(void *context, const Datum *values, const bool *nulls)
{
	selection  *selection = context;

	if (DatumGetBool(values[OWN]))
	{
		int64		bucket = DatumGetInt64(values[BUCKET]);
		int			i = 0;

		while (i < selection->n_own && selection->own[i].bucket != bucket)
			i++;
		if (i == selection->n_own)
			return true;
		selection->seen_own++;
	}
	return !DatumGetBool(values[PAYS]) || see(context, values, nulls);
}

/*
 * A bucket: does it come before those seen so far?
 */
static bool
see(void *context, const Datum *values, const bool *nulls)
{
	selection  *selection = context;
	SelectedBucket bucket = {
		.bucket = DatumGetInt64(values[BUCKET]),
		.available = DatumGetCredits(values[AVAILABLE]),
		.expires_at = nulls[EXPIRES_AT] ? DT_NOEND :
		DatumGetTimestampTz(values[EXPIRES_AT]),
		.effective_at = DatumGetTimestampTz(values[EFFECTIVE_AT]),
		.priority = DatumGetInt32(values[PRIORITY])
	};
	int32		spread = DatumGetInt32(values[SPREAD]);

	if (bucket.effective_at > selection->at ||
		bucket.expires_at <= selection->at ||
		(bucket.available <= 0 && spread == 0) ||
		!may_pay(selection, values, nulls))
		return true;
	bucket.kind_rank = kind_rank(values[KIND]);
	bucket.depth = VARSIZE_ANY_EXHDR(DatumGetPointer(values[ACCOUNT]));
	bucket.plain = nulls[MAX_PER_JOB] && nulls[MAX_SHARE] && spread == 0 &&
		DatumGetInt32(values[SLICES]) == 1;
	if (!selection->found || compare(&bucket, &selection->first) < 0)
	{
		selection->first = bucket;
		selection->first.own = selection->n_own > 0 &&
			DatumGetBool(values[OWN]);
		selection->first.credited_total = datumCopy(values[CREDITED_TOTAL],
													false, -1);
	}
	selection->found = true;
	return true;
}

/*
 * MAY_PAY, of a bucket's policy.
 */
static bool
may_pay(const selection * selection, const Datum *values, const bool *nulls)
{
	const Purpose *purpose = selection->purpose;

	if (purpose->any)
		return true;
	if (purpose->job == 0)
		return nulls[GPU_TYPES] && nulls[TIERS] && nulls[POOLS];
	return (nulls[GPU_TYPES] ||
			allows(values[GPU_TYPES], purpose->gpu_types, purpose->ntypes)) &&
		(nulls[TIERS] || allows(values[TIERS], &purpose->tier, 1)) &&
		(nulls[POOLS] || allows(values[POOLS], &purpose->pool, 1));
}

/*
 * Does an array have all of some names?
 */
static bool
allows(Datum array, const char *const *names, int n)
{
	Datum	   *elems;
	bool	   *nulls;
	int			nelems;
	int			found = 0;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false,
					  TYPALIGN_INT, &elems, &nulls, &nelems);
	for (int i = 0; i < n; i++)
	{
		for (int j = 0; j < nelems && found == i; j++)
		{
			if (!nulls[j] && strcmp(TextDatumGetCString(elems[j]),
									names[i]) == 0)
				found++;
		}
	}
	return found == n;
}

/*
 * BURN_ORDER.  Accounts of one path are as long as they are deep.
 */
static int
kind_rank(Datum kind)
{
	char	   *word = TextDatumGetCString(kind);

	return strcmp(word, "promo") == 0 ? 1 : strcmp(word, "grant") == 0 ? 2 : 3;
}

static int
compare(const SelectedBucket *one, const SelectedBucket *other)
{
	if (one->priority != other->priority)
		return one->priority < other->priority ? -1 : 1;
	if (one->expires_at != other->expires_at)
		return one->expires_at < other->expires_at ? -1 : 1;
	if (one->kind_rank != other->kind_rank)
		return one->kind_rank - other->kind_rank;
	if (one->depth != other->depth)
		return one->depth > other->depth ? -1 : 1;
	if (one->effective_at != other->effective_at)
		return one->effective_at < other->effective_at ? -1 : 1;
	return one->bucket < other->bucket ? -1 : 1;
}
