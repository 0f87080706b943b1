/*-------------------------------------------------------------------------
 *
 * notify.c
 *		What listeners are told of a commit, where there is room for it.
 *
 * Notifications are sent when the transaction is about to commit.  Sent at
 * once, as pg_notify() does, they would keep the transaction from being
 * prepared, that and each retry.  One that is prepared tells nobody: it
 * commits elsewhere.
 *
 * PostgreSQL has one queue of notifications for all databases, and any login
 * can fill it: a session that listens and stays in a transaction keeps all
 * that comes after.  Then whoever notifies fails at its commit (54000).  A call
 * of ours must not: its tables say what the notification would have said.  So
 * a notification is dropped, and counted, where the queue is used up to
 * gpucredit.notify_queue_limit.
 *
 * To know that before the commit, this takes the lock that PostgreSQL itself
 * takes a moment later to write to the queue, and holds until the transaction
 * ends: nobody else fills it meanwhile.  A commit that fills the queue, or
 * waits for a standby, has that lock for long; and any login can fill the lock
 * table.  So this waits for it for WAIT_MS at most, asking again and again, and
 * then drops what it has to say.
 *
 * Locks: the queue of notifications, last of all.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/async.h"
#include "util/compat.h"
#include "util/log.h"
#include "util/commit_queue.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shmem/notify.h"
#include "shmem/segment.h"
#include "storage/lock.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"

#define WAIT_MS		100			/* for the queue's lock */
#define API_BYTES	32			/* of an entry, beside its two texts */

static Size dropped_size(void);
static void dropped_start(void *memory, bool found);
static void reset_dropped(int number);
static void at_transaction_end(XactEvent event, void *arg);
static void at_subtransaction_end(SubXactEvent event, SubTransactionId self,
								  SubTransactionId parent, void *arg);
static void send_all(void);
static bool lock_queue(void);
static double free_bytes(void);
static void note_dropped(int64 n, const char *reason);

static const SegmentPart notify_part = {"gpucredit notifications",
dropped_size, dropped_start, reset_dropped};

static double queue_limit;
static pg_atomic_uint64 *dropped = NULL;	/* by database */
static Pending *told = NULL;

void
NotifyInit(void)
{
	DefineCustomRealVariable("gpucredit.notify_queue_limit",
							 "How full the server's NOTIFY queue may be for "
							 "gpucredit to add to it, as a share of it.",
							 "Above that its notifications are dropped and "
							 "counted; no call fails by them. 0: none is "
							 "sent.", &queue_limit, 0.9, 0, 0.99, PGC_SUSET,
							 0, NULL, NULL, NULL);
	if (process_shared_preload_libraries_in_progress)
		SegmentAdd(&notify_part);
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
}

static Size
dropped_size(void)
{
	return sizeof(pg_atomic_uint64) * SEGMENT_DATABASES;
}

static void
dropped_start(void *memory, bool found)
{
	dropped = memory;
	for (int i = 0; i < SEGMENT_DATABASES && !found; i++)
		pg_atomic_init_u64(&dropped[i], 0);
}

static void
reset_dropped(int number)
{
	pg_atomic_write_u64(&dropped[number], 0);
}

/*
 * How many were dropped in this database, which has an entry.
 */
uint64
NotifyDropped(void)
{
	return pg_atomic_read_u64(&dropped[SegmentDatabase()]);
}

/*
 * Tell who listens on a channel once the present (sub)transaction has
 * committed, if there is room.
 */
void
NotifyAtCommit(const char *channel, const char *payload)
{
	PendingAdd(&told, channel, payload);
}

/*
 * Send what is about to commit, forget what is not.
 */
static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (told != NULL)
				send_all();
			told = NULL;
			break;
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			told = NULL;
			break;
		default:
			break;
	}
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId self,
					  SubTransactionId parent, void *arg)
{
	PendingEndSub(&told, event);
}

/*
 * Send what there is room for.  An entry that does not fit into the rest of a
 * page begins the next, so entries take at most twice their bytes.
 */
static void
send_all(void)
{
	bool		locked = queue_limit > 0 && lock_queue();
	double		left = locked ? free_bytes() : 0;
	int64		n = 0;

	for (Pending *one = PendingInOrder(told); one != NULL; one = one->next)
	{
		left -= 2 * (API_BYTES + strlen(one->channel) + strlen(one->text));
		if (left >= 0)
			Async_Notify(one->channel, one->text);
		else
			n++;
	}
	if (n > 0 && queue_limit > 0)
		note_dropped(n, locked ? "queue_full" : "queue_busy");
}

/*
 * The lock of PreCommit_Notify().  False: another has it, for too long, or the
 * lock table is full.
 */
static bool
lock_queue(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, InvalidOid, 0);
	for (int i = 0; i < WAIT_MS; i++)
	{
		if (CompatLockIfRoom(&tag, AccessExclusiveLock) !=
			LOCKACQUIRE_NOT_AVAIL)
			return true;
		pg_usleep(1000);
	}
	return false;
}

/*
 * How many bytes of the queue may be used, but for a page that was begun.
 */
static double
free_bytes(void)
{
	double		used = DatumGetFloat8(DirectFunctionCall1(pg_notification_queue_usage,
														  (Datum) 0));

	return ((queue_limit - used) * NOTIFY_QUEUE_PAGES - 2) * BLCKSZ;
}

static void
note_dropped(int64 n, const char *reason)
{
	StringInfo	line = LogBegin("notify_dropped");

	LogText(line, "reason", reason);
	LogNumber(line, "notifications", n);
	LogAtCommit(line);
	if (SegmentReady() && SegmentDatabase() >= 0)
		pg_atomic_fetch_add_u64(&dropped[SegmentDatabase()], n);
}
