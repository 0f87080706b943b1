/*-------------------------------------------------------------------------
 *
 * notify.c
 *		Notifications at the commit, if the queue has room.
 *
 * They are sent when the transaction is about to commit.  pg_notify() would
 * send at once, and a transaction that has called it cannot be prepared.  A
 * transaction that is prepared sends no notifications, because another session
 * commits it.
 *
 * PostgreSQL has one notification queue for all databases, and any login can
 * fill it: while a session that listens stays in a transaction, all later
 * entries are kept.  Once the queue is full, a commit with a notification
 * fails (54000). Our calls must not fail because of this, and what they notify
 * about can also be read from tables.  So notifications are dropped and
 * counted once the queue is full up to gpucredit.notify_queue_limit.
 *
 * To know the queue's use at the commit, this code acquires the lock that
 * PostgreSQL itself acquires a moment later to write to the queue.  The lock
 * is kept until the transaction ends, so no other session fills the queue in
 * between.  A commit that fills the queue, or waits for a standby, may keep
 * that lock for long, and any login can fill the lock table.  So this code
 * tries to get the lock for WAIT_MS at most, and then drops its notifications.
 *
 * Locks: the notification queue, last of all.
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

#define WAIT_MS		100			/* milliseconds to wait for the queue's lock */
#define ENTRY_BYTES	32			/* bytes of an entry without its two texts */

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
static pg_atomic_uint64 *dropped = NULL;	/* number of dropped
											 * notifications, by database */
static Pending *notifications = NULL;

void
NotifyInit(void)
{
	DefineCustomRealVariable("gpucredit.notify_queue_limit",
							 "How full the server's NOTIFY queue may get "
							 "before gpucredit stops adding to it, as a "
							 "fraction.",
							 "Above that, notifications are dropped and "
							 "counted; no call fails for them. 0: none is "
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
 * Returns how many notifications were dropped in this database.  The database
 * must have an entry in shared memory.
 */
uint64
NotifyDropped(void)
{
	return pg_atomic_read_u64(&dropped[SegmentDatabase()]);
}

/*
 * Notifies a channel when the present (sub)transaction has committed, if the
 * queue has room.
 */
void
NotifyAtCommit(const char *channel, const char *payload)
{
	PendingAdd(&notifications, channel, payload);
}

/*
 * Sends the notifications of a transaction that commits, and drops those of
 * one that rolls back.
 */
static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (notifications != NULL)
				send_all();
			notifications = NULL;
			break;
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			notifications = NULL;
			break;
		default:
			break;
	}
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId self,
					  SubTransactionId parent, void *arg)
{
	PendingEndSub(&notifications, event);
}

/*
 * Sends as many notifications as there is room for.  An entry that does not
 * fit the rest of a page begins the next page, so entries need at most twice
 * their own size.
 */
static void
send_all(void)
{
	bool		locked = queue_limit > 0 && lock_queue();
	double		left = locked ? free_bytes() : 0;
	int64		n = 0;

	for (Pending *one = PendingInOrder(notifications); one != NULL; one = one->next)
	{
		left -= 2 * (ENTRY_BYTES + strlen(one->channel) + strlen(one->text));
		if (left >= 0)
			Async_Notify(one->channel, one->text);
		else
			n++;
	}
	if (n > 0 && queue_limit > 0)
		note_dropped(n, locked ? "queue_full" : "queue_busy");
}

/*
 * Acquires the lock that PreCommit_Notify() will need.  Returns false if
 * another session has kept it for too long, or if the lock table is full.
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
 * Returns how many bytes of the queue may still be used.  The page in use is
 * not counted.
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
