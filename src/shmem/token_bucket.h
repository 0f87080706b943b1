/*-------------------------------------------------------------------------
 *
 * token_bucket.h
 *		Token buckets in shared memory: what is left of each rate limit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_TOKEN_BUCKET_H
#define GPUCREDIT_TOKEN_BUCKET_H

#include "datatype/timestamp.h"

#define TOKEN_BUCKET_KEY_SIZE	16

/* A bucket: its name, its rate, and its size. */
typedef struct TokenBucket
{
	uint8		key[TOKEN_BUCKET_KEY_SIZE]; /* a digest */
	double		per_second;
	double		burst;
} TokenBucket;

extern void TokenBucketInit(void);
extern int	TokenBucketDebit(const TokenBucket *levels, int n, TimestampTz now,
							 double *wait);
extern uint64 TokenBucketForgotten(void);

#endif							/* GPUCREDIT_TOKEN_BUCKET_H */
