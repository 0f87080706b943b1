/*-------------------------------------------------------------------------
 *
 * token_bucket.c
 *		Token buckets in shared memory: how many calls each rate limit
 *		still allows.
 *
 * A bucket that does not exist counts as full, so setting a limit creates
 * nothing here, and removing it frees nothing.  Nothing here is durable, and
 * no rollback undoes it.
 *
 * As in a processor's cache, the memory is an array of sets of SET_SIZE
 * buckets, and a bucket's key selects its set.  gpucredit.max_token_buckets is
 * the number of all buckets.  If a set is full, the bucket that is nearest to
 * full is replaced.  Its account may then make at most as many calls too many
 * as tokens were missing from the bucket.  "forgotten" counts replaced buckets
 * that were not full.
 *
 * Locking: the sets are distributed over LOCKS lightweight locks, by set
 * number modulo LOCKS, and a lock guards every field of its sets.  A call that
 * takes tokens from several buckets holds the locks of all, acquired in
 * ascending order, so that a call that one bucket refuses takes no token from
 * the others. Nothing else is done under these locks.
 *
 * The caller passes the instant (gpucredit.clock).  It may be a little before
 * that of another backend, and then no tokens are added.  If the clock was set
 * back by more than LATE, the bucket continues with its present tokens.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>
#include <math.h>

#include "miscadmin.h"
#include "port/atomics.h"
#include "shmem/token_bucket.h"
#include "shmem/segment.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#define SET_SIZE	8
#define LOCKS		32
#define TAKE_MAX	32			/* most buckets that a call may take tokens
								 * from */
#define LATE		USECS_PER_SEC
#define ALMOST		1e-6		/* allowed rounding error, in tokens */

typedef struct TokenBucketState
{
	uint8		key[TOKEN_BUCKET_KEY_SIZE];
	bool		used;
	double		per_second;		/* to choose the bucket to replace */
	double		burst;
	double		tokens;			/* at the instant "at" */
	TimestampTz at;
} TokenBucketState;

typedef struct BucketSet
{
	TokenBucketState buckets[SET_SIZE];
} BucketSet;

typedef struct TokenBuckets
{
	int			tranche;
	uint32		n_sets;			/* constant */
	pg_atomic_uint64 forgotten;
	LWLockPadded locks[LOCKS];
	BucketSet	sets[FLEXIBLE_ARRAY_MEMBER];
} TokenBuckets;

static Size token_buckets_size(void);
static void token_buckets_start(void *memory, bool found);
static uint32 set_of(const TokenBucket *level);
static void lock_sets(const TokenBucket *levels, int n, bool *held);
static void unlock_sets(const bool *held);
static TokenBucketState *bucket_of(const TokenBucket *level, TimestampTz now,
								   TokenBucketState *const *taken, int n_taken);
static double tokens_at(const TokenBucketState *bucket, TimestampTz now);
static void fill(TokenBucketState *bucket, TimestampTz now);

static const SegmentPart token_buckets_part = {"gpucredit rate levels",
	token_buckets_size,
token_buckets_start, NULL};

static int	max_levels;
static TokenBuckets *shared = NULL;

void
TokenBucketInit(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	DefineCustomIntVariable("gpucredit.max_token_buckets",
							"How many rate limits can be counted at once.",
							"If more are in use, the token bucket nearest to "
							"full is dropped.", &max_levels,
							16384, 64, 16777216, PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
	SegmentAdd(&token_buckets_part);
}

static Size
token_buckets_size(void)
{
	return add_size(offsetof(TokenBuckets, sets),
					mul_size(sizeof(BucketSet),
							 (max_levels + SET_SIZE - 1) / SET_SIZE));
}

static void
token_buckets_start(void *memory, bool found)
{
	shared = memory;
	if (!found)
	{
		memset(shared, 0, token_buckets_size());
		shared->tranche = LWLockNewTrancheId();
		shared->n_sets = (max_levels + SET_SIZE - 1) / SET_SIZE;
		pg_atomic_init_u64(&shared->forgotten, 0);
		for (int i = 0; i < LOCKS; i++)
			LWLockInitialize(&shared->locks[i].lock, shared->tranche);
	}
	LWLockRegisterTranche(shared->tranche, "gpucredit_rate_levels");
}

/*
 * Takes a token from each bucket, or from none.  Returns -1 if the tokens were
 * taken.  Otherwise it returns the index of the bucket with the longest wait
 * for a token, and this wait in seconds.
 */
int
TokenBucketDebit(const TokenBucket *levels, int n, TimestampTz now,
				 double *wait)
{
	bool		held[LOCKS] = {false};
	TokenBucketState *buckets[TAKE_MAX];
	int			short_of = -1;

	Assert(n <= TAKE_MAX);
	*wait = 0;
	lock_sets(levels, n, held);
	for (int i = 0; i < n; i++)
	{
		TokenBucketState *bucket = buckets[i] = bucket_of(&levels[i],
														  now, buckets, i);
		double		missing;

		fill(bucket, now);
		missing = 1 - bucket->tokens;
		if (missing > ALMOST &&
			(short_of < 0 || missing / bucket->per_second > *wait))
		{
			short_of = i;
			*wait = missing / bucket->per_second;
		}
	}
	for (int i = 0; i < n && short_of < 0; i++)
		buckets[i]->tokens -= 1;
	unlock_sets(held);
	return short_of;
}

uint64
TokenBucketForgotten(void)
{
	return pg_atomic_read_u64(&shared->forgotten);
}

static uint32
set_of(const TokenBucket *level)
{
	uint32		hash;

	memcpy(&hash, level->key, sizeof(hash));
	return hash % shared->n_sets;
}

static void
lock_sets(const TokenBucket *levels, int n, bool *held)
{
	for (int i = 0; i < n; i++)
		held[set_of(&levels[i]) % LOCKS] = true;
	for (int i = 0; i < LOCKS; i++)
	{
		if (held[i])
			LWLockAcquire(&shared->locks[i].lock, LW_EXCLUSIVE);
	}
}

static void
unlock_sets(const bool *held)
{
	for (int i = LOCKS - 1; i >= 0; i--)
	{
		if (held[i])
			LWLockRelease(&shared->locks[i].lock);
	}
}

/*
 * Finds the bucket of a limit, or creates a full one.  If it has to replace a
 * bucket, one of the same call is only chosen if there is no other.
 */
static TokenBucketState *
bucket_of(const TokenBucket *level, TimestampTz now,
		  TokenBucketState *const *taken,
		  int n_taken)
{
	BucketSet  *set = &shared->sets[set_of(level)];
	TokenBucketState *room = NULL;
	double		room_missing = 0;

	for (int i = 0; i < SET_SIZE; i++)
	{
		TokenBucketState *bucket = &set->buckets[i];
		double		missing;

		if (bucket->used &&
			memcmp(bucket->key, level->key, TOKEN_BUCKET_KEY_SIZE) == 0)
			return bucket;
		missing = !bucket->used ? -1 :
			bucket->burst - tokens_at(bucket, now);
		for (int t = 0; t < n_taken; t++)
		{
			if (taken[t] == bucket)
				missing = get_float8_infinity();
		}
		if (room == NULL || missing < room_missing)
		{
			room = bucket;
			room_missing = missing;
		}
	}
	if (room_missing > ALMOST)
		pg_atomic_fetch_add_u64(&shared->forgotten, 1);
	memcpy(room->key, level->key, TOKEN_BUCKET_KEY_SIZE);
	room->used = true;
	room->per_second = level->per_second;
	room->burst = level->burst;
	room->tokens = level->burst;
	room->at = now;
	return room;
}

static double
tokens_at(const TokenBucketState *bucket, TimestampTz now)
{
	double		passed = now > bucket->at ?
		((double) now - (double) bucket->at) / USECS_PER_SEC : 0;

	return fmin(bucket->burst,
				bucket->tokens + passed * bucket->per_second);
}

static void
fill(TokenBucketState *bucket, TimestampTz now)
{
	bucket->tokens = tokens_at(bucket, now);
	if (now > bucket->at || now < bucket->at - LATE)
		bucket->at = now;
}
