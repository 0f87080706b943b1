/*-------------------------------------------------------------------------
 *
 * count.c
 *		Counters of calls in shared memory.
 *
 * For each database and function they have the durations, replays, denials by
 * reason, errors by SQLSTATE, calls that waited for a lock, and the credit
 * spent, refunded and uncollected.  A rollback does not undo a count.
 *
 * A running call counts in a struct Call on its caller's stack.  All of its
 * counts are added to shared memory when the call ends, which may be when its
 * process exits.  The counters are atomics.  Each exists STRIPES times: a
 * backend adds to one of them, and a reader sums all, so counting is both
 * cheap and exact.  Errors are counted in a hash table with linear probing.  A
 * compare-and-exchange assigns a place of the table to a key for ever; if the
 * table is full, its last place counts all further errors.
 *
 * Whether a call waited for a lock shows in the time at which the deadlock
 * timeout was last set, because every wait for a heavyweight lock, including a
 * row's, sets it.
 *
 * No lock is acquired here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/compat.h"
#include "common/hashfn.h"
#include "api/count.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shmem/segment.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/timeout.h"

#define STRIPES		8
#define REST		(COUNT_ERRORS - 1)

typedef struct Counters
{
	pg_atomic_uint64 buckets[COUNT_BUCKETS];
	pg_atomic_uint64 microseconds;
	pg_atomic_uint64 replays;
	pg_atomic_uint64 lock_waits;
	pg_atomic_uint64 denials[COUNT_DENIALS];
	pg_atomic_uint64 uncollected[COUNT_UNPAID];
	pg_atomic_uint64 spent;
	pg_atomic_uint64 refunded;
} Counters;

typedef struct ErrorCounter
{
	pg_atomic_uint64 key;		/* 0 if the place is free; else the entry
								 * point + 1 and the SQLSTATE */
	pg_atomic_uint64 n;
} ErrorCounter;

typedef struct DatabaseCounters
{
	Counters	calls[STRIPES][API_COUNT];
	ErrorCounter errors[COUNT_ERRORS];
} DatabaseCounters;

static Size counters_size(void);
static void counters_start(void *memory, bool found);
static void reset_counters(int number);
static void count_cut_off(int code, Datum arg);
static int	bucket_of(uint64 microseconds);
static void count_error(DatabaseCounters *database, ApiFunction entry,
						int sqlstate);

const int	CountBounds[COUNT_BUCKETS - 1] = {COUNT_BOUNDS};
const char *const CountReasons[COUNT_DENIALS] = {COUNT_REASONS};
const char *const CountUnpaid[COUNT_UNPAID] = {"no_credit"};

static const SegmentPart counters_part = {"gpucredit counters", counters_size,
counters_start, reset_counters};

static DatabaseCounters *counters = NULL;
static Call *current = NULL;

void
CountInit(void)
{
	if (process_shared_preload_libraries_in_progress)
		SegmentAdd(&counters_part);
}

static Size
counters_size(void)
{
	return mul_size(sizeof(DatabaseCounters), SEGMENT_DATABASES);
}

static void
counters_start(void *memory, bool found)
{
	counters = memory;
	for (int i = 0; i < SEGMENT_DATABASES && !found; i++)
		reset_counters(i);
}

/*
 * Sets the counters of a database to zero.  Its place in shared memory may
 * have belonged to another database before.
 */
static void
reset_counters(int number)
{
	DatabaseCounters *database = &counters[number];

	for (int i = 0; i < STRIPES * API_COUNT; i++)
	{
		Counters   *calls = &database->calls[i / API_COUNT][i % API_COUNT];

		for (int b = 0; b < COUNT_BUCKETS; b++)
			pg_atomic_init_u64(&calls->buckets[b], 0);
		pg_atomic_init_u64(&calls->microseconds, 0);
		pg_atomic_init_u64(&calls->replays, 0);
		pg_atomic_init_u64(&calls->lock_waits, 0);
		for (int d = 0; d < COUNT_DENIALS; d++)
			pg_atomic_init_u64(&calls->denials[d], 0);
		for (int u = 0; u < COUNT_UNPAID; u++)
			pg_atomic_init_u64(&calls->uncollected[u], 0);
		pg_atomic_init_u64(&calls->spent, 0);
		pg_atomic_init_u64(&calls->refunded, 0);
	}
	for (int i = 0; i < COUNT_ERRORS; i++)
	{
		pg_atomic_init_u64(&database->errors[i].key, 0);
		pg_atomic_init_u64(&database->errors[i].n, 0);
	}
}

/*
 * Begins to count a call.  The caller must end it with CountEnd() before the
 * stack frame that has the Call goes.
 */
void
CountBegin(Call *call, ApiFunction entry)
{
	static bool at_exit = false;

	if (!at_exit)
	{
		(void) SegmentDatabase();	/* on an error the next call retries */
		before_shmem_exit(count_cut_off, (Datum) 0);
		at_exit = true;
	}
	call->outer = current;
	call->entry = entry;
	call->waited = get_timeout_start_time(DEADLOCK_TIMEOUT);
	call->replayed = false;
	memset(call->denials, 0, sizeof(call->denials));
	memset(call->uncollected, 0, sizeof(call->uncollected));
	call->spent = 0;
	call->refunded = 0;
	INSTR_TIME_SET_CURRENT(call->begun);
	current = call;
}

/*
 * Ends a call, and adds its counts to shared memory.  sqlstate is the error
 * that ended the call, or 0.
 */
void
CountEnd(Call *call, int sqlstate)
{
	int			number = SegmentDatabase();
	DatabaseCounters *database;
	Counters   *calls;
	instr_time	took;
	uint64		us;

	current = call->outer;
	if (number < 0)
		return;
	INSTR_TIME_SET_CURRENT(took);
	INSTR_TIME_SUBTRACT(took, call->begun);
	us = INSTR_TIME_GET_MICROSEC(took);
	database = &counters[number];
	calls = &database->calls[MyProcNumber % STRIPES][call->entry];
	pg_atomic_fetch_add_u64(&calls->buckets[bucket_of(us)], 1);
	pg_atomic_fetch_add_u64(&calls->microseconds, us);
	if (call->replayed)
		pg_atomic_fetch_add_u64(&calls->replays, 1);
	if (call->waited != get_timeout_start_time(DEADLOCK_TIMEOUT))
		pg_atomic_fetch_add_u64(&calls->lock_waits, 1);
	for (int d = 0; d < COUNT_DENIALS; d++)
	{
		if (call->denials[d] > 0)
			pg_atomic_fetch_add_u64(&calls->denials[d], call->denials[d]);
	}
	for (int u = 0; u < COUNT_UNPAID; u++)
	{
		if (call->uncollected[u] > 0)
			pg_atomic_fetch_add_u64(&calls->uncollected[u],
									call->uncollected[u]);
	}
	if (call->spent > 0)
		pg_atomic_fetch_add_u64(&calls->spent, call->spent);
	if (call->refunded > 0)
		pg_atomic_fetch_add_u64(&calls->refunded, call->refunded);
	if (sqlstate != 0)
		count_error(database, call->entry, sqlstate);
}

/*
 * Counts the calls that are running when the process exits, because the server
 * ended it or its client is gone.  The error state no longer exists then, so
 * the SQLSTATE follows from whether the connection was lost.
 */
static void
count_cut_off(int code, Datum arg)
{
	while (current != NULL)
		CountEnd(current, ClientConnectionLost ? ERRCODE_CONNECTION_FAILURE :
				 ERRCODE_ADMIN_SHUTDOWN);
}

static int
bucket_of(uint64 microseconds)
{
	int			bucket = 0;

	while (bucket < COUNT_BUCKETS - 1 &&
		   microseconds > (uint64) CountBounds[bucket])
		bucket++;
	return bucket;
}

/* Counts an error in the place that has its key, or in the first free one. */
static void
count_error(DatabaseCounters *database, ApiFunction entry, int sqlstate)
{
	uint64		key = ((uint64) entry + 1) << 32 | (uint32) sqlstate;
	uint32		first = (uint32) (murmurhash32((uint32) sqlstate) + entry);
	int			place = REST;

	for (uint32 i = 0; i < REST; i++)
	{
		int			at = (first + i) % REST;
		uint64		found = 0;

		if (pg_atomic_compare_exchange_u64(&database->errors[at].key, &found,
										   key) || found == key)
		{
			place = at;
			break;
		}
	}
	pg_atomic_fetch_add_u64(&database->errors[place].n, 1);
}

/* Marks the running call as a replay. */
void
CountReplay(void)
{
	if (current != NULL)
		current->replayed = true;
}

/* Counts a denial in the running call, by its reason. */
void
CountDenial(const char *reason)
{
	int			denial = 0;

	if (current == NULL)
		return;
	while (denial < COUNT_DENIALS - 1 && reason != NULL &&
		   strcmp(reason, CountReasons[denial]) != 0)
		denial++;
	current->denials[denial]++;
}

/* Counts an amount that the running call leaves uncollected. */
void
CountUncollected(int64 amount)
{
	if (current != NULL)
		current->uncollected[0] += amount;
}

/*
 * Counts an amount of credit that the running call spends, or refunds if it is
 * negative.
 */
void
CountSpend(int64 amount)
{
	if (current != NULL && amount > 0)
		current->spent += amount;
	else if (current != NULL)
		current->refunded += -amount;
}

/* Sums the counts of a function in this database. */
void
CountRead(ApiFunction entry, CallCounts *counts)
{
	int			number = SegmentDatabase();

	memset(counts, 0, sizeof(CallCounts));
	for (int s = 0; s < STRIPES && number >= 0; s++)
	{
		Counters   *calls = &counters[number].calls[s][entry];

		for (int b = 0; b < COUNT_BUCKETS; b++)
			counts->buckets[b] += pg_atomic_read_u64(&calls->buckets[b]);
		counts->microseconds += pg_atomic_read_u64(&calls->microseconds);
		counts->replays += pg_atomic_read_u64(&calls->replays);
		counts->lock_waits += pg_atomic_read_u64(&calls->lock_waits);
		for (int d = 0; d < COUNT_DENIALS; d++)
			counts->denials[d] += pg_atomic_read_u64(&calls->denials[d]);
		for (int u = 0; u < COUNT_UNPAID; u++)
			counts->uncollected[u] +=
				pg_atomic_read_u64(&calls->uncollected[u]);
		counts->spent += pg_atomic_read_u64(&calls->spent);
		counts->refunded += pg_atomic_read_u64(&calls->refunded);
	}
}

/*
 * Copies the counted errors into an array of COUNT_ERRORS elements, and
 * returns their number.
 */
int
CountReadErrors(ErrorCount *errors)
{
	int			number = SegmentDatabase();
	int			n = 0;

	for (int i = 0; i < COUNT_ERRORS && number >= 0; i++)
	{
		ErrorCounter *error = &counters[number].errors[i];
		uint64		count = pg_atomic_read_u64(&error->n);
		uint64		key;

		/*
		 * Read the key after the count, so that a count above 0 always has
		 * its key.
		 */
		pg_read_barrier();
		key = pg_atomic_read_u64(&error->key);
		if (count > 0)
			errors[n++] = (ErrorCount)
		{
			key == 0 ? API_COUNT : (ApiFunction) ((key >> 32) - 1),
				(int) (uint32) key, count
		};
	}
	return n;
}
