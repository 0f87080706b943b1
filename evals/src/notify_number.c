/*-------------------------------------------------------------------------
 *
 * notify_number.c
 *		Sends notifications at commit, if the server's queue has room.
 *
 * pg_notify() itself would have two disadvantages: a transaction that called
 * it could not be prepared, and its commit would fail (54000) if the server's
 * queue is full, which any login can cause. A report or a score must not fail
 * because of its notification, as table event contains the same news.
 * Therefore notifications are kept until the commit, and are dropped if the
 * queue is used up to gpucredit.notify_queue_limit. A prepared transaction
 * sends none.
 *
 * Locks: the server's lock on its notification queue, after all other locks.
 * The commit takes it anyway, a moment later; holding it from here on keeps
 * other sessions from filling the queue in between. If another session holds
 * it longer than WAIT_MS, the notifications are dropped.
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

#define WAIT_MS		100			/* how long to wait for the queue's lock */
#define ENTRY_BYTES	32			/* bytes of an entry without its two texts */
#define LIMIT		"gpucredit.notify_queue_limit"
#define OTHERWISE	0.9			/* default value of the setting */

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
 * notify_number(channel, number): notifies a channel of a row's number, once
 * the present (sub)transaction has committed.
 */
Datum
gpucredit_eval_notify_number(PG_FUNCTION_ARGS)
{
	PendingAdd(&notifications, text_to_cstring(PG_GETARG_TEXT_PP(0)),
			   psprintf(INT64_FORMAT, PG_GETARG_INT64(1)));
	PG_RETURN_VOID();
}

/*
 * Sends the notifications of a commit, and drops those of a rollback.
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
 * Sends as many notifications as fit. An entry that does not fit into the rest
 * of a page begins the next page, so entries occupy at most twice their bytes.
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
 * Takes the lock of PreCommit_Notify(). Returns false if another session has
 * held it too long, or the lock table is full.
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
 * Returns how many bytes of the queue may be used, without a partly used page.
 */
static double
free_bytes(double limit)
{
	double		used = DatumGetFloat8(DirectFunctionCall1(pg_notification_queue_usage,
														  (Datum) 0));

	return ((limit - used) * NOTIFY_QUEUE_PAGES - 2) * BLCKSZ;
}
