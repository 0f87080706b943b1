/*-------------------------------------------------------------------------
 *
 * async_commit.c
 *		Transactions whose commit need not wait for the disk.
 *
 * A heartbeat reports how long an attempt has run, and the next one repeats
 * it. So a crash may lose the last one, and its commit need not wait.  All
 * other writes must survive, so only a transaction without them commits
 * asynchronously.
 *
 * The write-ahead log tells them apart.  The writer of a heartbeat first
 * checks that all earlier log records of the transaction are heartbeats', and
 * then notes the log's new end.  Any other record moves XactLastRecEnd past
 * the note, and the commit waits.
 *
 * The commit also waits if the call is no statement of its own: in a
 * transaction block, after another statement of a pipeline or of a query
 * string, within a function, DO or a cursor.
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

/* The log's end after the last heartbeat's write; 0: there is none. */
static XLogRecPtr harmless = InvalidXLogRecPtr;

static bool is_statement(FunctionCallInfo fcinfo);
static void at_transaction_end(XactEvent event, void *arg);

/*
 * This callback must run last, to see the others' writes.  Callbacks run in
 * the reverse order, so it registers first.
 */
void
AsyncCommitInit(void)
{
	RegisterXactCallback(at_transaction_end, NULL);
}

/*
 * May the transaction commit asynchronously, if the next write is a
 * heartbeat's?
 */
bool
AsyncCommitMay(FunctionCallInfo fcinfo)
{
	return XactLastRecEnd == harmless && !SettingMeterDurable() &&
		is_statement(fcinfo);
}

/*
 * Note that all writes since AsyncCommitMay() were a heartbeat's.
 */
void
AsyncCommitAllow(bool may)
{
	if (may)
		harmless = XactLastRecEnd;
}

/*
 * Is the call part of a client's statement, and the only one of its
 * transaction so far?  A client's own portal has no name unless it is a
 * cursor, and its executor state lies below.
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
 * Do as SET LOCAL synchronous_commit = off, if all writes are heartbeats'.
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
