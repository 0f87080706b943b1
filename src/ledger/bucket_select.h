/*-------------------------------------------------------------------------
 *
 * bucket_select.h
 *		Which bucket comes first: inside the ledger only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_LOOK_H
#define GPUCREDIT_LOOK_H

#include "ledger/ledger.h"

/* A bucket that may pay, and the columns of burn order. */
typedef struct SelectedBucket
{
	int64		bucket;
	Credits		available;
	bool		plain;			/* it caps nothing and has no slices */
	int32		priority;
	TimestampTz expires_at;		/* DT_NOEND: never */
	int			kind_rank;
	int			depth;
	TimestampTz effective_at;
	Datum		credited_total; /* numeric: what ever came in */
	bool		own;			/* changed by this transaction */
} SelectedBucket;

extern bool BucketSelect(const AccountPath *path, const Purpose *purpose,
						 TimestampTz at, SelectedBucket *first);
extern bool BucketSelectChanged(const AccountPath *path,
								const Purpose *purpose,
								TimestampTz at, SelectedBucket *first);

#endif							/* GPUCREDIT_LOOK_H */
