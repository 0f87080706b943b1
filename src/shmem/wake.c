/*-------------------------------------------------------------------------
 *
 * wake.c
 *		Wake the scheduler's worker after a commit.
 *
 * Code that changes what a pool's cycle would decide calls WakePool().  The
 * backend notes the pool, and passes it on at XACT_EVENT_COMMIT, when other
 * sessions see the change: it adds the pools to the database's, and sets the
 * worker's latch.  A rollback passes nothing on, nor does PREPARE, as that
 * commits elsewhere; the worker also looks at each interval.
 *
 * Pools are a set of 64 bits, by a hash of their names; two pools with the
 * same bit are woken together.
 *
 * Locking: "lock" of a database's entry guards the worker's process and latch.
 * Both live in shared memory as long as the server, so a latch set after its
 * process ended does no harm.  The rest are atomics.
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
	int			pid;			/* 0: none */
	Latch	   *latch;
	pg_atomic_uint64 pools;		/* a change committed there */
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
static PoolSet to_wake = 0;		/* at this transaction's commit */
static SubTransactionId woken_in[64];	/* by bit: the first subtransaction
										 * that asked */

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

/*
 * Initialise the memory.
 */
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
 * For another database: the one before was dropped, and its worker ended.
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

/*
 * This database's entry; NULL: it has none.
 */
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

/*
 * Wake the worker for a pool once this transaction has committed.
 */
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

/*
 * Note which subtransaction asks, for pools that are not noted yet.
 */
static void
note_pool(PoolSet pools)
{
	SubTransactionId mine = GetCurrentSubTransactionId();

	for (PoolSet left = pools & ~to_wake; left != 0; left &= left - 1)
		woken_in[pg_rightmost_one_pos64(left)] = mine;
	to_wake |= pools;
}

/*
 * Wake at the commit; forget at an abort.
 */
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
 * Forget the requests of a rolled back subtransaction and its children, which
 * have later numbers.
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
 * Wake the worker, if there is one.  The transaction is over: nothing here may
 * fail or read a catalog, so an earlier call, or the worker, has looked up the
 * database's number.
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
 * Become the database's worker until this process ends.  False: there is one
 * already, or the database has no entry.
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

/*
 * The pools woken since the last call.
 */
PoolSet
WakeCollect(void)
{
	return pg_atomic_exchange_u64(&my_listener()->pools, 0);
}

/*
 * Return pools that had no cycle: the next WakeCollect() has them again.
 */
void
WakeKeep(PoolSet pools)
{
	pg_atomic_fetch_or_u64(&my_listener()->pools, pools);
}

/*
 * Report a cycle.  While another pool lacks one, last_cycle stays as it is: so
 * a blocked pool does not hide behind the others.
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
 * Read the figures of this database's worker.  False: it has no entry.
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
