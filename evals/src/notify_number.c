/*-------------------------------------------------------------------------
 *
 * notify_number.c
 *		Notifications at the commit, if the server's queue has room.
 *
 * pg_notify() would send at once, so that a transaction which called it could
 * not be prepared, and its commit would fail (54000) where the server's queue
 * is full, which any login can bring about.  A report or a score must not fail
 * for its notification, as table event has the same news.  So notifications
 * wait for the commit, and are dropped once the queue is used up to
 * gpucredit.notify_queue_limit.  A prepared transaction sends none.
 *
 * Locks: the server's lock on its notification queue, last of all.  The commit
 * takes it anyway, a moment later; held from here on, it keeps other sessions
 * from filling the queue in between.  Where another session keeps it longer
 * than WAIT_MS, the notifications are dropped.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/async.h"
#include "miscadmin.h"
#include "notify_number.h"
#include "storage/lock.h"
#include "types/entry.h"
#include "util/commit_queue.h"
#include "util/compat.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"

#define WAIT_MS		100			/* for the queue's lock */
#define ENTRY_BYTES	32			/* of an entry, without its two texts */
#define LIMIT		"gpucredit.notify_queue_limit"
#define OTHERWISE	0.9			/* its default */

PG_FUNCTION_INFO_V1(gpucredit_eval_notify_number);

static Pending *notifications = NULL;

static void at_transaction_end(XactEvent event, void *arg);
static void at_subtransaction_end(SubXactEvent event, SubTransactionId self,
								  SubTransactionId parent, void *arg);
static void send_all(void);
static bool lock_queue(void);
static double free_bytes(double limit);

void
NotifyNumberInit(void)
{
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
}

/*
 * notify_number(channel, number): notifies a channel of the number of a row,
 * once the present (sub)transaction has committed.
 */
Datum
gpucredit_eval_notify_number(PG_FUNCTION_ARGS)
{
	PendingAdd(&notifications, text_to_cstring(PG_GETARG_TEXT_PP(0)),
			   psprintf(INT64_FORMAT, PG_GETARG_INT64(1)));
	PG_RETURN_VOID();
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
	const char *setting = GetConfigOption(LIMIT, true, false);
	double		limit = setting == NULL ? OTHERWISE : strtod(setting, NULL);
	double		left = limit > 0 && lock_queue() ? free_bytes(limit) : 0;
	int			dropped = 0;

	for (Pending *one = PendingInOrder(notifications); one != NULL;
		 one = one->next)
	{
		left -= 2 * (ENTRY_BYTES + strlen(one->channel) + strlen(one->text));
		if (left >= 0)
			Async_Notify(one->channel, one->text);
		else
			dropped++;
	}
	if (dropped > 0 && limit > 0)
		ereport(LOG,
				(errmsg("gpucredit_eval dropped %d notifications", dropped),
				 errdetail("The server's notification queue is full or locked."),
				 errhint("Table gpucredit_eval.event has the same news.")));
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
free_bytes(double limit)
{
	double		used = DatumGetFloat8(DirectFunctionCall1(pg_notification_queue_usage,
														  (Datum) 0));

	return ((limit - used) * NOTIFY_QUEUE_PAGES - 2) * BLCKSZ;
}
