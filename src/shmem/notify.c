/*-------------------------------------------------------------------------
 *
 * notify.c
 *		Notifications at the commit, if the queue has room.
 *
 * They are sent when the transaction is about to commit.  pg_notify() sends at
 * once, and a transaction that did so cannot be prepared.  A prepared
 * transaction sends none: it commits elsewhere.
 *
 * PostgreSQL has one notification queue for all databases, and any login can
 * fill it: a session that listens and stays in a transaction keeps all later
 * entries. Then a commit with a notification fails (54000).  Our calls must
 * not fail, and their tables have the same news.  So notifications are dropped
 * and counted once the queue is used up to gpucredit.notify_queue_limit.
 *
 * To know that before the commit, this code takes the lock that PostgreSQL
 * takes a moment later to write to the queue.  It holds the lock until the
 * transaction ends, so no other session fills the queue in between.  A commit
 * that fills the queue, or waits for a standby, keeps that lock for long, and
 * any login can fill the lock table.  So this code tries for WAIT_MS at most,
 * and then drops its notifications.
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

#define WAIT_MS		100			/* for the queue's lock */
#define ENTRY_BYTES	32			/* of an entry, without its two texts */

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
 * How many were dropped in this database; it has an entry.
 */
uint64
NotifyDropped(void)
{
	return pg_atomic_read_u64(&dropped[SegmentDatabase()]);
}

/*
 * Notify a channel once the present (sub)transaction has committed, if there
 * is room.
 */
void
NotifyAtCommit(const char *channel, const char *payload)
{
	PendingAdd(&notifications, channel, payload);
}

/*
 * Send the notifications of a commit; forget those of a rollback.
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
 * Send as many as fit.  An entry that does not fit into the rest of a page
 * begins the next page, so entries take at most twice their bytes.
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
 * The lock of PreCommit_Notify().  False: another session has kept it too
 * long, or the lock table is full.
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
 * How many bytes of the queue may be used, without a begun page.
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
