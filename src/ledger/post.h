/*-------------------------------------------------------------------------
 *
 * post.h
 *		The one writer of money, for use inside the ledger only.
 *
 * The files post.c, post_returns.c and post_bucket.c write entries, buckets,
 * their slices and the parts of holds. Nothing else does, but for archive(),
 * which removes old entries that are sealed, and rebuild(), which writes sums
 * as the entries have them. tools/lint holds this.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_POST_H
#define GPUCREDIT_POST_H

#include "util/sql.h"
#include "ledger/ledger.h"
#include "limits/budget.h"
#include "storage/itemptr.h"
#include "utils/jsonb.h"

typedef enum Compartment
{
	ISSUED, AVAILABLE, HELD, SPENT, EXPIRED, REVOKED, MOVED
} Compartment;

#define COMPARTMENTS	7

/* An amount of a bucket, from one compartment to another. */
typedef struct Move
{
	int64		bucket;
	int32		part;			/* of the hold; 0: no hold's */
	Compartment source;
	Compartment target;
	Credits		amount;
	int32		slice;			/* the slice that changes; 0: the bucket's row */
} Move;

typedef struct Posting
{
	const char *org;
	const char *account;		/* on whose behalf */
	const Cause *cause;
	int64		hold;			/* 0: none */
	TimestampTz at;
	Trace		trace;			/* the hold's trace; none: the session's */
	int			n;
	const Move *moves;
	bool		taken;			/* LedgerDebit() changes the bucket */
} Posting;

/* What a new bucket is for; NULL where its policy does not limit it. */
typedef struct NewBucket
{
	const char *org;
	const char *account;
	const char *kind;
	int32		priority;
	TimestampTz effective_at;
	TimestampTz expires_at;		/* infinite: never */
	NullableDatum gpu_types;
	NullableDatum tiers;
	NullableDatum pools;
	NullableDatum max_per_job;
	NullableDatum max_share;
	Jsonb	   *policy;
	const char *memo;
	TimestampTz created_at;
} NewBucket;

/* What came of an attempt to take an amount without waiting. */
typedef enum TakeStatus
{
	TAKE_DONE,
	TAKE_BUSY,					/* nothing is locked */
	TAKE_SHORT					/* the locked rows have too little by now */
} TakeStatus;

#define OWN_MOST	16			/* the most buckets noted */

/* A bucket's row, as this transaction has written it last. */
typedef struct OwnBucket
{
	int64		bucket;
	ItemPointerData place;
} OwnBucket;

/* post.c */
extern void LedgerPost(const Posting *posting);
extern const char *LedgerCompartment(Compartment compartment);
extern void LedgerOpen(const Hold *hold, const Posting *posting,
					   const BudgetSet *budgets);
extern bool LedgerDebit(const char *org, int64 bucket, Credits amount,
						Datum credited_total);
extern TakeStatus LedgerDebitSlice(const char *org, int64 bucket, int32 spread,
								   int32 *slice, Credits amount);
extern void LedgerClose(const char *org, int64 bucket, TimestampTz at);
extern SqlResult LedgerSweep(Datum places, uint64 n, TimestampTz at);
extern void LedgerSetSlices(const char *org, int64 bucket, int32 n);
extern void LedgerFold(const char *org, int64 bucket);
extern void LedgerSpread(const char *org, int64 bucket, int32 n,
						 Credits share, bool anew);
extern void SpendAdd(const Hold *hold, Credits spent, TimestampTz at);
extern void OwnForget(void);
extern int	OwnList(const char *org, OwnBucket *list);

/* post_returns.c */
extern void LedgerPostReturns(const Posting *postings, int n);

/* post_bucket.c */
extern int64 LedgerCreateBucket(const NewBucket *bucket);
extern int64 LedgerCreateBucketLike(const char *org, int64 bucket,
									const char *account, TimestampTz at);

/* What a locked bucket gives to a draw. */
typedef struct HoldDrawPart
{
	int64		bucket;
	int32		slice;			/* only this slice is locked; 0: all of it */
	Credits		amount;
	Credits		whole;			/* available in all of it */
	int32		slices;			/* how many it may be spread over */
	int32		spread;			/* how many it is spread over */
	TimestampTz expires_at;
	Datum		credited_total; /* numeric, as LedgerFindOneBucket() saw it */
} HoldDrawPart;

/* What to draw and for whom; LedgerDraw() fills in from where. */
typedef struct HoldDraw
{
	const AccountPath *path;
	const Purpose *purpose;
	const Hold *hold;			/* being extended, or NULL */
	Credits		amount;
	bool		wait;
	TimestampTz at;				/* the instant it is good for */
	int			nparts;
	int			maxparts;
	HoldDrawPart *parts;
} HoldDraw;

/* hold_draw.c */
extern void LedgerQueue(const char *org, int64 bucket);
extern LedgerStatus LedgerDraw(HoldDraw *draw);
extern bool LedgerFindOneBucket(HoldDraw *draw);
extern void DrawCheckUnexpired(const HoldDraw *draw);
extern Credits LedgerPlan(HoldDraw *draw, const int64 *dead, int ndead);
extern bool LedgerPlanSlice(HoldDraw *draw, int64 hold);
extern TakeStatus LedgerDebitPlanned(HoldDraw *draw);
extern bool LedgerLockPlanned(HoldDraw *draw);
extern void LedgerEven(const HoldDraw *draw);
extern LockedBuckets LedgerReclaim(const AccountPath *path,
								   const Purpose *purpose, Credits amount);
extern void LedgerReclaimFor(const AccountPath *path, int64 bucket);
extern bool LedgerReclaimFree(const char *org);

/*
 * Which buckets may pay: on the path ($2), active, and allowed by their policy.
 * Plain holds draw only from buckets without gpu_types, tiers and pools; $4
 * NULL: whatever their policy.
 */
#define PATH_BUCKETS \
	" ROWS FROM (pg_catalog.unnest($2)) WITH ORDINALITY AS p (account, n)" \
	" JOIN gpucredit.bucket b ON b.account = p.account"
#define MAY_PAY " b.org = $1 AND" SEARCH_EACH("p.n") " AND" PAYS
#define PAYS \
	" b.closed_at IS NULL" \
	" AND b.effective_at <= $3" \
	" AND (b.expires_at IS NULL OR b.expires_at > $3)" \
	" AND CASE WHEN $4 IS NULL THEN true" \
	" WHEN $4 THEN b.gpu_types IS NULL AND b.tiers IS NULL" \
	"  AND b.pools IS NULL" \
	" ELSE (b.gpu_types IS NULL OR b.gpu_types @> $5)" \
	"  AND (b.tiers IS NULL OR $6 = ANY (b.tiers))" \
	"  AND (b.pools IS NULL OR $7 = ANY (b.pools)) END" \
	" AND ($8 IS NULL OR b.bucket = ANY ($8))"
#define MAY_PAY_TYPES \
	"text, text[], timestamptz, boolean, text[], text, text, bigint[]"

extern Values MayPayArgs(const AccountPath *path, const Purpose *purpose,
						 TimestampTz at);

/* The columns of burn order: total, and immutable. */
#define BURN_ORDER \
	" b.priority, b.expires_at NULLS LAST," \
	" CASE b.kind WHEN 'promo' THEN 1 WHEN 'grant' THEN 2 ELSE 3 END," \
	" pg_catalog.length(b.account) DESC, b.effective_at, b.bucket"

#endif							/* GPUCREDIT_POST_H */
