/*-------------------------------------------------------------------------
 *
 * post_bucket.c
 *		Creates buckets, which are empty until LedgerPost() moves credit
 *		into them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "ledger/post.h"

SQL_STATEMENT(bucket_insert, SPI_OK_INSERT_RETURNING,
			  "text, text, text, int, timestamptz, timestamptz, text[],"
			  " text[], text[], gpucredit.credits, numeric, jsonb, text,"
			  " timestamptz",
			  "INSERT INTO gpucredit.bucket (org, account, kind, priority,"
			  " effective_at, expires_at, gpu_types, tiers, pools,"
			  " max_per_job, max_share, policy, memo, created_at, slices)"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,"
			  " $13, $14, COALESCE((SELECT a.slices FROM gpucredit.account a"
			  "  WHERE a.org = $1 AND a.account = $2), 1)) RETURNING bucket");
SQL_STATEMENT(bucket_like, SPI_OK_INSERT_RETURNING,
			  "text, bigint, text, timestamptz",
			  "INSERT INTO gpucredit.bucket (org, account, kind, priority,"
			  " effective_at, expires_at, gpu_types, tiers, pools,"
			  " max_per_job, max_share, policy, memo, created_at, slices)"
			  " SELECT b.org, $3, b.kind, b.priority, b.effective_at,"
			  " b.expires_at, b.gpu_types, b.tiers, b.pools, b.max_per_job,"
			  " b.max_share, b.policy, b.memo, $4, COALESCE((SELECT a.slices"
			  "  FROM gpucredit.account a"
			  "  WHERE a.org = $1 AND a.account = $3), 1)"
			  " FROM gpucredit.bucket b"
			  " WHERE b.org = $1 AND b.bucket = $2 RETURNING bucket");

/*
 * Creates a bucket and returns its number. If its account has slices, the
 * bucket may be spread over as many.
 */
int64
LedgerCreateBucket(const NewBucket *bucket)
{
	return SqlInt8(SqlRun(&bucket_insert,
						  VALUES(TextValue(bucket->org),
								 TextValue(bucket->account),
								 TextValue(bucket->kind),
								 Int4Value(bucket->priority),
								 TimeValue(bucket->effective_at),
								 TimeValueOrNull(bucket->expires_at),
								 bucket->gpu_types, bucket->tiers,
								 bucket->pools, bucket->max_per_job,
								 bucket->max_share,
								 JsonValue(bucket->policy),
								 TextValue(bucket->memo),
								 TimeValue(bucket->created_at))), 0, 1);
}

/*
 * Creates a bucket of another account with the terms of a given bucket, for
 * credit that is transferred. Returns its number.
 */
int64
LedgerCreateBucketLike(const char *org, int64 bucket, const char *account,
					   TimestampTz at)
{
	return SqlInt8(SqlRun(&bucket_like,
						  VALUES(TextValue(org), Int8Value(bucket),
								 TextValue(account), TimeValue(at))), 0, 1);
}
