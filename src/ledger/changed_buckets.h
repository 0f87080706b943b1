/*-------------------------------------------------------------------------
 *
 * changed_buckets.h
 *		Buckets whose rows this transaction has changed: inside the ledger
 *		only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_OWN_H
#define GPUCREDIT_OWN_H

#include "util/sql.h"
#include "storage/itemptr.h"

#define OWN_MOST	16			/* so many are kept in mind */

/* A bucket's row, as this transaction has written it last. */
typedef struct OwnBucket
{
	const char *org;
	int64		bucket;
	ItemPointerData place;
} OwnBucket;

extern void BucketAdd(const char *org, int64 bucket, SqlArgs *args);
extern void OwnForget(void);
extern int	OwnList(const char *org, OwnBucket *list);

#endif							/* GPUCREDIT_OWN_H */
