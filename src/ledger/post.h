/*-------------------------------------------------------------------------
 *
 * post.h
 *		Functions that write money. Only files of the ledger include this
 *		header.
 *
 * The files post.c, post_returns.c and post_bucket.c write entries, buckets,
 * their slices and the parts of holds. Two other functions write them, too:
 * archive() removes old entries that are sealed, and rebuild() writes sums
 * that it has computed from the entries. tools/lint checks this.
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

/* A move of an amount of a bucket from one compartment to another. */
typedef struct Move
{
	int64		bucket;
	int32		part;			/* part of the hold, or 0 without a hold */
	Compartment source;
	Compartment target;
	Credits		amount;
	int32		slice;			/* slice that changes, or 0 for the bucket's
								 * row */
} Move;

typedef struct Posting
{
	const char *org;
	const char *account;		/* the account on whose behalf the call acts */
	const Cause *cause;
	int64		hold;			/* 0 if there is no hold */
	TimestampTz at;
	Trace		trace;			/* trace of the hold; if it is none, that of
								 * the session */
	int			n;
	const Move *moves;
	bool		taken;			/* whether LedgerDebit() changes the bucket */
} Posting;

/*
 * The terms of a new bucket. A field of the policy is NULL if the policy does
 * not limit that property.
 */
typedef struct NewBucket
{
	const char *org;
	const char *account;
	const char *kind;
	int32		priority;
	TimestampTz effective_at;
	TimestampTz expires_at;		/* infinite if the bucket never expires */
	NullableDatum gpu_types;
	NullableDatum tiers;
	NullableDatum pools;
	NullableDatum max_per_job;
	NullableDatum max_share;
	Jsonb	   *policy;
	const char *memo;
	TimestampTz created_at;
} NewBucket;

/* The result of an attempt to debit an amount without waiting. */
typedef enum TakeStatus
{
	TAKE_DONE,
	TAKE_BUSY,					/* nothing was locked */
	TAKE_SHORT					/* the locked rows have too little by now */
} TakeStatus;

#define OWN_MOST	16			/* how many buckets a transaction notes at
								 * most */

/*
 * The location of the last version of a bucket's row that this transaction has
 * written.
 */
typedef struct OwnBucket
{
	int64		bucket;
	ItemPointerData place;
} OwnBucket;

/* Defined in post.c. */
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

/* Defined in post_returns.c. */
extern void LedgerPostReturns(const Posting *postings, int n);

/* Defined in post_bucket.c. */
extern int64 LedgerCreateBucket(const NewBucket *bucket);
extern int64 LedgerCreateBucketLike(const char *org, int64 bucket,
									const char *account, TimestampTz at);

/* The part of a draw that a locked bucket pays. */
typedef struct HoldDrawPart
{
	int64		bucket;
	int32		slice;			/* the only slice that is locked, or 0 if the
								 * whole bucket is */
	Credits		amount;
	Credits		whole;			/* available in the whole bucket */
	int32		slices;			/* over how many slices it may be spread */
	int32		spread;			/* over how many slices it is spread */
	TimestampTz expires_at;
	Datum		credited_total; /* numeric, as LedgerFindOneBucket() read it */
} HoldDrawPart;

/* A draw: for whom and how much. LedgerDraw() sets the buckets that pay. */
typedef struct HoldDraw
{
	const AccountPath *path;
	const Purpose *purpose;
	const Hold *hold;			/* the hold that is extended, or NULL for a
								 * new one */
	Credits		amount;
	bool		wait;
	TimestampTz at;				/* the instant for which the draw is valid */
	int			nparts;
	int			maxparts;
	HoldDrawPart *parts;
} HoldDraw;

/* Defined in hold_draw.c. */
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
 * The condition for buckets that may pay: they belong to an account of the
 * path ($2), are active, and their policy allows the purpose. Holds that are
 * not for a job draw only from buckets without gpu_types, tiers and pools. If
 * $4 is NULL, policies are ignored.
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

/*
 * The columns of burn order. The order is total, and the columns never change.
 */
#define BURN_ORDER \
	" b.priority, b.expires_at NULLS LAST," \
	" CASE b.kind WHEN 'promo' THEN 1 WHEN 'grant' THEN 2 ELSE 3 END," \
	" pg_catalog.length(b.account) DESC, b.effective_at, b.bucket"

#endif							/* GPUCREDIT_POST_H */
