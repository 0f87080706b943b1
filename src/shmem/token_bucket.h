/*-------------------------------------------------------------------------
 *
 * token_bucket.h
 *		Token buckets in shared memory: how many calls each rate limit
 *		still allows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_TOKEN_BUCKET_H
#define GPUCREDIT_TOKEN_BUCKET_H

#include "datatype/timestamp.h"

#define TOKEN_BUCKET_KEY_SIZE	16

/* A bucket: its key, the rate at which it is filled, and its size. */
typedef struct TokenBucket
{
	uint8		key[TOKEN_BUCKET_KEY_SIZE]; /* a digest of the limit's row */
	double		per_second;
	double		burst;
} TokenBucket;

extern void TokenBucketInit(void);
extern int	TokenBucketDebit(const TokenBucket *levels, int n, TimestampTz now,
							 double *wait);
extern uint64 TokenBucketForgotten(void);

#endif							/* GPUCREDIT_TOKEN_BUCKET_H */
