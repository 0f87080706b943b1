/*-------------------------------------------------------------------------
 *
 * wake.c
 *		Wakes the scheduler's background worker after a commit.
 *
 * Code that changes what a pool's cycle would decide calls WakePool().  The
 * backend notes the pool until XACT_EVENT_COMMIT, when other sessions can see
 * the change.  Then it adds the noted pools to those of the database, and sets
 * the worker's latch.  A rollback wakes nobody.  Neither does PREPARE, because
 * another session commits the transaction; the worker also runs at a fixed
 * interval and finds the change then.
 *
 * Pools are a set of 64 bits, by a hash of their names.  Two pools with the
 * same bit are woken together.
 *
 * Locking: "lock" of a database's entry guards the worker's process id and
 * latch. Latches are in shared memory as long as the server runs, so it does
 * no harm to set the latch of a process that has ended.  The other fields are
 * atomics.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "shmem/segment.h"
#include "shmem/wake.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

typedef struct Listener
{
	slock_t		lock;
	int			pid;			/* 0 if no worker runs */
	Latch	   *latch;
	pg_atomic_uint64 pools;		/* pools for which a change has committed */
	pg_atomic_uint64 cycles;
	pg_atomic_uint64 started;
	pg_atomic_uint64 failures;
	pg_atomic_uint64 last_cycle;
} Listener;

static Size listeners_size(void);
static void listeners_start(void *memory, bool found);
static void reset_listener(int number);
static Listener *my_listener(void);
static void note_pool(PoolSet pools);
static void at_transaction_end(XactEvent event, void *arg);
static void at_subtransaction_end(SubXactEvent event, SubTransactionId mine,
								  SubTransactionId parent, void *arg);
static void wake_worker(PoolSet pools);
static void stop_listening(int code, Datum arg);

static const SegmentPart wake_part = {"gpucredit scheduler", listeners_size,
listeners_start, reset_listener};

static Listener *listeners = NULL;
static PoolSet to_wake = 0;		/* to wake at this transaction's commit */
static SubTransactionId woken_in[64];	/* by bit: the first subtransaction
										 * that asked to wake the pools */

void
WakeInit(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	SegmentAdd(&wake_part);
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
}

static Size
listeners_size(void)
{
	return sizeof(Listener) * SEGMENT_DATABASES;
}

/* Initialises the memory when the postmaster starts. */
static void
listeners_start(void *memory, bool found)
{
	listeners = memory;
	for (int i = 0; i < SEGMENT_DATABASES && !found; i++)
	{
		SpinLockInit(&listeners[i].lock);
		listeners[i].pid = 0;
		listeners[i].latch = NULL;
		pg_atomic_init_u64(&listeners[i].pools, 0);
		pg_atomic_init_u64(&listeners[i].cycles, 0);
		pg_atomic_init_u64(&listeners[i].started, 0);
		pg_atomic_init_u64(&listeners[i].failures, 0);
		pg_atomic_init_u64(&listeners[i].last_cycle, 0);
	}
}

/*
 * Clears the entry for another database: the one before was dropped, and its
 * worker has ended.
 */
static void
reset_listener(int number)
{
	Listener   *listener = &listeners[number];

	pg_atomic_write_u64(&listener->pools, 0);
	pg_atomic_write_u64(&listener->cycles, 0);
	pg_atomic_write_u64(&listener->started, 0);
	pg_atomic_write_u64(&listener->failures, 0);
	pg_atomic_write_u64(&listener->last_cycle, 0);
}

/* Returns this database's entry, or NULL if it has none. */
static Listener *
my_listener(void)
{
	int			number = SegmentReady() ? SegmentDatabase() : -1;

	return number < 0 ? NULL : &listeners[number];
}

PoolSet
WakePoolSet(const char *pool)
{
	uint32		hash = hash_bytes((const unsigned char *) pool,
								  (int) strlen(pool));

	return UINT64CONST(1) << (hash % 64);
}

/* Wakes the worker for a pool after this transaction has committed. */
void
WakePool(const char *pool)
{
	note_pool(WakePoolSet(pool));
}

void
WakeAll(void)
{
	note_pool(ALL_POOLS);
}

/* Records which subtransaction asks, for the pools that are not noted yet. */
static void
note_pool(PoolSet pools)
{
	SubTransactionId mine = GetCurrentSubTransactionId();

	for (PoolSet left = pools & ~to_wake; left != 0; left &= left - 1)
		woken_in[pg_rightmost_one_pos64(left)] = mine;
	to_wake |= pools;
}

/* Wakes the worker at the commit; drops the noted pools at an abort. */
static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (to_wake != 0)
				wake_worker(to_wake);
			to_wake = 0;
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			to_wake = 0;
			break;
		default:
			break;
	}
}

/*
 * Drops what a rolled back subtransaction and its children noted.  Children
 * have higher numbers.
 */
static void
at_subtransaction_end(SubXactEvent event, SubTransactionId mine,
					  SubTransactionId parent, void *arg)
{
	if (event != SUBXACT_EVENT_ABORT_SUB)
		return;
	for (PoolSet left = to_wake; left != 0; left &= left - 1)
	{
		int			bit = pg_rightmost_one_pos64(left);

		if (woken_in[bit] >= mine)
			to_wake &= ~(UINT64CONST(1) << bit);
	}
}

/*
 * Wakes the worker, if there is one.  The transaction has committed, so
 * nothing here may fail or read a catalog: an earlier call, or the worker, has
 * looked up the database's number.
 */
static void
wake_worker(PoolSet pools)
{
	Listener   *listener = NULL;
	Latch	   *latch;

	for (int i = 0; i < SEGMENT_DATABASES && listener == NULL; i++)
	{
		if (SegmentDatabaseOid(i) == MyDatabaseId)
			listener = &listeners[i];
	}
	if (listener == NULL)
		return;
	pg_atomic_fetch_or_u64(&listener->pools, pools);
	SpinLockAcquire(&listener->lock);
	latch = listener->latch;
	SpinLockRelease(&listener->lock);
	if (latch != NULL && latch != MyLatch)
		SetLatch(latch);
}

/*
 * Registers this process as the database's worker until it ends.  Returns
 * false if there is a worker already, or the database has no entry.
 */
bool
WakeListen(void)
{
	Listener   *listener = my_listener();
	bool		first;

	if (listener == NULL)
		return false;
	SpinLockAcquire(&listener->lock);
	first = listener->pid == 0;
	if (first)
	{
		listener->pid = MyProcPid;
		listener->latch = MyLatch;
	}
	SpinLockRelease(&listener->lock);
	if (first)
		before_shmem_exit(stop_listening, PointerGetDatum(listener));
	return first;
}

static void
stop_listening(int code, Datum arg)
{
	Listener   *listener = (Listener *) DatumGetPointer(arg);

	SpinLockAcquire(&listener->lock);
	listener->pid = 0;
	listener->latch = NULL;
	SpinLockRelease(&listener->lock);
}

/* Returns the pools that were woken since the last call. */
PoolSet
WakeCollect(void)
{
	return pg_atomic_exchange_u64(&my_listener()->pools, 0);
}

/*
 * Adds pools whose cycle could not run, so that the next WakeCollect() returns
 * them again.
 */
void
WakeKeep(PoolSet pools)
{
	pg_atomic_fetch_or_u64(&my_listener()->pools, pools);
}

/*
 * Counts a cycle.  last_cycle is only updated if no other pool is behind, so
 * that it shows when one pool has had no cycle for long.
 */
void
WakeCount(bool success, uint64 started, bool behind)
{
	Listener   *listener = my_listener();

	if (!success)
	{
		pg_atomic_fetch_add_u64(&listener->failures, 1);
		return;
	}
	pg_atomic_fetch_add_u64(&listener->cycles, 1);
	pg_atomic_fetch_add_u64(&listener->started, started);
	if (!behind)
		pg_atomic_write_u64(&listener->last_cycle,
							(uint64) GetCurrentTimestamp());
}

/*
 * Reads the counts of this database's worker.  Returns false if the database
 * has no entry.
 */
bool
WakeRead(WakeReport *report)
{
	Listener   *listener = my_listener();

	if (listener == NULL)
		return false;
	SpinLockAcquire(&listener->lock);
	report->pid = listener->pid;
	SpinLockRelease(&listener->lock);
	report->cycles = pg_atomic_read_u64(&listener->cycles);
	report->started = pg_atomic_read_u64(&listener->started);
	report->failures = pg_atomic_read_u64(&listener->failures);
	report->last_cycle = (TimestampTz)
		pg_atomic_read_u64(&listener->last_cycle);
	return true;
}
