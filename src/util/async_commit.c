/*-------------------------------------------------------------------------
 *
 * async_commit.c
 *		Transactions whose commit need not wait for the disk.
 *
 * A heartbeat tells how long an attempt has run so far.  The next one tells
 * that again, so a crash may lose the last of them, and its commit need not
 * wait.  What must not be lost is everything else, so a transaction commits
 * asynchronously only where it has written nothing else.
 *
 * The write-ahead log says so.  Whoever makes a harmless write asks first
 * whether all that the transaction has logged so far was harmless, and notes
 * afterwards how far the log reaches now.  Whatever is logged between two such
 * writes, or after the last one, by whomever and for whatever reason, moves
 * XactLastRecEnd past the note, and the commit waits as always.
 *
 * It also waits where the call is no statement of its own: in a transaction
 * block, after another statement of a pipeline or of a query string, within a
 * function, DO or a cursor.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "util/async_commit.h"
#include "util/settings.h"
#include "tcop/pquery.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/portal.h"

/* How far the log reaches after the last harmless write; 0: there is none. */
static XLogRecPtr harmless = InvalidXLogRecPtr;

static bool is_statement(FunctionCallInfo fcinfo);
static void at_transaction_end(XactEvent event, void *arg);

/*
 * Before all others that are told of a commit: callbacks are called in the
 * reverse order, so what the others write is seen.
 */
void
AsyncCommitInit(void)
{
	RegisterXactCallback(at_transaction_end, NULL);
}

/*
 * May the transaction commit asynchronously, if what is written next allows
 * it?
 */
bool
AsyncCommitMay(FunctionCallInfo fcinfo)
{
	return XactLastRecEnd == harmless && !SettingMeterDurable() &&
		is_statement(fcinfo);
}

/*
 * What was written since AsyncCommitMay(), which said so, allows it.
 */
void
AsyncCommitAllow(bool may)
{
	if (may)
		harmless = XactLastRecEnd;
}

/*
 * Is the call part of a statement that a client sent, and the only one of its
 * transaction so far?  The client's own portal has no name where it is not a
 * cursor, and the executor's state of its statement is below it.
 */
static bool
is_statement(FunctionCallInfo fcinfo)
{
	return !IsInTransactionBlock(true) &&
		ActivePortal != NULL && ActivePortal->name[0] == '\0' &&
		MemoryContextGetParent(fcinfo->flinfo->fn_mcxt) ==
		ActivePortal->portalContext;
}

/*
 * As SET LOCAL synchronous_commit = off, where all that was written is
 * harmless.
 */
static void
at_transaction_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT &&
		harmless != InvalidXLogRecPtr && XactLastRecEnd == harmless &&
		synchronous_commit > SYNCHRONOUS_COMMIT_OFF)
		(void) set_config_option("synchronous_commit", "off", PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
								 false);
	harmless = InvalidXLogRecPtr;
}
