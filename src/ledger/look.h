/*-------------------------------------------------------------------------
 *
 * look.h
 *		Which bucket comes first: inside the ledger only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LOOK_H
#define GPUCREDIT_LOOK_H

#include "ledger/ledger.h"

/* A bucket that may pay, and the columns of burn order. */
typedef struct FirstBucket
{
	int64		bucket;
	Credits		available;
	bool		plain;			/* it caps nothing and has no slices */
	int32		priority;
	TimestampTz expires_at;		/* DT_NOEND: never */
	int			kind_rank;
	int			depth;
	TimestampTz effective_at;
	Datum		raised;			/* numeric: what ever came in */
	bool		own;			/* changed by this transaction */
} FirstBucket;

extern bool BucketFirst(const AccountPath *path, const Purpose *purpose,
						TimestampTz at, FirstBucket *first);
extern bool BucketFirstOwn(const AccountPath *path, const Purpose *purpose,
						   TimestampTz at, FirstBucket *first);

#endif							/* GPUCREDIT_LOOK_H */
